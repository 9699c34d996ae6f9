"""Where in a mirror a URL's file is: the same place for the same URL, whatever was fetched before,
and a name that every file system takes."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from crawler.sinks.references import Role

# A name of a file or folder; most file systems take 255 bytes, some tools fewer.
_NAME_CHARS_MAX: Final = 80
# A whole path in the mirror: Windows takes 260 characters, the mirror's own folder among them.
_PATH_CHARS_MAX: Final = 180

_FOLDER: Final = re.compile(rf"[a-z0-9_-]{{1,{_NAME_CHARS_MAX}}}\Z")
_FILE: Final = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]{0,78}[a-z0-9_-])?\Z")
_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,78}[a-z0-9])?\Z")
# Device names of Windows, with any ending.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)")
_UNSAFE: Final = re.compile(r"[^a-z0-9_-]+")
_KNOWN: Final = (
    "html htm css js mjs json xml rss atom txt csv md pdf png apng jpg jpeg gif webp avif"
    " svg ico bmp tif tiff woff woff2 ttf otf eot mp4 m4v webm ogv ogg oga mp3 m4a wav flac vtt"
    " webmanifest zip gz tgz bz2 xz tar 7z rar doc docx xls xlsx ppt pptx odt ods odp epub"
)
ENDINGS: Final = frozenset(_KNOWN.split())
PART: Final = ".part"
_OF_ROLE: Final = {
    Role.PAGE: ".html",
    Role.STYLE: ".css",
    Role.SCRIPT: ".js",
    Role.MANIFEST: ".json",
    Role.PART: PART,  # browsers look at the bytes of an image, a font or a film
}
DRAWING: Final = ".svg"


def has_ending(url: str) -> bool:
    """Does the URL itself say by its ending what kind of file it is?"""
    return bool(_split(url)[3])


@lru_cache(maxsize=12_000)  # the links of a site's pages are mostly the same; about 5 MB
def file_of(url: str, role: Role, ending: str | None = None) -> str:
    """The path, with "/" between its names, of a canonical URL's file. Where the URL has no ending
    that is known, the role gives it, or `ending` (with its dot).

    No two URLs have the same path, also where case does not count: a name that does not say the
    whole of its URL has the beginning of its hash in it, behind a "~", which no other name has."""
    folder, folders, stem, own, exact = _split(url)
    ending = f".{own}" if own else (ending or _OF_ROLE[role])
    name = stem if own or stem == "index" else f"{stem}~"
    if not exact:
        digest = blake2b(url.encode(), digest_size=5).hexdigest()
        name = f"{stem}~{digest}"
    path = "/".join([folder, *folders, name + ending])
    if len(path) > _PATH_CHARS_MAX:
        digest = blake2b(url.encode(), digest_size=10).hexdigest()
        path = f"{folder}/{stem[:40]}~{digest}{ending}"
    return path


def drawing(url: str) -> str:
    """The path of a URL's file if it is a drawing: browsers know one by its ending alone."""
    return file_of(url, Role.PART, DRAWING)


def as_drawing(path: str) -> str:
    """The same path of a file that has no known ending, if it is a drawing."""
    return path.removesuffix(PART) + DRAWING if path.endswith(PART) else path


def relative(to: str, start: str) -> str:
    """From one file to another, as an href: names have no character that would be escaped there."""
    here, there = start.split("/")[:-1], to.split("/")
    shared = 0
    for one, other in zip(here, there[:-1], strict=False):
        if one != other:
            break
        shared += 1
    return "../" * (len(here) - shared) + "/".join(there[shared:])


def _split(url: str) -> tuple[str, list[str], str, str, bool]:
    """(host's folder, folders, stem, known ending, whether they say the whole URL)."""
    scheme, _, rest = url.partition("://")
    authority, _, rest = rest.partition("/")
    path, question, _ = rest.partition("?")
    host, colon, port = authority.partition(":") if authority[:1] != "[" else (authority, "", "")
    exact = not question
    # The mirror's own first page is "index.html".
    if not _HOST.match(host) or ".." in host or _RESERVED.match(host) or host == "index.html":
        digest = blake2b(authority.encode(), digest_size=5).hexdigest()
        host = f"{_UNSAFE.sub('_', host)[:40]}~{digest}"
    folder = host + ("" if scheme == "https" else f"+{scheme}") + (f"+{port}" if colon else "")
    *parents, last = path.split("/")
    folders = []
    for name in parents:
        good = bool(_FOLDER.match(name)) and not _RESERVED.match(name)
        exact = exact and good
        folders.append(name if good else _cleaned(name))
    if not last:
        return folder, folders, "index", "html", exact
    stem, dot, ending = last.rpartition(".")
    known = ending.lower() in ENDINGS and bool(dot) and bool(stem)
    if not known:
        stem, ending = last, ""
    good = bool(_FILE.match(last)) and not _RESERVED.match(last)
    # What stands for the folder itself.
    good = good and last != "index.html" and (bool(known) or last != "index")
    exact = exact and good
    return folder, folders, stem if good else _cleaned(stem), ending.lower(), exact


def _cleaned(name: str) -> str:
    """What can be kept of a name; never empty, nor one that a system has use for."""
    name = _UNSAFE.sub("_", name.lower())[:40].strip("_") or "_"
    return f"{name}_" if _RESERVED.match(name) else name

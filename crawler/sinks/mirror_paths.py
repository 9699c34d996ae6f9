"""Paths of files in a mirror.

The path depends on the URL only, not on what was fetched before, and is valid on every file system.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from crawler.sinks.references import ReferenceRole

# Length of one name. Most file systems allow 255 bytes, some tools fewer.
_NAME_CHARS_MAX: Final = 80
# Length of a path in the mirror. Windows allows 260 characters including the mirror's folder.
_PATH_CHARS_MAX: Final = 180

_FOLDER: Final = re.compile(rf"[a-z0-9_-]{{1,{_NAME_CHARS_MAX}}}\Z")
_FILE: Final = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]{0,78}[a-z0-9_-])?\Z")
_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,78}[a-z0-9])?\Z")
# Device names of Windows, with any extension.
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
    ReferenceRole.PAGE: ".html",
    ReferenceRole.STYLE: ".css",
    ReferenceRole.SCRIPT: ".js",
    ReferenceRole.MANIFEST: ".json",
    ReferenceRole.PART: PART,  # browsers recognise images, fonts and media by content
}
DRAWING: Final = ".svg"


def has_ending(url: str) -> bool:
    """Return whether the URL ends in a known file extension."""
    return bool(_split(url)[3])


@lru_cache(maxsize=12_000)  # about 5 MB; pages of a site share most links
def file_of(url: str, role: ReferenceRole, ending: str | None = None) -> str:
    """Return the path of a canonical URL's file, with "/" between names.

    If the URL has no known extension, it is `ending` (with its dot), or given by the role.

    Paths are unique, even on case-insensitive file systems: a name that does not contain the
    complete URL contains "~" and the start of a hash.
    """
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
    """Return the path of a URL's file if it is an SVG, which browsers recognise by extension."""
    return file_of(url, ReferenceRole.PART, DRAWING)


def as_drawing(path: str) -> str:
    """Return the path that a file without a known extension has if it is an SVG."""
    return path.removesuffix(PART) + DRAWING if path.endswith(PART) else path


def relative(to: str, start: str) -> str:
    """Return the href from one file to another. Names contain no characters to be escaped."""
    here, there = start.split("/")[:-1], to.split("/")
    shared = 0
    for one, other in zip(here, there[:-1], strict=False):
        if one != other:
            break
        shared += 1
    return "../" * (len(here) - shared) + "/".join(there[shared:])


def _split(url: str) -> tuple[str, list[str], str, str, bool]:
    """Return the host's folder, folders, stem, known extension, and whether the URL is complete."""
    scheme, _, rest = url.partition("://")
    authority, _, rest = rest.partition("/")
    path, question, _ = rest.partition("?")
    host, colon, port = authority.partition(":") if authority[:1] != "[" else (authority, "", "")
    exact = not question
    # "index.html" is the mirror's start page.
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
    # These names are used for the folder itself.
    good = good and last != "index.html" and (bool(known) or last != "index")
    exact = exact and good
    return folder, folders, stem if good else _cleaned(stem), ending.lower(), exact


def _cleaned(name: str) -> str:
    """Replace unsafe characters. The result is neither empty nor reserved."""
    name = _UNSAFE.sub("_", name.lower())[:40].strip("_") or "_"
    return f"{name}_" if _RESERVED.match(name) else name

"""Changes to the links of files in a mirror, after more files have been added."""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from dataclasses import dataclass
from typing import Final

from crawler.documents import markup
from crawler.documents.decoders import UTF8, decode
from crawler.sinks import references as limits
from crawler.sinks.mirror_paths import DRAWING, PART, file_of, relative
from crawler.sinks.references import ReferenceRole
from crawler.sinks.rewriting import BLANK, ORIGIN, REFRESH, quoted, without_active_names

STUB_REFRESH: Final = "0; url="  # the refresh of a stub
# An attribute with a target, followed by ORIGIN, possibly after other attributes. Inside a document
# in an attribute (srcdoc), quotes are escaped.
_MARKED: Final = re.compile(
    rb"(?<![\w:-])(?P<name>href|xlink:href|src|content)=(?P<quote>\"|&(?:amp;){0,3}+quot;)"
    rb"(?P<value>(?:(?!(?P=quote))[^\"])*+)(?P=quote)(?: [^\s\"=<>/]++=\"[^\"]*+\"){0,20}?"
    rb" " + ORIGIN.encode() + rb"=(?P=quote)(?P<origin>(?:(?!(?P=quote))[^\"])*+)(?P=quote)",
    re.IGNORECASE,
)
_PART_NAME: Final = re.compile(rb"(?<![\w./~+-])[\w./~+-]++(?<=\.part)")


def relinked(
    page: bytes, path: str, files: Container[str], drawings: Collection[str] = ()
) -> bytes | None:
    """Point the links of a file to existing files, and others to the web.

    path: of the file in the mirror.
    files: the names of existing files.
    drawings: names of images whose URLs have no extension and whose files have that of an SVG.

    Return None if all links are correct already. `page` was written by `rewritten`.
    """
    links = _Links(path=path, files=files, room_bytes=limits.GROWTH_BYTES_MAX)
    changed = _MARKED.sub(links.replace, page)
    if drawings:
        written = {relative(name, path).encode() for name in drawings}

        def drawn(found: re.Match[bytes]) -> bytes:
            name = found[0]
            return name.removesuffix(PART.encode()) + DRAWING.encode() if name in written else name

        return _PART_NAME.sub(drawn, changed)
    return changed if links.is_changed else None


@dataclass(slots=True, kw_only=True)
class _Links:
    """The links of one file."""

    path: str
    files: Container[str]
    room_bytes: int
    is_changed: bool = False

    def replace(self, found: re.Match[bytes]) -> bytes:
        quote = found["quote"]
        depth = 1 if quote == b'"' else 2 + quote.count(b"amp;")
        value, origin = (_unquoted(found[name], depth) for name in ("value", "origin"))
        target = self._target(origin, found["name"].decode().lower(), value)
        if target == value:
            return found[0]
        written = without_active_names(target.encode("utf-8", "replace"))
        for _ in range(depth):
            written = quoted(written)
        growth_bytes = len(written) - len(found["value"])
        if growth_bytes > self.room_bytes:
            return found[0]
        self.room_bytes -= max(growth_bytes, 0)
        self.is_changed = True
        start, end = (at - found.start() for at in found.span("value"))
        return found[0][:start] + written + found[0][end:]

    def _target(self, url: str, attribute: str, value: str) -> str:
        before, href = "", value
        if attribute == "content":
            found = REFRESH.match(value)
            before, href = (STUB_REFRESH, "") if found is None else (found[1], found[2])
        _, mark, fragment = href.partition("#")
        name = file_of(url, ReferenceRole.PAGE)
        if name in self.files:
            return before + relative(name, self.path) + mark + fragment
        if attribute == "content":
            return ""  # never leads to the web without a click
        return BLANK if attribute == "src" else url + mark + fragment


def _unquoted(value: bytes, depth: int) -> str:
    text = decode(value, UTF8)
    for _ in range(depth):
        text = markup.unescaped_value(text)
    return text

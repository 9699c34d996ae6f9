"""Copies of SVG elements that a page shows by `use`.

From disk, browsers do not load them from another file. Only shapes are copied, with attributes that
describe their appearance. Values are restricted to characters that cannot end an attribute, so they
are harmless in every state of an HTML parser.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, Protocol
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from crawler.documents import markup
from crawler.sinks.mirror_paths import DRAWING, PART

DRAWING_BYTES_MAX: Final = 2_000_000  # of a file; real ones stay below 1.5 MB
COPIED_BYTES_MAX: Final = 1_000_000  # into one page
DRAWINGS_MAX: Final = 10  # in one page; real ones have one or two
_DEPTH_MAX: Final = 50

_ELEMENT_NAMES: Final = (
    "symbol svg g defs use path rect circle ellipse line polyline polygon linearGradient"
    " radialGradient stop clipPath mask pattern marker filter feBlend feColorMatrix"
    " feComponentTransfer feComposite feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR"
    " feGaussianBlur feMerge feMergeNode feMorphology feOffset"
)
_ATTRIBUTE_NAMES: Final = (
    "viewBox preserveAspectRatio x y x1 x2 y1 y2 cx cy r rx ry fx fy fr width height d points"
    " pathLength transform opacity fill fill-opacity fill-rule stroke stroke-width stroke-linecap"
    " stroke-linejoin stroke-miterlimit stroke-dasharray stroke-dashoffset stroke-opacity color"
    " display visibility overflow style clip-path clip-rule clipPathUnits mask mask-type maskUnits"
    " maskContentUnits filter filterUnits primitiveUnits color-interpolation-filters patternUnits"
    " patternContentUnits patternTransform gradientUnits gradientTransform spreadMethod offset"
    " stop-color stop-opacity marker-start marker-mid marker-end markerUnits markerWidth"
    " markerHeight orient refX refY vector-effect paint-order shape-rendering in in2 result mode"
    " type values stdDeviation dx dy operator k1 k2 k3 k4 radius flood-color flood-opacity"
    " tableValues slope intercept amplitude exponent"
)
_ELEMENTS: Final = frozenset(_ELEMENT_NAMES.split())
_ATTRIBUTES: Final = frozenset(_ATTRIBUTE_NAMES.split())
_SVG: Final = "{http://www.w3.org/2000/svg}"
_HREFS: Final = ("href", "{http://www.w3.org/1999/xlink}href")
_VALUE: Final = re.compile(r"(?:[\w\s.,()#%+;:-])*+", re.ASCII)
_URL: Final = re.compile(r"url\(\s*+(?:#([^\s()\"'<>&=\\]++)\s*+\))?", re.IGNORECASE)
# A reference to a file as written by `rewriting`.
_USED: Final = re.compile(rb"<use[\t\n\f\r /][^<>]*?href=\"([^\"#<>:\\]++)#", re.IGNORECASE)

_Drawing = dict[str, ET.Element]  # elements by their ids


def drawings_used(page: bytes, path: str) -> list[str]:
    """Return the SVG files, at most DRAWINGS_MAX, whose elements the file `path` shows."""
    names = (_file(found[1].decode("utf-8", "replace"), path) for found in _USED.finditer(page))
    return list(dict.fromkeys(name for name in names if name))[:DRAWINGS_MAX]


class FileReader(Protocol):
    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        ...


class Symbols:
    """Copies SVG elements into pages.

    skipped: number of references that stay unchanged because of a limit of this module.
    """

    def __init__(self, files: FileReader) -> None:
        self._files = files
        self._last: tuple[str, _Drawing | None] = ("", {})  # pages of a site share one file
        self.skipped = 0

    def shown(self, page: bytes, path: str) -> bytes | None:
        """Copy the elements into the page and point references to them. None if nothing changes."""
        uses: dict[str, list[tuple[str, int, int]]] = {}
        for tag, raw, start, *_ in markup.tags_with_attributes(page):
            if tag != b"use":
                continue
            for name, (value, begins, ends) in markup.located(raw, start + 4).items():
                href, _, fragment = value.partition("#")
                if fragment and name in ("href", "xlink:href") and (file := _file(href, path)):
                    uses.setdefault(file, []).append((unquote(fragment), begins, ends))
        copies = _Copies()
        edits: list[tuple[int, int, bytes]] = []
        for number, (file, places) in enumerate(uses.items()):
            drawing = self._drawing(file) if number < DRAWINGS_MAX else None
            for target, begins, ends in places:
                if drawing is None or (target in drawing and not copies.add(file, drawing, target)):
                    self.skipped += 1
                elif target in drawing:
                    edits.append((begins, ends, f'href="#{_id(file, target)}"'.encode()))
        if not edits:
            return None
        out: list[bytes] = []
        at = 0
        for begins, ends, new_href in sorted(edits):
            out += (page[at:begins], new_href)
            at = ends
        holder = '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
        return b"".join((*out, page[at:], f"{holder}{copies.written()}</defs></svg>".encode()))

    def _drawing(self, file: str) -> _Drawing | None:
        """Return the elements of an SVG file by id, or None if it is too large.

        A file that does not exist or is not well-formed has none.
        """
        if self._last[0] != file:
            content = self._files.read(file) or b""
            too_large = len(content) > DRAWING_BYTES_MAX
            self._last = (file, None if too_large else _elements(content))
        return self._last[1]


def _elements(content: bytes) -> _Drawing:
    found: _Drawing = {}
    try:
        root = ET.fromstring(content)  # noqa: S314 - without a document type it has no entities
    except (ET.ParseError, ValueError, LookupError):
        return found
    for one in root.iter():
        if (id_ := one.get("id")) is not None:
            found.setdefault(id_, one)
    return found


class _Copies:
    """The elements copied into one page, each once."""

    def __init__(self) -> None:
        self._done: dict[str, list[str]] = {}
        self._room_bytes = COPIED_BYTES_MAX

    def written(self) -> str:
        return "".join(part for parts in self._done.values() for part in parts)

    def add(self, file: str, drawing: _Drawing, target: str) -> bool:
        """Copy an element with everything it refers to. Return False if the limit is reached."""
        added: list[str] = []
        needed = [target]
        while needed:
            id_ = needed.pop()
            own = _id(file, id_)
            if own in self._done or id_ not in drawing:
                continue
            added.append(own)
            parts = self._done[own] = []
            for part in _copied(drawing[id_], file, needed, 0):
                self._room_bytes -= len(part) + 8  # omitted parts take time, too
                if self._room_bytes < 0:
                    for one in added:
                        del self._done[one]
                    return False
                parts.append(part)
        return True


def _copied(element: ET.Element, file: str, needed: list[str], depth: int) -> Iterator[str]:
    """Yield an element as HTML. The ids that it refers to are added to `needed`."""
    name = element.tag.removeprefix(_SVG)
    if not element.tag.startswith(_SVG) or name not in _ELEMENTS or depth > _DEPTH_MAX:
        yield ""
        return
    yield f"<{name}"
    for attribute, value in element.items():
        if attribute == "id":
            yield f' id="{_id(file, value)}"'
        elif attribute in _HREFS and value.startswith("#"):
            needed.append(value[1:])
            yield f' href="#{_id(file, value[1:])}"'
        elif attribute in _ATTRIBUTES:
            ids = _URL.findall(value)
            if all(ids):
                needed += ids
                value = _URL.sub(lambda found: f"url(#{_id(file, found[1])})", value)
                if _VALUE.fullmatch(value):
                    yield f' {attribute}="{value}"'
    yield ">"
    for inner in element:
        yield from _copied(inner, file, needed, depth + 1)
    yield f"</{name}>"


def _file(href: str, path: str) -> str | None:
    """Return the SVG file of the mirror that a reference in the file `path` leads to, if any."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(path), href))
    known = name.endswith((DRAWING, PART, ".xml")) and ":" not in href
    return name if known and name[:1] not in "./" else None


def _id(file: str, id_: str) -> str:
    """Return an id for a copy that conflicts neither with the page nor with other files."""
    digest = blake2b(f"{file}#{id_}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"courtly-{digest}"

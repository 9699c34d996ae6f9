"""An upper bound of the bytes that Lexbor copies when it merges text nodes.

Text on both sides of an ignored tag becomes one node, as does text in a table outside its cells.
The attributes of such tags, and comments in such a table, are stored after the text. Each further
piece then moves the text without freeing memory: 600 KB of text between ignored `<td class=…>` tags
take 600 MB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crawler.documents.open_elements import TABLE_PARTS

_CELLS: Final = frozenset({b"td", b"th", b"caption"})
# Start tags that may be ignored, or only add attributes.
_PERHAPS_IGNORED: Final = frozenset({b"html", b"head", b"body", b"form", b"frame"})
# Other elements that a table may contain. All other content is moved before the table.
_IN_TABLE: Final = frozenset({b"style", b"script", b"template", b"input", b"form"})
# Start tags that must be reported to `start`. While `plain`, any other one ends a text node.
SPECIAL: Final = TABLE_PARTS | _PERHAPS_IGNORED | {b"table", b"template", b"frameset"}


@dataclass(slots=True, eq=False)
class MergedText:
    """Tracks the tags of a document. `copied_bytes` is at least what the parser copies.

    Only a start tag that certainly inserts an element ends a text node, and only a cell that is
    certainly open keeps text inside its table.

    run: bytes that may be in the latest text node; `moved`: in the one before the table.
    plain: no table, template or frameset is open, so the caller may update `run` directly.
    tables: numbers of tables that may be open; `cells`: for each table that is certainly open,
        whether a cell is open in it.
    """

    copied_bytes: int = 0
    run: int = 0
    plain: bool = True
    moved: int = 0
    tables: int = 0
    cells: list[bool] = field(default_factory=list)
    templates: int = 0
    frames: bool = False

    @property
    def _in_cell(self) -> bool:
        return not self.tables or (bool(self.cells) and self.cells[-1])

    def add(self, text: bytes) -> None:
        """Text between two tags."""
        self.run += len(text)
        if self.tables and not self._in_cell and not text.isspace():
            self.moved += len(text)
            self.copied_bytes += self.moved

    def start(self, name: bytes, *, attributes: bool, unusual: bool) -> None:
        """Process a start tag.

        attributes: whether it may have attributes.
        unusual: whether SVG, MathML or framesets are open.
        """
        if name == b"frameset":
            self.frames = True
        self.plain = self.plain and name not in (b"frameset", b"template", b"table")
        if unusual or self.templates or self.frames:
            self._unsure(name, attributes=attributes, inserted=unusual and not self.frames)
            return
        if name == b"table":
            if not self.cells or self.cells[-1]:
                self.cells.append(False)
                self.tables += 1
            self.run = self.moved = 0
        elif name in TABLE_PARTS and self.cells:
            self.cells[-1] = name in _CELLS
            self.run = 0
        elif name in TABLE_PARTS or name in _PERHAPS_IGNORED:
            self._ignored(attributes=attributes)
        else:
            self.run = 0
            if name not in _IN_TABLE:
                self.moved = 0
            self.templates += name == b"template"

    def end(self, name: bytes, *, attributes: bool) -> None:
        """An end tag."""
        self._ignored(attributes=attributes)
        if name == b"table":
            if self.cells:
                self.cells.pop()
                self.tables -= 1
        elif name in TABLE_PARTS:
            if self.cells:
                self.cells[-1] = False
        elif name == b"template" and self.templates:
            self.templates -= 1
        else:
            return
        self.plain = not (self.tables or self.templates or self.frames)

    def comment(self) -> None:
        if not self.tables:
            self.run = 0

    def _unsure(self, name: bytes, *, attributes: bool, inserted: bool) -> None:
        """Process a start tag in other content. `inserted`: it may insert an element."""
        self.templates += name == b"template"
        if name == b"table":
            self.cells.clear()
            self.tables += 1
        if inserted and name not in TABLE_PARTS and name not in _PERHAPS_IGNORED:
            self.run = 0
        else:
            self._ignored(attributes=attributes)

    def _ignored(self, *, attributes: bool) -> None:
        if attributes:
            self.copied_bytes += self.run

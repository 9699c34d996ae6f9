"""How many bytes Lexbor copies where pieces of text become one text node.

Tags that the parser ignores leave text on both sides of them in one node, and text in a table but
outside its cells gathers in one node before it. The attributes of such tags, and comments in such a
table, are stored behind the text, so that each further piece moves it, and the memory of the former
place is not freed: 600 KB of text between ignored `<td class=…>` take 600 MB.
"""

from __future__ import annotations

from typing import Final

from crawler.documents.open_elements import TABLE_PARTS

_CELLS: Final = frozenset({b"td", b"th", b"caption"})
# Start tags that are ignored, or only add attributes, depending on what is open.
_PERHAPS_IGNORED: Final = frozenset({b"html", b"head", b"body", b"form", b"frame"})
# What a table holds besides its parts; all else that stands there moves before the table.
_IN_TABLE: Final = frozenset({b"style", b"script", b"template", b"input", b"form"})
# Start tags that `start` must be told of; while `plain`, any other one ends a text node.
SPECIAL: Final = TABLE_PARTS | _PERHAPS_IGNORED | {b"table", b"template", b"frameset"}


class MergedText:
    """Follows the tags of a document; `copied_bytes` is at least what the parser copies.

    Errs on the side of too much: only a start tag that is sure to insert an element ends a text
    node, and only a cell that is sure to be open keeps text from moving before its table.

    run: bytes that may be in the latest text node. plain: no table, template or frameset is open,
    so that the caller may keep `run` itself, which is faster.
    """

    __slots__ = (
        "_cells",
        "_frames",
        "_moved",
        "_tables",
        "_templates",
        "copied_bytes",
        "plain",
        "run",
    )

    def __init__(self) -> None:
        self.copied_bytes = 0
        self.run = 0
        self.plain = True
        self._moved = 0  # and in the one before the table
        self._tables = 0  # that may be open
        self._cells: list[bool] = []  # of tables that are sure to be open: in a cell?
        self._templates = 0
        self._frames = False

    @property
    def _in_cell(self) -> bool:
        return not self._tables or (bool(self._cells) and self._cells[-1])

    def add(self, text: bytes) -> None:
        """Text between two tags."""
        self.run += len(text)
        if self._tables and not self._in_cell and not text.isspace():
            self._moved += len(text)
            self.copied_bytes += self._moved

    def start(self, name: bytes, *, attributes: bool, unusual: bool) -> None:
        """A start tag. attributes: it may have some. unusual: SVG, MathML or frames are open."""
        if name == b"frameset":
            self._frames = True
        self.plain = self.plain and name not in (b"frameset", b"template", b"table")
        if unusual or self._templates or self._frames:
            self._unsure(name, attributes=attributes, inserted=unusual and not self._frames)
            return
        if name == b"table":
            if not self._cells or self._cells[-1]:
                self._cells.append(False)
                self._tables += 1
            self.run = self._moved = 0
        elif name in TABLE_PARTS and self._cells:
            self._cells[-1] = name in _CELLS
            self.run = 0
        elif name in TABLE_PARTS or name in _PERHAPS_IGNORED:
            self._ignored(attributes=attributes)
        else:
            self.run = 0
            if name not in _IN_TABLE:
                self._moved = 0
            self._templates += name == b"template"

    def end(self, name: bytes, *, attributes: bool) -> None:
        """An end tag."""
        self._ignored(attributes=attributes)
        if name == b"table":
            if self._cells:
                self._cells.pop()
                self._tables -= 1
        elif name in TABLE_PARTS:
            if self._cells:
                self._cells[-1] = False
        elif name == b"template" and self._templates:
            self._templates -= 1
        else:
            return
        self.plain = not (self._tables or self._templates or self._frames)

    def comment(self) -> None:
        if not self._tables:
            self.run = 0

    def _unsure(self, name: bytes, *, attributes: bool, inserted: bool) -> None:
        """A start tag where other rules apply. inserted: those that are no part of a table are."""
        self._templates += name == b"template"
        if name == b"table":
            self._cells.clear()
            self._tables += 1
        if inserted and name not in TABLE_PARTS and name not in _PERHAPS_IGNORED:
            self.run = 0
        else:
            self._ignored(attributes=attributes)

    def _ignored(self, *, attributes: bool) -> None:
        if attributes:
            self.copied_bytes += self.run

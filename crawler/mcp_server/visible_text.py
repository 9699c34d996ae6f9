"""All text of an HTML page that a browser would show, without layout."""

from __future__ import annotations

from typing import Final

from selectolax.lexbor import LexborNode

from crawler.documents.charset import to_utf8
from crawler.documents.tree import Document

_HIDDEN: Final = ("script", "style", "noscript", "template", "svg", "head", "iframe", "object")
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "br", "button", "caption", "dd"),
        *("details", "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol"),
        *("option", "p", "pre", "section", "select", "summary", "table", "tbody", "tfoot"),
        *("thead", "tr", "ul"),
    }
)
_CELLS: Final = frozenset({"td", "th"})


def visible_text(body: bytes, content_type: str | None) -> str:
    """One line per block of text; "" if the markup is too tangled to build a tree of it."""
    tree = Document(to_utf8(body, content_type)[0]).tree
    if tree is None:
        return ""
    tree.strip_tags(list(_HIDDEN))
    root = tree.body
    pieces: list[str] = []
    within = 0
    for node in () if root is None else root.traverse(include_text=True):
        tag = node.tag
        if tag == "-text":
            block = _block_of(node)
            pieces += ["\n" if block != within else "", node.text(deep=False)]
            within = block
        elif tag in _BLOCKS:
            pieces.append("\n")
        elif tag in _CELLS:
            pieces.append(" ")
    lines = (" ".join(line.split()) for line in _joined(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _joined(pieces: list[str]) -> str:
    """Line ends inside a text node are mere white space."""
    return "".join(piece if piece == "\n" else piece.replace("\n", " ") for piece in pieces)


def _block_of(node: LexborNode) -> int:
    """The identity of the innermost block around a text."""
    parent = node.parent
    while parent is not None and parent.tag not in _BLOCKS:
        parent = parent.parent
    return 0 if parent is None else parent.mem_id

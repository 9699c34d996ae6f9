"""Element trees of pages, built by Lexbor."""

from __future__ import annotations

from typing import Final

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawler.documents.nesting import is_tangled

_NOT_BUILT: Final = object()


def build_tree(html: bytes) -> LexborHTMLParser:
    """Build the tree that a browser without scripting builds."""
    return LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)


class Document:
    """The markup of a page, in UTF-8, with its tree."""

    __slots__ = ("_tree", "html")

    def __init__(self, html: bytes) -> None:
        self.html = html
        self._tree: object = _NOT_BUILT

    @property
    def tree(self) -> LexborHTMLParser | None:
        """The tree, built on first access; None if building it may take more than linear time."""
        if self._tree is _NOT_BUILT:
            self._tree = None if is_tangled(self.html) else build_tree(self.html)
        assert self._tree is None or isinstance(self._tree, LexborHTMLParser)
        return self._tree


def anchor_text(anchor: LexborNode) -> str:
    """Return the text of an anchor or, if it has none, the first `alt` of an image inside."""
    text = anchor.text()
    if text.strip():
        return text
    image = anchor.css_first("img[alt]")
    return "" if image is None else image.attributes.get("alt") or ""


def anchor_text_without_code(anchor: LexborNode) -> str:
    """Return the text of an anchor without that of scripts and styles inside."""
    if anchor.css_first("script,style") is None:
        return anchor_text(anchor)
    return "".join(
        piece.text()
        for piece in anchor.traverse(include_text=True)
        if piece.is_text_node and (up := piece.parent) and up.tag not in ("script", "style")
    )


def is_in_svg(node: LexborNode) -> bool:
    parent = node.parent
    while parent is not None and parent.tag != "svg":
        parent = parent.parent
    return parent is not None

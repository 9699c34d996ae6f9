"""The text of an anchor in a tree."""

from __future__ import annotations

from selectolax.lexbor import LexborNode


def text_of(anchor: LexborNode) -> str:
    """The text of an anchor; of the first image that has one, its `alt`, if there is no text."""
    text = anchor.text()
    if text.strip():
        return text
    image = anchor.css_first("img[alt]")
    return "" if image is None else image.attributes.get("alt") or ""


def text_without_code(anchor: LexborNode) -> str:
    """The same for an anchor that may have a script or a style inside, which `text` would give."""
    if anchor.css_first("script,style") is None:
        return text_of(anchor)
    return "".join(
        piece.text()
        for piece in anchor.traverse(include_text=True)
        if piece.is_text_node and (up := piece.parent) and up.tag not in ("script", "style")
    )

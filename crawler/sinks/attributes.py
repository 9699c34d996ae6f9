"""Attributes of a tag: where they are in a document, and how they are written."""

from __future__ import annotations

# By name: the value, where the attribute begins and where it ends in the document.
Attributes = dict[str, tuple[str, int, int]]


def quoted(value: bytes, *, srcdoc: bool = False) -> bytes:
    value = value.replace(b"&", b"&amp;").replace(b'"', b"&quot;")
    return value if srcdoc else value.replace(b"<", b"&lt;")

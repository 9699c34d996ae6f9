"""Attributes of a tag: where they are in a document, and how they are written."""

from __future__ import annotations

import re
from typing import Final

from crawler.documents import markup

# By name: the value, where the attribute begins and where it ends in the document.
Attributes = dict[str, tuple[str, int, int]]

_VOID: Final = frozenset(
    b"area base br col embed frame hr img input link meta param source track wbr".split()
)
_XML_TAG: Final = re.compile(
    rb"<([A-Za-z][\w:.-]*+)(?=[\t\n\f\r />])((?:[\t\n\f\r /]++|"
    + markup.ATTRIBUTE
    + rb")*+)(?:>|\Z)"
)


def html_of(xhtml: bytes) -> bytes:
    """XHTML as a browser reads it that takes it for HTML: elements without content have an end tag,
    else all that follows would be in them."""
    return _XML_TAG.sub(_with_end_tag, xhtml)


def _with_end_tag(found: re.Match[bytes]) -> bytes:
    name, raw = found[1], found[2]
    if raw[-1:] != b"/" or name.lower() in _VOID or found[0][-1:] != b">":
        return found[0]
    return b"<" + name + raw[:-1] + b"></" + name + b">"


def quoted(value: bytes, *, srcdoc: bool = False) -> bytes:
    value = value.replace(b"&", b"&amp;").replace(b'"', b"&quot;")
    return value if srcdoc else value.replace(b"<", b"&lt;")

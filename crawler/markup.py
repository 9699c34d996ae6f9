"""Markup as a flat run of tags: WHATWG's tokenizer rules in linear time, with no tree above them.

For documents that are too tangled to build a tree of. The result is nearly the tree's, because
links need no structure; what is lost is what only structure tells (a `<template>`'s content is
read as well, a title inside an SVG is a title).
"""

from __future__ import annotations

import html as references
import re
from collections.abc import Iterator
from typing import Final

# One attribute, its name first; shared with nesting.py. HTML's white space has no vertical tab.
ATTRIBUTE: Final = (
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >"'][^\t\n\f\r >]*+)?+)?+"""
)
# What follows "<", in one match: a tag, a comment, or a bogus comment. Possessive, and each form
# also ends with the text, so that no byte is looked at twice in vain.
_TOKEN: Final = re.compile(
    rb"<(?:(?P<tag>/?+[A-Za-z][^\t\n\f\r />]*+)(?P<attributes>(?:[\t\n\f\r /]++|"
    + ATTRIBUTE
    + rb")*+)"
    rb"(?:(?P<close>>)|\Z)|!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+(?:>|\Z))",
    re.DOTALL,
)
_PARTS: Final = re.compile(
    rb"([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"([^"]*+)"?|'([^']*+)'?|([^\t\n\f\r >"'][^\t\n\f\r >]*+))?+)?+"""
)
RAW_TEXT: Final = frozenset(
    {b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"}
)
_RAW_TEXT_END: Final = {
    name: re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE) for name in RAW_TEXT
}
# What moves a script between plain, escaped ("<!--") and doubly escaped ("<!-- <script") text.
_SCRIPT_STEP: Final = re.compile(
    rb"<!--(?P<void>-*+>)?|(?P<dash>-->)|<(?P<end>/?+)script(?=[\t\n\f\r />])", re.IGNORECASE
)
# In attributes only references with their semicolon are certain ("?a=1&copy=2" is none).
_REFERENCE: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def tokens(html: bytes) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The tags of a document in order: (name, raw attributes, start, end).

    Names are in lower case; that of an end tag begins with "/", that of a comment is "!", that of
    the document's end empty. The content of elements that hold no markup (script, style, title …)
    is passed over: their end tag comes next.
    """
    at = html.find(b"<")
    while at >= 0:
        token = _TOKEN.match(html, at)
        if token is None:
            at = html.find(b"<", at + 1)
            continue
        end = token.end()
        tag: bytes | None = token["tag"]
        if tag is None:
            yield b"!", b"", at, end
        elif token["close"] is None:
            break  # the document ended inside the tag
        else:
            name = tag.lower()
            yield name, token["attributes"], at, end
            if name == b"plaintext":
                break
            if name in RAW_TEXT:
                end = raw_text_end(html, end, name)
        at = html.find(b"<", end)
    yield b"", b"", len(html), len(html)


def attributes(raw: bytes) -> dict[str, str]:
    """Attributes of a tag, names in lower case, references decoded; the first of a name wins."""
    found: dict[str, str] = {}
    # A tag's NUL is U+FFFD to the standard: a value must not begin with what URLs are trimmed of.
    for name, double, single, bare in _PARTS.findall(raw.replace(b"\x00", b"\xef\xbf\xbd")):
        value = (double or single or bare).decode("utf-8", "replace")
        if "&" in value:
            value = _REFERENCE.sub(_decoded, value)
        found.setdefault(name.decode("utf-8", "replace").lower(), value)
    return found


def text(raw: bytes) -> str:
    """Text between tags, its references decoded; NUL is left out, as the standard does."""
    return references.unescape(raw.replace(b"\x00", b"").decode("utf-8", "replace"))


def raw_text_end(html: bytes, at: int, name: bytes) -> int:
    """Where the raw text of an element ends that begins at `at`: at its end tag, or the document's
    end."""
    if name == b"script":
        return _script_end(html, at)
    found = _RAW_TEXT_END[name].search(html, at)
    return found.start() if found else len(html)


def _script_end(html: bytes, at: int) -> int:
    """WHATWG HTML, 13.2.5.4 and the script states after it."""
    escaped = doubly = False
    for step in _SCRIPT_STEP.finditer(html, at):
        if step["end"] is None:
            if step["dash"] is not None:
                escaped = doubly = False
            elif step["void"] is None:
                escaped = True
        elif not step["end"]:
            doubly = escaped
        elif not doubly:
            return step.start()
        else:
            doubly = False
    return len(html)


def _decoded(found: re.Match[str]) -> str:
    return references.unescape(found[0])

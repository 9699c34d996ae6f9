"""Markup as a flat run of tags: WHATWG's tokenizer rules in linear time, with no tree above them.

For documents that are too tangled to build a tree of. The result is nearly the tree's, because
links need no structure; what is lost is what only structure tells (a `<template>`'s content is
read as well, a title inside an SVG is a title).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5
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
# A character reference; no name is longer.
_REFERENCE: Final = re.compile(
    r"&(?:#(?:([0-9]++)|[xX]([0-9a-fA-F]++));?|([A-Za-z][A-Za-z0-9]{0,30}+);?)"
)


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
            value = unescaped_value(value)
        found.setdefault(name.decode("utf-8", "replace").lower(), value)
    return found


def text(raw: bytes) -> str:
    """Text between tags, its references decoded; NUL is left out, as the standard does."""
    return unescaped(raw.replace(b"\x00", b"").decode("utf-8", "replace"))


def unescaped(text: str) -> str:
    """Text with its character references decoded (WHATWG HTML, 13.2.5.72 and the following)."""
    return _REFERENCE.sub(_in_text, text) if "&" in text else text


def unescaped_value(value: str) -> str:
    """The same for an attribute's value, where "?a=1&copy=2" is no reference."""
    if value.count("&") == value.count("&amp;"):  # nearly always
        return value.replace("&amp;", "&")
    return _REFERENCE.sub(_in_value, value)


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


def _in_text(found: re.Match[str]) -> str:
    name = found[3]
    if name is None:
        return _numbered(found)
    if found[0][-1] == ";" and (character := html5.get(name + ";")) is not None:
        return character
    for end in range(len(name), 1, -1):  # some need no semicolon, the longest of them counts
        if (character := html5.get(name[:end])) is not None:
            return character + found[0][end + 1 :]
    return found[0]


def _in_value(found: re.Match[str]) -> str:
    name = found[3]
    if name is None:
        return _numbered(found)
    if found[0][-1] == ";":
        return html5.get(name + ";") or found[0]
    behind = found.string[found.end() : found.end() + 1]
    if behind == "=" or (behind.isascii() and behind.isalnum()):
        return found[0]
    return html5.get(name) or found[0]


def _numbered(found: re.Match[str]) -> str:
    digits, base = (found[1], 10) if found[2] is None else (found[2], 16)
    digits = digits.lstrip("0")
    if len(digits) > 7 or not digits:
        return "\ufffd"
    code = int(digits, base)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return "\ufffd"
    return _WINDOWS_1252.get(code) or chr(code)


# What numbers of control characters mean.
_WINDOWS_1252: Final = {
    code: character
    for code in range(0x80, 0xA0)
    if (character := bytes([code]).decode("cp1252", "ignore"))
}

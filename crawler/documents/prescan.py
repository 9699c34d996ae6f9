"""The encoding that a page declares in its markup.

Source: WHATWG HTML, "prescan a byte stream to determine its encoding" and "get an XML encoding".
"""

from __future__ import annotations

import re
from typing import Final

from crawler.documents.decoders import UTF8, encoding_of

# The standard examines 1,024 bytes. Like browsers, this module continues while elements of a head
# follow, because many pages declare their encoding after a script.
_BYTES: Final = 1_024
_BYTES_MAX: Final = 16_384

_WIDE_XML: Final = {b"<\0?\0x\0": "utf-16le", b"\0<\0?\0x": "utf-16be"}
_XML: Final = b"<?xml"
_XML_ENCODING: Final = re.compile(
    rb"""encoding[\x00-\x20]*=[\x00-\x20]*(?:"([^"\x00-\x20]*)"|'([^'\x00-\x20]*)')"""
)
_ATTRIBUTE: Final = (
    rb"([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"([^"]*+)"|'([^']*+)'|(?!["'])([^\t\n\f\r >]*+))|(?![\t\n\f\r ]*+=))"""
)
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
# A comment, a tag or a bogus comment, complete with its end.
_MARKUP: Final = re.compile(
    rb"<(?:!(?=--).*?-->"
    rb"|(?:(?P<meta>meta)(?=[\t\n\f\r /])|(?P<name>/?[a-z][^\t\n\f\r >]*+))"
    rb"(?P<attributes>(?:[\t\n\f\r /]++|" + _ATTRIBUTE + rb")*+)>"
    rb"|(?:!(?!--)|/(?![a-z])|\?)[^>]*+>)",
    re.DOTALL | re.IGNORECASE,
)
_MARKUP_START: Final = re.compile(rb"<[a-zA-Z!/?]")
_CONTENT_CHARSET: Final = re.compile(
    rb"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'])([^\t\n\f\r ;]+))?"""
)
# Elements of a head. Any other tag ends it.
_HEAD_TAGS: Final = frozenset(
    b"html head title base link meta style script noscript object /title /base /link /meta /style"
    b" /script /noscript /object".split()
)


def declared_encoding(body: bytes) -> str | None:
    """Return the name of the encoding that a page declares at its start, in lower case."""
    head = body[:_BYTES_MAX]
    if (wide := _WIDE_XML.get(head[:6])) is not None:
        return wide
    found = None
    if b"charset" in head or b"charset" in head.lower():
        found = _meta_encoding(head)
    return found or xml_encoding(head)


def xml_encoding(head: bytes) -> str | None:
    """Return the encoding named by an XML declaration at the start, if the web has it."""
    if not head.startswith(_XML):
        return None
    at = head.find(b"encoding", 0, head.find(b">") + 1)
    found = _XML_ENCODING.match(head, at) if at >= 0 else None
    return None if found is None else _ascii_compatible(found[1] or found[2] or b"")


def _meta_encoding(head: bytes) -> str | None:
    """Return the encoding declared by the first meta element that declares one."""
    at = 0
    in_head = True
    while (in_head or at < _BYTES) and (at := head.find(b"<", at)) >= 0:
        tag = _MARKUP.match(head, at)
        if tag is None:
            if _MARKUP_START.match(head, at):
                break  # a truncated tag declares nothing
            at += 1
            continue
        at = tag.end()
        if tag["meta"]:
            if (encoding := _encoding_of_meta(tag["attributes"])) is not None:
                return encoding
        elif tag["name"]:
            in_head = in_head and tag["name"].lower() in _HEAD_TAGS
    return None


def _encoding_of_meta(raw: bytes) -> str | None:
    attributes: dict[bytes, bytes] = {}
    for name, double, single, bare in _ATTRIBUTES.findall(raw.lower()):
        attributes.setdefault(name, double or single or bare)
    encoding = None
    if (label := attributes.get(b"charset")) is not None:
        encoding = _ascii_compatible(label)
    elif attributes.get(b"http-equiv") == b"content-type":
        found = _CONTENT_CHARSET.search(attributes.get(b"content", b""))
        if found is not None:
            encoding = _ascii_compatible(found[1] or found[2] or found[3] or b"")
    return "windows-1252" if encoding == "x-user-defined" else encoding


def _ascii_compatible(label: bytes) -> str | None:
    """Return the encoding of a label, reading UTF-16 as UTF-8.

    A declaration that was readable as ASCII cannot be in UTF-16. The standard replaces it by UTF-8.
    """
    encoding = encoding_of(label.decode("latin-1"))
    return UTF8 if encoding in ("utf-16le", "utf-16be") else encoding

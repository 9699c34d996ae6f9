"""The encoding that a page declares in its markup (WHATWG HTML, "prescan a byte stream to determine
its encoding"; "get an XML encoding")."""

from __future__ import annotations

import re
from typing import Final

from crawler.documents.encoding import UTF8, encoding_of

# The standard looks at 1,024 bytes. Browsers go on as long as elements come that a head may have,
# since many a page declares its encoding behind a script; so does this, up to a bound.
_BYTES: Final = 1_024
_BYTES_MAX: Final = 16_384

_WIDE_XML: Final = {b"<\0?\0x\0": "utf-16le", b"\0<\0?\0x": "utf-16be"}
_XML: Final = b"<?xml"
_XML_ENCODING: Final = re.compile(
    rb"""encoding[\x00-\x20]*=[\x00-\x20]*(?:"([^"\x00-\x20]*)"|'([^'\x00-\x20]*)')"""
)
_TAG: Final = re.compile(rb"/?[a-zA-Z][^\t\n\f\r >]*")
_META: Final = re.compile(rb"meta[\t\n\f\r /]", re.IGNORECASE)
_IGNORED: Final = re.compile(rb"[\t\n\f\r /]*")
_SPACES: Final = re.compile(rb"[\t\n\f\r ]*")
_NAME: Final = re.compile(rb"[^\t\n\f\r />][^\t\n\f\r />=]*")
_BARE: Final = re.compile(rb"[^\t\n\f\r >]*")
_IN_CONTENT: Final = re.compile(
    r"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'])([^\t\n\f\r ;]+))?"""
)
# What a head may have; other tags end it.
_OF_HEAD: Final = frozenset(
    b"html head title base link meta style script noscript object /title /base /link /meta /style"
    b" /script /noscript /object".split()
)


class _EndedError(Exception):
    """No more bytes."""


def declared_encoding(body: bytes) -> str | None:
    """The encoding that a page declares at its beginning, by its name in lower case."""
    head = body[:_BYTES_MAX]
    if (wide := _WIDE_XML.get(head[:6])) is not None:
        return wide
    if b"charset" in head or b"charset" in head.lower():
        try:
            if (found := _in_metas(head)) is not None:
                return found
        except _EndedError:
            pass  # nothing is declared by what the end cuts off
    return xml_encoding(head)


def xml_encoding(head: bytes) -> str | None:
    """The encoding that an XML declaration at the beginning names, if it is one of the web's."""
    if not head.startswith(_XML):
        return None
    at = head.find(b"encoding", 0, head.find(b">") + 1)
    found = _XML_ENCODING.match(head, at) if at >= 0 else None
    return None if found is None else _readable(found[1] or found[2] or b"")


def _in_metas(head: bytes) -> str | None:
    """What the first meta element says that says anything. Raises _EndedError."""
    at = 0
    in_head = True
    while in_head or at < _BYTES:
        at = _find(head, b"<", at) + 1
        if head.startswith(b"!--", at):
            at = _find(head, b"-->", at + 1) + 3
        elif tag := _TAG.match(head, at):
            name = tag[0].lower()
            is_meta = _META.match(head, at) is not None
            at = at + len(b"meta") if is_meta else tag.end()
            attributes: dict[bytes, bytes] = {}
            if head[at : at + 1] != b">":
                attributes, at = _attributes(head, at)
            if is_meta:
                if (encoding := _of_meta(attributes)) is not None:
                    return encoding
            elif name not in _OF_HEAD:
                in_head = False
        elif head[at : at + 1] in (b"!", b"/", b"?"):
            at = _find(head, b">", at)
    return None


def _find(head: bytes, what: bytes, at: int) -> int:
    found = head.find(what, at)
    if found < 0:
        raise _EndedError
    return found


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """The attributes of a tag in lower case, the first of a name, and where they end."""
    found: dict[bytes, bytes] = {}
    while True:
        at = _behind(_IGNORED, head, at)
        if head[at] == 0x3E:  # ">"
            return found, at
        start = at
        at = _behind(_NAME, head, at)
        name, value = head[start:at].lower(), b""
        equals = _behind(_SPACES, head, at)
        if head[equals] == 0x3D:  # "="
            at = _behind(_SPACES, head, equals + 1)
            if (quote := head[at : at + 1]) in (b'"', b"'"):
                end = _find(head, quote, at + 1)
                value, at = head[at + 1 : end], end + 1
            else:
                start = at
                at = _behind(_BARE, head, at)
                value = head[start:at]
        else:
            at = equals
        found.setdefault(name, value.lower())


def _behind(pattern: re.Pattern[bytes], head: bytes, at: int) -> int:
    """Where a match ends, which is not at the end of the bytes."""
    found = pattern.match(head, at)
    if found is None or found.end() >= len(head):
        raise _EndedError
    return found.end()


def _of_meta(attributes: dict[bytes, bytes]) -> str | None:
    label = attributes.get(b"charset")
    if label is not None:
        encoding = _readable(label)
    elif attributes.get(b"http-equiv") == b"content-type":
        found = _IN_CONTENT.search(attributes.get(b"content", b"").decode("latin-1"))
        encoding = None if found is None else _readable_label(found[1] or found[2] or found[3])
    else:
        return None
    return "windows-1252" if encoding == "x-user-defined" else encoding


def _readable(label: bytes) -> str | None:
    return _readable_label(label.decode("latin-1"))


def _readable_label(label: str | None) -> str | None:
    """UTF-16 cannot be true where the declaration could be read as ASCII: the standard takes it for
    UTF-8."""
    encoding = None if label is None else encoding_of(label)
    return UTF8 if encoding in ("utf-16le", "utf-16be") else encoding

"""Bytes of a page to UTF-8: by BOM, header, meta, and only then by guessing.

The result is bytes because that is what Lexbor reads; most pages are UTF-8 or ASCII and pass
through untouched.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from crawler.documents import markup
from crawler.documents.encoding import UTF8, decode, encoding_by_mark, encoding_of, reads_ascii

# WHATWG: what declares nothing and is not UTF-8 is windows-1252, if guessing fails as well.
_LAST_RESORT: Final = "cp1252"
# Guessing reads so much: it costs a few milliseconds, and more text does not make it surer.
_GUESS_BYTES: Final = 16_384
# A longer Content-Type is not remembered; real ones have under 100 characters.
_HEADER_CHARS_MAX: Final = 500
# Where a page may declare its encoding: more than the 1,024 bytes of the standard, as many do.
_DECLARED_BYTES: Final = 4_096

_GUESSED: Final = {
    name.replace("-", "_"): name
    for name in (
        "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp866", "cp874",
        "koi8-r", "gb18030", "big5hkscs", "cp932", "euc_jp", "cp949",
    )
}  # fmt: skip
_PARAMETER: Final = re.compile(
    r"""(?:^|;)[ \t]*([^\s;=]+)=(?:"((?:[^"\\]|\\.)*)"|([^;,\s]*))""", re.DOTALL
)
_DECLARES: Final = re.compile(rb"charset|<\?xml\s", re.IGNORECASE)
# A comment, a meta element with its attributes, or the end of the head.
_META: Final = re.compile(
    rb"""<!--.*?(?:-->|\Z)|<meta(?=[\s/])((?:[^>"']|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*)|<(body)(?=[\s/>])""",
    re.IGNORECASE | re.DOTALL,
)
_XML_ENCODING: Final = re.compile(
    rb"""\s*<\?xml\s[^<>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']([^"'<>]{1,40})["']""", re.IGNORECASE
)
_IN_CONTENT: Final = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';]+)""", re.IGNORECASE)
_STYLE_CHARSET: Final = re.compile(rb'@charset "([^"]{1,40})";')


def to_utf8(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """The body as UTF-8 and the name of the encoding it was in. Never raises.

    What the encoding has no character for becomes U+FFFD; a body in UTF-8 is returned as it is,
    its mistakes included.
    """
    if body[:1] in (b"\xef", b"\xfe", b"\xff", b"\x00") and (mark := encoding_by_mark(body)):
        name, size = mark
        rest = body[size:]
        return (rest, UTF8) if name == UTF8 else _recode(rest, name)
    declared = _in_header(content_type) or _in_markup(body[:_DECLARED_BYTES])
    if declared == UTF8 or (body.isascii() and (declared is None or reads_ascii(declared))):
        return body, declared or UTF8
    if declared is not None:
        return _recode(body, declared)
    if _is_utf8(body):
        return body, UTF8
    return _recode(body, _guess(body))


def to_text(body: bytes, content_type: str | None) -> str:
    """The body as text, decoded as `to_utf8` does it. Never raises."""
    return decode(to_utf8(body, content_type)[0], UTF8)


def style_text(body: bytes, content_type: str | None) -> str:
    """The text of a style sheet: by BOM, header, and its own first line (CSS Syntax, 3.2). Never
    raises."""
    if mark := encoding_by_mark(body):
        name, size = mark
        return decode(body[size:], name)
    name_declared = _in_header(content_type)
    if name_declared is None and (own := _STYLE_CHARSET.match(body)):
        name_declared = _readable(encoding_of(own[1].decode("latin-1")))
    return decode(body, name_declared or UTF8)


def xml_encoding(head: bytes) -> str | None:
    """The encoding that an XML declaration at the beginning names, if it is one of the web's."""
    found = _XML_ENCODING.match(head)
    return _readable(encoding_of(found[1].decode("latin-1"))) if found else None


def _in_header(content_type: str | None) -> str | None:
    if content_type is None or "=" not in content_type:
        return None
    return _header_charset(content_type[:_HEADER_CHARS_MAX])


@lru_cache(maxsize=256)
def _header_charset(content_type: str) -> str | None:
    for name, quoted, token in _PARAMETER.findall(content_type):
        if name.lower() == "charset":
            return encoding_of(quoted or token)
    return None


def _in_markup(head: bytes) -> str | None:
    """What the first meta element or the XML declaration says (WHATWG HTML, "prescan")."""
    if _DECLARES.search(head) is None:
        return None
    if (said := xml_encoding(head)) is not None:
        return said
    for found in _META.finditer(head):
        raw = found[1]
        if found[2]:
            break
        if raw is None or b"charset" not in raw.lower():
            continue
        attributes = markup.attributes(raw)
        label = attributes.get("charset")
        if label is None and attributes.get("http-equiv", "").strip().lower() == "content-type":
            inside = _IN_CONTENT.search(attributes.get("content", ""))
            label = inside[1] if inside else None
        if label is not None and (encoding := encoding_of(label)) is not None:
            return _readable(encoding)
    return None


def _readable(encoding: str | None) -> str | None:
    """UTF-16 cannot be true where the declaration could be read as ASCII: the standard takes it for
    UTF-8."""
    return UTF8 if encoding is not None and encoding.startswith("utf-16") else encoding


def _recode(body: bytes, name: str) -> tuple[bytes, str]:
    return decode(body, name).encode("utf-8", "replace"), name


def _is_utf8(body: bytes) -> bool:
    """Valid to the end, or to a character that the end cuts in two."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.end == len(body)
    return True


def _guess(body: bytes) -> str:
    from charset_normalizer import from_bytes  # 7 ms, and few crawls meet a page that needs it

    sample = body[:_GUESS_BYTES]
    if len(body) > _GUESS_BYTES:
        # End at a byte that is no part of a longer character in any of the encodings, if there is.
        end = max(sample.rfind(b"<"), sample.rfind(b" "), sample.rfind(b"\n"))
        sample = sample[:end] if end > _GUESS_BYTES // 2 else sample
    best = from_bytes(sample, cp_isolation=list(_GUESSED)).best()
    return _LAST_RESORT if best is None else _GUESSED.get(best.encoding, _LAST_RESORT)

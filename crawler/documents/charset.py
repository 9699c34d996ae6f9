"""Bytes of a page to UTF-8: by BOM, header, meta, and only then by guessing.

The result is bytes because that is what Lexbor reads; most pages are UTF-8 or ASCII and pass
through untouched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
    to_unicode,
)

_UTF8: Final = "utf-8"
# WHATWG: what declares nothing and is not UTF-8 is windows-1252, if guessing fails as well.
_LAST_RESORT: Final = "cp1252"
# Guessing reads so much: it costs a few milliseconds, and more text does not make it surer.
_GUESS_BYTES: Final = 16_384
# A longer Content-Type is not remembered; real ones have under 100 characters.
_HEADER_CHARS_MAX: Final = 500

# The encodings of the web by Python's own names (to look those up would load all 48). A page may
# name any codec of Python's otherwise, and some of those raise, warn or take quadratic time (idna,
# punycode, unicode_escape, zlib).
_SINGLE_BYTE: Final = (
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp866 cp874 koi8-r koi8-u"
    " mac-roman mac-cyrillic iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7"
    " iso8859-8 iso8859-9 iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16"
)
_MULTI_BYTE: Final = "gb18030 gbk gb2312 big5 big5hkscs cp932 cp949 euc_jp euc_kr shift_jis"
_NOT_ASCII: Final = "utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be iso2022_jp"


# In these, bytes that are all ASCII mean what they mean in ASCII.
_ASCII_BASED: Final = frozenset(f"ascii utf-8 {_SINGLE_BYTE} {_MULTI_BYTE}".split())
_KNOWN: Final = _ASCII_BASED.union(_NOT_ASCII.split())
_GUESSED: Final = (
    "cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp866 cp874 koi8_r gb18030 big5hkscs cp932"
    " euc_jp cp949"
)


def to_utf8(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """The body as UTF-8 and the name of the encoding it was in. Never raises.

    What the encoding has no character for becomes U+FFFD; a body in UTF-8 is returned as it is,
    its mistakes included.
    """
    if body[:1] in (b"\xef", b"\xfe", b"\xff", b"\x00"):
        name, mark = read_bom(body)
        if name is not None and mark is not None:
            rest = body[len(mark) :]
            return (rest, _UTF8) if name == _UTF8 else _recode(rest, name)
    declared = _in_header(content_type)
    if declared is None:
        declared = _known(html_body_declared_encoding(body[:4096]))
        if declared is not None and declared.startswith(("utf-16", "utf-32")):
            declared = _UTF8  # the declaration itself was readable as ASCII
    if declared == _UTF8 or (body.isascii() and (declared is None or declared in _ASCII_BASED)):
        return body, declared or _UTF8
    if declared is not None:
        return _recode(body, declared)
    if _is_utf8(body):
        return body, _UTF8
    return _recode(body, _guess(body))


def known_encoding(label: str) -> str | None:
    """Python's name of an encoding of the web that a document declares for itself; None: not one.

    One that is not ASCII's kin cannot be, if the declaration could be read."""
    name = resolve_encoding(label)
    return name if name in _ASCII_BASED else None


def _known(name: str | None) -> str | None:
    return name if name in _KNOWN else None


@lru_cache(maxsize=256)
def _header_charset(content_type: str) -> str | None:
    return _known(http_content_type_encoding(content_type))


def _in_header(content_type: str | None) -> str | None:
    if content_type is None or "=" not in content_type:
        return None
    return _header_charset(content_type[:_HEADER_CHARS_MAX])


def _recode(body: bytes, name: str) -> tuple[bytes, str]:
    return to_unicode(body, name).encode(errors="replace"), name


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
    best = from_bytes(sample, cp_isolation=_GUESSED.split()).best()
    return best.encoding if best is not None else _LAST_RESORT

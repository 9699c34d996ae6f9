"""The encoding of a page: by byte order mark, header, meta element, and finally by guessing.

The result is UTF-8 bytes because Lexbor reads those. Most pages are UTF-8 or ASCII and are returned
unchanged.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from crawler.documents.decoders import UTF8, decode, encoding_by_mark, encoding_of, reads_ascii
from crawler.documents.prescan import declared_encoding

# The WHATWG's default for pages that declare nothing and are not UTF-8.
_LAST_RESORT: Final = "windows-1252"
# More text than this makes guessing slower, but no more accurate.
_GUESS_BYTES: Final = 16_384
# Longer Content-Type values are cut. Real ones have fewer than 100 characters.
_HEADER_CHARS_MAX: Final = 500
# The encodings that may be guessed: Python's names and those of the standard.
_GUESSED: Final = {
    "cp1252": "windows-1252", "cp1250": "windows-1250", "cp1251": "windows-1251",
    "cp1253": "windows-1253", "cp1254": "windows-1254", "cp1255": "windows-1255",
    "cp1256": "windows-1256", "cp866": "ibm866", "cp874": "windows-874", "koi8_r": "koi8-r",
    "gb18030": "gb18030", "big5hkscs": "big5", "cp932": "shift_jis", "euc_jp": "euc-jp",
    "cp949": "euc-kr",
}  # fmt: skip
# As in browsers (MIME Sniffing, 4.4), a quote may lack its end, and blanks around a value are
# ignored.
_PARAMETER: Final = re.compile(
    r"""(?:^|;)[ \t]*([^\s;=]+)=[ \t]*(?:"((?:[^"\\]|\\.)*)(?:"|\Z)|([^;,]*))""", re.DOTALL
)
_STYLE_CHARSET: Final = re.compile(rb'@charset "([^"]{1,40})";')


def media_type(content_type: str | None) -> str:
    """Return the media type of a Content-Type value without parameters, in lower case."""
    return (content_type or "").partition(";")[0].partition(",")[0].strip().lower()


def to_utf8(body: bytes, content_type: str | None) -> tuple[bytes, str]:
    """Return the body in UTF-8 and the name of its original encoding. Never raises.

    Invalid sequences become U+FFFD, except in UTF-8 bodies, which are returned unchanged.
    """
    if body[:1] in (b"\xef", b"\xfe", b"\xff") and (mark := encoding_by_mark(body)):
        name, size = mark
        rest = body[size:]
        return (rest, UTF8) if name == UTF8 else _recode(rest, name)
    declared = _in_header(content_type) or declared_encoding(body)
    if declared == UTF8 or (body.isascii() and (declared is None or reads_ascii(declared))):
        return body, declared or UTF8
    if declared is not None:
        return _recode(body, declared)
    if is_utf8(body, cut=True):
        return body, UTF8
    return _recode(body, _guess(body))


def to_text(body: bytes, content_type: str | None) -> str:
    """Decode the body as `to_utf8` does. Never raises."""
    return decode(to_utf8(body, content_type)[0], UTF8)


def style_text(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Return the text of a style sheet and the name of its encoding. Never raises.

    The encoding is given by byte order mark, header, or `@charset` (CSS Syntax, 3.2).
    """
    if mark := encoding_by_mark(body):
        name, size = mark
        return decode(body[size:], name), name
    declared = _in_header(content_type)
    if declared is None and (own := _STYLE_CHARSET.match(body)):
        declared = encoding_of(own[1].decode("latin-1"))
        declared = UTF8 if declared in ("utf-16le", "utf-16be") else declared
    name = declared or UTF8
    return decode(body, name), name


def _in_header(content_type: str | None) -> str | None:
    if content_type is None or "=" not in content_type:
        return None
    return _header_charset(content_type[:_HEADER_CHARS_MAX])


@lru_cache(maxsize=256)
def _header_charset(content_type: str) -> str | None:
    for found in _PARAMETER.finditer(content_type):
        name, quoted, token = found.groups()
        if name.lower() == "charset" and (quoted is not None or token):
            return encoding_of(token if quoted is None else quoted)
    return None


def _recode(body: bytes, name: str) -> tuple[bytes, str]:
    return decode(body, name).encode("utf-8", "replace"), name


def is_utf8(body: bytes, *, cut: bool = False) -> bool:
    """Return whether the body is valid UTF-8. `cut`: a character at its end may be incomplete."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return cut and error.reason == "unexpected end of data" and error.end == len(body)
    return True


def _guess(body: bytes) -> str:
    from charset_normalizer import from_bytes  # slow to import, rarely needed

    sample = body[:_GUESS_BYTES]
    if len(body) > _GUESS_BYTES:
        # Prefer to cut at a byte that is part of a longer character in none of the encodings.
        end = max(sample.rfind(b"<"), sample.rfind(b" "), sample.rfind(b"\n"))
        sample = sample[:end] if end > _GUESS_BYTES // 2 else sample
    best = from_bytes(sample, cp_isolation=list(_GUESSED)).best()
    return _LAST_RESORT if best is None else _GUESSED.get(best.encoding, _LAST_RESORT)

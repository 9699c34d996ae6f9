"""Queries of URLs in the encoding of the page that they stand on (WHATWG URL, "percent-encode after
encoding"), by the encoders of the WHATWG Encoding Standard (sections 9 to 15).

A character that the encoding does not have becomes its numeric character reference. Paths, hosts
and fragments are UTF-8 in every page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Final

from crawler.documents.encoding_index import (
    REPLACEMENT,
    SINGLE_BYTE,
    characters,
    differences,
    singles,
)

# Their pages send UTF-8 (Encoding Standard, 4.3, "get an output encoding").
_AS_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})
# What URL parsers take off both ends of an href.
_SPACES: Final = "".join(map(chr, range(0x21)))
_REMOVED: Final = str.maketrans("", "", "\t\n\r")  # by every URL parser, before all else
# Of ASCII, what the query of an http URL has only as an escape.
_ESCAPED: Final = frozenset(b" \"#<>'") | frozenset(range(0x20)) | {0x7F}
_PERCENT: Final = tuple(
    f"%{byte:02X}" if byte > 0x7F or byte in _ESCAPED else chr(byte) for byte in range(256)
)
# Bytes that would change what others mean.
_SHIFTS: Final = frozenset("\x0e\x0f\x1b")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
# Of Big5, the pairs that were added for Hong Kong are not written; of these characters, which it
# has twice, the second pair is.
_BIG5_FROM: Final = b"\xa1"
_BIG5_LAST: Final = frozenset("═╞╡╪十卅")
# Of Shift_JIS, the rows that repeat others, and those for private use.
_SHIFT_JIS_UNWRITTEN: Final = frozenset(range(0xED, 0xF0)) | frozenset(range(0xF0, 0xFA))
_HALF_WIDTH: Final = {
    chr(code): {"\uff9e": "\u309b", "\uff9f": "\u309c"}.get(chr(code))
    or unicodedata.normalize("NFKC", chr(code))
    for code in range(0xFF61, 0xFFA0)
}


def with_encoded_query(href: str, encoding: str) -> str:
    """The href with its query as the URL parser of a browser would write it on a page in this
    encoding; the rest of it stays as it is. Never raises.

    encoding: a name as `crawler.documents.encoding` gives it.
    """
    if are_sent_as_written((href,), encoding):
        return href
    before, mark, rest = href.partition("?")
    if not mark or "#" in before:
        return href
    query, mark, fragment = rest.partition("#")
    if not mark:
        query = query.rstrip(_SPACES)
    return f"{before}?{encoded_query(query.translate(_REMOVED), encoding)}{mark}{fragment}"


def are_sent_as_written(hrefs: Iterable[str], encoding: str) -> bool:
    """Whether `with_encoded_query` would leave all these as they are, as it does on most pages."""
    if encoding in _AS_UTF8:
        return True
    text = "".join(hrefs)
    return text.isascii() and (encoding != "iso-2022-jp" or _SHIFTS.isdisjoint(text))


def encoded_query(query: str, encoding: str) -> str:
    """A query that is ASCII. encoding: none of those whose pages send UTF-8."""
    if encoding == "iso-2022-jp":
        return _iso_2022_jp(query)
    encode = _encoder(encoding)
    return _NOT_ASCII.sub(lambda run: "".join(map(encode, run[0])), query)


@cache
def _encoder(encoding: str) -> Callable[[str], str]:
    """Of one character that is not ASCII, to escapes."""
    escapes = {text: _escaped(data) for text, data in _bytes_of(encoding).items()}
    if encoding == "gb18030":
        return partial(_gb18030, escapes)
    return lambda text: escapes.get(text) or _reference(text)


def _reference(text: str) -> str:
    return f"%26%23{ord(text)}%3B"


def _escaped(data: bytes) -> str:
    return "".join(map(_PERCENT.__getitem__, data))


def _gb18030(escapes: dict[str, str], text: str) -> str:
    if text in escapes:
        return escapes[text]
    if text == "\ue5e5":  # its bytes are read as a space
        return _reference(text)
    if text == "\ue7c7":
        return _escaped(b"\x81\x35\xf4\x37")
    try:
        return _escaped(text.encode("gb18030"))
    except UnicodeEncodeError:  # a lone surrogate
        return _reference(REPLACEMENT)


def _bytes_of(encoding: str) -> dict[str, bytes]:
    """The bytes of every character that is not ASCII."""
    if encoding in SINGLE_BYTE:
        table = singles(encoding)
        return {text: bytes((byte,)) for byte, text in enumerate(table) if text != REPLACEMENT}
    found: dict[str, bytes] = {}
    index = "gb18030" if encoding == "gbk" else encoding
    for pair, text in sorted(dict(characters(index)).items()):
        if encoding == "shift_jis" and pair[0] in _SHIFT_JIS_UNWRITTEN:
            continue
        if encoding == "big5" and pair < _BIG5_FROM:
            continue
        if text not in found or (text in _BIG5_LAST and encoding == "big5"):
            found[text] = pair
    if index == "gb18030":  # what the revision of 2022 moved is still written as it was
        for pair, _ in differences(index):
            found.setdefault(pair.decode("gb18030"), pair)
        del found["\ue5e5"], found["\ue7c7"]
    if encoding == "gbk":
        found["\u20ac"] = b"\x80"
    if encoding in ("shift_jis", "euc-jp"):
        found |= {"\xa5": b"\\", "\u203e": b"~", "\u2212": found["\uff0d"]}
    if encoding == "shift_jis":
        found |= {chr(code): bytes((code - 0xFEC0,)) for code in range(0xFF61, 0xFFA0)}
        found["\x80"] = b"\x80"
    return found


@cache
def _jis0208() -> dict[str, bytes]:
    """As ISO-2022-JP writes it, with seven bits a byte."""
    rows = range(0xA1, 0xFF)
    pairs = ((pair, text) for pair, text in characters("euc-jp") if pair[0] in rows)
    found: dict[str, bytes] = {}
    for pair, text in pairs:
        found.setdefault(text, bytes(byte & 0x7F for byte in pair))
    found["\u2212"] = found["\uff0d"]
    return found | {half: found[whole] for half, whole in _HALF_WIDTH.items()}


def _iso_2022_jp(query: str) -> str:
    """Which characters bytes mean depends on the escape sequence before them, also across ASCII."""
    table = _jis0208()
    found: list[str] = []
    mode = "(B"

    def enter(wanted: str) -> None:
        nonlocal mode
        if mode != wanted:
            found.append(f"%1B{wanted}")
            mode = wanted

    for text in query:
        if text in "\xa5\u203e":
            enter("(J")
            found.append("\\" if text == "\xa5" else "~")
        elif text.isascii():
            if mode != "(J" or text in "\\~":
                enter("(B")
            found.append(_reference(REPLACEMENT) if text in _SHIFTS else _PERCENT[ord(text)])
        elif text in table:
            enter("$B")
            found.append(_escaped(table[text]))
        else:
            if mode == "$B":
                enter("(B")
            found.append(_reference(text))
    enter("(B")
    return "".join(found)

"""URL queries in the encoding of the page that contains the URL.

Source: WHATWG URL, "percent-encode after encoding", with the encoders of the WHATWG Encoding
Standard (sections 9 to 15). A character missing from the encoding becomes its numeric character
reference. Paths, hosts and fragments are UTF-8 on every page.
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

# Pages in these encodings send UTF-8 (Encoding Standard, 4.3, "get an output encoding").
_AS_UTF8: Final = frozenset({"utf-8", "utf-16le", "utf-16be", "replacement"})
# Characters that URL parsers strip from both ends of an href.
_SPACES: Final = "".join(map(chr, range(0x21)))
_REMOVED: Final = str.maketrans("", "", "\t\n\r")  # URL parsers remove these first
# ASCII characters that are always percent-encoded in the query of an http URL.
_ESCAPED: Final = frozenset(b" \"#<>'") | frozenset(range(0x20)) | {0x7F}
_PERCENT: Final = tuple(
    f"%{byte:02X}" if byte > 0x7F or byte in _ESCAPED else chr(byte) for byte in range(256)
)
# Control characters that would switch the character set.
_SHIFTS: Final = frozenset("\x0e\x0f\x1b")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
# The encoder never writes the Big5 pairs added for Hong Kong. Big5 has the characters in _BIG5_LAST
# twice, and the second pair is written.
_BIG5_FROM: Final = b"\xa1"
_BIG5_LAST: Final = frozenset("═╞╡╪十卅")
# The Shift_JIS rows that repeat others, and those for private use.
_SHIFT_JIS_UNWRITTEN: Final = frozenset(range(0xED, 0xF0)) | frozenset(range(0xF0, 0xFA))
_HALF_WIDTH: Final = {
    chr(code): {"\uff9e": "\u309b", "\uff9f": "\u309c"}.get(chr(code))
    or unicodedata.normalize("NFKC", chr(code))
    for code in range(0xFF61, 0xFFA0)
}


def with_encoded_query(href: str, encoding: str) -> str:
    """Return the href with its query encoded as a browser does on a page in this encoding.

    The rest of the href stays unchanged. Never raises. `encoding` is in `encoding_index.NAMES`.
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
    """Return whether `with_encoded_query` leaves all hrefs unchanged, as on most pages."""
    if encoding in _AS_UTF8:
        return True
    text = "".join(hrefs)
    return text.isascii() and (encoding != "iso-2022-jp" or _SHIFTS.isdisjoint(text))


def encoded_query(query: str, encoding: str) -> str:
    """Return the query in ASCII. `encoding` is not one whose pages send UTF-8."""
    if encoding == "iso-2022-jp":
        return _iso_2022_jp(query)
    encode = _encoder(encoding)
    return _NOT_ASCII.sub(lambda run: "".join(map(encode, run[0])), query)


@cache
def _encoder(encoding: str) -> Callable[[str], str]:
    """Return a function that percent-encodes one non-ASCII character."""
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
    if text == "\ue5e5":  # decoders read its bytes as a space
        return _reference(text)
    if text == "\ue7c7":
        return _escaped(b"\x81\x35\xf4\x37")
    try:
        return _escaped(text.encode("gb18030"))
    except UnicodeEncodeError:  # a lone surrogate
        return _reference(REPLACEMENT)


def _bytes_of(encoding: str) -> dict[str, bytes]:
    """Return the bytes of every non-ASCII character."""
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
    if index == "gb18030":  # characters moved by the 2022 revision are still written as before
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
    """Return the seven-bit bytes of each character in ISO-2022-JP."""
    rows = range(0xA1, 0xFF)
    pairs = ((pair, text) for pair, text in characters("euc-jp") if pair[0] in rows)
    found: dict[str, bytes] = {}
    for pair, text in pairs:
        found.setdefault(text, bytes(byte & 0x7F for byte in pair))
    found["\u2212"] = found["\uff0d"]
    return found | {half: found[whole] for half, whole in _HALF_WIDTH.items()}


def _iso_2022_jp(query: str) -> str:
    """Encode a query in ISO-2022-JP, whose escape sequences also apply to ASCII."""
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

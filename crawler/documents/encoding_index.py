"""The indexes of the WHATWG Encoding Standard (its section 5): which bytes are which character.

They are Python's own tables with the differences below, which come from comparing these with the
index files of the standard (encoding.spec.whatwg.org, as of 2024-09-18). The tests hold a checksum
of every index, so that another Python cannot change one unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

REPLACEMENT: Final = "\ufffd"
USER_DEFINED: Final = "x-user-defined"

# Python's tables of the single-byte encodings whose names it has otherwise.
_SINGLE: Final = {
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "windows-874": "cp874",
    "iso-8859-8-i": "iso8859-8",
}
SINGLE_BYTE: Final = frozenset(
    [
        "ibm866",
        "iso-8859-2",
        "iso-8859-3",
        "iso-8859-4",
        "iso-8859-5",
        "iso-8859-6",
        "iso-8859-7",
        "iso-8859-8",
        "iso-8859-8-i",
        "iso-8859-10",
        "iso-8859-13",
        "iso-8859-14",
        "iso-8859-15",
        "iso-8859-16",
        "koi8-r",
        "koi8-u",
        "macintosh",
        "windows-874",
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "windows-1253",
        "windows-1254",
        "windows-1255",
        "windows-1256",
        "windows-1257",
        "windows-1258",
        "x-mac-cyrillic",
        "x-user-defined",
    ]
)
_SINGLE_DIFFERENCES: Final = {
    "koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"},
    "windows-1255": {0xCA: "\u05ba"},
}

# Of the encodings in which two bytes stand for a character: the first of two, those that stand
# for a character alone, Python's table, and what differs from it. There each group has the first
# pair of bytes, and the characters from there on.
_ALL_LEADS: Final = range(0x81, 0xFF)
_LEADS: Final = {
    "big5": _ALL_LEADS,
    "euc-jp": (0x8E, 0x8F, *range(0xA1, 0xFF)),
    "euc-kr": _ALL_LEADS,
    "gb18030": _ALL_LEADS,
    "shift_jis": (*range(0x81, 0xA0), *range(0xE0, 0xFD)),
}
_HALF_WIDTH: Final = {byte: chr(byte + 0xFEC0) for byte in range(0xA1, 0xE0)}  # katakana
_ALONE: Final = {"gb18030": {0x80: "\u20ac"}, "shift_jis": {0x80: "\x80", **_HALF_WIDTH}}
TABLES: Final = {
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",  # its index is made from that of Shift_JIS, which differs from it
    "euc-kr": "cp949",
    "gb18030": "gb18030",
    "shift_jis": "cp932",
}
_DIFFERENCES: Final = {
    # As revised in 2022, but for A3A0, which the web uses as a space.
    "gb18030": "a3a0\u3000 a6d9︐︒︑︓︔︕︖ a6ec︗︘ a6f3︙ a8bcḿ fe59龴 fe61龵 fe66龶龷 fe6d龸"
    " fe7e龹 fe90龺 fea0龻",
    "big5": "877a㡵𡵓𣚞𦀡㻬𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯"
    "呌䄱𣚎堘穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋 8e69箸 8e6f簆 8e7e糎 8eab緒 8eb"
    "4縝 8ecd者 8ed0耨 8f57菁 8f69蒨 8f6e萏 8fcb覦覩 8ffe起 906d都 907a銹 90dc靜 90f1響 91b"
    "f鼖 9244蔃 92af兙兛兝兞 92c8鍮 92d1瑹 9447浧 94ca禛 95d9邗 9644靝 96ed瀞 96fc嬨 9b76爁"
    " 9b78矗 9b7b纇 9bc6駖 9bde釔 9bec惞 9bf6澶 9c42輶 9c53侻 9c62營 9c68鄄 9c6b鷰 9c77菏 9"
    "cbc尐秣 9cd0婧 9d57輋 9d5a筑 9dc4拐 9ea9恢 9eef痹 9efd汊 9f60鬮 9f66鼗 9fcb僭 9fd8弌 a"
    "063蠏 a077拎 a0d5瑨 a0df煢 a0e4牐 a145‧ a14e﹑ a1c2¯ a1e3～ a1f2⊕⊙ a241∕﹨ a244￥ a246"
    "￠￡ a3c0␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€ c6cf廴 c6d3无 c6d5癶 c6d7隶 c6de〃仝 fa5f"
    "倩 fa66偽 fabd包 fac5卄 fad5卿 fb48嘅 fbb8婷 fbf3幵 fbf9廐 fc4f彘 fc6c悤 fcb9撐 fce2晴"
    " fcf1杞 fdb7沜渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩 fedd砉",
}
# The last byte before the gap in the second bytes, and the first behind it.
_GAP: Final = {"big5": (0x7E, 0xA1), "gb18030": (0x7E, 0x80)}

DOUBLE_BYTE: Final = frozenset(_LEADS)


@cache
def singles(name: str) -> str:
    """The 256 characters that single bytes stand for; U+FFFD where a byte stands for none, or
    begins a longer sequence. name: of SINGLE_BYTE or DOUBLE_BYTE."""
    if name == USER_DEFINED:
        return "".join(chr(byte if byte < 0x80 else byte + 0xF700) for byte in range(256))
    if name in DOUBLE_BYTE:
        more = _ALONE.get(name, {})
        return "".join(
            chr(byte) if byte < 0x80 else more.get(byte, REPLACEMENT) for byte in range(256)
        )
    table = _SINGLE.get(name, name.replace("windows-", "cp"))
    found = dict(enumerate(bytes(range(256)).decode(table, "replace")))
    if name.startswith("windows-"):  # where nothing else is: C1 controls
        found |= {byte: chr(byte) for byte in range(0x80, 0xA0) if found[byte] == REPLACEMENT}
    return "".join((found | _SINGLE_DIFFERENCES.get(name, {})).values())


@cache
def pairs(name: str) -> tuple[str, ...]:
    """What each pair of bytes stands for, at the place `place(pair)`.

    A pair that stands for nothing is U+FFFD, followed by its second byte if that is ASCII: such a
    byte is read again. (In gb18030 the pairs with a digit begin four bytes, if two more follow.)
    name: of DOUBLE_BYTE.
    """
    found = [""] * 65_536
    nothing = [REPLACEMENT + (chr(trail) if trail < 0x80 else "") for trail in range(256)]
    for lead in _LEADS[name]:
        for trail in range(256):
            found[place(bytes((lead, trail)))] = nothing[trail]
    for pair, text in characters(name):
        found[place(pair)] = text
    return tuple(found)


def place(pair: bytes) -> int:
    """Where `pairs` has a pair: as a view of 16-bit numbers gives it."""
    return int.from_bytes(pair, sys.byteorder)


def characters(name: str) -> Iterator[tuple[bytes, str]]:
    """The pairs that stand for a character (in Big5 four of them for two), and it, in the order of
    the index; those that differ from Python's table come last."""
    if name == "euc-jp":
        yield from ((bytes((0x8E, byte)), text) for byte, text in _HALF_WIDTH.items())
        yield from _jis0208()
        return
    for lead in _LEADS[name]:
        for trail in range(0x40, 0xFF):
            pair = bytes((lead, trail))
            if REPLACEMENT not in (text := pair.decode(TABLES[name], "replace")):
                yield pair, text
    yield from differences(name)


def differences(name: str) -> Iterator[tuple[bytes, str]]:
    """The characters in which an index differs from Python's table."""
    groups = _DIFFERENCES[name].split(" ") if name in _DIFFERENCES else ()
    for group in groups:
        lead, trail = bytes.fromhex(group[:4])
        last, first = _GAP[name]
        for text in group[4:]:
            yield bytes((lead, trail)), text
            trail = first if trail == last else trail + 1


def _jis0208() -> Iterator[tuple[bytes, str]]:
    """From Shift_JIS, which has two rows of 94 characters behind each first byte."""
    for row in range(94):
        lead = row // 2 + (0x81 if row < 62 else 0xC1)
        for column in range(94):
            at = row % 2 * 94 + column
            shifted = bytes((lead, at + (0x40 if at < 63 else 0x41)))
            if REPLACEMENT not in (text := shifted.decode("cp932", "replace")):
                yield bytes((row + 0xA1, column + 0xA1)), text


@cache
def jis0212() -> tuple[str, ...]:
    """What the last two of the three bytes of EUC-JP stand for, as `pairs` has it."""
    found = list(pairs("euc-jp"))
    for lead in range(0xA1, 0xFF):
        for trail in range(0xA1, 0xFF):
            pair = bytes((lead, trail))
            text = (b"\x8f" + pair).decode("euc_jp", "replace")
            found[place(pair)] = REPLACEMENT if REPLACEMENT in text else text
    found[place(b"\xa2\xb7")] = "\uff5e"
    return tuple(found)

"""Labels and indexes of the WHATWG Encoding Standard (sections 4.2 and 5).

The indexes, which map bytes to characters, are Python's codec tables with the differences listed in
encodings.json. Those come from a comparison with the standard's index files as of 2024-09-18. The
tests check a checksum of every index, so a Python release cannot change one unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

import msgspec

REPLACEMENT: Final = "\ufffd"


class _Data(TypedDict):
    """The content of encodings.json.

    labels: the labels of each encoding, by its name in lower case, separated by spaces.
    differences: by encoding, groups that differ from Python's table. A group consists of the first
    byte pair in hexadecimal and the characters of that pair and the following ones.
    """

    labels: dict[str, str]
    differences: dict[str, list[str]]


_DATA: Final = msgspec.json.decode(
    Path(__file__).with_name("encodings.json").read_bytes(), type=_Data
)
NAME_BY_LABEL: Final = {
    label: name for name, labels in _DATA["labels"].items() for label in labels.split()
}
NAMES: Final = frozenset(_DATA["labels"])

# The lead bytes of the encodings that represent characters by two bytes.
_LEADS: Final = {
    "big5": range(0x81, 0xFF),
    "euc-jp": (0x8E, 0x8F, *range(0xA1, 0xFF)),
    "euc-kr": range(0x81, 0xFF),
    "gb18030": range(0x81, 0xFF),
    "shift_jis": (*range(0x81, 0xA0), *range(0xE0, 0xFD)),
}
DOUBLE_BYTE: Final = frozenset(_LEADS)
SINGLE_BYTE: Final = (
    NAMES - DOUBLE_BYTE - {"utf-8", "utf-16le", "utf-16be", "gbk", "iso-2022-jp", "replacement"}
)
# Python's codecs for the two-byte encodings.
CODECS: Final = {
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",  # differs from the standard's index, which is derived from Shift_JIS
    "euc-kr": "cp949",
    "gb18030": "gb18030",
    "shift_jis": "cp932",
}
# Python's codecs for the single-byte encodings that it knows under another name.
_SINGLE_CODECS: Final = {
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "windows-874": "cp874",
    "iso-8859-8-i": "iso8859-8",
}
_SINGLE_DIFFERENCES: Final = {
    "koi8-u": {0xAE: "\u045e", 0xBE: "\u040e"},
    "windows-1255": {0xCA: "\u05ba"},
}
_HALF_WIDTH: Final = {byte: chr(byte + 0xFEC0) for byte in range(0xA1, 0xE0)}  # katakana
# Bytes above 0x7F that represent a character on their own.
_ALONE: Final = {"gb18030": {0x80: "\u20ac"}, "shift_jis": {0x80: "\x80", **_HALF_WIDTH}}
# The last trail byte before the gap in the trail bytes, and the first one after it.
_GAP: Final = {"big5": (0x7E, 0xA1), "gb18030": (0x7E, 0x80)}


@cache
def singles(name: str) -> str:
    """Return the 256 characters represented by single bytes.

    U+FFFD marks bytes that represent no character or that start a longer sequence. `name` is in
    SINGLE_BYTE or DOUBLE_BYTE.
    """
    if name == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else byte + 0xF700) for byte in range(256))
    if name in DOUBLE_BYTE:
        alone = _ALONE.get(name, {})
        return "".join(
            chr(byte) if byte < 0x80 else alone.get(byte, REPLACEMENT) for byte in range(256)
        )
    table = _SINGLE_CODECS.get(name, name.replace("windows-", "cp"))
    found = dict(enumerate(bytes(range(256)).decode(table, "replace")))
    if name.startswith("windows-"):  # unassigned bytes are C1 controls
        found |= {byte: chr(byte) for byte in range(0x80, 0xA0) if found[byte] == REPLACEMENT}
    return "".join((found | _SINGLE_DIFFERENCES.get(name, {})).values())


@cache
def pairs(name: str) -> tuple[str, ...]:
    """Return the characters of all byte pairs, indexed by `place(pair)`.

    A pair that represents nothing is U+FFFD, followed by its second byte if that is ASCII, because
    the decoder reads such a byte again. In gb18030, a pair with a digit starts a four-byte sequence
    if two more bytes follow. `name` is in DOUBLE_BYTE.
    """
    found = [""] * 65_536
    unassigned = [REPLACEMENT + (chr(trail) if trail < 0x80 else "") for trail in range(256)]
    for lead in _LEADS[name]:
        for trail in range(256):
            found[place(bytes((lead, trail)))] = unassigned[trail]
    for pair, text in characters(name):
        found[place(pair)] = text
    return tuple(found)


def place(pair: bytes) -> int:
    """Return the index of a byte pair in `pairs`: its value as a native 16-bit integer."""
    return int.from_bytes(pair, sys.byteorder)


def characters(name: str) -> Iterator[tuple[bytes, str]]:
    """Yield the assigned byte pairs with their characters, in index order.

    Four pairs of Big5 represent two characters each. Pairs that differ from Python's table come
    last.
    """
    if name == "euc-jp":
        yield from ((bytes((0x8E, byte)), text) for byte, text in _HALF_WIDTH.items())
        yield from _jis0208()
        return
    for lead in _LEADS[name]:
        for trail in range(0x40, 0xFF):
            pair = bytes((lead, trail))
            if REPLACEMENT not in (text := pair.decode(CODECS[name], "replace")):
                yield pair, text
    yield from differences(name)


def differences(name: str) -> Iterator[tuple[bytes, str]]:
    """Yield the byte pairs whose characters differ from Python's table."""
    for group in _DATA["differences"].get(name, ()):
        lead, trail = bytes.fromhex(group[:4])
        last, first = _GAP[name]
        for text in group[4:]:
            yield bytes((lead, trail)), text
            trail = first if trail == last else trail + 1


def _jis0208() -> Iterator[tuple[bytes, str]]:
    """Derive JIS X 0208 from Shift_JIS, which has two rows of 94 characters per lead byte."""
    for row in range(94):
        lead = row // 2 + (0x81 if row < 62 else 0xC1)
        for column in range(94):
            at = row % 2 * 94 + column
            shifted = bytes((lead, at + (0x40 if at < 63 else 0x41)))
            if REPLACEMENT not in (text := shifted.decode("cp932", "replace")):
                yield bytes((row + 0xA1, column + 0xA1)), text


@cache
def jis0212() -> tuple[str, ...]:
    """Return the characters of EUC-JP's three-byte sequences, indexed by their last two bytes."""
    found = list(pairs("euc-jp"))
    for lead in range(0xA1, 0xFF):
        for trail in range(0xA1, 0xFF):
            pair = bytes((lead, trail))
            text = (b"\x8f" + pair).decode("euc_jp", "replace")
            found[place(pair)] = REPLACEMENT if REPLACEMENT in text else text
    found[place(b"\xa2\xb7")] = "\uff5e"
    return tuple(found)

"""The decoders of the Encoding Standard: their indexes, and what they make of bytes that are no
text."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.documents.decoders import _DoubleByte, decode, incremental_decoder
from crawler.documents.encoding_index import (
    DOUBLE_BYTE,
    NAMES,
    SINGLE_BYTE,
    characters,
    jis0212,
    pairs,
    place,
    singles,
)
from tests.crawler.documents.standard_decoders import read_slowly
from tests.growth import assert_linear, repeated
from tests.tables import each

MULTI_BYTE = sorted({*DOUBLE_BYTE, "gbk", "iso-2022-jp"})
# Bytes at which decoders change their state, and some that do nothing in particular.
TURNING = bytes.fromhex(
    "00 0E 1B 21 22 24 28 30 39 3C 40 42 49 4A 5C 7E 7F 80 81 84 8E 8F 90 9F A0 A1 A4 AD B7 C8 DF"
    "E0 E3 F4 FC FD FE FF"
)
SEQUENCES = [b"\x1b$B", b"\x1b(B", b"\x1b(J", b"\x1b(I", b"\x8f\xb0\xa1", b"\x81\x30\x81\x30"]
BYTES = st.lists(
    st.sampled_from([bytes((byte,)) for byte in TURNING])
    | st.sampled_from(SEQUENCES)
    | st.binary(min_size=1, max_size=3),
    max_size=30,
).map(b"".join)  # fmt: skip
# CRC-32 of each index, as compared with the standard's own.
CHECKSUMS = {
    "big5": 0xEB6FC57A, "euc-jp": 0xEB6FC57A, "euc-kr": 0xEB6FC57A, "gb18030": 0x13E96FEC,
    "ibm866": 0x3C970EE4, "iso-8859-10": 0x2CB4A718, "iso-8859-13": 0xDD8EA662,
    "iso-8859-14": 0x93AFF3F6, "iso-8859-15": 0x2F87E869, "iso-8859-16": 0xEDFCA2D1,
    "iso-8859-2": 0x5460BEDC, "iso-8859-3": 0xC371F979, "iso-8859-4": 0xB948DBF9,
    "iso-8859-5": 0xF8A70CC1, "iso-8859-6": 0x998201AA, "iso-8859-7": 0x6C0FC693,
    "iso-8859-8": 0xE710C70C, "iso-8859-8-i": 0xE710C70C, "koi8-r": 0x8F7A8ADD,
    "koi8-u": 0x4545A40B, "macintosh": 0xFC06E141, "shift_jis": 0xD40BC84A,
    "windows-1250": 0x319A9300, "windows-1251": 0x7BAD4F95, "windows-1252": 0x88DCFA89,
    "windows-1253": 0x397B25DF, "windows-1254": 0xAC839DFE, "windows-1255": 0x3CE2EE54,
    "windows-1256": 0x45BDC267, "windows-1257": 0x9AAEF575, "windows-1258": 0x1747F8A1,
    "windows-874": 0xD4808555, "x-mac-cyrillic": 0x65362EBC, "x-user-defined": 0x3DE715D9,
    "big5 pairs": 0xAC38A493, "euc-jp pairs": 0xD217EC62, "euc-kr pairs": 0x2884A045,
    "gb18030 pairs": 0x07DC9EE0, "shift_jis pairs": 0xAE35601E, "jis0212": 0xFA692C8C,
}  # fmt: skip


def crc(table: object) -> int:
    return zlib.crc32(repr(table).encode())


def test_indexes_are_those_of_the_standard() -> None:
    found = {name: crc(singles(name)) for name in SINGLE_BYTE | DOUBLE_BYTE}
    for name in DOUBLE_BYTE:
        index = dict(characters(name))
        found[f"{name} pairs"] = crc(sorted(index.items()))
        assert all(pairs(name)[place(pair)] == text for pair, text in index.items())
    rows = range(0xA1, 0xFF)
    found["jis0212"] = crc([jis0212()[place(bytes((a, b)))] for a in rows for b in rows])
    assert found == CHECKSUMS


@pytest.mark.parametrize("name", MULTI_BYTE)
@settings(max_examples=40)
@given(data=BYTES)
@example(data=b"\x81\x30\x81")
@example(data=b"\x8f\xa1")
@example(data=b"\x1b$B\x30\x1b(")
def test_bytes_are_read_as_the_standard_reads_them(name: str, data: bytes) -> None:
    assert decode(data, name) == read_slowly(data, name)


@given(name=st.sampled_from(sorted(NAMES)), pieces=st.lists(BYTES, max_size=6))
def test_pieces_are_read_as_the_whole(name: str, pieces: list[bytes]) -> None:
    decoder = incremental_decoder(name)
    pieced = "".join(
        [*(decoder.decode(piece, False) for piece in pieces), decoder.decode(b"", True)]
    )
    assert pieced == decode(b"".join(pieces), name)


@given(name=st.sampled_from(sorted(NAMES - {"replacement", "utf-16le", "utf-16be", "iso-2022-jp"})),
       data=BYTES)  # fmt: skip
def test_errors_take_no_markup(name: str, data: bytes) -> None:
    """A byte that no encoding has as the last of a character is there in the text."""
    markup = [byte for byte in range(0x40) if not 0x30 <= byte <= 0x39]
    text, found = Counter(decode(data, name)), Counter(data)
    assert [text[chr(byte)] for byte in markup] == [found[byte] for byte in markup]


@each("name", sorted(DOUBLE_BYTE))
def test_python_s_decoder_is_used_only_where_it_agrees(name: str) -> None:
    leads = (*range(0x80, 0x100), 0x41)
    sequences = [bytes((lead, trail)) for lead in leads for trail in range(256)]
    if name == "euc-jp":
        sequences += [b"\x8f" + bytes((a, b)) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
    if name == "gb18030":
        sequences += [
            bytes((first, second, third, fourth))
            for first in (0x81, 0x82, 0x84, 0x90, 0xE3, 0xFE)
            for second in range(0x30, 0x3A)
            for third in range(0x81, 0xFF)
            for fourth in range(0x30, 0x3A)
        ]
    decoder, used = _DoubleByte(name), 0
    for sequence in sequences:
        text = decoder._by_codec(sequence, True)
        if text is not None:
            used += 1
            assert text == decoder._by_index(sequence, True), sequence.hex()
    assert used > 6_000


@each("name", sorted(NAMES))
def test_time_is_linear_for_bytes_that_are_no_text(name: str) -> None:
    for unit in (b"\x80", b"\x81", b"\xff", b"\xd8\x00", b"\x00\xd8", b"\x1b$", b"\x81\x30\x81",
                 b"a\xa4\xa2\xff", b"\x1b$B!\n", b"\xfe\x39\xfe\x39"):  # fmt: skip
        assert_linear(lambda body: decode(body, name), repeated(b"", unit), 30_000, name=unit)

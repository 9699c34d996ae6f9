"""Incremental decoders of the WHATWG Encoding Standard (sections 9 to 15).

Invalid sequences become U+FFFD. They never include an ASCII byte, so that markup after a broken
character remains markup, as in a browser.

This is the only module in which a label from outside selects a decoder. Such a label must never
reach Python's codec registry. Some of its codecs raise (undefined, idna), take quadratic time
(punycode) or are no text encodings (zlib). It also imports modules by the name it is given and
caches every unknown name.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import Final, Protocol

from crawler.documents.encoding_index import (
    CODECS,
    DOUBLE_BYTE,
    NAME_BY_LABEL,
    REPLACEMENT,
    SINGLE_BYTE,
    jis0212,
    pairs,
    place,
    singles,
)

# The lead bytes of multi-byte sequences, and runs of such sequences. A sequence cut off by the end
# of a piece matches no run. Its bytes are held until the next piece.
_LEADS: Final = {
    "big5": rb"\x81-\xfe",
    "euc-jp": rb"\x8e\x8f\xa1-\xfe",
    "euc-kr": rb"\x81-\xfe",
    "gb18030": rb"\x81-\xfe",
    "shift_jis": rb"\x81-\x9f\xe0-\xfc",
}
_RUNS: Final = {
    # 8F is followed by two bytes of JIS X 0212.
    "euc-jp": rb"(?:[\x8e\xa1-\xfe].|\x8f[^\xa1-\xfe])+|(?:\x8f[\xa1-\xfe].)+",
    # A digit is the second byte of a four-byte sequence, or itself if there is no such sequence.
    "gb18030": rb"(?:[\x81-\xfe](?:[^0-9]|[0-9](?!\Z|[\x81-\xfe](?:[0-9]|\Z))))+"
    rb"|(?:[\x81-\xfe][0-9][\x81-\xfe][0-9])+",
}
# Characters that Python's codecs also return for bytes that the standard decodes differently.
_DIFFERING: Final = {
    "big5": "¢£¥•‾∼☉♁／＼､",
    "euc-jp": "~¢£¬‖−〜",
    "euc-kr": "",
    "gb18030": "\u1e3f\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7"
    "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
    "shift_jis": "\uf8f0\uf8f1\uf8f2\uf8f3",
}
# An error takes the bytes around it off the fast path, up to this size.
_STEP_BYTES: Final = 16_384
_ESCAPE: Final = re.compile(rb"\x1b(\([BIJ]|\$[@B])")
_ESCAPE_BEGINS: Final = re.compile(rb"\x1b[($]?\Z")
_SEVEN_BITS: Final = re.compile(rb"((?:[\x21-\x7e]{2})+)|([\x21-\x7e][^\x21-\x7e\x1b])")
_KATAKANA: Final = "".join(
    chr(byte + 0xFF40) if 0x21 <= byte <= 0x5F else REPLACEMENT for byte in range(256)
)
_ASCII: Final = "".join(
    REPLACEMENT if byte in (0x0E, 0x0F, 0x1B) or byte > 0x7F else chr(byte) for byte in range(256)
)
_ROMAN: Final = _ASCII.replace("\\", "\xa5").replace("~", "\u203e")
_EIGHTH_BIT: Final = bytes(byte | 0x80 for byte in range(256))
UTF8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
# In these encodings, ASCII bytes may represent other characters.
_NOT_ASCII: Final = frozenset({"utf-16be", "utf-16le", "iso-2022-jp", "replacement"})
# Large bodies are decoded in pieces so that other threads get to run in between.
_PIECE_BYTES: Final = 131_072


class Decoder(Protocol):
    """Decodes bytes in pieces. `last` marks the final piece."""

    def decode(self, data: bytes, last: bool, /) -> str: ...


def incremental_decoder(name: str) -> Decoder:
    """Return a decoder for an encoding, given by its name in `encoding_index.NAMES`."""
    if name in SINGLE_BYTE:
        return _SingleByte(name)
    if name in ("utf-8", "utf-16le", "utf-16be"):
        return codecs.getincrementaldecoder(name)("replace")
    if name == "iso-2022-jp":
        return _Iso2022Jp()
    if name == "replacement":
        return _Replacement()
    name = "gb18030" if name == "gbk" else name
    assert name in DOUBLE_BYTE
    return _DoubleByte(name)


class _SingleByte:
    def __init__(self, name: str) -> None:
        self._characters = singles(name)

    def decode(self, data: bytes, last: bool, /) -> str:
        del last
        return codecs.charmap_decode(data, "strict", self._characters)[0]


class _Replacement:
    """Decodes any input to one U+FFFD.

    It serves encodings in which markup can be hidden from software that does not support them.
    """

    _begun = False

    def decode(self, data: bytes, last: bool, /) -> str:
        del last
        if self._begun or not data:
            return ""
        self._begun = True
        return REPLACEMENT


class _DoubleByte:
    """Decodes by Python's codec where that agrees with the standard, otherwise by the index."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._codec = CODECS[name]
        self._differing = _DIFFERING[name]
        self._held = b""  # an incomplete sequence

    def decode(self, data: bytes, last: bool, /) -> str:
        texts: list[str] = []
        for at in range(0, len(data) or 1, _STEP_BYTES):
            piece = self._held + data[at : at + _STEP_BYTES]
            final = last and at + _STEP_BYTES >= len(data)
            text = self._by_codec(piece, final)
            texts.append(self._by_index(piece, final) if text is None else text)
        return "".join(texts)

    def _by_codec(self, data: bytes, last: bool) -> str | None:
        held = b""
        try:
            if last:
                text = data.decode(self._codec)
            else:
                codec = codecs.getincrementaldecoder(self._codec)()
                text = codec.decode(data)
                held = codec.getstate()[0]
        except UnicodeDecodeError:
            return None
        # Faster than a regular expression.
        if any(one in text for one in self._differing):
            return None
        self._held = held
        return text

    def _by_index(self, data: bytes, last: bool) -> str:
        single, table = singles(self._name), pairs(self._name)
        runs, lead = _patterns(self._name)
        parts = runs.split(data)
        rest = parts[-1]
        begins = lead.search(rest)
        self._held = b"" if begins is None or last else rest[begins.start() :]
        if begins is not None:
            parts[-1] = rest[: begins.start()]
        texts: list[str] = []
        for number, part in enumerate(parts):
            if len(part) < 3:  # the usual case in broken or hostile input
                if number % 2:
                    texts.append(table[place(part)])
                else:
                    texts += [single[byte] for byte in part]
            elif number % 2:
                texts.append(self._run(part, table))
            else:
                texts.append(codecs.charmap_decode(part, "strict", single)[0])
        if begins is not None and last:
            texts.append(REPLACEMENT)
        return "".join(texts)

    def _run(self, run: bytes, table: tuple[str, ...]) -> str:
        if run[0] == 0x8F and self._name == "euc-jp" and 0xA1 <= run[1] <= 0xFE:
            triples = bytearray(run)
            del triples[::3]
            run, table = bytes(triples), jis0212()
        elif self._name == "gb18030" and 0x30 <= run[1] <= 0x39 and len(run) >= 4 and _is_four(run):
            return _four_bytes(run)
        return "".join(map(table.__getitem__, memoryview(run).cast("H")))


@cache
def _patterns(name: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    lead = rb"[" + _LEADS[name] + rb"]"
    runs = _RUNS.get(name, rb"(?:" + lead + rb".)+")
    return re.compile(rb"(" + runs + rb")", re.DOTALL), re.compile(lead)


def _is_four(run: bytes) -> bool:
    return 0x81 <= run[2] <= 0xFE and 0x30 <= run[3] <= 0x39


def _four_bytes(run: bytes) -> str:
    """Decode four-byte sequences. Python's codec differs only in U+E7C7, swapped with U+1E3F."""
    try:
        text = run.decode("gb18030")
    except UnicodeDecodeError:  # some are unassigned
        parts = [run[at : at + 4].decode("gb18030", "replace") for at in range(0, len(run), 4)]
        text = "".join(part if len(part) == 1 else REPLACEMENT for part in parts)
    return text.replace("\u1e3f", "\ue7c7")


class _Iso2022Jp:
    """Decodes ISO-2022-JP, in which escape sequences select the character set."""

    def __init__(self) -> None:
        self._mode = b"(B"
        self._escaped = False  # nothing followed the last escape sequence yet
        self._held = b""  # an incomplete escape sequence or character

    def decode(self, data: bytes, last: bool, /) -> str:
        data = self._held + data
        self._held = b""
        if not last and (begins := _ESCAPE_BEGINS.search(data)):
            self._held = data[begins.start() :]
            data = data[: begins.start()]
        parts = _ESCAPE.split(data)
        texts: list[str] = []
        for number, part in enumerate(parts):
            if number % 2:
                if self._escaped:  # two in a row
                    texts.append(REPLACEMENT)
                self._mode, self._escaped = part, True
            elif part:
                final = number == len(parts) - 1 and not last
                texts.append(self._segment(part, may_continue=final))
        return "".join(texts)

    def _segment(self, segment: bytes, *, may_continue: bool) -> str:
        """Decode bytes that contain no complete escape sequence."""
        if self._mode in (b"$@", b"$B"):
            return self._double(segment, may_continue=may_continue)
        self._escaped = False
        table = {b"(B": _ASCII, b"(J": _ROMAN, b"(I": _KATAKANA}[self._mode]
        return codecs.charmap_decode(segment, "strict", table)[0]

    def _double(self, segment: bytes, *, may_continue: bool) -> str:
        table = pairs("euc-jp")
        parts = _SEVEN_BITS.split(segment)
        rest = parts[-1]
        if may_continue and not self._held and rest and 0x21 <= rest[-1] <= 0x7E:
            self._held = rest[-1:]
            parts[-1] = rest[:-1]
        if len(parts) > 1 or parts[0]:
            self._escaped = False
        texts: list[str] = []
        for at in range(0, len(parts), 3):
            texts.append(REPLACEMENT * len(parts[at]))
            if at + 1 < len(parts):
                run, broken = parts[at + 1], parts[at + 2]
                if broken:
                    texts.append(REPLACEMENT)
                else:
                    numbers = memoryview(run.translate(_EIGHTH_BIT)).cast("H")
                    texts.append("".join(map(table.__getitem__, numbers)))
        return "".join(texts)


def encoding_of(label: str) -> str | None:
    """Return the name of the encoding for a label, or None if the web has no such encoding."""
    label = label.strip("\t\n\f\r ")
    # Labels are ASCII. Lowercasing would turn the Kelvin sign into an ASCII letter.
    return NAME_BY_LABEL.get(label.lower()) if label.isascii() else None


def reads_ascii(name: str) -> bool:
    """Return whether ASCII bytes represent ASCII characters in this encoding."""
    return name not in _NOT_ASCII


def encoding_by_mark(body: bytes) -> tuple[str, int] | None:
    """Return the encoding given by a byte order mark and the size of the mark in bytes.

    Source: Encoding Standard, section 6, "BOM sniff". It has no UTF-32.
    """
    return next(((name, len(mark)) for mark, name in _MARKS if body.startswith(mark)), None)


def decode(body: bytes, name: str) -> str:
    """Decode bytes to text. Invalid sequences become U+FFFD. Never raises.

    `name` is in `encoding_index.NAMES`, as returned by `encoding_of` and `encoding_by_mark`.
    """
    decoder = incremental_decoder(name)
    if len(body) <= _PIECE_BYTES:
        return decoder.decode(body, True)
    return "".join(
        [
            decoder.decode(body[at : at + _PIECE_BYTES], at + _PIECE_BYTES >= len(body))
            for at in range(0, len(body), _PIECE_BYTES)
        ]
    )

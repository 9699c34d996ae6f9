"""The text encodings of the web (WHATWG Encoding Standard).

This is the only module in which a label from outside selects a decoder. Such a label must never
reach Python's codec registry. Some of its codecs raise (undefined, idna), take quadratic time
(punycode) or are no text encodings (zlib). It also imports modules by the name it is given and
caches every unknown name.
"""

from __future__ import annotations

import codecs
from typing import Final

from crawler.documents.decoders import incremental_decoder
from crawler.documents.encoding_index import NAME_BY_LABEL

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

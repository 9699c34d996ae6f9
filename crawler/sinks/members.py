"""Where the last whole gzip member of a file ends: what a crash leaves behind it is cut off."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from crawler.sinks.base import SinkError

_MAGIC: Final = b"\x1f\x8b\x08"
_WINDOW_BYTES: Final = 16_000_000  # of the end of a file; more if no member begins in it
_PIECE_BYTES: Final = 1_000_000


def whole_members(file: BinaryIO, path: Path) -> int:
    """How many bytes of the file are whole members. Raises SinkError if it is no gzip file."""
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(min(size, len(_MAGIC)))
    if head != _MAGIC[: len(head)]:
        raise SinkError(f"the sink {path} is not a gzip file that a crawl has written: not touched")
    window = _WINDOW_BYTES
    while True:
        start = max(0, size - window)
        for at in _candidates(file, start, size):
            end = _chain(file, at, size)
            if end > at:
                return end
        if start == 0:
            return 0  # not one member was finished
        window *= 8


def _candidates(file: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Where a member may begin, from `start` on; a look at it shows whether one does."""
    overlap = len(_MAGIC) - 1
    at = start
    while at < size:
        file.seek(at)
        piece = file.read(_PIECE_BYTES + overlap)
        found = piece.find(_MAGIC)
        while 0 <= found < _PIECE_BYTES:
            yield at + found
            found = piece.find(_MAGIC, found + 1)
        at += _PIECE_BYTES


def _chain(file: BinaryIO, at: int, size: int) -> int:
    """Where the whole members that follow one another from `at` on end."""
    whole = at
    while whole < size:
        end = _member(file, whole)
        if end is None:
            break
        whole = end
    return whole


def _member(file: BinaryIO, at: int) -> int | None:
    """Where the member that begins here ends; None if it is not whole (its checksum counts)."""
    reader = zlib.decompressobj(wbits=31)
    file.seek(at)
    taken = 0
    try:
        while piece := file.read(_PIECE_BYTES):
            taken += len(piece)
            while piece:
                reader.decompress(piece, _PIECE_BYTES)
                if reader.eof:
                    return at + taken - len(reader.unused_data)
                piece = reader.unconsumed_tail
    except zlib.error:
        return None
    return None

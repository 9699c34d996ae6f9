"""The end of the last complete gzip member of a file, after which a crash may have left garbage."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from crawler.sinks.sink import SinkError

_MAGIC: Final = b"\x1f\x8b\x08"
_WINDOW_BYTES: Final = 16_000_000  # at the end of a file, in which a member should start
_TRIES_MAX: Final = 1_000  # positions tried in this window
_PIECE_BYTES: Final = 1_000_000


def whole_members(file: BinaryIO, path: Path) -> int:
    """Return how many bytes of the file are complete members. Raises SinkError if it is not gzip.

    Members are identified only by their first bytes and their checksum, and the content of a member
    may contain another gzip file. So a member found in the middle of a file only counts if complete
    members follow from there to the end of the file. Otherwise a crash has torn the last one, and
    all members are read from the start, which takes 5 s per gigabyte.
    """
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(min(size, len(_MAGIC)))
    if head != _MAGIC[: len(head)]:
        raise SinkError(
            f"the sink {path} is not a gzip file written by a crawl and was not touched"
        )
    if size > _WINDOW_BYTES:
        for at in islice(_candidates(file, size - _WINDOW_BYTES, size), _TRIES_MAX):
            if _chain(file, at, size) == size:
                return size
    return _chain(file, 0, size)


def _candidates(file: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Yield positions from `start` at which a member may start."""
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
    """Return the end of the consecutive complete members that start at `at`."""
    whole = at
    while whole < size:
        end = _member(file, whole)
        if end is None:
            break
        whole = end
    return whole


def _member(file: BinaryIO, at: int) -> int | None:
    """Return the end of the member at `at`, or None if it is incomplete or corrupt."""
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

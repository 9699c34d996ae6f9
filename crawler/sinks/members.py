"""Where the last whole gzip member of a file ends: what a crash leaves behind it is cut off."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from crawler.sinks.sink import SinkError

_MAGIC: Final = b"\x1f\x8b\x08"
_WINDOW_BYTES: Final = 16_000_000  # of the end of a file, where a member should begin
_TRIES_MAX: Final = 1_000  # places in it where one may begin
_PIECE_BYTES: Final = 1_000_000


def whole_members(file: BinaryIO, path: Path) -> int:
    """How many bytes of the file are whole members. Raises SinkError if it is no gzip file.

    Members are known by nothing but their beginning and their checksum, and a page may be a gzip
    file itself, whose bytes stand as they are in the member of its record. So what is found in the
    middle of a file counts only if members follow from there to its very end. Where none do, a
    crash has torn the last one, and all are gone through from the first: 5 s for a gigabyte.
    """
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(min(size, len(_MAGIC)))
    if head != _MAGIC[: len(head)]:
        raise SinkError(f"the sink {path} is not a gzip file that a crawl has written: not touched")
    if size > _WINDOW_BYTES:
        for at in islice(_candidates(file, size - _WINDOW_BYTES, size), _TRIES_MAX):
            if _chain(file, at, size) == size:
                return size
    return _chain(file, 0, size)


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

"""Append-only files of whole records, rotated by size or age, and repaired after a crash."""

from __future__ import annotations

import logging
import os
import re
import threading
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from crawler.clock import RealClock
from crawler.config import SinkConfig
from crawler.sinks.folder import make_folder
from crawler.sinks.sink import SinkError, sink_error, sink_errors
from storage import process_locks
from storage.safe_files import FILE_MODE, open_for_update, sync_folder

_log = logging.getLogger("courtly.sinks")
_ENDINGS: Final = (".jsonl.gz", ".jsonl", ".warc.gz", ".warc", ".json.gz", ".json", ".gz")
# Records buffered in memory before they are written.
_BUFFER_BYTES_MAX: Final = 4_000_000
_MAGIC: Final = b"\x1f\x8b\x08"
_WINDOW_BYTES: Final = 16_000_000  # at the end of a file, in which a member should start
_TRIES_MAX: Final = 1_000  # positions tried in this window
_PIECE_BYTES: Final = 1_000_000


class WallClock(Protocol):
    def wall(self) -> float: ...


class RotatingFileSink:
    """The base of sinks that append to `a.jsonl`, then `a-00001.jsonl`, `a-00002.jsonl` and so on.

    mode: permissions of new files. With `config.fsync`, `flush` waits for the storage device.
    Otherwise it waits for the operating system only, which does not protect from a power failure.
    """

    def __init__(
        self,
        config: SinkConfig,
        *,
        mode: int = FILE_MODE,
        clock: WallClock = RealClock,
    ) -> None:
        self._config = config
        self._mode = mode
        self._clock = clock
        self._number = 0
        self._file: BinaryIO | None = None
        self._bytes = 0  # written to the file, in whole records
        self._head_bytes = 0
        self._began_at = 0.0
        self._buffer = bytearray()
        self._flushed = (0, 0, 0, 0.0)  # _number, _bytes, _head_bytes, _began_at at the last flush

    @property
    def path(self) -> Path:
        """The current file."""
        return numbered(self._config.path, self._number)

    def head(self, path: Path) -> bytes:
        """Return the first record of the new file `path`, or no bytes."""
        del path
        return b""

    @abstractmethod
    def whole_records(self, file: BinaryIO, path: Path) -> int:
        """Return how many bytes of an uncompressed file are whole records.

        Raises SinkError for a file that no such sink has written.
        """

    def open(self) -> None:
        try:
            make_folder(self._config.path.parent, self._mode)
            self._number = max(numbered_files(self._config.path).values(), default=0)
            self._begin()
            self._note_flushed()
        except BaseException as error:
            file, self._file = self._file, None  # releases its lock for the next attempt
            self._buffer = bytearray()
            if file is not None:
                file.close()
            if isinstance(error, OSError):
                raise sink_error(self.path, error) from error
            raise

    def close(self, hurried: threading.Event | None = None) -> None:
        """Close the file. Records that were not flushed are discarded."""
        del hurried  # there is no optional work
        file, self._file = self._file, None
        self._buffer = bytearray()
        if file is None:
            return
        with sink_errors(self):
            try:
                if self._config.fsync:
                    os.fsync(file.fileno())
            finally:
                file.close()

    def _begin(self) -> None:
        """Open the current file, repair it, and write its head if it is new."""
        file = self._open_locked()
        path = self.path
        try:
            size = file.seek(0, os.SEEK_END)
            if size:
                read_whole = whole_members if self._config.compresses else self.whole_records
                whole = read_whole(file, path)
                if whole < size:
                    file.truncate(whole)
                size = file.seek(whole)
        except BaseException:
            self._file = None
            file.close()
            raise
        self._bytes = size
        self._head_bytes = 0
        self._began_at = self._clock.wall()
        if not size and self._config.fsync:
            sync_folder(path.parent)
        if not size and (head := self.head(path)):
            self._head_bytes = len(head)
            self._buffer += head
            self._write()

    def _open_locked(self) -> BinaryIO:
        path = self.path
        file = os.fdopen(open_for_update(path, self._mode), "r+b", buffering=0)
        try:
            process_locks.lock(file.fileno())
        except BaseException as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise SinkError(f"the sink {path} is being written by another crawl") from None
            raise
        self._file = file
        return file

    def append(self, record: bytes) -> None:
        """Append a whole record, which may stay in memory until `flush`."""
        with sink_errors(self):
            if self._is_full():
                self._rotate()
            self._buffer += record
            if len(self._buffer) >= _BUFFER_BYTES_MAX:
                self._write()

    def flush(self) -> None:
        with sink_errors(self):
            self._write()
            if self._config.fsync and self._file is not None:
                os.fsync(self._file.fileno())
            self._note_flushed()

    def undo(self) -> None:
        """Truncate to the last flush, and remove files begun since.

        Data written before a failed fsync is unreliable, so all of it is written again.
        """
        number, size, head_bytes, began_at = self._flushed
        self._buffer = bytearray()
        with sink_errors(self):
            if self._number != number or self._file is None:
                file, self._file = self._file, None
                if file is not None:
                    file.close()
                while self._number > number:
                    self.path.unlink(missing_ok=True)
                    self._number -= 1
                self._open_locked()
            file = self._file
            assert file is not None
            if os.fstat(file.fileno()).st_size < size:  # another program has removed or cut it
                self._reopen(file)
                return
            file.truncate(size)
            file.seek(size)
        self._bytes, self._head_bytes, self._began_at = size, head_bytes, began_at
        if not size:
            self._buffer += self.head(self.path)

    def _note_flushed(self) -> None:
        self._flushed = (self._number, self._bytes, self._head_bytes, self._began_at)

    def _is_full(self) -> bool:
        size = self._bytes + len(self._buffer)
        if size <= self._head_bytes:
            return False  # no record yet
        age_s = self._clock.wall() - self._began_at
        return size >= self._config.max_file_bytes or age_s >= self._config.max_age_s

    def _rotate(self) -> None:
        self._write()
        RotatingFileSink.close(self)
        self._number += 1
        self._begin()

    def _write(self) -> None:
        if not self._buffer or self._file is None:
            return
        self._check_path(self._file)
        file = self._file
        assert file is not None
        view = memoryview(self._buffer)
        try:
            at = 0
            while at < len(view):
                at += file.write(view[at:])
        except OSError:
            with suppress(OSError):  # if this fails, the next `open` truncates the file
                file.truncate(self._bytes)
                file.seek(self._bytes)
            raise
        finally:
            view.release()
        self._bytes += len(self._buffer)
        self._buffer = bytearray()

    def _check_path(self, file: BinaryIO) -> None:
        """Reopen the path if another program has moved, removed, replaced or truncated the file.

        Data written to a file without a name would be lost, and writing past a truncated end would
        leave a hole.
        """
        found = os.fstat(file.fileno())
        path = self.path
        try:
            is_same = os.path.samestat(found, path.lstat())
        except FileNotFoundError:
            is_same = False
        if is_same and found.st_size >= self._bytes:
            return
        change = "truncated" if is_same else "moved, removed or replaced"
        _log.warning("the sink %s was %s by another program and is reopened", path, change)
        records, self._buffer = self._buffer, bytearray()
        try:
            self._reopen(file)
        finally:
            self._buffer = records

    def _reopen(self, file: BinaryIO) -> None:
        self._file = None
        file.close()
        self._begin()
        self._note_flushed()


def numbered(path: Path, number: int) -> Path:
    """Insert a number: `a.jsonl.gz` becomes `a-00007.jsonl.gz`. Number 0 is the path itself."""
    if not number:
        return path
    stem, ending = _split(path.name)
    return path.with_name(f"{stem}-{number:05d}{ending}")


def numbered_files(path: Path) -> dict[Path, int]:
    """Return the existing files of a path with their numbers."""
    stem, ending = _split(path.name)
    form = re.compile(rf"{re.escape(stem)}-([0-9]{{5,}}){re.escape(ending)}")
    found = {path: 0} if path.exists() else {}
    for one in path.parent.iterdir() if path.parent.is_dir() else ():
        if match := form.fullmatch(one.name):
            found[one] = int(match[1])
    return found


def _split(name: str) -> tuple[str, str]:
    for ending in _ENDINGS:
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)], name[-len(ending) :]
    dot = name.rfind(".")
    return (name[:dot], name[dot:]) if dot > 0 else (name, "")


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

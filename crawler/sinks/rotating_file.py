"""Files that only grow: whole records on disk, a new file when one is large or old enough, and what
a crash left half written cut off."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from crawler.sinks.folder import make_folder
from crawler.sinks.sink import SinkError, sink_error
from storage.files import FILE_MODE, open_for_update

_log = logging.getLogger("courtly.sinks")
_ENDINGS: Final = (".jsonl.gz", ".jsonl", ".warc.gz", ".warc", ".json.gz", ".json", ".gz")
# Written in one go at most: the rest of a batch waits in memory no longer than that.
_BUFFER_BYTES_MAX: Final = 4_000_000

# Of an open file that has content: how many of its bytes are whole records. Raises SinkError for
# a file that was not written by such a sink.
Whole = Callable[[BinaryIO, Path], int]


class RotatingFile:
    """`a.jsonl`, then `a-00001.jsonl`, `a-00002.jsonl` and so on: the last one is written to.

    bytes_max, age_s_max: a file that has reached one of them is followed by another.
    head: what each file begins with, by its path. fsync: whether `flush` waits for the medium, or
    only until the system has it, which outlives the process and not a power cut. mode: the
    permissions of files that are created.
    """

    def __init__(
        self,
        path: Path,
        *,
        whole: Whole,
        head: Callable[[Path], bytes] = lambda _: b"",
        bytes_max: float = float("inf"),
        age_s_max: float = float("inf"),
        fsync: bool = True,
        mode: int = FILE_MODE,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._whole = whole
        self._head = head
        self._bytes_max = bytes_max
        self._age_s_max = age_s_max
        self._fsync = fsync
        self._mode = mode
        self._wall = wall
        self._number = 0
        self._file: BinaryIO | None = None
        self._bytes = 0  # in the file, whole and written
        self._head_bytes = 0
        self._began_at = 0.0
        self._buffer = bytearray()
        self._safe = (0, 0, 0, 0.0)  # number, bytes, head's bytes and beginning at the last flush

    @property
    def path(self) -> Path:
        """The file that is written to."""
        return numbered(self._path, self._number)

    # ------------------------------------------------------------ life

    def open(self) -> None:
        try:
            make_folder(self._path.parent, self._mode)
            self._number = self._last_number()
            self._begin()
            self._note_safe()
        except BaseException as error:
            file, self._file = self._file, None  # else it could not be locked when tried again
            self._buffer = bytearray()
            if file is not None:
                file.close()
            if isinstance(error, OSError):
                raise self._error(error) from error
            raise

    def close(self) -> None:
        file, self._file = self._file, None
        self._buffer = bytearray()
        if file is None:
            return
        try:
            try:
                if self._fsync:
                    os.fsync(file.fileno())
            finally:
                file.close()
        except OSError as error:
            raise self._error(error) from error

    def _last_number(self) -> int:
        return max(numbered_files(self._path).values(), default=0)

    def _begin(self) -> None:
        """Open the file of this number, mended, with its head."""
        file = self._open()
        path = self.path
        try:
            size = file.seek(0, os.SEEK_END)
            if size:
                whole = self._whole(file, path)
                if whole < size:
                    file.truncate(whole)
                size = file.seek(whole)
        except BaseException:
            self._file = None
            file.close()
            raise
        self._bytes = size
        self._head_bytes = 0
        self._began_at = self._wall()
        if not size and self._fsync:
            sync_folder(path.parent)  # its name, too, outlives a power cut
        if not size and (head := self._head(path)):
            self._head_bytes = len(head)
            self._buffer += head
            self._write()

    def _open(self) -> BinaryIO:
        """The file of this number, locked."""
        path = self.path
        file = os.fdopen(open_for_update(path, self._mode), "r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise SinkError(f"the sink {path} is being written by another crawl") from None
        except BaseException:
            file.close()
            raise
        self._file = file
        return file

    # ------------------------------------------------------------ writing

    def append(self, record: bytes) -> None:
        """One whole record. It may lie in memory until `flush`."""
        try:
            if self._is_done():
                self._follow()
            self._buffer += record
            if len(self._buffer) >= _BUFFER_BYTES_MAX:
                self._write()
        except OSError as error:
            raise self._error(error) from error

    def flush(self) -> None:
        try:
            self._write()
            if self._fsync and self._file is not None:
                os.fsync(self._file.fileno())
            self._note_safe()
        except OSError as error:
            raise self._error(error) from error

    def undo(self) -> None:
        """Go back to what was flushed: cut off what followed, remove files begun since. What a
        failed fsync leaves behind is not to be relied on, so all of it is written anew."""
        number, size, head_bytes, began_at = self._safe
        self._buffer = bytearray()
        try:
            if self._number != number or self._file is None:
                file, self._file = self._file, None
                if file is not None:
                    file.close()
                while self._number > number:
                    self.path.unlink(missing_ok=True)
                    self._number -= 1
                self._open()
            file = self._file
            assert file is not None
            if os.fstat(file.fileno()).st_size < size:  # another program has removed or cut it
                self._begin_anew(file)
                return
            file.truncate(size)
            file.seek(size)
        except OSError as error:
            raise self._error(error) from error
        self._bytes, self._head_bytes, self._began_at = size, head_bytes, began_at
        if not size:
            self._buffer += self._head(self.path)

    def _note_safe(self) -> None:
        self._safe = (self._number, self._bytes, self._head_bytes, self._began_at)

    def _is_done(self) -> bool:
        size = self._bytes + len(self._buffer)
        if size <= self._head_bytes:
            return False  # not one record yet
        return size >= self._bytes_max or self._wall() - self._began_at >= self._age_s_max

    def _follow(self) -> None:
        self._write()
        self.close()
        self._number += 1
        self._begin()

    def _write(self) -> None:
        if not self._buffer or self._file is None:
            return
        self._follow_others(self._file)
        file = self._file
        assert file is not None
        view = memoryview(self._buffer)
        try:
            at = 0
            while at < len(view):
                at += file.write(view[at:])
        except OSError:
            with suppress(OSError):  # what is half written is cut now, or when it is next opened
                file.truncate(self._bytes)
                file.seek(self._bytes)
            raise
        finally:
            view.release()
        self._bytes += len(self._buffer)
        self._buffer = bytearray()

    def _follow_others(self, file: BinaryIO) -> None:
        """Where another program has moved, removed, replaced or cut the file, go on with what is at
        the path now: what is written to a file without a name is lost, and behind a cut there would
        be a hole."""
        found = os.fstat(file.fileno())
        path = self.path
        try:
            is_ours = os.path.samestat(found, path.lstat())
        except FileNotFoundError:
            is_ours = False
        if is_ours and found.st_size >= self._bytes:
            return
        was = "cut" if is_ours else "moved, removed or replaced"
        _log.warning("the sink %s was %s by another program: it begins anew there", path, was)
        records, self._buffer = self._buffer, bytearray()
        try:
            self._begin_anew(file)
        finally:
            self._buffer = records

    def _begin_anew(self, file: BinaryIO) -> None:
        self._file = None
        file.close()
        self._begin()
        self._note_safe()

    def _error(self, error: OSError) -> SinkError:
        return sink_error(self.path, error)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the medium. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def numbered(path: Path, number: int) -> Path:
    """`a.jsonl.gz` → `a-00007.jsonl.gz`; number 0 is the path itself."""
    if not number:
        return path
    stem, ending = _parts(path.name)
    return path.with_name(f"{stem}-{number:05d}{ending}")


def numbered_files(path: Path) -> dict[Path, int]:
    """The files there are of a path, with their numbers."""
    stem, ending = _parts(path.name)
    form = re.compile(rf"{re.escape(stem)}-([0-9]{{5,}}){re.escape(ending)}")
    found = {path: 0} if path.exists() else {}
    for one in path.parent.iterdir() if path.parent.is_dir() else ():
        if match := form.fullmatch(one.name):
            found[one] = int(match[1])
    return found


def _parts(name: str) -> tuple[str, str]:
    for ending in _ENDINGS:
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)], name[-len(ending) :]
    dot = name.rfind(".")
    return (name[:dot], name[dot:]) if dot > 0 else (name, "")

"""Locks on the files of an open database that the rest of this process cannot release by accident.

SQLite's own locks are POSIX locks. They belong to the process, and closing any descriptor of a file
releases all of them; a program that embeds a crawl and copies its database does that. Linux has a
second kind, which belongs to an open file. They are put on the descriptors that SQLite itself has
open, because any other descriptor would have to be closed at some time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import struct
import sys
from pathlib import Path
from typing import Any, Final

from storage.store_errors import StoreRefused

# https://www.sqlite.org/fileformat2.html#the_lock_byte_page, and unixShmLock in SQLite's os_unix.c.
_SHARED: Final = (0x400001FF, 1)  # the last of the bytes that every open connection locks
_DEAD_MAN_SWITCH: Final = (128, 1)  # the same, in the index of the write-ahead log
# A byte next to them, for the one process that may write, by whatever name it opened the file.
_WRITER: Final = (0x40000200, 1)
_EVERYTHING: Final = (0, 0)
_FLOCK: Final = struct.Struct("hhqqi4x")  # of a 64-bit system: type, whence, start, length, process
# https://www.sqlite.org/walformat.html: version, 0, changes, flags, bytes of a page, frames, sums.
_INDEX_HEAD: Final = struct.Struct("=IIIBBHI28x")
_WAL_HEAD_BYTES: Final = 32
_FRAME_HEAD_BYTES: Final = 24
_LOOKS: Final = 3  # another program may be writing
_IS_KNOWN: Final = sys.platform == "linux" and sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")
_LOCKED_ELSEWHERE: Final = (errno.EAGAIN, errno.EACCES)
_DESCRIPTORS: Final = "/proc/self/fd"


class LockedConnection(sqlite3.Connection):
    """A connection that locks its files by `claim` and `lock_files` until it is closed."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self._path = path
        self._locked: dict[int, os.stat_result] = {}  # descriptor -> the file it was
        before = _descriptors(path)
        super().__init__(path, **settings)
        self._own = _descriptors(path) - before
        self._index = Path(f"{path}-shm")
        self.is_damaged = False

    def close(self) -> None:
        """Release the locks first: the last connection to a database copies the write-ahead log
        into it, and our locks would look like another connection. If the files are damaged, that
        copy must not happen, so the locks stay."""
        locked, self._locked = self._locked, {}
        if self.is_damaged:
            locked = {}  # they end with SQLite's descriptors
        for descriptor, file in locked.items():
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.path.samestat(os.fstat(descriptor), file):
                    _lock(descriptor, fcntl.F_UNLCK, _EVERYTHING)
        super().close()

    def claim(self) -> None:
        """Become the one writer of the file under all its names (a bind mount has a lock file of
        its own). Raises StoreRefused if another process is."""
        for descriptor in self._own:
            if not self._keep(descriptor, fcntl.F_WRLCK, _WRITER):
                raise StoreRefused(
                    f"{self._path} is in use by another process, possibly under another name"
                )

    def lock_files(self) -> None:
        """Prevent other programs from using the files exclusively. Call it in WAL mode, because
        switching to it needs the locks that this refuses."""
        for file, place in ((self._path, _SHARED), (self._index, _DEAD_MAN_SWITCH)):
            for descriptor in _descriptors(file):
                self._keep(descriptor, fcntl.F_RDLCK, place)

    def wal_bytes(self) -> int:
        """Return the length of the write-ahead log according to its index; 0 if the system does
        not show it."""
        for descriptor in _descriptors(self._index):
            for _ in range(_LOOKS):
                data = os.pread(descriptor, 2 * _INDEX_HEAD.size, 0)
                first, second = data[: _INDEX_HEAD.size], data[_INDEX_HEAD.size :]
                if first == second and len(first) == _INDEX_HEAD.size:
                    return _wal_bytes(first)
        return 0

    def _keep(self, descriptor: int, kind: int, place: tuple[int, int]) -> bool:
        kept = _lock(descriptor, kind, place)
        if kept:
            self._locked[descriptor] = os.fstat(descriptor)
        return kept


def _wal_bytes(index_head: bytes) -> int:
    page_bytes: int
    frames: int
    *_, page_bytes, frames = _INDEX_HEAD.unpack(index_head)
    if not frames:
        return 0
    return _WAL_HEAD_BYTES + frames * (
        _FRAME_HEAD_BYTES + (65_536 if page_bytes == 1 else page_bytes)
    )


def _descriptors(file: Path) -> set[int]:
    """Return the descriptors for writing that this process has open on a file; none if the system
    does not show them."""
    found: set[int] = set()
    if not _IS_KNOWN:
        return found
    try:
        wanted = file.stat()
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - numbers, not paths
    except OSError:
        return found
    for name in names:
        try:
            descriptor = int(name)
            if os.path.samestat(os.fstat(descriptor), wanted) and _writes(descriptor):
                found.add(descriptor)
        except OSError:  # the listing itself, or closed by another thread
            continue
    return found


def _writes(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def _lock(descriptor: int, kind: int, place: tuple[int, int]) -> bool:
    """Return False if another process has it; True on a file system without such locks."""
    start, length = place
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
    except OSError as error:
        return error.errno not in _LOCKED_ELSEWHERE
    return True

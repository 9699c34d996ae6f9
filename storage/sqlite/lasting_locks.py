"""Locks on the files of an open database that last whatever else this process does with them.

SQLite's own are POSIX locks: they are the process's, and closing any descriptor of a file releases
all of them, as a program does that embeds a crawl and copies its database. Linux has a second kind,
which belongs to an open file. They are put on the descriptors that SQLite itself has open, because
a further one would have to be closed one day.
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

from storage.store import StoreRefused

# https://www.sqlite.org/fileformat2.html#the_lock_byte_page, and unixShmLock in SQLite's os_unix.c.
_SHARED: Final = (0x400001FF, 1)  # the last of the bytes that who has the database open locks
_DEAD_MAN_SWITCH: Final = (128, 1)  # of the index of its write-ahead log, likewise
# Next to them, for ourselves: the one process that may write, whatever name the file has for it.
_WRITER: Final = (0x40000200, 1)
_EVERYTHING: Final = (0, 0)
_FLOCK: Final = struct.Struct("hhqqi4x")  # of a 64-bit system: type, whence, start, length, process
# https://www.sqlite.org/walformat.html: version, 0, changes, flags, bytes of a page, frames, sums.
_INDEX_HEAD: Final = struct.Struct("=IIIBBHI28x")
_WAL_HEAD_BYTES: Final = 32
_FRAME_HEAD_BYTES: Final = 24
_LOOKS: Final = 3  # another program may be writing
_IS_KNOWN: Final = sys.platform == "linux" and sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")
_HELD_ELSEWHERE: Final = (errno.EAGAIN, errno.EACCES)
_DESCRIPTORS: Final = "/proc/self/fd"


class LockedConnection(sqlite3.Connection):
    """One whose files are locked by `claim` and `hold`, until it is closed."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self._path = path
        self._locked: dict[int, os.stat_result] = {}  # by descriptor: which file it was
        before = _descriptors(path)
        super().__init__(path, **settings)
        self._own = _descriptors(path) - before
        self._index = Path(f"{path}-shm")
        self.is_damaged = False

    def close(self) -> None:
        """Who closes a database as the last one copies its write-ahead log into it: our own locks
        must not look like another who has it open, unless the files are damaged."""
        locked, self._locked = self._locked, {}
        if self.is_damaged:
            locked = {}  # they go with SQLite's descriptors
        for descriptor, file in locked.items():
            with contextlib.suppress(OSError):  # it is closed: of another connection
                if os.path.samestat(os.fstat(descriptor), file):
                    _lock(descriptor, fcntl.F_UNLCK, _EVERYTHING)
        super().close()

    def claim(self) -> None:
        """Be the one that writes to the file, by any of its names (a bind mount has a lock file of
        its own). Raises StoreRefused if another is."""
        for descriptor in self._own:
            if not self._keep(descriptor, fcntl.F_WRLCK, _WRITER):
                raise StoreRefused(
                    f"{self._path} is in use by another process, which may know it by another name"
                )

    def hold(self) -> None:
        """Let no other program believe that it has the files for itself. To be called in WAL mode:
        changing to that takes the locks that are then refused."""
        for file, place in ((self._path, _SHARED), (self._index, _DEAD_MAN_SWITCH)):
            for descriptor in _descriptors(file):
                self._keep(descriptor, fcntl.F_RDLCK, place)

    def wal_bytes(self) -> int:
        """How long the write-ahead log must be, by its index; 0 where the system does not
        say."""
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
    """Those for writing that this process has open on a file. None where the system does not
    say."""
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
        except OSError:  # that of the listing itself, or one that another thread has just closed
            continue
    return found


def _writes(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def _lock(descriptor: int, kind: int, place: tuple[int, int]) -> bool:
    """False if another holds it. A file system that has no such locks is as if it had none."""
    start, length = place
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
    except OSError as error:
        return error.errno not in _HELD_ELSEWHERE
    return True

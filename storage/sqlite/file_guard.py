"""Notices that files of an open database were moved, deleted, replaced or truncated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from storage.sqlite.connection_locks import LockedConnection
from storage.sqlite.file_lock import FileLock
from storage.store_errors import StoreError
from storage.transient_faults import kind_of

_EVERY_S: Final = 1.0
_ENDINGS: Final = ("", "-wal", "-shm")  # the last two exist from the first transaction on
_LOOKS: Final = 3
_Place = tuple[int, int]  # device and inode


class FileGuard:
    """Compares the database, its write-ahead log, the log's index and the lock file with what was
    opened.

    It only looks at names and sizes: opening a file and closing it again would release the locks
    that SQLite holds on it (POSIX locks belong to a process, not to a descriptor).
    """

    def __init__(self, database: Path, lock: FileLock, db: LockedConnection) -> None:
        self._database = os.fspath(database)
        self._wal = self._database + "-wal"
        self._lock = lock
        self._db = db  # only its own thread may use it
        self._places: dict[str, _Place] = {}
        self._next_s = float("-inf")
        self._sizes: dict[str, int] = {}  # after the last transaction
        self._version = -1  # PRAGMA data_version: changes when another program commits

    def check(self, now_s: float) -> None:
        """Raise StoreError if a file is not the one that was opened; at most one look a second.
        Raises OSError for a transient fault.

        now_s: seconds of a clock that never runs backwards."""
        if now_s < self._next_s and len(self._places) == len(_ENDINGS):
            return
        self._next_s = now_s + _EVERY_S
        self._lock.check()
        for ending in _ENDINGS:
            name = self._database + ending
            place, known = _place_of(name), self._places.get(name)
            if known is None and place is not None:
                self._places[name] = place
            elif place != known:
                verb = "moved or deleted" if place is None else "replaced"
                raise StoreError(
                    f"{name} was {verb} while the database was in use: anything written to it now"
                    " could be lost"
                )

    def check_sizes(self) -> None:
        """Raise StoreError if a file was truncated since `note_sizes`: writing behind its end would
        leave a hole, which the next checkpoint would copy into the database.

        Call it before a transaction, in the connection's thread. Raises sqlite3.Error."""
        db = self._db
        if not self._sizes:
            self._version = _version_of(db)
        for name, is_whole in ((self._wal, self._wal_is_whole), (self._database, self._is_whole)):
            size = _size_of(name)
            if size is not None and size < self._sizes.get(name, 0) and not is_whole(db):
                db.is_damaged = True
                raise StoreError(
                    f"{name} was truncated or overwritten while the database was in use: anything"
                    " written to it now could be lost"
                )

    def note_sizes(self) -> None:
        """Remember the sizes. Call it after a transaction."""
        for name in (self._wal, self._database):
            size = _size_of(name)
            if size is not None:
                self._sizes[name] = size

    def _wal_is_whole(self, db: LockedConnection) -> bool:
        """Whether the log is as long as its index says. Any program may reset both at any time."""
        return any((_size_of(self._wal) or 0) >= db.wal_bytes() for _ in range(_LOOKS))

    def _is_whole(self, db: LockedConnection) -> bool:
        """Whether the database may be smaller, because another program has committed a VACUUM."""
        return bool(_size_of(self._database)) and _version_of(db) != self._version


def _version_of(db: LockedConnection) -> int:
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _size_of(name: str) -> int | None:
    try:
        return os.stat(name).st_size  # noqa: PTH116 - for every commit
    except OSError:
        return None  # `check` reports the cause


def _place_of(name: str) -> _Place | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - for every commit
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if kind_of(error) is not None:
            raise  # the store repeats the call
        raise StoreError(f"{name} can no longer be accessed: {error.strerror}") from error
    return found.st_dev, found.st_ino

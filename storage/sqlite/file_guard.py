"""Notice that the files of an open database were moved, deleted, replaced or cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from storage.sqlite.file_lock import FileLock
from storage.sqlite.lasting_locks import LockedConnection
from storage.store import StoreError
from storage.transient_faults import kind_of

_EVERY_S: Final = 1.0
_ENDINGS: Final = ("", "-wal", "-shm")  # the latter two are there from the first transaction on
_LOOKS: Final = 3
_Place = tuple[int, int]  # device and inode


class FileGuard:
    """The database, its write-ahead log with its index, and its lock, as they were opened.

    Only looks at names: opening one of the files here, and closing it, would release the locks that
    SQLite holds on it (POSIX locks belong to a process, not to a descriptor).
    """

    def __init__(self, database: Path, lock: FileLock, db: LockedConnection) -> None:
        self._database = os.fspath(database)
        self._wal = self._database + "-wal"
        self._lock = lock
        self._db = db  # only its own thread may use it
        self._places: dict[str, _Place] = {}
        self._next_s = float("-inf")
        self._sizes: dict[str, int] = {}  # after the last transaction
        self._version = -1  # of what other programs have committed

    def check(self, now_s: float) -> None:
        """Raise StoreError if a file is not the one that was opened; looks once a second. Raises
        OSError for trouble that passes.

        now_s: seconds from anywhere, never running backwards."""
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
                    f"{name} was {verb} while the database was in use: what is written to it now"
                    " could be lost"
                )

    def check_sizes(self) -> None:
        """Raise StoreError if a file was cut since `note_sizes`: what is written behind the cut
        would leave a hole, which the next checkpoint would copy into the database.

        To be called before a transaction, in the thread of the connection. Raises sqlite3.Error."""
        db = self._db
        if not self._sizes:
            self._version = _version_of(db)
        for name, is_whole in ((self._wal, self._wal_is_whole), (self._database, self._is_whole)):
            size = _size_of(name)
            if size is not None and size < self._sizes.get(name, 0) and not is_whole(db):
                db.is_damaged = True
                raise StoreError(
                    f"{name} was cut or written over while the database was in use: what is written"
                    " to it now could be lost"
                )

    def note_sizes(self) -> None:
        """To be called after a transaction."""
        for name in (self._wal, self._database):
            size = _size_of(name)
            if size is not None:
                self._sizes[name] = size

    def _wal_is_whole(self, db: LockedConnection) -> bool:
        """Whether it is as long as its index says: any program may empty both, also meanwhile."""
        return any((_size_of(self._wal) or 0) >= db.wal_bytes() for _ in range(_LOOKS))

    def _is_whole(self, db: LockedConnection) -> bool:
        """Whether the database may be smaller: after a VACUUM, which another program commits."""
        return bool(_size_of(self._database)) and _version_of(db) != self._version


def _version_of(db: LockedConnection) -> int:
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _size_of(name: str) -> int | None:
    try:
        return os.stat(name).st_size  # noqa: PTH116 - for every commit
    except OSError:
        return None  # what is wrong with it, `check` says


def _place_of(name: str) -> _Place | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - for every commit
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if kind_of(error) is not None:
            raise  # the store tries again
        raise StoreError(f"{name} cannot be looked at any more: {error.strerror}") from error
    return found.st_dev, found.st_ino

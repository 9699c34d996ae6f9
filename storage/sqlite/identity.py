"""Notice that the files of an open database were moved, deleted or replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from storage.base import StoreError
from storage.sqlite.lock import FileLock
from storage.trouble import kind_of

_EVERY_S: Final = 1.0
_ENDINGS: Final = ("", "-wal", "-shm")  # the latter two are there from the first transaction on
_Place = tuple[int, int]  # device and inode


class Identity:
    """The database, its write-ahead log with its index, and its lock, as they were opened.

    Only looks at names: opening one of the files here, and closing it, would release the locks that
    SQLite holds on it (POSIX locks belong to a process, not to a descriptor).
    """

    def __init__(self, database: Path, lock: FileLock) -> None:
        self._database = os.fspath(database)
        self._lock = lock
        self._places: dict[str, _Place] = {}
        self._next_s = float("-inf")

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

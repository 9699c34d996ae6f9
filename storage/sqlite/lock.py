"""One process writes to a database: a lock on a file beside it, which dies with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from storage.base import StoreRefused


class FileLock:
    """Held from `acquire` to `release`. The file tells who holds it; only the lock on it counts."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.path = database.with_name(database.name + ".lock")
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raises StoreRefused if another holds it, or if the directory cannot be written."""
        while self._fd is None:
            try:
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StoreRefused(
                    f"{self._database} cannot be opened for writing: {self.path}: {error.strerror}"
                ) from error
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
                os.close(fd)
                who = f"process {holder}" if holder.isdigit() else "another process"
                raise StoreRefused(f"{self._database} is in use by {who}") from error
            # The last holder may have removed the file between our opening and our locking it.
            if self._is_at_path(fd):
                self._fd = fd
            else:
                os.close(fd)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _is_at_path(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self._fd is None:
            return
        self.path.unlink(missing_ok=True)  # while it is held: nobody else can be using it
        os.close(self._fd)
        self._fd = None

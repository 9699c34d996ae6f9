"""A file of a worker on its machine, which the next worker there takes over if it dies."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Final

from storage import process_locks

_WORKERS_MAX: Final = 256  # of one crawl, on one machine
_log = logging.getLogger("courtly.store")


class WorkerFile:
    """A path in the directory for temporary files, which no other process of this machine uses.

    Each worker of a crawl locks the first free number, so a worker that starts after one has died
    finds the file that was left.
    """

    def __init__(self, crawl: str) -> None:
        """crawl: the same string for all workers of a crawl."""
        self._name = blake2b(crawl.encode("utf-8", "replace"), digest_size=8).hexdigest()
        self._fd = -1

    def take(self) -> Path | None:
        """Lock a number and return its path. None if that is impossible, which is logged."""
        try:
            directory = _directory()
            for number in range(_WORKERS_MAX):
                path = directory / f"{self._name}-{number}"
                fd = os.open(
                    path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
                )
                try:
                    process_locks.lock(fd)
                except OSError:
                    os.close(fd)
                    continue
                self._fd = fd
                return path.with_suffix(".inflight")
        except OSError as error:
            _log.warning("a page that kills the process twice will not be recognised: %s", error)
        return None

    def release(self) -> None:
        """Unlock it. The lock's file stays, because another worker may be about to lock it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _directory() -> Path:
    """The directory of this user's workers. Raises OSError if it belongs to someone else."""
    path = Path(tempfile.gettempdir()) / f"courtly-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if found.st_uid != os.getuid() or not path.is_dir() or path.is_symlink():
        raise PermissionError(f"{path} belongs to another user")
    return path

"""Locks of files that end with this process (flock), also if it was forked meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final

# Descriptors, each with the file that it was locked for: another may have its number by now.
_locked: Final[dict[int, tuple[int, int]]] = {}


def lock(fd: int) -> None:
    """Lock an open file for this process until the descriptor is closed, or the process ends.

    A forked child, such as a worker of a process pool, does not share the lock: it would hold it
    after the end of this process. Raises OSError: BlockingIOError if the file is locked already.
    """
    for other in [other for other in _locked if not _is_locked(other)]:
        del _locked[other]
    _locked[fd] = _file_of(fd)  # before it is locked: another thread may fork
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        del _locked[fd]
        raise


def _file_of(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _is_locked(fd: int) -> bool:
    try:
        return _file_of(fd) == _locked[fd]
    except OSError:
        return False


def _give_up_copies() -> None:
    """In a forked child: its copies of the descriptors refer to nothing. They stay open, because
    objects that it has inherited may close them."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in _locked:
        if _is_locked(fd):
            with contextlib.suppress(OSError):
                os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)
    _locked.clear()


os.register_at_fork(after_in_child=_give_up_copies)

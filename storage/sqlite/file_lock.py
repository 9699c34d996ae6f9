"""The lock file beside a database: only one process writes, and its lock ends with the process."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from storage import process_locks
from storage.safe_files import FILE_MODE, open_for_update
from storage.store_errors import StoreError, StoreRefused
from storage.transient_faults import FaultKind, kind_of

_LOCKED_ELSEWHERE: Final = (errno.EWOULDBLOCK, errno.EAGAIN)
_OWNER_BYTES_MAX: Final = 32
_locked_here: Final[set[Path]] = set()  # lock files that this process has locked
os.register_at_fork(after_in_child=_locked_here.clear)


def is_locked_here(database: Path) -> bool:
    """Return whether this process has the lock of a database (of the file itself, not a link to
    it)."""
    return _lock_path(database.absolute()) in _locked_here


def _lock_path(database: Path) -> Path:
    return database.with_name(database.name + ".lock")


class FileLock:
    """The lock, kept from `acquire` to `release`. The file contains the number of the process.

    `database` is the file itself, not a symbolic link to it (`storage.safe_files.real_path`).
    """

    def __init__(self, database: Path, *, mode: int = FILE_MODE) -> None:
        self._database = database
        self._mode = mode
        self.path = _lock_path(database)
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raise StoreRefused if another process has the lock, or the file cannot be locked;
        OSError for a transient fault (`storage.transient_faults`)."""
        _check_single_name(self._database)
        while self._fd is None:
            try:
                fd = open_for_update(self.path, self._mode)
            except OSError as error:
                if kind_of(error) is not None:
                    raise
                raise StoreRefused(
                    f"{self._database} cannot be opened for writing: {self.path}: {error.strerror}"
                ) from error
            try:
                locked = self._lock(fd)
            except BaseException:
                os.close(fd)
                raise
            if not locked:
                os.close(fd)
                continue
            self._fd = fd
        _locked_here.add(self.path.absolute())
        with contextlib.suppress(OSError):  # a full disk: the number is informative only
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _lock(self, fd: int) -> bool:
        """Lock the file; return False if its last owner removed it before that. Raises as
        `acquire`."""
        try:
            process_locks.lock(fd)
        except OSError as error:
            if kind_of(error) in (FaultKind.MEMORY, FaultKind.DESCRIPTORS):
                raise  # other errors may come from a file system without locks
            raise StoreRefused(self._why_not(fd, error)) from error
        if not self._is_at_path(fd):
            return False
        if not _is_lock_file(fd):
            raise StoreRefused(
                f"{self._database} cannot be locked: {self.path} belongs to another"
                " program, or has a second name (a hard link): move it away"
            )
        return True

    def _why_not(self, fd: int, error: OSError) -> str:
        if error.errno not in _LOCKED_ELSEWHERE:
            return f"{self._database} cannot be locked: {self.path}: {error.strerror}"
        owner = os.pread(fd, _OWNER_BYTES_MAX, 0).decode("ascii", "replace").strip()
        who = f"process {owner}" if owner.isdigit() else "another process"
        return f"{self._database} is in use by {who}"

    def check(self) -> None:
        """Raise StoreError if another process could take the lock although this one has it."""
        if self._fd is not None and not self._is_at_path(self._fd):
            raise StoreError(
                f"the lock file {self.path} was deleted or replaced while {self._database} was in"
                " use, so another crawl could write to the same database: stop that one, if there"
                " is one, and start again"
            )

    def _is_at_path(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self.path.lstat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        fd, self._fd = self._fd, None
        if fd is None:
            return
        _locked_here.discard(self.path.absolute())
        try:
            with contextlib.suppress(OSError):  # a file that stays is no lock: nobody has it
                if self._is_at_path(fd):  # and not another process's by now
                    self.path.unlink(missing_ok=True)  # while it is locked: nobody else is using it
        finally:
            os.close(fd)


def _is_lock_file(fd: int) -> bool:
    """Whether the file may be overwritten and removed: it has one name, and contains at most the
    number of a process (zeros after a power cut)."""
    if os.fstat(fd).st_nlink != 1:
        return False
    held = os.pread(fd, _OWNER_BYTES_MAX + 1, 0).strip(b"\0\n")
    return len(held) <= _OWNER_BYTES_MAX and (not held or held.isdigit())


def _check_single_name(database: Path) -> None:
    """Raise StoreRefused for hard links: by another name the file would have another lock file and
    write-ahead log."""
    try:
        names = database.stat().st_nlink
    except FileNotFoundError:
        return
    except OSError as error:
        if kind_of(error) is not None:
            raise
        raise StoreRefused(f"{database} cannot be read: {error.strerror}") from error
    if names > 1:
        raise StoreRefused(
            f"{database} has {names} names (hard links), and SQLite loses data where a database is"
            " opened by two of them: remove the others, or make a copy and use that"
        )

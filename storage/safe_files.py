"""Open files for writing without following, truncating or destroying what another user put in
their place."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600  # of new files, unless the config says otherwise; the umask applies
_FOREIGN: Final = "it belongs to another user, in a world-writable folder"
_ALWAYS: Final = os.O_CLOEXEC | os.O_NOCTTY
# Not blocking: a FIFO in the place of a file is refused, not waited for.
_GUARDED: Final = _ALWAYS | os.O_NOFOLLOW | os.O_NONBLOCK


def real_path(path: Path) -> Path:
    """Return the file that `path` leads to through symbolic links (`path` itself without links).
    Files beside it (a lock, a socket) belong beside that one, so that there is only one of them
    under any name."""
    real = os.path.realpath(path)
    return path if real == os.path.abspath(path) else Path(real)  # noqa: PTH100


def open_exclusive(path: Path, mode: int = FILE_MODE, *, replace: bool = False) -> int:
    """Create `path` and return a descriptor open for reading and writing.

    Fails where anything has that name, a dangling symbolic link included. With `replace`, that
    (but not what a link points to) is removed first: for drafts that a crash may have left.
    Raises OSError.
    """
    check_folder(path.parent)
    if replace:
        path.unlink(missing_ok=True)
    return os.open(path, _GUARDED | os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


def open_for_update(path: Path, mode: int = FILE_MODE) -> int:
    """Open a regular file for reading and writing, or create it; the content is kept.

    Raises OSError, also for a symbolic link, for what is no regular file, and in a folder that
    everybody may write (`check_folder`) for a file that belongs to somebody else.
    """
    return _open_regular(path, os.O_RDWR | os.O_CREAT, mode)


def open_for_append(path: Path, mode: int = FILE_MODE) -> int:
    """Open a regular file for reading and appending, or create it. Raises OSError as
    `open_for_update` does."""
    return _open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)


def open_stream(path: Path) -> int:
    """Open an output of which `is_stream` is true. Waits for the reader of a FIFO. Raises
    OSError."""
    return os.open(path, _ALWAYS | os.O_WRONLY | os.O_APPEND)


def is_stream(path: Path) -> bool:
    """Return whether a path given by the user names an output that is written to as it is, and
    cannot be replaced by a file of that name: /dev/stdout, /dev/null, a terminal, a FIFO."""
    name = os.path.abspath(path)  # noqa: PTH100 - "..", too, without following links
    if name in ("/dev/stdout", "/dev/stderr") or name.startswith(("/dev/fd/", "/proc/self/fd/")):
        return True
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)


def sync_folder(folder: Path) -> None:
    """Write the directory entries of a folder to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_folder(folder: Path) -> os.stat_result:
    """Raise PermissionError for a folder in which every user may rename or remove the files of
    others: world-writable, and not sticky as /tmp is. Write access of a group is the
    administrator's choice. Raises OSError."""
    found = folder.stat()
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(
            errno.EPERM,
            f"every user may write to the folder {folder}: use another one (a new folder in it"
            f" will do), or run `chmod o-w {folder}`",
            str(folder),
        )
    return found


def check_owner(path: Path) -> None:
    """Raise PermissionError for a file or a symbolic link of another user, in a folder that
    everybody may write to; what is not there is no error. Raises OSError."""
    folder = path.parent.stat()
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if folder.st_mode & stat.S_IWOTH and found.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(errno.EPERM, _FOREIGN, str(path))


def _open_regular(path: Path, flags: int, mode: int) -> int:
    folder = check_folder(path.parent)
    try:
        descriptor = os.open(path, _GUARDED | flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(
                errno.ELOOP, "it is a symbolic link, which is not followed", str(path)
            ) from None
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise OSError(errno.EINVAL, "it is not a regular file", str(path)) from None
        raise
    try:
        _check_regular(os.fstat(descriptor), folder, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(found: os.stat_result, folder: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    # As Linux does by itself where fs.protected_regular and fs.protected_hardlinks are set.
    if folder.st_mode & stat.S_IWOTH:
        if found.st_uid not in (os.geteuid(), folder.st_uid):
            raise PermissionError(errno.EPERM, _FOREIGN, str(path))
        if found.st_nlink > 1:
            raise PermissionError(
                errno.EPERM,
                "it has a hard link, in a world-writable folder",
                str(path),
            )

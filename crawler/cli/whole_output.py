"""Output that is whole or reported as failed: files that replace others, and standard output."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from storage.files import is_stream, open_exclusive, open_stream

_NAME_CHARS_MAX: Final = 200  # of a target's name in that of its draft: file systems allow 255
_MODE: Final = 0o666  # as of a file that a shell redirects into; the umask applies


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` once it is whole and on the medium.

    Whatever fails, what was at `path` stays, and OSError is raised. What cannot be replaced
    (/dev/stdout, a device, a FIFO) is written to as it is."""
    if is_stream(path):
        with os.fdopen(open_stream(path), "wb") as out:
            yield out
        return
    draft = path.with_name(f"{path.name[:_NAME_CHARS_MAX]}.{os.getpid()}.part")
    descriptor = open_exclusive(draft, _MODE, replace=True)
    try:
        with os.fdopen(descriptor, "wb") as out:
            if (mode := _mode_of(path)) is not None:
                os.fchmod(descriptor, mode)
            yield out
            out.flush()
            os.fsync(descriptor)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def finish_stdout(*, fsync: bool = False) -> None:
    """Write what standard output has buffered. Raises OSError.

    fsync: if it is a file, wait for the medium: some file systems report a full disk no sooner."""
    if sys.stdout is None:
        return
    sys.stdout.flush()
    if fsync:
        with contextlib.suppress(io.UnsupportedOperation):  # a test's
            descriptor = sys.stdout.fileno()
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fsync(descriptor)


def buffer_stdout() -> None:
    """Have standard output write all it is given, or fail.

    Under PYTHONUNBUFFERED there is no buffer, and a write that the disk takes only a part of counts
    as done."""
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and isinstance(stdout.buffer, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(stdout.buffer),
            encoding=stdout.encoding,
            errors=stdout.errors,
            write_through=True,
        )


def tolerant(stream: TextIO | None) -> None:
    """Have a standard stream write `?` for what the locale has no character for."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def _mode_of(path: Path) -> int | None:
    """The permissions of a file that is there."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _sync_folder(folder: Path) -> None:
    """Have the new name on the medium, where the file system can do so."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)

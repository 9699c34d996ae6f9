"""Output files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from storage.safe_files import is_stream, open_exclusive, open_stream, sync_folder

_NAME_CHARS_MAX: Final = 200  # of the target's name in the draft's; file systems allow 255
_MODE: Final = 0o666  # as for a file that a shell creates; the umask applies


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` once it is complete and on disk.

    If anything fails, `path` is unchanged, and OSError is raised. Files that cannot be replaced
    (/dev/stdout, a device, a FIFO) are written to directly.
    """
    if is_stream(path):
        with os.fdopen(open_stream(path), "wb") as out:
            yield out
        return
    draft = path.with_name(f"{path.name[:_NAME_CHARS_MAX]}.{os.getpid()}.part")
    descriptor = open_exclusive(draft, _MODE, replace=True)
    try:
        with os.fdopen(descriptor, "wb") as out:
            with contextlib.suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode):
                    os.fchmod(descriptor, stat.S_IMODE(mode))
            yield out
            out.flush()
            os.fsync(descriptor)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    try:
        sync_folder(path.parent)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by the file system
            raise

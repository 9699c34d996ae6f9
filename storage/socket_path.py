"""The path of the local socket of a database, shortened to fit into a socket address."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storage.safe_files import real_path

PATH_BYTES_MAX: Final = 107  # sun_path on Linux, without the NUL
_DESCRIPTORS: Final = Path("/proc/self/fd")


def socket_path(database: Path) -> Path:
    """Return `crawl.db.sock` beside the file `crawl.db`, with symbolic links resolved."""
    file = real_path(database)
    return file.with_name(file.name + ".sock")


@contextlib.contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name of `path` to bind or connect to while this is open; for a path too long for a socket
    address, it goes through a descriptor of the folder. Raises OSError if that is too long as
    well."""
    path = path.absolute()
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield os.fspath(path)
        return
    with _folder(path) as descriptor:
        name = f"{_DESCRIPTORS}/{descriptor}/{path.name}"
        if len(os.fsencode(name)) > PATH_BYTES_MAX:
            raise _too_long()
        yield name


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    if not _DESCRIPTORS.is_dir():
        raise _too_long()
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _too_long() -> OSError:
    return OSError(f"its path is longer than {PATH_BYTES_MAX} bytes, the limit for a socket")

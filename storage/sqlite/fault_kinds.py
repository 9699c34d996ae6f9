"""Which failures of SQLite are transient: locks, a full disk, memory, descriptors."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import Final

from storage import transient_faults
from storage.transient_faults import FaultKind

_KINDS: Final = {
    "SQLITE_BUSY": FaultKind.LOCKED,
    "SQLITE_LOCKED": FaultKind.LOCKED,
    "SQLITE_PROTOCOL": FaultKind.LOCKED,  # a race for the locks of the write-ahead log
    "SQLITE_FULL": FaultKind.NO_SPACE,
    "SQLITE_NOMEM": FaultKind.MEMORY,
    # SQLite does not report the system error: EDQUOT, EFBIG, EIO and a network mount that is
    # away look alike, and each of them may be transient.
    "SQLITE_IOERR": FaultKind.IO,
}
_LASTING: Final = ("SQLITE_IOERR_CORRUPTFS", "SQLITE_IOERR_DATA", "SQLITE_IOERR_AUTH")


def kind_of(error: BaseException) -> FaultKind | None:
    """Return the kind of a transient fault; None for a lasting failure."""
    if isinstance(error, MemoryError):  # also what the sqlite3 module makes of SQLITE_NOMEM
        return FaultKind.MEMORY
    if isinstance(error, OSError):  # of the files beside the database
        return transient_faults.kind_of(error)
    if not isinstance(error, sqlite3.Error):
        return None
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_IOERR_NOMEM"):
        return FaultKind.MEMORY
    if name.startswith(_LASTING):
        return None
    if name.startswith("SQLITE_CANTOPEN"):
        return FaultKind.DESCRIPTORS if _descriptors_are_out() else None
    return next((kind for code, kind in _KINDS.items() if name.startswith(code)), None)


def _descriptors_are_out() -> bool:
    """Try to open another file, because SQLite does not report why one could not be opened."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False

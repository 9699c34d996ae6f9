"""A temporary file for the rows of a report.

They are written by one transaction, which ends before the first one is used: a reader that pauses
would otherwise keep the server from removing old versions of rows. A temporary table would do, but
not on a replica, which accepts no changes.
"""

from __future__ import annotations

import tempfile

import msgspec

from storage.engine.statements import Values
from storage.store_errors import StoreError
from storage.transient_faults import words_of

# The columns of reports have no bytes, which JSON has not either.
_ROWS = list[tuple[str | int | float | None, ...]]


class Spool:
    """Rows in a file that nobody else can open. Raises StoreError if it cannot be written."""

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        except OSError as error:
            raise _failure(error) from error

    def write(self, rows: list[Values]) -> None:
        try:
            self._file.write(msgspec.json.encode(rows) + b"\n")
        except OSError as error:
            raise _failure(error) from error

    def rewind(self) -> None:
        """Read from the beginning."""
        try:
            self._file.seek(0)
        except OSError as error:
            raise _failure(error) from error

    def read(self) -> list[Values]:
        """Return the rows of the next `write`; none at the end."""
        try:
            line = self._file.readline()
        except OSError as error:
            raise _failure(error) from error
        return msgspec.json.decode(line, type=_ROWS) if line else []

    def close(self) -> None:
        self._file.close()


def _failure(error: OSError) -> StoreError:
    return StoreError(f"a temporary file cannot be written: {words_of(error)}")

"""Reading a PostgreSQL database."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

from storage.engine.connection_thread import ThreadedReads
from storage.engine.statements import Statements, TransactionConflict, Values
from storage.location import ServerLocation
from storage.postgres.connection import SETTINGS
from storage.postgres.errors import described, ends_connection
from storage.postgres.schema import check_readable
from storage.postgres.server_connection import ServerConnection
from storage.postgres.statements import statements
from storage.reader import Reader
from storage.store_errors import StoreError
from storage.transient_faults import words_of

T = TypeVar("T")

# A report may take as long as it needs, and so may whoever reads its rows.
_SETTINGS: Final = (
    "SET default_transaction_read_only = on; SET jit = off;"
    " SET idle_in_transaction_session_timeout = 0;\n"
)
_ROWS_AT_ONCE: Final = 500
_TRIES: Final = 3
# The columns of reports have no bytes, which JSON has not either.
_ROWS = list[tuple[str | int | float | None, ...]]


def server_reader(location: ServerLocation) -> Reader:
    """Return the reader of a database on a server, or on a replica of it.

    It connects at the first call, which may raise StoreRefused, and again where the connection was
    cut."""
    connect, report = partial(ServerReads, location), partial(_spooled, location)
    return Reader(ThreadedReads(f"the database {location}", connect, report))


def _spooled(location: ServerLocation, kind: str) -> Spool:
    spool = Spool()
    try:
        with contextlib.closing(ServerReads(location)) as connection:
            connection.read_all(statements("reports")[kind], spool.write)
        spool.rewind()
    except BaseException:
        spool.close()
        raise
    return spool


class ServerReads:
    """`storage.engine.connection_thread.ReadConnection`."""

    def __init__(self, location: ServerLocation) -> None:
        """Connect. Raises StoreRefused and StoreError."""
        self._location = location
        with described(location, opening=True):
            self._server = ServerConnection.opened(location, self._prepare)
        self._sql = self._server.sql
        self.close = self._server.close

    def _ensure_open(self) -> None:
        """Connect again if the connection was lost."""
        with described(self._location, opening=True):
            self._server.ensure_open()

    async def _prepare(self, db: asyncpg.Connection[Any]) -> None:
        await db.execute(_SETTINGS + SETTINGS.read_text(encoding="utf-8"))
        await check_readable(db, self._location)

    def read(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`. It is repeated where the connection was cut, and where a
        replica cancelled a query because it conflicts with a change."""
        for left in reversed(range(_TRIES)):
            self._ensure_open()
            try:
                with described(self._location):
                    return work(self._sql)
            except StoreError as error:
                if not (left and _may_pass(error.__cause__)):
                    raise
        raise AssertionError("the last try returns or raises")

    def read_all(self, sql: str, use: Callable[[list[Values]], object]) -> None:
        """Pass the rows of a query to `use`, some hundred at a time, within one transaction.

        The query may read whole tables; what is read afterwards by this connection may, too."""
        self._ensure_open()
        with described(self._location):
            self._sql.wait(self._read_all(self._sql.opened, sql, use))

    async def _read_all(
        self,
        db: asyncpg.Connection[Any],
        sql: str,
        use: Callable[[list[Values]], object],
    ) -> None:
        await db.execute(f"RESET ALL; {_SETTINGS}")  # the others are for queries of few rows
        async with db.transaction(readonly=True):
            cursor = await db.cursor(sql)
            while rows := await cursor.fetch(_ROWS_AT_ONCE):
                use([tuple(row) for row in rows])


def _may_pass(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, TransactionConflict) or ends_connection(error))


class Spool:
    """A temporary file for the rows of a report, which nobody else can open. Its methods raise
    StoreError if it cannot be written.

    They are written by one transaction, which ends before the first one is used: a reader that
    pauses would otherwise keep the server from removing old versions of rows. A temporary table
    would do, but not on a replica, which accepts no changes.
    """

    def __init__(self) -> None:
        with _writable():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it

    def write(self, rows: list[Values]) -> None:
        with _writable():
            self._file.write(msgspec.json.encode(rows) + b"\n")

    def rewind(self) -> None:
        """Read from the beginning."""
        with _writable():
            self._file.seek(0)

    def read(self) -> list[Values]:
        """Return the rows of the next `write`; none at the end."""
        with _writable():
            line = self._file.readline()
        return msgspec.json.decode(line, type=_ROWS) if line else []

    def close(self) -> None:
        self._file.close()


@contextlib.contextmanager
def _writable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"a temporary file cannot be written: {words_of(error)}") from error

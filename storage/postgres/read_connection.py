"""The connection by which a PostgreSQL database is read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import asyncpg

from storage.engine.statements import Statements, TransactionConflict, Values
from storage.postgres.connection import SETTINGS
from storage.postgres.database import FAILURES
from storage.postgres.errors import ends_connection, failure_of, refusal_of
from storage.postgres.schema import check_readable
from storage.postgres.server_connection import ServerConnection
from storage.secret_sources import SecretError
from storage.store_errors import StoreError

T = TypeVar("T")

# A report may take as long as it needs, and so may whoever reads its rows.
_SETTINGS: Final = (
    "SET default_transaction_read_only = on; SET jit = off;"
    " SET idle_in_transaction_session_timeout = 0;\n"
)
_ROWS_AT_ONCE: Final = 500
_TRIES: Final = 3


class ReadConnection(ServerConnection):
    """A connection that changes nothing. Its methods raise StoreRefused and StoreError."""

    def open(self) -> None:
        try:
            super().open()
        except (*FAILURES, SecretError) as error:
            refusal = refusal_of(error, self._location)
            raise refusal or failure_of(error, self._location) from error

    async def _prepare(self, db: asyncpg.Connection[Any]) -> None:
        await db.execute(_SETTINGS + SETTINGS.read_text(encoding="utf-8"))
        await check_readable(db, self._location)

    def read(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`. It is repeated where the connection was cut, and where a
        replica cancelled a query because it conflicts with a change."""
        for left in reversed(range(_TRIES)):
            self.ensure_open()
            try:
                with self._described():
                    return work(self.sql)
            except StoreError as error:
                if not (left and _may_pass(error.__cause__)):
                    raise
        raise AssertionError("the last try returns or raises")

    def read_all(self, sql: str, use: Callable[[list[Values]], object]) -> None:
        """Pass the rows of a query to `use`, some hundred at a time, within one transaction.

        The query may read whole tables; what is read afterwards by this connection may, too."""
        self.ensure_open()
        with self._described():
            self.sql.wait(self._read_all(self.sql.opened, sql, use))

    @contextlib.contextmanager
    def _described(self) -> Iterator[None]:
        """Raise StoreError for what fails."""
        try:
            yield
        except TransactionConflict as error:
            raise failure_of(error.__cause__ or error, self._location) from error
        except FAILURES as error:
            raise failure_of(error, self._location) from error

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

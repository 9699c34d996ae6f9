"""Reading a PostgreSQL database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

import msgspec

from storage.engine.lazy_thread import LazyThread, open_thread
from storage.engine.sql_reader import SqlReader
from storage.engine.statements import Statements, Values
from storage.location import ServerLocation
from storage.postgres.read_connection import ReadConnection
from storage.postgres.spool import Spool
from storage.postgres.statements import statements
from storage.reader import Row

T = TypeVar("T")
_WORKER: Final = (
    "id", "name", "host", "pid", "began_at", "seen_s", "idle", "hosts", "in_flight", "pages",
    "pages_per_s", "uncommitted", "held",
)  # fmt: skip


_TABLE: Final = ("table", "bytes", "rows", "dead_rows")
_TABLES_MAX: Final = 12


class PostgresReader(SqlReader):
    """`Reader` of a database on a server, or on a replica of it.

    It connects at the first call, which may raise StoreRefused, and again where the connection was
    cut."""

    def __init__(self, location: ServerLocation) -> None:
        super().__init__(_Server(location))

    async def workers(self) -> Sequence[Row]:
        rows = await self._database.read(lambda sql: list(sql.rows("workers")))
        found = [dict(zip(_WORKER, row, strict=True)) for row in rows]
        return [{**row, "held": msgspec.json.decode(str(row["held"]))} for row in found]

    async def table_sizes(self) -> Sequence[Row]:
        rows = await self._database.read(lambda sql: list(sql.rows("table_sizes", _TABLES_MAX)))
        return [dict(zip(_TABLE, row, strict=True)) for row in rows]


class _Server:
    """`storage.engine.sql_reader.ReadDatabase`."""

    def __init__(self, location: ServerLocation) -> None:
        self.name = f"the database {location}"
        self._location = location
        self._lazy = LazyThread(self.name, self._connect)
        self.open = self._lazy.open
        self.close = self._lazy.close

    def _connect(self) -> ReadConnection:
        connection = ReadConnection(self._location)
        try:
            connection.open()
        except BaseException:
            connection.close()
            raise
        return connection

    async def read(self, work: Callable[[Statements], T]) -> T:
        thread = await self._lazy.open()
        return await thread.run(lambda connection: connection.read(work))

    async def report(self, kind: str) -> AsyncGenerator[Values, None]:
        thread = await open_thread(self.name, partial(self._spool, kind))
        try:
            while rows := await thread.run(Spool.read):
                for row in rows:
                    yield row
        finally:
            await thread.close()

    def _spool(self, kind: str) -> Spool:
        spool = Spool()
        try:
            with closing(self._connect()) as connection:
                connection.read_all(statements("reports")[kind], spool.write)
            spool.rewind()
        except BaseException:
            spool.close()
            raise
        return spool

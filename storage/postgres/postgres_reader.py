"""Reading a PostgreSQL database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from functools import partial
from typing import TypeVar

from storage.engine.lazy_thread import LazyThread, open_thread
from storage.engine.statements import Statements, Values
from storage.location import ServerLocation
from storage.postgres.read_connection import ReadConnection
from storage.postgres.spool import Spool
from storage.postgres.statements import statements
from storage.reader import Reader

T = TypeVar("T")


def server_reader(location: ServerLocation) -> Reader:
    """Return the reader of a database on a server, or on a replica of it.

    It connects at the first call, which may raise StoreRefused, and again where the connection was
    cut."""
    return Reader(_Server(location))


class _Server:
    """`storage.engine.databases.ReadDatabase`."""

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

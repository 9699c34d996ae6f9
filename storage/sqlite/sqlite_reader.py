"""Reading an SQLite database in a file."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from storage.engine.connection_thread import ConnectionThread
from storage.engine.lazy_thread import LazyThread, open_thread
from storage.engine.statements import Statements, Values
from storage.reader import Reader
from storage.sqlite import report_queries
from storage.sqlite.schema import FAILURES, connect_reader, translate
from storage.sqlite.sqlite_connection import SqliteConnection

T = TypeVar("T")


def file_reader(path: Path | str) -> Reader:
    """Return the reader of a file. It opens the file at the first call, which may raise
    StoreRefused."""
    return Reader(_File(Path(path)))


class _File:
    """`storage.engine.databases.ReadDatabase`."""

    def __init__(self, path: Path) -> None:
        self.name = f"the database {path}"
        self._path = path
        self._lazy = LazyThread(self.name, self._connect)
        self.open = self._lazy.open
        self.close = self._lazy.close

    def _connect(self) -> SqliteConnection:
        with self._translated():
            return SqliteConnection(connect_reader(self._path))

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise translate(error, self.name) from error

    async def read(self, work: Callable[[Statements], T]) -> T:
        thread = await self._lazy.open()
        with self._translated():
            return await thread.run(lambda connection: work(connection.sql))

    async def report(self, kind: str) -> AsyncGenerator[Values, None]:
        thread = await open_thread(self.name, partial(self._connect_spool, kind))
        try:
            after = 0
            while rows := await self._spooled(thread, after):
                after = rows[-1][0]
                for row in rows:
                    yield row[1:]
        finally:
            await thread.close()

    def _connect_spool(self, kind: str) -> SqliteConnection:
        connection = self._connect()
        try:
            with self._translated():
                report_queries.spool(connection.sql.db, kind)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _spooled(
        self, thread: ConnectionThread[SqliteConnection], after: int
    ) -> Sequence[tuple[Any, ...]]:
        with self._translated():
            return await thread.run(partial(report_queries.spooled, after=after))

"""`Store` in an SQLite database in memory."""

from __future__ import annotations

from collections.abc import Callable

from storage.engine.sql_reader import SqlReader
from storage.engine.sql_store import transaction
from storage.engine.writer import Writer
from storage.reader import Reader
from storage.sqlite.databases import MemoryDatabase
from storage.sqlite.sqlite_store import SqliteStore


class MemoryStore(SqliteStore):
    """`Store` in memory, for crawls without a database. No call waits, so none can be interrupted.

    It keeps its content when it is closed and opened again, and ends with this object.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float],
        monotonic: Callable[[], float] | None = None,
        queries_per_path_max: float = 1000,
    ) -> None:
        database = MemoryDatabase()
        super().__init__(
            database, wall=wall, monotonic=monotonic, queries_per_path_max=queries_per_path_max
        )
        self.reader: Reader = SqlReader(database)

    forget = transaction(Writer.forget, refused=None)

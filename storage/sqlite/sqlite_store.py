"""`Store` in an SQLite file, or in an SQLite database in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path

from storage.engine import operator_work
from storage.engine.databases import Database
from storage.engine.sql_store import SqlStore, transaction
from storage.engine.writer import Writer
from storage.reader import Reader
from storage.records import Order, Pulse, WorkerStatus
from storage.safe_files import FILE_MODE
from storage.sqlite.databases import FileDatabase, MemoryDatabase
from storage.timekeeper import Timekeeper, Uptime


def _pulse(writer: Writer, session: int, status: WorkerStatus) -> Pulse:
    return Pulse(lease_s=inf, paused=operator_work.paused(writer))


def _publish(writer: Writer, session: int, order: Order) -> None:
    """Nothing: nobody else would receive it."""


class SqliteStore(SqlStore):
    """`Store` in a file, which `open_session` opens and locks, and `close` releases.

    `wall` gives Unix seconds. With `monotonic` (seconds from any moment), setting the wall clock
    during a session moves no host's clock; with `uptime`, neither does setting it between two
    sessions. `sleep_until` waits for a `monotonic` time.
    """

    def __init__(
        self,
        database: Path | str | Database,
        *,
        wall: Callable[[], float],
        monotonic: Callable[[], float] | None = None,
        sleep_until: Callable[[float], Awaitable[None]] | None = None,
        uptime: Callable[[], Uptime | None] | None = None,
        queries_per_path_max: float = 1000,
        file_mode: int = FILE_MODE,
    ) -> None:
        if isinstance(database, Path | str):
            database = FileDatabase(Path(database), mode=file_mode)
        super().__init__(
            database,
            Timekeeper(wall, monotonic, uptime),
            monotonic=monotonic,
            sleep_until=sleep_until,
            queries_per_path_max=queries_per_path_max,
        )

    pulse = transaction(_pulse, session=True)
    publish = transaction(_publish, session=True)

    async def forget(self, slot: str) -> None:
        """Nothing: a file keeps what is known of a host."""


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
        self.reader = Reader(database)

    forget = transaction(Writer.forget, refused=None)

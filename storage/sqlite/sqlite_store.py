"""`Store` in an SQLite file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from storage.engine.databases import Database
from storage.engine.sql_store import SqlStore, transaction
from storage.safe_files import FILE_MODE
from storage.sqlite import sole_worker
from storage.sqlite.databases import FileDatabase
from storage.timekeeper import Timekeeper, Uptime


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

    pulse = transaction(sole_worker.pulse, session=True)
    publish = transaction(sole_worker.publish, session=True)

    async def forget(self, slot: str) -> None:
        """Nothing: a file keeps what is known of a host."""

"""The one file that names the storage engines: it opens a database by its location."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from crawler.clock import Clock, RealClock
from storage.location import LEASE_S, FileLocation, Location, ServerLocation
from storage.reader import Reader
from storage.safe_files import FILE_MODE
from storage.sqlite import file_reader, file_store, memory_store
from storage.store import Store, StoreRefused, WorkerStatus
from storage.timekeeper import machine_uptime

if TYPE_CHECKING:
    from storage.copying import CopyProgress, CopySource, CopyTarget
    from storage.database_info import DatabaseInfo

_log = logging.getLogger("courtly.store")

PULSE_S: Final = 2.0  # of a copy that waits for workers that died


def open_reader(location: Location) -> Reader:
    """Open a database for reading, even while a crawl is writing it. Raises StoreRefused."""
    if isinstance(location, FileLocation):
        return file_reader(location.path)
    _require_asyncpg()
    from storage.postgres import server_reader

    return server_reader(location)


@contextlib.asynccontextmanager
async def looking_into(location: Location) -> AsyncIterator[Reader]:
    """Open a reader as `open_reader` does, and close it when the block ends."""
    reader = open_reader(location)
    try:
        yield reader
    finally:
        await reader.close()


def open_store(
    location: Location,
    clock: Clock,
    *,
    queries_per_path_max: float = 1000,
    file_mode: int = FILE_MODE,
    lease_s: float = LEASE_S,
    start_wait_s: float | None = None,
) -> Store:
    """Return the store at a location, for writing. Its `open_session` may raise StoreRefused.

    file_mode: of files created for SQLite. lease_s: of PostgreSQL, as in `[storage] lease`.
    start_wait_s: how long `open_session` waits for a server that refuses connections, as in
    `[storage] start_wait`; None: it does not.
    """
    if isinstance(location, ServerLocation):
        _require_asyncpg()
        from storage.postgres import server_store

        return server_store(
            location,
            wall=clock.wall,
            monotonic=clock.monotonic,
            sleep_until=clock.sleep_until,
            queries_per_path_max=queries_per_path_max,
            lease_s=lease_s,
            start_wait_s=start_wait_s,
        )
    return file_store(
        location.path,
        wall=clock.wall,
        monotonic=clock.monotonic,
        sleep_until=clock.sleep_until,
        uptime=machine_uptime if isinstance(clock, RealClock) else None,
        queries_per_path_max=queries_per_path_max,
        file_mode=file_mode,
    )


def open_memory_store(clock: Clock, *, queries_per_path_max: float = 1000) -> Store:
    """Return a store without a file, for crawls that keep nothing."""
    return memory_store(
        wall=clock.wall, monotonic=clock.monotonic, queries_per_path_max=queries_per_path_max
    )


def _require_asyncpg() -> None:
    """Raise StoreRefused without the library that PostgreSQL needs."""
    if find_spec("asyncpg") is None:
        raise StoreRefused(
            "PostgreSQL databases need the extra `postgres`: pip install 'courtly[postgres]'"
        )


def database_info(location: Location) -> DatabaseInfo:
    """Read facts about a database, such as its version and size, even during a crawl.

    Raises StoreError. Not for an event loop.
    """
    if isinstance(location, ServerLocation):
        _require_asyncpg()
        from storage.postgres import maintenance

        return maintenance.info(location)
    from storage.sqlite import maintenance as of_files

    return of_files.info(location.path)


def check_database(location: Location) -> list[str]:
    """Check a database, even during a crawl, and describe each problem in a sentence.

    Raises StoreError. Not for an event loop.
    """
    if isinstance(location, ServerLocation):
        _require_asyncpg()
        from storage.postgres import maintenance

        return maintenance.check(location)
    from storage.sqlite import maintenance as of_files

    return of_files.check(location.path)


def vacuum_database(location: Location) -> tuple[int, int]:
    """Shrink a database that no process holds, and return its size in bytes before and after.

    Raises StoreError. Not for an event loop.
    """
    if isinstance(location, ServerLocation):
        _require_asyncpg()
        from storage.postgres import maintenance

        return maintenance.vacuum(location)
    from storage.sqlite import maintenance as of_files

    return of_files.vacuum(location.path)


async def copy_database(
    source: Location, target: Location, *, file_mode: int = FILE_MODE, lease_s: float = LEASE_S
) -> AsyncGenerator[CopyProgress, None]:
    """Copy a crawl to an empty database, or resume that; see `storage.copying.copy`.

    Yields what was copied so far. Nobody may use either database meanwhile; if a worker of the
    source has died, this waits until that is certain. lease_s: that of the workers of the source.
    Raises StoreRefused and StoreError.
    """
    from storage.copying import SESSION_NAME, copy

    if source.key == target.key:
        raise StoreRefused(f"{source} cannot be copied to itself")
    async with contextlib.AsyncExitStack() as opened:
        made = await opened.enter_async_context(_copy_target(target, file_mode))
        store = open_store(source, RealClock(), file_mode=file_mode, lease_s=lease_s)
        # A session prevents others in a file, and settles what a killed process left.
        session = await store.open_session(SESSION_NAME)
        opened.push_async_callback(store.close, session)
        given = await opened.enter_async_context(_copy_source(source))
        await _wait_for_others(given, store, session)
        async with contextlib.aclosing(copy(given, made, session=session)) as steps:
            async for progress in steps:
                yield progress


def _copy_target(target: Location, mode: int) -> AbstractAsyncContextManager[CopyTarget]:
    if isinstance(target, FileLocation):
        from storage.sqlite.copying import SqliteTarget

        return SqliteTarget(target.path, mode=mode)
    _require_asyncpg()
    from storage.postgres import copying

    return copying.open_target(target)


def _copy_source(source: Location) -> AbstractAsyncContextManager[CopySource]:
    if isinstance(source, FileLocation):
        from storage.sqlite.copying import SqliteSource

        return SqliteSource(source.path)
    from storage.postgres import copying

    return copying.open_source(source)


async def _wait_for_others(given: CopySource, store: Store, session: int) -> None:
    """Wait until all other sessions have ended, or are given up because nobody renews them. Raises
    StoreRefused for one that is renewed."""
    beats: Mapping[str, int] = {}
    while others := await given.others(session):
        for name, beat in others.items():
            if beats.get(name, beat) != beat:
                raise StoreRefused(f"{given.name} is in use by {name}: stop it first")
        if not beats:
            _log.warning("waiting until it is certain that these have ended: %s", ", ".join(others))
        beats = others
        await store.pulse(session, WorkerStatus(idle=True))
        await asyncio.sleep(PULSE_S)

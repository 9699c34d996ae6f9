"""The composition root: the one file that names the SQLite store, aiohttp and the real clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from crawler.clock import Clock, RealClock
from crawler.config import Config, ConfigError, check_identity
from crawler.events import Progress, Summary
from crawler.fetching.fetcher import Fetcher
from crawler.fetching.reloadable import ReloadableFetcher
from crawler.observer import Observer, all_of
from crawler.processing.context import crawl_context
from crawler.scheduling.robots_identity import reads_otherwise, session_name
from crawler.scheduling.scheduler import Scheduler
from crawler.scheduling.seeding import check_roots, queue_seeds
from crawler.steering.control import Control, ReloadSource
from crawler.steering.summary import Snapshots, summarise
from storage.safe_files import FILE_MODE
from storage.sqlite import MemoryStore, SqliteReader, SqliteStore
from storage.store import Reader, Store, StoreError
from storage.timekeeper import machine_uptime

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks
    from storage.sqlite import maintenance

    DatabaseInfo = maintenance.Info


def open_reader(path: Path) -> Reader:
    """Look into a database; a crawl may be writing it. Raises StoreRefused."""
    return SqliteReader(path)


@contextlib.asynccontextmanager
async def looking_into(path: Path) -> AsyncIterator[Reader]:
    """`open_reader`, closed at the end."""
    reader = open_reader(path)
    try:
        yield reader
    finally:
        await reader.close()


def open_store(
    path: Path, clock: Clock, *, queries_per_path_max: float = 1000, file_mode: int = FILE_MODE
) -> Store:
    """A database to write to; its `open_session` may raise StoreRefused."""
    return SqliteStore(
        path,
        wall=clock.wall,
        monotonic=clock.monotonic,
        sleep_until=clock.sleep_until,
        uptime=machine_uptime if isinstance(clock, RealClock) else None,
        queries_per_path_max=queries_per_path_max,
        file_mode=file_mode,
    )


def open_memory_store(clock: Clock, *, queries_per_path_max: float = 1000) -> MemoryStore:
    """A store without a file, for crawls that keep nothing."""
    return MemoryStore(
        wall=clock.wall, monotonic=clock.monotonic, queries_per_path_max=queries_per_path_max
    )


def database_info(path: Path) -> DatabaseInfo:
    """What a database is and how large; beside a crawl, too. Raises StoreError."""
    from storage.sqlite import maintenance

    return maintenance.info(path)


def check_database(path: Path) -> list[str]:
    """What is wrong with a database, in sentences; beside a crawl, too. Raises StoreError."""
    from storage.sqlite import maintenance

    return maintenance.check(path)


def vacuum_database(path: Path) -> tuple[int, int]:
    """Make a database that nobody holds smaller; its bytes before and after. StoreError."""
    from storage.sqlite import maintenance

    return maintenance.vacuum(path)


class Life(Struct, frozen=True, kw_only=True):
    """A crawl put together, with the database held and the network open: `run` it."""

    config: Config  # as it began; `control.config` is the one that counts now
    scheduler: Scheduler
    control: Control
    store: Store
    clock: Clock
    fetcher: Fetcher
    sinks: Sinks | None = None

    async def run(self) -> None:
        """Crawl to the end, or until `control.stop()`. Cancelled, it leaves at once; what is
        recorded is committed all the same. Raises StoreError, and what else went wrong."""
        try:
            await self.scheduler.run()
        except BaseExceptionGroup as problems:
            raise plainest(problems) from problems


@contextlib.asynccontextmanager
async def opened_sinks(config: Config, clock: Clock) -> AsyncIterator[Sinks | None]:
    """The config's sinks while they are open; None if there are none. Raises SinkError."""
    if not config.sinks:
        yield None
        return
    from crawler.sinks.build import build_sinks  # nobody else needs what writes them

    async with build_sinks(config, clock=clock) as sinks:
        yield sinks


@contextlib.asynccontextmanager
async def living(
    config: Config,
    *,
    seeds: Sequence[str] = (),
    forever: bool = False,
    observers: Sequence[Observer] = (),
    source: ReloadSource | None = None,
) -> AsyncIterator[Life]:
    """What `courtly crawl` and the daemon are made of: holds the database until it is left.

    `seeds` are canonical URLs, queued at once. `forever`: `run` does not end when nothing can move;
    it stays up, idle, until it is stopped, and needs no seed to begin. `observers` watch it.
    `source` is for `control.reload`.

    Raises ConfigError (no seed, unless it lives for ever; no contact for a seed beyond loopback;
    secrets that cannot be read), StoreRefused (the database is in use, not ours, newer) and
    StoreError, before anything is contacted.
    """
    clock = RealClock()
    if seeds:
        check_identity(config, seeds)
    network = ReloadableFetcher(config, clock)
    store = open_store(
        config.storage.path,
        clock,
        queries_per_path_max=config.scope.max_queries_per_path,
        file_mode=config.storage.mode,
    )
    session = await store.open_session(session_name(config))
    try:
        if seeds:
            await queue_seeds(config, store, seeds, now_s=clock.wall())
        if not await check_roots(config, store) and not forever:
            raise ConfigError(
                "there is nothing to crawl: give a seed URL, or set crawl.seeds in the config"
            )
        await _judge_anew(config, store, session)
        async with network as fetcher, opened_sinks(config, clock) as sinks:
            context = crawl_context(
                config,
                store=store,
                session=session,
                clock=clock,
                observer=all_of(observers),
                sinks=sinks,
            )
            scheduler = Scheduler(context, fetcher, runs_forever=forever)
            if not forever:
                await store.set_paused(False)  # who starts a crawl by hand wants it to run
            elif await store.paused():
                scheduler.steering.pause()
            control = Control(
                scheduler,
                config=config,
                store=store,
                clock=clock,
                source=source,
                fetcher=fetcher,
            )
            yield Life(
                config=config,
                scheduler=scheduler,
                control=control,
                store=store,
                clock=clock,
                fetcher=fetcher,
                sinks=sinks,
            )
    finally:
        await store.close(session)


async def _judge_anew(config: Config, store: Store, session: int) -> None:
    """Where the crawl before read robots.txt otherwise, what it blocked is to be judged again."""
    async with looking_into(config.storage.path) as reader:
        if await reads_otherwise(reader, config):
            await store.rejudge_all(session)


async def crawl(
    config: Config,
    *,
    seeds: Sequence[str],
    observe: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    leave: asyncio.Event | None = None,
    source: ReloadSource | None = None,
    observers: Sequence[Observer] = (),
    beside: Callable[[Life], AbstractAsyncContextManager[None]] | None = None,
) -> Summary:
    """Crawl until nothing can move within `crawl.patience`; run again, it resumes.

    `seeds` are canonical URLs. Setting `stop` ends it after what is in flight; setting `leave` ends
    it at once, losing nothing committed. `beside` is open for as long as it runs. Raises
    ConfigError (no seed, no contact for a seed beyond loopback), StoreRefused and StoreError.
    `source` as `living` has it.
    """
    async with (
        living(config, seeds=seeds, observers=observers, source=source) as life,
        beside(life) if beside else contextlib.nullcontext(),
    ):
        scheduler, clock = life.scheduler, life.clock
        if life.sinks is not None:
            life.sinks.exit_requested = leave
        began_s = clock.monotonic()
        interrupted = await _run(
            scheduler, life.store, clock, observe=observe, stop=stop, leave=leave
        )
        elapsed_s = clock.monotonic() - began_s
    async with looking_into(config.storage.path) as reader:
        return await summarise(
            reader, scheduler, clock, elapsed_s=elapsed_s, interrupted=interrupted
        )


async def _run(
    scheduler: Scheduler,
    store: Store,
    clock: Clock,
    *,
    observe: Callable[[Progress], None] | None,
    stop: asyncio.Event | None,
    leave: asyncio.Event | None,
) -> bool:
    """Run the scheduler to its end, or until told to stop or leave: True then."""
    try:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(scheduler.run())
            beside: list[asyncio.Task[None]] = []
            if observe:
                beside.append(group.create_task(Snapshots(scheduler, store, clock).report(observe)))
            if stop:
                beside.append(group.create_task(_once(stop, scheduler.stop)))
            if leave:
                beside.append(group.create_task(_once(leave, run.cancel)))
            run.add_done_callback(lambda _: [task.cancel() for task in beside])
    except BaseExceptionGroup as problems:
        raise plainest(problems) from problems
    return any(event is not None and event.is_set() for event in (stop, leave))


async def _once(event: asyncio.Event, call: Callable[[], object]) -> None:
    await event.wait()
    call()


def plainest(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of all that went wrong at once, what the reader should be told."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        one = stack.pop()
        if isinstance(one, BaseExceptionGroup):
            stack.extend(one.exceptions)
        else:
            leaves.append(one)
    return next((one for one in leaves if isinstance(one, StoreError)), leaves[-1])

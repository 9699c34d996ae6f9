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
    """Open a database for reading, even while a crawl is writing it. Raises StoreRefused."""
    return SqliteReader(path)


@contextlib.asynccontextmanager
async def looking_into(path: Path) -> AsyncIterator[Reader]:
    """As `open_reader`, but closes the reader when the block ends."""
    reader = open_reader(path)
    try:
        yield reader
    finally:
        await reader.close()


def open_store(
    path: Path, clock: Clock, *, queries_per_path_max: float = 1000, file_mode: int = FILE_MODE
) -> Store:
    """Return the store at `path`, for writing. Its `open_session` may raise StoreRefused."""
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
    """Return a store without a file, for crawls that keep nothing."""
    return MemoryStore(
        wall=clock.wall, monotonic=clock.monotonic, queries_per_path_max=queries_per_path_max
    )


def database_info(path: Path) -> DatabaseInfo:
    """Read facts about a database, such as its version and size, even during a crawl.

    Raises StoreError.
    """
    from storage.sqlite import maintenance

    return maintenance.info(path)


def check_database(path: Path) -> list[str]:
    """Check a database, even during a crawl, and describe each problem in a sentence.

    Raises StoreError.
    """
    from storage.sqlite import maintenance

    return maintenance.check(path)


def vacuum_database(path: Path) -> tuple[int, int]:
    """Shrink a database that no process holds, and return its size in bytes before and after.

    Raises StoreError.
    """
    from storage.sqlite import maintenance

    return maintenance.vacuum(path)


class OpenCrawl(Struct, frozen=True, kw_only=True):
    """A crawl that is ready to `run`: its database is locked and its network is open."""

    config: Config  # at the start; `control.config` is the one in force
    scheduler: Scheduler
    control: Control
    store: Store
    clock: Clock
    fetcher: Fetcher
    sinks: Sinks | None = None

    async def run(self) -> None:
        """Crawl to the end, or until `control.stop()` is called.

        Cancellation ends the crawl immediately, but recorded outcomes are still committed. Raises
        StoreError, or the exception that ended the crawl.
        """
        try:
            await self.scheduler.run()
        except BaseExceptionGroup as problems:
            raise plainest(problems) from problems


@contextlib.asynccontextmanager
async def opened_sinks(config: Config, clock: Clock) -> AsyncIterator[Sinks | None]:
    """Open the configured sinks for the duration of the block; None without any.

    Raises SinkError.
    """
    if not config.sinks:
        yield None
        return
    from crawler.sinks.build import build_sinks  # imported here: other crawls need no writers

    async with build_sinks(config, clock=clock) as sinks:
        yield sinks


@contextlib.asynccontextmanager
async def open_crawl(
    config: Config,
    *,
    seeds: Sequence[str] = (),
    runs_forever: bool = False,
    observers: Sequence[Observer] = (),
    source: ReloadSource | None = None,
) -> AsyncIterator[OpenCrawl]:
    """Open a crawl. Its database stays locked until the block ends.

    seeds: canonical URLs, queued immediately. runs_forever: `run` idles when no URL can make
    progress, until it is stopped, and needs no seed to begin. observers: receive the crawl's
    events. source: where `control.reload` reads the config.

    Raises ConfigError (no seed, unless it runs forever; no contact for a seed beyond loopback;
    unreadable secrets), StoreRefused (the database is in use, newer, or not one of ours) and
    StoreError, all before any request.
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
        if not await check_roots(config, store) and not runs_forever:
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
            scheduler = Scheduler(context, fetcher, runs_forever=runs_forever)
            if not runs_forever:
                await store.set_paused(False)  # starting a crawl manually resumes it
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
            yield OpenCrawl(
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
    """Mark blocked URLs to be judged again if the previous crawl read robots.txt differently."""
    async with looking_into(config.storage.path) as reader:
        if await reads_otherwise(reader, config):
            await store.rejudge_all(session)


async def crawl(
    config: Config,
    *,
    seeds: Sequence[str],
    observe: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    exit_now: asyncio.Event | None = None,
    source: ReloadSource | None = None,
    observers: Sequence[Observer] = (),
    alongside: Callable[[OpenCrawl], AbstractAsyncContextManager[None]] | None = None,
) -> Summary:
    """Crawl until no URL can make progress within `crawl.patience`; run it again to resume.

    seeds: canonical URLs. stop: once set, ends the crawl after the requests in flight. exit_now:
    once set, ends it immediately; nothing committed is lost. alongside: a context that is open
    while the crawl runs. source: as in `open_crawl`.

    Raises ConfigError (no seed; no contact for a seed beyond loopback), StoreRefused and
    StoreError.
    """
    async with (
        open_crawl(config, seeds=seeds, observers=observers, source=source) as opened,
        alongside(opened) if alongside else contextlib.nullcontext(),
    ):
        scheduler, clock = opened.scheduler, opened.clock
        if opened.sinks is not None:
            opened.sinks.exit_requested = exit_now
        began_s = clock.monotonic()
        interrupted = await _run(
            scheduler, opened.store, clock, observe=observe, stop=stop, exit_now=exit_now
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
    exit_now: asyncio.Event | None,
) -> bool:
    """Run the scheduler to its end. Return whether it was asked to stop or exit."""
    try:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(scheduler.run())
            helpers: list[asyncio.Task[None]] = []
            if observe:
                helpers.append(
                    group.create_task(Snapshots(scheduler, store, clock).report(observe))
                )
            if stop:
                helpers.append(group.create_task(_once(stop, scheduler.stop)))
            if exit_now:
                helpers.append(group.create_task(_once(exit_now, run.cancel)))
            run.add_done_callback(lambda _: [task.cancel() for task in helpers])
    except BaseExceptionGroup as problems:
        raise plainest(problems) from problems
    return any(event is not None and event.is_set() for event in (stop, exit_now))


async def _once(event: asyncio.Event, call: Callable[[], object]) -> None:
    await event.wait()
    call()


def plainest(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of the exceptions raised together, return the one to report: a StoreError if there is one."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        one = stack.pop()
        if isinstance(one, BaseExceptionGroup):
            stack.extend(one.exceptions)
        else:
            leaves.append(one)
    return next((one for one in leaves if isinstance(one, StoreError)), leaves[-1])

"""The composition root of a crawl: puts the store, the network and the real clock together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from crawler.clock import Clock, ContactDeadline, RealClock
from crawler.config import Config, ConfigError, check_identity
from crawler.databases import looking_into, open_store
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
from storage.reader import Reader
from storage.store import Store, StoreError, WorkerStatus

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

_log = logging.getLogger("courtly.crawl")

SUMMARY_AGAIN_S: Final = 2.0  # after an attempt to read the summary that failed


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
    deadline = ContactDeadline(clock)
    network = ReloadableFetcher(config, clock, deadline=deadline)
    store = open_store(
        config.storage.location,
        clock,
        queries_per_path_max=config.scope.max_queries_per_path,
        file_mode=config.storage.mode,
        lease_s=config.storage.lease_s,
        start_wait_s=config.storage.start_wait_s,
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
        async with (
            network as fetcher,
            opened_sinks(config, clock) as sinks,
            looking_into(config.storage.location) as reader,
        ):
            context = crawl_context(
                config,
                store=store,
                session=session,
                clock=clock,
                observer=all_of(observers),
                sinks=sinks,
                deadline=deadline,
            )
            scheduler = Scheduler(context, fetcher, runs_forever=runs_forever)
            if not (runs_forever or await _joins(store, session)):
                await store.set_paused(False)  # starting a crawl manually resumes it
            elif await store.paused():
                scheduler.steering.follow_pause(paused=True)
            control = Control(
                scheduler,
                config=config,
                store=store,
                reader=reader,
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


async def _joins(store: Store, session: int) -> bool:
    """Whether other workers crawl already."""
    if not store.shared:
        return False
    pulse = await store.pulse(session, WorkerStatus())
    return pulse is not None and pulse.others_active > 0


async def _judge_anew(config: Config, store: Store, session: int) -> None:
    """Mark blocked URLs to be judged again if the previous crawl read robots.txt differently."""
    async with looking_into(config.storage.location) as reader:
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
    others_ended: asyncio.Event | None = None,
) -> Summary:
    """Crawl until no URL can make progress within `crawl.patience`; run it again to resume.

    seeds: canonical URLs. stop: once set, ends the crawl after the requests in flight. exit_now:
    once set, ends it immediately; nothing committed is lost. alongside: a context that is open
    while the crawl runs. source: as in `open_crawl`. others_ended: the summary is made when this
    is set, unless `exit_now` is: it counts what other workers did.

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
        async with contextlib.AsyncExitStack() as stack:
            snapshots: Snapshots | None = None
            if observe is not None:
                reader: Reader | None = None
                if opened.store.shared:
                    reader = await stack.enter_async_context(looking_into(config.storage.location))
                snapshots = Snapshots(scheduler, opened.store, clock, reader=reader)
            interrupted = await _run(
                scheduler, snapshots, observe=observe, stop=stop, exit_now=exit_now
            )
    if others_ended is not None:
        await _first_of(others_ended, exit_now)
    elapsed_s = clock.monotonic() - began_s
    # A server may be away at just this moment. What ended well must not seem to have failed.
    wait_s = config.storage.start_wait_s if opened.store.shared and not interrupted else 0.0
    give_up_s = clock.monotonic() + wait_s
    while True:
        try:
            async with looking_into(config.storage.location) as reader:
                return await summarise(
                    reader, scheduler, clock, elapsed_s=elapsed_s, interrupted=interrupted
                )
        except StoreError as error:
            if clock.monotonic() >= give_up_s or (exit_now is not None and exit_now.is_set()):
                raise
            _log.warning("the crawl has ended, but its summary cannot be read yet: %s", error)
        await clock.sleep_until(clock.monotonic() + SUMMARY_AGAIN_S)


async def _run(
    scheduler: Scheduler,
    snapshots: Snapshots | None,
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
            if snapshots and observe:
                helpers.append(group.create_task(snapshots.report(observe)))
            if stop:
                helpers.append(group.create_task(_once(stop, scheduler.stop)))
            if exit_now:
                helpers.append(group.create_task(_once(exit_now, run.cancel)))
            run.add_done_callback(lambda _: [task.cancel() for task in helpers])
    except BaseExceptionGroup as problems:
        raise plainest(problems) from problems
    return any(event is not None and event.is_set() for event in (stop, exit_now))


async def _first_of(*events: asyncio.Event | None) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events if event is not None]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _once(event: asyncio.Event, call: Callable[[], object]) -> None:
    await event.wait()
    call()


def plainest(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one to report of exceptions raised together: a StoreError if there is one."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        one = stack.pop()
        if isinstance(one, BaseExceptionGroup):
            stack.extend(one.exceptions)
        else:
            leaves.append(one)
    return next((one for one in leaves if isinstance(one, StoreError)), leaves[-1])

"""The composition root: the one file that names the SQLite store, aiohttp and the real clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from crawler import backoff, often, waits
from crawler.clock import Clock, RealClock
from crawler.config import Config, ConfigError, check_identity, has_contact
from crawler.control import Control, HostState, UnknownHost, checked_delay_s, host_state
from crawler.cookies import Cookies
from crawler.engine import Engine
from crawler.events import WAITING_SHOWN, Progress, SlowHost, Summary, Waiting
from crawler.fetcher import AiohttpFetcher, Fetcher
from crawler.host import BACKING_OFF
from crawler.network import Network
from crawler.observer import Observer, all_of
from crawler.reading import reads_otherwise, session_name
from crawler.roots import check_roots
from crawler.sitemaps import READ_AGAIN_S
from crawler.terms import terms_of
from policies.address import AddressRules
from policies.pacing import Per
from policies.scope import Skip
from policies.url import host_of
from storage.base import SEEDS_AT_ONCE, Link, Reader, Stats, Store, StoreError
from storage.sqlite import SqliteReader, SqliteStore, care

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

OBSERVE_EVERY_S = 0.25
RATE_OVER_S = 5.0
SLOW_HOSTS_SHOWN = 5
FETCHING_SHOWN = 8
_HELD_UP = (HostState.WAITING, HostState.ROBOTS, HostState.PAUSED, HostState.CLOSED)


def open_reader(path: Path) -> Reader:
    """Look into a database; a crawl may be writing it. Raises StoreRefused."""
    return SqliteReader(path)


def open_store(path: Path, clock: Clock, *, queries_per_path_max: float = 1000) -> Store:
    """A database to write to; its `open_session` may raise StoreRefused."""
    return SqliteStore(
        path,
        wall=clock.wall,
        monotonic=clock.monotonic,
        queries_per_path_max=queries_per_path_max,
    )


DatabaseInfo = care.Info


def database_info(path: Path) -> DatabaseInfo:
    """What a database is and how large; beside a crawl, too. Raises StoreError."""
    return care.info(path)


def check_database(path: Path) -> list[str]:
    """What is wrong with a database, in sentences; beside a crawl, too. Raises StoreError."""
    return care.check(path)


def vacuum_database(path: Path) -> tuple[int, int]:
    """Make a database that nobody holds smaller; its bytes before and after. StoreError."""
    return care.vacuum(path)


async def steer_host(
    path: Path, host: str, *, pause: bool | None = None, slow_s: float | None = None
) -> None:
    """Pause (True), let go on (False, which undoes both) or slow a host of a database that nobody
    holds; a crawl that runs is asked through its socket instead. Raises UnknownHost, StoreRefused
    (somebody holds it), StoreError, and ValueError for a delay that is none."""
    if slow_s is not None:
        checked_delay_s(slow_s)
    store = open_store(path, RealClock())
    session = await store.open_session("host")
    try:
        if not await store.set_control(
            host, paused=pause, slow_s=slow_s, clear_slow=pause is False
        ):
            raise UnknownHost(host)
    finally:
        await store.close(session)


async def add_seeds(config: Config, urls: Sequence[str], priority: float = 0.0) -> int:
    """Queue seeds, canonical URLs, in a database that nobody holds; give how many were new. Whether
    they may be contacted is judged by the crawl that will. Raises StoreRefused and StoreError."""
    limit = config.scope.max_queries_per_path
    clock = RealClock()
    store = open_store(config.storage.path, clock, queries_per_path_max=limit)
    session = await store.open_session("seeds")
    try:
        again_before = clock.wall() - READ_AGAIN_S
        added = 0
        for start in range(0, len(urls), SEEDS_AT_ONCE):
            some = urls[start : start + SEEDS_AT_ONCE]
            links = [replace(_seed(config, url, again_before), priority=priority) for url in some]
            added += sum((await store.add(links)).added.values())
        return added
    finally:
        await store.close(session)


async def retry_failed(path: Path, host: str | None = None) -> int:
    """Queue failed URLs again, of one host or of all; give how many. Raises StoreError."""
    clock = RealClock()
    store = open_store(path, clock)
    session = await store.open_session("retry failed")
    try:
        return await store.retry_failed(host)
    finally:
        await store.close(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A crawl put together, with the database held and the network open: `run` it."""

    config: Config  # as it began; `control.config` is the one that counts now
    engine: Engine
    control: Control
    store: Store
    clock: Clock
    fetcher: Fetcher
    sinks: Sinks | None = None

    async def run(self) -> None:
        """Crawl to the end, or until `control.stop()`. Cancelled, it leaves at once; what is
        recorded is committed all the same. Raises StoreError, and what else went wrong."""
        try:
            await self.engine.run()
        except BaseExceptionGroup as problems:
            raise plainest(problems) from problems


@contextlib.asynccontextmanager
async def opened_sinks(config: Config) -> AsyncIterator[Sinks | None]:
    """The config's sinks while they are open; None if there are none. Raises SinkError."""
    if not config.sinks:
        yield None
        return
    from crawler.sinks.build import sinks_of  # nobody else needs what writes them

    async with sinks_of(config) as sinks:
        yield sinks


@contextlib.asynccontextmanager
async def living(
    config: Config,
    *,
    seeds: Sequence[str] = (),
    forever: bool = False,
    observers: Sequence[Observer] = (),
    reread: Callable[[], Config] | None = None,
) -> AsyncIterator[Life]:
    """What `courtly crawl` and the daemon are made of: holds the database until it is left.

    `seeds` are canonical URLs, queued at once. `forever`: `run` does not end when nothing can move;
    it stays up, idle, until it is stopped, and needs no seed to begin. `observers` watch it.
    `reread` gives the config for `control.reload` (see `crawler.control.Control`).

    Raises ConfigError (no seed, unless it lives for ever; no contact for a seed beyond loopback;
    secrets that cannot be read), StoreRefused (the database is in use, not ours, newer) and
    StoreError, before anything is contacted.
    """
    clock = RealClock()
    if seeds:
        check_identity(config, seeds)
    network = network_of(config, clock)
    store = open_store(
        config.storage.path, clock, queries_per_path_max=config.scope.max_queries_per_path
    )
    session = await store.open_session(session_name(config))
    try:
        if seeds:
            again_before = clock.wall() - READ_AGAIN_S
            for start in range(0, len(seeds), SEEDS_AT_ONCE):
                some = seeds[start : start + SEEDS_AT_ONCE]
                await store.add([_seed(config, url, again_before) for url in some])
        if not await check_roots(config, store) and not forever:
            raise ConfigError(
                "there is nothing to crawl: give a seed URL, or set crawl.seeds in the config"
            )
        await _judge_anew(config, store, session)
        async with network as fetcher, opened_sinks(config) as sinks:
            engine = Engine(
                config,
                store=store,
                session=session,
                clock=clock,
                fetcher=fetcher,
                forever=forever,
                observer=all_of(observers),
                sinks=sinks,
            )
            if not forever:
                await store.set_paused(False)  # who starts a crawl by hand wants it to run
            elif await store.paused():
                engine.steering.pause()
            control = Control(
                engine,
                config=config,
                store=store,
                clock=clock,
                reread=reread,
                refit=fetcher.prepare,
            )
            yield Life(
                config=config,
                engine=engine,
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
    reader = open_reader(config.storage.path)
    try:
        if await reads_otherwise(reader, config):
            await store.rejudge_all(session)
    finally:
        await reader.close()


async def crawl(
    config: Config,
    *,
    seeds: Sequence[str],
    observe: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
    leave: asyncio.Event | None = None,
    reread: Callable[[], Config] | None = None,
    observers: Sequence[Observer] = (),
    beside: Callable[[Life], AbstractAsyncContextManager[None]] | None = None,
) -> Summary:
    """Crawl until nothing can move within `crawl.patience`; run again, it resumes.

    `seeds` are canonical URLs. Setting `stop` ends it after what is in flight; setting `leave` ends
    it at once, losing nothing committed. `beside` is open for as long as it runs. Raises
    ConfigError (no seed, no contact for a seed beyond loopback), StoreRefused and StoreError.
    `reread` as `living` has it.
    """
    async with (
        living(config, seeds=seeds, observers=observers, reread=reread) as life,
        beside(life) if beside else contextlib.nullcontext(),
    ):
        engine, clock = life.engine, life.clock
        if life.sinks is not None:
            life.sinks.leaving = leave
        began_s = clock.monotonic()
        interrupted = await _run(engine, life.store, clock, observe=observe, stop=stop, leave=leave)
        elapsed_s = clock.monotonic() - began_s
    reader = open_reader(config.storage.path)
    try:
        return await summarise(reader, engine, clock, elapsed_s=elapsed_s, interrupted=interrupted)
    finally:
        await reader.close()


def network_of(config: Config, clock: Clock) -> Network:
    """The network of a crawl that may read its config again. Raises as `fetcher_of`."""
    return Network(config, lambda config, cookies: fetcher_of(config, clock, cookies))


def fetcher_of(config: Config, clock: Clock, cookies: Cookies | None = None) -> AiohttpFetcher:
    """The fetcher that a config describes. Raises ConfigError when secrets or certificates that it
    names cannot be read."""
    paced = [
        config.politeness.per,
        *(given.get("politeness", {}).get("per") for given in config.given.sites.values()),
    ]
    addresses = AddressRules.parse(config.network.allow)
    if not has_contact(config.crawl.user_agent):
        addresses = replace(addresses, loopback_only=True)  # law 10
    return AiohttpFetcher(
        user_agent=config.user_agent_sent,
        from_=config.crawl.from_,
        addresses=addresses,
        resolve=config.network.resolve,
        clock=clock,
        connections=config.crawl.concurrency,
        pin=Per.IP in paced,
        terms=terms_of(config),
        cookies=cookies,
    )


def _seed(config: Config, url: str, again_before: float) -> Link:
    """`again_before`: if it proved to be a sitemap, it is read again if that is so long ago."""
    host = host_of(url)
    slot = config.slot_of(host)
    return Link(url=url, slot=slot, host=host, depth=0, seed=True, again_before=again_before)


async def _run(
    engine: Engine,
    store: Store,
    clock: Clock,
    *,
    observe: Callable[[Progress], None] | None,
    stop: asyncio.Event | None,
    leave: asyncio.Event | None,
) -> bool:
    """Run the engine to its end, or until told to stop or leave: True then."""
    try:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(engine.run())
            beside: list[asyncio.Task[None]] = []
            if observe:
                beside.append(group.create_task(Watch(engine, store, clock).report(observe)))
            if stop:
                beside.append(group.create_task(_once(stop, engine.stop)))
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


async def summarise(
    reader: Reader, engine: Engine, clock: Clock, *, elapsed_s: float, interrupted: bool
) -> Summary:
    """What the crawl came to, read from the views."""
    stats = await reader.stats()
    waiting = [
        Waiting(host=host, until=until, reason=reason)
        for host, (until, reason) in engine.waiting.items()
    ]
    spent = not engine.turns.pages_open
    held_back: Counter[str] = Counter()
    if stats.queued:
        async with aclosing(reader.iterate("hosts")) as rows:
            async for row in rows:
                host, queued = str(row["host"]), int(str(row["queued"]))
                if not queued:
                    continue
                if int(str(row["visited"])) >= engine.pages_max(host):
                    held_back[Skip.MAX_PAGES_PER_HOST] += queued
                elif spent:
                    held_back[Skip.MAX_PAGES] += queued
                if host not in engine.waiting and len(waiting) < WAITING_SHOWN:
                    until, reason = waits.of_row(row, clock.wall(), spent=spent)
                    waiting.append(Waiting(host=host, until=until, reason=reason))
    return Summary(
        visited=stats.visited,
        blocked=stats.blocked,
        failed=stats.failed,
        queued=stats.queued,
        hosts=stats.hosts,
        bytes=stats.body_bytes,
        elapsed_s=elapsed_s,
        waiting=tuple([await _in_words(reader, each) for each in waiting[:WAITING_SHOWN]]),
        skipped={
            str(row["reason"]): int(str(row["count"])) async for row in reader.iterate("skipped")
        },
        held_back=held_back,
        interrupted=interrupted,
        errors=await often.errors(reader) if stats.failed else (),
        rules=await often.rules(reader) if stats.blocked else (),
    )


async def _in_words(reader: Reader, each: Waiting) -> Waiting:
    """Why a host backs off, as its latest answers tell."""
    if each.reason != BACKING_OFF:
        return each
    row = await reader.host(each.host)
    return replace(each, reason=backoff.words(row["contacts"])) if row else each


class Watch:
    """Makes the snapshots of a running crawl."""

    def __init__(self, engine: Engine, store: Store, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._began_s = clock.monotonic()
        self._history: deque[tuple[float, int]] = deque([(self._began_s, 0)])

    async def report(self, observe: Callable[[Progress], None]) -> None:
        next_s = self._began_s
        while True:
            next_s = max(next_s + OBSERVE_EVERY_S, self._clock.monotonic())
            await self._clock.sleep_until(next_s)
            observe(self.snapshot(await self._store.stats()))

    def snapshot(self, stats: Stats) -> Progress:
        engine, now_s = self._engine, self._clock.monotonic()
        self._history.append((now_s, engine.pages))
        while now_s - self._history[0][0] > RATE_OVER_S and len(self._history) > 2:
            self._history.popleft()
        since_s, pages = self._history[0]
        states: dict[str, int] = {}
        slow: list[SlowHost] = []
        for host in engine.turns:
            wait_s, why = engine.turns.why(host)
            state = host_state(host, wait_s)
            states[state] = states.get(state, 0) + 1
            if state in _HELD_UP and (wait_s or why != "ready"):
                slow.append(SlowHost(host=host.slot, wait_s=wait_s, reason=why))
        slow.sort(key=lambda one: -one.wait_s)
        return Progress(
            elapsed_s=now_s - self._began_s,
            visited=stats.visited,
            blocked=stats.blocked,
            failed=stats.failed,
            queued=stats.queued,
            pages_per_s=(engine.pages - pages) / max(now_s - since_s, 0.001),
            bytes=stats.body_bytes,
            in_flight=engine.turns.in_flight,
            hosts_by_state=states,
            slowest=tuple(slow[:SLOW_HOSTS_SHOWN]),
            fetching=tuple(list(engine.contacts.urls)[:FETCHING_SHOWN]),
        )

"""Several workers on one clock that jumps, sharing one store in memory. Each can be stopped, be
killed, and be cut off from the store."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from crawler.config import Config, from_dict
from crawler.embedding.caller_gate import CallerGate, gate_of
from crawler.processing.context import crawl_context
from crawler.scheduling.caller_session import CallerSession
from crawler.scheduling.scheduler import Scheduler
from crawler.scheduling.seeding import seed_link
from crawler.steering.control import Control, ReloadSource
from crawler.testing import Answers, FakeFetcher, JumpClock, LoggedRequest
from policies.holds import FaultOwner
from storage.postgres.pulses import SessionActivity
from storage.sqlite import memory_store
from storage.store import (
    Batch,
    Completed,
    HostUpdate,
    Lease,
    LeasedAddress,
    Order,
    Pulse,
    Row,
    StoreError,
    WorkerStatus,
)

LEASE_S = 15.0
GRACE_S = 5.0
CALLS_MAX = 200_000
AGENT = "examplebot/1.0 (+https://example.com/bot)"
SESSIONS_FROM = 1_000  # unlike the one of the store beneath


class WorkerClock:
    """The clock of one process, which may be stopped (SIGSTOP): then no timer of it fires."""

    def __init__(self, clock: JumpClock) -> None:
        self._clock = clock
        self.monotonic = clock.monotonic
        self.wall = clock.wall
        self.boottime = clock.boottime
        self.running = asyncio.Event()
        self.running.set()
        self.stops: list[tuple[float, float]] = []  # from, to
        self._stopped_s = 0.0
        self._late: list[Callable[[], None]] = []

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Any:
        timer = _Timer()

        def fire() -> None:
            if timer.cancelled:
                return
            if self.running.is_set():
                callback()
            else:
                self._late.append(fire)

        timer.inner = self._clock.call_at(when_s, fire)
        return timer

    async def sleep_until(self, when_s: float) -> None:
        reached = asyncio.Event()
        timer = self.call_at(when_s, reached.set)
        try:
            await reached.wait()
        finally:
            timer.cancel()

    def stop(self) -> None:
        self.running.clear()
        self._stopped_s = self.monotonic()

    def resume(self) -> None:
        self.running.set()
        self.stops.append((self._stopped_s, self.monotonic()))
        late, self._late = self._late, []
        for fire in late:
            asyncio.get_running_loop().call_soon(fire)


class _Timer:
    inner: Any = None
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        self.inner.cancel()


@dataclass
class Session:
    """What the store knows of a worker."""

    beat_s: float
    status: WorkerStatus = field(default_factory=WorkerStatus)
    beats: int = 0
    reaped: bool = False
    ended: bool = False
    orders: list[Order] = field(default_factory=list)


@dataclass
class Address:
    """What the store knows of an address."""

    owner: int | None = None
    delay_s: float = 0.0
    wanted: bool = False


class SharedMemory:
    """A Store with one session, and beside it what several sessions make of its leases."""

    def __init__(self, clock: JumpClock) -> None:
        self.clock = clock
        self.inner = memory_store(wall=clock.wall, monotonic=clock.monotonic)
        self.session = 0
        self.sessions: dict[int, Session] = {}
        self.owners: dict[str, int] = {}  # by slot
        self.addresses: dict[str, Address] = {}
        self._numbers = itertools.count(SESSIONS_FROM)

    async def open(self) -> SharedMemory:
        self.session = await self.inner.open_session("shared")
        return self

    def begin(self) -> int:
        number = next(self._numbers)
        self.sessions[number] = Session(self.clock.boottime())
        return number

    def reap(self) -> None:
        """End the leases of sessions that were not renewed in time."""
        for number, session in self.sessions.items():
            silent_s = self.clock.boottime() - session.beat_s
            if not (session.reaped or session.ended) and silent_s >= LEASE_S + GRACE_S:
                session.reaped = True
                self.free(number)

    def free(self, number: int) -> None:
        for slot in [slot for slot, owner in self.owners.items() if owner == number]:
            del self.owners[slot]
            self._void(slot)
        self.lease_addresses(number, {})

    def lease_addresses(self, number: int, wanted: Mapping[str, float]) -> dict[str, LeasedAddress]:
        for name, address in self.addresses.items():
            if address.owner == number and name not in wanted:
                address.owner, address.wanted = None, False
        held = {}
        for name, delay_s in wanted.items():
            address = self.addresses.setdefault(name, Address())
            address.delay_s = max(address.delay_s, delay_s)
            address.wanted |= address.owner not in (None, number)
            address.owner = address.owner or number
            if address.owner == number:
                held[name] = LeasedAddress(address.delay_s, address.wanted)
        return held

    def _void(self, slot: str) -> None:
        database = self.inner.reader._database.db  # type: ignore[attr-defined]
        (key,) = database.execute("SELECT id FROM slots WHERE name = ?", [slot]).fetchone()
        database.execute("UPDATE slots SET lease = NULL WHERE id = ?", [key])
        leases = self.inner._calls._writer.leases  # type: ignore[union-attr]
        leases._leased.pop(slot, None)
        leases.settle([key])

    def others(self, number: int) -> dict[int, Session]:
        return {
            other: session
            for other, session in self.sessions.items()
            if other != number and not (session.reaped or session.ended)
        }

    def sharing(self, number: int) -> dict[int, int]:
        return {
            other: session.status.sharing
            for other, session in self.others(number).items()
            if session.status.sharing is not None
        }

    async def rows(self, view: str) -> list[Row]:
        return [row async for row in self.inner.reader.iterate(view)]


class WorkerStore:
    """A `Store` as one worker meets it."""

    shared = True

    def __init__(self, memory: SharedMemory, clock: WorkerClock) -> None:
        self._memory = memory
        self._clock = clock
        self.number = memory.begin()
        self.faults = memory.inner.faults
        self._activity = SessionActivity()
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.dead = False
        self.calls = 0
        self.slow_s = 0.0
        self.pulse_s = 0.0  # how long the answer of a pulse takes

    def set_patience(self, seconds: float) -> None: ...
    def in_flight(self, id_: int) -> None: ...
    def not_in_flight(self, id_: int) -> None: ...
    def robots_in_flight(self, slot: str, origin: str) -> None: ...
    def robots_not_in_flight(self, slot: str, origin: str) -> None: ...

    @property
    def _session(self) -> Session:
        return self._memory.sessions[self.number]

    async def pulse(self, session: int, status: WorkerStatus) -> Pulse | None:
        assert session == self.number
        if self.dead:
            raise StoreError("this process is dead")
        if self.slow_s:
            await self._clock.sleep_until(self._clock.monotonic() + self.slow_s)
        if not self.reachable.is_set():
            return None
        memory, mine = self._memory, self._session
        mine.beat_s, mine.status = memory.clock.boottime(), status
        mine.beats += 1
        lost, mine.reaped = mine.reaped, False
        memory.reap()
        others = memory.others(self.number)
        orders, mine.orders = mine.orders, []
        pulse = Pulse(
            lease_s=LEASE_S,
            lost=lost,
            others_active=self._activity.count(
                {other: session.status.idle for other, session in others.items()},
                {other: session.beats for other, session in others.items()},
                self._clock.monotonic(),
            ),
            others_sharing=memory.sharing(self.number),
            paused=await memory.inner.paused(),
            orders=orders,
            addresses=memory.lease_addresses(self.number, status.addresses),
        )
        if self.pulse_s:
            await self._clock.sleep_until(self._clock.monotonic() + self.pulse_s)
        await self._clock.running.wait()
        return pulse

    async def publish(self, session: int, order: Order) -> None:
        for other in self._memory.others(self.number).values():
            other.orders.append(order)

    async def claim(
        self, session: int, *, hosts: int, urls_per_host: int, referrers: bool = False
    ) -> Sequence[Lease]:
        await self._pass()
        if self._session.reaped:
            return ()
        inner = self._memory.inner
        leases = await inner.claim(
            self._memory.session, hosts=hosts, urls_per_host=urls_per_host, referrers=referrers
        )
        self._memory.owners |= {lease.slot: self.number for lease in leases}
        await self._pass()
        return leases

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        await self._pass()
        if self._session.reaped:
            return {}
        leases = await self._memory.inner.acquire(self._memory.session, slots)
        self._memory.owners |= dict.fromkeys(leases, self.number)
        await self._pass()
        return leases

    async def complete(self, session: int, batch: Batch) -> Completed:
        await self._pass()
        batch = structs.replace(batch, hosts=[self._fenced(update) for update in batch.hosts])
        completed = await self._memory.inner.complete(self._memory.session, batch)
        for update in batch.hosts:
            if update.release and update.slot not in completed.stale:
                self._memory.owners.pop(update.slot, None)
        await self._pass()
        return completed

    async def robots_put(self, session: int, *args: Any, **kwargs: Any) -> Completed:
        await self._pass()
        if (also := kwargs.get("also")) is not None:
            kwargs["also"] = self._fenced(also)
        return await self._memory.inner.robots_put(self._memory.session, *args, **kwargs)

    def _fenced(self, update: HostUpdate) -> HostUpdate:
        if self._memory.owners.get(update.slot) == self.number:
            return update
        return structs.replace(update, epoch=-1)

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        await self._pass()
        async for urls in self._memory.inner.seeds():
            yield urls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._memory.inner, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._pass()
            if args and args[0] == self.number:
                args = (self._memory.session, *args[1:])
            result = await method(*args, **kwargs)
            await self._pass()
            return result

        return call

    async def _pass(self) -> None:
        self.calls += 1
        assert self.calls < CALLS_MAX, "the worker spins"
        if self.slow_s:
            await self._clock.sleep_until(self._clock.monotonic() + self.slow_s)
        await self._clock.running.wait()
        await self.reachable.wait()
        if self.dead:
            raise StoreError("this process is dead")

    def end(self) -> None:
        """As `close` does; nothing is released that was not."""
        if not self.dead:
            self._session.ended = True
            self._memory.free(self.number)


@dataclass
class SharingWorker:
    """One worker of a crawl, as a process of its own would be."""

    clock: WorkerClock
    store: WorkerStore
    fetcher: FakeFetcher
    scheduler: Scheduler
    control: Control
    task: asyncio.Task[None]
    ended_s: float | None = None

    @property
    def hosts(self) -> list[str]:
        return [host.slot for host in self.scheduler.frontier.permits]

    @property
    def requests(self) -> list[LoggedRequest]:
        """A host that answers a stopped process is done with it before that continues."""
        for entry in self.fetcher.log:
            for from_s, to_s in self.clock.stops:
                if entry.start_s < from_s and entry.end_s >= to_s:
                    entry.end_s = from_s
        return list(self.fetcher.log)

    def kill(self) -> None:
        self.store.dead = True
        self.task.cancel()


class SharedWorld:
    """Workers on one store."""

    def __init__(self, clock: JumpClock) -> None:
        self.clock = clock
        self.memory = SharedMemory(clock)
        self.workers: list[SharingWorker] = []

    async def begin(
        self,
        answers: Answers,
        *seeds: str,
        workers: int = 2,
        forever: bool = False,
        source: ReloadSource | None = None,
        **sections: Mapping[str, object],
    ) -> list[SharingWorker]:
        """Start workers; the first time, on these seeds."""
        own: dict[str, dict[str, object]] = {
            "crawl": {"patience": "10m", "user_agent": AGENT},
            "scope": {"sitemap_paths": []},
        }
        config = from_dict(
            {**sections, **{name: {**own[name], **sections.get(name, {})} for name in own}}
        )
        if not self.memory.session:
            await self.memory.open()
        if seeds:
            await self.memory.inner.add([seed_link(config, url) for url in seeds])
        begun = [self._begin(config, answers, forever, source) for _ in range(workers)]
        self.workers += begun
        return begun

    def _begin(
        self, config: Config, answers: Answers, forever: bool, source: ReloadSource | None
    ) -> SharingWorker:
        clock = WorkerClock(self.clock)
        store: Any = WorkerStore(self.memory, clock)
        fetcher = FakeFetcher(clock, answers)
        context = crawl_context(config, store=store, session=store.number, clock=clock)
        scheduler = Scheduler(context, fetcher, runs_forever=forever)
        control = Control(
            scheduler,
            config=config,
            store=store,
            reader=self.memory.inner.reader,
            clock=clock,
            source=source,
        )
        task = asyncio.create_task(scheduler.run())
        worker = SharingWorker(clock, store, fetcher, scheduler, control, task)

        def over(_: object) -> None:
            worker.ended_s = self.clock.elapsed_s
            store.end()

        task.add_done_callback(over)
        return worker

    @contextlib.asynccontextmanager
    async def session(self, config: Config, answers: Answers) -> AsyncIterator[CallerGate]:
        """A session of callers on the same store."""
        clock = WorkerClock(self.clock)
        store: Any = WorkerStore(self.memory, clock)
        fetcher = FakeFetcher(clock, answers)
        context = crawl_context(
            config,
            store=store,
            session=store.number,
            clock=clock,
            faults=FaultOwner.CALLER,
        )
        async with CallerSession(context, fetcher) as loop:
            yield gate_of(loop)

    async def wait(self, for_s: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + for_s)

    async def end(self) -> None:
        """Wait for all workers; those that were killed may fail."""
        for worker in self.workers:
            try:
                await worker.task
            except (asyncio.CancelledError, StoreError, BaseExceptionGroup):
                if not worker.store.dead:
                    raise

    @property
    def requests(self) -> list[LoggedRequest]:
        """Of all workers, in their order."""
        found = [entry for worker in self.workers for entry in worker.requests]
        return sorted(found, key=lambda entry: entry.start_s)

    def fetched(self) -> dict[str, int]:
        """How often each page was requested, by all workers together."""
        counts: dict[str, int] = {}
        for entry in self.requests:
            if entry.path != "/robots.txt":
                url = f"http://{entry.host}{entry.path}"
                counts[url] = counts.get(url, 0) + 1
        return counts

    def check_delays(self, delay_s: float = 1.0) -> None:
        """No host was contacted early, whoever contacted it."""
        last: dict[str, float] = {}
        for entry in self.requests:
            if entry.host in last:
                rested_s = entry.start_s - last[entry.host]
                assert rested_s >= delay_s - 1e-6, (entry.host, entry.path, rested_s)
            last[entry.host] = max(entry.end_s, last.get(entry.host, entry.end_s))

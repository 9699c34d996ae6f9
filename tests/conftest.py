"""A rig for whole crawls on a clock that jumps: the engine entire, with the network and the file
left out. Tests use the fixture `world`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, settings

from crawler.config import Config, from_dict
from crawler.fetching.request import Fetcher
from crawler.observer import Observer
from crawler.processing.context import crawl_context
from crawler.scheduling.scheduler import Scheduler
from crawler.steering.control import Control
from crawler.testing import (
    Answers,
    FakeFetcher,
    JumpClock,
    LoggedRequest,
    RequestLog,
    forget_contacts,
)
from policies.url import host_of, slot_of
from storage.sqlite import memory_store
from storage.store import Link, Row, Store, StoreError
from tests import preloaded
from tests.postgres_server import PostgresServer, running_server

# Profiles of Hypothesis: `fresh` tries other examples in each run, `fixed` the same ones, `few` is
# for measuring coverage, and `mutants` for tests/mutation.py. No test has a deadline, because the
# machine may be busy. What a failure prints replays it.
settings.register_profile(
    "fresh", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fixed", settings.get_profile("fresh"), derandomize=True)
settings.register_profile("few", settings.get_profile("fixed"), max_examples=10)
settings.register_profile(
    "mutants", settings.get_profile("fixed"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("fresh")

# Some hundred processes are started: each would compile everything anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

preloaded.install()

# Shells have what runs in the background ignore these, and so would all processes of the tests.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

DAY_S = 86_400.0
CAP_S = 30 * DAY_S  # a crawl that is not over by then never ends
CALLS_MAX = 200_000  # of the store, in one crawl: one that spins without time passing is found out
VIEWS = (
    "visited",
    "blocked",
    "failed",
    "queued",
    "hosts",
    "robots",
    "skipped",
    "sitemaps",
    "listings",
)

Hook = Callable[..., Awaitable[None]]  # called with the arguments of the store's method


@pytest.fixture(autouse=True)
def _own_contacts() -> None:
    """No test waits for the delay after a contact of another test."""
    forget_contacts()


@pytest.fixture
def fresh_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command starts in an interpreter of its own, as it does for users."""
    monkeypatch.setattr(preloaded.preloaded, "enabled", False)


@pytest.fixture(autouse=True)
def _measured_starts(request: pytest.FixtureRequest) -> None:
    """Benchmarks start what users start."""
    if any(request.node.get_closest_marker(name) for name in ("bench", "referee", "soak")):
        request.getfixturevalue("fresh_interpreter")


@pytest.fixture
def looks_hourly(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle crawl looks for work once an hour: the minutes of days would cost most of a test."""
    monkeypatch.setattr("crawler.scheduling.host_supply.IDLE_LOOK_S", 3_600.0)


class Medium:
    """A `Store` as a crawl meets it: it can be slow, be watched, and be gone all at once.

    `before` and `after` hold what is awaited around a method, by name; `slow_s` passes on the clock
    before and after each call. As with the store of a file, what was asked for happens, also when
    who asked for it is cancelled. Once `dead`, it takes and gives nothing more: what a killed
    process had handed over is there, what it had not is lost.
    """

    shared = False

    def __init__(self, inner: Store, clock: JumpClock) -> None:
        self._inner = inner
        self._clock = clock
        self.dead = False
        self.slow_s = 0.0
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}
        self.calls: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[Any]] = set()
        self.faults = inner.faults
        self.set_patience = inner.set_patience

    def in_flight(self, id_: int) -> None:
        self._inner.in_flight(id_)

    def not_in_flight(self, id_: int) -> None:
        self._inner.not_in_flight(id_)

    def robots_in_flight(self, slot: str, origin: str) -> None:
        self._inner.robots_in_flight(slot, origin)

    def robots_not_in_flight(self, slot: str, origin: str) -> None:
        self._inner.robots_not_in_flight(slot, origin)

    async def settle(self) -> None:
        """Wait for what nobody waits for any more."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        await self._pass()
        async for urls in self._inner.seeds():
            yield urls
            await self._pass()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            assert self.calls.total() < CALLS_MAX, f"the crawl spins: {self.calls}"
            task = asyncio.create_task(do(*args, **kwargs))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            return await asyncio.shield(task)

        async def do(*args: Any, **kwargs: Any) -> Any:
            if name in self.before:
                await self.before[name](*args, **kwargs)
            await self._pass()
            result = await method(*args, **kwargs)
            await self._pass()
            if name in self.after:
                await self.after[name](*args, **kwargs)
            self._live()
            return result

        return call

    async def _pass(self) -> None:
        self._live()
        if self.slow_s:
            await self._clock.sleep_until(self._clock.monotonic() + self.slow_s)
            self._live()

    def _live(self) -> None:
        if self.dead:
            raise StoreError("this process is dead")


@dataclass
class Crawled:
    """What one crawl came to. Times without a note are seconds since it began."""

    scheduler: Scheduler
    medium: Medium
    log: RequestLog
    start_s: float  # on the clock
    elapsed_s: float
    wall_from_s: float  # add to a time of the clock: Unix seconds
    rows: dict[str, list[Row]]

    @property
    def waiting(self) -> Mapping[str, tuple[float | None, str]]:
        return {
            host: (until, reason.sentence)
            for host, (until, reason) in self.scheduler.waiting.items()
        }

    def urls(self, view: str) -> list[str]:
        return sorted(str(row["url"]) for row in self.rows[view])

    def entries(self, host: str | None = None, path: str | None = None) -> list[LoggedRequest]:
        return [one for one in self.log.requests(host) if path is None or one.path == path]

    def at(self, host: str | None = None, path: str | None = None) -> list[float]:
        """When these requests were made."""
        return [entry.start_s - self.start_s for entry in self.entries(host, path)]


@dataclass(frozen=True, slots=True)
class ConfigFrom:
    """A source of reloads that calls a function."""

    read: Callable[[], Config]

    def reload(self) -> Config:
        return self.read()


class World:
    """A clock and a store, on which crawls run one after the other, or are killed."""

    def __init__(self, clock: JumpClock) -> None:
        self.clock = clock
        self.store = memory_store(wall=clock.wall, monotonic=clock.monotonic)
        self.medium = Medium(self.store, clock)  # the next crawl's
        self.scheduler: Scheduler | None = None
        self._control: Control | None = None
        self._deeds: list[asyncio.Task[Any]] = []
        self.session = 0
        self._task: asyncio.Task[None] | None = None

    def run_sql(self, sql: str) -> None:
        """Change the database behind the back of the store, which is to look at it again."""
        self.store.reader._database.db.execute(sql)
        self.store._calls._writer = None

    async def wait(self, for_s: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + for_s)

    @property
    def control(self) -> Control:
        """The hand on the crawl that runs."""
        assert self._control
        return self._control

    def do(self, deed: Coroutine[Any, Any, Any]) -> None:
        """Begin something that takes time, at a moment of `at`; the crawl's end waits for it."""
        self._deeds.append(asyncio.create_task(deed))

    def stop(self) -> None:
        """Stop the running crawl, as a first SIGINT does."""
        assert self.scheduler
        self.scheduler.stop()

    def leave(self) -> None:
        """Cancel the crawl that runs, as a second SIGINT does."""
        assert self._task
        self._task.cancel()

    def kill(self) -> None:
        """`kill -9` to the crawl that runs: not another byte reaches the store."""
        self.medium.dead = True
        self.leave()

    async def crawl(
        self,
        answers: Answers,
        *seeds: str,
        at: Mapping[float, Callable[[], None]] | None = None,
        cap_s: float = CAP_S,
        latency_s: float = 0.05,
        fetcher: Fetcher | None = None,
        forever: bool = False,
        observer: Observer | None = None,
        reread: Callable[[], Config] | None = None,
        **sections: Mapping[str, object],
    ) -> Crawled:
        """One crawl to its end, however it comes. `at`: what happens so many seconds after its
        beginning. One that is not over after `cap_s` fails the test."""
        own: dict[str, dict[str, object]] = {
            "crawl": {"patience": "10m"},
            "scope": {"sitemap_paths": []},
        }
        config = from_dict(
            {**sections, **{name: {**own[name], **sections.get(name, {})} for name in own}}
        )
        self.session = await self.store.open_session("test")
        by_domain = str(config.politeness.per) == "domain"
        await self.store.add(_links(seeds, by_domain=by_domain))
        fake = FakeFetcher(self.clock, answers, latency_s=latency_s)
        fetcher = fetcher or fake
        medium: Any = self.medium  # forwards the methods of a store
        context = crawl_context(
            config, store=medium, session=self.session, clock=self.clock, observer=observer
        )
        scheduler = self.scheduler = Scheduler(context, fetcher, runs_forever=forever)
        self._control = Control(
            scheduler,
            config=config,
            store=medium,
            reader=self.store.reader,
            clock=self.clock,
            source=None if reread is None else ConfigFrom(reread),
        )
        start_s = self.clock.monotonic()
        self._task = asyncio.create_task(scheduler.run())
        over: list[float] = []
        timers = [self.clock.call_at(start_s + s, act) for s, act in (at or {}).items()]
        timers.append(self.clock.call_at(start_s + cap_s, lambda: over.append(cap_s)))
        timers.append(self.clock.call_at(start_s + cap_s, self.leave))
        try:
            await self._task
        except (asyncio.CancelledError, StoreError, BaseExceptionGroup) as error:
            if not (isinstance(error, asyncio.CancelledError) or medium.dead):
                raise
        finally:
            deeds, self._deeds = self._deeds, []
            await asyncio.gather(*deeds)
            await medium.settle()
            for timer in timers:
                timer.cancel()
            self.medium = Medium(self.store, self.clock)
        assert not over, f"it had not ended after {cap_s:g} s"
        return Crawled(
            scheduler=scheduler,
            medium=medium,
            log=cast("RequestLog", getattr(fetcher, "log", fake.log)),
            start_s=start_s,
            elapsed_s=self.clock.monotonic() - start_s,
            wall_from_s=self.clock.wall() - self.clock.monotonic(),
            rows={view: [row async for row in self.store.reader.iterate(view)] for view in VIEWS},
        )


def _links(urls: Sequence[str], *, by_domain: bool) -> list[Link]:
    return [
        Link(
            url=url,
            slot=slot_of(host_of(url), by_domain=by_domain),
            host=host_of(url),
            depth=0,
            seed=True,
        )
        for url in urls
    ]


@pytest.fixture
async def clock() -> AsyncIterator[JumpClock]:
    async with JumpClock() as clock:
        yield clock


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Fails the test also for what goes wrong in a timer's callback, where nobody would hear it."""
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: unheard.append(repr(context.get("exception") or context["message"]))
    )
    async with JumpClock() as clock:
        world = World(clock)
        yield world
        await world.wait(60)  # timers that a crawl left behind have their chance to do harm
    assert not unheard


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that the tests of this process share. Those that stop it start their own:
    `running_server`."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def crawl_url(postgres: PostgresServer) -> str:
    """A database with an empty crawl. Connections that are left open are ended before the next
    test."""
    return postgres.emptied_database()

"""What a turn costs, a verdict of the gate, and a whole visit without network and pages; each
beside a baseline by name, so that a regression names its stage.

    pytest -m bench -s tests/benchmarks/test_turn_speed.py
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.config.model import CurrentConfig
from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.robots_cache import GOVERNED
from crawler.processing.context import crawl_context
from crawler.scheduling.scheduler import Scheduler
from policies.pacing import PacingRules
from policies.robots_state import RobotsState
from policies.url import path_of
from storage.sqlite import memory_store
from storage.store import HostClock, Lease, Link, Prefetched, Queued, Store

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Beside

HOSTS = 4_000  # as many as a crawl holds
PACE_S = 2.0
TURNS = 40_000
ROBOTS = b"User-agent: *\nDisallow: /private/\nDisallow: /search\nAllow: /search/about\n"

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


class Stepped:
    """A Clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def boottime(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Stepped:
        return self

    def cancel(self) -> None: ...

    async def sleep_until(self, when_s: float) -> None: ...


def queued(number: int, url: str) -> Queued:
    return Queued(id=number, url=url, depth=0, priority=0, attempts=0, refusals=0, seed=False)


def lease(slot: str, pages: int) -> Lease:
    urls = [queued(n, f"http://{slot}/{n}") for n in range(pages)]
    return Lease(
        slot=slot,
        epoch=1,
        clean=True,
        clock=HostClock(),
        paused=False,
        slow_s=None,
        visited=0,
        body_bytes=0,
        robots={},
        prefetched=Prefetched(urls=urls, next_due_in_s=None),
    )


def bare_heap() -> int:
    """What the schedule of resting hosts cannot do without."""
    heap = [(n / HOSTS, n, object()) for n in range(HOSTS)]
    numbers = itertools.count(HOSTS)
    heapq.heapify(heap)
    for _ in range(TURNS):
        at_s, _, host = heapq.heappop(heap)
        heapq.heappush(heap, (at_s + PACE_S, next(numbers), host))
    return TURNS


def resting_hosts() -> Callable[[], int]:
    clock = Stepped()
    frontier = Frontier(CurrentConfig(from_dict({})), clock, cast("Store", None))
    permits = frontier.permits
    rules = PacingRules(delay=PACE_S)  # and the default latency factor
    for n in range(HOSTS):
        permits.register(
            HostQueue(lease(f"h{n}.test", 2), rules, now_s=clock.now_s + n * PACE_S / HOSTS)
        )

    def work() -> int:
        for _ in range(TURNS):
            clock.now_s += 1.001 * PACE_S / HOSTS
            frontier.next_pass()
            frontier.advance()
            permit = permits.for_any_host().withdraw()
            assert permit is not None, "nobody was ready"
            permit.host.pace.on_wire()
            permits.end(
                permit,
                started_s=clock.now_s,
                ended_s=clock.now_s,
                kind="page",
                status=200,
            )
            permit.host.contacts_new.clear()
        return TURNS

    return work


def test_turn(beside: Beside) -> None:
    """4,000 hosts at their own pace: one permit granted, used and ended."""

    async def run() -> float:
        return beside("turn", resting_hosts(), "heapq push and pop", bare_heap)

    assert asyncio.run(run()) < 24


class NullFetcher:
    """Answers at once, with nothing to read."""

    def __init__(self, clock: RealClock) -> None:
        self._clock = clock
        self._headers = CIMultiDictProxy(CIMultiDict({"Content-Type": "text/plain"}))

    async def address_of(self, host: str) -> str | Failure:
        return "127.0.0.1"

    async def fetch(self, request: Request) -> Answer | Failure:
        started_s = self._clock.monotonic()
        await asyncio.sleep(0)
        robots = request.url.endswith("/robots.txt")
        return Answer(
            url=request.url,
            status=200,
            headers=self._headers,
            body=ROBOTS if robots else b"",
            body_read=robots,
            cut=False,
            wire_bytes=0,
            started_s=started_s,
            ended_s=self._clock.monotonic(),
            address="127.0.0.1",
        )


async def scheduler_with(links: list[Link]) -> Scheduler:
    clock = RealClock()
    config = from_dict(
        {
            "crawl": {"concurrency": 64},
            "scope": {"follow": "any"},
            "politeness": {"delay": 0, "latency_factor": 0},
        }
    )
    store = memory_store(wall=clock.wall, monotonic=clock.monotonic)
    session = await store.open_session("bench")
    await store.add(links)
    context = crawl_context(config, store=store, session=session, clock=clock)
    return Scheduler(context, NullFetcher(clock))


def test_gate_check(beside: Beside) -> None:
    """A verdict for a URL: its origin, whether what is known of it is fresh, and the judgement."""

    async def run() -> float:
        scheduler = await scheduler_with([])
        host = HostQueue(lease("h0.test", 1), PacingRules(), now_s=0.0)
        now_s = time.time()
        known = RobotsState(
            status=200, body=ROBOTS, copy_at=now_s, fetched_at=now_s, expires_at=now_s + 3600
        )
        scheduler.frontier.robots.adopt(host, {"http://h0.test": known})
        origin = scheduler.frontier.robots.get("http://h0.test")
        assert origin
        assert origin.policy
        judge, check = origin.policy.allowed, scheduler.frontier.robots.check
        urls = [f"http://h0.test/p/{n}" for n in range(TURNS)]
        paths = [path_of(url) for url in urls]

        def checked() -> int:
            for url in urls:
                if check(host, url) is not GOVERNED:
                    raise AssertionError(url)
            return len(urls)

        def judged() -> int:
            for path in paths:
                if not judge(path):
                    raise AssertionError(path)
            return len(paths)

        return beside("gate check", checked, "the policy's judgement alone", judged)

    assert asyncio.run(run()) < 5


def test_visit(beside: Beside) -> None:
    """A whole visit without network, page and file: turn, scope, gate, outcome, commit."""

    def visits() -> int:
        async def run() -> int:
            slots = [f"h{n}.test" for n in range(200)]
            urls = [(slot, f"http://{slot}/p/{n}") for slot in slots for n in range(50)]
            scheduler = await scheduler_with(
                [Link(url=url, slot=slot, host=slot, depth=0) for slot, url in urls]
            )
            await scheduler.run()
            assert scheduler.committer.rates.pages == len(urls)
            return scheduler.committer.rates.pages

        return asyncio.run(run())

    def bare_workers() -> int:
        async def work(queue: asyncio.Queue[str], fetcher: NullFetcher) -> None:
            while not queue.empty():
                url = await queue.get()
                await fetcher.fetch(Request(url=url))

        async def run() -> int:
            fetcher = NullFetcher(RealClock())
            queue: asyncio.Queue[str] = asyncio.Queue()
            for n in range(10_000):
                queue.put_nowait(f"http://h0.test/p/{n}")
            await asyncio.gather(*(work(queue, fetcher) for _ in range(64)))
            return 10_000

        return asyncio.run(run())

    # 15 times until requests and answers became structs: a visit took 67 µs and takes 49, but the
    # baseline, which makes little else, 2.1 and not 4.4.
    assert beside("visit", visits, "asyncio.Queue and the same fetch", bare_workers) < 34

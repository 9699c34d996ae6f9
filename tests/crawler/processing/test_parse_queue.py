"""What takes long waits until the network has been looked at; nobody is passed over."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from crawler.clock import Clock, RealClock
from crawler.documents import page
from crawler.documents.page_parser import PageParser, ParsingBrokenOffError
from crawler.fetching.request import Answer, Failure
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.permits import Permits
from crawler.leased_domains import LeasedDomains
from crawler.processing import page_outcomes
from crawler.processing.page_outcomes import PageOutcomes
from crawler.processing.parse_queue import AT_ONCE_MAX, LONG_S, ParseQueue
from crawler.testing import FakeFetcher, JumpClock, Reply, html, not_found

if TYPE_CHECKING:
    from crawler.fetching.request import Headers, Request
    from storage.store import Outcome
    from tests.conftest import World

HOSTS = 30


def parse_queue(clock: Clock | None = None, *, one_domain: bool = False) -> ParseQueue:
    domains = LeasedDomains()
    for domain in ["trap.test"] if one_domain else ["trap.test", "victim.test"]:
        domains.add(domain)
    return ParseQueue(clock or RealClock(), domains)


class Passes:
    """Numbers the passes of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._turn()

    def _turn(self) -> None:
        self.number += 1
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._handle.cancel()


async def test_what_is_ready_to_run_runs_before() -> None:
    first = parse_queue()
    done: list[str] = []

    async def compute(name: str) -> None:
        await first.wait("a.test")
        done.append(name)

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(compute(name))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(done.append, "contact")
    assert done == ["contact", "a", "b"]


async def test_all_go_in_order_and_few_in_one_pass() -> None:
    first, passes = parse_queue(), Passes()
    went: list[tuple[int, int]] = []

    async def compute(number: int) -> None:
        await first.wait("a.test")
        went.append((number, passes.number))

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(compute(number))
    passes.stop()
    assert [number for number, _ in went] == list(range(200))
    in_one = [sum(at == one for _, at in went) for one in {at for _, at in went}]
    assert max(in_one) <= AT_ONCE_MAX


async def test_one_that_is_cancelled_holds_nobody_up() -> None:
    first = parse_queue()
    waiting = [asyncio.create_task(first.wait("a.test")) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[2].cancel()
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, False, True, False]
    await first.wait("a.test")


async def test_domains_take_turns() -> None:
    queue = parse_queue()
    went: list[str] = []

    async def compute(domain: str) -> None:
        await queue.wait(domain)
        went.append(domain)

    async with asyncio.TaskGroup() as group:
        for domain in (*["trap.test"] * 100, "victim.test", "victim.test"):
            group.create_task(compute(domain))
    assert went.index("victim.test") <= 1
    assert went[:4].count("victim.test") == 2


@pytest.mark.parametrize("one_domain", [False, True])
async def test_a_domain_whose_pages_take_long_leaves_half_of_the_time(one_domain: bool) -> None:
    async with JumpClock() as clock:
        queue = parse_queue(clock, one_domain=one_domain)
        ended_s: list[float] = []

        async def compute(domain: str, cost_s: float) -> None:
            await queue.wait(domain)
            clock._now_s += cost_s  # the event loop is busy
            if domain == "trap.test":
                ended_s.append(clock.monotonic())

        began_s = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(compute("trap.test", 10 * LONG_S))
            group.create_task(compute("victim.test", LONG_S / 10))
        elapsed_s = ended_s[-1] - began_s
        assert elapsed_s == pytest.approx((10 if one_domain else 19) * 10 * LONG_S, rel=0.1)


async def test_all_that_wait_are_broken_off_and_later_ones_pass() -> None:
    first = parse_queue()
    waiting = [asyncio.create_task(first.wait("a.test")) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    first.break_off()
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [False, True, False, False]
    for task in (waiting[0], *waiting[2:]):
        assert isinstance(task.exception(), ParsingBrokenOffError)
    await first.wait("a.test")


async def test_law_7_what_is_being_read_counts_until_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large pages are read one at a time: many hosts that send nothing else fill no memory."""
    concurrency, size_bytes, fit = 10, 10_000, 5
    monkeypatch.setattr("crawler.frontier.permits.UNPARSED_BYTES_MAX", fit * size_bytes)
    one = asyncio.Lock()
    in_memory: list[int] = []

    async def slowly(
        _: PageParser, url: str, headers: Headers, body: bytes, **how: Any
    ) -> page.ParsedPage:
        assert world.scheduler
        in_memory.append(world.scheduler._worker.unread)
        async with one:
            await world.wait(0.1)
        return page.parse_page(url, headers, body, **how)

    monkeypatch.setattr(PageParser, "parse", slowly)
    seeds = [f"http://h{n}.test/" for n in range(100)]

    def answers(request: Request) -> Reply:
        return not_found() if "robots" in request.url else html("x" * size_bytes)

    crawled = await world.crawl(answers, *seeds, crawl={"concurrency": concurrency})
    assert len(crawled.urls("visited")) == 100
    assert max(in_memory) <= fit + concurrency  # those on the wire had begun before


class Order:
    """An Observer and a web that note when pages were read and when they were asked for."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, request: Request) -> Reply:
        url = request.url
        self.events.append(("asked", url))
        if url.endswith("/robots.txt"):
            return html("no robots.txt")
        return html("ParsedPage")

    def contacted(self, seen: object) -> None: ...

    def settled(self, url: str, outcome: Outcome) -> None:
        self.events.append(("read", url))

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None: ...


async def test_the_next_requests_go_out_before_the_pages_of_the_last_are_read(world: World) -> None:
    """All hosts answer at once: none waits for the pages of the others."""
    order = Order()
    seeds = [f"http://h{n}.test/{page}" for n in range(HOSTS) for page in (0, 1)]
    crawled = await world.crawl(
        order, *seeds, observer=order, politeness={"delay": 0, "latency_factor": 0}
    )
    assert len(crawled.urls("visited")) == len(seeds)
    pages = [event for event in order.events if not event[1].endswith("robots.txt")]
    first_waves = [kind for kind, _ in pages[: 2 * HOSTS]]
    assert first_waves.count("asked") == 2 * HOSTS


async def test_max_pages_per_host_counts_pages_that_wait_to_be_read(world: World) -> None:
    order = Order()
    seeds = [f"http://h{n}.test/{page}" for n in range(HOSTS) for page in range(4)]
    crawled = await world.crawl(
        order,
        *seeds,
        politeness={"delay": 0, "latency_factor": 0},
        scope={"max_pages_per_host": 2},
    )
    assert len(crawled.urls("visited")) == 2 * HOSTS
    asked = [url for kind, url in order.events if kind == "asked" and url[-1] != "t"]
    assert len(asked) == 2 * HOSTS


async def test_the_first_of_those_that_come_together_goes_alone() -> None:
    """However short the pages before took: these may be others."""
    async with JumpClock() as clock:
        queue = parse_queue(clock)
        for _ in range(2):  # no time passes, so the more go in one pass, the more there were
            tasks = [asyncio.create_task(queue.wait("trap.test")) for _ in range(100)]
            done = [0]
            while done[-1] < 100 and len(done) < 1_000:
                await asyncio.sleep(0)
                done.append(sum(task.done() for task in tasks))
            went = [now - before for before, now in itertools.pairwise(done) if now > before]
            assert went[0] == 1
            assert max(went) > 4
            await clock.sleep_until(clock.monotonic() + 1)


@pytest.mark.parametrize("one_domain", [False, True])
async def test_a_page_that_took_several_passes_is_charged_to_its_domain(one_domain: bool) -> None:
    async with JumpClock() as clock:
        queue = parse_queue(clock, one_domain=one_domain)
        began_s = clock.monotonic()
        await queue.wait("trap.test")
        await clock.sleep_until(began_s + 0.5)
        queue.charge("trap.test", began_s)
        if not one_domain:
            await queue.wait("victim.test")
            assert clock.monotonic() == pytest.approx(began_s + 0.5)
        await queue.wait("trap.test")
        waited_s = clock.monotonic() - began_s - 0.5
        assert waited_s == pytest.approx(0.0 if one_domain else 0.5)


async def test_a_long_header_waits_as_a_body_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as much memory, and time to be read."""

    class Long(FakeFetcher):
        async def fetch(self, request: Request) -> Answer | Failure:
            answer = await super().fetch(request)
            assert isinstance(answer, Answer)
            return structs.replace(answer, wire_bytes=200_000)

    counted: list[int] = []
    count = Permits.count_unparsed

    def spy(self: Permits, host: HostQueue, size_bytes: int) -> None:
        counted.append(size_bytes)
        count(self, host, size_bytes)

    monkeypatch.setattr(Permits, "count_unparsed", spy)
    fetcher = Long(world.clock, {"http://a.test/": html("")})
    await world.crawl({}, "http://a.test/", fetcher=fetcher)
    assert counted == [200_000, -200_000]


async def test_a_page_with_many_links_is_charged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[str] = []
    monkeypatch.setattr(ParseQueue, "charge", lambda _, domain, began_s: charged.append(domain))

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/":
            return html("A", *(f"/{n}" for n in range(page_outcomes.LINKS_AT_ONCE + 1)))
        return not_found() if request.url.endswith("/robots.txt") else html("B", "/1")

    await world.crawl(answers, "http://a.test/", politeness={"delay": 0.1})
    assert charged == ["a.test"]


async def test_the_links_of_a_page_are_judged_a_few_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they take too long: each may be of a host that is not known yet."""
    monkeypatch.setattr(page_outcomes, "JUDGING_S", 0.0)
    judged: list[str] = []
    pauses: list[int] = []
    judge, sleep = PageOutcomes._link, asyncio.sleep

    def link(self: PageOutcomes, url: str, **more: Any) -> Any:
        judged.append(url)
        return judge(self, url, **more)

    async def pause(delay_s: float, *result: Any) -> Any:
        pauses.append(len(judged))
        return await sleep(delay_s, *result)

    monkeypatch.setattr(PageOutcomes, "_link", link)
    monkeypatch.setattr(page_outcomes.asyncio, "sleep", pause)

    def answers(request: Request) -> Reply:
        if request.url != "http://a.test/":
            return not_found()
        return html("A", *(f"http://n{n}.b.test/" for n in range(500)))

    await world.crawl(answers, "http://a.test/")
    assert len(judged) == 500
    ends = [0, *pauses, 500]
    assert max(b - a for a, b in itertools.pairwise(ends)) <= page_outcomes.LINKS_AT_ONCE

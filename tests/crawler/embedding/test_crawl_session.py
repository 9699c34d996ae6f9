"""The session of a crawl: one clock for it and its callers, no deadlock, no early contact."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from pathlib import Path

import pytest

from crawler.embedding.crawler import Crawler
from crawler.embedding.session import PoliteSession
from crawler.errors import CourtlyError, FetchFailed, RobotsDisallowed, SessionClosed, WaitTooLong
from crawler.testing import FakeFetcher, JumpClock, LoggedRequest, Reply, html, redirect, text
from policies.retries import FailureCode
from policies.url import host_of

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
B = "http://b.test"
PACE = {"politeness": {"delay": 1, "latency_factor": 0, "concurrency_per_host": 1}}


def site(clock: JumpClock, pages: int = 8) -> FakeFetcher:
    """Pages of one host in a chain, a document beside each, and another host."""
    answers: dict[str, Reply | FailureCode] = {
        f"{A}/robots.txt": text("User-agent: *\nDisallow: /no"),
        f"{B}/robots.txt": text("User-agent: *\nDisallow: /no"),
        f"{A}/old": redirect(f"{B}/new"),
        f"{B}/new": text("new"),
    }
    for n in range(pages):
        answers[f"{A}/{n}"] = html(str(n), *([f"/{n + 1}", f"/{n + 2}"] if n + 2 < pages else []))
        answers[f"{A}/doc{n}"] = text(f"document {n}")
        answers[f"{B}/doc{n}"] = text(f"document {n}")
    return FakeFetcher(clock, answers)


def crawler(clock: JumpClock, fetcher: FakeFetcher, **options: object) -> Crawler:
    given = {"config": PACE, "user_agent": UA, "clock": clock, "fetcher": fetcher, **options}
    return Crawler([f"{A}/0"], **given)  # type: ignore[arg-type]


def assert_polite(fetcher: FakeFetcher) -> None:
    for host in ("a.test", "b.test"):
        assert min(fetcher.log.gaps(host), default=1.0) >= 1 - 1e-6
        assert fetcher.log.peak_concurrency(host) <= 1
        assert fetcher.log.paths(host).count("/robots.txt") <= 1


async def test_a_reader_fetches_from_the_host_being_crawled(clock: JumpClock) -> None:
    fetcher = site(clock)
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()
        found = {}
        async for page in crawl:
            response = await session.get(f"{A}/doc{page.url[-1]}")
            found[page.url] = response.text
    assert found == {f"{A}/{n}": f"document {n}" for n in range(8)}
    assert_polite(fetcher)


@pytest.mark.parametrize("concurrency", [1, 2, 32])
async def test_a_page_function_fetches_from_the_host_being_crawled(
    clock: JumpClock, concurrency: int
) -> None:
    """Even where the commit waits for the function, and the host has had all its pages."""
    fetcher = site(clock)
    found = []
    config = {**PACE, "crawl": {"concurrency": concurrency}, "scope": {"max_pages_per_host": 5}}
    async with crawler(clock, fetcher, config=config) as crawl:
        crawl.session()

        async def look(page) -> None:
            await clock.sleep_until(clock.monotonic() + 0.5)  # the host is full meanwhile
            found.append((await crawl.session().get(f"{A}/doc{page.url[-1]}")).text)
            found.append((await crawl.session().get(f"{B}/doc{page.url[-1]}")).text)

        crawl.add_sink(look)
        pages = [page.url async for page in crawl]
    assert len(pages) == 5
    assert len(found) == 10
    assert_polite(fetcher)


async def test_a_page_function_does_not_wait_for_its_own_commit(clock: JumpClock) -> None:
    """The host that it wants is being released, with the commit that waits for it."""
    fetcher = site(clock, pages=2)
    raised: list[Exception] = []
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()
        scheduler = crawl._running.get()._scheduler

        async def look(_page) -> None:
            await session.get(f"{B}/doc0")
            host = scheduler.frontier.permits.hosts.get("b.test")
            assert host is not None
            scheduler.leases.release(host)
            with pytest.raises(CourtlyError, match="waits for this page function") as caught:
                await session.get(f"{B}/doc1")
            raised.append(caught.value)

        crawl.add_sink(look)
        assert len([page async for page in crawl]) == 1
        assert (await session.get(f"{B}/doc1")).status == 200
    assert len(raised) == 1
    assert_polite(fetcher)


async def test_the_crawl_and_its_callers_take_turns_at_a_host(clock: JumpClock) -> None:
    fetcher = site(clock, pages=12)
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()

        async def ask(first: int) -> None:
            for n in range(first, 12, 2):
                await session.get(f"{A}/doc{n}")

        asking = [asyncio.create_task(ask(0)), asyncio.create_task(ask(1))]
        pages = [page.url async for page in crawl]
        await asyncio.gather(*asking)
    assert len(pages) == 12
    assert_polite(fetcher)
    docs = ["doc" in path for path in fetcher.log.paths("a.test") if path != "/robots.txt"]
    runs = max(len(run) for run in "".join("d" if doc else "p" for doc in docs[:20]).split("p"))
    assert runs <= 2, f"the crawl waits for one caller, not for all: {fetcher.log.paths()}"


async def test_the_crawl_continues_until_its_callers_have_their_responses(
    clock: JumpClock,
) -> None:
    fetcher = site(clock, pages=2)
    async with crawler(clock, fetcher) as crawl:
        asking = [asyncio.create_task(crawl.session().get(f"{A}/doc{n % 2}")) for n in range(9)]
        pages = [page.url async for page in crawl]
        assert [(await task).status for task in asking] == [200] * 9
    assert pages == [f"{A}/0"]
    assert_polite(fetcher)


async def test_before_the_first_page_and_after_the_last(clock: JumpClock) -> None:
    fetcher = site(clock, pages=3)
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()
        assert isinstance(session, PoliteSession)
        assert (await session.get(f"{A}/doc0")).text == "document 0"
        assert len([page async for page in crawl]) == 3
        assert (await session.get(f"{A}/doc1")).text == "document 1"
        assert (await crawl.summary()).visited == 3, "its responses are not pages"
    with pytest.raises(SessionClosed, match="not open"):
        await session.get(f"{A}/doc1")
    assert_polite(fetcher)


async def test_after_the_last_page_a_request_does_not_continue_the_crawl(clock: JumpClock) -> None:
    fetcher = site(clock, pages=12)
    async with crawler(clock, fetcher, max_pages=2) as crawl:
        assert len([page async for page in crawl]) == 2
        for n in range(3):
            assert (await crawl.session().get(f"{A}/doc{n}")).status == 200
        assert [page async for page in crawl] == []
        summary = await crawl.summary()
        assert (summary.visited, summary.queued > 0) == (2, True)
    paths = [path for path in fetcher.log.paths("a.test") if path[1:].isdigit()]
    assert paths == ["/0", "/1"]
    assert_polite(fetcher)


async def test_seeds_added_while_only_a_session_is_served_are_crawled(clock: JumpClock) -> None:
    fetcher = site(clock, pages=3)
    async with crawler(clock, fetcher) as crawl:
        assert len([page async for page in crawl]) == 3
        asking = asyncio.create_task(crawl.session().get(f"{A}/doc0"))
        await clock.sleep_until(clock.monotonic() + 0.1)
        await crawl.add(f"{A}/doc1")
        assert [page.url async for page in crawl] == [f"{A}/doc1"]
        assert (await asking).status == 200
    assert_polite(fetcher)


async def test_robots_and_redirects_apply_and_scope_does_not(clock: JumpClock) -> None:
    fetcher = site(clock)
    async with crawler(clock, fetcher, max_pages=1) as crawl, crawl.session() as session:
        with pytest.raises(RobotsDisallowed) as caught:
            await session.get(f"{B}/no")
        assert caught.value.verdict.line == 2
        response = await session.get(f"{A}/old")
        assert (response.url, response.text) == (f"{B}/new", "new")
        assert not await session.may_fetch(f"{A}/no/x")
        assert await session.may_fetch(f"{A}/yes")
        assert (await session.robots(B)).status == 200
        assert (await session.next_turn(f"{B}/doc1")).in_s > 0
        assert [page.url async for page in crawl] == [f"{A}/0"]
    assert_polite(fetcher)


async def test_a_host_that_cannot_be_reached_fails_for_callers_alone(clock: JumpClock) -> None:
    fetcher = FakeFetcher(
        clock,
        lambda request: (
            FailureCode.DNS
            if "b.test" in request.url
            else text("")
            if request.url.endswith("robots.txt")
            else html("page")
        ),
    )
    async with crawler(clock, fetcher) as crawl:
        with pytest.raises(FetchFailed):
            await crawl.session().get(f"{B}/doc0")
        assert [page.url async for page in crawl] == [f"{A}/0"]


@pytest.mark.parametrize("steps", range(0, 60, 4))
async def test_leaving_the_crawl_ends_all_who_wait(clock: JumpClock, steps: int) -> None:
    fetcher = site(clock)
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()
        asking = [asyncio.create_task(session.get(f"{h}/doc{n}")) for h in (A, B) for n in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
    done = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(one).__name__ for one in done} <= {"Response", "SessionClosed"}
    assert_polite(fetcher)


@pytest.mark.parametrize("at_s", [0.0, 0.03, 0.6, 1.1, 1.15, 2.2, 3.3])
async def test_a_cancelled_caller_leaves_no_trace(at_s: float) -> None:
    for steps in range(0, 12, 2):
        async with JumpClock() as clock:
            fetcher = site(clock, pages=3)
            async with crawler(clock, fetcher) as crawl:
                task = asyncio.create_task(crawl.session().get(f"{A}/doc0"))
                reading = asyncio.create_task(_read(crawl))
                await clock.sleep_until(clock.monotonic() + at_s)
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert await reading == 3
                frontier = crawl._running.get()._scheduler.frontier
                assert frontier.callers == 0
                assert not frontier.permits.in_flight
            assert_polite(fetcher)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _read(crawl: Crawler) -> int:
    return len([page async for page in crawl])


async def test_clocks_survive_in_the_database(clock: JumpClock, tmp_path: Path) -> None:
    db = tmp_path / "crawl.db"
    fetcher = site(clock, pages=2)
    async with crawler(clock, fetcher, db=db) as crawl:
        await crawl.session().get(f"{B}/doc0")
    async with PoliteSession(
        config=PACE, user_agent=UA, db=db, clock=clock, fetcher=fetcher
    ) as session:
        await session.get(f"{B}/doc1")
    assert_polite(fetcher)


async def test_permits_take_turns_with_the_crawl_and_teach_it(clock: JumpClock) -> None:
    fetcher = site(clock)
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()
        lent: list[tuple[float, float]] = []
        async for page in crawl:
            async with session.permit(f"{A}/lent") as permit:
                began_s = clock.monotonic()
                await clock.sleep_until(began_s + 3)
                lent.append((began_s, clock.monotonic()))
                if page.url == f"{A}/3":
                    permit.record(429, {"Retry-After": "500"})
                    resumed_s = clock.monotonic() + 500
            with pytest.raises(RobotsDisallowed):
                async with session.permit(f"{A}/no"):
                    pass
    assert len(lent) == 8
    assert_polite(fetcher)
    for began_s, ended_s in lent:
        for entry in fetcher.log.requests("a.test"):
            assert entry.end_s + 1 <= began_s + 1e-6 or ended_s + 1 <= entry.start_s + 1e-6
    (backoff,) = (gap for gap in fetcher.log.gaps("a.test") if gap > 400)
    assert any(entry.start_s >= resumed_s for entry in fetcher.log)
    assert backoff >= 500


async def test_max_wait_s_limits_a_wait_for_the_host_of_a_crawl(clock: JumpClock) -> None:
    fetcher = site(clock)
    config = {"politeness": {**PACE["politeness"], "delay": 30}}
    async with crawler(clock, fetcher, config=config) as crawl:
        session = crawl.session()
        async for _ in crawl:
            began_s = clock.monotonic()
            with pytest.raises(WaitTooLong, match="politeness delay"):
                await session.get(f"{A}/doc0", max_wait_s=5)
            assert clock.monotonic() == began_s
            assert (await session.get(f"{A}/doc0", max_wait_s=100)).ok


async def test_a_backoff_of_the_crawl_ends_the_waits_that_are_too_long(clock: JumpClock) -> None:
    fetcher = FakeFetcher(
        clock,
        {f"{A}/0": Reply(status=503, headers={"Retry-After": "600"}, delay_s=4)},
    )
    async with crawler(clock, fetcher) as crawl:
        session = crawl.session()

        async def ask(max_wait_s: float) -> None:
            await session.get(f"{A}/doc0", max_wait_s=max_wait_s)

        reading = asyncio.create_task(anext(crawl))
        await clock.sleep_until(clock.monotonic() + 2)  # the crawl's request is in flight
        began_s = clock.monotonic()
        short, long = (asyncio.create_task(ask(max_wait_s)) for max_wait_s in (60, 700))
        with pytest.raises(WaitTooLong, match="503"):
            await short
        assert clock.monotonic() - began_s < 10
        await long
        assert clock.monotonic() - began_s > 600
        reading.cancel()
        await asyncio.wait([reading])


@pytest.mark.parametrize("seed", range(30))
async def test_law_1_holds_for_a_crawl_with_any_callers(seed: int) -> None:
    """Requests, streams, permits and inspections at hosts of the crawl and others, some cancelled,
    some given up, some left in the middle; and the crawl ends with all its pages."""
    choose = random.Random(seed)
    async with JumpClock() as clock:
        fetcher = site(clock, pages=10)
        config = {**PACE, "crawl": {"concurrency": choose.choice((1, 2, 32))}}
        async with crawler(clock, fetcher, config=config) as crawl:
            session = crawl.session()

            async def one(n: int) -> None:
                await clock.sleep_until(clock.monotonic() + choose.random() * 12)
                url = f"{choose.choice((A, B))}/{choose.choice(('doc', 'no', 'old'))}{n % 8}"
                limit_s = choose.choice((None, None, 0, 3))
                match choose.randrange(5):
                    case 0:
                        await session.get(url, max_wait_s=limit_s)
                    case 1:
                        async with session.stream(url, max_wait_s=limit_s) as response:
                            async for _ in response.chunks():
                                if choose.random() < 0.5:
                                    break
                    case 2:
                        async with session.permit(url, max_wait_s=limit_s) as permit:
                            began_s = clock.monotonic()
                            entry = LoggedRequest(
                                host=host_of(url), path="/lent", headers={}, start_s=began_s
                            )
                            fetcher.log.append(entry)
                            try:
                                await clock.sleep_until(began_s + choose.random() * 3)
                            finally:
                                entry.end_s = clock.monotonic()
                            permit.record(choose.choice((200, 404, 503)), {"Retry-After": "4"})
                    case 3:
                        await session.may_fetch(url)
                    case _:
                        await session.next_turn(url)

            tasks = [asyncio.create_task(one(n)) for n in range(24)]
            for task in tasks[::5]:
                at_s = clock.monotonic() + choose.random() * 15
                clock.call_at(at_s, partial(_cancel, task))
            pages = [page.url async for page in crawl]
            done = await asyncio.gather(*tasks, return_exceptions=True)
            frontier = crawl._running.get()._scheduler.frontier
            assert frontier.callers == 0
            assert not frontier.permits.in_flight
            assert all(host.callers == 0 for host in frontier.permits)
        assert sorted(pages) == [f"{A}/{n}" for n in range(10)]
        kinds = {type(error) for error in done if error is not None}
        assert kinds <= {RobotsDisallowed, WaitTooLong, asyncio.CancelledError}
        assert_polite(fetcher)

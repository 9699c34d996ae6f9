"""Crawls, sessions and middlewares of one process never contact a host together, and each waits for
the delay after a contact of another."""

from __future__ import annotations

import asyncio
import threading

import aiohttp
import pytest

from crawler import Crawler, Politeness, PoliteSession, WaitTooLong
from crawler.testing import (
    FakeFetcher,
    JumpClock,
    LocalWeb,
    Reply,
    html,
    not_found,
    text,
)

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
SLOW = {"politeness": {"delay": 2, "latency_factor": 0}}


def web_of(clock: JumpClock, **pages: Reply) -> FakeFetcher:
    """One log for all who fetch with it."""
    answers = {f"{A}/{name}": page for name, page in pages.items()}
    return FakeFetcher(clock, {f"{A}/robots.txt": not_found(), **answers}, latency_s=0.5)


def session_of(clock: JumpClock, web: FakeFetcher, **options: object) -> PoliteSession:
    options.setdefault("config", SLOW)
    return PoliteSession(user_agent=UA, clock=clock, fetcher=web, **options)  # type: ignore[arg-type]


async def test_two_sessions_take_turns(clock: JumpClock) -> None:
    web = web_of(clock, **{name: html(name) for name in "abcdef"})
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        await asyncio.gather(
            *(one.get(f"{A}/{name}") for name in "abc"), *(two.get(f"{A}/{name}") for name in "def")
        )
    assert len(web.log.gaps()) == 7  # each reads robots.txt
    assert min(web.log.gaps()) >= 2.0
    assert web.log.peak_concurrency() == 1
    assert max(web.log.gaps()) <= 4.0  # nobody waits for nothing
    order = "".join(path[1:] for path in web.log.paths() if len(path) == 2)
    assert order in {"adbecf", "daebfc"}


async def test_the_longer_delay_of_the_other_counts(clock: JumpClock) -> None:
    web = web_of(clock, a=html("a"))
    slow = session_of(clock, web, delay=30.0)
    async with slow, session_of(clock, web, delay=0.0) as quick:
        await slow.get(f"{A}/a")
        await quick.get(f"{A}/a")
    assert [round(gap, 3) for gap in web.log.gaps()] == [30.0, 30.0, 0.0]


async def test_a_backoff_of_another_session_counts(clock: JumpClock) -> None:
    web = web_of(clock, busy=Reply(status=429, headers={"Retry-After": "600"}), a=html("a"))
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        await one.get(f"{A}/busy", retry=False)
        turn = await two.next_turn(f"{A}/a")
        assert turn.in_s == pytest.approx(600.0, abs=1)
        assert turn.reason == "another crawl or session of this process contacts it"
        await two.get(f"{A}/a")
    assert web.log.gaps()[1] == pytest.approx(600.0, abs=1)


async def test_a_limit_on_the_wait_knows_the_contacts_of_others(clock: JumpClock) -> None:
    web = web_of(clock, busy=Reply(status=429, headers={"Retry-After": "600"}), a=html("a"))
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        assert await two.may_fetch(f"{A}/a")
        await one.get(f"{A}/busy", retry=False)
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong, match="another crawl or session of this process") as caught:
            await two.get(f"{A}/a", max_wait_s=60)
        assert clock.monotonic() - began_s < 1.0
        assert caught.value.until == pytest.approx(clock.wall() + 600.0, abs=1)


async def test_a_session_that_is_closed_is_remembered(clock: JumpClock) -> None:
    web = web_of(clock, a=html("a"))
    for _ in range(3):
        async with session_of(clock, web) as session:
            await session.get(f"{A}/a")
    assert min(web.log.gaps()) >= 2.0


async def test_other_hosts_do_not_wait(clock: JumpClock) -> None:
    web = web_of(clock)
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        began_s = clock.monotonic()
        await asyncio.gather(one.may_fetch(f"{A}/"), two.may_fetch("http://b.test/"))
        assert clock.monotonic() - began_s < 1.0


async def test_a_page_function_fetches_from_the_host_of_its_crawl(clock: JumpClock) -> None:
    """Through a session of its own, which neither deadlocks nor comes too early."""
    web = web_of(
        clock,
        home=html("home", *(f"/{n}" for n in range(5))),
        **{str(n): html(str(n)) for n in range(5)},
    )
    async with (
        session_of(clock, web) as session,
        Crawler([f"{A}/home"], config=SLOW, user_agent=UA, clock=clock, fetcher=web) as crawl,
    ):

        async def also(page: object) -> None:
            assert (await session.get(f"{A}/home")).ok

        crawl.add_sink(also)
        pages = [page.url async for page in crawl]
    assert len(pages) == 6
    assert web.log.paths().count("/home") == 7
    assert min(web.log.gaps()) >= 2.0
    assert web.log.peak_concurrency() == 1


async def test_a_crawl_does_not_starve_a_session(clock: JumpClock) -> None:
    web = web_of(
        clock,
        home=html("home", *(f"/{n}" for n in range(40))),
        **{str(n): html(str(n)) for n in range(40)},
    )
    async with (
        session_of(clock, web) as session,
        Crawler([f"{A}/home"], config=SLOW, user_agent=UA, clock=clock, fetcher=web) as crawl,
    ):

        async def read() -> None:
            async for _ in crawl:
                pass

        reading = asyncio.create_task(read())
        await clock.sleep_until(clock.monotonic() + 20.0)
        for _ in range(5):
            began_s = clock.monotonic()
            await session.get(f"{A}/1")
            assert clock.monotonic() - began_s < 15.0  # robots.txt and a page, with one in between
        assert not reading.done()
        await reading
    assert min(web.log.gaps()) >= 2.0


async def test_a_cancelled_caller_holds_up_nobody(clock: JumpClock) -> None:
    web = web_of(clock, a=html("a"))
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        await one.get(f"{A}/a")
        task = asyncio.create_task(two.get(f"{A}/a"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        began_s = clock.monotonic()
        await one.get(f"{A}/a")
        assert clock.monotonic() - began_s <= 2.0 + 2.0 + 1.0


async def test_a_cancelled_request_leaves_the_usual_delay(clock: JumpClock) -> None:
    web = web_of(clock, a=html("a"))
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        assert await one.may_fetch(f"{A}/a")
        assert await two.may_fetch(f"{A}/a")
        task = asyncio.create_task(one.get(f"{A}/a"))
        while "/a" not in web.log.paths():
            await clock.sleep_until(clock.monotonic() + 0.1)
        task.cancel()
        await asyncio.wait([task])
        await two.get(f"{A}/a")
    assert min(web.log.gaps()) >= 2.0


async def test_a_permit_that_is_lent_keeps_others_away(clock: JumpClock) -> None:
    web = web_of(clock, a=html("a"))
    async with session_of(clock, web) as one, session_of(clock, web) as two:
        assert await two.may_fetch(f"{A}/a")
        async with one.permit(f"{A}/a"):
            waits = asyncio.create_task(two.get(f"{A}/a"))
            await clock.sleep_until(clock.monotonic() + 100)
            assert not waits.done()
            ended_s = clock.monotonic()
        await waits
    assert web.log.requests()[-1].start_s >= ended_s + 2.0


async def test_a_session_and_a_middleware() -> None:
    """Over a real network, in real time."""
    async with LocalWeb({"a.test": {"/robots.txt": not_found(), "/a": html("a")}}) as web:
        config = web.config(politeness={"delay": 0.2, "latency_factor": 0})
        url = web.url("a.test", "/a")
        async with (
            PoliteSession(config=config) as session,
            Politeness(config=config) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as client,
        ):

            async def by_aiohttp() -> None:
                async with client.get(url) as response:
                    assert response.status == 200

            await asyncio.gather(session.get(url), by_aiohttp(), session.get(url), by_aiohttp())
        assert len(web.log.gaps("a.test")) == 5
        assert min(web.log.gaps("a.test")) >= 0.19


async def test_sessions_of_two_threads() -> None:
    """Each in its own event loop, in real time."""
    async with LocalWeb({"a.test": {"/robots.txt": text(""), "/a": html("a")}}) as web:
        config = web.config(politeness={"delay": 0.1, "latency_factor": 0})
        url = web.url("a.test", "/a")
        failed: list[BaseException] = []

        async def fetch() -> None:
            async with PoliteSession(config=config) as session:
                for _ in range(5):
                    assert (await session.get(url)).ok

        def run() -> None:
            try:
                asyncio.run(fetch())
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join, 20)
        assert not failed
        assert len(web.log.gaps("a.test")) == 11
        assert min(web.log.gaps("a.test")) >= 0.095

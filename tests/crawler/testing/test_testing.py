"""The jumping clock, the fake fetcher, the local web and its log."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from typing import Any

import aiohttp
import pytest

from crawler.fetching.request import Answer, Failure, FetchLimits, Request
from crawler.testing import (
    FakeFetcher,
    JumpClock,
    LocalWeb,
    ReceivedRequest,
    Reply,
    Site,
    hang_up,
    html,
    redirect,
    text,
)
from policies.retries import FailureCode
from storage import thread_work
from storage.engine.connection_thread import ConnectionThread
from tests.crawler.fetching.readers import Reads


async def test_an_hour_of_waiting_takes_milliseconds() -> None:
    began_s = time.monotonic()
    async with JumpClock() as clock:
        start_s, wall_s = clock.monotonic(), clock.wall()
        await clock.sleep_until(start_s + 3600)
        assert clock.monotonic() == start_s + 3600
        assert clock.wall() == wall_s + 3600
        assert clock.elapsed_s == 3600
    assert time.monotonic() - began_s < 360  # ten times as fast at the very least


async def test_no_jump_while_a_thread_works_for_the_loop() -> None:
    async with JumpClock() as clock:
        start_s = clock.monotonic()
        hour = asyncio.create_task(clock.sleep_until(start_s + 3600))
        for _ in range(3):
            await asyncio.to_thread(time.sleep, 0.02)
        assert clock.monotonic() == start_s
        await hour
        assert clock.monotonic() == start_s + 3600


async def test_timers_fire_in_order_of_time_then_of_setting() -> None:
    fired: list[tuple[str, float]] = []

    def set_timer(name: str, after_s: float) -> None:
        clock.call_at(now + after_s, lambda: fired.append((name, clock.monotonic() - now)))

    async with JumpClock() as clock:
        now = clock.monotonic()
        for name, after_s in (("c", 3), ("a", 1), ("b", 1), ("past", -5)):
            set_timer(name, after_s)
        await clock.sleep_until(now + 4)
    assert fired == [("past", 0), ("a", 1), ("b", 1), ("c", 3)]


async def test_a_cancelled_timer_neither_fires_nor_moves_time() -> None:
    fired: list[int] = []
    async with JumpClock() as clock:
        now = clock.monotonic()
        clock.call_at(now + 1, lambda: fired.append(1))
        late = clock.call_at(now + 100, lambda: fired.append(100))
        late.cancel()
        await clock.sleep_until(now + 2)
        for _ in range(50):
            await asyncio.sleep(0)
        assert clock.elapsed_s == 2
    assert fired == [1]


async def test_time_stops_while_callbacks_are_ready() -> None:
    async with JumpClock() as clock:
        sleeper = asyncio.create_task(clock.sleep_until(clock.monotonic() + 60))
        for _ in range(100):
            await asyncio.sleep(0)
            waker = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(waker.set_result, None)
            await waker
            assert clock.elapsed_s == 0
        await sleeper
        assert clock.elapsed_s == 60


async def test_many_sleepers_keep_their_own_pace() -> None:
    async def tick(period_s: float, times: int) -> list[float]:
        seen = []
        for _ in range(times):
            await clock.sleep_until(clock.monotonic() + period_s)
            seen.append(clock.elapsed_s)
        return seen

    async with JumpClock() as clock:
        fast, slow = await asyncio.gather(tick(1, 6), tick(2.5, 2))
    assert fast == [1, 2, 3, 4, 5, 6]
    assert slow == [2.5, 5]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_no_jump_while_the_thread_of_a_database_works(cancelled: bool) -> None:
    ended, opened = threading.Event(), sqlite3.connect(":memory:", check_same_thread=False)

    def work(_: sqlite3.Connection) -> None:
        time.sleep(0.05)
        ended.set()

    async with JumpClock() as clock:
        thread = await ConnectionThread.open(lambda: opened)
        call = asyncio.create_task(thread.run(work))
        await asyncio.sleep(0)
        if cancelled:
            call.cancel()
        await clock.sleep_until(clock.monotonic() + 10)
        assert ended.is_set()
        await thread.close()
    assert thread_work.in_progress(asyncio.get_running_loop()) == []


async def test_the_grace_period_waits_for_other_threads() -> None:
    async with JumpClock(grace_s=0.05) as clock:
        timer = asyncio.create_task(clock.sleep_until(clock.monotonic() + 10))
        await asyncio.to_thread(time.sleep, 0.001)
        assert clock.elapsed_s == 0
        await timer


async def test_hosts_are_distinguished_and_logged() -> None:
    sites: dict[str, Site] = {
        "a.test": {"/": html("A", "/one?x=1"), "/one": text("one"), "/r": redirect("/")},
        "b.test": lambda asked: Reply(body=f"{asked.host}{asked.path}"),
    }
    async with LocalWeb(sites) as web, aiohttp.ClientSession() as session:

        async def get(host: str, path: str) -> tuple[int, str]:
            async with session.get(
                f"http://127.0.0.1:{web.port}{path}",
                headers={"Host": f"{host}:{web.port}"},
                allow_redirects=False,
            ) as response:
                return response.status, await response.text()

        status, body = await get("a.test", "/")
        assert status == 200
        assert '<a href="/one?x=1">' in body
        assert await get("A.test", "/one?x=1") == (200, "one")
        assert (await get("a.test", "/r"))[0] == 302
        assert (await get("a.test", "/nowhere"))[0] == 404
        assert (await get("unknown.test", "/"))[0] == 404
        assert await get("b.test", "/q?y=2") == (200, "b.test/q?y=2")

        assert web.log.paths("a.test") == ["/", "/one?x=1", "/r", "/nowhere"]
        assert [entry.status for entry in web.log.requests("a.test")] == [200, 200, 302, 404]
        assert web.connections == 1
        assert web.log.peak_concurrency() == 1
        assert len(web.log.requests()) == 6
        assert all(gap > 0 for gap in web.log.gaps("a.test"))


async def test_the_log_shows_concurrent_requests() -> None:
    both = asyncio.Barrier(2)

    async def together(asked: ReceivedRequest) -> Reply:
        await both.wait()
        return text(asked.path)

    async with LocalWeb({"127.0.0.1": together}) as web, aiohttp.ClientSession() as session:

        async def get(path: str) -> str:
            async with session.get(f"http://127.0.0.1:{web.port}{path}") as response:
                return await response.text()

        assert sorted(await asyncio.gather(get("/1"), get("/2"))) == ["/1", "/2"]
        assert web.log.peak_concurrency("127.0.0.1") == 2
        assert web.log.gaps("127.0.0.1")[0] < 0


async def test_broken_and_silent_answers() -> None:
    sites = {"127.0.0.1": {"/cut": Reply(body="x" * 1000, broken=True), "/none": hang_up()}}
    async with LocalWeb(sites) as web, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientPayloadError):
            async with session.get(f"http://127.0.0.1:{web.port}/cut") as response:
                await response.read()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.post(f"http://127.0.0.1:{web.port}/none")
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://127.0.0.1:{web.dead_port}/")
        assert web.log.requests()[-1].status is None
        assert web.log.requests()[-1].end_s < float("inf")


async def test_a_request_ends_when_the_client_disconnects() -> None:
    reached, gone = asyncio.Event(), asyncio.Event()

    async def stuck(_: ReceivedRequest) -> Reply:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return Reply()

    async with LocalWeb({"127.0.0.1": {"/": stuck}}) as web, aiohttp.ClientSession() as session:
        asking = asyncio.ensure_future(session.get(web.url("127.0.0.1")))
        await reached.wait()
        left_s = time.monotonic()
        asking.cancel()
        await gone.wait()
        (entry,) = web.log.requests()
        assert entry.status is None
        assert entry.start_s <= left_s <= entry.end_s


async def test_an_exception_in_a_page_is_raised_at_the_end() -> None:
    def bad(_: ReceivedRequest) -> Reply:
        raise ZeroDivisionError

    async def ask_for_it() -> None:
        async with (
            LocalWeb({"127.0.0.1": {"/": bad}}) as web,
            aiohttp.ClientSession() as session,
            session.get(web.url("127.0.0.1")) as response,
        ):
            assert response.status == 500

    with pytest.raises(ExceptionGroup) as raised:
        await ask_for_it()
    assert raised.group_contains(ZeroDivisionError)


def test_the_config_resolves_test_names_to_loopback() -> None:
    config = LocalWeb().config(
        politeness={"delay": 0.1}, network={"resolve": {"a.test": "127.0.0.2"}}
    )
    assert config == {
        "network": {"resolve": {"a.test": "127.0.0.2"}, "allow": ["127.0.0.0/8"]},
        "politeness": {"delay": 0.1},
    }


async def test_the_fake_fetcher_answers_on_the_clock() -> None:
    answers: dict[str, Reply | FailureCode] = {
        "http://a.test/": html("Home"),
        "http://a.test/slow?x=1": Reply(body="slow", delay_s=5),
        "http://a.test/late": Reply(body="late", delay_s=60),
        "http://b.test/": FailureCode.CONNECT,
    }
    async with JumpClock() as clock:
        fetcher = FakeFetcher(clock, answers, latency_s=0.5)
        results = [
            await fetcher.fetch(Request(url=url)) for url in [*answers, "http://a.test/nowhere"]
        ]
        home, slow, late, refused, missing = results
        assert isinstance(home, Answer)
        assert home.headers["content-type"].startswith("text/html")
        assert b"<h1>Home</h1>" in home.body
        assert isinstance(slow, Answer)
        assert (slow.body, slow.elapsed_s) == (b"slow", 5.5)
        assert isinstance(late, Failure)
        assert (late.code, late.elapsed_s, late.connected) == (FailureCode.TIMEOUT, 30, True)
        assert isinstance(refused, Failure)
        assert not refused.connected
        assert missing.status == 404
        assert fetcher.log.paths("a.test") == ["/", "/slow?x=1", "/late", "/nowhere"]
        assert fetcher.log.gaps() == [0, 0, 0, 0]
        assert clock.elapsed_s == 0.5 + 5.5 + 30 + 0.5 + 0.5


async def test_the_fake_fetcher_observes_the_limits_of_the_request() -> None:
    def answers(request: Request) -> Reply:
        return Reply(body=b"x" * 100, content_type=request.headers["Accept"])

    limits = FetchLimits(body_bytes_max=10)
    async with JumpClock() as clock:
        fetcher = FakeFetcher(clock, answers)

        async def ask(**more: Any) -> Answer | Failure:
            headers = {"Accept": "text/plain"}
            return await fetcher.fetch(Request(url="http://a.test/", headers=headers, **more))

        too_large = await ask(limits=limits)
        assert isinstance(too_large, Failure)
        assert too_large.code is FailureCode.TOO_LARGE
        cut = await ask(limits=limits, cut_ok=True)
        assert isinstance(cut, Answer)
        assert (cut.body, cut.cut) == (b"x" * 10, True)
        unread = await ask(
            reader=Reads(wants=lambda head: head.headers["Content-Type"] != "text/plain")
        )
        assert isinstance(unread, Answer)
        assert (unread.body, unread.body_read) == (b"", False)

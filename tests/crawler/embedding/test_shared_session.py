"""PoliteSession(share=other): the same clocks, robots.txt copies and gate; the other decides how
long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawler import ConfigError, Crawler, PoliteSession, SessionClosed, WrongEventLoop
from crawler.testing import FakeFetcher, JumpClock, html, not_found

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
SLOW = {"politeness": {"delay": 2, "latency_factor": 0}}


@pytest.fixture
def web(clock: JumpClock) -> FakeFetcher:
    answers = {f"{A}/robots.txt": not_found(), f"{A}/a": html("a"), f"{A}/b": html("b")}
    return FakeFetcher(clock, answers, latency_s=0.1)


def session_of(clock: JumpClock, web: FakeFetcher) -> PoliteSession:
    return PoliteSession(user_agent=UA, clock=clock, fetcher=web, config=SLOW)


async def test_it_fetches_on_the_clocks_and_robots_copies_of_the_other(
    clock: JumpClock, web: FakeFetcher
) -> None:
    async with session_of(clock, web) as one, PoliteSession(share=one) as two:
        assert two.config is one.config
        await asyncio.gather(one.get(f"{A}/a"), two.get(f"{A}/b"), one.get(f"{A}/b"))
        assert await two.may_fetch(f"{A}/a")
        assert (await two.robots(A)).status == 404
        assert 1.9 < (await two.next_turn(f"{A}/a")).in_s <= 2.0
    assert web.log.paths() == ["/robots.txt", "/a", "/b", "/b"]
    assert web.log.gaps() == [pytest.approx(2.0)] * 3


async def test_its_headers_are_those_of_the_call(clock: JumpClock, web: FakeFetcher) -> None:
    async with session_of(clock, web) as one, PoliteSession(share=one) as two:
        await two.get(f"{A}/a", headers={"X-Two": "2"})
        await one.get(f"{A}/a")
    assert [entry.headers.get("x-two") for entry in web.log.requests()] == [None, "2", None]


async def test_its_end_does_not_end_the_other(clock: JumpClock, web: FakeFetcher) -> None:
    async with session_of(clock, web) as one:
        async with PoliteSession(share=one) as two:
            await two.get(f"{A}/a")
        with pytest.raises(SessionClosed, match="the session is not open"):
            await two.get(f"{A}/a")
        assert (await one.get(f"{A}/b")).ok
        three = await PoliteSession(share=one).open()
        assert (await three.get(f"{A}/b")).ok
        await three.aclose()


async def test_the_end_of_the_other_ends_it(clock: JumpClock, web: FakeFetcher) -> None:
    one = session_of(clock, web)
    two = PoliteSession(share=one)
    with pytest.raises(SessionClosed, match="given as `share` is not open"):
        await two.open()
    await one.open()
    async with two:
        await one.aclose()
        with pytest.raises(SessionClosed, match="given as `share` is not open"):
            await two.get(f"{A}/a")
    await two.aclose()


async def test_a_waiting_call_ends_with_the_other(clock: JumpClock, web: FakeFetcher) -> None:
    one = await session_of(clock, web).open()
    async with PoliteSession(share=one) as two:
        await two.get(f"{A}/a")
        waits = asyncio.create_task(two.get(f"{A}/b"))
        await asyncio.sleep(0)
        await one.aclose()
        with pytest.raises(SessionClosed):
            await waits


async def test_the_other_must_be_in_the_same_event_loop() -> None:
    async def share(one: PoliteSession) -> None:
        await PoliteSession(share=one).open()

    async with PoliteSession() as one:
        with pytest.raises(WrongEventLoop, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(share(one)))


async def test_sharing_what_is_shared_and_the_session_of_a_crawl(
    clock: JumpClock, web: FakeFetcher
) -> None:
    async with (
        session_of(clock, web) as one,
        PoliteSession(share=one) as two,
        PoliteSession(share=two) as three,
    ):
        await asyncio.gather(one.get(f"{A}/a"), three.get(f"{A}/b"))
        assert web.log.gaps() == [pytest.approx(2.0)] * 2
    async with (
        Crawler([f"{A}/a"], config=SLOW, user_agent=UA, clock=clock, fetcher=web) as crawl,
        PoliteSession(share=crawl.session()) as four,
    ):
        assert (await four.get(f"{A}/b")).ok


@pytest.mark.parametrize(
    "argument",
    [
        {"user_agent": UA},
        {"config": {}},
        {"db": "a.db"},
        {"delay": 0},
        {"allow": "127.0.0.1"},
        {"dialect": "google"},
        {"clock": JumpClock.__new__(JumpClock)},
    ],
    ids=lambda one: next(iter(one)),
)
def test_other_arguments_are_refused(argument: dict[str, Any]) -> None:
    name = next(iter(argument))
    with pytest.raises(ConfigError, match=f"^{name}: cannot be given with share"):
        PoliteSession(share=PoliteSession(), **argument)


def test_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="share: expected a PoliteSession, not str"):
        PoliteSession(share="crawl.db")  # type: ignore[arg-type]

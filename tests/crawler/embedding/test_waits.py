"""max_wait_s bounds all waits of a call, long waits are logged, and retries are visible."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from crawler.embedding.redirects import RETRY_WAIT_S_MAX
from crawler.embedding.session import PoliteSession
from crawler.errors import (
    FetchFailed,
    InvalidRequest,
    RobotsDisallowed,
    RobotsUnreachable,
    WaitTooLong,
)
from crawler.testing import FakeFetcher, JumpClock, LocalWeb, Reply, html, redirect, text
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
B = "http://b.test"


@pytest.fixture
async def clock() -> AsyncIterator[JumpClock]:
    async with JumpClock() as clock:
        yield clock


def opened(clock: JumpClock, answers: Any, **sections: Mapping[str, object]) -> Any:
    config = {"politeness": {"delay": 1, "latency_factor": 0}, **sections}
    fetcher = FakeFetcher(clock, answers, latency_s=0.1)
    session = PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher)
    vars(session)["fetcher"] = fetcher
    return session


def delayed(delay_s: int) -> Reply:
    return text(f"User-agent: *\nCrawl-delay: {delay_s}\nDisallow: /p\n")


def refusing(retry_after: int | None, status: int = 429) -> Reply:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(status=status, headers=headers)


def assert_at_rest(session: Any) -> None:
    client = session._client.get()
    assert client.frontier.permits.in_flight == 0
    assert client.frontier.permits.directed == 0
    assert not client.waits._limited
    assert not client.waits._pauses
    for line in client._lines:
        assert not line.places
        assert line.users == line.host.busy == 0


async def through_get(session: PoliteSession, url: str, max_wait_s: float | None) -> None:
    await session.get(url, max_wait_s=max_wait_s)


async def through_head(session: PoliteSession, url: str, max_wait_s: float | None) -> None:
    await session.head(url, max_wait_s=max_wait_s)


async def through_post(session: PoliteSession, url: str, max_wait_s: float | None) -> None:
    await session.post(url, max_wait_s=max_wait_s)


async def through_stream(session: PoliteSession, url: str, max_wait_s: float | None) -> None:
    async with session.stream(url, max_wait_s=max_wait_s) as response:
        async for _ in response.chunks():
            pass


async def through_permit(session: PoliteSession, url: str, max_wait_s: float | None) -> None:
    async with session.permit(url, max_wait_s=max_wait_s) as permit:
        permit.record(200)


Call = Callable[[PoliteSession, str, float | None], Any]
EACH_CALL = pytest.mark.parametrize(
    "call", [through_get, through_head, through_post, through_stream, through_permit]
)


# ---------------------------------------------------------------- known in advance


@EACH_CALL
async def test_a_delay_that_is_too_long_raises_immediately_with_until_and_reason(
    clock: JumpClock, call: Call
) -> None:
    async with opened(clock, {f"{A}/robots.txt": delayed(60)}) as session:
        await session.robots(f"{A}/")
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong) as caught:
            await call(session, f"{A}/a", 59)
        assert clock.monotonic() == began_s
        assert caught.value.url == f"{A}/a"
        assert caught.value.until == pytest.approx(clock.wall() + 60)
        assert "politeness delay of 1 min" in caught.value.reason
        assert isinstance(caught.value, TimeoutError)
        assert_at_rest(session)
        await call(session, f"{A}/a", 61)
        assert clock.monotonic() == pytest.approx(began_s + 60, abs=0.2)
        assert_at_rest(session)


async def test_a_first_call_fetches_robots_txt_and_raises_when_the_delay_is_known(
    clock: JumpClock,
) -> None:
    async with opened(clock, {f"{A}/robots.txt": delayed(60)}) as session:
        for waited_s in (0.1, 0.0):
            began_s = clock.monotonic()
            with pytest.raises(WaitTooLong, match=r"Crawl-delay|robots\.txt"):
                await session.get(f"{A}/a", max_wait_s=5)
            assert clock.monotonic() - began_s == pytest.approx(waited_s)
        assert session.fetcher.log.paths() == ["/robots.txt"]
        with pytest.raises(RobotsDisallowed):
            await session.get(f"{A}/p", max_wait_s=5)
        assert_at_rest(session)


async def test_callers_ahead_in_line_count(clock: JumpClock) -> None:
    async with opened(clock, {f"{A}/robots.txt": delayed(10)}) as session:
        await session.robots(f"{A}/")
        ahead = [asyncio.create_task(session.get(f"{A}/{n}")) for n in range(5)]
        await asyncio.sleep(0)
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong, match="with 5 ahead in line") as caught:
            await session.get(f"{A}/a", max_wait_s=59)
        assert clock.monotonic() == began_s
        assert caught.value.until == pytest.approx(clock.wall() + 60)
        await session.get(f"{A}/a", max_wait_s=62)
        assert clock.monotonic() - began_s == pytest.approx(60.5, abs=0.2)
        assert all(task.done() for task in ahead)
        assert_at_rest(session)


@EACH_CALL
async def test_a_backoff_ends_the_waits_of_those_in_line(clock: JumpClock, call: Call) -> None:
    """They learn of it when it begins: those who can wait stay."""
    answers = {f"{A}/": refusing(3600)}
    async with opened(clock, answers) as session:
        await session.robots(f"{A}/")
        first = asyncio.create_task(session.fetch(f"{A}/", retry=False))
        await asyncio.sleep(0)
        short = [asyncio.create_task(call(session, f"{A}/{n}", 30)) for n in range(3)]
        long = asyncio.create_task(call(session, f"{A}/long", 4000))
        unlimited = asyncio.create_task(call(session, f"{A}/unlimited", None))
        began_s = clock.monotonic()
        assert (await first).status == 429
        done, _ = await asyncio.wait(short)
        assert clock.monotonic() - began_s == pytest.approx(1.1)
        for task in done:
            problem = task.exception()
            assert isinstance(problem, WaitTooLong)
            assert "429" in problem.reason
            assert problem.until is not None
            assert problem.until - clock.wall() >= 3600 - 1e-6
        assert not long.done()
        await asyncio.gather(long, unlimited)
        assert clock.monotonic() - began_s == pytest.approx(3602, abs=1)
        assert_at_rest(session)


async def test_a_visit_window_is_known_in_advance(clock: JumpClock) -> None:
    minute = int(clock.wall() // 60)
    opens = [(minute + add) % 1440 for add in (120, 180)]
    window = "-".join(f"{one // 60:02}:{one % 60:02}" for one in opens)
    async with opened(clock, {}, politeness={"delay": 1, "visit_window": window}) as session:
        with pytest.raises(WaitTooLong, match="outside its visit window") as caught:
            await session.get(f"{A}/a", max_wait_s=3600)
        assert clock.elapsed_s == 0
        assert caught.value.until == pytest.approx(clock.wall() + 7200, abs=61)
        await session.get(f"{A}/a", max_wait_s=7300)


async def test_a_host_that_cannot_be_reached_is_known_in_advance(clock: JumpClock) -> None:
    async with opened(
        clock, {f"{A}/robots.txt": FailureCode.CONNECT}, fetch={"max_attempts": 9}
    ) as session:
        unlimited = asyncio.create_task(session.get(f"{A}/b"))
        await clock.sleep_until(clock.monotonic() + 20)  # tried 3 times; the next 30 s later
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong, match=r"next attempt to connect \(connect") as caught:
            await session.get(f"{A}/a", max_wait_s=5)
        assert clock.monotonic() == began_s
        assert caught.value.until is not None
        assert caught.value.until - clock.wall() > 5
        turn = await session.next_turn(f"{A}/a")
        assert "next attempt to connect" in turn.reason
        assert turn.in_s == pytest.approx(caught.value.until - clock.wall() - 1), "one is ahead"
        unlimited.cancel()
        await asyncio.wait([unlimited])


async def test_unreachable_robots_raise_as_before_and_next_turn_says_until_when(
    clock: JumpClock,
) -> None:
    answers = {f"{A}/robots.txt": text("", status=503)}
    politeness = {"delay": 0.5, "latency_factor": 0}
    async with opened(
        clock, answers, robots={"dialect": "rfc9309"}, politeness=politeness
    ) as session:
        with pytest.raises(RobotsUnreachable) as caught:
            await session.get(f"{A}/a", max_wait_s=1)
        turn = await session.next_turn(f"{A}/a")
        assert caught.value.until is not None
        assert turn.in_s == pytest.approx(caught.value.until - clock.wall())
        assert "503" in turn.reason


# ---------------------------------------------------------------- when the time has passed


async def test_a_paused_host_is_waited_for_until_the_time_has_passed(clock: JumpClock) -> None:
    async with opened(clock, {}) as session:
        await session.robots(f"{A}/")
        client = session._client.get()
        (line,) = client._lines
        line.host.steer(paused=True)
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong, match="paused by an operator") as caught:
            await session.get(f"{A}/a", max_wait_s=7)
        assert clock.monotonic() - began_s == pytest.approx(7)
        assert caught.value.until is None
        line.host.steer(paused=False)
        assert_at_rest(session)


async def test_a_slow_robots_txt_counts_as_a_wait(clock: JumpClock) -> None:
    answers = {f"{A}/robots.txt": Reply(delay_s=20)}
    async with opened(clock, answers) as session:
        with pytest.raises(WaitTooLong, match=r"robots\.txt is being fetched") as caught:
            await session.get(f"{A}/a", max_wait_s=7)
        assert clock.elapsed_s == pytest.approx(7)
        assert caught.value.until == pytest.approx(clock.wall() + 1), "the delay after it"
        assert (await session.get(f"{A}/a", max_wait_s=20)).status == 404
        assert_at_rest(session)


async def test_requests_in_flight_everywhere_are_waited_for(clock: JumpClock) -> None:
    answers = {f"{B}/": Reply(delay_s=20)}
    async with opened(clock, answers, crawl={"concurrency": 1}) as session:
        await session.robots(f"{A}/")
        await clock.sleep_until(clock.monotonic() + 5)
        other = asyncio.create_task(session.get(f"{B}/"))
        await clock.sleep_until(clock.monotonic() + 5)
        with pytest.raises(WaitTooLong, match=r"crawl\.concurrency"):
            await session.get(f"{A}/a", max_wait_s=7)
        await other


async def test_the_request_itself_is_not_limited(clock: JumpClock) -> None:
    async with opened(clock, {f"{A}/": Reply(delay_s=25)}) as session:
        assert (await session.get(f"{A}/", max_wait_s=3)).status == 200
        assert clock.elapsed_s == pytest.approx(26.2)


@pytest.mark.parametrize("max_wait_s", [0.0, 0.04, 0.1, 0.5, 1.0, 1.05, 1.1, 2.1, 2.2, 3.3])
async def test_whenever_the_time_passes_it_leaves_no_trace(max_wait_s: float) -> None:
    async with JumpClock() as clock, opened(clock, {}) as session:
        tasks = [asyncio.create_task(session.get(f"{A}/{n}")) for n in range(2)]
        tasks += [asyncio.create_task(through_get(session, f"{A}/x", max_wait_s))]
        tasks += [asyncio.create_task(through_permit(session, f"{A}/x", max_wait_s))]
        tasks += [asyncio.create_task(session.get(f"{A}/y"))]
        await asyncio.wait(tasks)
        problems = [task.exception() for task in tasks if task.exception() is not None]
        assert all(isinstance(problem, WaitTooLong) for problem in problems)
        assert_at_rest(session)
        assert min(session.fetcher.log.gaps()) >= 1 - 1e-6


async def test_a_cancelled_call_is_cancelled_and_not_too_long(clock: JumpClock) -> None:
    async with opened(clock, {f"{A}/robots.txt": delayed(60)}) as session:
        await session.robots(f"{A}/")
        task = asyncio.create_task(session.get(f"{A}/a", max_wait_s=70))
        await clock.sleep_until(clock.monotonic() + 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0):
                await session.get(f"{A}/a", max_wait_s=70)
        assert not isinstance(caught.value, WaitTooLong)
        assert_at_rest(session)


async def test_zero_is_for_hosts_that_are_ready(clock: JumpClock) -> None:
    async with opened(clock, {}) as session:
        await session.robots(f"{A}/")
        with pytest.raises(WaitTooLong):
            await session.get(f"{A}/a", max_wait_s=0)
        await clock.sleep_until(clock.monotonic() + 1)
        assert (await session.get(f"{A}/a", max_wait_s=0)).status == 404


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "5", True])
async def test_wrong_limits_are_refused(clock: JumpClock, wrong: Any) -> None:
    async with opened(clock, {}) as session:
        for call in (through_get, through_permit):
            with pytest.raises(InvalidRequest) as caught:
                await call(session, f"{A}/", wrong)
            assert caught.value.argument == "max_wait_s"


# ---------------------------------------------------------------- redirects and retries


async def test_it_bounds_the_waits_of_all_redirects_together(clock: JumpClock) -> None:
    answers = {f"{A}/{n}": redirect(f"/{n + 1}") for n in range(5)}
    async with opened(clock, {**answers, f"{A}/robots.txt": delayed(10)}) as session:
        await session.robots(f"{A}/")
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong) as caught:
            await session.get(f"{A}/0", max_wait_s=35)
        assert caught.value.url == f"{A}/3"
        assert clock.monotonic() - began_s == pytest.approx(30.3, abs=0.1)
        response = await session.get(f"{A}/0", max_wait_s=61)
        assert len(response.redirects) == 5


async def test_a_retry_after_raises_at_once_what_the_limit_does_not_allow(
    clock: JumpClock,
) -> None:
    async with opened(clock, {f"{A}/": refusing(3600)}) as session:
        with pytest.raises(WaitTooLong, match="429") as caught:
            await session.get(f"{A}/", max_wait_s=60)
        assert clock.elapsed_s == pytest.approx(1.2)
        assert caught.value.until == pytest.approx(clock.wall() + 3600)
        assert_at_rest(session)


async def test_pauses_before_retries_count(clock: JumpClock) -> None:
    async with opened(clock, {f"{A}/": refusing(None, 500)}) as session:
        with pytest.raises(WaitTooLong, match=r"retry after a failure \(status 500\)") as caught:
            await session.get(f"{A}/", max_wait_s=8)
        assert len(session.fetcher.log) == 3
        assert caught.value.until == pytest.approx(clock.wall() + 10)
        assert clock.elapsed_s < 5
        assert_at_rest(session)


@pytest.mark.parametrize("status", [429, 503, 500])
async def test_without_a_limit_a_very_long_retry_is_not_waited_for(
    clock: JumpClock, status: int
) -> None:
    answers = {f"{A}/": refusing(3600, status), f"{A}/b": html("B")}
    async with opened(clock, answers) as session:
        response = await session.get(f"{A}/")
        assert response.status == status
        assert response.headers["Retry-After"] == "3600"
        assert clock.elapsed_s < RETRY_WAIT_S_MAX
        assert (await session.next_turn(f"{A}/")).in_s == pytest.approx(3600)
        assert (await session.get(f"{A}/b")).status == 200, "the next call waits, as it must"
        assert clock.elapsed_s > 3600


async def test_with_a_limit_the_caller_decides_how_long_a_retry_waits(clock: JumpClock) -> None:
    replies = [refusing(3600), html("A")]
    async with opened(
        clock, lambda request: text("") if "robots" in request.url else replies.pop(0)
    ) as session:
        assert (await session.get(f"{A}/", max_wait_s=4000)).status == 200
        assert clock.elapsed_s > 3600


async def test_without_a_limit_a_host_out_of_reach_for_very_long_is_given_up(
    clock: JumpClock,
) -> None:
    answers = {f"{A}/robots.txt": text(""), f"{A}/a": FailureCode.CONNECT}
    async with opened(clock, answers, fetch={"max_attempts": 20}) as session:
        with pytest.raises(FetchFailed):
            await session.get(f"{A}/a")
        assert clock.elapsed_s < 2 * RETRY_WAIT_S_MAX


async def test_a_pause_before_a_retry_is_seen_in_next_turn(clock: JumpClock) -> None:
    async with opened(clock, {f"{A}/": refusing(None, 500)}) as session:
        tasks = [asyncio.create_task(session.get(f"{A}/")) for _ in range(2)]
        await clock.sleep_until(clock.monotonic() + 8)
        turn = await session.next_turn(f"{A}/")
        assert turn.reason == "retry after a failure"
        assert 2 < turn.in_s < 10
        assert (await session.next_turn(f"{A}/b")).reason == "ready"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert (await session.next_turn(f"{A}/")).reason == "ready"
        assert_at_rest(session)


# ---------------------------------------------------------------- the log


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "courtly.fetch"]


async def test_a_long_wait_is_logged_once_with_until_and_reason(
    clock: JumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "courtly.fetch")
    async with opened(clock, {f"{A}/robots.txt": delayed(60)}) as session:
        await asyncio.gather(*(session.get(f"{A}/{n}") for n in range(3)))
    logged = lines_of(caplog)
    assert len(logged) == 3, logged
    assert logged[0].startswith(f"{A}/0 waits (and 2 more for its host) 1 min, until ")
    assert logged[0].endswith("UTC: politeness delay of 1 min (Crawl-delay in robots.txt)")
    assert logged[2].startswith(f"{A}/2 waits 1 min, until ")


async def test_backoffs_retries_and_pauses_are_logged(
    clock: JumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "courtly.fetch")
    replies = [refusing(None), refusing(None, 500), refusing(None, 500), html("A")]
    async with opened(
        clock, lambda request: text("") if "robots" in request.url else replies.pop(0)
    ) as session:
        await session.get(f"{A}/")
        (line,) = session._client.get()._lines
        line.host.steer(paused=True)
        with pytest.raises(WaitTooLong):
            await session.get(f"{A}/", max_wait_s=100)
    backoff, retry, paused = lines_of(caplog)
    assert "waits 1 min, until" in backoff
    assert "429" in backoff
    assert "waits 10 s, until" in retry
    assert retry.endswith("retry after a failure (status 500)")
    assert paused.endswith("waits for an operator: paused by an operator")


async def test_short_waits_are_not_logged(
    clock: JumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "courtly.fetch")
    async with opened(clock, {}) as session:
        await asyncio.gather(*(session.get(f"{A}/{n}") for n in range(20)))
    assert lines_of(caplog) == []


# ---------------------------------------------------------------- over a real network


async def test_in_real_time_a_limit_ends_the_wait() -> None:
    pages = {"/robots.txt": text(""), "/": refusing(3600)}
    async with LocalWeb({"a.test": pages}) as web:
        config = web.config(politeness={"delay": 0.05, "latency_factor": 0})
        async with PoliteSession(user_agent=UA, config=config) as session:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            with pytest.raises(WaitTooLong):
                await session.get(web.url("a.test"), max_wait_s=5)
            with pytest.raises(WaitTooLong):
                async with session.permit(web.url("a.test"), max_wait_s=0):
                    pass
            assert loop.time() - began_s < 2

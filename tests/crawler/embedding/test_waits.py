"""max_wait_s bounds the wait for a host, and raises as soon as it is known not to suffice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from crawler.embedding.session import PoliteSession
from crawler.errors import (
    InvalidRequest,
    RobotsDisallowed,
    RobotsUnreachable,
    WaitTooLong,
)
from crawler.testing import JumpClock, Reply, text
from policies.retries import FailureCode
from tests.crawler.embedding.wait_rig import A, B, assert_at_rest, delayed, opened, refusing


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
        (host,) = client.frontier.permits
        host.steer(paused=True)
        began_s = clock.monotonic()
        with pytest.raises(WaitTooLong, match="paused by an operator") as caught:
            await session.get(f"{A}/a", max_wait_s=7)
        assert clock.monotonic() - began_s == pytest.approx(7)
        assert caught.value.until is None
        host.steer(paused=False)
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


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
async def test_no_call_waits_longer_than_its_limit_or_gives_up_without_need(
    seed: int, lanes: int
) -> None:
    """Whoever gives up before the time has passed could not have begun in time: of the calls that
    are granted, none that arrived later began within that limit."""
    random = Random(seed)
    politeness = {"delay": 2, "latency_factor": 0, "concurrency_per_host": lanes}
    async with JumpClock() as clock, opened(clock, {}, politeness=politeness) as session:
        await session.robots(f"{A}/")
        granted: list[tuple[float, float]] = []  # when a call arrived, and when it began
        early: list[tuple[float, float]] = []  # when one arrived that gave up early, and its limit

        async def call(arrives_s: float, limit_s: float) -> None:
            await clock.sleep_until(arrives_s)
            try:
                async with session.permit(f"{A}/", max_wait_s=limit_s):
                    began_s = clock.monotonic()
                    assert began_s - arrives_s <= limit_s + 1e-6
                    granted.append((arrives_s, began_s))
                    await clock.sleep_until(began_s + random.choice([0.1, 1, 3]))
            except WaitTooLong as problem:
                until = problem.until
            else:
                return
            waited_s = clock.monotonic() - arrives_s
            assert waited_s <= limit_s + 1e-6
            if waited_s < limit_s - 1e-6:
                assert until is not None
                assert until > clock.wall() + limit_s - waited_s - 1e-6
                early.append((arrives_s, arrives_s + limit_s))

        now_s = clock.monotonic()
        calls = [(now_s + random.uniform(0, 30), random.choice([1, 5, 20, 60])) for _ in range(40)]
        await asyncio.gather(*(call(*one) for one in calls))
        assert early
        assert len(granted) > 10
        for arrived_s, until_s in early:
            assert not any(
                later_s > arrived_s and began_s < until_s for later_s, began_s in granted
            )
        assert_at_rest(session)


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

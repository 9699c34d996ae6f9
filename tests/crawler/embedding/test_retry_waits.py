"""max_wait_s bounds redirects and retries too, which are visible, and long waits are logged."""

from __future__ import annotations

import asyncio
import logging

import pytest

from crawler.embedding.redirects import RETRY_WAIT_S_MAX
from crawler.embedding.session import PoliteSession
from crawler.errors import (
    FetchFailed,
    WaitTooLong,
)
from crawler.testing import JumpClock, LocalWeb, html, redirect, text
from policies.retries import FailureCode
from tests.crawler.embedding.wait_rig import UA, A, assert_at_rest, delayed, opened, refusing

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
        (host,) = session._client.get().frontier.permits
        host.steer(paused=True)
        with pytest.raises(WaitTooLong):
            await session.get(f"{A}/", max_wait_s=100)
    backoff, retry, paused = lines_of(caplog)
    assert "waits 1 min, until" in backoff
    assert "429" in backoff
    assert "waits 10 s, until" in retry
    assert retry.endswith("retry after a failure (status 500)")
    assert paused.endswith("waits for an operator: paused by an operator")


async def test_a_call_that_gives_up_does_not_log_a_wait(
    clock: JumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "courtly.fetch")
    async with opened(clock, {f"{A}/robots.txt": delayed(60)}) as session:
        for _ in range(2):  # while its robots.txt is fetched, and when it is known
            with pytest.raises(WaitTooLong):
                await session.get(f"{A}/", max_wait_s=5)
        assert lines_of(caplog) == []
        await session.get(f"{A}/", max_wait_s=100)
    assert [line.split(",")[0] for line in lines_of(caplog)] == [f"{A}/ waits 1 min"]


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

"""Permits for other clients: they wait as `get` does, and the host learns from what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email.message import Message
from typing import Any

import httpx
import pytest
from multidict import CIMultiDict
from yarl import URL

from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.session import PoliteSession
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidRequest,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
)
from crawler.testing import FakeFetcher, JumpClock, text
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
ROBOTS = {f"{A}/robots.txt": text("User-agent: *\nDisallow: /p\n")}


def opened(clock: JumpClock, answers: Any = ROBOTS, **sections: Mapping[str, object]) -> Any:
    config = {"politeness": {"delay": 1, "latency_factor": 0}, **sections}
    fetcher = FakeFetcher(clock, answers, latency_s=0.1)
    session = PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher)
    vars(session)["fetcher"] = fetcher
    return session


def assert_at_rest(session: PoliteSession) -> None:
    client = session._client.get()
    assert isinstance(client, CallerGate)
    assert client.frontier.permits.in_flight == 0
    assert not client.downloader.urls
    assert not client._lines
    for host in client.frontier.permits:
        assert host.callers == host.busy == host.pace.contacts_open == 0


def host_of(session: PoliteSession) -> Any:
    client = session._client.get()
    assert isinstance(client, CallerGate)
    (host,) = client.frontier.permits
    return host


# ---------------------------------------------------------------- the wait and the contact


async def test_the_contact_lasts_until_the_block_ends_and_the_delay_counts_from_there(
    clock: JumpClock,
) -> None:
    async with opened(clock) as session:
        async with session.permit(URL(f"{A}/a b"), method="post") as permit:
            assert (permit.url, permit.method) == (f"{A}/a%20b", "POST")
            await clock.sleep_until(clock.monotonic() + 5)
            permit.record(200)
        ended_s = clock.monotonic()
        assert host_of(session).contacts_new[-1].status == 200
        await session.get(f"{A}/b")
        assert session.fetcher.log.requests()[-1].start_s == pytest.approx(ended_s + 1)
        host = host_of(session)
        assert host.pace.peak_concurrency == 1
        assert host.pace.breaches == 0
        assert host.pace.latency_s > 1, "the duration of the block counts as response time"
        assert_at_rest(session)
    assert session.fetcher.log.paths() == ["/robots.txt", "/b"]


async def test_permits_and_requests_of_a_host_wait_for_each_other_in_order(
    clock: JumpClock,
) -> None:
    order: list[str] = []
    open_now = 0

    async with opened(clock) as session:

        async def lend(name: str) -> None:
            nonlocal open_now
            async with session.permit(f"{A}/{name}"):
                order.append(name)
                open_now += 1
                assert open_now == 1
                await clock.sleep_until(clock.monotonic() + 3)
                open_now -= 1

        async def get(name: str) -> None:
            await session.get(f"{A}/{name}")
            assert open_now == 0
            order.append(name)

        await asyncio.gather(lend("1"), get("2"), lend("3"), get("4"))
        assert_at_rest(session)
    assert order == ["1", "2", "3", "4"]
    assert clock.elapsed_s == pytest.approx(0.1 + 1 + 3 + 1 + 0.1 + 1 + 3 + 1 + 0.1)


async def test_it_raises_what_get_raises(clock: JumpClock) -> None:
    async def enter(session: PoliteSession, url: Any, method: str = "GET") -> None:
        async with session.permit(url, method=method):
            raise AssertionError

    async with opened(clock) as session:
        with pytest.raises(RobotsDisallowed):
            await enter(session, f"{A}/p")
        with pytest.raises(InvalidURL):
            await enter(session, "ftp://a.test/")
        with pytest.raises(InvalidRequest, match="method"):
            await enter(session, f"{A}/", "GE T")
        assert_at_rest(session)
    with pytest.raises(SessionClosed):
        await enter(session, f"{A}/")
    answers = {
        f"{A}/robots.txt": text("", status=503),
        "http://dead.test/robots.txt": FailureCode.ADDRESS,
    }
    async with opened(clock, answers, robots={"dialect": "rfc9309"}) as session:
        with pytest.raises(RobotsUnreachable):
            await enter(session, f"{A}/")
        with pytest.raises(FetchFailed):
            await enter(session, "http://dead.test/")
        assert_at_rest(session)


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://[::1]:80/", "http://0x7f.1/x"])
async def test_private_addresses_in_the_url_are_refused(clock: JumpClock, url: str) -> None:
    async with opened(clock, {}) as session:
        with pytest.raises(FetchFailed, match="does not permit"):
            async with session.permit(url):
                raise AssertionError
        with pytest.raises(FetchFailed, match="loopback"):
            async with session.permit("http://localhost/"):
                raise AssertionError
    assert session.fetcher.log == []
    async with (
        opened(clock, {}, network={"allow": ["10.0.0.0/8", "::1", "127.0.0.0/8"]}) as session,
        session.permit(url) as permit,
    ):
        permit.record(200)


# ---------------------------------------------------------------- what the host learns


@pytest.mark.parametrize(
    ("status", "headers", "rest_s"),
    [
        (429, {"retry-after": "100"}, 100),
        (503, {"Retry-After": "7"}, 7),
        (429, None, 60),
        (500, {"Retry-After": "30"}, 30),
        (200, {"Retry-After": "30"}, 30),
        (404, None, 1),
    ],
)
@pytest.mark.parametrize("raises", [False, True])
async def test_the_host_rests_as_the_recorded_response_asks(
    clock: JumpClock, status: int, headers: dict[str, str] | None, rest_s: float, raises: bool
) -> None:
    """Also if the block raises afterwards, as `raise_for_status` does."""
    async with opened(clock) as session:
        with pytest.raises(ZeroDivisionError) if raises else _nothing():
            async with session.permit(f"{A}/a") as permit:
                permit.record(status, headers)
                if raises:
                    raise ZeroDivisionError
        turn = await session.next_turn(f"{A}/a")
        assert turn.in_s == pytest.approx(rest_s)
        assert host_of(session).contacts_new[-1].status == status
        assert_at_rest(session)


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def test_headers_of_any_client_can_be_recorded(clock: JumpClock) -> None:
    message = Message()
    message["Retry-After"] = "5"
    found: list[Any] = [message, CIMultiDict(message.items()), httpx.Headers(message.items())]
    async with opened(clock) as session:
        for headers in found:
            async with session.permit(f"{A}/a") as permit:
                permit.record(429, headers)
            assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(5)


async def test_the_last_record_counts_and_backs_off_once(clock: JumpClock) -> None:
    async with opened(clock) as session:
        async with session.permit(f"{A}/a") as permit:
            permit.record(503)
            permit.record(429, {"Retry-After": "5"})
        assert host_of(session).pace.backoff_level == 1
        assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(5)


@pytest.mark.parametrize("error", [None, ValueError, asyncio.CancelledError])
async def test_a_block_that_records_nothing_is_a_contact_without_an_answer(
    clock: JumpClock, error: type[BaseException] | None
) -> None:
    async with opened(clock) as session:
        with pytest.raises(error) if error else _nothing():
            async with session.permit(f"{A}/a"):
                if error is not None:
                    raise error
        assert [one.status for one in host_of(session).contacts_new] == [None]
        assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(1)
        assert_at_rest(session)


@pytest.mark.parametrize(
    ("status", "headers", "named"),
    [
        (99, None, "status"),
        (600, None, "status"),
        (True, None, "status"),
        ("200", None, "status"),
        (200, "Retry-After: 5", "headers"),
        (200, [("Retry-After", "5")], "headers"),
        (200, {b"Retry-After": b"5"}, "headers"),
    ],
)
async def test_a_wrong_record_is_refused_and_costs_nothing(
    clock: JumpClock, status: Any, headers: Any, named: str
) -> None:
    async with opened(clock) as session, session.permit(f"{A}/a") as permit:
        with pytest.raises(InvalidRequest) as caught:
            permit.record(status, headers)
        assert caught.value.argument == named
        permit.record(200)


async def test_a_record_after_the_block_is_refused(clock: JumpClock) -> None:
    async with opened(clock) as session:
        async with session.permit(f"{A}/a") as permit:
            pass
        with pytest.raises(SessionClosed, match="has ended"):
            permit.record(429)
        assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(1)


# ---------------------------------------------------------------- cancellation and mistakes


@pytest.mark.parametrize("at_s", [0.0, 0.05, 0.1, 0.6, 1.1, 1.15, 2.1])
async def test_cancelled_at_any_step_a_permit_leaves_no_trace(at_s: float) -> None:
    for steps in range(7):
        async with JumpClock() as clock, opened(clock) as session:

            async def lend(name: str, *, session: Any = session, clock: Any = clock) -> None:
                async with session.permit(f"{A}/{name}"):
                    await clock.sleep_until(clock.monotonic() + 0.1)

            beside = [asyncio.create_task(lend("1"))]
            task = asyncio.create_task(lend("x"))
            beside.append(asyncio.create_task(lend("2")))
            await clock.sleep_until(clock.monotonic() + at_s)
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task, *beside])
            assert all(one.exception() is None for one in beside)
            await lend("last")
            assert_at_rest(session)
            assert host_of(session).pace.breaches == 0


async def test_a_permit_that_waits_for_its_own_task_is_refused_with_a_sentence(
    clock: JumpClock,
) -> None:
    async with opened(clock) as session:
        async with session.permit(f"{A}/a"):
            with pytest.raises(CourtlyError, match="would wait for itself"):
                await session.get(f"{A}/b")
            with pytest.raises(CourtlyError, match="would wait for itself"):
                async with session.permit(f"{A}/b"):
                    pass
            await session.get("http://b.test/")  # another host
            other = asyncio.create_task(session.get(f"{A}/c"))
            await clock.sleep_until(clock.monotonic() + 5)
            assert not other.done()
        assert (await other).status == 404
        assert_at_rest(session)


async def test_the_session_may_close_during_a_block(clock: JumpClock) -> None:
    async with opened(clock) as session:
        lent = session.permit(f"{A}/a")
        permit = await lent.__aenter__()
        host = host_of(session)
    permit.record(429)
    await lent.__aexit__(None, None, None)
    assert host.busy == 0

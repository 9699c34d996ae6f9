"""Nothing is sent once the leases of a worker have expired, however far a request has come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from crawler.clock import ContactDeadline, RealClock
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.request import Answer, Failure, Request
from crawler.fetching.resolver import Resolver
from crawler.testing import JumpClock
from policies.holds import HoldReason
from tests.crawler.conftest import LOOPBACK, RawConnection, Serve, fetcher_config

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nhi"


@pytest.fixture
async def deadline() -> ContactDeadline:
    deadline = ContactDeadline(RealClock())
    deadline.until_s = time.clock_gettime(time.CLOCK_BOOTTIME) + 3600
    return deadline


@pytest.fixture
async def fetcher(deadline: ContactDeadline) -> AsyncIterator[AiohttpFetcher]:
    async with AiohttpFetcher(fetcher_config(), RealClock(), deadline=deadline) as opened:
        yield opened


def expire(deadline: ContactDeadline) -> None:
    deadline.until_s = 0.0


def assert_refused(result: Answer | Failure, *, contacted: bool) -> None:
    assert isinstance(result, Failure)
    assert result.ours is HoldReason.LEASES_EXPIRED
    assert not result.connected
    assert not result.permanent
    assert result.contacted is contacted


async def test_no_connection_is_opened(
    serve: Serve, fetcher: AiohttpFetcher, deadline: ContactDeadline
) -> None:
    server = await serve(OK)
    assert isinstance(await fetcher.fetch(Request(url=server.url())), Answer)
    expire(deadline)
    assert_refused(await fetcher.fetch(Request(url=server.url())), contacted=False)
    assert server.connections == 1


async def test_it_may_pass_while_the_name_is_looked_up(
    serve: Serve, deadline: ContactDeadline
) -> None:
    class Slow(Resolver):
        async def resolve(self, *args: object, **kwargs: object) -> list[object]:  # type: ignore[override]
            expire(deadline)
            return await super().resolve(*args, **kwargs)  # type: ignore[arg-type, return-value]

    server = await serve(OK)
    clock = RealClock()
    resolver = Slow({"*.test": "127.0.0.1"}, LOOPBACK, clock)
    async with AiohttpFetcher(
        fetcher_config(), clock, resolver=resolver, deadline=deadline
    ) as fetcher:
        assert_refused(await fetcher.fetch(Request(url=server.url())), contacted=False)
    assert server.connections == 0


async def test_a_kept_connection_is_not_used(
    serve: Serve, fetcher: AiohttpFetcher, deadline: ContactDeadline
) -> None:
    server = await serve(OK, keep=True)
    assert isinstance(await fetcher.fetch(Request(url=server.url())), Answer)
    expire(deadline)
    result = await fetcher.fetch(Request(url=server.url()))
    assert_refused(result, contacted=False)
    assert (server.connections, len(server.requests)) == (1, 1)


@pytest.mark.parametrize("headers", [{}, {"X-A": "b"}])
@pytest.mark.parametrize("data", [None, b"body"])
async def test_it_may_pass_while_the_connection_is_made(
    serve: Serve,
    fetcher: AiohttpFetcher,
    deadline: ContactDeadline,
    headers: dict[str, str],
    data: bytes | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request is not written on a connection that is open; that counts as a contact."""
    asked: list[bytes] = []

    async def listen(connection: RawConnection) -> None:
        asked.append(await connection.reader.read(1_000))

    server = await serve(listen)
    from crawler.fetching.exchange import Exchange

    made = Exchange.contacting

    def contacting(self: Exchange, *args: object) -> None:
        made(self, *args)  # type: ignore[arg-type]
        expire(deadline)

    monkeypatch.setattr(Exchange, "contacting", contacting)
    method = "GET" if data is None else "POST"
    request = Request(url=server.url(), method=method, headers=headers, data=data)
    assert_refused(await fetcher.fetch(request), contacted=True)
    await server.gone.wait()
    assert asked in ([], [b""]), "a connection, and nothing on it"


async def test_the_deadline_counts_while_the_machine_sleeps() -> None:
    async with JumpClock() as clock:
        deadline = ContactDeadline(clock)
        assert not deadline.passed, "without a shared store there is none"
        deadline.begin()
        assert deadline.passed, "before the first renewal"
        deadline.until_s = clock.boottime() + 15
        assert not deadline.passed
        clock.sleep(14.9)
        assert not deadline.passed
        clock.set_wall(3600)
        assert not deadline.passed
        clock.sleep(0.2)
        assert deadline.passed


def test_the_real_clock_counts_sleep() -> None:
    """CLOCK_BOOTTIME, where there is one."""

    async def look() -> None:
        apart_s = time.clock_gettime(time.CLOCK_BOOTTIME) - RealClock().boottime()
        assert abs(apart_s) < 0.1

    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("no such clock")
    asyncio.run(look())

"""session.stream: bodies of any size, read while they arrive, in one contact."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from crawler.embedding.session import PoliteSession
from crawler.embedding.streaming import StreamedResponse
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidRequest,
    InvalidURL,
    RobotsDisallowed,
    SessionClosed,
)
from crawler.fetching import body as body_module
from crawler.testing import FakeFetcher, JumpClock, LocalWeb, Reply, html, redirect, text
from tests.crawler.conftest import RawConnection, Serve

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
BODY = bytes(range(256)) * 4_000
FORBID_P = text("User-agent: *\nDisallow: /p\n")


def session_of(web: LocalWeb, **sections: dict[str, object]) -> PoliteSession:
    sections.setdefault("politeness", {"delay": 0, "latency_factor": 0})
    return PoliteSession(user_agent=UA, config=web.config(**sections))


async def whole_of(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def whole(response: StreamedResponse) -> bytes:
    return await whole_of(response.chunks())


# ---------------------------------------------------------------- the body


async def test_a_body_of_any_size_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "WIRE_BYTES_MAX", 600_000)  # more than the buffers
    packed = Reply(body=gzip.compress(BODY), headers={"Content-Encoding": "gzip"})
    sites = {"a.test": {"/a": Reply(body=BODY), "/gz": packed, "/empty": Reply(status=204)}}
    async with LocalWeb(sites) as web, session_of(web, fetch={"max_body": "10kB"}) as session:
        for path in ("/a", "/gz"):
            async with session.stream(web.url("a.test", path)) as response:
                assert (response.status, response.ok) == (200, True)
                assert response.headers["Content-Type"] == response.content_type
                pieces = [chunk async for chunk in response.chunks()]
            assert b"".join(pieces) == BODY
            assert len(pieces) > 2
        for path, method in (("/empty", "GET"), ("/a", "HEAD"), ("/missing", "HEAD")):
            async with session.stream(web.url("a.test", path), method=method) as response:
                assert await whole(response) == b""
        async with session.stream(web.url("a.test", "/a"), method="POST", json={}) as response:
            assert await whole(response) == BODY
        with pytest.raises(FetchFailed, match="too-large"):
            await session.get(web.url("a.test", "/a"))


async def test_the_server_waits_while_nothing_is_read(serve: Serve) -> None:
    sent = 0

    async def script(connection: RawConnection) -> None:
        nonlocal sent
        head = await connection.request()
        if b"robots" in head:
            await connection.send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
            await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while sent < 100_000_000:
            await connection.send(bytes(1_000_000))
            sent += 1_000_000

    server = await serve(script)
    config = {"network": {"allow": ["127.0.0.0/8"]}, "politeness": {"delay": 0}}
    async with PoliteSession(config=config) as session:
        async with session.stream(f"http://127.0.0.1:{server.port}/") as response:
            chunks = response.chunks()
            assert await anext(chunks)
            await asyncio.sleep(0.5)
            assert sent < 50_000_000
        await asyncio.wait_for(server.gone.wait(), 5)
    assert sent < 50_000_000


async def test_a_broken_body_raises(clock: JumpClock) -> None:
    sites = {"a.test": {"/a": Reply(body=BODY, broken=True, body_s=0.1)}}
    async with LocalWeb(sites) as web, session_of(web) as session:
        async with session.stream(web.url("a.test", "/a")) as response:
            chunks = response.chunks()
            assert await anext(chunks)
            with pytest.raises(FetchFailed, match="body") as caught:
                await whole_of(chunks)
        assert caught.value.failure.status == 200
    assert web.log.paths() == ["/robots.txt", "/a"], "it is not requested again"


# ---------------------------------------------------------------- politeness


async def test_robots_redirects_and_retries_are_as_in_fetch(clock: JumpClock) -> None:
    replies = {
        "/robots.txt": [FORBID_P],
        "/1": [redirect("/2")],
        "/2": [text("wait", status=503), text("broken", status=500), text("here")],
        "/3": [redirect("/p")],
        "/4": [text("always", status=500)],
    }

    def answer(request: object) -> Reply:
        found = replies[str(getattr(request, "url")).removeprefix(A)]  # noqa: B009
        return found.pop(0) if len(found) > 1 else found[0]

    fetcher = FakeFetcher(clock, answer, latency_s=0.1)
    config = {"politeness": {"delay": 1, "latency_factor": 0}}
    async with PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher) as session:
        async with session.stream(f"{A}/1") as response:
            assert await whole(response) == b"here"
            assert response.url == f"{A}/2"
            assert [one.status for one in response.redirects] == [302]
        for path in ("/p", "/3"):
            with pytest.raises(RobotsDisallowed):
                async with session.stream(f"{A}{path}"):
                    pass
        async with session.stream(f"{A}/4") as response:
            assert (response.status, await whole(response)) == (500, b"always")
        async with session.stream(f"{A}/1", follow=False) as response:
            assert response.status == 302
            assert await whole(response) == b""
        with pytest.raises(InvalidRequest):
            async with session.stream(f"{A}/1", headers={"X": "\n"}):
                pass
        with pytest.raises(InvalidURL):
            async with session.stream("x"):
                pass
    assert fetcher.log.paths()[:5] == ["/robots.txt", "/1", "/2", "/2", "/2"]
    assert min(fetcher.log.gaps()) >= 1 - 1e-6


async def test_the_contact_lasts_until_the_body_has_been_read(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/a": Reply(body=BODY), f"{A}/b": html("B")})
    config = {"politeness": {"delay": 1, "latency_factor": 0}}
    async with PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher) as session:
        async with session.stream(f"{A}/a") as response:
            chunks = response.chunks()
            assert await anext(chunks)
            other = asyncio.create_task(session.get(f"{A}/b"))
            await clock.sleep_until(clock.monotonic() + 100)
            assert not other.done()
            with pytest.raises(CourtlyError, match="would wait for itself"):
                await session.get(f"{A}/b")
            assert b"".join([chunk async for chunk in chunks])
            read_s = clock.monotonic()
            assert (await session.get(f"{A}/b")).status == 200, "now it may be requested"
        assert (await other).status == 200
    assert fetcher.log[2].start_s - read_s >= 1


async def test_an_early_end_of_the_block_ends_the_contact(serve: Serve) -> None:
    gone = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        while b"GET /endless" not in await connection.request():
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        with suppress(ConnectionError):
            await connection.drip(bytes(10_000))
        gone.set()

    server = await serve(script)
    url = f"http://127.0.0.1:{server.port}"
    config = {"network": {"allow": ["127.0.0.0/8"]}, "politeness": {"delay": 0}}
    async with PoliteSession(config=config) as session:
        for cause in ("break", "error", "nothing read"):
            gone.clear()
            with suppress(KeyError):
                async with session.stream(f"{url}/endless") as response:
                    chunks = response.chunks()
                    if cause != "nothing read":
                        await anext(chunks)
                    if cause == "error":
                        raise KeyError
            await asyncio.wait_for(gone.wait(), 5)
            with pytest.raises(SessionClosed, match="inside it"):
                await anext(chunks)
            assert (await session.get(f"{url}/a")).body == b"ok"


async def test_closing_the_session_ends_the_response(serve: Serve) -> None:
    async def script(connection: RawConnection) -> None:
        while b"GET /endless" not in await connection.request():
            await connection.send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        await connection.drip(bytes(1000))

    server = await serve(script)
    began = asyncio.Event()

    async def read() -> None:
        async with session.stream(f"http://127.0.0.1:{server.port}/endless") as response:
            async for _ in response.chunks():
                began.set()

    config = {"network": {"allow": ["127.0.0.0/8"]}, "politeness": {"delay": 0}}
    async with PoliteSession(config=config) as session:
        reading = asyncio.create_task(read())
        await asyncio.wait_for(began.wait(), 5)
    with pytest.raises(SessionClosed):
        await asyncio.wait_for(reading, 5)
    await asyncio.wait_for(server.gone.wait(), 5)


async def test_the_timeout_counts_until_the_body_begins(clock: JumpClock) -> None:
    replies = {f"{A}/late": Reply(body="x", delay_s=5), f"{A}/a": Reply(body=BODY)}
    fetcher = FakeFetcher(clock, replies, latency_s=0)
    async with PoliteSession(user_agent=UA, clock=clock, fetcher=fetcher) as session:
        with pytest.raises(FetchFailed, match="not complete after 2 s"):
            async with session.stream(f"{A}/late", timeout_s=2, retry=False):
                pass
        async with session.stream(f"{A}/a", timeout_s=2) as response:
            async for _ in response.chunks():
                await clock.sleep_until(clock.monotonic() + 1)


async def test_a_body_is_read_once(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/a": Reply(body=BODY)})
    async with PoliteSession(user_agent=UA, clock=clock, fetcher=fetcher) as session:
        async with session.stream(f"{A}/a") as response:
            assert "status=200" in repr(response)
            assert await whole(response) == BODY
            with pytest.raises(RuntimeError, match="only once"):
                await whole(response)
        async with session.stream(f"{A}/a") as response:
            pass
        with pytest.raises(SessionClosed, match="inside it"):
            await whole(response)


@pytest.mark.parametrize("passes", range(0, 60, 3))
async def test_a_cancellation_at_any_moment_leaves_nothing_behind(
    clock: JumpClock, passes: int
) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/a": Reply(body=BODY), f"{A}/b": html("B")}, latency_s=0)

    async def read() -> None:
        async with session.stream(f"{A}/a") as response:
            await whole(response)

    config = {"politeness": {"delay": 0}}
    async with PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher) as session:
        assert await session.may_fetch(f"{A}/a")
        reading = asyncio.create_task(read())
        for _ in range(passes):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert (await session.get(f"{A}/b")).status == 200
        assert (await session.next_turn(f"{A}/b")).ahead == 0

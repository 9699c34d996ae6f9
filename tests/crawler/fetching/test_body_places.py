"""A body that becomes large waits for its place, and the wait is not charged to its host."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from typing import Any

import pytest

from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.request import Answer, Failure, FetchLimits, NoPlaceError, Request
from crawler.processing.sitemap_body import SeedReading
from policies.retries import FailureCode
from tests.crawler.fetching.readers import Reads

ROOM = 262_144
LIMITS = FetchLimits(timeout_s=0.6, rate_window_s=0.2, body_bytes_max=10_000_000)


class Place:
    """Grants what is asked for after a pause; up to a maximum."""

    def __init__(self, *, pause_s: float = 0.0, bytes_max: int = 1 << 40) -> None:
        self.size_bytes = ROOM
        self.asked: list[tuple[int, int, float]] = []
        self.waits = asyncio.Event()
        self._pause_s, self._bytes_max = pause_s, bytes_max

    async def grow(self, size_bytes: int, *, most_bytes: int, wait_s: float) -> None:
        self.asked.append((size_bytes, most_bytes, wait_s))
        self.waits.set()
        await asyncio.sleep(self._pause_s)
        if size_bytes > self._bytes_max:
            raise NoPlaceError
        self.size_bytes = max(size_bytes, 2 * self.size_bytes)


def answer_of(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def seed_reader() -> Any:
    return SeedReading(None, None, reader=Reads(), bytes_max=10_000_000)  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [None, seed_reader], ids=["page", "seed"])
@pytest.mark.parametrize("packed", [False, True])
async def test_a_large_body_asks_before_it_has_more(
    serve: Any, fetcher: AiohttpFetcher, keep: Any, packed: bool
) -> None:
    body = b"<p>" + b"word " * 600_000
    sent = answer_of(gzip.compress(body), "Content-Encoding: gzip") if packed else answer_of(body)
    server, place = await serve(sent), Place()
    reader = keep and keep()
    got = await fetcher.fetch(Request(url=server.url(), limits=LIMITS, reader=reader, place=place))
    assert isinstance(got, Answer)
    assert (got if reader is None else reader.as_page(got)).body == body
    sizes = [size for size, _, _ in place.asked]
    assert sizes[0] < ROOM + 1_100_000  # one step of decoding
    assert place.size_bytes >= len(body)
    known = not packed and reader is None
    assert {most for _, most, _ in place.asked} == {len(body) if known else 10_000_000}
    assert all(0 < wait_s <= LIMITS.timeout_s / 2 for _, _, wait_s in place.asked)


@pytest.mark.parametrize("size", [1, ROOM])
async def test_a_small_body_asks_for_nothing(
    serve: Any, fetcher: AiohttpFetcher, size: int
) -> None:
    server, place = await serve(answer_of(b"x" * size)), Place()
    got = await fetcher.fetch(Request(url=server.url(), place=place))
    assert isinstance(got, Answer)
    assert not place.asked


@pytest.mark.parametrize("keep", [None, seed_reader], ids=["page", "seed"])
async def test_the_wait_is_not_charged_to_the_host(
    serve: Any, fetcher: AiohttpFetcher, keep: Any
) -> None:
    """Whether the rest of the body is on the wire, or has yet to be sent."""

    async def in_two_parts(connection: Any) -> None:
        await connection.request()
        await connection.send(answer_of(b"x" * (ROOM + 2_000))[:-1_000])
        await asyncio.sleep(1.2)
        await connection.send(b"x" * 1_000)

    for script in (answer_of(b"x" * 3_000_000), in_two_parts):
        server, place = await serve(script), Place(pause_s=1.0)
        reader = keep and keep()
        request = Request(url=server.url(), limits=LIMITS, reader=reader, place=place)
        got = await fetcher.fetch(request)
        assert isinstance(got, Answer), got


@pytest.mark.parametrize("keep", [None, seed_reader], ids=["page", "seed"])
async def test_a_body_without_a_place_is_not_read_and_not_charged(
    serve: Any, fetcher: AiohttpFetcher, keep: Any
) -> None:
    server, place = await serve(answer_of(b"x" * 9_000_000)), Place(bytes_max=1_000_000)
    reader = keep and keep()
    got = await fetcher.fetch(Request(url=server.url(), limits=LIMITS, reader=reader, place=place))
    assert isinstance(got, Failure)
    assert got.code is FailureCode.TIMEOUT
    assert got.stale  # requested again
    assert got.stopped  # and no sign of an outage
    assert got.sentence == "large pages of other hosts left no memory for this one"


async def test_a_request_that_is_cancelled_while_it_waits_ends(
    serve: Any, fetcher: AiohttpFetcher
) -> None:
    server, place = await serve(answer_of(b"x" * 9_000_000)), Place(pause_s=60.0)
    task = asyncio.create_task(fetcher.fetch(Request(url=server.url(), place=place)))
    await asyncio.wait_for(place.waits.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not fetcher.busy
    await asyncio.wait_for(server.gone.wait(), 10)


@pytest.mark.parametrize("announced", [False, True])
async def test_nothing_is_read_while_it_waits(
    serve: Any, fetcher: AiohttpFetcher, announced: bool
) -> None:
    """And nothing at all, if the header says that it is large."""
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    body = b"x" * 9_000_000
    server = await serve(answer_of(body) if announced else head + body)
    place = Place(pause_s=0.5)
    task = asyncio.create_task(fetcher.fetch(Request(url=server.url(), place=place)))
    await asyncio.wait_for(place.waits.wait(), 10)
    (connection,) = fetcher.connections.open
    assert connection.exchange
    received = connection.exchange.received
    assert received < (0 if announced else ROOM) + 600_000
    await asyncio.sleep(0.2)
    assert connection.exchange.received == received
    got = await task
    assert isinstance(got, Answer)
    assert got.body == body


async def test_a_body_beyond_its_limit_asks_for_no_place(
    serve: Any, fetcher: AiohttpFetcher
) -> None:
    limits = replace(LIMITS, body_bytes_max=300_000)
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    server, place = await serve(head + b"x" * 900_000), Place()
    got = await fetcher.fetch(Request(url=server.url(), limits=limits, place=place))
    assert isinstance(got, Failure)
    assert got.code is FailureCode.TOO_LARGE
    assert all(size <= 300_000 for size, _, _ in place.asked)

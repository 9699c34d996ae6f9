"""A body that is handed on in pieces, from real servers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crawler.fetching.body import PIECE_BYTES
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure
from crawler.fetching.request import FetchLimits, Head, OversizeError, Request
from policies.retries import FailureCode
from tests.crawler.fetching.readers import Reads


class Pieces:
    """Keeps the sizes of what it takes, up to a bound."""

    kept_bytes = 0

    def __init__(self, bytes_max: int = 1 << 40, *, timeout_s: float | None = None) -> None:
        self.timeout_s = timeout_s
        self.sizes: list[int] = []
        self.ended = 0
        self._bytes_max = bytes_max

    async def take(self, piece: bytes) -> bool:
        self.sizes.append(len(piece))
        return sum(self.sizes) < self._bytes_max

    async def end(self) -> None:
        self.ended += 1


def to(sink: Pieces) -> Callable[[Head], Pieces]:
    return lambda _: sink


def answer(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_a_body_longer_than_max_body_goes_to_the_sink_in_pieces(
    fetcher: AiohttpFetcher, serve: Any
) -> None:
    for body, more in ((bytes(900_000), ()), (bytes(90_000_000), ("Content-Encoding: gzip",))):
        sent = gzip.compress(body) if more else body
        server = await serve(answer(sent, *more))
        sink = Pieces()
        limits = FetchLimits(body_bytes_max=1_000)
        got = await fetcher.fetch(
            Request(url=server.url(), limits=limits, reader=Reads(into=to(sink)))
        )
        assert isinstance(got, Answer)
        assert (got.body, got.body_read, got.cut) == (b"", True, False)
        assert (sum(sink.sizes), sink.ended) == (len(body), 1)
        assert max(sink.sizes) <= 4 * PIECE_BYTES


async def test_a_sink_that_wants_no_more_ends_the_answer(
    fetcher: AiohttpFetcher, serve: Any
) -> None:
    server = await serve(answer(bytes(5_000_000)))
    sink = Pieces(100_000)
    got = await fetcher.fetch(Request(url=server.url(), reader=Reads(into=to(sink))))
    assert isinstance(got, Answer)
    assert (got.cut, sink.ended) == (True, 1)
    assert sum(sink.sizes) < 1_000_000
    assert got.wire_bytes < 2_000_000


async def test_without_a_sink_the_body_is_kept_as_ever(fetcher: AiohttpFetcher, serve: Any) -> None:
    server = await serve(answer(b"body"))
    got = await fetcher.fetch(Request(url=server.url(), reader=Reads(into=lambda _: None)))
    assert isinstance(got, Answer)
    assert got.body == b"body"


async def test_a_body_cut_short_is_a_failure_and_no_end(
    fetcher: AiohttpFetcher, serve: Any
) -> None:
    packed = gzip.compress(bytes(100_000))
    for sent in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nshort",
        answer(packed[:-9], "Content-Encoding: gzip"),
    ):
        server = await serve(sent)
        sink = Pieces()
        got = await fetcher.fetch(Request(url=server.url(), reader=Reads(into=to(sink))))
        assert isinstance(got, Failure)
        assert (got.code, sink.ended) == (FailureCode.BODY, 0)


async def test_a_sink_may_refuse_what_is_too_large(fetcher: AiohttpFetcher, serve: Any) -> None:
    class Refusing(Pieces):
        async def take(self, piece: bytes) -> bool:
            raise OversizeError

    server = await serve(answer(b"x" * 99))
    got = await fetcher.fetch(Request(url=server.url(), reader=Reads(into=lambda _: Refusing())))
    assert isinstance(got, Failure)
    assert got.code is FailureCode.TOO_LARGE


async def test_a_sink_may_be_given_more_time_than_a_page(
    fetcher: AiohttpFetcher, serve: Any
) -> None:
    async def slow(connection: Any) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n")
        for _ in range(4):
            await connection.send(b"x" * 10)
            await asyncio.sleep(0.15)

    limits = replace(FetchLimits(), timeout_s=0.3)
    server = await serve(slow)
    got = await fetcher.fetch(
        Request(url=server.url(), limits=limits, reader=Reads(into=lambda _: Pieces()))
    )
    assert isinstance(got, Failure)
    assert got.code is FailureCode.TIMEOUT
    sink = Pieces(timeout_s=30.0)
    got = await fetcher.fetch(Request(url=server.url(), limits=limits, reader=Reads(into=to(sink))))
    assert isinstance(got, Answer)
    assert sum(sink.sizes) == 40

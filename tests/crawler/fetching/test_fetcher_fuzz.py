"""Whatever a server sends: an answer or a failure, in bounded time, and no exception."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc

import brotli  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler.clock import RealClock
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure, FetchLimits, Request
from policies.retries import FailureCode
from tests.crawler.conftest import fetcher_config

LIMITS = FetchLimits(timeout_s=2, head_s=1, connect_s=1, rate_window_s=1, body_bytes_max=10_000)
CONFIG = fetcher_config(fetch={"cookies": True, "first_byte_timeout": 1, "connect_timeout": 1})

lines = st.one_of(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.0 404", b"HTTP/1.1 304 X",
            b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: 99999999999999999999",
            b"Content-Length: 5, 5", b"Content-Length: +5", b"content-length:5 ",
            b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: identity", b"Content-Encoding: gzip", b"Content-Encoding: br",
            b"Content-Encoding: zstd", b"Connection: close", b"Connection: upgrade",
            b"Upgrade: websocket", b"Sec-WebSocket-Key1: x", b"Set-Cookie: a=b; Path=/",
            b"Set-Cookie: \xff=\xff; Expires=\xe9",
            b"Location: /\xe9", b"X-Robots-Tag: \xff", b"Set-Cookie: ;",
            b"Location: http://[::1", b"Content-Type: text/html; charset=\xff", b" folded", b"",
            b"5", b"hello", b"0", b"ffffffff", b"5;ext=1", b"-1", gzip.compress(b"hello"),
            brotli.compress(b"hello"), b"\x00", b":", b"X:" + b"y" * 70_000,
        ]
    ),
    st.binary(max_size=40),
)  # fmt: skip
answers = st.builds(
    lambda start, rest, end: b"\r\n".join([*start, *rest]) + end,
    st.sampled_from([[], [b"HTTP/1.1 200 OK"]]),
    st.lists(lines, max_size=8),
    st.sampled_from([b"", b"\r\n", b"\r\n\r\n", b"\n\n"]),
)


@settings(
    max_examples=75,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=answers, split=st.integers(1, 60))
def test_any_bytes_end_in_an_answer_or_a_failure(data, split):
    async def run() -> Answer | Failure:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data[:split])
            await asyncio.sleep(0)
            writer.write(data[split:])
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with (
            server,
            AiohttpFetcher(CONFIG, RealClock()) as fetcher,
        ):
            request = Request(url=f"http://127.0.0.1:{port}/", limits=LIMITS)
            await fetcher.fetch(request)
            return await fetcher.fetch(request)  # with the cookies of the first

    result = asyncio.run(run())
    if isinstance(result, Failure):
        assert result.code in {FailureCode.PROTOCOL, FailureCode.BODY, FailureCode.TOO_LARGE}
        assert "Error" not in result.sentence, result
    else:
        assert len(result.body) <= LIMITS.body_bytes_max
        for name, value in result.headers.items():
            (name + value).encode()


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_memory_stays_near_the_bound(serve, fetcher, coding):
    """Eight endless bodies at once hold no more than eight bounds and aiohttp's buffers."""

    async def script(connection):
        await connection.request()
        await connection.send(f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n\r\n".encode())
        await connection.drip(bomb if coding == "gzip" else bytes(65_536), 0)

    bomb = gzip.compress(bytes(50_000_000))
    server = await serve(script)
    limits = FetchLimits(body_bytes_max=1_000_000)
    gc.collect()
    tracemalloc.start()
    try:
        results = await asyncio.gather(
            *(fetcher.fetch(Request(url=server.url(f"/{n}"), limits=limits)) for n in range(8))
        )
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert {getattr(r, "code", None) for r in results} == {FailureCode.TOO_LARGE}

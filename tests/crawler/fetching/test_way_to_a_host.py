"""What speaks of the way to a host, and not of the host: a proxy that cannot or will not connect, a
network that asks for a login, an answer that stops in the middle."""

from __future__ import annotations

import asyncio

import pytest

from crawler.fetching.fetcher import Answer, Failure, FetchLimits, Request
from policies.retries import FailureCode

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


def answer_of(status: int, more: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{more}\r\n".encode()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_asks_for_a_login_answers_for_no_host(serve, fetcher, scheme):
    proxy = await serve(answer_of(407))
    url = f"{scheme}://a.test/robots.txt"
    failure = await fetcher.fetch(Request(url=url, proxy=proxy.url(host="127.0.0.1")))
    assert isinstance(failure, Failure)
    assert failure.error == "connect: the proxy requires valid credentials (407)"
    assert failure.local
    assert not (failure.connected)
    assert not (failure.received)
    assert not (failure.permanent)
    assert failure.status is None


async def test_without_a_proxy_it_is_an_answer_like_others(serve, fetcher):
    server = await serve(answer_of(407))
    answer = await fetcher.fetch(Request(url=server.url()))
    assert isinstance(answer, Answer)
    assert not answer.gateway


@pytest.mark.parametrize("status", [403, 502, 503, 504])
async def test_a_proxy_that_does_not_connect_answers_for_no_host(serve, fetcher, status):
    proxy = await serve(answer_of(status))
    request = Request(url="https://a.test/", proxy=proxy.url(host="127.0.0.1"))
    failure = await fetcher.fetch(request)
    assert isinstance(failure, Failure)
    assert failure.code is FailureCode.CONNECT
    assert not (failure.received)
    assert not (failure.local)


@pytest.mark.parametrize(
    ("status", "more", "proxied", "gateway"),
    [
        (502, "", True, True), (504, "", True, True), (503, "", True, False),
        (500, "", True, False), (200, "", True, False), (502, "Retry-After: 60\r\n", True, False),
        (502, "", False, False), (504, "", False, False), (511, "", False, True),
        (511, "", True, True),
    ],
)  # fmt: skip
async def test_answers_that_may_be_those_of_the_way(serve, fetcher, status, more, proxied, gateway):
    server = await serve(answer_of(status, more))
    proxy = server.url(host="127.0.0.1") if proxied else None
    answer = await fetcher.fetch(Request(url=server.url(), proxy=proxy))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.gateway) == (status, gateway)


@pytest.mark.parametrize(
    ("sent", "then", "broken_off"),
    [
        (b"HTTP/1.1 200 OK\r\nConten", "reset", True),
        (b"HTTP/1.1 200 OK\r\nConten", "silence", True),
        (HEAD, "reset", True),
        (HEAD + b"x", "reset", True),
        (HEAD + b"x", "silence", True),
        (b"HTTP/1.1 200 OK\r\n\r\nx", "reset", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", "reset", True),
        (HEAD + b"x", "close", False),  # a wrong Content-Length
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", "close", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "close", False),
        (b"no HTTP\r\n\r\n", "close", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", "drip", False),  # it comes, and has no end
        (b"", "reset", False),  # nothing was received
    ],
)
async def test_an_answer_that_stops_is_told_from_one_that_is_bad(
    serve, fetcher, sent, then, broken_off
):
    async def script(connection):
        await connection.request()
        await connection.send(sent)
        if then == "reset":
            await asyncio.sleep(0.03)  # a RST overtakes what has not been read
            connection.reset()
        elif then == "silence":
            await connection.client_gone()
        elif then == "drip":
            await connection.drip(b"x" * 100)

    server = await serve(script)
    limits = FetchLimits(timeout_s=0.6, rate_window_s=0.2, rate_bytes_per_s_min=100)
    failure = await fetcher.fetch(Request(url=server.url(), limits=limits))
    assert isinstance(failure, Failure)
    assert failure.received == bool(sent)
    assert failure.broken_off == broken_off, failure.sentence

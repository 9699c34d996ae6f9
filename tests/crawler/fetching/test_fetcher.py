"""One request as it was meant: what goes on the wire, how often, and what comes back."""

from __future__ import annotations

import asyncio

import pytest

from crawler.clock import RealClock
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure, FetchLimits, Head, Request
from policies.retries import FailureCode
from tests.crawler.conftest import fetcher_config
from tests.crawler.fetching.readers import Reads

HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


def answered(result: Answer | Failure) -> Answer:
    assert isinstance(result, Answer), result
    return result


def failed(result: Answer | Failure) -> Failure:
    assert isinstance(result, Failure), result
    return result


async def test_answer_tells_all_that_came(serve, fetcher):
    server = await serve(HELLO)
    answer = answered(await fetcher.fetch(Request(url=server.url())))
    assert (answer.status, answer.body, answer.body_read, answer.cut) == (
        200, b"hello", True, False,
    )  # fmt: skip
    assert answer.url == server.url()
    assert answer.headers["content-TYPE"] == "text/html"
    assert answer.wire_bytes == len(HELLO)
    assert answer.address == "127.0.0.1"
    assert 0 <= answer.latency_s <= answer.elapsed_s < 5


async def test_identifies_itself_and_asks_for_compression(serve, fetcher):
    server = await serve(HELLO)
    await fetcher.fetch(Request(url=server.url(), headers={"If-None-Match": '"a"'}))
    lines = server.requests[0].decode().split("\r\n")
    assert lines[0] == "GET / HTTP/1.1"
    assert f"Host: raw.test:{server.port}" in lines
    assert "User-Agent: examplebot/1.0 (+https://example.com/bot)" in lines
    assert "From: bot@example.com" in lines
    assert "Accept-Encoding: gzip, deflate, br, zstd" in lines
    assert 'If-None-Match: "a"' in lines
    assert not any(line.lower().startswith(("connection:", "cookie:")) for line in lines)


async def test_headers_of_the_request_win(serve, fetcher):
    server = await serve(HELLO)
    await fetcher.fetch(Request(url=server.url(), headers={"user-agent": "other/2"}))
    head = server.requests[0].lower()
    assert head.count(b"user-agent:") == 1
    assert b"user-agent: other/2" in head


@pytest.mark.parametrize(
    "path",
    ["/a%20b", "/%7Euser", "/a%2Fb?x=%2f&y=a+b", "/a;b=1,2?q=[1]|{2}", "/?a=b?c", "/a//b/", "/%zz"],
)
async def test_url_goes_out_as_given(serve, fetcher, path):
    server = await serve(HELLO)
    answered(await fetcher.fetch(Request(url=server.url(path))))
    assert server.requests[0].split(b" ")[1] == path.encode()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"accept": "text/plain", "X-Bytes": "a=\u00fc"}])
async def test_a_request_is_written_as_aiohttp_writes_it(serve, fetcher, method, headers):
    """yarl drops the mark of an empty query, and what yarl changes is left to the session."""
    server = await serve(HELLO, keep=True)
    for path in ("/a?b=c", "/a?b=c#"):
        request = Request(url=server.url(path), method=method, headers=headers)
        answered(await fetcher.fetch(request))
    direct, by_session = server.requests
    assert direct.startswith(f"{method} /a?b=c HTTP/1.1\r\nHost: raw.test".encode())
    assert direct == by_session


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b"])
async def test_a_header_that_would_end_its_line_is_not_sent(serve, fetcher, value):
    server = await serve(HELLO)
    failed(await fetcher.fetch(Request(url=server.url(), headers={"X-Own": value})))
    assert server.requests == []


@pytest.mark.parametrize("rest", ["", "?q=/"])
async def test_a_url_without_a_path_asks_for_the_root(serve, fetcher, rest):
    """No canonical URL, but it must not be taken for another host."""
    server = await serve(HELLO, keep=True)
    answered(await fetcher.fetch(Request(url=server.url("/"))))
    answered(await fetcher.fetch(Request(url=server.url(rest))))
    assert server.requests[1].split(b" ")[1] == b"/" + rest.encode()


@pytest.mark.parametrize("bad", ["/a b", "/a\r\nX: y", "/\u00fc", "/\x7f", "/\t"])
async def test_url_that_cannot_be_sent_is_not(serve, fetcher, bad):
    server = await serve(HELLO)
    failure = failed(await fetcher.fetch(Request(url=server.url(bad))))
    assert (failure.code, failure.permanent) == (FailureCode.PROTOCOL, True)
    assert server.connections == 0


async def test_redirect_is_an_answer(serve, fetcher):
    server = await serve(b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n")
    answer = answered(await fetcher.fetch(Request(url=server.url("/a"))))
    assert (answer.status, answer.headers["Location"]) == (302, "/b")
    assert len(server.requests) == 1


async def test_cookies_are_neither_kept_nor_sent(serve, fetcher):
    server = await serve(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n", keep=True
    )
    for _ in range(2):
        answered(await fetcher.fetch(Request(url=server.url())))
    assert b"cookie" not in server.requests[1].lower()


async def test_connections_are_kept_alive(serve, fetcher):
    server = await serve(HELLO, keep=True)
    for n in range(3):
        answered(await fetcher.fetch(Request(url=server.url(f"/{n}"))))
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_idle_connections_are_not_reused(serve):
    server = await serve(HELLO, keep=True)
    async with AiohttpFetcher(fetcher_config(), RealClock(), keepalive_s=0.02) as fetcher:
        answered(await fetcher.fetch(Request(url=server.url())))
        await server.gone.wait()  # idle too long: hung up on
        answered(await fetcher.fetch(Request(url=server.url())))
    assert (server.connections, len(server.requests)) == (2, 2)


async def test_exactly_one_request_when_a_fresh_connection_is_dropped(serve, fetcher):
    """aiohttp sends a GET again after a disconnect; here nobody does."""

    async def script(connection):
        await connection.request()

    server = await serve(script)
    failure = failed(await fetcher.fetch(Request(url=server.url())))
    assert failure.error == "protocol: the server closed the connection before responding"
    assert (failure.connected, failure.permanent) == (True, False)
    assert (server.connections, len(server.requests)) == (1, 1)


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_exactly_one_request_when_a_kept_connection_is_dropped(serve, fetcher, how):
    async def script(connection):
        await connection.request()
        await connection.send(HELLO)
        await connection.request()
        if how == "reset":
            connection.reset()

    server = await serve(script)
    answered(await fetcher.fetch(Request(url=server.url())))
    failure = failed(await fetcher.fetch(Request(url=server.url())))
    assert failure.error == f"protocol: the server {how} the connection before responding"
    assert (server.connections, len(server.requests)) == (1, 2)
    assert failure.stale


async def test_a_server_that_drops_kept_connections_gets_one_for_each_request(serve, fetcher):
    """The first loss is the connection's; afterwards none is kept, so that none can be lost."""

    async def script(connection):
        await connection.request()
        await connection.send(HELLO)
        await connection.request()

    server = await serve(script)
    answered(await fetcher.fetch(Request(url=server.url("/0"))))
    assert failed(await fetcher.fetch(Request(url=server.url("/1")))).stale
    for n in range(5):
        answered(await fetcher.fetch(Request(url=server.url(f"/{n}"))))
    assert server.connections == 6


async def test_all_kept_connections_that_are_dropped_are_stale(serve, fetcher):
    """Several to one origin, the others lost after the first."""
    arrived = 0
    together = asyncio.Event()

    async def script(connection):
        nonlocal arrived
        await connection.request()
        arrived += 1
        if arrived == 3:
            together.set()
        await together.wait()
        await connection.send(HELLO)
        await connection.request()

    server = await serve(script)

    async def three():
        requests = [Request(url=server.url(f"/{n}")) for n in range(3)]
        return await asyncio.gather(*map(fetcher.fetch, requests))

    for result in await three():
        answered(result)
    for result in await three():
        assert failed(result).stale
    for result in await three():
        answered(result)


async def test_silence_on_a_kept_connection_is_not_the_urls_fault(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(HELLO)
        await connection.client_gone()

    server = await serve(script)
    limits = FetchLimits(timeout_s=0.6)
    answered(await fetcher.fetch(Request(url=server.url(), limits=limits)))
    assert failed(await fetcher.fetch(Request(url=server.url(), limits=limits))).stale
    for _ in range(3):
        answered(await fetcher.fetch(Request(url=server.url(), limits=limits)))


async def test_a_fresh_connection_that_is_dropped_is_not_stale(serve, fetcher):
    async def script(connection):
        await connection.request()

    server = await serve(script)
    for _ in range(2):
        assert not failed(await fetcher.fetch(Request(url=server.url()))).stale


async def test_unwanted_body_is_not_downloaded(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n" + b"x" * 1000)
        await connection.drip(b"x" * 100_000, 0)

    server = await serve(script)
    asked: list[Head] = []

    def wants(head: Head) -> bool:
        asked.append(head)
        return False

    answer = answered(await fetcher.fetch(Request(url=server.url(), reader=Reads(wants=wants))))
    assert (answer.body, answer.body_read, answer.cut) == (b"", False, False)
    assert [(h.url, h.status, h.headers["Content-Type"]) for h in asked] == [
        (server.url(), 200, "video/mp4")
    ]
    await server.gone.wait()


async def test_unwanted_body_that_is_there_already_keeps_the_connection(serve, fetcher):
    server = await serve(HELLO, keep=True)
    for _ in range(2):
        answer = answered(
            await fetcher.fetch(Request(url=server.url(), reader=Reads(wants=lambda _head: False)))
        )
        assert not answer.body_read
    assert server.connections == 1


async def test_law_1_a_contact_ends_with_its_last_byte(serve, pushed_clock):
    """Not when its task gets round to it, for which many others may have to be dealt with; nor
    before the end of a body that only the end of the connection tells."""
    clock = pushed_clock
    pushed = asyncio.Event()

    def push(_: Head) -> bool:
        clock.ahead_s += 1000
        pushed.set()
        return True

    async def script(connection):
        await connection.request()
        await connection.send(HELLO)
        await connection.request()
        await connection.send(HELLO[:-1])
        await pushed.wait()
        await connection.send(HELLO[-1:])
        pushed.clear()
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await pushed.wait()

    server = await serve(script)
    async with AiohttpFetcher(fetcher_config(), clock) as fetcher:
        request = Request(url=server.url(), reader=Reads(wants=push))
        at_once = answered(await fetcher.fetch(request))
        pushed.clear()
        in_pieces = answered(await fetcher.fetch(request))
        until_closed = answered(await fetcher.fetch(request))
    assert at_once.elapsed_s < 500, "all of it was there before anybody looked at it"
    assert in_pieces.elapsed_s >= 1000
    assert until_closed.elapsed_s >= 1000


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_law_1_no_body_is_sent_on_after_its_answer(serve, fetcher):
    """A server may answer before it has read what it was sent; then it gets no more."""
    received = 0

    async def script(connection):
        nonlocal received
        await connection.request()
        await connection.send(HELLO)
        while data := await connection.reader.read(65536):
            received += len(data)
            await asyncio.sleep(0.001)

    server = await serve(script)
    body = bytes(50_000_000)
    answer = answered(await fetcher.fetch(Request(url=server.url(), method="POST", data=body)))
    assert answer.body == b"hello"
    await server.gone.wait()
    assert received < len(body) / 2
    again = answered(await fetcher.fetch(Request(url=server.url(), method="POST", data=b"x")))
    assert again.status == 200
    assert server.connections == 2


async def test_error_in_wants_body_is_the_callers_and_leaves_no_connection(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        await connection.client_gone()

    def broken(_head: Head) -> bool:
        raise ValueError("a bug")

    server = await serve(script)
    with pytest.raises(ValueError, match="a bug"):
        await fetcher.fetch(Request(url=server.url(), reader=Reads(wants=broken)))
    await server.gone.wait()


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_have_none(serve, fetcher, status):
    head = f"HTTP/1.1 {status} X\r\nContent-Length: 100\r\nContent-Encoding: gzip\r\n\r\n"
    server = await serve(head.encode(), keep=True)
    for _ in range(2):
        answer = answered(await fetcher.fetch(Request(url=server.url())))
        assert (answer.status, answer.body, answer.body_read) == (status, b"", True)
    assert server.connections == 1


async def test_head_has_no_body(serve, fetcher):
    server = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", keep=True)
    for _ in range(2):
        answer = answered(await fetcher.fetch(Request(url=server.url(), method="HEAD")))
        assert (answer.status, answer.body) == (200, b"")
    assert server.connections == 1


async def test_interim_answers_are_passed_over(serve, fetcher):
    server = await serve(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + HELLO
    )
    assert answered(await fetcher.fetch(Request(url=server.url()))).body == b"hello"


async def test_cancelled_fetch_leaves_no_connection(serve, fetcher):
    arrived = asyncio.Event()

    async def script(connection):
        await connection.request()
        arrived.set()
        await connection.client_gone()

    server = await serve(script)
    task = asyncio.ensure_future(fetcher.fetch(Request(url=server.url())))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.gone.wait()


async def test_own_deadline_leaves_the_task_uncancelled(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.client_gone()

    server = await serve(script)
    failed(await fetcher.fetch(Request(url=server.url(), limits=FetchLimits(timeout_s=0.05))))
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_body_over_its_bound_is_cut_only_where_that_is_asked_for(serve, fetcher):
    server = await serve(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000, keep=True
    )
    limits = FetchLimits(body_bytes_max=999)
    failure = failed(await fetcher.fetch(Request(url=server.url(), limits=limits)))
    assert failure.error == "too-large: the body is longer than 999 bytes"
    assert failure.status == 200
    answer = answered(await fetcher.fetch(Request(url=server.url(), limits=limits, cut_ok=True)))
    assert (len(answer.body), answer.cut) == (999, True)
    whole = FetchLimits(body_bytes_max=1000)
    answer = answered(await fetcher.fetch(Request(url=server.url(), limits=whole, cut_ok=True)))
    assert (len(answer.body), answer.cut) == (1000, False)


async def test_must_be_open(fetcher):
    closed = AiohttpFetcher(fetcher_config(), RealClock())
    with pytest.raises(RuntimeError, match="async with"):
        await closed.fetch(Request(url="http://a.test/"))


@pytest.mark.parametrize("at", ["connecting", "head", "body"])
async def test_cancellation_anywhere_is_passed_on_and_closes(serve, fetcher, at):
    arrived = asyncio.Event()

    async def script(connection):
        if at != "connecting":
            await connection.request()
        if at == "body":
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")
        arrived.set()
        await connection.client_gone()

    server = await serve(script)
    url = server.url(scheme="https" if at == "connecting" else "http")
    task = asyncio.ensure_future(fetcher.fetch(Request(url=url)))
    await arrived.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.gone.wait()


async def test_cancellation_wins_over_a_deadline_at_the_same_moment(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.client_gone()

    server = await serve(script)

    async def both() -> Answer | Failure:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.05, task.cancel)
        return await fetcher.fetch(Request(url=server.url(), limits=FetchLimits(timeout_s=0.05)))

    task = asyncio.ensure_future(both())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_connection_is_kept_beyond_what_the_process_may_have_open(
    serve, fetcher, monkeypatch
):
    server = await serve(HELLO, keep=True)
    monkeypatch.setattr("crawler.fetching.fetcher._kept_max", lambda _connections: 0)
    async with AiohttpFetcher(fetcher_config(), RealClock()) as frugal:
        for _ in range(2):
            answered(await frugal.fetch(Request(url=server.url())))
    assert server.connections == 2


async def test_many_at_once_each_get_their_own_answer(serve, fetcher):
    async def script(connection):
        while True:
            path = (await connection.request()).split(b" ")[1]
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(path)}\r\n\r\n"
            await connection.send(head.encode() + path)

    server = await serve(script)
    for _ in range(3):
        results = await asyncio.gather(
            *(fetcher.fetch(Request(url=server.url(f"/{n}"))) for n in range(50))
        )
        assert [answered(r).body for r in results] == [b"/%d" % n for n in range(50)]
    assert server.connections <= 50

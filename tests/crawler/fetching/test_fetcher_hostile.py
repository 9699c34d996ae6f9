"""Servers that mean harm or know no better: each case has its outcome by name, and in time."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib

import brotli  # type: ignore[import-untyped]
import pytest

from crawler.clock import RealClock
from crawler.fetching import connection_pool
from crawler.fetching.fetcher import AiohttpFetcher, Answer, Failure, FetchLimits, Request
from tests.crawler.conftest import fetcher_config

# Short enough for tests; the defaults are told apart by name in the sentences.
SOON = FetchLimits(timeout_s=0.6, rate_window_s=0.2)
WELL_WITHIN_S = 8.0  # of the defaults, on a busy machine


async def fail(fetcher, url, limits=SOON, **more) -> Failure:
    result = await fetcher.fetch(Request(url=url, limits=limits, **more))
    assert isinstance(result, Failure), result
    assert result.elapsed_s < WELL_WITHIN_S
    assert result.connected == (result.code not in {"dns", "connect", "tls", "address"})
    return result


async def answer(fetcher, url, limits=SOON, **more) -> Answer:
    result = await fetcher.fetch(Request(url=url, limits=limits, **more))
    assert isinstance(result, Answer), result
    return result


@pytest.fixture
async def fetcher():
    fetch = {"connect_timeout": "200ms", "first_byte_timeout": "200ms"}
    config = fetcher_config(fetch=fetch, site={"small.test": {"max_header": "1KB"}})
    async with AiohttpFetcher(config, RealClock()) as opened:
        yield opened


@pytest.fixture
def closed_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, not listening: refuses, and nobody else gets it
        yield sock.getsockname()[1]


# ---- connecting


async def test_refused(fetcher, closed_port):
    failure = await fail(fetcher, f"http://raw.test:{closed_port}/")
    assert failure.error == "connect: the server refused the connection"
    assert not failure.permanent


async def test_no_answer_to_the_connection(fetcher):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fill = []
        for _ in range(4):  # a full backlog: further SYNs go unanswered
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
            fill.append(sock)
        failure = await fail(fetcher, f"http://raw.test:{port}/")
        for sock in fill:
            sock.close()
    assert failure.error == "connect: no connection within 0.2 s"


async def test_plain_text_where_tls_was_asked_for(serve, fetcher):
    async def script(connection):
        await connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await connection.client_gone()

    server = await serve(script)
    failure = await fail(fetcher, server.url(scheme="https"))
    assert failure.error == "tls: the server does not speak TLS on this port"


async def test_tls_handshake_dropped(serve, fetcher):
    async def script(connection):
        await connection.reader.read(100)

    server = await serve(script)
    failure = await fail(fetcher, server.url(scheme="https"))
    assert failure.error == "tls: the server closed the connection during the TLS handshake"


async def test_tls_handshake_unanswered(serve, fetcher):
    async def script(connection):
        await connection.client_gone()

    server = await serve(script)
    failure = await fail(fetcher, server.url(scheme="https"))
    assert failure.error == "tls: the TLS handshake was not finished within 0.2 s"


# ---- before the response header is complete


async def test_silence(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.client_gone()

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "timeout: no response within 0.2 s"
    await server.gone.wait()


async def test_reset_before_the_header(serve, fetcher):
    async def script(connection):
        await connection.request()
        connection.reset()

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "protocol: the server reset the connection before responding"
    assert len(server.requests) == 1


@pytest.mark.parametrize(("how", "verb"), [("close", "closed"), ("reset", "reset")])
async def test_dropped_inside_the_header(serve, fetcher, how, verb):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
        if how == "reset":
            await asyncio.sleep(0.02)  # a RST overtakes what has not been read
            connection.reset()

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == (
        f"protocol: the server {verb} the connection in the middle of the response header"
    )
    assert len(server.requests) == 1


async def test_header_dripped(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nX: ")
        await connection.drip(b"y")

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "timeout: the response header was not complete within 0.2 s"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"220 smtp.test ESMTP\r\n",
        b"<html>HTTP 0.9</html>", b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
    ],
)  # fmt: skip
async def test_garbage_instead_of_http(serve, fetcher, garbage):
    server = await serve(garbage)
    failure = await fail(fetcher, server.url())
    assert failure.error == "protocol: the response is not HTTP"


async def test_header_field_of_9_kb_is_taken(serve, fetcher):
    server = await serve(
        b"HTTP/1.1 200 OK\r\nCSP: " + b"x" * 9_000 + b"\r\nContent-Length: 0\r\n\r\n"
    )
    assert len((await answer(fetcher, server.url())).headers["CSP"]) == 9_000


async def test_header_field_of_100_kb_is_too_large(serve, fetcher):
    server = await serve(
        b"HTTP/1.1 200 OK\r\nCSP: " + b"x" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n"
    )
    failure = await fail(fetcher, server.url())
    assert failure.error == "too-large: a header field is longer than 65,536 bytes"


async def test_too_many_header_fields(serve, fetcher):
    fields = b"".join(b"X-%d: y\r\n" % n for n in range(300))
    server = await serve(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 0\r\n\r\n")
    failure = await fail(fetcher, server.url())
    assert failure.error == "too-large: the response header has more than 256 fields"


@pytest.mark.parametrize("line", [b" y\r\n", b"\t\r\n"])
@pytest.mark.parametrize("piece", [1_000, 1])
async def test_too_many_continuation_lines(serve, fetcher, line, piece):
    """The parser copies the whole field for each."""

    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nX: y\r\n")
        await connection.drip(line * piece, 0)

    failure = await fail(fetcher, (await serve(script)).url())
    assert failure.error == "too-large: the response header has more than 256 continuation lines"


async def test_folded_fields_are_read(serve, fetcher):
    folded = b"X: y" + b"\r\n y" * 200
    server = await serve(b"HTTP/1.1 200 OK\r\n" + folded + b"\r\nContent-Length: 0\r\n\r\n")
    assert (await answer(fetcher, server.url())).headers["X"].count("y") == 201


async def test_endless_header(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n")
        await connection.drip(b"X: " + b"y" * 60_000 + b"\r\n", 0)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "too-large: the response header is longer than 262,144 bytes"


async def test_flood_of_interim_answers(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.drip(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000, 0)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "protocol: more than 16 interim (1xx) responses"


@pytest.mark.parametrize("line", [b"\r\n\r\n", b"X\r\n\r\n", b"HTTP/1.1 200\r\n\r\n"])
async def test_flood_of_empty_lines_costs_little(serve, fetcher, line):
    """Each read of it is looked at a bounded number of times."""
    server = await serve(line * 500_000)
    limits = FetchLimits(body_bytes_max=1_000)
    result = await fetcher.fetch(Request(url=server.url(), limits=limits))
    assert isinstance(result, Failure), result
    assert result.elapsed_s < 1


async def test_protocol_switched_unasked(serve, fetcher):
    server = await serve(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nabc"
    )
    failure = await fail(fetcher, server.url())
    assert failure.error == "protocol: the server switched protocols without being asked"
    await server.gone.wait()


# ---- the body


def chunked(rest: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + rest


def coded(coding: str, body: bytes, *, length: bool = True) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n"
    if length:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def test_content_length_longer_than_the_body(serve, fetcher):
    server = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
    failure = await fail(fetcher, server.url())
    assert failure.error == "body: the body is shorter than its Content-Length"
    assert failure.status == 200


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nX: \xe9\r\nContent-Length: 2\r\n\r\nok"],
        [b"HTTP/1.1 200 OK\r\nX: \xe9\r\nContent", b"-Length: 2\r\n\r\nok"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", b"X: \xe9\r\n\r\n", b"ok"],
        [b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nX: \xe9\r\nContent-Length: 2\r\n\r\nok"],
    ],
)
async def test_a_header_is_readable_in_whatever_pieces_it_comes(serve, fetcher, pieces):
    async def script(connection):
        await connection.request()
        for piece in pieces:
            await connection.send(piece)
            await asyncio.sleep(0.01)

    server = await serve(script)
    got = await answer(fetcher, server.url())
    assert got.headers["X"] == "é"
    assert got.body == b"ok"


@pytest.mark.parametrize("apart", [False, True])
async def test_content_length_shorter_than_the_body(serve, fetcher, apart):
    """What comes after the announced length is nothing we asked for: it never leaks into the next
    answer on the connection."""

    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        if apart:
            await asyncio.sleep(0.01)
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse")
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue")

    server = await serve(script)
    first = await fetcher.fetch(Request(url=server.url(), limits=SOON))
    assert isinstance(first, Answer), first
    assert first.body == b"hello"
    if apart:
        await server.gone.wait()  # an idle connection that speaks is hung up on
    second = await fetcher.fetch(Request(url=server.url(), limits=SOON))
    assert not (isinstance(second, Answer) and second.body == b"false"), second


async def test_content_length_shorter_than_the_body_followed_by_garbage(serve, fetcher):
    server = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more")
    result = await fetcher.fetch(Request(url=server.url(), limits=SOON))
    assert isinstance(result, Answer), result
    assert result.body == b"hello"


@pytest.mark.parametrize(
    "rest",
    [
        b"zz\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n", b"5\r\nhello\r\n", b"5\r\nhel",
        b"-5\r\nhello\r\n0\r\n\r\n", b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("apart", [False, True])
async def test_broken_chunking(serve, fetcher, rest, apart):
    async def script(connection):
        await connection.request()
        await connection.send(chunked(b""))
        if apart:
            await asyncio.sleep(0.01)
        await connection.send(rest)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "body: the chunked body is broken or incomplete"


@pytest.mark.parametrize("every_s", [0, 0.005])
@pytest.mark.parametrize(
    ("start", "again"),
    [
        (b"5\r\nhello\r\n0\r\n", b"X: " + b"y" * 60_000 + b"\r\n"),
        (b"5\r\nhello\r\n0\r\nX: ", b"y" * 60_000),
        (b"5\r\nhello\r\n5;x=", b"y" * 60_000),
        (b"5\r\nhello\r\n", b"0" * 60_000),
    ],
)
async def test_endless_framing(serve, fetcher, start, again, every_s):
    """Trailers, the extensions of a chunk, its length: not a byte of body in any of them."""

    async def script(connection):
        await connection.request()
        await connection.send(chunked(start))
        await connection.drip(again, every_s)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.code in {"body", "too-large"}
    assert ("trailer" in failure.sentence) or (failure.code == "body")
    await server.gone.wait()


async def test_trailer_of_too_many_bytes(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(chunked(b"5\r\nhello\r\n0\r\n"))
        await connection.drip(b"X: " + b"y" * 60_000 + b"\r\n", 0.005)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "too-large: the body's trailer is longer than 262,144 bytes"
    failure = await fail(fetcher, server.url(host="small.test"))
    assert failure.error == "too-large: the body's trailer is longer than 1,000 bytes"


async def test_trailer_of_too_many_fields(serve, fetcher):
    fields = b"".join(b"X-%d: y\r\n" % n for n in range(300))
    server = await serve(chunked(b"5\r\nhello\r\n0\r\n" + fields + b"\r\n"))
    failure = await fail(fetcher, server.url())
    assert failure.error == "body: the trailer of the chunked body is too long"


async def test_small_chunks_are_no_trailer(serve, fetcher):
    """Framing of several times the body, and more than the bound in all."""
    server = await serve(chunked(b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"))
    assert len((await answer(fetcher, server.url(), FetchLimits())).body) == 100_000


@pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"1;a=b\r\nx\r\n", b"00000001\r\nx\r\n"])
async def test_a_flood_of_small_chunks_has_a_bound(serve, fetcher, chunk):
    async def script(connection):
        await connection.request()
        await connection.send(chunked(b""))
        await connection.drip(chunk * 10_000, 0)

    server = await serve(script)
    failure = await fail(fetcher, server.url(), FetchLimits())
    assert failure.code == "too-large"
    assert "chunks so small" in failure.sentence
    await server.gone.wait()


@pytest.mark.parametrize("size", [10, 100, 5_000])
async def test_a_body_in_small_chunks_arrives_whole(serve, fetcher, size):
    """However many there are of them, and however many line breaks are in it."""
    body = b"a\nb" * 200_000
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    server = await serve(chunked(framed + b"0\r\n\r\n"))
    assert (await answer(fetcher, server.url(), FetchLimits())).body == body


async def test_small_chunks_do_not_delay_others(serve, fetcher):
    """They are parsed a few at a time, so no timer is late."""

    async def script(connection):
        await connection.request()
        await connection.send(chunked(b"8\r\n12345678\r\n" * 60_000 + b"0\r\n\r\n"))
        await connection.client_gone()

    servers = [await serve(script) for _ in range(4)]
    steps: list[None] = []
    parse = connection_pool.PooledConnection.parse_slice

    def timed(connection):
        steps.append(None)
        return parse(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection_pool.PooledConnection, "parse_slice", timed)
        fetches = (fetcher.fetch(Request(url=server.url())) for server in servers)
        assert {len(result.body) for result in await asyncio.gather(*fetches)} == {480_000}
    assert len(steps) >= 4 * 13 * 60_000 // 4_096 // 2  # all of it but the first pieces


async def test_endless_body(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.drip(b"x" * 65_536, 0)

    server = await serve(script)
    limits = FetchLimits(body_bytes_max=1_000_000)
    failure = await fail(fetcher, server.url(), limits)
    assert failure.error == "too-large: the body is longer than 1,000,000 bytes"
    await server.gone.wait()


async def test_announced_body_over_its_bound_is_not_downloaded(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000001\r\n\r\n")
        await connection.client_gone()

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "too-large: the body is longer than 10,000,000 bytes"


async def test_body_dripped(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.drip(b"x", 0.02)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "timeout: the body arrived at less than 100 bytes per second for 0.2 s"


async def test_body_that_keeps_its_rate_meets_the_total_time(serve, fetcher):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.drip(b"x" * 100, 0.02)

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.error == "timeout: the response was not complete within 0.6 s"
    assert failure.elapsed_s > 0.59


async def test_body_that_ends_with_the_connection(serve, fetcher):
    server = await serve(b"HTTP/1.0 200 OK\r\n\r\nhello")
    assert (await answer(fetcher, server.url())).body == b"hello"


@pytest.mark.parametrize(
    "head", [b"", b"Content-Length: 1000\r\n", b"Transfer-Encoding: chunked\r\n"]
)
async def test_reset_inside_the_body(serve, fetcher, head):
    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        await connection.send(b"5\r\nhello\r\n")
        await asyncio.sleep(0.02)
        connection.reset()

    server = await serve(script)
    failure = await fail(fetcher, server.url())
    assert failure.code == "body"
    assert failure.status == 200


# ---- content codings

TEXT = b"".join(b"line %d of a text\n" % n for n in range(5000))


def zstd_compress(data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from backports import zstd
    return zstd.compress(data)


CODINGS = {
    "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress,
    "zstd": zstd_compress,
}  # fmt: skip


@pytest.mark.parametrize("coding", CODINGS)
async def test_coding(serve, fetcher, coding):
    body = CODINGS[coding](TEXT)
    server = await serve(coded(coding, body))
    result = await answer(fetcher, server.url())
    assert result.body == TEXT
    assert len(body) < result.wire_bytes < len(body) + 200


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("coding", CODINGS)
async def test_truncated_coding(serve, fetcher, coding, length):
    """The connection's framing is whole; the stream inside is not."""
    server = await serve(coded(coding, CODINGS[coding](TEXT)[:-20], length=length))
    failure = await fail(fetcher, server.url())
    assert failure.error == f"body: the {coding.removeprefix('x-')} body is incomplete"


@pytest.mark.parametrize("coding", CODINGS)
async def test_coding_that_is_not_what_it_says(serve, fetcher, coding):
    server = await serve(coded(coding, b"<html>plain text all the same</html>"))
    failure = await fail(fetcher, server.url())
    assert failure.code == "body"


@pytest.mark.parametrize("coding", CODINGS)
async def test_bomb_stops_at_the_bound(serve, fetcher, coding):
    bomb = CODINGS[coding](bytes(10_000_000))
    server = await serve(coded(coding, bomb))
    limits = FetchLimits(body_bytes_max=1_000_000)
    failure = await fail(fetcher, server.url(), limits)
    assert failure.error == "too-large: the body is longer than 1,000,000 bytes"
    server = await serve(coded(coding, bomb))
    kept = await answer(fetcher, server.url(), limits, cut_ok=True)
    assert (len(kept.body), kept.cut) == (1_000_000, True)


async def test_stream_that_never_says_anything(serve, fetcher):
    """Empty deflate blocks: no output, no end."""

    async def script(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        await connection.send(gzip.compress(b"")[:10])
        await connection.drip(b"\x00\x00\x00\xff\xff" * 20_000, 0)

    server = await serve(script)
    failure = await fail(fetcher, server.url(), FetchLimits(body_bytes_max=1_000_000))
    assert failure.code == "too-large"


# ---- one does not harm the other


async def test_others_go_on_meanwhile(serve, fetcher):
    async def flood(connection):
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.drip(b"x" * 65_536, 0)

    async def mute(connection):
        await connection.request()
        await connection.client_gone()

    bad = [await serve(flood), await serve(mute), await serve(b"\x00" * 1000)]
    good = await serve(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", keep=True)
    clock = RealClock()
    started_s = clock.monotonic()
    limits = FetchLimits(body_bytes_max=5_000_000)
    urls = [server.url() for server in [*bad, good] for _ in range(4)]
    results = await asyncio.gather(*(fetcher.fetch(Request(url=u, limits=limits)) for u in urls))
    assert [getattr(r, "code", "ok") for r in results] == [
        *["too-large"] * 4, *["timeout"] * 4, *["protocol"] * 4, *["ok"] * 4,
    ]  # fmt: skip
    assert clock.monotonic() - started_s < WELL_WITHIN_S

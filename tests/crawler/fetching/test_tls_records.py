"""Records far smaller than what they cost are noticed, and others are not."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from asyncio.sslproto import SSLProtocol

import pytest

from crawler.fetching.costly_input import OVERHEAD_BYTES_MAX, READ_BYTES, RECORD_BYTES
from crawler.fetching.fetcher import Answer, Failure, Request
from tests.crawler.fetching.test_fetcher_tls import Authority, opened
from tests.crawler.fetching.test_fetcher_tls import authority as authority  # noqa: PLC0414

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what arrives")


def _serve(listener: socket.socket, context: ssl.SSLContext, body: bytes, size: int) -> None:
    try:
        with listener.accept()[0] as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(plain, server_side=True) as connection:
                connection.recv(65_536)
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                for at in range(0, len(body), size):
                    connection.send(body[at : at + size])
                connection.recv(1)
    except OSError:
        pass  # the client has closed it


async def _fetch(authority: Authority, body: bytes, size: int) -> Answer | Failure:
    """The result of a request whose answer comes in records of `size` bytes."""
    context = authority.server()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_serve, args=(listener, context, body, size), daemon=True)
        server.start()
        port = listener.getsockname()[1]
        async with opened(fetch={"ca_file": str(authority.file)}) as fetcher:
            result = await fetcher.fetch(Request(url=f"https://raw.test:{port}/"))
        await asyncio.to_thread(server.join)
    return result


async def test_records_of_one_byte_have_a_bound(authority: Authority) -> None:
    result = await _fetch(authority, b"x" * OVERHEAD_BYTES_MAX, 1)
    assert isinstance(result, Failure), result
    assert result.code == "too-large"
    assert result.sentence.startswith("TLS records so small that ")


async def test_a_read_decrypts_few_records(authority: Authority) -> None:
    """And reserves no more memory for each than a record may have."""
    made: list[SSLProtocol] = []
    real = SSLProtocol.connection_made

    def connection_made(self: SSLProtocol, transport: asyncio.BaseTransport) -> None:
        made.append(self)
        real(self, transport)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SSLProtocol, "connection_made", connection_made)
        await _fetch(authority, b"x" * 1_000, 1_000)
    (protocol,) = made
    assert len(protocol.get_buffer(-1)) == READ_BYTES
    assert protocol.max_size == RECORD_BYTES


@pytest.mark.parametrize(("length", "size"), [(200_000, 40), (3_000_000, 16_384), (1_000, 1)])
async def test_records_of_any_usual_size_are_read(
    authority: Authority, length: int, size: int
) -> None:
    result = await _fetch(authority, b"x" * length, size)
    assert isinstance(result, Answer), result
    assert len(result.body) == length

"""One front door for every server: the page and the API, the Unix socket of a crawl, and the tools
of language models over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crawler import PoliteSession
from crawler.clock import RealClock
from crawler.daemon.http.guards import HttpSettings
from crawler.fetching.guard import AddressRefusedError, socket_guard
from crawler.front_door import bodies, connections
from crawler.front_door.connections import CONNECTIONS_MAX, HEAD_BYTES_MAX
from crawler.front_door.listener import HANDSHAKES_MAX, bind
from crawler.front_door.request_handler import HEADERS_MAX
from crawler.front_door.tls import Certificate
from crawler.mcp_server.http_transport import PATH, serving_http
from crawler.mcp_server.server import make_server
from crawler.mcp_server.tools import Tools
from policies.address import AddressRules
from storage.socket_path import socket_path
from tests.crawler.daemon.certificates import OPENSSL, make_certificate
from tests.crawler.mcp_server.conftest import AGENT, HELLO

TOKEN = "correct horse battery staple"
HEAD_S = 0.6
BODY_S = 0.4
BEARER = f"Authorization: Bearer {TOKEN}"
Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


@dataclass(frozen=True)
class Server:
    """A server under test. method, path, body: of a request that it accepts. steers: a path that
    reads a body."""

    place: tuple[str, int] | Path
    method: str
    path: str
    body: bytes
    steers: str
    token: str = ""

    async def connect(self) -> tuple[Reader, Writer]:
        if isinstance(self.place, Path):
            return await asyncio.open_unix_connection(self.place)
        return await asyncio.open_connection(*self.place)

    def request(self, *headers: str, host: str = "localhost") -> bytes:
        return self.head(self.method, self.path, len(self.body), *headers, host=host) + self.body

    def head(
        self, method: str, path: str, length: int | None, *headers: str, host: str = "localhost"
    ) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
        if self.token:
            lines.append(BEARER)
        lines += ["Accept: application/json, text/event-stream"]
        if length is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode()

    async def status_of(self, *pieces: bytes) -> int:
        """The status of the response to some bytes."""
        reader, writer = await self.connect()
        try:
            for piece in pieces:
                writer.write(piece)
            return await status_in(reader)
        finally:
            writer.close()


async def status_in(reader: Reader) -> int:
    """0: closed without a response."""
    async with asyncio.timeout(10):
        try:
            line = await reader.readline()
        except ConnectionError:
            return 0
    return int(line.split()[1]) if line else 0


async def closed(reader: Reader) -> bool:
    try:
        async with asyncio.timeout(10):
            while await reader.read(65_536):
                pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def tools_over_http(
    token: str, certificate: Certificate | None = None
) -> AsyncIterator[Server]:
    clock = RealClock()
    (bound,) = await bind("127.0.0.1", 0)
    with closing(bound):
        async with PoliteSession(user_agent=AGENT) as session:
            server = make_server(Tools(session, clock, config=session.config), clock)
            async with serving_http(server, [bound], clock, token=token, certificate=certificate):
                place = bound.getsockname()
                yield Server(place, "POST", PATH, json.dumps(HELLO).encode(), PATH, token)


@asynccontextmanager
async def in_own_task(context: AbstractAsyncContextManager[Server]) -> AsyncIterator[Server]:
    """anyio requires that the task that began it ends it, and a fixture has two."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Server] = loop.create_future()
    over = asyncio.Event()

    async def hold() -> None:
        async with context as server:
            found.set_result(server)
            await over.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        yield await found
        over.set()


@pytest.fixture(params=["page", "page with a token", "socket", "tools", "tools with a token"])
async def server(
    request: pytest.FixtureRequest, start: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Server]:
    monkeypatch.setattr(connections, "CHECK_EVERY_S", HEAD_S / 4)
    kind = str(request.param)
    token = TOKEN if "token" in kind else ""
    if kind.startswith("tools"):
        async with in_own_task(tools_over_http(token)) as made:
            yield made
        return
    async with start(settings=HttpSettings(token=token)) as daemon:
        local = kind == "socket"
        place = socket_path(daemon.database) if local else ("127.0.0.1", daemon.port)
        yield Server(place, "GET", "/api/status", b"", "/api/seeds", token)


# ------------------------------------------------------------ many connections


async def test_silent_connections_starve_nobody(server: Server) -> None:
    """Whether they send nothing, an empty line or a part of a header."""
    sent = (b"", server.request()[:40], b"\r\n", server.method.encode())
    opened = []
    for number in range(CONNECTIONS_MAX + 40):
        opened.append(await server.connect())
        opened[-1][1].write(sent[number % len(sent)])
    for _ in range(3):
        assert await server.status_of(server.request()) == 200
    for _, writer in opened:
        writer.close()


async def test_connections_that_wait_for_their_next_request_starve_nobody(server: Server) -> None:
    opened = [await server.connect() for _ in range(CONNECTIONS_MAX)]
    for reader, writer in opened:
        writer.write(server.request())
        assert await status_in(reader) == 200
    for _ in range(3):
        assert await server.status_of(server.request()) == 200
    for _, writer in opened:
        writer.close()


async def test_what_sends_nothing_or_too_slowly_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", HEAD_S)
    silent, slow, again = opened = [await server.connect() for _ in range(3)]
    again[1].write(server.request())
    assert await status_in(again[0]) == 200
    again[1].write(b"G")  # of a further request
    for byte in server.request()[:4]:
        slow[1].write(bytes([byte]))
        await asyncio.sleep(HEAD_S / 6)
    for reader, _ in (silent, slow, again):
        assert await closed(reader)
    for _, writer in opened:
        writer.close()


# ------------------------------------------------------------ what is sent


def flood(server: Server) -> bytes:
    line = server.request().partition(b"\r\n")[0]
    return line + b"\r\n" + b"".join(b"X%d: %s\r\n" % (n, b"y" * 4_000) for n in range(60))


MALFORMED: Mapping[str, tuple[Callable[[Server], bytes], int]] = {
    "a header flood": (flood, 431),
    "too many headers": (
        lambda server: server.request(*(f"X-{n}: y" for n in range(HEADERS_MAX + 5))),
        400,
    ),
    "a long header": (lambda server: server.request("X: " + "y" * 9_000), 400),
    "no HTTP": (lambda server: b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "a header without a name": (lambda server: server.request(": y"), 400),
    "two lengths": (lambda server: server.request("Content-Length: 5", "Content-Length: 6"), 400),
    "a length and chunks": (
        lambda server: server.head("POST", server.steers, 5, "Transfer-Encoding: chunked") + b"0",
        400,
    ),
}


async def test_what_is_no_http_is_answered_and_not_quoted(server: Server) -> None:
    for name, (made, status) in MALFORMED.items():
        reader, writer = await server.connect()
        writer.write(made(server).replace(b"localhost", b"localhost-canary"))
        async with asyncio.timeout(10):
            answer = await reader.read(65_536)
        assert int(answer.split()[1]) == status, (name, answer[:200])
        assert b"canary" not in answer
        assert b"application/problem+json" in answer
        writer.close()
        assert await server.status_of(server.request()) == 200, name


async def test_the_bound_of_a_header_is_counted_for_each_request(server: Server) -> None:
    reader, writer = await server.connect()
    padded = server.request("X: " + "y" * 8_000)
    for _ in range(HEAD_BYTES_MAX // 5_000 + 2):
        writer.write(padded[:5_000])
        await asyncio.sleep(0.01)
        writer.write(padded[5_000:])
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0]
        lengths = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
        await reader.readexactly(int(lengths[0].partition(b":")[2]))
    writer.close()


async def test_bodies_are_bounded_in_size_and_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", BODY_S)
    slow = server.head("POST", server.steers, 100)
    assert await server.status_of(slow, b"{") == 408
    large = server.head("POST", server.steers, 50_000_000)
    assert await server.status_of(large, b"{" * 100_000) in (408, 413)
    typed = ("Transfer-Encoding: chunked", "Content-Type: application/json")
    chunked = server.head("POST", server.steers, None, *typed)
    pieces = [b"10000\r\n" + b" " * 65_536 + b"\r\n"] * 80
    assert await server.status_of(chunked, *pieces) == 413


# ------------------------------------------------------------ whose requests


async def test_other_sites_are_refused(server: Server) -> None:
    if isinstance(server.place, Path):
        return  # no page of a browser reaches it
    foreign = server.request("Origin: https://evil.example")
    assert await server.status_of(foreign) == 403
    if not (server.token and server.path == PATH):  # there the token says enough
        assert await server.status_of(server.request(host="evil.example")) == 403


async def test_crawlers_are_told_to_fetch_nothing(server: Server) -> None:
    """Also those of another process, which came by any name."""
    for host in ("localhost", "evil.example"):
        reader, writer = await server.connect()
        writer.write(f"GET /robots.txt HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        async with asyncio.timeout(10):
            answer = await reader.readuntil(b"Disallow: /\n")
        assert b" 200 " in answer
        writer.close()


async def test_no_fetch_leads_to_a_listener_of_this_process(server: Server) -> None:
    if isinstance(server.place, Path):
        return  # no URL leads to it
    port = server.place[1]
    make = socket_guard(AddressRules.parse(["0.0.0.0/0", "::/0"]))
    for address in ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        peer = (address, port, 0, 0) if ":" in address else (address, port)
        if address != "0.0.0.0" or server.path == PATH:
            with pytest.raises(AddressRefusedError, match="this crawler itself listens"):
                make((family, socket.SOCK_STREAM, 0, "", peer))
    make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port - 1))).close()


async def test_tools_are_served_with_a_certificate(
    agent_tls: tuple[Server, ssl.SSLContext],
) -> None:
    """And handshakes that are never completed starve nobody."""
    server, context = agent_tls
    assert not isinstance(server.place, Path)
    silent = [await server.connect() for _ in range(HANDSHAKES_MAX + 10)]
    reader, writer = await asyncio.open_connection(*server.place, ssl=context)
    writer.write(server.request())
    assert await status_in(reader) == 200
    for _, one in [*silent, (reader, writer)]:
        one.close()


@pytest.fixture
async def agent_tls(tmp_path: Path) -> AsyncIterator[tuple[Server, ssl.SSLContext]]:
    if OPENSSL is None:
        pytest.skip("no openssl to make certificates with")
    make_certificate(tmp_path)
    made = Certificate(tmp_path / "page.pem", tmp_path / "page.key")
    async with in_own_task(tools_over_http("", made)) as server:
        yield server, ssl.create_default_context(cafile=str(tmp_path / "page.pem"))


def test_every_listener_is_behind_the_front_door() -> None:
    """Only there is it registered as a place that no fetch may lead to."""
    root = Path(__file__).parents[3]
    opens = re.compile(r"\b(create_(unix_)?server|start_(unix_)?server|(TCP|Unix|Sock)Site)\(")
    found = {
        path.relative_to(root).as_posix()
        for path in (root / "crawler").rglob("*.py")
        if opens.search(path.read_text(encoding="utf-8"))
    }
    # A local web, for tests and `courtly demo`, is there to be fetched from.
    assert found == {"crawler/front_door/listener.py", "crawler/testing/local_web.py"}

"""Raw servers on loopback: they say the bytes they are given, and count what they are asked."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest
from aiohttp.abc import AbstractResolver

from crawler.clock import Clock, RealClock
from crawler.config import Config, from_dict
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.resolver import Resolver
from policies.address import AddressRules


@dataclass
class RawConnection:
    """One connection of a raw server, in the hands of the test's script."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: RawServer

    async def request(self) -> bytes:
        """The next request's head. Raises IncompleteReadError when the client has hung up."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.server.requests.append(head)
        return head

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def client_gone(self) -> None:
        """Wait for the client to hang up."""
        while await self.reader.read(65536):
            pass

    async def drip(self, data: bytes, every_s: float = 0.01) -> None:
        """Send the same again and again until the client hangs up."""
        while True:
            await self.send(data)
            await asyncio.sleep(every_s)

    def reset(self) -> None:
        """End the connection with a RST instead of a FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[RawConnection], Awaitable[None]]


@dataclass
class RawServer:
    """requests: heads as received, over all connections."""

    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/", *, host: str = "raw.test", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


Serve = Callable[..., Awaitable[RawServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(script)` starts a server whose every connection runs `script`; given bytes, it
    answers each request with them and hangs up. `gone` is set when a connection has ended."""
    tasks: set[asyncio.Task[None]] = set()
    servers: list[asyncio.Server] = []

    async def start(
        script: Script | bytes, *, tls: ssl.SSLContext | None = None, keep: bool = False
    ) -> RawServer:
        raw = RawServer()

        async def answer(connection: RawConnection) -> None:
            assert isinstance(script, bytes)
            while True:
                await connection.request()
                await connection.send(script)
                if not keep:
                    return

        run = answer if isinstance(script, bytes) else script

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            raw.connections += 1
            try:
                await run(RawConnection(reader, writer, raw))
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()
                raw.gone.set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(handle(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
        servers.append(server)
        raw.port = server.sockets[0].getsockname()[1]
        return raw

    yield start
    for server in servers:
        server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)


class PushedClock(RealClock):
    """The machine's, ahead by what a test says."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@pytest.fixture
async def pushed_clock() -> PushedClock:
    return PushedClock()


LOOPBACK = AddressRules.parse(["127.0.0.0/8", "::1/128"])


def fetcher_config(*, base: Path | None = None, **sections: object) -> Config:
    """A config for a fetcher that may connect to loopback, where every name under test is."""
    usual: dict[str, object] = {
        "crawl": {
            "user_agent": "examplebot/1.0 (+https://example.com/bot)",
            "from": "bot@example.com",
            "concurrency": 4,
        },
        "network": {"allow": ["127.0.0.0/8", "::1/128"], "resolve": {"*.test": "127.0.0.1"}},
    }
    return from_dict({**usual, **sections}, base=base)


class GivenDns(Resolver):
    """A Resolver that makes its system resolvers by calling `system`."""

    def __init__(
        self,
        system: Callable[[], AbstractResolver],
        clock: Clock,
        *,
        table: Mapping[str, str] = MappingProxyType({}),
        addresses: AddressRules = LOOPBACK,
        pin: bool = False,
    ) -> None:
        super().__init__(table, addresses, clock, pin=pin)
        self._make_system = system

    def new_system_resolver(self) -> AbstractResolver:
        return self._make_system()


@pytest.fixture
async def fetcher() -> AsyncIterator[AiohttpFetcher]:
    async with AiohttpFetcher(fetcher_config(), RealClock()) as opened:
        yield opened

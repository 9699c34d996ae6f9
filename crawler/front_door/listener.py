"""Listening sockets: where every server of this program accepts its connections, with or without
TLS. No fetch of this process may lead to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crawler.clock import Clock
from crawler.fetching.guard import listening
from crawler.front_door.connections import oldest_of_largest, peer_of
from crawler.front_door.request_handler import MalformedLog
from crawler.front_door.tls import Certificate

BACKLOG: Final = 128  # connections waiting to be accepted; the default of aiohttp
HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64  # at a time; a further one displaces the oldest of the largest client
ACCEPT_AGAIN_S: Final = 1.0  # after the system had no resources for a connection

Protocols = Callable[[], asyncio.BaseProtocol]


async def bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the name (localhost has two). Raises OSError."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(infos):
            one = socket.create_server(address, family=family, backlog=BACKLOG)
            one.setblocking(False)
            made.append(one)
    except OSError:
        for one in made:
            one.close()
        raise
    return made


def listen_error(error: OSError) -> str:
    """The message of the system, without what Python adds to it; or our own sentence."""
    if error.errno and error.errno > 0 and type(error) is not socket.gaierror:
        return os.strerror(error.errno).lower()
    return str(error)


def url_of(bound: socket.socket, certificate: Certificate | None) -> str:
    """The URL of a socket's server, without a path."""
    host, port = bound.getsockname()[:2]
    scheme = "http" if certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


@contextlib.asynccontextmanager
async def accepting(
    sockets: Sequence[socket.socket],
    connections: Protocols,
    clock: Clock,
    *,
    certificate: Certificate | None = None,
    malformed: MalformedLog | None = None,
) -> AsyncIterator[None]:
    """Accept connections while this is open. The caller closes the sockets, and removes the file of
    a Unix socket. malformed: where failed TLS handshakes are recorded."""
    with contextlib.ExitStack() as stack:
        for one in sockets:
            if one.family != socket.AF_UNIX:
                stack.enter_context(listening(*one.getsockname()[:2]))
        if certificate is None:
            servers = [await _plain_server(one, connections) for one in sockets]
            try:
                yield
            finally:
                for server in servers:
                    server.close()
            return
        handshakes = Handshakes(connections, certificate, malformed, clock)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(handshakes.accept(one)) for one in sockets]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await handshakes.close()


async def _plain_server(bound: socket.socket, connections: Protocols) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    if bound.family != socket.AF_UNIX:
        return await loop.create_server(connections, sock=bound, backlog=BACKLOG)
    # From Python 3.13 on, asyncio would look the socket up under the name that it was bound to,
    # which may be a short one that no longer exists, and delete it.
    keep: dict[str, Any] = {} if sys.version_info < (3, 13) else {"cleanup_socket": False}
    return await loop.create_unix_server(connections, sock=bound, backlog=BACKLOG, **keep)


@dataclass(eq=False, slots=True)
class _Handshake:
    """One that has begun. task: None until it has started."""

    peer: str
    task: asyncio.Task[None] | None = None


class Handshakes:
    """TLS handshakes, which come before a connection is one of `Connections`, and are bounded here:
    in number and in time."""

    def __init__(
        self,
        connections: Protocols,
        certificate: Certificate,
        malformed: MalformedLog | None,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._certificate = certificate
        self._malformed = malformed
        self._clock = clock
        self._begun: dict[_Handshake, None] = {}  # in the order they began

    def __len__(self) -> int:
        return len(self._begun)

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError:  # no descriptors or memory at this moment, or the client is gone
                await self._clock.sleep_until(self._clock.monotonic() + ACCEPT_AGAIN_S)
                continue
            if len(self._begun) >= HANDSHAKES_MAX:
                self._end(oldest_of_largest(self._begun))
            one = _Handshake(peer_of(str(address[0])))
            self._begun[one] = None
            one.task = loop.create_task(self._shake(accepted, one))

    async def close(self) -> None:
        """Cancel the handshakes that are under way."""
        tasks = [one.task for one in self._begun if one.task is not None]
        for one in list(self._begun):
            self._end(one)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, one: _Handshake) -> None:
        del self._begun[one]
        if one.task is not None:
            one.task.cancel()

    async def _shake(self, accepted: socket.socket, one: _Handshake) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connections,
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else None
            if self._malformed is not None:
                self._malformed.malformed(one.peer, f"TLS {reason or type(error).__name__}")
        finally:
            self._begun.pop(one, None)

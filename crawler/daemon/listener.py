"""The listener of the page and the API: an address with or without TLS, or a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Final

from crawler.clock import Clock
from crawler.config.daemon_section import DaemonConfig
from crawler.daemon import unix_socket
from crawler.daemon.connections import Connections, peer_of
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.daemon.tls import Certificate
from crawler.fetching.guard import listening

HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64  # at a time; a further one displaces the oldest
ACCEPT_AGAIN_S: Final = 1.0  # after the system had no resources for a connection


class ListenError(Exception):
    """The daemon cannot listen on its address; the message gives the reason."""


@contextlib.asynccontextmanager
async def listening_on(
    section: DaemonConfig,
    connections: Connections,
    certificate: Certificate | None,
    *,
    access: AccessLog,
    clock: Clock,
) -> AsyncIterator[str]:
    """Listen while this is open; yields the URL of the page, or `listen` for a Unix socket. access:
    where failed TLS handshakes are logged. Raises ListenError."""
    if (path := section.unix_path) is not None:
        with _refused(section):
            bound, file = unix_socket.bind_page(
                path, section.listen_file_mode, section.listen_group
            )
        try:
            async with unix_socket.accepting(bound, connections):
                yield section.listen
        finally:
            bound.close()
            unix_socket.remove(path, file)
        return
    with _refused(section):
        found = await _bound(section)
    with contextlib.ExitStack() as stack:
        for one in found:
            stack.enter_context(contextlib.closing(one))
            stack.enter_context(listening(*one.getsockname()[:2]))
        host, port = found[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        scheme = "http" if certificate is None else "https"
        async with _accepting(found, connections, certificate, access=access, clock=clock):
            yield f"{scheme}://{shown}:{port}{section.base_path}/"


@contextlib.contextmanager
def _refused(section: DaemonConfig) -> Iterator[None]:
    """Turn an OSError into a ListenError."""
    try:
        yield
    except OSError as error:
        raise ListenError(
            f"cannot listen on {section.listen} (daemon.listen): {listen_error(error)}"
        ) from None


def listen_error(error: OSError) -> str:
    """The message of the system, without what Python adds to it; or our own sentence."""
    if error.errno and error.errno > 0 and type(error) is not socket.gaierror:
        return os.strerror(error.errno).lower()
    return str(error)


async def _bound(section: DaemonConfig) -> list[socket.socket]:
    """A socket for each address of the name (localhost has two). Raises OSError."""
    host, port = section.listens_on
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(infos):
            one = socket.create_server(address, family=family, backlog=unix_socket.BACKLOG)
            one.setblocking(False)
            made.append(one)
    except OSError:
        for one in made:
            one.close()
        raise
    return made


@contextlib.asynccontextmanager
async def _accepting(
    sockets: list[socket.socket],
    connections: Connections,
    certificate: Certificate | None,
    *,
    access: AccessLog,
    clock: Clock,
) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    if certificate is None:
        servers = [
            await loop.create_server(connections, sock=one, backlog=unix_socket.BACKLOG)
            for one in sockets
        ]
        try:
            yield
        finally:
            for server in servers:
                server.close()
        return
    handshakes = Handshakes(connections, certificate, access, clock)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(handshakes.accept(one)) for one in sockets]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await handshakes.close()


class Handshakes:
    """TLS handshakes, which come before a connection is one of `Connections`, and are bounded here:
    in number and in time."""

    def __init__(
        self,
        connections: Connections,
        certificate: Certificate,
        access: AccessLog,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._certificate = certificate
        self._access = access
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order they began

    def __len__(self) -> int:
        return len(self._tasks)

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError:  # no descriptors or memory at this moment, or the client is gone
                await self._clock.sleep_until(self._clock.monotonic() + ACCEPT_AGAIN_S)
                continue
            if len(self._tasks) >= HANDSHAKES_MAX:
                oldest = next(iter(self._tasks))
                oldest.cancel()
                del self._tasks[oldest]
            task = loop.create_task(self._shake(accepted, peer_of(str(address[0]))))
            self._tasks[task] = None
            task.add_done_callback(self._forget)

    async def close(self) -> None:
        """Cancel the handshakes that are under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    async def _shake(self, accepted: socket.socket, peer: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connections,
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else None
            self._access.malformed(peer, f"TLS {reason or type(error).__name__}")

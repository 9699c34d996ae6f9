"""The connections to the daemon: bounded in number, with room for the operator whoever opens
others, and none kept whose peer reads nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from typing import Final, cast

from aiohttp import web

from crawler.clock import Clock, Timer

CONNECTIONS_MAX: Final = 256  # with 64 listeners and the pages of some browsers, plenty
HEADER_S: Final = 60.0  # for a request's header to arrive, on a connection kept open as well
# A connection whose peer has not read any of what waits for it in this time is closed. TCP itself
# waits for ever for a peer that acknowledges but does not read.
STALLED_S: Final = 20.0
LOOK_EVERY_S: Final = 5.0
SHUTDOWN_S: Final = 2.0  # for answers under way at the end


@contextlib.asynccontextmanager
async def serving(app: web.Application, clock: Clock) -> AsyncIterator[Connections]:
    """Serve an application on what the protocol factory given here is bound to. The caller closes
    its listener; answers under way have SHUTDOWN_S when the block ends."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        keepalive_timeout=HEADER_S,
    )
    await runner.setup()
    assert runner.server is not None
    connections = Connections(runner.server, clock)
    try:
        yield connections
    finally:
        await runner.cleanup()
        connections.close()


class Connections:
    """Make the connections of one server (call it as a protocol factory).

    When CONNECTIONS_MAX are open, a new one takes the place of one on which no request was let in
    yet: the oldest of the peer that has most of those. Who has no token can therefore not use up
    the connections, and can only displace the operator's during the moment between its opening and
    its first request. Where every connection has proved itself, the new one is closed.
    """

    def __init__(self, server: web.Server, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._open: dict[Connection, None] = {}  # in the order in which they were opened
        self._timer: Timer | None = None

    def __call__(self) -> asyncio.BaseProtocol:
        return Connection(self, self._server())

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, one: Connection) -> None:
        self._open[one] = None
        if len(self._open) > CONNECTIONS_MAX:
            (self._displaced() or one).abort()
        if self._timer is None:
            self._look_later()

    def closed(self, one: Connection) -> None:
        self._open.pop(one, None)

    def close(self) -> None:
        """Abort those still open: at the end, when answers have had their time."""
        for one in list(self._open):
            one.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _displaced(self) -> Connection | None:
        by_peer: dict[str, list[Connection]] = {}
        for one in self._open:
            if not one.let_in:
                by_peer.setdefault(one.peer, []).append(one)
        if not by_peer:
            return None
        return max(by_peer.values(), key=len)[0]

    def _look_later(self) -> None:
        at_s = self._clock.monotonic() + LOOK_EVERY_S
        self._timer = self._clock.call_at(at_s, self._look)

    def _look(self) -> None:
        now_s = self._clock.monotonic()
        for one in [one for one in self._open if one.is_stalled(now_s)]:
            one.abort()
        if self._open:
            self._look_later()
        else:
            self._timer = None


class Connection(asyncio.Protocol):
    """One connection: everything is passed to aiohttp's handler. `let_in`: a request on it has
    passed the guards."""

    def __init__(self, connections: Connections, handler: asyncio.Protocol) -> None:
        self._connections = connections
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._waiting_bytes = 0
        self._moved_s = 0.0
        self.peer = ""
        self.let_in = False

    # ------------------------------------------------------------ as a protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass of it
        address = transport.get_extra_info("peername")
        self.peer = peer_of(str(address[0]) if isinstance(address, tuple) else "")
        self._handler.connection_made(transport)
        self._connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.closed(self)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._waiting_bytes = 0  # it has read most of it
        self._handler.resume_writing()

    # ------------------------------------------------------------ for its owner

    def is_stalled(self, now_s: float) -> bool:
        """Has the peer read nothing for STALLED_S of what waits? To be asked every LOOK_EVERY_S."""
        if self._transport is None:
            return False
        before, self._waiting_bytes = self._waiting_bytes, self._transport.get_write_buffer_size()
        if not self._waiting_bytes or before == 0 or self._waiting_bytes < before:
            self._moved_s = now_s
        return now_s - self._moved_s >= STALLED_S

    def abort(self) -> None:
        """Close it now. A transport that is closed in the usual way stays open until its peer has
        read what waits, which may be never."""
        self._connections.closed(self)
        if self._transport is not None:
            self._transport.abort()


def peer_of(address: str) -> str:
    """Who is behind an address: itself, of IPv6 its network (one machine has billions there)."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        if (mapped := parsed.ipv4_mapped) is not None:
            return str(mapped)
        return str(ipaddress.ip_network((parsed.packed[:8] + bytes(8), 64)))
    return str(parsed)


def let_in(request: web.Request) -> None:
    """Note that a request of this connection has passed the guards."""
    connection = _connection_of(request)
    if connection is not None:
        connection.let_in = True


def abort(request: web.Request) -> None:
    """Close the connection of a request without waiting for its peer to read."""
    if request.transport is not None:
        request.transport.abort()


def _connection_of(request: web.Request) -> Connection | None:
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, Connection) else None

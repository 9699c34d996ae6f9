"""Server connections: bounded in number, with room for the operator under a flood, and closed when
the client sends nothing, sends its request too slowly, or stops reading."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Final, Protocol, TypeVar, cast

from aiohttp import web

from crawler.clock import Clock, Timer
from crawler.front_door.request_handler import MalformedLog, RequestFactory, RequestHandler

_T = TypeVar("_T")

CONNECTIONS_MAX: Final = 256  # room for 64 listeners and the pages of some browsers
# A connection is closed if its client reads none of the pending data in this time. TCP itself waits
# forever for a peer that acknowledges but does not read.
STALLED_S: Final = 20.0
# A client has this time from its connection, or from the first byte of a further request, until the
# header of the request is complete: the few bytes of it need seconds on the worst of links.
HEAD_S: Final = 15.0
CHECK_EVERY_S: Final = 5.0
# Of the header of a request: browsers send less than 4 KiB, and cookies of other servers on this
# host may add to that.
HEAD_BYTES_MAX: Final = 32_768
SHUTDOWN_S: Final = 2.0  # for pending responses at the end


@contextlib.asynccontextmanager
async def serving(
    app: web.Application,
    clock: Clock,
    malformed: MalformedLog | None = None,
    base_path: str = "",
) -> AsyncIterator[Connections]:
    """The protocol factory of an application, for the caller's listening socket. When the block
    ends, pending responses have SHUTDOWN_S; the caller closes its socket. malformed: where requests
    that are not valid HTTP are recorded. base_path: a prefix of the paths of requests."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    assert runner.server is not None
    connections = Connections(runner.server, clock, malformed, base_path)
    try:
        yield connections
    finally:
        await runner.cleanup()
        connections.close()


class Connections:
    """The connections of one server; call it as a protocol factory.

    When CONNECTIONS_MAX are open, a new one displaces another, of the first of these kinds that
    there is: one without an authorized request (silent, or refused); an authorized one that waits
    for its next request; one in use, if its client has more connections than the new one's. Of each
    kind, it is the oldest of the client with the most. So silent clients and those without the
    token cannot use up the connections, and no client can take the shares of others. If every
    connection is in use and the new client has no fewer than any other, the new one is closed.
    """

    def __init__(
        self,
        server: web.Server,
        clock: Clock,
        malformed: MalformedLog | None = None,
        base_path: str = "",
    ) -> None:
        server.request_factory = RequestFactory(server, base_path)
        self._server = server
        self._malformed = malformed
        self._clock = clock
        self._open: dict[ServerConnection, None] = {}  # in the order they were opened
        self._timer: Timer | None = None

    def __call__(self) -> asyncio.BaseProtocol:
        return ServerConnection(self, RequestHandler(self._server, self._malformed))

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, one: ServerConnection) -> None:
        one.opened_s = self._clock.monotonic()
        self._open[one] = None
        if len(self._open) > CONNECTIONS_MAX:
            self._displaced_by(one).abort()
        if self._timer is None:
            self._check_later()

    def now_s(self) -> float:
        return self._clock.monotonic()

    def closed(self, one: ServerConnection) -> None:
        self._open.pop(one, None)

    def close(self) -> None:
        """Abort the connections that are still open."""
        for one in list(self._open):
            one.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _displaced_by(self, newest: ServerConnection) -> ServerConnection:
        others = [one for one in self._open if one is not newest]
        for kind in (_is_unknown, _is_idle):
            if found := [one for one in others if kind(one)]:
                return oldest_of_largest(found)
        own = sum(one.peer == newest.peer for one in self._open)
        largest = oldest_of_largest(others)
        return largest if sum(one.peer == largest.peer for one in others) > own else newest

    def _check_later(self) -> None:
        at_s = self._clock.monotonic() + CHECK_EVERY_S
        self._timer = self._clock.call_at(at_s, self._check)

    def _check(self) -> None:
        now_s = self._clock.monotonic()
        for one in [one for one in self._open if one.is_late(now_s) or one.is_stalled(now_s)]:
            one.abort()
        if self._open:
            self._check_later()
        else:
            self._timer = None


def _is_unknown(one: ServerConnection) -> bool:
    return not one.authorized


def _is_idle(one: ServerConnection) -> bool:
    return one.is_idle


class HasPeer(Protocol):
    """A connection, or a handshake that may lead to one."""

    @property
    def peer(self) -> str: ...


H = TypeVar("H", bound=HasPeer)


def oldest_of_largest(found: Iterable[H]) -> H:
    """The first one of the client with the most. found: at least one, in the order of opening."""
    by_peer: dict[str, list[H]] = {}
    for one in found:
        by_peer.setdefault(one.peer, []).append(one)
    return max(by_peer.values(), key=len)[0]


class ServerConnection(asyncio.Protocol):
    """One connection; everything is passed to aiohttp's handler. `authorized`: a request on it
    passed the guards. `opened_s`: on the monotonic clock."""

    def __init__(self, connections: Connections, handler: RequestHandler) -> None:
        self._connections = connections
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._pending_bytes = 0
        self._moved_s = 0.0
        self._head_bytes = 0  # of a request whose header is not complete
        self._head_s: float | None = None  # when its first byte arrived
        self._requested = False
        self.opened_s = 0.0
        self.peer = ""
        self.authorized = False
        self.lost = asyncio.Event()

    # ------------------------------------------------------------ the protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop does not subclass it
        address = transport.get_extra_info("peername")
        self.peer = peer_of(str(address[0]) if isinstance(address, tuple) else "")
        self._handler.peer = self.peer
        self._handler.connection_made(transport)
        self._connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.lost.set()
        self._connections.closed(self)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        waited = self._handler.is_idle
        self._handler.data_received(data)
        if not self._handler.is_idle:
            self._requested = True
            self._head_bytes, self._head_s = 0, None
        elif waited:
            self._head_bytes += len(data)
            self._head_s = self._connections.now_s() if self._head_s is None else self._head_s
            if self._head_bytes > HEAD_BYTES_MAX:
                self._handler.refuse_head(431)

    def eof_received(self) -> None:
        self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._pending_bytes = 0  # the client has read most of it
        self._handler.resume_writing()

    # ------------------------------------------------------------ for `Connections`

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the first byte or the rest of a request's header."""
        return self._handler.is_idle

    def is_late(self, now_s: float) -> bool:
        """Return whether the header of a request, or of the first one, takes more than HEAD_S."""
        if not self._handler.is_idle:
            return False
        since_s = self._head_s if self._requested else self.opened_s
        return since_s is not None and now_s - since_s >= HEAD_S

    def is_stalled(self, now_s: float) -> bool:
        """Return whether the client has read nothing for STALLED_S. Call it every CHECK_EVERY_S."""
        if self._transport is None:
            return False
        before, self._pending_bytes = self._pending_bytes, self._transport.get_write_buffer_size()
        if not self._pending_bytes or before == 0 or self._pending_bytes < before:
            self._moved_s = now_s
        return now_s - self._moved_s >= STALLED_S

    def abort(self) -> None:
        """Close immediately. `close` of a transport would wait until the client has read all
        pending data."""
        self._connections.closed(self)
        if self._transport is not None:
            self._transport.abort()


def peer_of(address: str) -> str:
    """The client behind an address; for IPv6 the /64 network, which one machine may control."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        if (mapped := parsed.ipv4_mapped) is not None:
            return str(mapped)
        return str(ipaddress.ip_network((parsed.packed[:8] + bytes(8), 64)))
    return str(parsed)


def mark_authorized(request: web.Request) -> None:
    """Record that a request on this connection passed the guards."""
    connection = _connection_of(request)
    if connection is not None:
        connection.authorized = True


async def while_connected(request: web.Request, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, which is cancelled when the client disconnects: nobody would read it.
    Raises ConnectionResetError then."""
    connection = _connection_of(request)
    if connection is None:
        return await work
    task = asyncio.ensure_future(work)
    lost = asyncio.ensure_future(connection.lost.wait())
    try:
        await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        lost.cancel()
        task.cancel()
    await asyncio.wait({task})
    raise ConnectionResetError("the client has disconnected")


def abort(request: web.Request) -> None:
    """Close the connection of a request without waiting for its client to read."""
    if request.transport is not None:
        request.transport.abort()


def _connection_of(request: web.Request) -> ServerConnection | None:
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, ServerConnection) else None

"""One exchange on one connection: where it stands, until when it may stand there, what has come.

aiohttp reads HTTP here and keeps the connections; what it leaves unbounded is bounded by the
protocol class below, which it is made to use: bytes of header, interim answers, bytes nobody asked
for.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import socket
from contextvars import ContextVar
from typing import Any, Final

from aiohttp import ClientConnectionResetError, TCPConnector
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import StreamReader

from crawler.clock import Clock
from crawler.guard import AddrInfo, judged
from crawler.request import FetchLimits
from policies.address import AddressRules

# Real headers stay under 16 KiB; four fields of the longest kind we take fit in this.
HEAD_BYTES_MAX: Final = 256 * 1024
# Content-Security-Policy values of over 8 KiB are common.
FIELD_BYTES_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 256
# RFC 9110 15.2 allows any number of 1xx answers before the final one; nobody needs more than two.
INTERIM_MAX: Final = 16


class Phase(enum.Enum):
    RESOLVING = enum.auto()
    CONNECTING = enum.auto()
    WAITING = enum.auto()
    READING = enum.auto()


class Bound(enum.Enum):
    """A deadline that was met."""

    RESOLVE = enum.auto()
    CONNECT = enum.auto()
    HANDSHAKE = enum.auto()
    HEAD = enum.auto()
    RATE = enum.auto()
    TOTAL = enum.auto()


class HeadTooLargeError(Exception):
    """The header passed HEAD_BYTES_MAX."""


class TooManyInterimsError(Exception):
    """More than INTERIM_MAX answers of the 1xx kind."""


class Exchange:
    """One request under way, owned by the task that fetches. One timer watches all its deadlines:
    it is set to the soonest that can be met, and looks again from there."""

    __slots__ = (
        "_clock",
        "_contacted",
        "_limits",
        "_socket",
        "_task",
        "_timer",
        "_window_at_s",
        "_window_bytes",
        "_wire",
        "address",
        "broken",
        "head_s",
        "interims",
        "met",
        "payload",
        "phase",
        "proxied",
        "received",
        "sent_s",
        "started_s",
    )

    def __init__(self, clock: Clock, limits: FetchLimits, task: asyncio.Task[Any], proxied: bool):
        self._clock = clock
        self._limits = limits
        self._task = task
        self._socket: socket.socket | None = None
        self._wire: Wire | None = None
        self._contacted = False
        self._window_at_s = 0.0
        self._window_bytes = 0
        self.proxied = proxied
        self.phase = Phase.CONNECTING
        self.met: Bound | None = None
        self.address: str | None = None
        self.payload: StreamReader | None = None
        self.broken = False
        self.interims = 0
        self.received = 0
        self.sent_s = 0.0
        self.head_s = 0.0
        self.started_s = now_s = clock.monotonic()
        self._timer = clock.call_at(now_s + limits.soonest_s, self._look)

    def resolving(self) -> None:
        self.phase = Phase.RESOLVING

    def contacting(self, made: socket.socket) -> None:
        """A socket is made: from here the host is being contacted."""
        self.phase = Phase.CONNECTING
        self._socket = made
        if not self._contacted:
            self._contacted = True
            self.started_s = self._clock.monotonic()

    def sending(self, wire: Wire) -> None:
        """The request is about to go out on an open connection."""
        self.sent_s = now_s = self._clock.monotonic()
        if not self._contacted:
            self._contacted = True
            self.started_s = now_s
        self.phase = Phase.WAITING
        self._wire = wire
        self.address = wire.address

    def head_complete(self, payload: StreamReader) -> None:
        self.head_s = self._window_at_s = self._clock.monotonic()
        self._window_bytes = self.received
        self.phase = Phase.READING
        self.payload = payload

    def finish(self) -> None:
        self._timer.cancel()
        self.payload = None
        self._socket = None
        wire = self._wire
        if wire is not None:
            self._wire = None
            # The answer's end has released the connection: another exchange may have it already.
            if wire.exchange is self:
                wire.exchange = None

    def _unconnected(self) -> Bound:
        """TCP or TLS: a socket that has a peer is past the first."""
        try:
            if self._socket is not None and self._socket.getpeername():
                return Bound.HANDSHAKE
        except OSError:
            pass
        return Bound.CONNECT

    def _look(self) -> None:
        now_s = self._clock.monotonic()
        limits = self._limits
        # Counted from the first packet, but for the lookup before it, which has connect_s.
        due_s = self.started_s + limits.timeout_s
        met = Bound.TOTAL
        if self.phase is Phase.READING:
            window_s = self._window_at_s + limits.rate_window_s
            if now_s >= window_s:
                least = limits.rate_bytes_per_s_min * limits.rate_window_s
                if self.received - self._window_bytes >= least:
                    self._window_at_s = now_s
                    self._window_bytes = self.received
                    window_s = now_s + limits.rate_window_s
            phase_s, phase_met = window_s, Bound.RATE
        elif self.phase is Phase.WAITING:
            phase_s, phase_met = self.sent_s + limits.head_s, Bound.HEAD
        else:
            phase_s = self.started_s + limits.connect_s
            phase_met = Bound.RESOLVE if self.phase is Phase.RESOLVING else self._unconnected()
        if phase_s < due_s:
            due_s, met = phase_s, phase_met
        if now_s < due_s:
            self._timer = self._clock.call_at(due_s, self._look)
            return
        self.met = met
        self._task.cancel()


_current: ContextVar[Exchange | None] = ContextVar("courtly_exchange", default=None)
current_exchange: Final = _current.get
enter_exchange: Final = _current.set
leave_exchange: Final = _current.reset


class Sockets:
    """How many connections are open. Beyond `kept_max` none is kept for another request, so that
    the idle ones of many hosts do not use up the process's file descriptors."""

    __slots__ = ("kept_max", "open")

    def __init__(self, kept_max: int) -> None:
        self.open = 0
        self.kept_max = kept_max


class Wire(ResponseHandler):
    """aiohttp's end of a connection, counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sockets: Sockets) -> None:
        super().__init__(loop)
        self.exchange: Exchange | None = None
        self.address: str | None = None
        self._sockets = sockets

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._sockets.open += 1
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._sockets.open -= 1
        exchange = self.exchange
        if exchange is not None and exc is not None:
            # A body that ends with the connection has ended well only if the connection has.
            payload = exchange.payload
            exchange.broken = payload is not None and not payload.is_eof()
        super().connection_lost(exc)

    def set_response_params(self, **params: Any) -> None:
        super().set_response_params(**params)
        exchange = current_exchange()
        if exchange is None:
            return
        self.exchange = exchange
        exchange.sending(self)
        if self._sockets.open > self._sockets.kept_max:
            self.force_close()
        if len(self):
            # An answer before the request: whatever it answers, it is not this.
            self._buffer.clear()
            self._lose(ClientConnectionResetError())

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            if data and self.transport is not None:
                # Nothing was asked: it would be taken for the answer to the next request.
                self.transport.abort()
            return
        exchange.received += len(data)
        super().data_received(data)
        if exchange.received > HEAD_BYTES_MAX and exchange.phase is Phase.WAITING:
            self._lose(HeadTooLargeError())

    def feed_data(self, data: Any, size: int = 0) -> None:
        exchange = self.exchange
        if exchange is not None:
            message, payload = data
            if 100 <= message.code < 200 and message.code != 101:
                exchange.interims += 1
                if exchange.interims > INTERIM_MAX:
                    if exchange.interims == INTERIM_MAX + 1:
                        self._lose(TooManyInterimsError())
                    return
            else:
                exchange.head_complete(payload)
        super().feed_data(data, size)

    def _lose(self, exc: Exception) -> None:
        self.set_exception(exc)
        if self.transport is not None:
            self.transport.abort()


class Connector(TCPConnector):
    """A TCPConnector whose connections are Wires and whose sockets are judged."""

    def __init__(
        self,
        *,
        addresses: AddressRules,
        resolver: AbstractResolver,
        sockets: Sockets,
        keepalive_s: float,
    ) -> None:
        super().__init__(
            limit=0,  # the crawl counts what is in flight
            keepalive_timeout=keepalive_s,
            resolver=resolver,
            use_dns_cache=False,  # the resolver keeps its own, by host and not by port
            socket_factory=functools.partial(self._judged_socket, addresses),
        )
        self._factory = functools.partial(Wire, self._loop, sockets)

    @staticmethod
    def _judged_socket(addresses: AddressRules, info: AddrInfo) -> socket.socket:
        exchange = current_exchange()
        if exchange is None or not exchange.proxied:
            judged(addresses, info[4][0])
        made = socket.socket(info[0], info[1], info[2])
        if exchange is not None:
            exchange.contacting(made)
        return made

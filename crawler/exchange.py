"""One request under way: where it stands, until when it may stand there, what has come of it."""

from __future__ import annotations

import asyncio
import enum
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from aiohttp.streams import StreamReader

from crawler.clock import Clock
from crawler.request import FetchLimits

if TYPE_CHECKING:
    from crawler.wire import Wire


class Phase(enum.Enum):
    RESOLVING = enum.auto()
    CONNECTING = enum.auto()
    WAITING = enum.auto()
    READING = enum.auto()


UNCONNECTED_PHASES: Final = frozenset({Phase.RESOLVING, Phase.CONNECTING})


class Bound(enum.Enum):
    """A deadline that was met."""

    RESOLVE = enum.auto()
    CONNECT = enum.auto()
    HANDSHAKE = enum.auto()
    HEAD = enum.auto()
    RATE = enum.auto()
    TOTAL = enum.auto()


class Exchange:
    """One request under way, owned by the task that fetches. One timer watches all its deadlines:
    it is set to the soonest that can be met, and looks again from there."""

    __slots__ = (
        "_clock",
        "_contacted",
        "_fed_bytes",
        "_socket",
        "_task",
        "_timer",
        "_unfed_bytes",
        "_window_at_s",
        "_window_bytes",
        "_wire",
        "address",
        "broken",
        "head_s",
        "interims",
        "limits",
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
        self._task = task
        self._socket: socket.socket | None = None
        self._wire: Wire | None = None
        self._contacted = False
        self._fed_bytes = 0
        self._unfed_bytes = 0
        self._window_at_s = 0.0
        self._window_bytes = 0
        self.limits = limits
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

    def waiting(self) -> bool:
        """Whether the answer's header is still to come, or to end."""
        return self.phase is Phase.WAITING

    def head_complete(self, payload: StreamReader) -> None:
        self.head_s = self._window_at_s = self._clock.monotonic()
        self._window_bytes = self.received
        self.phase = Phase.READING
        self.payload = payload

    def unfed_bytes(self, received: int) -> int:
        """Of the body's framing, with those just received, since it last brought any body."""
        payload = self.payload
        if payload is None or payload.total_bytes != self._fed_bytes:
            self._fed_bytes = 0 if payload is None else payload.total_bytes
            self._unfed_bytes = 0
        else:
            self._unfed_bytes += received
        return self._unfed_bytes

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
        limits = self.limits
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

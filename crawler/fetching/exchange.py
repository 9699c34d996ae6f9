"""Requests in progress: the phase and deadlines of each, and what has arrived of its answer."""

from __future__ import annotations

import asyncio
import enum
import math
import socket
from contextvars import ContextVar
from typing import Any, Final, Protocol

from aiohttp.streams import StreamReader
from msgspec import Struct

from crawler.clock import Clock, ContactDeadline, Timer
from crawler.fetching.request import FetchLimits, Headers

BEAT_S: Final = 0.25  # lateness of less than this may be mistaken for the network's
LATE_S_MIN: Final = 0.05  # a timer is never quite on time


class ExchangeConnection(Protocol):
    """The interface of a connection to an exchange (`connection_pool.PooledConnection`)."""

    exchange: Exchange | None
    address: str | None

    @property
    def transport(self) -> asyncio.Transport | None: ...

    def finish_exchange(self) -> None:
        """The exchange is over."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class LeaseExpiredError(OSError):
    """The time in which this worker may contact its hosts has passed."""


class Phase(enum.Enum):
    RESOLVING = enum.auto()
    CONNECTING = enum.auto()
    WAITING = enum.auto()
    READING = enum.auto()


UNCONNECTED_PHASES: Final = frozenset({Phase.RESOLVING, Phase.CONNECTING})


class Bound(enum.Enum):
    """A deadline that was missed."""

    RESOLVE = enum.auto()
    CONNECT = enum.auto()
    HANDSHAKE = enum.auto()
    HEAD = enum.auto()
    RATE = enum.auto()
    TOTAL = enum.auto()


class Exchange(Struct, eq=False):
    """One request in progress, owned by the task that fetches.

    `due_s` is the earliest time at which one of its deadlines can pass; a Watchdog checks it then
    and sets the next time.

    Deadlines count only time spent waiting for the network. They are extended by the time in which
    this process was late itself (`Watchdog.late_s`), or did not read because the data received
    before had not been consumed. The deadline of the whole request is extended by no lateness but
    the longest one, such as a suspension of the machine: otherwise answers that keep the process
    busy would put off their own end.
    """

    _clock: Clock
    limits: FetchLimits
    _task: asyncio.Task[Any]
    proxied: bool
    phase: Phase = Phase.CONNECTING
    met: Bound | None = None  # the deadline that was missed
    address: str | None = None
    status: int | None = None  # of the final answer, once its header was read
    headers: Headers | None = None  # the same
    payload: StreamReader | None = None
    broken: bool = False  # the connection was lost in the middle of the body
    reset: bool = False  # the connection was lost, and not just closed
    deadline: ContactDeadline | None = None  # until when hosts may be contacted at all
    expired: bool = False  # that has passed, and the request was not sent
    keep: bool = True  # whether its connection may serve another request
    reused: bool = False  # whether its connection has served one before
    ascii: bool = True  # whether the header received so far is
    interims: int = 0  # interim (1xx) answers
    folds: int = 0  # continuation lines of the header
    chunked: bool = False  # whether the body is
    received: int = 0  # bytes
    fed_bytes: int = 0  # of the body itself, when `parsed` was last called
    framing_bytes: int = 0  # beside the body
    unfed_bytes: int = 0  # of framing, since the last byte of the body itself
    sent_s: float = 0.0
    head_s: float = 0.0
    ended_s: float | None = None
    started_s: float = 0.0
    due_s: float = 0.0
    contacted: bool = False  # whether a socket was made or an open connection used
    _socket: socket.socket | None = None
    _connection: ExchangeConnection | None = None
    _watchdog: Watchdog | None = None
    longest_late_s: float = 0.0  # of the timer, since this began
    _late_at_start_s: float = 0.0  # `Watchdog.late_s` when this began
    _past_pauses_s: float = 0.0  # for how long reading was paused before
    _paused_since_s: float | None = None  # since when it is
    _window_excused_s: float = 0.0
    _window_at_s: float = 0.0
    _window_bytes: int = 0

    def __post_init__(self) -> None:
        self.started_s = now_s = self._clock.monotonic()
        self.due_s = now_s + self.limits.soonest_s

    @property
    def now_s(self) -> float:
        return self._clock.monotonic()

    @property
    def broken_off(self) -> bool:
        """Whether the connection was lost or the answer stopped arriving. A body that is too slow
        or too long does neither."""
        stalled = self.met is Bound.RATE or (self.met is not None and self.waiting())
        return self.reset or stalled

    def resolving(self) -> None:
        self.phase = Phase.RESOLVING

    def contacting(self, made: socket.socket) -> None:
        """A socket was made: the contact with the host begins."""
        self.phase = Phase.CONNECTING
        self._socket = made
        if not self.contacted:
            self.contacted = True
            self.started_s = self._clock.monotonic()

    def sending(self, connection: ExchangeConnection) -> None:
        """The request is about to be sent on an open connection."""
        self.sent_s = now_s = self._clock.monotonic()
        if not self.contacted:
            self.contacted = self.reused = True
            self.started_s = now_s
        self.phase = Phase.WAITING
        self.payload = self.ended_s = None  # those of the answer that opened a tunnel
        self._connection = connection
        self.address = connection.address

    def expires(self) -> bool:
        """Return whether its host may not be contacted any more: names may have been looked up, and
        connections made, since this was checked for its permit."""
        if self.deadline is not None and self.deadline.passed:
            self.expired = True
        return self.expired

    def waiting(self) -> bool:
        """Return whether the answer's header is not complete yet."""
        return self.phase is Phase.WAITING

    def head_complete(self, payload: StreamReader, *, chunked: bool = False) -> None:
        self.head_s = self._window_at_s = self._clock.monotonic()
        self._window_bytes = self.received
        self._window_excused_s = self._excused_s(self.head_s)
        self.phase = Phase.READING
        self.payload = payload
        self.chunked = chunked
        window_end_s = self._window_at_s + self.limits.rate_window_s
        if window_end_s < self.due_s and self._watchdog is not None:
            self._watchdog.look_by(self, window_end_s)

    def watched(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._late_at_start_s = watchdog.late_s

    def stop_clock(self) -> None:
        """Reading is paused until the data received is consumed: that time is not the host's."""
        if self._paused_since_s is None:
            self._paused_since_s = self._clock.monotonic()

    def read_on(self) -> None:
        if self._paused_since_s is not None:
            self._past_pauses_s += self._clock.monotonic() - self._paused_since_s
            self._paused_since_s = None

    def pause(self) -> None:
        """Read nothing more from the connection until `resume`."""
        self.stop_clock()
        if (connection := self._reading_from()) is not None:
            connection.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if (connection := self._reading_from()) is not None:
            connection.resume_reading()
        self.read_on()

    def _reading_from(self) -> ExchangeConnection | None:
        """The connection, unless it is lost or everything has been read from it: another exchange
        may have it then."""
        connection, payload = self._connection, self.payload
        if connection is None or connection.exchange is not self or connection.transport is None:
            return None
        return None if payload is None or payload.is_eof() else connection

    def _excused_s(self, now_s: float) -> float:
        """Seconds since the beginning that were not spent waiting for the network."""
        if self._watchdog is None:
            return self._paused_s(now_s)
        return self._paused_s(now_s) + self._watchdog.late_s - self._late_at_start_s

    def _paused_s(self, now_s: float) -> float:
        """Seconds for which reading was paused."""
        since_s = now_s if self._paused_since_s is None else self._paused_since_s
        return self._past_pauses_s + now_s - since_s

    def arrived(self) -> None:
        """Bytes of the answer were processed.

        If they were its last, the contact ends now, not when the waiting task gets to run: of many
        answers that arrive together, the last would end noticeably too late.
        """
        payload = self.payload
        if payload is not None and self.ended_s is None and payload.is_eof():
            self.ended_s = self._clock.monotonic()

    def stop_sending(self) -> None:
        """Drop what is left of the request's body once the answer has arrived: otherwise the host
        would still be busy with it during its politeness delay."""
        connection = self._connection
        if connection is None or connection.exchange is not self or connection.transport is None:
            return
        if connection.transport.get_write_buffer_size():
            connection.transport.abort()
            self.ended_s = None  # but now

    def parsed(self, size: int) -> None:
        """Bytes of the body and its framing were parsed."""
        payload = self.payload
        fed_bytes = 0 if payload is None else payload.total_bytes
        body_bytes = fed_bytes - self.fed_bytes
        self.fed_bytes = fed_bytes
        self.framing_bytes += size - body_bytes
        self.unfed_bytes = 0 if body_bytes else self.unfed_bytes + size

    def finish(self) -> None:
        self.payload = None
        self._socket = None
        connection = self._connection
        if connection is not None:
            self._connection = None
            # The end of the answer released the connection: another exchange may have it already.
            if connection.exchange is self:
                connection.finish_exchange()

    def _unconnected(self) -> Bound:
        """Whether TCP or TLS is late: a socket that has a peer is past the first."""
        try:
            if self._socket is not None and self._socket.getpeername():
                return Bound.HANDSHAKE
        except OSError:
            pass
        return Bound.CONNECT

    def look(self, now_s: float) -> None:
        """Cancel the task if a deadline has passed; otherwise set `due_s` for the next check."""
        limits = self.limits
        payload = self.payload
        if payload is not None and payload.is_eof():
            self.due_s = now_s + limits.soonest_s  # the network owes nothing
            return
        if self._paused_since_s is not None:
            self.due_s = now_s + BEAT_S  # nor now; a window that ends soon after is not missed
            return
        excused_s = self._excused_s(now_s)
        # Counted from the first packet; the lookup before it has connect_s of its own.
        due_s = self.started_s + limits.timeout_s + self._paused_s(now_s) + self.longest_late_s
        met = Bound.TOTAL
        if self.phase is Phase.READING:
            window_s = self._window_at_s + limits.rate_window_s + excused_s - self._window_excused_s
            if now_s >= window_s:
                bytes_min = limits.rate_bytes_per_s_min * limits.rate_window_s
                if self.received - self._window_bytes >= bytes_min:
                    self._window_at_s = now_s
                    self._window_bytes = self.received
                    self._window_excused_s = excused_s
                    window_s = now_s + limits.rate_window_s
            phase_s, phase_met = window_s, Bound.RATE
        elif self.phase is Phase.WAITING:
            phase_s, phase_met = self.sent_s + limits.head_s + excused_s, Bound.HEAD
        else:
            phase_s = self.started_s + limits.connect_s + excused_s
            phase_met = Bound.RESOLVE if self.phase is Phase.RESOLVING else self._unconnected()
        if phase_s < due_s:
            due_s, met = phase_s, phase_met
        if now_s < due_s:
            self.due_s = due_s
            return
        self.due_s = math.inf
        self.met = met
        self._task.cancel()


class Watchdog:
    """The exchanges in progress, and the one timer for all their deadlines.

    Most exchanges end long before their deadlines, so the timer is set once for many of them.

    It fires every BEAT_S as well, to measure how late it fires: then the event loop was busy, or
    the machine asleep. `late_s` is the sum of that time, which no server is charged with.
    """

    __slots__ = ("_clock", "_in_progress", "_next_s", "_timer", "late_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_progress: set[Exchange] = set()
        self._timer: Timer | None = None
        self._next_s = math.inf
        self.late_s = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._in_progress)

    def begin(self, exchange: Exchange) -> None:
        self._in_progress.add(exchange)
        exchange.watched(self)
        self.look_by(exchange, exchange.due_s)

    def look_by(self, exchange: Exchange, due_s: float) -> None:
        """Check an exchange at `due_s` at the latest."""
        exchange.due_s = due_s
        if self._next_s == math.inf:
            self._set(min(due_s, self._clock.monotonic() + BEAT_S))
        elif due_s < self._next_s:
            self._set(due_s)

    def end(self, exchange: Exchange) -> None:
        self._in_progress.discard(exchange)
        if not self._in_progress:
            self._set(math.inf)

    def _set(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_s = at_s
        self._timer = None if at_s == math.inf else self._clock.call_at(at_s, self._look)

    def _look(self) -> None:
        now_s = self._clock.monotonic()
        late_s = now_s - self._next_s
        if late_s > LATE_S_MIN:
            self.late_s += late_s
            for exchange in self._in_progress:
                exchange.longest_late_s = max(exchange.longest_late_s, late_s)
        next_s = now_s + BEAT_S
        for exchange in self._in_progress:
            if exchange.due_s <= now_s:
                exchange.look(now_s)
            next_s = min(next_s, exchange.due_s)
        self._set(next_s if self._in_progress else math.inf)


_current: ContextVar[Exchange | None] = ContextVar("courtly_exchange", default=None)
current_exchange: Final = _current.get
enter_exchange: Final = _current.set
leave_exchange: Final = _current.reset

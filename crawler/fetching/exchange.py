"""Requests under way: where each stands, until when it may stand there, what has come of it."""

from __future__ import annotations

import asyncio
import enum
import math
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from aiohttp.streams import StreamReader

from crawler.clock import Clock, Timer
from crawler.fetching.request import FetchLimits

if TYPE_CHECKING:
    from crawler.fetching.wire import Wire


BEAT_S: Final = 0.25  # lateness of less than this may be taken for the network's
LATE_S_MIN: Final = 0.05  # a timer is never quite on time


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
    """One request under way, owned by the task that fetches. `due_s` is the soonest that one of its
    deadlines can be met; a Watch looks then, and from what it sees again later.

    Deadlines count the time in which we wait for the network. They are put off by the time in which
    we were late ourselves (`Watch.late_s`), or did not read because nobody took what had come."""

    __slots__ = (
        "_clock",
        "_contacted",
        "_fed_bytes",
        "_held_s",
        "_held_since_s",
        "_late_s",
        "_socket",
        "_task",
        "_unfed_bytes",
        "_watch",
        "_window_at_s",
        "_window_bytes",
        "_window_excused_s",
        "_wire",
        "address",
        "ascii",
        "broken",
        "due_s",
        "ended_s",
        "head_s",
        "interims",
        "keep",
        "limits",
        "met",
        "payload",
        "phase",
        "proxied",
        "received",
        "reset",
        "reused",
        "sent_s",
        "started_s",
    )

    def __init__(self, clock: Clock, limits: FetchLimits, task: asyncio.Task[Any], proxied: bool):
        self._clock = clock
        self._task = task
        self._socket: socket.socket | None = None
        self._wire: Wire | None = None
        self._watch: Watch | None = None
        self._late_s = 0.0  # of the watch, when this began
        self._held_s = 0.0  # for how long reading was held back
        self._held_since_s: float | None = None  # since when it is
        self._window_excused_s = 0.0
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
        self.reset = False  # the connection was lost, and not just closed
        self.keep = True  # may its connection serve another request?
        self.reused = False  # has its connection served one before?
        self.ascii = True  # is all of the header, so far?
        self.interims = 0
        self.received = 0
        self.sent_s = 0.0
        self.head_s = 0.0
        self.ended_s: float | None = None
        self.started_s = now_s = clock.monotonic()
        self.due_s = now_s + limits.soonest_s

    @property
    def contacted(self) -> bool:
        """Was a socket made, or an open connection used?"""
        return self._contacted

    @property
    def broken_off(self) -> bool:
        """Was the connection lost, or did the answer stop coming? A body that comes all too slowly
        or is too long does neither."""
        stalled = self.met is Bound.RATE or (self.met is not None and self.waiting())
        return self.reset or stalled

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
            self._contacted = self.reused = True
            self.started_s = now_s
        self.phase = Phase.WAITING
        self.payload = self.ended_s = None  # those of the answer that opened a tunnel
        self._wire = wire
        self.address = wire.address

    def waiting(self) -> bool:
        """Whether the answer's header is still to come, or to end."""
        return self.phase is Phase.WAITING

    def head_complete(self, payload: StreamReader) -> None:
        self.head_s = self._window_at_s = self._clock.monotonic()
        self._window_bytes = self.received
        self._window_excused_s = self._excused_s(self.head_s)
        self.phase = Phase.READING
        self.payload = payload
        window_end_s = self._window_at_s + self.limits.rate_window_s
        if window_end_s < self.due_s and self._watch is not None:
            self._watch.look_by(self, window_end_s)

    def watched(self, watch: Watch) -> None:
        self._watch = watch
        self._late_s = watch.late_s

    def hold(self) -> None:
        """We do not read any more: what has come is to be taken first."""
        if self._held_since_s is None:
            self._held_since_s = self._clock.monotonic()

    def read_on(self) -> None:
        if self._held_since_s is not None:
            self._held_s += self._clock.monotonic() - self._held_since_s
            self._held_since_s = None

    def _excused_s(self, now_s: float) -> float:
        """For how long since the beginning we did not wait for the network."""
        held_s = self._held_s
        if self._held_since_s is not None:
            held_s += now_s - self._held_since_s
        return held_s if self._watch is None else held_s + self._watch.late_s - self._late_s

    def arrived(self) -> None:
        """Bytes of the answer have been dealt with. If they were its last, the contact has ended
        now, and not when the task that waits for it has its turn of the event loop: of two hundred
        answers that come at once, the last would rest 30 ms longer than it must."""
        payload = self.payload
        if payload is not None and self.ended_s is None and payload.is_eof():
            self.ended_s = self._clock.monotonic()

    def cut_short(self) -> None:
        """The answer is there. What is left of the request's body is not sent: else its host would
        be busy with it while it is thought to rest."""
        wire = self._wire
        if wire is None or wire.exchange is not self or wire.transport is None:
            return
        if wire.transport.get_write_buffer_size():
            wire.transport.abort()
            self.ended_s = None  # but now

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
        self.payload = None
        self._socket = None
        wire = self._wire
        if wire is not None:
            self._wire = None
            # The answer's end has released the connection: another exchange may have it already.
            if wire.exchange is self:
                wire.rest()

    def _unconnected(self) -> Bound:
        """TCP or TLS: a socket that has a peer is past the first."""
        try:
            if self._socket is not None and self._socket.getpeername():
                return Bound.HANDSHAKE
        except OSError:
            pass
        return Bound.CONNECT

    def look(self, now_s: float) -> None:
        """Has a deadline been met? Then its task is cancelled; else `due_s` says when to look."""
        limits = self.limits
        payload = self.payload
        if self._held_since_s is not None or (payload is not None and payload.is_eof()):
            self.due_s = now_s + limits.soonest_s  # it is ours to take what has come
            return
        excused_s = self._excused_s(now_s)
        # Counted from the first packet, but for the lookup before it, which has connect_s.
        due_s = self.started_s + limits.timeout_s + excused_s
        met = Bound.TOTAL
        if self.phase is Phase.READING:
            window_s = self._window_at_s + limits.rate_window_s + excused_s - self._window_excused_s
            if now_s >= window_s:
                least = limits.rate_bytes_per_s_min * limits.rate_window_s
                if self.received - self._window_bytes >= least:
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


class Watch:
    """The exchanges under way, and the one timer for all their deadlines. Most end long before
    theirs, so that it is set anew once for many of them: a timer for each costs 3 µs a request.

    It rings every BEAT_S as well. How late it rings is how late we are ourselves: the event loop
    was busy, or the machine asleep. `late_s` is the sum of that; no server is to blame for it.
    """

    __slots__ = ("_clock", "_next_s", "_timer", "_under_way", "late_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: set[Exchange] = set()
        self._timer: Timer | None = None
        self._next_s = math.inf
        self.late_s = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def begin(self, exchange: Exchange) -> None:
        self._under_way.add(exchange)
        exchange.watched(self)
        self.look_by(exchange, exchange.due_s)

    def look_by(self, exchange: Exchange, due_s: float) -> None:
        """One of its deadlines can be met then."""
        exchange.due_s = due_s
        if self._next_s == math.inf:
            self._set(min(due_s, self._clock.monotonic() + BEAT_S))
        elif due_s < self._next_s:
            self._set(due_s)

    def end(self, exchange: Exchange) -> None:
        self._under_way.discard(exchange)
        if not self._under_way:
            self._set(math.inf)

    def _set(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_s = at_s
        self._timer = None if at_s == math.inf else self._clock.call_at(at_s, self._look)

    def _look(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._next_s > LATE_S_MIN:
            self.late_s += now_s - self._next_s
        next_s = now_s + BEAT_S
        for exchange in self._under_way:
            if exchange.due_s <= now_s:
                exchange.look(now_s)
            next_s = min(next_s, exchange.due_s)
        self._set(next_s if self._under_way else math.inf)


_current: ContextVar[Exchange | None] = ContextVar("courtly_exchange", default=None)
current_exchange: Final = _current.get
enter_exchange: Final = _current.set
leave_exchange: Final = _current.reset

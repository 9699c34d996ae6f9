"""The event stream: events of a crawl, sent to listeners. Bounded, and never waits for one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from crawler.clock import Clock
from crawler.config.sections import LogLevel
from crawler.daemon.actor import logged_actor
from crawler.observer import Contacted, Observer
from policies.holds import Hold
from policies.url import host_of

if TYPE_CHECKING:
    from crawler.daemon.monitoring.event_log import EventLog
    from crawler.daemon.monitoring.history_recorder import HistoryRecorder

QUEUE_MAX = 256  # events waiting for one listener; a slower listener is disconnected
EVENTS_PER_S_MAX = 50  # contacts sent in a second; a page shows some, not hundreds


class Event(Struct, frozen=True, kw_only=True):
    """`kind`: "status", "contact", "change", "gave_up" or "hold". `data`: its JSON."""

    kind: str
    data: Mapping[str, object]


class Listener:
    """The queue of one listener. `lost`: it was too slow, and receives nothing more."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._changed = asyncio.Event()
        self.lost = False

    @property
    def empty(self) -> bool:
        return not self._waiting

    def put(self, event: Event) -> None:
        if len(self._waiting) >= QUEUE_MAX:
            self.lost = True
        else:
            self._waiting.append(event)
        self._changed.set()

    def close(self) -> None:
        self.lost = True
        self._changed.set()

    async def next(self) -> Event | None:
        """Wait for the next event; None: there will be no more."""
        while not self._waiting or self.lost:
            if self.lost:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()


class EventStream(Observer):
    """Passes contacts, commands and holds to listeners. Commands are logged to `log` as well, and
    marked in `history`."""

    def __init__(
        self,
        clock: Clock,
        log: EventLog | None = None,
        history: HistoryRecorder | None = None,
    ) -> None:
        self._clock = clock
        self._log = log
        self._history = history
        self._listeners: set[Listener] = set()
        self._second = 0
        self._sent = 0  # contacts, in this second
        self.closed = False

    def __len__(self) -> int:
        return len(self._listeners)

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """A listener to all events while this is open."""
        listener = Listener()
        if self.closed:
            listener.close()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def change(self, what: str, **values: object) -> None:
        """Announce a command that changed the crawl."""
        data = {"what": what, **values}
        if self._log is not None:
            self._log.event(LogLevel.INFO, "steered", **data, **logged_actor())
        if self._history is not None:
            self._history.commanded(what, values, logged_actor())
        self.send("change", data)

    def send(self, kind: str, data: Mapping[str, object]) -> None:
        if self._listeners:
            event = Event(kind=kind, data=data)
            for listener in self._listeners:
                listener.put(event)

    def close(self) -> None:
        """Disconnect all listeners, present and future."""
        self.closed = True
        for listener in self._listeners:
            listener.close()

    # ------------------------------------------------------------ the observer

    def contacted(self, seen: Contacted) -> None:
        if not self._listeners:
            return
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._sent = second, 0
        self._sent += 1
        if self._sent > EVENTS_PER_S_MAX:
            return
        self.send(
            "contact",
            {
                "url": seen.url,
                "host": host_of(seen.url),
                "kind": seen.kind,
                "status": seen.status,
                "error": None if seen.error is None else seen.error.value,
                "started_at": seen.started_at,
                "elapsed_s": seen.elapsed_s,
                "body_bytes": seen.body_bytes,
            },
        )

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self.send("gave_up", {"host": slot, "origin": origin, "error": error, "count": count})

    def hold_began(self, hold: Hold) -> None:
        self._send_hold(hold, ended=False)

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self._send_hold(hold, ended=True)

    def _send_hold(self, hold: Hold, *, ended: bool) -> None:
        self.send("hold", {"reason": hold.reason.value, "sentence": hold.sentence, "ended": ended})

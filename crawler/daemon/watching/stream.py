"""What happens in a crawl, told to listeners as it happens: bounded, and never waiting for one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from crawler.clock import Clock
from crawler.observer import Contacted
from policies.holds import Hold
from policies.url import host_of
from storage.store import Outcome

QUEUE_MAX = 256  # events that wait for one listener; one that is slower than this is let go
EVENTS_PER_S_MAX = 50  # contacts told in a second; a page shows some, not hundreds


class Event(Struct, frozen=True, kw_only=True):
    """`kind` names it: status, contact, change; `data` is its JSON."""

    kind: str
    data: Mapping[str, object]


class Listener:
    """One who listens. `lost` once it was too slow: nothing more comes."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._something = asyncio.Event()
        self.lost = False

    @property
    def empty(self) -> bool:
        """Nothing waits to be told."""
        return not self._waiting

    def tell(self, event: Event) -> None:
        if len(self._waiting) >= QUEUE_MAX:
            self.lost = True
        else:
            self._waiting.append(event)
        self._something.set()

    def close(self) -> None:
        """No more comes."""
        self.lost = True
        self._something.set()

    async def next(self) -> Event | None:
        """The next event, when there is one; None: there will be no more."""
        while not self._waiting or self.lost:
            if self.lost:
                return None
            self._something.clear()
            await self._something.wait()
        return self._waiting.popleft()


class Stream:
    """An `Observer` that passes some of what it sees on to listeners; costs next to nothing while
    there are none. `noted` is given what somebody asked of the crawl, whether anybody listens or
    not."""

    def __init__(
        self, clock: Clock, *, noted: Callable[[Mapping[str, object]], None] | None = None
    ) -> None:
        self._clock = clock
        self._noted = noted
        self._listeners: set[Listener] = set()
        self._second = 0
        self._told = 0
        self.closed = False

    def __len__(self) -> int:
        return len(self._listeners)

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """A listener, told from now on."""
        listener = Listener()
        if self.closed:
            listener.close()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def change(self, what: str, **values: object) -> None:
        """Somebody has steered the crawl: told to all who listen, and to the log."""
        data = {"what": what, **values}
        if self._noted is not None:
            self._noted(data)
        self.tell("change", data)

    def tell(self, kind: str, data: Mapping[str, object]) -> None:
        """To all who listen now."""
        if self._listeners:
            event = Event(kind=kind, data=data)
            for listener in self._listeners:
                listener.tell(event)

    def close(self) -> None:
        """All listeners come to their end."""
        self.closed = True
        for listener in self._listeners:
            listener.close()

    # ------------------------------------------------------------ the observer

    def contacted(self, seen: Contacted) -> None:
        if not self._listeners:
            return
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        self._told += 1
        if self._told > EVENTS_PER_S_MAX:
            return
        self.tell(
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

    def settled(self, url: str, outcome: Outcome) -> None:
        """Contacts say enough; blocked URLs come by the thousand."""

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self.tell("gave_up", {"host": slot, "origin": origin, "error": error, "count": count})

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        """The status that is told once a second says what came of it."""

    def hold_began(self, hold: Hold) -> None:
        self.tell("hold", {"reason": hold.reason.value, "sentence": hold.sentence, "ended": False})

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self.tell("hold", {"reason": hold.reason.value, "sentence": hold.sentence, "ended": True})

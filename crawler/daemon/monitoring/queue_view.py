"""What holds the queue, for the status and the health: looked up every few seconds, so that a page
need not wait for it."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from crawler.clock import Clock
from crawler.steering.control import Control
from crawler.steering.queue_waits import QueueWait, queue_waits
from storage.reader import Reader
from storage.store import StoreError

KEPT_S: Final = 7.0  # longer than from one sample of the monitor to the next
KEPT_FACTOR: Final = 20.0  # the query takes at most this part of the time: it reads all hosts


class QueueView:
    """What holds the queue of one crawl, as it was at `at` (Unix seconds)."""

    def __init__(self, control: Control, reader: Reader, clock: Clock) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._kept: tuple[QueueWait, ...] = ()
        self._began_s = -math.inf
        self._took_s = 0.0
        self._state: object = None
        self._lock = asyncio.Lock()
        self.at: float | None = None

    async def holds(self, kept_s: float = KEPT_S) -> tuple[QueueWait, ...]:
        """The reasons, the one with the most URLs first, as of `kept_s` ago at most. While the
        database cannot be read, as they were before."""
        async with self._lock:
            began_s = self._clock.monotonic()
            kept_s = max(kept_s, KEPT_FACTOR * self._took_s)
            if began_s < self._began_s + kept_s and self._state is self._control.state:
                return self._kept
            now_s = self._clock.wall()
            try:
                rows = await self._reader.queue_waits(now_s)
            except StoreError:
                return self._kept
            self._state = self._control.state
            self._kept = queue_waits(
                rows,
                self._control.live_waits(),
                overall=self._control.overall_reason,
                pages_per_s=self._control.pages_per_s,
                now_s=now_s,
            )
            self.at = now_s
            self._began_s, self._took_s = began_s, self._clock.monotonic() - began_s
            return self._kept

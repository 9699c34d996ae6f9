"""Liveness for a service manager: checks that the event loop, the store and commits work."""

from __future__ import annotations

import asyncio
from functools import partial

from crawler.clock import Clock
from crawler.daemon.notify import Notify
from crawler.observer import Observer
from crawler.periodic import PeriodicSteps
from crawler.steering.control import Control
from storage.store import StoreError


class LivenessReporter(Observer):
    """Reports to the service manager while the crawl is healthy."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed_s = clock.monotonic()
        self._waiting_s: float | None = None  # since when outcomes wait to be committed

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._committed_s = self._clock.monotonic()

    async def is_healthy(self, control: Control, within_s: float) -> bool:
        """False if the store does not answer within that time, or has committed none of the
        outcomes waiting for that long. A crawl on hold waits on purpose."""
        if control.held:
            return True
        try:
            async with asyncio.timeout(within_s):
                await control.stats()
        except (TimeoutError, StoreError):
            return False
        now_s = self._clock.monotonic()
        if not control.status().uncommitted:
            self._waiting_s = None
            return True
        if self._waiting_s is None:
            self._waiting_s = now_s
        return now_s - max(self._waiting_s, self._committed_s) < within_s

    async def report(self, control: Control, notify: Notify, every_s: float) -> None:
        """Send keep-alives while the crawl is healthy, three in each interval of `every_s`."""
        looks = PeriodicSteps("the look at whether this process is alive")
        while True:
            if await looks.take(partial(self.is_healthy, control, every_s / 2)):
                notify.alive()
            await self._clock.sleep_until(self._clock.monotonic() + every_s / 3)

"""Whether the crawl is alive: its loop turns, its store answers, what is recorded is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawler.clock import Clock
from crawler.observer import Contacted
from crawler.steering.control import Control
from policies.holds import Hold
from storage.store import Outcome, StoreError


class Pulse:
    """An `Observer` that knows when something was committed last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed_s = clock.monotonic()
        self._waiting_s: float | None = None  # since when something waits to be committed

    def contacted(self, seen: Contacted) -> None: ...

    def settled(self, url: str, outcome: Outcome) -> None: ...

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None: ...

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._committed_s = self._clock.monotonic()

    def hold_began(self, hold: Hold) -> None: ...

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None: ...

    async def beats(self, control: Control, within_s: float) -> bool:
        """False if the store does not answer in that time, or has been given outcomes and has
        committed none for so long; a crawl that is held waits on purpose."""
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

    async def keep_telling(
        self, control: Control, alive: Callable[[], None], every_s: float
    ) -> None:
        """Tell that all is well for as long as it is, so often that one time may be missed."""
        while True:
            if await self.beats(control, every_s / 2):
                alive()
            await self._clock.sleep_until(self._clock.monotonic() + every_s / 3)

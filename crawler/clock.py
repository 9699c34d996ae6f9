"""Time, injected: the crawl never asks the machine for it directly, so that an hour of politeness
can be tested in milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Two times: `monotonic` (seconds, for every rest and every wait) and `wall` (Unix seconds,
    only for what is stored or compared with a date from the network)."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """Call once when `monotonic()` has reached `when_s`."""
        ...

    async def sleep_until(self, when_s: float) -> None: ...


class RealClock:
    """The machine's clocks, and the running event loop's timers.

    Not `loop.time()`: uvloop caches it for a whole round of the loop, in milliseconds, and the end
    of a contact stamped with it lies before its real end, which would make the next one early.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, when_s - time.monotonic()), callback)

    async def sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s - time.monotonic()))

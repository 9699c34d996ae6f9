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

    # As they are, without a function of ours around each: 24 looks at them a page.
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer()
        self._arm(timer, when_s, callback)
        return timer

    def _arm(self, timer: _Timer, when_s: float, callback: Callable[[], None]) -> None:
        in_s = max(0.0, when_s - time.monotonic())
        timer.handle = self._loop.call_later(in_s, self._fire, timer, when_s, callback)

    def _fire(self, timer: _Timer, when_s: float, callback: Callable[[], None]) -> None:
        """Never early: uvloop rounds delays to milliseconds."""
        if time.monotonic() < when_s:
            self._arm(timer, when_s, callback)
        else:
            timer.handle.cancel()  # it would keep the timer, which keeps it
            callback()

    async def sleep_until(self, when_s: float) -> None:
        reached = asyncio.Event()
        timer = self.call_at(when_s, reached.set)
        try:
            await reached.wait()
        finally:
            timer.cancel()


class _Timer:
    __slots__ = ("handle",)

    handle: asyncio.TimerHandle

    def cancel(self) -> None:
        self.handle.cancel()

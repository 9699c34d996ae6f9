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
        return _Timer(self._loop, when_s, callback)

    async def sleep_until(self, when_s: float) -> None:
        reached = asyncio.Event()
        timer = self.call_at(when_s, reached.set)
        try:
            await reached.wait()
        finally:
            timer.cancel()


class _Timer:
    """Never early: uvloop rounds delays to milliseconds; one that fires too soon is set again."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, when_s: float, callback: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._when_s = when_s
        self._callback = callback
        self._set()

    def _set(self) -> None:
        left_s = max(0.0, self._when_s - time.monotonic())
        self._handle = self._loop.call_later(left_s, self._fire)

    def _fire(self) -> None:
        if time.monotonic() < self._when_s:
            self._set()
        else:
            self._handle.cancel()  # it would keep this timer, which keeps it
            self._callback()

    def cancel(self) -> None:
        self._handle.cancel()

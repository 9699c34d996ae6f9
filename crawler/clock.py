"""Injected time. The crawl never reads the machine's clocks directly, so that tests cover an hour
of politeness in milliseconds."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


# The clocks that also count while the machine sleeps: of Linux, and of other systems. Linux's own
# CLOCK_MONOTONIC does not, nor does Python's `time.monotonic` on macOS.
_SLEEPLESS: Final = ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC")


class Clock(Protocol):
    """Three clocks: `monotonic` (seconds, for every delay and wait), `wall` (Unix seconds, only
    for stored times and for comparison with dates from the network), and `boottime`."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def boottime(self) -> float:
        """Return seconds as `monotonic` does, but counted while the machine sleeps as well."""
        ...

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, as soon as `monotonic()` has reached `when_s`."""
        ...

    async def sleep_until(self, when_s: float) -> None: ...


def _boottime() -> Callable[[], float]:
    for name in _SLEEPLESS:
        if hasattr(time, name):
            return partial(time.clock_gettime, getattr(time, name))
    return time.monotonic


class RealClock:
    """The machine's clocks, and the running event loop's timers.

    `loop.time()` is not used: uvloop caches it, in milliseconds, for a whole iteration of the loop.
    The recorded end of a contact would precede its real end, and the next contact would be early.
    """

    # Bound directly, without wrapper methods: they are called often for each page.
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    boottime = staticmethod(_boottime())

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
            timer.handle.cancel()  # breaks the reference cycle with the timer
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


class ContactDeadline:
    """The time until which no other worker can have taken over the hosts of this one.

    In a store that several workers share, a worker's leases last for some seconds after it asked
    for its latest renewal (`Store.pulse`). They are counted while the machine sleeps, too. A worker
    that does not share its store has no deadline.
    """

    __slots__ = ("_clock", "until_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.until_s = math.inf  # `Clock.boottime`

    def begin(self) -> None:
        """Set a deadline from now on: no contact is allowed before the first renewal."""
        self.until_s = -math.inf

    @property
    def exists(self) -> bool:
        return self.until_s != math.inf

    @property
    def left_s(self) -> float:
        """Seconds until it passes; negative: since it has passed."""
        return self.until_s - self._clock.boottime()

    @property
    def passed(self) -> bool:
        """Whether no request may be sent any more. Cheap where there is no deadline."""
        return self.until_s != math.inf and self._clock.boottime() >= self.until_s

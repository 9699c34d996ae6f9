"""The store's own time: Unix seconds that never run backwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import Struct

_SLACK_S = 1.0  # two clocks this close are one: slewing is no reason to correct anything


class Uptime(Struct, frozen=True):
    """How long a machine has been up, its sleep included, and since which start of it."""

    boot: str
    uptime_s: float

    def since(self, boot: str | None, uptime_s: float | None) -> float | None:
        """Seconds since it was up for `uptime_s`; None: not since the same start."""
        if boot != self.boot or uptime_s is None or uptime_s > self.uptime_s:
            return None
        return self.uptime_s - uptime_s


@cache
def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def machine_uptime() -> Uptime | None:
    """Of this machine; None where it does not say (it is not Linux)."""
    boot = _boot()
    return None if boot is None else Uptime(boot, time.clock_gettime(time.CLOCK_BOOTTIME))


class Moment(Struct, frozen=True):
    """The time of one transaction: the store's own, and the wall clock's."""

    now_s: float
    wall_s: float
    shift_s: float
    uptime: Uptime | None = None


class Timekeeper:
    """Counts the rests of hosts, so that setting the wall clock neither lengthens nor cuts them.

    It starts from the wall clock, or from where the last session left off, and goes on by
    `monotonic`. Without one it follows the wall clock, except where that is set back.
    """

    def __init__(
        self,
        wall: Callable[[], float],
        monotonic: Callable[[], float] | None = None,
        uptime: Callable[[], Uptime | None] | None = None,
    ) -> None:
        self._uptime = uptime
        self._wall = wall
        self._source = wall if monotonic is None else monotonic
        self._offset_s = wall() - self._source()  # to add to the source
        self._last_s = wall()

    def resume(self, last_s: float, shift_s: float, passed_s: float | None = None) -> None:
        """Continue after a session whose last time was `last_s`, `shift_s` ahead of the wall clock.

        passed_s: how long ago that was, by a clock that nobody sets. Without one the wall clock
        says, which may have been set since: what it was set forward by shortens rests.
        """
        if passed_s is None:
            self._last_s = max(last_s, self._wall() + shift_s)
        else:
            self._last_s = last_s + max(0.0, passed_s)
        self._offset_s = self._last_s - self._source()

    def now_s(self) -> float:
        """The store's time. Never less than it has been."""
        now_s = self._source() + self._offset_s
        if (
            now_s < self._last_s
        ):  # the source was set back: no time passed, and it goes on from here
            self._offset_s += self._last_s - now_s
            now_s = self._last_s
        self._last_s = now_s
        return now_s

    def shift_s(self) -> float:
        """How far the store's time is ahead of the wall clock's; 0.0 unless that was set."""
        shift_s = self.now_s() - self._wall()
        return shift_s if abs(shift_s) > _SLACK_S else 0.0

    def uptime(self) -> Uptime | None:
        """What tells the next session how much time has passed; None: only the wall clock does."""
        return None if self._uptime is None else self._uptime()

    def wall_s(self) -> float:
        """The wall clock: for dates that came from the network, such as a robots copy's expiry."""
        return self._wall()

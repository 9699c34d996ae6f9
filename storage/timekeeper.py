"""The clock of a store, Unix seconds that never run backwards; and proof that time has passed."""

from __future__ import annotations

import bisect
import secrets
import threading
import time
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

KEPT_MAX: Final = 2_048


class Ticks:
    """A tick is a number that a database draws with every commit that stores clocks of hosts.

    Whoever has seen a tick knows that what was stored with it, or with a smaller one, happened
    before that moment. For any thread. Times are seconds of a clock of this machine that nobody can
    set.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: list[int] = []  # ascending
        self._seen_s: list[float] = []  # when each, or a larger one, was first seen

    def saw(self, tick: int, now_s: float) -> None:
        """The newest tick of the database was this one, or a larger one, before `now_s`."""
        with self._lock:
            if self._numbers and tick <= self._numbers[-1]:
                return
            self._numbers.append(tick)
            self._seen_s.append(now_s)
            if len(self._numbers) > KEPT_MAX:  # what is left out proves less, and nothing wrong
                del self._numbers[: KEPT_MAX // 2 : 2], self._seen_s[: KEPT_MAX // 2 : 2]

    def seen_s(self, tick: int) -> float | None:
        """Return when this tick had certainly been drawn; None if that is not known."""
        with self._lock:
            place = bisect.bisect_left(self._numbers, tick)
            return self._seen_s[place] if place < len(self._numbers) else None

    def forget(self) -> None:
        """The database may not be the one in which they were seen."""
        with self._lock:
            self._numbers.clear()
            self._seen_s.clear()


_SLACK_S = 1.0  # clocks that are closer count as equal, so that slewing corrects nothing


class Uptime(Struct, frozen=True):
    """The time that a machine has been up, including sleep, since a certain boot."""

    boot: str
    uptime_s: float

    def since(self, boot: str | None, uptime_s: float | None) -> float | None:
        """Return the seconds since it was up for `uptime_s`; None if that was another boot."""
        if boot != self.boot or uptime_s is None or uptime_s > self.uptime_s:
            return None
        return self.uptime_s - uptime_s

    @property
    def boot_key(self) -> int:
        """The boot in 64 bits, as it is stored beside each host."""
        return _key_of(self.boot)


@cache
def _key_of(boot: str) -> int:
    return int.from_bytes(blake2b(boot.encode(), digest_size=8).digest(), signed=True)


@cache
def _boot() -> str | None:
    """What processes have in common whose uptimes can be compared. A time namespace has an uptime
    of its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    try:
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:  # an older kernel has none
        return boot


def machine_uptime() -> Uptime | None:
    """Return the uptime of this machine; None if it is unknown (not Linux)."""
    boot = _boot()
    return None if boot is None else Uptime(boot, time.clock_gettime(time.CLOCK_BOOTTIME))


class Stamp(Struct, frozen=True, array_like=True):
    """The time when a row was stored; `boot` and `uptime_s` are those of `Moment.stamp`."""

    tick: int  # of the database
    boot: int | None
    uptime_s: float | None


class Moment(Struct, frozen=True):
    """The time of one transaction, by the store's clock and by the wall clock."""

    now_s: float
    wall_s: float
    shift_s: float
    uptime: Uptime
    late_s: float = 0.0  # how far `now_s` may be behind
    ticks: Ticks | None = None  # of a database that several workers share

    @property
    def latest_s(self) -> float:
        """The store's time, if it is not behind: a delay that counts from here is never too
        short."""
        return self.now_s + self.late_s

    @property
    def stamp(self) -> tuple[int, float]:
        """Return this moment, as it is stored beside what is true of it: boot and uptime."""
        return self.uptime.boot_key, self.uptime.uptime_s

    def passed_s(self, stamp: Stamp) -> float:
        """Return the seconds that have certainly passed since something was stored with this stamp,
        by a worker on this machine or, with the tick, on any other. No clock that can be set has a
        say."""
        now_s = self.uptime.uptime_s
        since_s = now_s
        if stamp.boot == self.uptime.boot_key and stamp.uptime_s is not None:
            since_s = min(since_s, stamp.uptime_s)
        elif self.ticks is not None and (seen_s := self.ticks.seen_s(stamp.tick)) is not None:
            since_s = min(since_s, seen_s)
        return now_s - since_s


class StoreTime(Protocol):
    """The clock of a store."""

    @property
    def ticks(self) -> Ticks | None: ...

    def resume(self, last_s: float, shift_s: float, passed_s: float | None = None) -> None: ...

    def now_s(self) -> float: ...

    def late_s(self) -> float: ...

    def shift_s(self) -> float: ...

    def uptime(self) -> Uptime: ...

    def wall_s(self) -> float: ...


class Timekeeper:
    """The clock for delays of hosts: setting the wall clock neither lengthens nor shortens them.

    It starts from the wall clock, or where the last session ended, and then follows `monotonic`.
    Without that it follows the wall clock, except backwards.
    """

    ticks = None

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
        self._own = f"process {secrets.token_hex(8)}"

    def resume(self, last_s: float, shift_s: float, passed_s: float | None = None) -> None:
        """Continue after a session whose last time was `last_s`, `shift_s` ahead of the wall clock.

        passed_s: how long ago that was, by a clock that cannot be set. Without it, the wall clock
        decides; if that was set forward since, delays are shorter by that amount.
        """
        if passed_s is None:
            self._last_s = max(last_s, self._wall() + shift_s)
        else:
            self._last_s = last_s + max(0.0, passed_s)
        self._offset_s = self._last_s - self._source()

    def now_s(self) -> float:
        """Return the store's time, which is never less than before."""
        now_s = self._source() + self._offset_s
        if now_s < self._last_s:  # the source was set back: continue from here
            self._offset_s += self._last_s - now_s
            now_s = self._last_s
        self._last_s = now_s
        return now_s

    def late_s(self) -> float:
        """Return how far `now_s` may be behind: it is read from this machine's clock."""
        return 0.0

    def shift_s(self) -> float:
        """Return how far the store's time is ahead of the wall clock; 0.0 unless that was set."""
        shift_s = self.now_s() - self._wall()
        return shift_s if abs(shift_s) > _SLACK_S else 0.0

    def uptime(self) -> Uptime:
        """Return the uptime, by which the next session measures the time between. Where it is not
        known, that of this process, which no other can compare with its own."""
        known = None if self._uptime is None else self._uptime()
        return known or Uptime(self._own, self._source())

    def wall_s(self) -> float:
        """Return the wall clock's time, for dates from the network, such as the expiry of
        robots.txt."""
        return self._wall()

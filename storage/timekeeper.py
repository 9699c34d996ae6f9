"""The store's own time: Unix seconds that never run backwards."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

_SLACK_S = 1.0  # two clocks this close are one: slewing is no reason to correct anything


class Moment(Struct, frozen=True):
    """The time of one transaction: the store's own, and the wall clock's."""

    now_s: float
    wall_s: float
    shift_s: float


class Timekeeper:
    """Counts the rests of hosts, so that setting the wall clock neither lengthens nor cuts them.

    It starts from the wall clock, or from where the last session left off, and goes on by
    `monotonic`. Without one it follows the wall clock, except where that is set back.
    """

    def __init__(
        self, wall: Callable[[], float], monotonic: Callable[[], float] | None = None
    ) -> None:
        self._wall = wall
        self._source = wall if monotonic is None else monotonic
        self._offset_s = wall() - self._source()  # to add to the source
        self._last_s = wall()

    def resume(self, last_s: float, shift_s: float) -> None:
        """Go on after a session whose last time was `last_s`, `shift_s` ahead of the wall."""
        self._last_s = max(last_s, self._wall() + shift_s)
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

    def wall_s(self) -> float:
        """The wall clock: for dates that came from the network, such as a robots copy's expiry."""
        return self._wall()

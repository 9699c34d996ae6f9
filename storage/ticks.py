"""When this process first saw each tick of a shared database: proof that time has passed since
another worker stored something, without a clock that both could read."""

from __future__ import annotations

import bisect
import threading
from typing import Final

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

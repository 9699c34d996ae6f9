"""Until when a worker may contact the hosts that it holds."""

from __future__ import annotations

import math

from crawler.clock import Clock


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

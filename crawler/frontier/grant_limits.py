"""How many permits may be granted now."""

from __future__ import annotations

from typing import Final

# Permits granted in one pass of the event loop, between two looks at the network, to hosts that
# have a delay. Granted all together, hosts that come together would be contacted together, then all
# answers be read, and so on: each waits for all others at each step. A few at a time go through all
# steps, and their delays end as far apart: of 2,000 hosts with a delay of 2 s the median request
# began 1.4 ms late rather than 5.6 ms.
PASS_MAX: Final = 8
# The same while hosts are late by more than BEHIND_S: there is more to do than time for it, and
# small passes take more of it (at 8 a page 7 % more CPU, at 64 none).
PASS_BEHIND_MAX: Final = 64
BEHIND_S: Final = 0.02


class GrantLimits:
    """Open permits over all hosts, and permits granted in this pass of the event loop."""

    def __init__(self, open_max: int) -> None:
        self._open_max = open_max
        self._open_max_now = open_max  # smaller for a while after sockets ran out
        self.open = 0
        self._passed = 0
        self._pass_max = PASS_MAX

    @property
    def allow(self) -> bool:
        return self.open < self._open_max_now and self._passed < self._pass_max

    def count_in_pass(self, late_s: float) -> bool:
        """One more in this pass. True: the first, which has waited longest and shows by how much we
        are late."""
        first = self._passed == 0
        if first and late_s > BEHIND_S:
            self._pass_max = PASS_BEHIND_MAX
        self._passed += 1
        return first

    def next_pass(self) -> None:
        self._passed, self._pass_max = 0, PASS_MAX

    def set(self, open_max: int) -> None:
        self._open_max = self._open_max_now = open_max

    @property
    def squeezed(self) -> bool:
        """Are fewer permits granted than the configured number?"""
        return self._open_max_now < self._open_max

    def squeeze(self, open_max: int) -> None:
        """Grant at most this many (at least one) until eased."""
        self._open_max_now = max(1, min(self._open_max_now, open_max))

    def ease(self) -> None:
        """Double the squeezed number."""
        self._open_max_now = min(self._open_max, 2 * self._open_max_now)

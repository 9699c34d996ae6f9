"""Reasons to stop all permits: the operator, or system holds."""

from __future__ import annotations

from typing import Final

from policies.holds import CONNECTING, HoldReason

BY_OPERATOR: Final = "by the operator"  # the whole crawl is paused; beside the reasons of holds

Stop = HoldReason | str


class Stops:
    """The reasons for which no permit is granted, and the probes granted all the same.

    A probe is one permit granted during a hold, to find out whether it is over. None is granted
    while the operator has paused the crawl.
    """

    def __init__(self) -> None:
        self.reasons: set[Stop] = set()  # changed by `add` and `remove` alone
        self._probes = 0  # permits that may be granted all the same: one or none
        self.closed = False
        """No permits: there are reasons, and no probe is due."""

    @property
    def paused(self) -> bool:
        """Whether the operator has paused the whole crawl."""
        return BY_OPERATOR in self.reasons

    @property
    def frozen(self) -> bool:
        """Whether a pause, or a hold of disk or database, stops permits: no request can end it."""
        return not self.reasons <= CONNECTING

    def add(self, reason: Stop) -> None:
        self.reasons.add(reason)
        self.allow_probes(self._probes if reason == BY_OPERATOR else 0)

    def remove(self, reason: Stop) -> None:
        self.reasons.discard(reason)
        self.allow_probes(self._probes if reason == BY_OPERATOR else 0)

    def allow_probes(self, probes: int) -> None:
        """Grant this many probes (0 or 1); none beside a hold that no request can end."""
        holds = self.reasons - {BY_OPERATOR}
        self._probes = probes if holds and holds <= CONNECTING else 0
        self.closed = bool(self.reasons) and (self.paused or not self._probes)

"""How many hosts each worker of a shared crawl should have: as many as each other, or one more."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

SURPLUS_S = 2.0  # for so long must hosts be too many before they are released
# For so long, hosts that one worker has released count, though no other says yet that it has them.
CHANGING_HANDS_S = 10.0


class _Counted(NamedTuple):
    """What a pulse told."""

    at_s: float
    total: int  # hosts, of all workers
    surplus: int


class OtherWorkers(Struct, kw_only=True):
    """What this worker knows of the others; only `SharedCrawl` changes it. shared: whether there
    can be any. session: of this worker."""

    shared: bool
    session: int
    active: int = 0  # not idle
    # By session, of those that take hosts: how many each has.
    sharing: Mapping[int, int] = {}
    # When the latest pulse that was answered was asked for (monotonic).
    asked_s: float = -math.inf


class FairShare:
    """How many hosts this worker should have, by what each last said that it has.

    All workers compute the same shares from the same counts: those that have the most keep the
    hosts that are left over. So only what must move is released, by whoever has too many, and it
    is claimed by whoever has too few.
    """

    def __init__(self, others: OtherWorkers, now_s: float) -> None:
        self._others = others
        self._lately = deque([_Counted(now_s, 0, 0)])

    def learned(self, own: int, now_s: float) -> None:
        """The others have just said how many hosts they have, and this worker has so many."""
        total = own + sum(self._others.sharing.values())
        self._lately.append(_Counted(now_s, total, self._surplus(own, now_s)))

    def share(self, own: int, now_s: float) -> int:
        """Return how many hosts this worker should have, which has so many."""
        counts = self._others.sharing
        each, left_over = divmod(self._total(own, now_s), 1 + len(counts))
        mine = (own, self._others.session)
        before = sum((count, session) > mine for session, count in counts.items())
        return each + (before < left_over)

    def settled(self, own: int, now_s: float) -> bool:
        """Return whether the workers have no fewer hosts than a short while ago: else some may be
        changing hands."""
        return own + sum(self._others.sharing.values()) >= self._total(own, now_s)

    def surplus(self, own: int, now_s: float) -> int:
        """Return how many of its hosts others should have, and should have had for a while: none
        if nobody has two fewer."""
        lately = [said.surplus for said in self._lately if said.at_s >= now_s - SURPLUS_S]
        return min([self._surplus(own, now_s), *lately]) if lately else 0

    def _total(self, own: int, now_s: float) -> int:
        while self._lately and self._lately[0].at_s < now_s - CHANGING_HANDS_S:
            self._lately.popleft()
        total = own + sum(self._others.sharing.values())
        return max([total, *(counted.total for counted in self._lately)])

    def _surplus(self, own: int, now_s: float) -> int:
        return max(0, own - self.share(own, now_s)) if self._others.sharing else 0

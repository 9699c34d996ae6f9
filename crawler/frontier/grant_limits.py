"""How many permits may be granted now."""

from __future__ import annotations

from collections import Counter
from typing import Final

from crawler.frontier.crowd_pace import LoopLoad, SpacedStarts
from crawler.leased_domains import LeasedDomains

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
# Of what may wait to be parsed, for one domain.
UNPARSED_OF_DOMAIN: Final = 0.25


class GrantLimits:
    """Open permits over all hosts, and permits granted in this pass of the event loop.

    Of the open permits a registrable domain has as many as are left for others, at most: one with
    thousands of hosts, silent or busy, uses neither all permits nor all of the event loop's time.
    (Choudhury and Hahne, 1998: dynamic queue length thresholds.) This is so while there are hosts
    of other domains.
    """

    def __init__(self, open_max: int) -> None:
        self.domains = LeasedDomains()
        self._open_max = open_max
        self._open_max_now = open_max  # smaller for a while after sockets ran out
        self.open = 0
        self._open_of: dict[str, int] = {}  # by domain
        self._unparsed_of: dict[str, float] = {}  # by domain, as a share of what may be
        self.without_place: Counter[str] = Counter()  # large bodies that wait, by domain
        self.load = LoopLoad(self.domains)
        self.pages = SpacedStarts(self.load)
        self._passed = 0
        self._pass_began_s = 0.0
        self._pass_max = PASS_MAX

    @property
    def allow(self) -> bool:
        return self.open < self._open_max_now and self._passed < self._pass_max

    def begin(self, domain: str) -> None:
        """A permit of the domain is open."""
        self.open += 1
        self._open_of[domain] = self._open_of.get(domain, 0) + 1

    def end(self, domain: str) -> None:
        self.open -= 1
        if (left := self._open_of.pop(domain) - 1) > 0:
            self._open_of[domain] = left

    def allow_domain(self, domain: str, now_s: float) -> bool:
        """Return whether one more permit leaves enough for other domains. None while a large body
        of the domain waits to be received: the next one might wait as well."""
        if domain in self.without_place:
            return False
        if not self.domains.may_crowd(domain):
            return True
        if self._unparsed_of.get(domain, 0.0) > UNPARSED_OF_DOMAIN:
            return False
        of_domain = self._open_of.get(domain)
        if of_domain is not None and of_domain >= self._open_max_now - self.open:
            return False
        return self.pages.allow(domain, now_s)

    def count_unparsed(self, domain: str, share: float) -> None:
        """A page of the domain waits to be parsed; negative: it no longer does."""
        now = self._unparsed_of.get(domain, 0.0) + share
        if now > 1e-9:
            self._unparsed_of[domain] = now
        else:
            self._unparsed_of.pop(domain, None)

    def count_in_pass(self, late_s: float, now_s: float) -> bool:
        """Count one more permit in this pass. True: the first, which has waited longest and shows
        by how much we are late."""
        first = self._passed == 0
        if first:
            self._pass_began_s = now_s
            if late_s > BEHIND_S:
                self._pass_max = PASS_BEHIND_MAX
        self._passed += 1
        return first

    def next_pass(self, now_s: float) -> None:
        """The pass is over in which permits were granted last."""
        self._passed, self._pass_max = 0, PASS_MAX
        self.load.passed(now_s - self._pass_began_s)

    def set(self, open_max: int) -> None:
        self._open_max = self._open_max_now = open_max

    @property
    def squeezed(self) -> bool:
        """Whether fewer permits are granted than the configured number."""
        return self._open_max_now < self._open_max

    def squeeze(self, open_max: int) -> None:
        """Grant at most this many (at least one) until eased."""
        self._open_max_now = max(1, min(self._open_max_now, open_max))

    def ease(self) -> None:
        """Double the squeezed number."""
        self._open_max_now = min(self._open_max, 2 * self._open_max_now)

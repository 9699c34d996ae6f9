"""Spaces the requests to domains with several hosts while the event loop or the store is late.

Every request needs several passes of the event loop, and each of them waits for all work that is
there before it. A domain with a thousand hosts brings enough work to keep the loop busy all the
time, whatever its hosts answer. So do its links with the store, for whose commits the hosts of
others wait, too. While passes or commits are long, each domain with several hosts therefore begins
requests at intervals, which grow until those are short again.
"""

from __future__ import annotations

import math
from typing import Final

from crawler.leased_domains import LeasedDomains

PASS_LONG_S: Final = 0.004
INTERVAL_S_MIN: Final = 0.001  # shorter ones change nothing
INTERVAL_S_MAX: Final = 0.25
GROWTH: Final = 1.2  # with each long pass,
DECLINE: Final = 0.95  # and with each short one
# A commit that takes so much longer than the shortest ones delays the URLs, and the next commits,
# of all hosts. Those of a store that is far away, or slow, are never short, whoever's links it has.
COMMIT_LONG_S: Final = 0.05
SHORTEST_GROWTH: Final = 1.01  # with each commit: what was short once is forgotten
COMMIT_GROWTH_MAX: Final = 4.0  # in proportion to its length
COMMIT_DECLINE: Final = 0.8
STARTS_MAX: Final = 1_024  # domains of which the last request is known; then only the recent ones


class LoopLoad:
    """How long passes and commits are, and the interval between requests that follows from it."""

    def __init__(self, domains: LeasedDomains) -> None:
        self.domains = domains
        self._loop_s = self._store_s = 0.0
        self._shortest_s = math.inf  # of the last commits
        self.interval_s = 0.0
        """Seconds between two requests of a domain with several hosts; 0.0: none."""

    def passed(self, length_s: float) -> None:
        """A pass of the event loop took this long."""
        if length_s > PASS_LONG_S:
            self._loop_s = min(max(INTERVAL_S_MIN, GROWTH * self._loop_s), INTERVAL_S_MAX)
        elif self._loop_s:
            shorter_s = DECLINE * self._loop_s
            self._loop_s = shorter_s if shorter_s >= INTERVAL_S_MIN else 0.0
        self.interval_s = max(self._loop_s, self._store_s)

    def committed(self, length_s: float) -> None:
        """A commit took this long, with what the store had to do before it."""
        self._shortest_s = min(length_s, SHORTEST_GROWTH * self._shortest_s)
        times = (length_s - self._shortest_s) / COMMIT_LONG_S
        if times > 1:
            longer_s = max(INTERVAL_S_MIN, self._store_s) * min(times, COMMIT_GROWTH_MAX)
            self._store_s = min(longer_s, INTERVAL_S_MAX)
        elif self._store_s:
            shorter_s = COMMIT_DECLINE * self._store_s
            self._store_s = shorter_s if shorter_s >= INTERVAL_S_MIN else 0.0
        self.interval_s = max(self._loop_s, self._store_s)


class SpacedStarts:
    """Decides when each domain may begin the next request of one kind."""

    def __init__(self, load: LoopLoad) -> None:
        self._load = load
        self._began_s: dict[str, float] = {}  # the last request, by domain
        self.refused_until_s = math.inf
        """When the first of the domains refused since `look` may begin one."""

    def look(self) -> None:
        """Forget which domains were refused: they are looked at again."""
        self.refused_until_s = math.inf

    def allow(self, domain: str, now_s: float) -> bool:
        """Return whether the domain may begin a request."""
        if not self._load.interval_s or (began_s := self._began_s.get(domain)) is None:
            return True
        at_s = began_s + self._load.interval_s
        if at_s <= now_s or not self._load.domains.may_crowd(domain):
            return True
        self.refused_until_s = min(self.refused_until_s, at_s)
        return False

    def began(self, domain: str, now_s: float) -> None:
        """The domain begins a request."""
        if not self._load.interval_s:
            return
        self._began_s[domain] = now_s
        if len(self._began_s) > STARTS_MAX:
            recent_s = now_s - INTERVAL_S_MAX
            self._began_s = {name: at for name, at in self._began_s.items() if at > recent_s}

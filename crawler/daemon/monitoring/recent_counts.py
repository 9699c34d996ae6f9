"""What happened in the last minutes, as differences between samples of counters that only grow."""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct, structs

WINDOW_S: Final = 300.0  # by which the health of a crawl is judged
STEP_S: Final = 5.0
SAMPLES_MAX: Final = 62  # a window of them, and the one before it


class Counts(Struct, frozen=True, kw_only=True):
    """Counts since the start, or in a span of time.

    pages: contacts for pages. lost: those without a response, for which the network or the site is
    responsible. server_errors: 5xx. refusals: 429 and 503. robots, robots_unreachable: requests for
    robots.txt. ended: URLs visited, blocked or failed. failed: URLs that failed, also those given
    up together. given_up_hosts: origins whose URLs were given up. early: contacts that began before
    the delay of their host was over. commits, slow_commits: of which the latter took over a second.
    """

    pages: int = 0
    lost: int = 0
    server_errors: int = 0
    refusals: int = 0
    robots: int = 0
    robots_unreachable: int = 0
    ended: int = 0
    failed: int = 0
    given_up_hosts: int = 0
    early: int = 0
    commits: int = 0
    slow_commits: int = 0

    def since(self, before: Counts) -> Counts:
        """The difference to earlier counts."""
        pairs = zip(structs.astuple(self), structs.astuple(before), strict=True)
        names = self.__struct_fields__
        return Counts(**dict(zip(names, (now - then for now, then in pairs), strict=True)))


class RecentCounts:
    """Samples of the counts of one run. Add one every STEP_S; times are of the monotonic clock."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Counts]] = deque(maxlen=SAMPLES_MAX)

    def add(self, at_s: float, counts: Counts) -> None:
        self._samples.append((at_s, counts))

    def last(self, counts: Counts, *, now_s: float, span_s: float = WINDOW_S) -> Counts:
        """What was counted in the last `span_s` seconds, within a step; of a shorter run, all of
        it. counts: as they are now."""
        before = Counts()
        for at_s, sample in self._samples:
            if at_s > now_s - span_s:
                break
            before = sample
        return counts.since(before)

"""What happened in the last minutes, as differences between samples of counters that only grow."""

from __future__ import annotations

from collections import deque
from typing import Final

from crawler.daemon.health import Counts

WINDOW_S: Final = 300.0  # by which the health of a crawl is judged
STEP_S: Final = 5.0
SAMPLES_MAX: Final = 62  # a window of them, and the one before it


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

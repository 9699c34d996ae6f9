"""Pages and bytes visited, in total and per second over the last few seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from storage.store import Outcome, Revisited, Visited

OVER_S: Final = 10.0  # long enough for commits ten times a second, short enough to see a change
BUCKET_S: Final = 1.0


class Rates:
    """Pages and bytes as they are committed, gathered by the second; a dozen numbers at most."""

    def __init__(self, now_s: float) -> None:
        self.pages = 0
        self.bytes = 0
        self._began_s = now_s
        self._buckets: deque[tuple[float, int, int]] = deque()

    def add(self, now_s: float, outcomes: Iterable[Outcome]) -> None:
        """These outcomes were committed. A page that was revisited and had not changed counts as a
        page, of no bytes."""
        pages, body_bytes = 0, 0
        for outcome in outcomes:
            if isinstance(outcome, Visited):
                pages += 1
                body_bytes += outcome.body_bytes
            elif isinstance(outcome, Revisited) and outcome.plan and not outcome.plan.failures:
                pages += 1
        if not pages:
            return
        self.pages += pages
        self.bytes += body_bytes
        if self._buckets and now_s - self._buckets[-1][0] < BUCKET_S:
            began_s, had_pages, had_bytes = self._buckets.pop()
            self._buckets.append((began_s, had_pages + pages, had_bytes + body_bytes))
        else:
            self._forget(now_s)
            self._buckets.append((now_s, pages, body_bytes))

    def per_s(self, now_s: float) -> tuple[float, float]:
        """Pages and bytes per second."""
        self._forget(now_s)
        over_s = max(min(OVER_S, now_s - self._began_s), BUCKET_S)
        pages = sum(bucket[1] for bucket in self._buckets)
        body_bytes = sum(bucket[2] for bucket in self._buckets)
        return pages / over_s, body_bytes / over_s

    def _forget(self, now_s: float) -> None:
        while self._buckets and self._buckets[0][0] <= now_s - OVER_S:
            self._buckets.popleft()

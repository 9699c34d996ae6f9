"""The minutes of a web: what was asked of it, when it began and when it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request. Seconds, monotonic: the event loop's, or the clock's that a fake was given."""

    host: str  # lower case, without the port
    path: str  # with its query
    headers: dict[str, str]  # as asked, names in lower case
    start_s: float  # the first bytes of the request arrived
    end_s: float = math.inf  # just before the last write, or when the client went away
    status: int | None = None  # None: not answered (yet)


class Log(list[Exchange]):
    """All exchanges, by time of arrival. `host` None: those with all hosts."""

    def requests(self, host: str | None = None) -> list[Exchange]:
        return [entry for entry in self if host is None or entry.host == host]

    def paths(self, host: str | None = None) -> list[str]:
        return [entry.path for entry in self.requests(host)]

    def gaps(self, host: str | None = None) -> list[float]:
        """Seconds from the end of all earlier contacts to the start of each; negative: overlap."""
        gaps = []
        end_s = -math.inf
        for entry in sorted(self.requests(host), key=lambda entry: entry.start_s):
            if end_s > -math.inf:
                gaps.append(entry.start_s - end_s)
            end_s = max(end_s, entry.end_s)
        return gaps

    def peak_concurrency(self, host: str | None = None) -> int:
        """The most exchanges that were ever in progress at once."""
        steps = [step for e in self.requests(host) for step in ((e.start_s, 1), (e.end_s, -1))]
        peak = now = 0
        for _, step in sorted(steps):  # of one instant, ends before starts
            now += step
            peak = max(peak, now)
        return peak

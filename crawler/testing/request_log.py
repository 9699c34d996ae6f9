"""A log of the requests that a local web or a fake fetcher received."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class LoggedRequest:
    """One request. Times are monotonic seconds, of the event loop or of the clock that a fake
    fetcher was given."""

    host: str  # lower case, without the port
    path: str  # including the query
    headers: dict[str, str]  # as received; names in lower case
    start_s: float  # when the first bytes of the request arrived
    end_s: float = math.inf  # just before the last write, or when the client disconnected
    status: int | None = None  # None: not answered (yet)


class RequestLog(list[LoggedRequest]):
    """All requests in order of arrival. Each method looks at one host, or at all if it is None."""

    def requests(self, host: str | None = None) -> list[LoggedRequest]:
        return [entry for entry in self if host is None or entry.host == host]

    def paths(self, host: str | None = None) -> list[str]:
        return [entry.path for entry in self.requests(host)]

    def gaps(self, host: str | None = None) -> list[float]:
        """Return seconds from the end of earlier requests to the start of each; negative:
        overlap."""
        gaps = []
        end_s = -math.inf
        for entry in sorted(self.requests(host), key=lambda entry: entry.start_s):
            if end_s > -math.inf:
                gaps.append(entry.start_s - end_s)
            end_s = max(end_s, entry.end_s)
        return gaps

    def peak_concurrency(self, host: str | None = None) -> int:
        """The maximum number of requests in progress at the same time."""
        steps = [step for e in self.requests(host) for step in ((e.start_s, 1), (e.end_s, -1))]
        peak = now = 0
        for _, step in sorted(steps):  # at the same instant, ends come before starts
            now += step
            peak = max(peak, now)
        return peak

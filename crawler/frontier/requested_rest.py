"""The pause that an answer requests with Retry-After (RFC 9110, 10.2.3)."""

from __future__ import annotations

import logging
import math

from crawler.config.units import format_duration
from crawler.fetching.request import Headers
from crawler.frontier.host_queue import HostQueue
from policies.retries import retry_after_s

_log = logging.getLogger("courtly.fetch")


def requested_rest_s(host: HostQueue, headers: Headers, *, wall_s: float) -> float | None:
    """The longest Retry-After of an answer, at most `politeness.max_retry_after`; None if it has no
    readable one. A longer one is logged. wall_s: now, in Unix seconds."""
    date = headers.get("Date")
    asked = [
        wait_s
        for value in headers.getall("Retry-After")
        if (wait_s := retry_after_s(value, now_s=wall_s, date=date, max_s=math.inf)) is not None
    ]
    if not asked:
        return None
    longest_s, most_s = max(asked), host.pace.rules.max_retry_after_s
    if longest_s > most_s:
        _log.warning(
            "%s asks for a pause of %s (Retry-After); politeness.max_retry_after allows %s",
            host.slot,
            format_duration(longest_s),
            format_duration(most_s),
        )
    return min(longest_s, most_s)

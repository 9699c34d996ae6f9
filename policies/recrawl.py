"""The recrawl schedule: when a visited page is due again."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Struct

from policies.config_key import Key
from policies.listing import Changefreq, Listing
from policies.retries import retry_delay_s

DAY_S: Final = 86_400.0
# Factors for pages that have not changed and that have. For a page that changes at a steady pace,
# the interval settles at 0.4 to 0.9 of that pace, 0.6 on average: five visits for three changes.
LONGER: Final = 1.5
SHORTER: Final = 3 / 4
# The interval of a page that is gone doubles each time, up to a year.
GONE_FACTOR: Final = 2.0
GONE_MAX_S: Final = 365 * DAY_S
GONE: Final = frozenset({404, 410})
# Every tenth visit of a page is unconditional: many servers leave out of a 304 what the page
# declares of its use (RFC 9110, 15.4.5, advises them to).
WHOLE_EVERY: Final = 10
# The shortest time to the visit at the end of a page's availability: it may be a second away with
# each answer. A second late, because it must have come by then.
_END_S_MIN: Final = 60.0


class RecrawlMode(enum.StrEnum):
    OFF = "off"
    FIXED = "fixed"
    ADAPTIVE = "adaptive"


class RecrawlRules(Struct, frozen=True, kw_only=True):
    """The `[revisit]` section."""

    mode: Annotated[
        RecrawlMode, Key("revisit pages at a fixed interval, or sooner the more they change")
    ] = RecrawlMode.OFF
    interval_s: Annotated[
        float,
        Key('between visits of a page; the initial interval with "adaptive"', "seconds", above=0),
    ] = 7 * DAY_S
    min_interval_s: Annotated[
        float, Key('for a page that changes often, with "adaptive"', "seconds", above=0)
    ] = 3_600.0
    max_interval_s: Annotated[
        float, Key('for a page that does not change, with "adaptive"', "seconds", above=0)
    ] = 30 * DAY_S

    @property
    def on(self) -> bool:
        return self.mode is not RecrawlMode.OFF

    def bounded(self, interval_s: float) -> float:
        """Clamp an interval to the limits; the minimum wins if they cross."""
        return max(self.min_interval_s, min(self.max_interval_s, interval_s))


class ContentChange(enum.Enum):
    """The result of a visit, compared with the visit before."""

    FIRST = enum.auto()
    CHANGED = enum.auto()
    UNCHANGED = enum.auto()


_HINTED_S: Final[Mapping[Changefreq, float]] = MappingProxyType(
    {
        Changefreq.ALWAYS: 0.0,
        Changefreq.HOURLY: 3_600.0,
        Changefreq.DAILY: DAY_S,
        Changefreq.WEEKLY: 7 * DAY_S,
        Changefreq.MONTHLY: 30 * DAY_S,
        Changefreq.YEARLY: 365 * DAY_S,
        Changefreq.NEVER: 365 * DAY_S,
    }
)


def interval_s(
    rules: RecrawlRules,
    *,
    status: int,
    seen: ContentChange,
    before_s: float | None = None,
    listing: Listing | None = None,
) -> float:
    """Return the seconds until the next visit after one that had an answer.

    before_s: the interval before this visit.

    `changefreq` only sets the initial adaptive interval, within the limits: the hint is often
    wrong. Pages that are gone are visited less and less often in both modes."""
    if status in GONE:
        if before_s is None or seen is not ContentChange.UNCHANGED:
            return min(GONE_MAX_S, rules.interval_s)
        return min(GONE_MAX_S, before_s * GONE_FACTOR)
    if rules.mode is not RecrawlMode.ADAPTIVE:
        return rules.interval_s
    if before_s is None or seen is ContentChange.FIRST:
        hint = listing.changefreq if listing is not None else None
        return rules.bounded(rules.interval_s if hint is None else _HINTED_S[hint])
    return rules.bounded(before_s * (SHORTER if seen is ContentChange.CHANGED else LONGER))


def due_in_s(interval_s: float, ends_in_s: float) -> float:
    """Return seconds until the next visit of a page that stops being available in `ends_in_s`."""
    return min(interval_s, max(_END_S_MIN, ends_in_s + 1.0))


def is_modified_since_visit(listing: Listing | None, *, visited_at: float, now_s: float) -> bool:
    """Return whether a sitemap reports a change since the last visit, so that it is due.

    A `lastmod` in the future is ignored; otherwise the page would be visited again and again.
    """
    lastmod_at = None if listing is None else listing.lastmod_at
    return lastmod_at is not None and visited_at < lastmod_at <= now_s


def retry_in_s(rules: RecrawlRules, failures: int) -> float:
    """Return the seconds until the next attempt after `failures` in a row without an answer: the
    retry delay, but no later than the next regular visit."""
    return min(retry_delay_s(failures), max(60.0, rules.interval_s))


def is_changed(
    *,
    status: tuple[int, int],
    body_hash: tuple[str | None, str | None],
    etag: tuple[str | None, str | None],
    last_modified: tuple[str | None, str | None],
    target: tuple[str | None, str | None] = (None, None),
    content_type: tuple[str | None, str | None] = (None, None),
) -> bool:
    """Return whether a page has changed; each pair is of the previous answer and this one.

    The bodies decide if both were read, otherwise the validators. Without either, the page counts
    as unchanged. What it declares of its use is compared besides (`policies.declarations`)."""
    if status[0] != status[1] or target[0] != target[1]:
        return True
    if None not in content_type and content_type[0] != content_type[1]:
        return True
    for before, now in (body_hash, etag, last_modified):
        if before is not None and now is not None:
            return before != now
    return False

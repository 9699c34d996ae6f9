"""When a page is to be visited again, from what was seen of it and what is said of it."""

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
# What did not change is come back to later, what did sooner. Where a page changes at a steady pace,
# its interval settles at 0.4 to 0.9 of that, at 0.6 on the average: five visits for three changes.
LONGER: Final = 1.5
SHORTER: Final = 3 / 4
# A page that is gone is asked for half as often each time, up to once a year: names come back.
GONE_FACTOR: Final = 2.0
GONE_MAX_S: Final = 365 * DAY_S
GONE: Final = frozenset({404, 410})


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
        """Within the bounds; the least wins where they cross."""
        return max(self.min_interval_s, min(self.max_interval_s, interval_s))


class ContentChange(enum.Enum):
    """What a visit saw, against the visit before."""

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
    """Seconds until the next visit after one that had an answer.

    before_s: the interval before this visit. A `changefreq` is where an adaptive interval begins:
    what is seen counts from then on, because the hint is often wrong (and `always` is no leave to
    ask always: `min_interval` holds). Pages that are gone are asked for less and less, in both
    modes.
    """
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


def is_modified_since_visit(listing: Listing | None, *, visited_at: float, now_s: float) -> bool:
    """Whether a sitemap knows of a change that we have not seen: such a page is visited at once. A
    `lastmod` yet to come is none; it would have the page visited again and again."""
    lastmod_at = None if listing is None else listing.lastmod_at
    return lastmod_at is not None and visited_at < lastmod_at <= now_s


def retry_in_s(rules: RecrawlRules, failures: int) -> float:
    """Seconds until another try after so many in a row that brought no answer: the retry clock,
    which ends at 6 h, but no later than the next visit would have been."""
    return min(retry_delay_s(failures), max(60.0, rules.interval_s))


def is_changed(
    *,
    status: tuple[int, int],
    body_hash: tuple[str | None, str | None],
    etag: tuple[str | None, str | None],
    last_modified: tuple[str | None, str | None],
    target: tuple[str | None, str | None] = (None, None),
) -> bool:
    """Whether two answers (the one before, this one) differ in what they say.

    The body decides where both were read; else what the server says of it. Where it says nothing,
    nothing is known to have changed."""
    if status[0] != status[1] or target[0] != target[1]:
        return True
    for before, now in (body_hash, etag, last_modified):
        if before is not None and now is not None:
            return before != now
    return False

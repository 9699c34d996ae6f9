"""Listings: what a sitemap or feed states about a URL: last change, change frequency, priority."""

from __future__ import annotations

import enum
import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct


class Changefreq(enum.StrEnum):
    """The "changefreq" of sitemaps.org: a hint, not a command."""

    ALWAYS = "always"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"
    NEVER = "never"


class Listing(Struct, frozen=True, kw_only=True, array_like=True):
    """lastmod_at: Unix seconds. priority: 0.0 to 1.0, relative to other URLs of the site."""

    lastmod_at: float | None = None
    changefreq: Changefreq | None = None
    priority: float | None = None

    @property
    def is_said(self) -> bool:
        """Whether it states anything."""
        return not (self.lastmod_at is None and self.changefreq is None and self.priority is None)


# sitemaps.org: the default priority. It corresponds to the priority of a link.
_PRIORITY_DEFAULT: Final = 0.5

# W3C Datetime (a profile of ISO 8601): a year, month, day, or time with its zone. Lenient about the
# separator, the seconds, the digits of their fraction, and a missing zone (UTC).
_W3C: Final = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_DATE_CHARS_MAX: Final = 64


def frontier_priority(priority: float | None) -> float:
    """The priority of a URL in its host's queue: -0.5 to 0.5, in steps of 0.1; a link has 0.0.

    The range is small so that URLs added with a priority of their own come first. It does not
    affect the order of hosts."""
    return 0.0 if priority is None else round(priority - _PRIORITY_DEFAULT, 1) + 0.0


def parse_priority(text: str) -> float | None:
    """A priority, clamped to 0.0 to 1.0; None if it is not a number."""
    try:
        value = float(text.strip()[:_DATE_CHARS_MAX].replace(",", "."))
    except ValueError:
        return None
    return None if math.isnan(value) else min(1.0, max(0.0, value))


def parse_changefreq(text: str) -> Changefreq | None:
    try:
        return Changefreq(text.strip().lower())
    except ValueError:
        return None


def parse_date(text: str) -> float | None:
    """Unix seconds of a date of sitemaps and Atom (W3C Datetime) or of RSS (RFC 822, 5).

    None if it is neither. A date without a time means the beginning of the day, UTC.
    """
    text = text.strip()
    if not text or len(text) > _DATE_CHARS_MAX:
        return None
    try:
        found = _W3C.fullmatch(text)
        moment = _w3c(found) if found else parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def _w3c(found: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second, zone = found.groups()
    moment = datetime(
        int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0),
        min(59, int(second or 0)), tzinfo=UTC,
    )  # fmt: skip
    if zone and zone.upper() != "Z":
        sign = -1 if zone[0] == "-" else 1
        moment -= sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return moment

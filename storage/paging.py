"""Pages of hosts and of blocked URLs: what may be asked for, and where the next page begins."""

from __future__ import annotations

import base64
import binascii
import enum
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from storage.store import Row

ROWS_MAX: Final = 1000  # of one page: whoever shows it has them all in memory


class HostFilter(enum.StrEnum):
    """Which hosts a page has."""

    ALL = "all"
    QUEUED = "queued"  # with URLs to visit
    WAITING = "waiting"  # with URLs to visit, not paused, and not to be contacted yet
    PAUSED = "paused"  # by hand
    SLOWED = "slowed"  # by hand
    BACKING_OFF = "backing-off"  # left alone after a refusal, or as Retry-After asks
    FAILING = "failing"  # not to be connected to lately, or with URLs that failed
    DONE = "done"  # with nothing left to visit


# Columns that hosts may be sorted by. What is unknown (NULL) counts as less than anything known.
HOST_SORTS: Final = (
    "host", "queued", "visited", "blocked", "failed", "body_bytes", "delay_s", "next_at",
    "backoff_until", "contacts", "smallest_rest_s", "latency_s", "connect_failures", "breaches",
)  # fmt: skip
UNKNOWN: Final = -1e300

Place = tuple[str | float, str]  # the sorted column's value, and the host's name


def sort_of(sort: str) -> tuple[str, bool]:
    """Column, and whether it descends (`-column`). Raises ValueError."""
    column = sort.removeprefix("-")
    if column not in HOST_SORTS:
        raise ValueError(f"hosts cannot be sorted by {sort!r}; only by {', '.join(HOST_SORTS)}")
    return column, sort.startswith("-")


def check_limit(limit: int) -> None:
    """Raises ValueError."""
    if not 1 <= limit <= ROWS_MAX:
        raise ValueError(f"a page has 1 to {ROWS_MAX} rows, not {limit}")


def value_of(row: Row, column: str) -> str | float:
    """What a row is sorted by."""
    value = row[column]
    if isinstance(value, str | float | int):
        return value
    return UNKNOWN


def is_in(row: Row, which: HostFilter, now_s: float) -> bool:
    """Whether a row of `hosts` passes; `now_s` in Unix seconds."""
    queued, paused = _number(row["queued"]) > 0, bool(row["paused"])
    backing_off = _number(row["backoff_until"]) > now_s
    match which:
        case HostFilter.ALL:
            return True
        case HostFilter.QUEUED:
            return queued
        case HostFilter.WAITING:
            return queued and not paused and (backing_off or _number(row["next_at"]) > now_s)
        case HostFilter.PAUSED:
            return paused
        case HostFilter.SLOWED:
            return row["slow_s"] is not None
        case HostFilter.BACKING_OFF:
            return backing_off
        case HostFilter.FAILING:
            return _number(row["connect_failures"]) > 0 or _number(row["failed"]) > 0
        case HostFilter.DONE:
            return not queued


# The same as SQL over the view; every :now is Unix seconds.
FILTER_SQL: Final[Mapping[HostFilter, str]] = {
    HostFilter.ALL: "1",
    HostFilter.QUEUED: "queued > 0",
    HostFilter.WAITING: "queued > 0 AND NOT paused"
    " AND max(next_at, coalesce(backoff_until, 0)) > :now",
    HostFilter.PAUSED: "paused",
    HostFilter.SLOWED: "slow_s IS NOT NULL",
    HostFilter.BACKING_OFF: "coalesce(backoff_until, 0) > :now",
    HostFilter.FAILING: "(connect_failures > 0 OR failed > 0)",
    HostFilter.DONE: "queued = 0",
}


def mark(sort: str, place: Sequence[str | float]) -> str:
    """Where a page ended, as the text that asks for the next."""
    text = json.dumps([sort, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(after: str, sort: str) -> Sequence[str | float]:
    """What `mark` was given. Raises ValueError for what is no such text, or of another sort."""
    try:
        raw = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True)
        parts = json.loads(raw)
    except (ValueError, binascii.Error, RecursionError):
        parts = None
    if (
        not isinstance(parts, list)
        or len(parts) != 3
        or not all(isinstance(part, str | float | int) for part in parts)
        or not all(map(_is_storable, parts))
    ):
        raise ValueError("after: is not what a page before gave")
    if parts[0] != sort:
        raise ValueError(f"after: belongs to a page sorted by {parts[0]}, not by {sort}")
    return parts[1:]


def _is_storable(part: str | float) -> bool:
    """What a database can compare with: 64 bits, and text that is UTF-8."""
    if isinstance(part, str):
        return part.isascii() or not re.search("[\ud800-\udfff]", part)
    if isinstance(part, int):
        return not isinstance(part, bool) and abs(part) < 2**63
    return True


def host_place(after: str, sort: str) -> Place:
    """The place in a page of hosts. Raises ValueError."""
    value, name = place_of(after, sort)
    by_name = sort.removeprefix("-") == "host"
    if not isinstance(name, str) or isinstance(value, str) is not by_name:
        raise ValueError("after: is not what a page before gave")
    return value, name


def id_place(after: str) -> tuple[int, int]:
    """The place in a page of URLs. Raises ValueError."""
    first, second = place_of(after, "id")
    if isinstance(first, int) and isinstance(second, int):
        return first, second
    raise ValueError("after: is not what a page before gave")


def ascii_lower(text: str) -> str:
    """As SQLite's lower(): other letters than A to Z are left alone."""
    return "".join(each.lower() if "A" <= each <= "Z" else each for each in text)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

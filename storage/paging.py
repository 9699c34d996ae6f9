"""Pages of hosts and of URLs: filters, sort orders, and where the next page begins."""

from __future__ import annotations

import base64
import binascii
import enum
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from storage.read_records import Row

ROWS_MAX: Final = 1000  # of one page, which the caller holds in memory


class HostFilter(enum.StrEnum):
    """The choice of the hosts that a page contains."""

    ALL = "all"
    QUEUED = "queued"  # with URLs to visit
    WAITING = "waiting"  # with URLs to visit, not paused, and not to be contacted yet
    PAUSED = "paused"  # by an operator
    SLOWED = "slowed"  # by an operator
    BACKING_OFF = "backing-off"  # after a refusal, or as Retry-After asks
    FAILING = "failing"  # the last connections failed, or URLs have failed
    DONE = "done"  # without queued URLs


# Columns that hosts can be sorted by. An unknown value (NULL) sorts before all others.
HOST_SORTS: Final = (
    "host", "queued", "visited", "blocked", "failed", "body_bytes", "delay_s", "next_at",
    "backoff_until", "contacts", "smallest_rest_s", "latency_s", "connect_failures", "breaches",
)  # fmt: skip
UNKNOWN: Final = -1e300

Place = tuple[str | float, str]  # the value of the sort column, and the name of the host


def sort_of(sort: str) -> tuple[str, bool]:
    """Return the column and whether the order is descending (`-column`). Raises ValueError."""
    column = sort.removeprefix("-")
    if column not in HOST_SORTS:
        raise ValueError(f"hosts cannot be sorted by {sort!r}; only by {', '.join(HOST_SORTS)}")
    return column, sort.startswith("-")


def check_limit(limit: int) -> None:
    """Raise ValueError unless a page can have this many rows."""
    if not 1 <= limit <= ROWS_MAX:
        raise ValueError(f"a page has 1 to {ROWS_MAX} rows, not {limit}")


def value_of(row: Row, column: str) -> str | float:
    """The sort key of a row."""
    value = row[column]
    if isinstance(value, str | float | int):
        return value
    return UNKNOWN


# The filters as conditions on the view `hosts`; :now is Unix seconds.
FILTER_SQL: Final[Mapping[HostFilter, str]] = {
    HostFilter.ALL: "TRUE",
    HostFilter.QUEUED: "queued > 0",
    HostFilter.WAITING: "queued > 0 AND paused = 0"
    " AND (next_at > :now OR coalesce(backoff_until, 0.0) > :now)",
    HostFilter.PAUSED: "paused = 1",
    HostFilter.SLOWED: "slow_s IS NOT NULL",
    HostFilter.BACKING_OFF: "coalesce(backoff_until, 0.0) > :now",
    HostFilter.FAILING: "(connect_failures > 0 OR failed > 0)",
    HostFilter.DONE: "queued = 0",
}


def mark(sort: str, place: Sequence[str | float]) -> str:
    """Encode where a page ended as an opaque string for `after`."""
    text = json.dumps([sort, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(after: str, sort: str) -> Sequence[str | float]:
    """Decode `mark`. Raises ValueError for any other string, and for one of another sort order."""
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
        raise ValueError("after: not a valid cursor; use the value returned with the previous page")
    if parts[0] != sort:
        raise ValueError(f"after: belongs to a page sorted by {parts[0]}, not by {sort}")
    return parts[1:]


def _is_storable(part: str | float) -> bool:
    """Whether a database can compare with it: an integer of 64 bits, a string that is UTF-8."""
    if isinstance(part, str):
        return part.isascii() or not re.search("[\ud800-\udfff]", part)
    if isinstance(part, int):
        return not isinstance(part, bool) and abs(part) < 2**63
    return True


def host_place(after: str, sort: str) -> Place:
    """Decode where a page of hosts ended. Raises ValueError."""
    value, name = place_of(after, sort)
    by_name = sort.removeprefix("-") == "host"
    if not isinstance(name, str) or isinstance(value, str) is not by_name:
        raise ValueError("after: not a valid cursor; use the value returned with the previous page")
    return value, name


def id_place(after: str) -> tuple[int, int]:
    """Decode where a page of URLs ended. Raises ValueError."""
    first, second = place_of(after, "id")
    if isinstance(first, int) and isinstance(second, int):
        return first, second
    raise ValueError("after: not a valid cursor; use the value returned with the previous page")


def url_place(after: str, kind: str) -> int:
    """Decode below which id the page of a list of URLs begins. Raises ValueError."""
    key, _ = place_of(after, kind)
    if isinstance(key, int):
        return key
    raise ValueError("after: not a valid cursor; use the value returned with the previous page")


def findable(text: str) -> str:
    """Return a string to search for: one that occurs nowhere in place of one that no database can
    hold."""
    if "\0" in text or (not text.isascii() and re.search("[\ud800-\udfff]", text)):
        return "\uffff"
    return text


def ascii_lower(text: str) -> str:
    """Convert to lower case as lower() of SQLite does, which changes only A to Z."""
    return "".join(each.lower() if "A" <= each <= "Z" else each for each in text)

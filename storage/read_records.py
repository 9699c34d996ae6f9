"""Values that a `Reader` takes and returns."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from msgspec import Struct


class Stats(Struct, frozen=True, kw_only=True):
    """Row counts of the views, the sum of body bytes, and how often the database was found to have
    gone back in time, the last time at `returned_at` (Unix seconds by the server's clock). The
    fields are the columns of the statement `totals`, in their order."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    body_bytes: int
    returns: int = 0
    returned_at: float | None = None


Row = Mapping[str, object]  # one row of a view, by column name


class StoredReason(enum.StrEnum):
    """What a host with queued URLs waits for, as far as its row tells."""

    READY = "ready"  # nothing
    DELAY = "delay"  # its next contact: a politeness delay, or a visit window
    BACKOFF = "backoff"
    PAUSED = "paused"  # by an operator
    UNREACHABLE = "unreachable"  # it could not be connected to
    LATER = "later"  # retries that are not due, or a robots.txt that could not be fetched


class UrlList(enum.StrEnum):
    """A list of URLs: a view."""

    QUEUED = "queued"
    FAILED = "failed"
    VISITED = "visited"


class UrlFilter(Struct, frozen=True, kw_only=True):
    """The URLs that a page contains. `code` applies to failed URLs, `status` to visited ones."""

    state: UrlList
    host: str | None = None
    text: str = ""  # contained in the URL, ignoring case in A to Z
    code: str = ""  # with which they failed
    status: int | None = None


class HostsWaiting(Struct, frozen=True, kw_only=True):
    """Hosts whose queued URLs wait for the same: those whose rows tell one of the `stored` reasons,
    except the `others`, and the `named` ones. Hosts in memory are in one of the last two."""

    stored: Sequence[StoredReason]
    named: Sequence[str] = ()
    others: Sequence[str] = ()


class EarlierCopy(Struct, frozen=True, kw_only=True):
    """A robots.txt that applied until another answer came, at `replaced_at`. It was last fetched or
    confirmed at `copy_at` (None: not known). Times in Unix seconds."""

    body: bytes
    copy_at: float | None
    replaced_at: float


class BlockedGroups(Struct, frozen=True, kw_only=True):
    """Blocked URLs by host, reason and rule. Each row has `host`, `reason`, `rule`, `line` and
    `robots_url` (None if there are several, or none), `urls` (how many), and `last_at` (Unix
    seconds: when the last one was blocked). more: there are further groups. complete: all blocked
    URLs were looked at, and not just some 100,000 of them."""

    rows: Sequence[Row]
    more: bool
    complete: bool


class RowPage(Struct, frozen=True, kw_only=True):
    """Some rows of a view. `after` requests the next page; None: this is the last one."""

    rows: Sequence[Row]
    after: str | None

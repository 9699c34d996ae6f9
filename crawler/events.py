"""Reports of a crawl: snapshots while it runs, and a summary at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from policies.holds import Hold


class SlowHost(Struct, frozen=True, kw_only=True):
    """A host with queued URLs, and why it waits."""

    host: str
    wait_s: float  # from the snapshot until its next request
    reason: str  # in words


class Progress(Struct, frozen=True, kw_only=True):
    """A snapshot of a running crawl, made about four times a second."""

    elapsed_s: float
    visited: int  # rows of the views, as committed
    blocked: int
    failed: int
    queued: int
    pages_per_s: float  # over the last few seconds, of all workers
    bytes: int  # of bodies
    in_flight: int  # requests in flight, of all workers
    hosts_by_state: Mapping[str, int]  # "ready", "waiting", "in flight", "robots", "paused", …
    slowest: tuple[SlowHost, ...]  # the longest waits first
    fetching: tuple[str, ...]  # some of the URLs in flight
    held: tuple[Hold, ...] = ()  # what stops the whole crawl
    workers: int = 1  # that share the crawl; hosts and URLs are of this one


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingHost:
    """A host whose URLs are still queued at the end of the crawl."""

    host: str
    until: float | None  # Unix seconds; None: until an operator acts (a pause, a limit)
    reason: str  # in words


WAITING_SHOWN = 100  # hosts named in a summary
LOOKED_AT_MAX = 50_000  # rows counted for `errors` and `rules` of a summary


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentReason:
    """An error or rule, the number of URLs it affects, and one of them."""

    words: str  # an error, "CODE: sentence"; or a rule of robots.txt
    count: int
    example: str  # a URL
    where: str = ""  # of a rule: its robots.txt


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of a crawl. The counts are the row counts of the views."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    bytes: int  # of bodies
    elapsed_s: float
    waiting: tuple[WaitingHost, ...] = ()
    skipped: Mapping[str, int]  # URLs by reason (`policies.scope.SKIP_KEYS`)
    held_back: Mapping[str, int] = field(
        default_factory=dict
    )  # queued URLs by the limit that holds them back
    interrupted: bool = False
    held: tuple[Hold, ...] = ()  # what stopped the whole crawl at its end
    ended_by: str | None = None  # the key of the limit that ended it: "crawl.max_time"
    errors: tuple[FrequentReason, ...] = ()  # of the first LOOKED_AT_MAX rows of `failed`
    rules: tuple[FrequentReason, ...] = ()  # likewise of `blocked`

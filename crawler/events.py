"""What a crawl tells those who watch it: snapshots while it runs, and a summary at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from policies.holds import Hold


class SlowHost(Struct, frozen=True, kw_only=True):
    """A host with work, and what keeps it."""

    host: str
    wait_s: float  # from the snapshot until its next turn
    reason: str  # in words


class Progress(Struct, frozen=True, kw_only=True):
    """A snapshot of a running crawl, made about four times a second."""

    elapsed_s: float
    visited: int  # rows of the views, as committed
    blocked: int
    failed: int
    queued: int
    pages_per_s: float  # over the last few seconds
    bytes: int  # of bodies
    in_flight: int  # requests on the wire now
    hosts_by_state: Mapping[str, int]  # "ready", "waiting", "in flight", "robots", "paused", …
    slowest: tuple[SlowHost, ...]  # the longest waits first
    fetching: tuple[str, ...]  # some of the URLs in flight
    held: tuple[Hold, ...] = ()  # why the whole crawl holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A host whose URLs stayed queued when the crawl ended."""

    host: str
    until: float | None  # Unix seconds; None: until someone acts (a pause, a budget)
    reason: str  # in words


WAITING_SHOWN = 100  # hosts named in a summary
LOOKED_AT_MAX = 50_000  # rows of a view that `errors` and `rules` of a summary are counted from


@dataclass(frozen=True, slots=True, kw_only=True)
class Often:
    """What kept URLs out, how many, and one of them."""

    words: str  # an error, "CODE: sentence"; or a rule of robots.txt
    count: int
    example: str  # a URL
    where: str = ""  # of a rule: its robots.txt


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a crawl came to. The counts are the row counts of the views."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    bytes: int  # of bodies
    elapsed_s: float
    waiting: tuple[Waiting, ...] = ()
    skipped: Mapping[str, int]  # reason -> URLs left out (`policies.scope.SKIP_KEYS` names the key)
    held_back: Mapping[str, int] = field(default_factory=dict)  # page budget -> URLs it left queued
    interrupted: bool = False
    held: tuple[Hold, ...] = ()  # what still held the whole crawl at its end
    errors: tuple[Often, ...] = ()  # the most frequent of `failed`, of its first LOOKED_AT_MAX rows
    rules: tuple[Often, ...] = ()  # likewise of `blocked`

"""Hosts as they go into the store and come out of it: clocks, leases, and the URLs they bring.

Times of a host's clock are *durations* (`..._in_s`, from now). Why, stands in `storage.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from policies.robots_state import RobotsState
from storage.url_records import Outcome, Queued

# Bounds of what is stored of a host's waits; no rule asks for as much as the first.
WAIT_S_MAX: Final = 20 * 365 * 86_400.0
WAIT_INSTEAD_S: Final = 3_600.0  # in the place of a wait that is not a number


class HostClock(Struct, frozen=True, kw_only=True):
    """A host's clock and counters as the worker that holds it knows them; durations from now.

    Written whole with every commit that touches the host, so that a crash loses none of it.
    """

    next_in_s: float = 0.0  # until the host may be contacted again
    rested_s: float | None = None  # since the end of its last contact; None: as stored before
    delay_s: float = 0.0  # the rest that now applies
    delay_source: str = ""  # where it comes from, in words
    latency_s: float | None = None  # smoothed response time
    backoff_level: int = 0  # refusals not yet forgiven
    backoff_in_s: float = 0.0  # until the Retry-After or back-off ends; 0: none
    denials: int = 0  # 401 and 403 in a row
    connect_failures: int = 0  # connections in a row that could not be made
    contacts: int = 0
    smallest_rest_s: float | None = None  # the least rest ever taken between two contacts
    peak_concurrency: int = 0
    breaches: int = 0  # contacts that began before their time (law 1 says: none, ever)


class Contact(Struct, frozen=True, kw_only=True):
    """One contact for the host's ring of recent contacts."""

    start_at: float  # Unix seconds
    end_at: float
    kind: str  # "page" | "robots" | "sitemap"
    status: int | None  # None: no answer


class HostUpdate(Struct, frozen=True, kw_only=True):
    """What a commit says of one held host. `release` gives the lease back in its transaction."""

    slot: str
    epoch: int
    clock: HostClock
    contacts: Sequence[Contact] = ()  # new ones, oldest first
    release: bool = False


class Prefetch(Struct, frozen=True, kw_only=True):
    """Asks for up to `count` more due URLs of a held host, in the commit's transaction.

    Best first: larger priority, first tries before further ones, smaller depth, older. Of a host of
    very many origins it may be the best of some of them, each time of others."""

    slot: str
    count: int
    held: Sequence[int] = ()  # ids the worker holds: not to be given, unless this commit ends them
    closed: Sequence[str] = ()  # origins whose URLs cannot move now: not to be given
    queued: bool = True  # False: of queued ones none
    # Also visited URLs whose next visit is due, the longest due first: up to a quarter of `count`,
    # and in the place of queued ones that there are not.
    revisits: bool = False


class Prefetched(Struct, frozen=True, kw_only=True):
    """What a `Prefetch` brought. `next_due_in_s`: when the host's next URL (not given, not held,
    not of a closed origin) falls due, 0.0 if one is due already, None if there is no such URL.
    `next_revisit_in_s`: the same of visited URLs, if those were wanted.
    """

    urls: Sequence[Queued]
    next_due_in_s: float | None
    next_revisit_in_s: float | None = None


class Lease(Struct, frozen=True, kw_only=True):
    """The right to one host. `clean` is False when its last holder did not release it (law 6)."""

    slot: str
    epoch: int
    clean: bool
    clock: HostClock
    paused: bool
    slow_s: float | None  # a delay set by hand
    visited: int  # for max_pages_per_host
    body_bytes: int  # of those pages, for max_bytes_per_host
    robots: Mapping[
        str, RobotsState
    ]  # by origin; if there are many, of some with queued URLs first
    prefetched: Prefetched
    robots_all: bool = True  # whether those are all copies the store has for this slot


class Outlook(Struct, frozen=True, kw_only=True):
    """When work not held by this session falls due (durations from now; None: there is none)."""

    claimable_in_s: float | None  # the next host with queued URLs that is free
    robots_in_s: float | None  # the next origin whose robots.txt is due and governs something
    robots_rest_s: float | None = None  # of those that are due by now: until the first host is free
    revisit_in_s: float | None = None  # the next visited URL of a free host that is due


class RobotsDue(Struct, frozen=True, kw_only=True):
    slot: str
    origin: str


class Batch(Struct, frozen=True, kw_only=True):
    """One commit: all of it or nothing."""

    outcomes: Sequence[Outcome] = ()
    hosts: Sequence[HostUpdate] = ()
    skipped: Mapping[str, int] = field(
        default_factory=dict
    )  # reason -> how many more were left out
    prefetch: Sequence[Prefetch] = ()


class Completed(Struct, frozen=True, kw_only=True):
    stale: frozenset[str]  # slots whose lease was lost: their outcomes and clocks were not stored
    added: Mapping[str, int]  # slot -> URLs newly queued there (links, and URLs that came back)
    prefetched: Mapping[str, Prefetched]  # slot -> what its Prefetch brought
    refused: str | None = None  # of `robots_put`: the error because of which the copy is not stored

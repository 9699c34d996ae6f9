"""Hosts, commits and workers as they cross a `Store`: clocks, leases, prefetched URLs, batches,
pulses.

Times of a host's clock are durations in seconds from now (`..._in_s`), or since (`rested_s`); see
`storage.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from policies.robots_state import RobotsState
from storage.url_records import Outcome, Queued

# Bounds of a host's stored waits. No rule asks for as much as the first.
WAIT_S_MAX: Final = 20 * 365 * 86_400.0
WAIT_INSTEAD_S: Final = 3_600.0  # in place of a wait that is not a number


class HostClock(Struct, frozen=True, kw_only=True, array_like=True):
    """A host's clock and counters, as known to the worker that leases it.

    Every commit that touches the host stores all of it, so that a crash loses none of it. The
    statements `leases` and `wind_slots` list the columns in the order of these fields, but a lease
    has no address: names move.
    """

    next_in_s: float = 0.0  # until the host may be contacted again
    rested_s: float | None = None  # since the end of its last contact; None: unchanged
    delay_s: float = 0.0  # the politeness delay that applies now
    delay_source: str = ""  # where it comes from, in words
    latency_s: float | None = None  # smoothed response time
    backoff_level: int = 0  # refusals that still count
    backoff_in_s: float = 0.0  # until Retry-After or the backoff ends; 0: none
    denials: int = 0  # consecutive 401 and 403
    connect_failures: int = 0  # consecutive failed connections
    backoff_status: int | None = None  # the status of the response that it backs off after
    contacts: int = 0
    smallest_rest_s: float | None = None  # the shortest time there ever was between two contacts
    peak_concurrency: int = 0
    breaches: int = 0  # contacts that began too early: law 1 (docs/laws.md) allows none
    # Contacts after one whose end nobody measured: its worker died, or the database forgot it.
    unproven: int = 0
    # With `per = "ip"`, where it was contacted last, and the delay that it asks of the address;
    # None: unchanged.
    address: str | None = None
    address_delay_s: float | None = None


class Contact(Struct, frozen=True, kw_only=True):
    """One contact, for the ring of a host's recent contacts."""

    start_at: float  # Unix seconds
    end_at: float  # Unix seconds
    kind: str  # "page" | "robots" | "sitemap"
    status: int | None  # None: no answer


class HostUpdate(Struct, frozen=True, kw_only=True):
    """The part of a commit about one leased host."""

    slot: str
    epoch: int  # of the lease
    clock: HostClock
    contacts: Sequence[Contact] = ()  # new ones, oldest first
    release: bool = False  # give the lease back


class Prefetch(Struct, frozen=True, kw_only=True):
    """A request for up to `count` more due URLs of a leased host.

    Larger priority comes first, then URLs that were not tried yet, smaller depth, older ids. Of a
    host with very many origins, these may be the best URLs of some origins, different ones each
    time.
    """

    slot: str
    count: int
    in_memory: Sequence[int] = ()  # ids the worker has; left out, unless the same commit ends them
    closed: Sequence[str] = ()  # origins whose URLs cannot be visited now; left out
    queued: bool = True  # include queued URLs
    # Include visited URLs that are due again, the longest due first: up to a quarter of `count`,
    # and more if there are too few queued URLs.
    revisits: bool = False
    referrers: bool = False  # with `Queued.referrer`, which costs a lookup for each URL


class Prefetched(Struct, frozen=True, kw_only=True):
    """The result of a `Prefetch`.

    next_due_in_s: until the host's next URL falls due that is neither prefetched nor held, and not
    of a closed origin; 0.0 if one is due already, None if there is none.
    next_revisit_in_s: the same for visited URLs, if `revisits` was set.
    """

    urls: Sequence[Queued]
    next_due_in_s: float | None
    next_revisit_in_s: float | None = None


class Lease(Struct, frozen=True, kw_only=True, array_like=True):
    """The right of one worker to contact one host. The statement `leases` lists the columns in the
    order of the first fields."""

    slot: str
    epoch: int  # the fencing token: it grows with every lease of the host
    clean: bool  # False: the last worker did not release it, so the host must rest in full (law 6)
    clock: HostClock
    paused: bool
    slow_s: float | None  # a delay set by an operator
    visited: int  # for max_pages_per_host
    body_bytes: int  # of those pages, for max_bytes_per_host
    # By origin; of many origins, some with queued URLs first. Those with a large file are in
    # `robots_large` instead, with the size of the file in bytes (`Store.robots_get`).
    robots: Mapping[str, RobotsState] = {}
    prefetched: Prefetched = Prefetched(urls=(), next_due_in_s=None)
    robots_all: bool = True  # `robots` and `robots_large` contain all that is stored for this slot
    robots_large: Mapping[str, int] = {}


class Glance(Struct, frozen=True, kw_only=True):
    """What is stored of a host. clock: None if it is leased, and its clock is in memory."""

    clock: HostClock | None
    paused: bool = False
    slow_s: float | None = None


class Outlook(Struct, frozen=True, kw_only=True):
    """The times when work of hosts that are not leased falls due; None: there is none."""

    claimable_in_s: float | None  # the first host with queued URLs
    robots_in_s: float | None  # the first robots.txt that URLs depend on
    robots_delay_s: float | None = (
        None  # for robots.txt due already: until their first host is free
    )
    revisit_in_s: float | None = None  # the first visited URL


class RobotsDue(Struct, frozen=True, kw_only=True):
    """An origin whose robots.txt is due, or whose URLs must be judged again."""

    slot: str
    origin: str


class Batch(Struct, frozen=True, kw_only=True):
    """One commit; see `Store.complete`."""

    outcomes: Sequence[Outcome] = ()
    hosts: Sequence[HostUpdate] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)  # URLs left out, by reason
    prefetch: Sequence[Prefetch] = ()


class Completed(Struct, frozen=True, kw_only=True):
    """The result of a commit."""

    stale: frozenset[str]  # slots whose lease was lost: outcomes and clocks were not stored
    added: Mapping[str, int]  # URLs queued (new ones, and those queued again), by slot
    prefetched: Mapping[str, Prefetched]  # by slot
    refused: str | None = None  # `robots_put` only: the error for which the copy is not stored


class WorkerHold(Struct, frozen=True, kw_only=True):
    """The reason why a worker sends no requests: a reason of `policies.holds`, in words, and since
    when (Unix seconds)."""

    reason: str
    sentence: str
    since: float


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """What a worker reports of itself with each pulse; `Reader.workers` shows it."""

    idle: bool = False  # nothing that it holds or could claim can make progress within the patience
    # How many hosts it has that workers divide among them; None: it takes none at present.
    sharing: int | None = None
    hosts: int = 0  # held
    in_flight: int = 0  # requests
    pages: int = 0  # visited in this session
    pages_per_s: float = 0.0  # over the last seconds
    uncommitted: int = 0  # outcomes
    held: Sequence[WorkerHold] = ()
    # With `per = "ip"`, those that it holds and would hold, with their delays in seconds.
    addresses: Mapping[str, float] = {}


class StoreTelemetry(Struct, frozen=True, kw_only=True):
    """What a store has counted since it was made; zeros where the engine has no such thing."""

    renewals: int = 0  # pulses that were answered
    renewals_s: float = 0.0  # the round trips of all of them together
    renewals_failed: int = 0  # because the database could not be reached
    leases_lost: int = 0  # hosts held when others reaped this worker's session
    sessions_reaped: int = 0  # of other workers, by this one
    conflicts: int = 0  # transactions repeated because of others: deadlocks and the like
    commits_settled: int = 0  # without an answer, until the server was asked what became of them
    reconnections: int = 0


class Order(Struct, frozen=True, kw_only=True):
    """A command of an operator, for all workers of a crawl."""

    verb: str
    body: Mapping[str, object] = field(default_factory=dict)  # JSON values


class LeasedAddress(Struct, frozen=True):
    """An address that no other worker may contact."""

    delay_s: float  # before its first contact by this worker: the longest delay it ever had
    wanted: bool  # by another worker


class Pulse(Struct, frozen=True, kw_only=True):
    """The answer to a worker's renewal of its session; see `Store.pulse`."""

    lease_s: float  # its hosts may be contacted until this long after the call was *made*
    lost: bool = False  # other workers had taken its hosts: none of its leases is valid any more
    # The database went back in time, and hosts cannot be leased yet: another worker that does not
    # know of it may still contact them.
    settling: bool = False
    # Other workers that were not idle a moment ago, or are not heard of. While there are any, there
    # may be more hosts to be claimed soon.
    others_active: int = 0
    # By session, of other live workers that take hosts: their last `WorkerStatus.sharing`.
    others_sharing: Mapping[int, int] = {}
    paused: bool = False  # the value of the last `set_paused`
    # Of others, since the previous pulse or the beginning of the session, oldest first.
    orders: Sequence[Order] = ()
    addresses: Mapping[str, LeasedAddress] = {}  # those of `WorkerStatus.addresses` that it holds

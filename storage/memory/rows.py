"""The rows a `MemoryStore` keeps: hosts, their origins, and URLs; and those of the views."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from msgspec import structs

from policies.listing import Listing
from policies.robots_state import RobotsState
from storage.columns import CONTACTS_KEPT, robots_state
from storage.store import (
    Before,
    Blocked,
    Contact,
    Failed,
    HostClock,
    Looked,
    Plan,
    Queued,
    Row,
    SitemapRead,
    UrlState,
    Visited,
)

# What orders a host's queue: priority, first tries before further ones, breadth first, age.
Rank = tuple[float, int, int, int]


@dataclass(slots=True, eq=False)
class Host:
    """A politeness slot. Times are the store's own."""

    id: int
    name: str
    clock: HostClock
    next_at: float
    ended_at: float | None = None  # its last contact
    backoff_until: float | None = None
    lease: int | None = None  # the session that holds it
    epoch: int = 0
    clean: bool = True
    paused: bool = False
    slow_s: float | None = None
    served: int = 0  # when it was leased last, counted in leases
    stamp: int = 0  # of its newest place in the order of claims
    offered_at: float | None = None  # that place; None: it is in no order
    origins: list[Origin] = field(default_factory=list)
    ring: deque[Contact] = field(default_factory=lambda: deque(maxlen=CONTACTS_KEPT))

    def count(self, state: UrlState) -> int:
        return sum(origin.counts[state] for origin in self.origins)

    def free_at(self) -> float:
        return max(self.next_at, self.backoff_until or self.next_at)

    def ready_at(self) -> float | None:
        """When a URL of it can move; None: it has none."""
        dues = [due for origin in self.origins if (due := origin.due_at()) is not None]
        return max(self.free_at(), min(dues)) if dues else None

    def clock_now(self, now_s: float) -> HostClock:
        """The clock as durations from now."""
        return structs.replace(
            self.clock,
            next_in_s=max(0.0, self.next_at - now_s),
            rested_s=None if self.ended_at is None else max(0.0, now_s - self.ended_at),
            backoff_in_s=max(0.0, (self.backoff_until or now_s) - now_s),
        )

    def row(self, shift_s: float) -> Row:
        clock = self.clock
        return {
            "host": self.name,
            "queued": self.count(UrlState.QUEUED),
            "visited": self.count(UrlState.VISITED),
            "blocked": self.count(UrlState.BLOCKED),
            "failed": self.count(UrlState.FAILED),
            "body_bytes": sum(origin.body_bytes for origin in self.origins),
            "delay_s": clock.delay_s,
            "delay_source": clock.delay_source,
            "next_at": self.next_at - shift_s,
            "paused": int(self.paused),
            "backoff_until": None if self.backoff_until is None else self.backoff_until - shift_s,
            "contacts": clock.contacts,
            "smallest_rest_s": clock.smallest_rest_s,
            "peak_concurrency": clock.peak_concurrency,
            "breaches": clock.breaches,
            "slow_s": self.slow_s,
            "latency_s": clock.latency_s,
            "connect_failures": clock.connect_failures,
        }


@dataclass(slots=True, eq=False)
class Origin:
    """Scheme, host and port; its queue, its counters, its robots copy."""

    name: str
    hostname: str
    host: Host
    fresh: list[Rank] = field(default_factory=list)  # queued and due, in order
    waits: list[tuple[float, int]] = field(default_factory=list)  # queued, by when they fall due
    plans: list[tuple[float, int]] = field(default_factory=list)  # visited, by when they are due
    counts: dict[UrlState, int] = field(default_factory=lambda: dict.fromkeys(UrlState, 0))
    body_bytes: int = 0
    judged: list[int] = field(default_factory=list)  # ids blocked by its robots.txt, ascending
    ungoverned: dict[int, None] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)  # path -> URLs with a query
    robots: RobotsState | None = None

    def due_at(self) -> float | None:
        if self.fresh:
            return float("-inf")
        return self.waits[0][0] if self.waits else None

    def governs(self) -> bool:
        return bool(self.judged or self.ungoverned or self.counts[UrlState.QUEUED])

    def row(self) -> Row:
        copy = self.robots or RobotsState()
        return {
            "origin": self.name,
            "host": self.host.name,
            "state": robots_state(copy),
            "status": copy.status,
            "fetched_at": copy.fetched_at,
            "expires_at": copy.expires_at,
            "retry_at": copy.retry_at,
            "body_bytes": None if copy.body is None else len(copy.body),
            "failures": copy.failures,
            "error": copy.error,
            "truncated": int(copy.truncated),
        }


@dataclass(slots=True, eq=False)
class Url:
    """A URL ever met. `state` None: known only as the target of a redirect, or left out."""

    id: int
    url: str
    origin: Origin
    depth: int
    priority: float
    seed: bool
    root: bool  # scope is relative to it
    hops: int
    anchor: str | None
    referrer: int | None
    requisite: bool = False
    requisite_depth: int = 0
    state: UrlState | None = None
    turn: int = 0  # counts up with every retry: what was tried goes behind what was not
    due_at: float | None = None
    attempts: int = 0
    refusals: int = 0
    error: str | None = None  # of the last try, while it is queued
    left_out: str | None = None
    fetched: bool = False  # visited before it came back to the queue
    target: Url | None = None
    page: Visited | None = None
    block: Blocked | None = None
    withdrawn: bool = False
    judged_by: bytes | None = None  # the robots.txt that blocked it
    failure: Failed | None = None
    sitemap: bool = False
    read: SitemapRead | None = None  # the last time, as a sitemap
    is_read: bool = False  # that is where it stands: in no queue, and not to be queued by a link
    listing: Listing | None = None
    plan: Plan | None = None  # while it is visited: when it is to be visited again
    plan_at: float = 0.0

    def rank(self) -> Rank:
        return (-self.priority, self.turn, self.depth, self.id)

    def ask(self) -> Queued:
        return Queued(
            id=self.id,
            url=self.url,
            depth=self.depth,
            priority=self.priority,
            attempts=self.attempts,
            refusals=self.refusals,
            seed=self.seed,
            hops=self.hops,
            requisite=self.requisite,
            requisite_depth=self.requisite_depth,
            sitemap=self.sitemap,
            listing=self.listing,
        )

    def ask_again(self) -> Queued:
        """As `ask`, of one that is visited."""
        assert self.plan is not None
        last = self.page or self.read
        assert last is not None
        before = Before(
            plan=structs.replace(self.plan, due_in_s=0.0),
            status=last.status,
            redirect_url=self.target.url if self.target else None,
            body_hash=self.page.body_hash if self.page else None,
            looked=self.page.looked if self.page else Looked(0),
        )
        return structs.replace(self.ask(), attempts=0, refusals=0, before=before)

    def sitemap_row(self, urls: dict[int, Url]) -> Row | None:
        """Its row in `sitemaps`."""
        read = self.read
        if read is None or not self.sitemap:
            return None
        return {
            "url": self.url,
            "kind": read.kind,
            "status": read.status,
            "fetched_at": read.fetched_at,
            "body_bytes": read.body_bytes,
            "urls": read.urls,
            "error": read.error,
            "depth": self.depth,
            "referrer": None if self.referrer is None else urls[self.referrer].url,
        }

    def listing_row(self) -> Row | None:
        """Its row in `listings`."""
        listing = self.listing
        if listing is None:
            return None
        return {
            "url": self.url,
            "lastmod_at": None if listing.lastmod_at is None else float(round(listing.lastmod_at)),
            "changefreq": listing.changefreq and str(listing.changefreq),
            "priority": listing.priority,
        }

    def row(self, shift_s: float, urls: dict[int, Url]) -> Row | None:
        """Its row in the view of its state."""
        source = None if self.referrer is None else urls[self.referrer].url
        if self.state is UrlState.VISITED and self.page:
            page = self.page
            return {
                "url": self.url,
                "status": page.status,
                "fetched_at": page.fetched_at,
                "content_type": page.content_type,
                "body_bytes": page.body_bytes,
                "elapsed_s": page.elapsed_s,
                "depth": self.depth,
                "referrer": source,
                "redirect_url": self.target.url if self.target else None,
                "title": page.title,
                "indexable": int(page.indexable),
                "followable": int(page.followable),
                "archivable": int(page.archivable),
                "canonical_url": page.canonical_url,
                "body_hash": page.body_hash,
                "usage": page.usage,
                "visits": self.plan.visits if self.plan else 1,
                "checked_at": self.plan.checked_at if self.plan else page.fetched_at,
                "changed_at": self.plan.changed_at if self.plan else None,
                "next_visit_at": self.plan_at - shift_s if self.plan else None,
                "cut": page.cut,
            }
        if self.state is UrlState.BLOCKED and self.block:
            block = self.block
            return {
                "url": self.url,
                "reason": str(block.reason),
                "dialect": block.dialect,
                "rule": block.rule,
                "line": block.line,
                "robots_url": block.robots_url,
                "blocked_at": block.blocked_at,
                "withdrawn": int(self.withdrawn),
                "anchor": self.anchor,
                "referrer": source,
            }
        if self.state is UrlState.FAILED and self.failure:
            failure = self.failure
            return {
                "url": self.url,
                "error": failure.error,
                "attempts": failure.attempts,
                "last_at": failure.last_at,
            }
        if self.state is UrlState.QUEUED:
            return {
                "url": self.url,
                "priority": self.priority,
                "depth": self.depth,
                "due_at": 0.0 if self.due_at is None else self.due_at - shift_s,
                "attempts": self.attempts,
            }
        return None

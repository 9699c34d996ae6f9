"""The rows a `MemoryStore` keeps: URLs, their origins, and the hosts that are leased."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from policies.access import Access
from policies.listing import Listing
from storage.base import (
    Before,
    Blocked,
    BlockReason,
    Contact,
    Failed,
    HostClock,
    Link,
    Plan,
    Queued,
    Row,
    SitemapRead,
    State,
    Visited,
)
from storage.rows import CONTACTS_KEPT, robots_state

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

    def count(self, state: State) -> int:
        return sum(origin.counts[state] for origin in self.origins)

    def free_at(self) -> float:
        return max(self.next_at, self.backoff_until or self.next_at)

    def ready_at(self) -> float | None:
        """When a URL of it can move; None: it has none."""
        dues = [due for origin in self.origins if (due := origin.due_at()) is not None]
        return max(self.free_at(), min(dues)) if dues else None

    def clock_now(self, now_s: float) -> HostClock:
        """The clock as durations from now."""
        clock = self.clock
        return HostClock(
            next_in_s=max(0.0, self.next_at - now_s),
            rested_s=None if self.ended_at is None else max(0.0, now_s - self.ended_at),
            delay_s=clock.delay_s,
            delay_source=clock.delay_source,
            latency_s=clock.latency_s,
            backoff_level=clock.backoff_level,
            backoff_in_s=max(0.0, (self.backoff_until or now_s) - now_s),
            denials=clock.denials,
            connect_failures=clock.connect_failures,
            contacts=clock.contacts,
            smallest_rest_s=clock.smallest_rest_s,
            peak_concurrency=clock.peak_concurrency,
            breaches=clock.breaches,
        )

    def row(self, shift_s: float) -> Row:
        clock = self.clock
        return {
            "host": self.name,
            "queued": self.count(State.QUEUED),
            "visited": self.count(State.VISITED),
            "blocked": self.count(State.BLOCKED),
            "failed": self.count(State.FAILED),
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
    counts: dict[State, int] = field(default_factory=lambda: dict.fromkeys(State, 0))
    body_bytes: int = 0
    judged: list[int] = field(default_factory=list)  # ids blocked by its robots.txt, ascending
    ungoverned: dict[int, None] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)  # path -> URLs with a query
    robots: Access | None = None

    def due_at(self) -> float | None:
        if self.fresh:
            return float("-inf")
        return self.waits[0][0] if self.waits else None

    def governs(self) -> bool:
        return bool(self.judged or self.ungoverned or self.counts[State.QUEUED])

    def row(self) -> Row:
        copy = self.robots or Access()
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
    anchor: str | None
    referrer: int | None
    requisite: bool = False
    state: State | None = None
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
            requisite=self.requisite,
            sitemap=self.sitemap,
            listing=self.listing,
        )

    def ask_again(self) -> Queued:
        """As `ask`, of one that is visited."""
        assert self.plan is not None
        last = self.page or self.read
        assert last is not None
        before = Before(
            plan=replace(self.plan, due_in_s=0.0),
            status=last.status,
            redirect_url=self.target.url if self.target else None,
            body_hash=self.page.body_hash if self.page else None,
        )
        return replace(self.ask(), attempts=0, refusals=0, before=before)

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
        if self.state is State.VISITED and self.page:
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
            }
        if self.state is State.BLOCKED and self.block:
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
        if self.state is State.FAILED and self.failure:
            failure = self.failure
            return {
                "url": self.url,
                "error": failure.error,
                "attempts": failure.attempts,
                "last_at": failure.last_at,
            }
        if self.state is State.QUEUED:
            return {
                "url": self.url,
                "priority": self.priority,
                "depth": self.depth,
                "due_at": 0.0 if self.due_at is None else self.due_at - shift_s,
                "attempts": self.attempts,
            }
        return None


class Tables:
    """All rows, their indexes and counters. What moves a URL moves everything that counts it."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.origins: dict[str, Origin] = {}
        self.urls: dict[int, Url] = {}
        self.by_url: dict[str, Url] = {}
        self.sources: dict[int, dict[int, Url]] = {}  # id -> the URLs that redirect to it
        self.skipped: dict[str, int] = {}
        self.to_rejudge: dict[str, Origin] = {}  # in the order of their marks
        self._turn = 0
        # Where origins are that only redirects named: no host of the crawl.
        self.nowhere = Host(id=0, name="", clock=HostClock(), next_at=0.0)

    def host(self, name: str, now_s: float) -> Host:
        found = self.hosts.get(name)
        if found is None:
            found = Host(id=len(self.hosts) + 1, name=name, clock=HostClock(), next_at=now_s)
            self.hosts[name] = found
        return found

    def origin(self, name: str, hostname: str, slot: str | None, now_s: float) -> Origin:
        """An origin by name; `slot` is the host it belongs to if it belongs to none yet."""
        found = self.origins.get(name)
        if found is None:
            found = Origin(name=name, hostname=hostname, host=self.nowhere)
            self.origins[name] = found
            self.nowhere.origins.append(found)
        if slot is not None and found.host is self.nowhere:
            self.move(found, slot, now_s)
        return found

    def new_url(self, link: Link, origin: Origin, referrer: int | None) -> Url:
        url = Url(
            id=len(self.urls) + 1,
            url=link.url,
            origin=origin,
            depth=link.depth,
            priority=link.priority,
            seed=link.seed,
            anchor=link.anchor,
            referrer=referrer,
            requisite=link.requisite,
            sitemap=link.sitemap,
        )
        self.urls[url.id] = url
        self.by_url[url.url] = url
        return url

    def reset(self, url: Url) -> None:
        """Take a URL out of its state: no view shows it, no counter counts it."""
        origin = url.origin
        if url.is_read:
            self.replan(url, None, 0.0)
        url.is_read = False
        if url.state is None:
            return
        origin.counts[url.state] -= 1
        if url.state is State.QUEUED:
            if url.due_at is None:
                del origin.fresh[bisect_left(origin.fresh, url.rank())]
            else:
                del origin.waits[bisect_left(origin.waits, (url.due_at, url.id))]
        elif url.state is State.VISITED and url.page:
            origin.body_bytes -= url.page.body_bytes
            origin.ungoverned.pop(url.id, None)
            self.replan(url, None, 0.0)
        elif url.block and url.block.reason is not BlockReason.REDIRECT:
            del origin.judged[bisect_left(origin.judged, url.id)]
        url.state = None
        url.page = url.block = url.failure = None
        url.error = url.left_out = url.due_at = None
        url.withdrawn = False

    def queue(self, url: Url, *, due_at: float | None = None, again: bool = False) -> None:
        """Put a URL into the queue; `again`: behind those that were not tried."""
        self.reset(url)
        self.point(url, None)
        if again:
            self._turn += 1
            url.turn = self._turn
        else:
            url.turn = url.attempts = url.refusals = 0
        url.state = State.QUEUED
        url.due_at = due_at
        url.origin.counts[State.QUEUED] += 1
        if due_at is None:
            insort(url.origin.fresh, url.rank())
        else:
            insort(url.origin.waits, (due_at, url.id))

    def lower(self, url: Url, depth: int) -> None:
        """A URL was found another way: the shortest counts, and moves it in the queue."""
        if depth >= url.depth:
            return
        due = url.state is State.QUEUED and url.due_at is None
        if due:
            del url.origin.fresh[bisect_left(url.origin.fresh, url.rank())]
        url.depth = depth
        if due:
            insort(url.origin.fresh, url.rank())

    def move(self, origin: Origin, slot: str, now_s: float) -> None:
        """Put an origin with all its URLs under another host."""
        origin.host.origins.remove(origin)
        origin.host = self.host(slot, now_s)
        origin.host.origins.append(origin)

    def promote(self, origin: Origin, now_s: float) -> None:
        """What has fallen due joins the queue at its place."""
        while origin.waits and origin.waits[0][0] <= now_s:
            url = self.urls[origin.waits.pop(0)[1]]
            url.due_at = None
            insort(origin.fresh, url.rank())

    def point(self, url: Url, target: Url | None) -> None:
        """Say where a URL redirects to."""
        if url.target is not None:
            del self.sources[url.target.id][url.id]
        url.target = target
        if target is not None:
            self.sources.setdefault(target.id, {})[url.id] = url

    def visited(self, url: Url, page: Visited) -> None:
        self.reset(url)
        url.state, url.page = State.VISITED, page
        url.origin.counts[State.VISITED] += 1
        url.origin.body_bytes += page.body_bytes
        if page.ungoverned:
            url.origin.ungoverned[url.id] = None

    def replan(self, url: Url, plan: Plan | None, at: float) -> None:
        """When a visited URL is to be visited again; None: never."""
        plans = url.origin.plans
        if url.plan is not None:
            del plans[bisect_left(plans, (url.plan_at, url.id))]
        url.plan, url.plan_at = plan, at
        if plan is not None:
            insort(plans, (at, url.id))

    def read(self, url: Url, read: SitemapRead) -> None:
        self.reset(url)
        url.sitemap = url.is_read = True
        url.read = read

    def blocked(
        self, url: Url, block: Blocked, *, withdrawn: bool, judged_by: bytes | None
    ) -> None:
        self.reset(url)
        url.judged_by = judged_by
        url.state, url.block, url.withdrawn = State.BLOCKED, block, withdrawn
        url.origin.counts[State.BLOCKED] += 1
        if block.reason is not BlockReason.REDIRECT:
            self.point(url, None)  # blocked for its own sake: where it leads no longer matters
            insort(url.origin.judged, url.id)

    def failed(self, url: Url, failure: Failed) -> None:
        self.reset(url)
        url.state, url.failure = State.FAILED, failure
        url.origin.counts[State.FAILED] += 1

    def leading_to(self, url: Url) -> Iterator[Url]:
        """Every URL that leads to this one by redirects, nearest first, once each."""
        seen = {url.id}
        layer = [url]
        while layer:
            layer = [
                source
                for target in layer
                for source in self.sources.get(target.id, {}).values()
                if source.id not in seen
            ]
            seen.update(source.id for source in layer)
            yield from list({source.id: source for source in layer}.values())

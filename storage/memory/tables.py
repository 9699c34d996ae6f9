"""All rows, their indexes and counters: what moves a URL moves everything that counts it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from storage.memory.rows import Host, Origin, Url
from storage.store import (
    Blocked,
    BlockReason,
    Failed,
    HostClock,
    Link,
    Plan,
    SitemapRead,
    UrlState,
    Visited,
)


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
            root=link.seed and not link.hops,
            hops=link.hops,
            anchor=link.anchor,
            referrer=referrer,
            requisite=link.requisite,
            requisite_depth=link.requisite_depth,
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
        if url.state is UrlState.QUEUED:
            if url.due_at is None:
                del origin.fresh[bisect_left(origin.fresh, url.rank())]
            else:
                del origin.waits[bisect_left(origin.waits, (url.due_at, url.id))]
        elif url.state is UrlState.VISITED and url.page:
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
        url.state = UrlState.QUEUED
        url.due_at = due_at
        url.origin.counts[UrlState.QUEUED] += 1
        if due_at is None:
            insort(url.origin.fresh, url.rank())
        else:
            insort(url.origin.waits, (due_at, url.id))

    def lower(self, url: Url, depth: int) -> None:
        """A URL was found another way: the shortest counts, and moves it in the queue."""
        if depth >= url.depth:
            return
        due = url.state is UrlState.QUEUED and url.due_at is None
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
        url.state, url.page = UrlState.VISITED, page
        url.origin.counts[UrlState.VISITED] += 1
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
        url.state, url.block, url.withdrawn = UrlState.BLOCKED, block, withdrawn
        url.origin.counts[UrlState.BLOCKED] += 1
        if block.reason is not BlockReason.REDIRECT:
            self.point(url, None)  # blocked for its own sake: where it leads no longer matters
            insort(url.origin.judged, url.id)

    def failed(self, url: Url, failure: Failed) -> None:
        self.reset(url)
        url.state, url.failure = UrlState.FAILED, failure
        url.origin.counts[UrlState.FAILED] += 1

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

"""Every change of a URL's state, and what follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from policies.url import host_of, origin_of
from storage.columns import WAIT_S_MAX, counts_for
from storage.memory.leases import Leases
from storage.memory.links import Links
from storage.memory.rows import Url
from storage.memory.tables import Tables
from storage.store import (
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    Link,
    Moved,
    Outcome,
    Plan,
    Retry,
    Revisited,
    SitemapRead,
    UrlState,
    Visited,
)
from storage.timekeeper import Timekeeper


class Changes:
    """Applies outcomes and verdicts to the tables."""

    def __init__(self, tables: Tables, time: Timekeeper, leases: Leases, links: Links) -> None:
        self._tables = tables
        self._time = time
        self._leases = leases
        self._links = links

    def apply(self, outcome: Outcome, added: Counter[str]) -> None:
        tables = self._tables
        url = tables.urls.get(outcome.id)
        if url is None:
            return
        if isinstance(outcome, Moved):
            if outcome.to_slot != url.origin.host.name:
                before = url.origin.host
                tables.move(url.origin, outcome.to_slot, self._time.now_s())
                added[outcome.to_slot] += url.origin.counts[UrlState.QUEUED]
                self._leases.offer(before)
                self._leases.offer(url.origin.host)
            return
        planned = url.is_read and url.plan is not None
        if not counts_for(outcome, url.state, planned=planned):
            return
        match outcome:
            case Visited() if url.sitemap:
                pass  # named as one since it was asked for as a page: it is to be read as one
            case Visited():
                self._visited(url, outcome)
            case Revisited(plan=plan):
                self.plan(url, plan)
            case SitemapRead():
                tables.read(url, outcome)
                self.plan(url, outcome.plan)
            case Blocked():
                withdrawn = url.fetched or url.state is UrlState.VISITED
                self.blocked(url, outcome, withdrawn=withdrawn)
            case Failed():
                tables.failed(url, outcome)
            case Retry():
                now_s = self._time.now_s()
                due_in_s = min(outcome.due_in_s, WAIT_S_MAX)
                due_at = now_s + due_in_s if due_in_s > 0 else None
                tables.queue(url, due_at=due_at, again=True)
                url.attempts, url.refusals = outcome.attempts, outcome.refusals
                url.error = outcome.error
            case Dropped():
                tables.reset(url)
                url.left_out = outcome.reason
                self._links.skip({outcome.reason: 1})

    def _visited(self, url: Url, page: Visited) -> None:
        tables = self._tables
        target = None
        if page.redirect_url is not None:
            target = tables.by_url.get(page.redirect_url)
            if target is None:
                target = self._note(page.redirect_url, url)
        urls = [page.canonical_url, *(link.url for link in page.outlinks)]
        urls += [pointer.url for pointer in page.pointers]
        for noted in urls:
            if noted is not None and noted not in tables.by_url:
                self._note(noted, url)
        tables.point(url, target)
        tables.visited(url, page)
        if page.redirect_url is None and url.seed and url.hops:
            url.root = True
        self.plan(url, page.plan)
        origin = url.origin
        if page.ungoverned and origin.robots is not None and not origin.robots.failures:
            tables.to_rejudge.setdefault(origin.name, origin)
        if target is not None and target.state is UrlState.BLOCKED and target.block is not None:
            self._block_chain(target)

    def plan(self, url: Url, plan: Plan | None) -> None:
        at = 0.0 if plan is None else self._time.now_s() + max(0.0, plan.due_in_s)
        self._tables.replan(url, plan, at)

    def _note(self, target: str, source: Url) -> Url:
        """Remember a URL that is not wanted, because something refers to it."""
        host = host_of(target)
        origin = self._tables.origin(origin_of(target), host, None, self._time.now_s())
        link = Link(url=target, slot="", host=host, depth=0)
        return self._tables.new_url(link, origin, source.id)

    def blocked(self, url: Url, block: Blocked, *, withdrawn: bool) -> None:
        copy = url.origin.robots
        judged_by = None if copy is None else copy.body
        self._tables.blocked(url, block, withdrawn=withdrawn, judged_by=judged_by)
        self._block_chain(url)

    def _block_chain(self, url: Url) -> None:
        """Block every visited URL that leads to this blocked one."""
        block = url.block
        assert block is not None
        for source in self._tables.leading_to(url):
            if source.state is UrlState.VISITED:
                self._follow(source, url, block)

    def _follow(self, url: Url, target: Url, block: Blocked) -> None:
        follower = Blocked(
            id=url.id,
            slot=url.origin.host.name,
            reason=BlockReason.REDIRECT,
            dialect=block.dialect,
            rule=block.rule,
            line=block.line,
            robots_url=block.robots_url,
            blocked_at=self._time.wall_s(),
        )
        self._tables.blocked(url, follower, withdrawn=target.withdrawn, judged_by=target.judged_by)

    def rejudge(
        self, *, kept: Sequence[int], withdrawn: Sequence[Blocked], freed: Sequence[int]
    ) -> Counter[str]:
        """As `Store.rejudge`; give what was queued again, by slot."""
        tables, added = self._tables, Counter[str]()
        for url_id in kept:
            if (url := tables.urls.get(url_id)) is not None:
                url.origin.ungoverned.pop(url_id, None)
        for block in withdrawn:
            url = tables.urls.get(block.id)
            if url is not None and url.state is UrlState.VISITED:
                self.blocked(url, block, withdrawn=True)
        for url_id in freed:
            url = tables.urls.get(url_id)
            if url is None or url.state is not UrlState.BLOCKED:
                continue
            sources = [
                source
                for source in tables.leading_to(url)
                if source.block is not None and source.block.reason is BlockReason.REDIRECT
            ]
            for freed_url in (url, *sources):
                redirect = freed_url.block and freed_url.block.reason is BlockReason.REDIRECT
                freed_url.fetched |= freed_url.withdrawn or bool(redirect)
                self._links.requeue(freed_url, added)
        return added

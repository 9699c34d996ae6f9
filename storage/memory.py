"""The store without a file: sessions without a database, and tests under a jumping clock."""

from __future__ import annotations

import heapq
import math
import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice
from operator import itemgetter

from policies.access import Access
from policies.scope import Skip
from policies.url import host_of, origin_of
from storage import memory_reports, paging
from storage.base import (
    SEEDS_AT_ONCE,
    Batch,
    Blocked,
    BlockReason,
    Completed,
    Dropped,
    Failed,
    Hand,
    HostClock,
    HostUpdate,
    Judged,
    Lease,
    Link,
    Moved,
    Outcome,
    Outlook,
    Page,
    Plan,
    Queued,
    Retry,
    Revisited,
    RobotsDue,
    Row,
    SitemapRead,
    State,
    Stats,
    StoreError,
    Unplanned,
    Visited,
    Want,
)
from storage.memory_tables import Host, Origin, Tables, Url
from storage.rows import (
    CLOCKS_APART_S,
    COPIES_PER_LEASE,
    STATE_VIEWS,
    check_view,
    counts_for,
    hostname_of,
    robots_due_at,
    robots_state,
    rooms,
)
from storage.timekeeper import Timekeeper


class MemoryStore:
    """`Store` and `Reader` in one, without a file. No call awaits, so none can be cut in two."""

    def __init__(
        self,
        wall: Callable[[], float],
        *,
        monotonic: Callable[[], float] | None = None,
        queries_per_path_max: float = 1000,
    ) -> None:
        self._time = Timekeeper(wall, monotonic)
        self._queries_per_path_max = queries_per_path_max
        self._tables = Tables()
        self._session = 0
        self._names: list[str] = []  # of the latest sessions
        self._open = False
        self._paused = False
        self._served = 0
        # Free hosts with something queued, by when they can move. An entry whose stamp is not its
        # host's is out of date and skipped.
        self._order: list[tuple[float, int, int, int, Host]] = []
        self._stamp = 0

    # ------------------------------------------------------------ sessions

    async def open_session(self, name: str) -> int:
        self._session += 1
        self._names = [name, *self._names[:19]]
        self._open = True
        for host in self._tables.hosts.values():
            if host.lease is not None:
                host.lease = None
                self._offer(host)
        return self._session

    async def close(self, session: int | None = None) -> None:
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")

    # ------------------------------------------------------------ links

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        self._check_open()
        added = self._insert([(referrer, links)])
        for link in links:
            url = self._tables.by_url.get(link.url)
            if revive and url is not None and url.state is State.FAILED:
                self._requeue(url, added)
        return Completed(stale=frozenset(), added=added, hands={})

    def _hasten(self, url: Url) -> None:
        """What a sitemap says has changed since it was visited is due now."""
        if url.plan is None or url.listing is None or url.listing.lastmod_at is None:
            return
        now_s = self._time.now_s()
        news = url.plan.checked_at < round(url.listing.lastmod_at) <= self._time.wall_s()
        if news and url.plan_at > now_s:
            self._tables.replan(url, url.plan, now_s)

    def _insert(self, groups: Iterable[tuple[int | None, Sequence[Link]]]) -> Counter[str]:
        """Queue what is new among the links of each page."""
        tables, now_s = self._tables, self._time.now_s()
        added: Counter[str] = Counter()
        pairs = [(referrer, link) for referrer, links in groups for link in links]
        seeds = {link.url for _, link in pairs if link.seed}
        refused: set[str] = set()  # counted once a commit
        for referrer, link in pairs:
            url = tables.by_url.get(link.url)
            if url is not None and _is_in_view(url):
                if link.seed:
                    url.seed = True
                if link.seed or url.state is State.QUEUED:
                    tables.lower(url, link.depth)
                continue
            origin = tables.origin(origin_of(link.url), host_of(link.url), link.slot, now_s)
            path, question, _ = link.url.partition("?")
            if question and link.url not in seeds:
                if origin.queries.get(path, 0) >= self._queries_per_path_max:
                    refused.add(link.url)
                    continue
                origin.queries[path] = origin.queries.get(path, 0) + 1
            if url is None:
                url = tables.new_url(link, origin, referrer)
            else:
                url.depth, url.priority, url.seed = link.depth, link.priority, link.seed
                url.anchor, url.referrer, url.sitemap = link.anchor, referrer, link.sitemap
                url.requisite = link.requisite
            self._requeue(url, added)
        named = {
            link.url: link for _, link in pairs if link.sitemap or link.again_before is not None
        }
        for name, link in named.items():
            url = tables.by_url.get(name)
            if url is not None and _is_in_view(url):
                self._note_sitemap(url, link, added)
        for _, link in pairs:
            listed = tables.by_url.get(link.url) if link.listing is not None else None
            if listed is not None and _is_in_view(listed):
                listed.listing = link.listing
                self._hasten(listed)
        if refused:
            self._skip({Skip.MAX_QUERIES_PER_PATH: len(refused)})
        return added

    def _note_sitemap(self, url: Url, link: Link, added: Counter[str]) -> None:
        """What is named as a sitemap is one; see `Store.add`."""
        if link.sitemap and not url.sitemap:
            self._tables.lower(url, link.depth)
            url.sitemap = True
        if url.state is State.VISITED and link.sitemap:
            url.fetched = True
            self._requeue(url, added)
        elif (
            url.is_read
            and url.read is not None
            and link.again_before is not None
            and max(url.read.fetched_at, url.plan.checked_at if url.plan else 0.0)
            < link.again_before
        ):
            self._requeue(url, added)

    def _requeue(self, url: Url, added: Counter[str]) -> None:
        """Queue a URL as if it were new."""
        self._tables.queue(url)
        added[url.origin.host.name] += 1
        self._offer(url.origin.host)

    def _skip(self, skipped: Mapping[str, int]) -> None:
        for reason, count in skipped.items():
            self._tables.skipped[reason] = self._tables.skipped.get(reason, 0) + count

    async def sessions(self) -> Sequence[str]:
        return self._names

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        seeds = [url.url for url in self._tables.urls.values() if url.seed]
        for start in range(0, len(seeds), SEEDS_AT_ONCE):
            yield seeds[start : start + SEEDS_AT_ONCE]

    # ------------------------------------------------------------ leases

    def _offer(self, host: Host) -> None:
        """Put a host where claims will find it, if it is free and has work."""
        ready_at = None if host.lease is not None or host.paused else host.ready_at()
        if ready_at == host.offered_at:
            return
        self._stamp += 1
        host.stamp, host.offered_at = self._stamp, ready_at
        if ready_at is not None:
            heapq.heappush(self._order, (ready_at, host.served, host.id, self._stamp, host))

    def _offered(self) -> Iterator[tuple[float, int, int, int, Host]]:
        """Take hosts from the order of claims, soonest first; callers put back what they leave."""
        while self._order:
            entry = heapq.heappop(self._order)
            if entry[3] == entry[4].stamp:
                yield entry

    async def claim(self, session: int, *, hosts: int, urls_per_host: int) -> Sequence[Lease]:
        self._check_session(session)
        now_s = self._time.now_s()
        leases: list[Lease] = []
        left = []
        for entry in self._offered() if hosts > 0 else ():
            if entry[0] > now_s:
                left.append(entry)
                break
            host = entry[4]
            ready_at = host.ready_at()
            if ready_at is None or ready_at > now_s:
                left.append(entry)
                continue
            want = Want(slot=host.name, count=urls_per_host)
            leases.append(self._lease(host, want))
            if len(leases) >= hosts:
                break
        for entry in left:
            heapq.heappush(self._order, entry)
        return leases

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        self._check_session(session)
        found = {slot: self._tables.host(slot, self._time.now_s()) for slot in slots}
        return {slot: self._lease(host, None) for slot, host in found.items() if host.lease is None}

    def forget(self, slot: str) -> None:
        """Drop a free host that has no URLs, with its robots.txt copies: nothing refers to it.
        For callers that bring their own URLs and go on for ever; a file keeps such hosts."""
        host = self._tables.hosts.get(slot)
        if host is None or host.lease is not None or any(host.count(state) for state in State):
            return
        for origin in host.origins:
            self._tables.origins.pop(origin.name, None)
            self._tables.to_rejudge.pop(origin.name, None)
        del self._tables.hosts[slot]

    def _lease(self, host: Host, want: Want | None) -> Lease:
        clean = host.clean
        self._served += 1
        host.lease, host.clean, host.served = self._session, False, self._served
        host.epoch += 1
        self._offer(host)
        origins = sorted(host.origins, key=lambda one: not one.counts[State.QUEUED])
        return Lease(
            slot=host.name,
            epoch=host.epoch,
            clean=clean,
            clock=host.clock_now(self._time.now_s()),
            paused=host.paused,
            slow_s=host.slow_s,
            visited=host.count(State.VISITED),
            robots={o.name: o.robots for o in islice(origins, COPIES_PER_LEASE) if o.robots},
            robots_all=len(origins) <= COPIES_PER_LEASE,
            hand=Hand(urls=(), next_due_in_s=None) if want is None else self._deal(host, want),
        )

    def _check_session(self, session: int) -> None:
        self._check_open()
        if session != self._session:
            raise StoreError(f"session {session} is over; session {self._session} has begun")

    def _held(self, session: int, update: HostUpdate) -> Host | None:
        host = self._tables.hosts.get(update.slot)
        if host is None or host.lease != session or host.epoch != update.epoch:
            return None
        return host

    def _update(self, host: Host, update: HostUpdate) -> None:
        now_s, clock = self._time.now_s(), update.clock
        host.clock = clock
        if clock.rested_s is not None:
            host.ended_at = now_s - clock.rested_s
        host.next_at = now_s + max(0.0, clock.next_in_s)
        host.backoff_until = now_s + clock.backoff_in_s if clock.backoff_in_s > 0 else None
        host.ring.extend(update.contacts)
        if update.release:
            host.lease, host.clean = None, True
            self._offer(host)

    def _deal(self, host: Host, want: Want, ended: Collection[int] = ()) -> Hand:
        """Look up the best URLs that are due; they stay where they are in the queue."""
        now_s = self._time.now_s()
        held, closed = frozenset(want.held).difference(ended), frozenset(want.closed)
        origins = [origin for origin in host.origins if origin.name not in closed]
        for origin in origins:
            self._tables.promote(origin, now_s)
        urls = self._tables.urls
        due = (
            urls[rank[3]]
            for rank in heapq.merge(*(origin.fresh for origin in origins))
            if rank[3] not in held
        )
        fresh = list(islice(due, max(0, want.count) + 1)) if want.queued else []
        plans = sorted(plan for origin in origins for plan in origin.plans if plan[1] not in held)
        again = [urls[key] for at, key in plans if at <= now_s] if want.revisits else []
        waiting = [one for origin in host.origins for one in origin.plans if one[1] not in held]
        later = min((at for at, _ in waiting if at > now_s), default=None)
        room = rooms(want.count, queued=len(fresh), due=len(again))
        hand: list[Queued] = [url.ask() for url in fresh[: room.queued]]
        hand += [url.ask_again() for url in again[: room.due]]
        revisit_in_s = None if later is None or not want.revisits else later - now_s
        if len(again) > room.due:
            revisit_in_s = 0.0
        if len(fresh) > room.queued:
            return Hand(urls=hand, next_due_in_s=0.0, next_revisit_in_s=revisit_in_s)
        waits = [
            due_at
            for origin in (origins if want.queued else ())
            for due_at, url_id in islice(origin.waits, len(held) + 1)
            if url_id not in held
        ]
        return Hand(
            urls=hand,
            next_due_in_s=min(waits) - now_s if waits else None,
            next_revisit_in_s=revisit_in_s,
        )

    # ------------------------------------------------------------ commits

    async def complete(self, session: int, batch: Batch) -> Completed:
        self._check_open()
        hosts = {update.slot: self._held(session, update) for update in batch.hosts}
        stale: set[str] = {slot for slot, host in hosts.items() if host is None}
        added: Counter[str] = Counter()
        added += self._insert(
            (outcome.id, outcome.links)
            for outcome in batch.outcomes
            if isinstance(outcome, Visited | SitemapRead)
        )
        # Origins move last: `added` counts what is queued when all is done.
        for outcome in sorted(batch.outcomes, key=lambda one: isinstance(one, Moved)):
            if hosts.get(outcome.slot) is None:
                stale.add(outcome.slot)
            else:
                self._apply(outcome, added)
        for update in batch.hosts:
            host = hosts[update.slot]
            if host is not None:
                self._update(host, update)
        self._skip(batch.skipped)
        ended = {outcome.id for outcome in batch.outcomes if outcome.slot not in stale}
        hands = {
            want.slot: self._deal(host, want, ended)
            for want in batch.wants
            if (host := hosts.get(want.slot)) is not None and host.lease == session
        }
        return Completed(stale=frozenset(stale), added=added, hands=hands)

    def _apply(self, outcome: Outcome, added: Counter[str]) -> None:
        tables = self._tables
        url = tables.urls.get(outcome.id)
        if url is None:
            return
        if isinstance(outcome, Moved):
            if outcome.to_slot != url.origin.host.name:
                before = url.origin.host
                tables.move(url.origin, outcome.to_slot, self._time.now_s())
                added[outcome.to_slot] += url.origin.counts[State.QUEUED]
                self._offer(before)
                self._offer(url.origin.host)
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
                self._plan(url, plan)
            case SitemapRead():
                tables.read(url, outcome)
                self._plan(url, outcome.plan)
            case Blocked():
                withdrawn = url.fetched or url.state is State.VISITED
                self._blocked(url, outcome, withdrawn=withdrawn)
            case Failed():
                tables.failed(url, outcome)
            case Retry():
                now_s = self._time.now_s()
                due_at = now_s + outcome.due_in_s if outcome.due_in_s > 0 else None
                tables.queue(url, due_at=due_at, again=True)
                url.attempts, url.refusals = outcome.attempts, outcome.refusals
                url.error = outcome.error
            case Dropped():
                tables.reset(url)
                url.left_out = outcome.reason
                self._skip({outcome.reason: 1})

    def _visited(self, url: Url, page: Visited) -> None:
        tables = self._tables
        target = None
        if page.redirect_url is not None:
            target = tables.by_url.get(page.redirect_url)
            if target is None:
                target = self._note(page.redirect_url, url)
        for noted in (page.canonical_url, *(link.url for link in page.outlinks)):
            if noted is not None and noted not in tables.by_url:
                self._note(noted, url)
        tables.point(url, target)
        tables.visited(url, page)
        self._plan(url, page.plan)
        origin = url.origin
        if page.ungoverned and origin.robots is not None and not origin.robots.failures:
            tables.to_rejudge.setdefault(origin.name, origin)
        if target is not None and target.state is State.BLOCKED and target.block is not None:
            self._block_chain(target)

    def _plan(self, url: Url, plan: Plan | None) -> None:
        at = 0.0 if plan is None else self._time.now_s() + max(0.0, plan.due_in_s)
        self._tables.replan(url, plan, at)

    def _note(self, target: str, source: Url) -> Url:
        """Remember a URL that is not wanted, because something refers to it."""
        host = host_of(target)
        origin = self._tables.origin(origin_of(target), host, None, self._time.now_s())
        link = Link(url=target, slot="", host=host, depth=0)
        return self._tables.new_url(link, origin, source.id)

    def _blocked(self, url: Url, block: Blocked, *, withdrawn: bool) -> None:
        copy = url.origin.robots
        judged_by = None if copy is None else copy.body
        self._tables.blocked(url, block, withdrawn=withdrawn, judged_by=judged_by)
        self._block_chain(url)

    def _block_chain(self, url: Url) -> None:
        """Block every visited URL that leads to this blocked one."""
        block = url.block
        assert block is not None
        for source in self._tables.leading_to(url):
            if source.state is State.VISITED:
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

    # ------------------------------------------------------------ robots

    async def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: Access,
        *,
        also: HostUpdate | None = None,
        rejudge: bool = False,
        links: Sequence[Link] = (),
    ) -> Completed:
        self._check_open()
        found = self._tables.origin(origin, hostname_of(origin), slot, self._time.now_s())
        found.robots = copy
        if rejudge:
            self._tables.to_rejudge.setdefault(origin, found)
        added = self._insert([(None, links)])
        if also is not None and (host := self._held(session, also)) is not None:
            self._update(host, also)
        return Completed(stale=frozenset(), added=added, hands={})

    async def robots_get(self, origin: str) -> Access | None:
        found = self._tables.origins.get(origin)
        return None if found is None else found.robots

    async def robots_copy(self, origin: str) -> Access | None:
        return await self.robots_get(origin)

    async def robots_body(self, url: str) -> bytes | None:
        found = self._tables.by_url.get(url)
        return found.judged_by if found is not None and found.state is State.BLOCKED else None

    def _robots_due(self) -> Iterator[tuple[float, Origin]]:
        """Origins that may be asked some time, with the seconds from now until then."""
        wall_s, now_s = self._time.wall_s(), self._time.now_s()
        for origin in self._tables.origins.values():
            host = origin.host
            if origin.robots is None or host.lease is not None or host.paused:
                continue
            due_at = robots_due_at(origin.robots)
            if due_at is not None and origin.governs():
                yield max(0.0, due_at - wall_s, host.free_at() - now_s), origin

    async def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        self._check_session(session)
        due = (
            RobotsDue(slot=origin.host.name, origin=origin.name)
            for in_s, origin in self._robots_due()
            if in_s == 0.0
        )
        return list(islice(due, limit))

    def _revisits(self) -> Iterator[tuple[float, float, Host]]:
        """Free hosts with pages to be visited again: since when, and from when they may be."""
        for host in self._tables.hosts.values():
            due = [origin.plans[0][0] for origin in host.origins if origin.plans]
            if due and host.lease is None and not host.paused:
                yield min(due), max(min(due), host.free_at()), host

    async def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        self._check_session(session)
        now_s = self._time.now_s()
        due = sorted((due_at, host.name) for due_at, at, host in self._revisits() if at <= now_s)
        return [name for _, name in due[:limit]]

    async def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        self._check_session(session)
        urls, last = self._tables.urls, len(self._tables.urls)
        found = [
            Unplanned(
                id=url.id,
                url=url.url,
                status=url.page.status,
                fetched_at=url.page.fetched_at,
                listing=url.listing,
            )
            for key in range(after + 1, min(after + limit, last) + 1)
            if (url := urls[key]).page is not None and url.plan is None
        ]
        return found, after + limit if after + limit < last else None

    async def plan(self, session: int, plans: Mapping[int, Plan]) -> None:
        self._check_session(session)
        for key, plan in plans.items():
            url = self._tables.urls.get(key)
            if url is not None and url.state is State.VISITED and url.plan is None:
                self._plan(url, plan)

    async def rejudge_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        self._check_session(session)
        due = (
            RobotsDue(slot=origin.host.name, origin=origin.name)
            for origin in self._tables.to_rejudge.values()
            if origin.judged or origin.ungoverned
        )
        return list(islice(due, limit))

    async def rejudge_all(self, session: int) -> None:
        self._check_session(session)
        for origin in self._tables.origins.values():
            if origin.judged or origin.ungoverned:
                self._tables.to_rejudge.setdefault(origin.name, origin)

    async def rejudge_done(self, session: int, origin: str) -> None:
        self._check_session(session)
        self._tables.to_rejudge.pop(origin, None)

    async def ungoverned(self, origin: str, *, limit: int) -> Sequence[Judged]:
        found = self._tables.origins.get(origin)
        return self._judged(islice(found.ungoverned, limit) if found else ())

    async def blocked_by_robots(self, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
        found = self._tables.origins.get(origin)
        if found is None:
            return []
        start = bisect_right(found.judged, after)
        return self._judged(found.judged[start : start + limit])

    def _judged(self, ids: Iterable[int]) -> list[Judged]:
        return [Judged(id=url_id, url=self._tables.urls[url_id].url) for url_id in ids]

    async def rejudge(
        self,
        session: int,
        *,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
    ) -> Completed:
        self._check_session(session)
        tables, added = self._tables, Counter[str]()
        for url_id in kept:
            if (url := tables.urls.get(url_id)) is not None:
                url.origin.ungoverned.pop(url_id, None)
        for block in withdrawn:
            url = tables.urls.get(block.id)
            if url is not None and url.state is State.VISITED:
                self._blocked(url, block, withdrawn=True)
        for url_id in freed:
            url = tables.urls.get(url_id)
            if url is None or url.state is not State.BLOCKED:
                continue
            sources = [
                source
                for source in tables.leading_to(url)
                if source.block is not None and source.block.reason is BlockReason.REDIRECT
            ]
            for freed_url in (url, *sources):
                redirect = freed_url.block and freed_url.block.reason is BlockReason.REDIRECT
                freed_url.fetched |= freed_url.withdrawn or bool(redirect)
                self._requeue(freed_url, added)
        return Completed(stale=frozenset(), added=added, hands={})

    # ------------------------------------------------------------ by hand

    async def fail_host(
        self,
        session: int,
        update: HostUpdate,
        *,
        error: str,
        attempts: int,
        last_at: float,
        origin: str | None = None,
    ) -> int:
        self._check_open()
        host = self._held(session, update)
        if host is None:
            return 0
        origins = [one for one in host.origins if origin is None or one.name == origin]
        ids = [rank[3] for one in origins for rank in one.fresh]
        ids += [url_id for one in origins for _, url_id in one.waits]
        for url_id in ids:
            failure = Failed(
                id=url_id, slot=host.name, error=error, attempts=attempts, last_at=last_at
            )
            self._tables.failed(self._tables.urls[url_id], failure)
        self._update(host, update)
        return len(ids)

    async def retry_failed(self, host: str | None = None) -> int:
        self._check_open()
        failed = [
            url
            for url in self._tables.urls.values()
            if url.state is State.FAILED and self._is_of(url.origin, host)
        ]
        for found in {url.origin.host.name: url.origin.host for url in failed}.values():
            clock = found.clock_now(self._time.now_s())
            found.clock = _forgiven(clock)
            if found.backoff_until is not None or clock.connect_failures:
                found.backoff_until = None
                found.next_at = min(found.next_at, self._time.now_s() + clock.delay_s)
        added: Counter[str] = Counter()
        for url in failed:
            self._requeue(url, added)
        return len(failed)

    async def set_control(
        self,
        slot: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> bool:
        self._check_open()
        host = self._tables.hosts.get(slot)
        if host is None:
            return False
        if paused is not None:
            host.paused = paused
        if slow_s is not None or clear_slow:
            host.slow_s = slow_s
            self._rouse(host)
        self._offer(host)
        return True

    async def rouse(self, session: int) -> None:
        self._check_session(session)
        for host in self._tables.hosts.values():
            self._rouse(host)

    def _rouse(self, host: Host) -> None:
        """A free host that rests from its last contact alone, and could be reckoned anew."""
        if (
            host.lease is None
            and host.ended_at is not None
            and host.next_at > max(self._time.now_s(), host.ended_at)
            and host.next_at <= host.ended_at + host.clock.delay_s + CLOCKS_APART_S
            and len(host.origins) <= COPIES_PER_LEASE
        ):
            host.next_at = host.ended_at
            self._offer(host)

    async def set_paused(self, paused: bool) -> None:
        self._check_open()
        self._paused = paused

    async def paused(self) -> bool:
        self._check_open()
        return self._paused

    async def name_session(self, session: int, name: str) -> None:
        self._check_session(session)
        self._names[0] = name

    # ------------------------------------------------------------ what is there

    async def outlook(self, session: int) -> Outlook:
        self._check_session(session)
        now_s = self._time.now_s()
        claimable_at, looked = math.inf, []
        for entry in self._offered():
            looked.append(entry)
            if entry[0] >= claimable_at:
                break
            ready_at = entry[4].ready_at()
            claimable_at = min(claimable_at, math.inf if ready_at is None else ready_at)
        for entry in looked:
            heapq.heappush(self._order, entry)
        robots = [in_s for in_s, _ in self._robots_due()]
        return Outlook(
            claimable_in_s=None if claimable_at == math.inf else max(0.0, claimable_at - now_s),
            robots_in_s=min(robots, default=None),
            revisit_in_s=min((max(0.0, at - now_s) for _, at, _ in self._revisits()), default=None),
        )

    async def stats(self) -> Stats:
        origins = self._tables.origins.values()
        return Stats(
            visited=sum(origin.counts[State.VISITED] for origin in origins),
            blocked=sum(origin.counts[State.BLOCKED] for origin in origins),
            failed=sum(origin.counts[State.FAILED] for origin in origins),
            queued=sum(origin.counts[State.QUEUED] for origin in origins),
            hosts=len(self._tables.hosts),
            body_bytes=sum(origin.body_bytes for origin in origins),
        )

    async def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        check_view(view, host)
        for row in islice(self._rows(view, host), limit):
            yield row

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        for row in memory_reports.rows(self._tables, kind):
            yield row

    def _rows(self, view: str, host: str | None) -> Iterator[Row]:
        tables, shift_s = self._tables, self._time.shift_s()
        if view == "skipped":
            for reason in sorted(tables.skipped):
                yield {"reason": reason, "count": tables.skipped[reason]}
        elif view == "hosts":
            for name in sorted(tables.hosts):
                if host is None or name == host:
                    yield tables.hosts[name].row(shift_s)
        elif view == "links":
            for url in list(tables.urls.values()):
                if url.state is State.VISITED and url.page and self._is_of(url.origin, host):
                    yield from _links_of(url.url, url.page)
        elif view == "robots":
            for name in sorted(tables.origins):
                origin = tables.origins[name]
                if origin.robots is not None and self._is_of(origin, host):
                    yield origin.row()
        elif view in ("sitemaps", "listings"):
            for url in list(tables.urls.values()):
                row = url.sitemap_row(tables.urls) if view == "sitemaps" else url.listing_row()
                if row is not None and self._is_of(url.origin, host):
                    yield row
        else:
            for url in list(tables.urls.values()):
                if url.state is not None and STATE_VIEWS[url.state] == view:
                    row = url.row(shift_s, tables.urls) if self._is_of(url.origin, host) else None
                    if row is not None:
                        yield row

    def _is_of(self, origin: Origin, host: str | None) -> bool:
        return host is None or host in (origin.host.name, origin.hostname)

    async def hosts_page(
        self,
        *,
        search: str = "",
        state: str = "all",
        sort: str = "host",
        limit: int = 100,
        after: str = "",
        now_s: float = 0.0,
    ) -> Page:
        column, descends = paging.sort_of(sort)
        paging.check_limit(limit)
        which = paging.HostFilter(state)
        place = paging.host_place(after, sort) if after else None
        rows = [
            (paging.value_of(row, column), str(row["host"]), row)
            for row in self._rows("hosts", None)
            if search.lower() in str(row["host"]) and paging.is_in(row, which, now_s)
        ]
        rows.sort(key=itemgetter(0, 1), reverse=descends)
        if place is not None:
            beyond = operator.lt if descends else operator.gt
            rows = [each for each in rows if beyond(each[:2], place)]
        chosen = rows[:limit]
        more = paging.mark(sort, chosen[-1][:2]) if len(rows) > limit else None
        return Page(rows=[row for _, _, row in chosen], after=more)

    async def blocked_page(
        self, *, host: str | None = None, rule: str = "", limit: int = 100, after: str = ""
    ) -> Page:
        paging.check_limit(limit)
        begin = paging.id_place(after)[1] if after else 0
        wanted, found = paging.ascii_lower(rule), list[tuple[int, Row]]()
        for url in self._tables.urls.values():
            if (
                url.state is not State.BLOCKED
                or url.id <= begin
                or not self._is_of(url.origin, host)
            ):
                continue
            row = url.row(self._time.shift_s(), self._tables.urls)
            if row and wanted in paging.ascii_lower(str(row["rule"] or "")):
                found.append((url.id, row))
        found.sort(key=itemgetter(0))
        more = paging.mark("id", (0, found[limit - 1][0])) if len(found) > limit else None
        return Page(rows=[row for _, row in found[:limit]], after=more)

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in hosts:
            host = self._tables.hosts.get(name)
            for origin in host.origins if host else ():
                if origin.robots is not None and found.get(name, "rules") == "rules":
                    found[name] = robots_state(origin.robots)
        return found

    async def blocked_lines(self, origin: str, *, limit: int = 100_000) -> dict[int, int]:
        counts: Counter[int] = Counter()
        known = self._tables.origins.get(origin)
        body = None if known is None or known.robots is None else known.robots.body
        if known is None or body is None:
            return {}
        for key in known.judged[:limit]:
            url = self._tables.urls[key]
            if url.block is not None and url.block.line is not None and url.judged_by == body:
                counts[url.block.line] += 1
        return dict(counts)

    async def url(self, url: str) -> Row | None:
        found = self._tables.by_url.get(url)
        if found is None:
            return None
        row = dict(found.row(self._time.shift_s(), self._tables.urls) or {"url": url})
        if found.is_read:
            row |= {"state": "sitemaps"} | dict(found.sitemap_row(self._tables.urls) or {})
        elif found.state is None:
            row |= {"state": "skipped", "reason": found.left_out}
        else:
            row["state"] = STATE_VIEWS[found.state]
        row |= {
            "host": found.origin.host.name or None,
            "origin": found.origin.name,
            "referrer": None if found.referrer is None else self._tables.urls[found.referrer].url,
            "anchor": found.anchor,
            "sitemap": found.sitemap,
            "listing": found.listing_row(),
        }
        if found.state is State.QUEUED:
            row["error"] = found.error
        return row

    async def host(self, host: str) -> Row | None:
        found = self._tables.hosts.get(host)
        if found is None:
            return None
        return {
            **found.row(self._time.shift_s()),
            "contacts": [
                {"start_at": c.start_at, "end_at": c.end_at, "kind": c.kind, "status": c.status}
                for c in found.ring
            ],
            "robots": [o.row() for o in found.origins if o.robots is not None],
        }


def _is_in_view(url: Url) -> bool:
    """Whether a link to it changes no state."""
    return url.state is not None or url.is_read


def _forgiven(clock: HostClock) -> HostClock:
    """A clock without the failures that kept its host from being asked."""
    return HostClock(
        next_in_s=clock.next_in_s,
        delay_s=clock.delay_s,
        delay_source=clock.delay_source,
        latency_s=clock.latency_s,
        denials=clock.denials,
        contacts=clock.contacts,
        smallest_rest_s=clock.smallest_rest_s,
        peak_concurrency=clock.peak_concurrency,
        breaches=clock.breaches,
    )


def _links_of(source: str, page: Visited) -> Iterator[Row]:
    first = {link.url: link for link in reversed(page.outlinks)}
    for link in page.outlinks:
        if first.pop(link.url, None) is not None:
            rel = None if link.rel is None else str(link.rel)
            yield {"source": source, "target": link.url, "anchor": link.anchor, "rel": rel}

"""The store without a file: sessions without a database, and tests under a jumping clock."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import structs

from policies.robots_state import RobotsState
from storage.columns import hostname_of, robots_due_at
from storage.memory.changes import Changes
from storage.memory.leases import Leases
from storage.memory.links import Links
from storage.memory.reader import MemoryReader, is_of
from storage.memory.rows import Host, Origin
from storage.memory.tables import Tables
from storage.store import (
    Batch,
    Blocked,
    Completed,
    Failed,
    HostUpdate,
    Judged,
    Lease,
    Link,
    Moved,
    Outlook,
    Plan,
    RobotsDue,
    SitemapRead,
    StoreError,
    Unplanned,
    UrlState,
    Visited,
)
from storage.timekeeper import Timekeeper
from storage.transient_faults import TransientFaults


class MemoryStore(MemoryReader):
    """`Store` and `Reader` in one, without a file. No call awaits, so none can be cut in two."""

    def __init__(
        self,
        wall: Callable[[], float],
        *,
        monotonic: Callable[[], float] | None = None,
        queries_per_path_max: float = 1000,
    ) -> None:
        super().__init__(Tables(), Timekeeper(wall, monotonic))
        tables, time = self._tables, self._time
        self._leases = Leases(tables, time)
        self._links = Links(tables, time, self._leases, queries_per_path_max=queries_per_path_max)
        self._changes = Changes(tables, time, self._leases, self._links)
        self._session = 0
        self._open = False
        self._paused = False
        self.troubles = TransientFaults()  # it has none

    def set_patience(self, seconds: float) -> None:
        pass

    # ------------------------------------------------------------ sessions

    async def open_session(self, name: str) -> int:
        self._session += 1
        self._names = [name, *self._names[:19]]
        self._open = True
        self._leases.void()
        return self._session

    async def close(self, session: int | None = None) -> None:
        self._open = False

    async def name_session(self, session: int, name: str) -> None:
        self._check_session(session)
        self._names[0] = name

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")

    def _check_session(self, session: int) -> None:
        self._check_open()
        if session != self._session:
            raise StoreError(f"session {session} is over; session {self._session} has begun")

    # ------------------------------------------------------------ links and outcomes

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        self._check_open()
        added = self._links.insert([(referrer, links)])
        for link in links:
            url = self._tables.by_url.get(link.url)
            if revive and url is not None and url.state is UrlState.FAILED:
                self._links.requeue(url, added)
        return Completed(stale=frozenset(), added=added, prefetched={})

    async def complete(self, session: int, batch: Batch) -> Completed:
        self._check_open()
        hosts = {update.slot: self._leases.held(session, update) for update in batch.hosts}
        stale: set[str] = {slot for slot, host in hosts.items() if host is None}
        added: Counter[str] = Counter()
        added += self._links.insert(
            (outcome.id, outcome.links)
            for outcome in batch.outcomes
            if isinstance(outcome, Visited | SitemapRead)
        )
        # Origins move last: `added` counts what is queued when all is done.
        for outcome in sorted(batch.outcomes, key=lambda one: isinstance(one, Moved)):
            if hosts.get(outcome.slot) is None:
                stale.add(outcome.slot)
            else:
                self._changes.apply(outcome, added)
        for update in batch.hosts:
            host = hosts[update.slot]
            if host is not None:
                self._leases.update(host, update)
        self._links.skip(batch.skipped)
        ended = {outcome.id for outcome in batch.outcomes if outcome.slot not in stale}
        hands = {
            want.slot: self._leases.deal(host, want, ended)
            for want in batch.prefetch
            if (host := hosts.get(want.slot)) is not None and host.lease == session
        }
        return Completed(stale=frozenset(stale), added=added, prefetched=hands)

    # ------------------------------------------------------------ leases

    async def claim(self, session: int, *, hosts: int, urls_per_host: int) -> Sequence[Lease]:
        self._check_session(session)
        return self._leases.claim(session, hosts=hosts, urls_per_host=urls_per_host)

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        self._check_session(session)
        return self._leases.acquire(session, slots)

    async def outlook(self, session: int) -> Outlook:
        self._check_session(session)
        now_s = self._time.now_s()
        claimable_at = self._leases.next_claim_at()
        robots = [(due_in_s, free_in_s) for due_in_s, free_in_s, _ in self._robots_due()]
        return Outlook(
            claimable_in_s=None if claimable_at is None else max(0.0, claimable_at - now_s),
            robots_in_s=min(map(max, robots), default=None),
            robots_rest_s=min((rest_s for due_s, rest_s in robots if due_s == 0.0), default=None),
            revisit_in_s=min((max(0.0, at - now_s) for _, at, _ in self._revisits()), default=None),
        )

    def forget(self, slot: str) -> None:
        """Drop a free host that has no URLs, with its robots.txt copies: nothing refers to it.
        For callers that bring their own URLs and go on for ever; a file keeps such hosts."""
        host = self._tables.hosts.get(slot)
        if host is None or host.lease is not None or any(host.count(state) for state in UrlState):
            return
        for origin in host.origins:
            self._tables.origins.pop(origin.name, None)
            self._tables.to_rejudge.pop(origin.name, None)
        del self._tables.hosts[slot]

    # ------------------------------------------------------------ robots

    async def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: RobotsState,
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
        added = self._links.insert([(None, links)])
        if also is not None and (host := self._leases.held(session, also)) is not None:
            self._leases.update(host, also)
        return Completed(stale=frozenset(), added=added, prefetched={})

    def _robots_due(self) -> Iterator[tuple[float, float, Origin]]:
        """Origins that may be asked some time: seconds until each is due, and its host free."""
        wall_s, now_s = self._time.wall_s(), self._time.now_s()
        for origin in self._tables.origins.values():
            host = origin.host
            if origin.robots is None or host.lease is not None or host.paused:
                continue
            due_at = robots_due_at(origin.robots)
            if due_at is not None and origin.governs():
                yield max(0.0, due_at - wall_s), max(0.0, host.free_at() - now_s), origin

    async def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        self._check_session(session)
        due = (
            RobotsDue(slot=origin.host.name, origin=origin.name)
            for due_in_s, free_in_s, origin in self._robots_due()
            if due_in_s == free_in_s == 0.0
        )
        return list(islice(due, limit))

    # ------------------------------------------------------------ visiting again

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
            if url is not None and url.state is UrlState.VISITED and url.plan is None:
                self._changes.plan(url, plan)

    # ------------------------------------------------------------ judging again

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
        added = self._changes.rejudge(kept=kept, withdrawn=withdrawn, freed=freed)
        return Completed(stale=frozenset(), added=added, prefetched={})

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
        host = self._leases.held(session, update)
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
        self._leases.update(host, update)
        return len(ids)

    def in_flight(self, id_: int) -> None:
        """Nothing is left of this store when its process dies."""

    def not_in_flight(self, id_: int) -> None:
        pass

    def robots_in_flight(self, slot: str, origin: str) -> None:
        pass

    def robots_not_in_flight(self, slot: str, origin: str) -> None:
        pass

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        self._check_open()
        failed = [
            url
            for url in self._tables.urls.values()
            if url.state is UrlState.FAILED
            and is_of(url.origin, host)
            and (code is None or str(url.error).startswith(f"{code}:"))
        ]
        for found in {url.origin.host.name: url.origin.host for url in failed}.values():
            clock = found.clock_now(self._time.now_s())
            found.clock = structs.replace(
                clock, rested_s=None, backoff_level=0, backoff_in_s=0.0, connect_failures=0
            )
            if found.backoff_until is not None or clock.connect_failures:
                found.backoff_until = None
                found.next_at = min(found.next_at, self._time.now_s() + clock.delay_s)
        added: Counter[str] = Counter()
        for url in failed:
            self._links.requeue(url, added)
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
            self._leases.rouse(host)
        self._leases.offer(host)
        return True

    async def rouse(self, session: int) -> None:
        self._check_session(session)
        for host in self._tables.hosts.values():
            self._leases.rouse(host)

    async def set_paused(self, paused: bool) -> None:
        self._check_open()
        self._paused = paused

    async def paused(self) -> bool:
        self._check_open()
        return self._paused

"""Who holds which host: claims in their order, clocks, and the URLs a holder is given."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from storage.columns import CLOCKS_APART_S, COPIES_PER_LEASE, WAIT_S_MAX, rooms
from storage.memory.rows import Host
from storage.memory.tables import Tables
from storage.store import HostUpdate, Lease, Prefetch, Prefetched, Queued, UrlState
from storage.timekeeper import Timekeeper


class Leases:
    """All hosts, by who holds them and when the free ones may be claimed."""

    def __init__(self, tables: Tables, time: Timekeeper) -> None:
        self._tables = tables
        self._time = time
        self._served = 0
        # Free hosts with something queued, by when they can move. An entry whose stamp is not its
        # host's is out of date and skipped.
        self._order: list[tuple[float, int, int, int, Host]] = []
        self._stamp = 0

    def void(self) -> None:
        """Those of the session before: its hosts are free, and not clean."""
        for host in self._tables.hosts.values():
            if host.lease is not None:
                host.lease = None
                self.offer(host)

    def offer(self, host: Host) -> None:
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

    def claim(self, session: int, *, hosts: int, urls_per_host: int) -> list[Lease]:
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
            want = Prefetch(slot=host.name, count=urls_per_host)
            leases.append(self._lease(session, host, want))
            if len(leases) >= hosts:
                break
        for entry in left:
            heapq.heappush(self._order, entry)
        return leases

    def acquire(self, session: int, slots: Sequence[str]) -> dict[str, Lease]:
        found = {slot: self._tables.host(slot, self._time.now_s()) for slot in slots}
        return {
            slot: self._lease(session, host, None)
            for slot, host in found.items()
            if host.lease is None
        }

    def next_claim_at(self) -> float | None:
        """When the next free host with queued URLs can move, in the store's own time."""
        claimable_at, looked = math.inf, []
        for entry in self._offered():
            looked.append(entry)
            if entry[0] >= claimable_at:
                break
            ready_at = entry[4].ready_at()
            claimable_at = min(claimable_at, math.inf if ready_at is None else ready_at)
        for entry in looked:
            heapq.heappush(self._order, entry)
        return None if claimable_at == math.inf else claimable_at

    def _lease(self, session: int, host: Host, want: Prefetch | None) -> Lease:
        clean = host.clean
        self._served += 1
        host.lease, host.clean, host.served = session, False, self._served
        host.epoch += 1
        self.offer(host)
        origins = sorted(host.origins, key=lambda one: not one.counts[UrlState.QUEUED])
        return Lease(
            slot=host.name,
            epoch=host.epoch,
            clean=clean,
            clock=host.clock_now(self._time.now_s()),
            paused=host.paused,
            slow_s=host.slow_s,
            visited=host.count(UrlState.VISITED),
            body_bytes=sum(origin.body_bytes for origin in host.origins),
            robots={o.name: o.robots for o in islice(origins, COPIES_PER_LEASE) if o.robots},
            robots_all=len(origins) <= COPIES_PER_LEASE,
            prefetched=Prefetched(urls=(), next_due_in_s=None)
            if want is None
            else self.deal(host, want),
        )

    def held(self, session: int, update: HostUpdate) -> Host | None:
        host = self._tables.hosts.get(update.slot)
        if host is None or host.lease != session or host.epoch != update.epoch:
            return None
        return host

    def update(self, host: Host, update: HostUpdate) -> None:
        now_s, clock = self._time.now_s(), update.clock
        if clock.delay_s > WAIT_S_MAX:
            clock = replace(clock, delay_s=WAIT_S_MAX)
        host.clock = clock
        if clock.rested_s is not None:
            host.ended_at = now_s - clock.rested_s
        host.next_at = now_s + min(max(0.0, clock.next_in_s), WAIT_S_MAX)
        backoff_in_s = min(clock.backoff_in_s, WAIT_S_MAX)
        host.backoff_until = now_s + backoff_in_s if backoff_in_s > 0 else None
        host.ring.extend(update.contacts)
        if update.release:
            host.lease, host.clean = None, True
            self.offer(host)

    def deal(self, host: Host, want: Prefetch, ended: Collection[int] = ()) -> Prefetched:
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
            return Prefetched(urls=hand, next_due_in_s=0.0, next_revisit_in_s=revisit_in_s)
        waits = [
            due_at
            for origin in (origins if want.queued else ())
            for due_at, url_id in islice(origin.waits, len(held) + 1)
            if url_id not in held
        ]
        return Prefetched(
            urls=hand,
            next_due_in_s=min(waits) - now_s if waits else None,
            next_revisit_in_s=revisit_in_s,
        )

    def rouse(self, host: Host) -> None:
        """A free host that rests from its last contact alone, and could be reckoned anew."""
        if (
            host.lease is None
            and host.ended_at is not None
            and host.next_at > max(self._time.now_s(), host.ended_at)
            and host.next_at <= host.ended_at + host.clock.delay_s + CLOCKS_APART_S
            and len(host.origins) <= COPIES_PER_LEASE
        ):
            host.next_at = host.ended_at
            self.offer(host)

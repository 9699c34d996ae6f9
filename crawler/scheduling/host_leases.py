"""The hosts a crawl leases: claimed and released, within a bound whatever the size of the crawl."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from crawler.config import Config
from crawler.frontier.host_queue import PREFETCH, HostQueue
from crawler.frontier.pace import NEVER
from crawler.frontier.reasons import READY, Reason, limit_reached
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.scheduling.fair_share import CHANGING_HANDS_S, FairShare, OtherWorkers
from policies.holds import FaultOwner
from policies.scope import ScopeRules, Skip
from storage.store import HostClock, HostUpdate

HOSTS_LEASED_MAX = 4_096  # hosts in memory; all others are in the store
WAITING_NOTED = 1_000  # hosts that have had their pages; a summary shows a hundred
CLAIM_HOSTS = 256  # leased in one transaction
FULL_KEPT_MAX = 50_000  # hosts that have had their pages: half a kilobyte each
FULL_AGAIN_S = 3_600.0  # when those beyond it are looked at again
RELEASE_WAIT_S = 10.0  # when there is no room: hosts that wait longer make room for others
ROOM_SHARE = 0.05  # of the time, at most, is spent on looking for them
# Of a session of callers whose store is shared: hosts not used for this long are released, because
# other workers may want them.
UNUSED_S = 5.0
# Of a worker that shares its crawl:
CLAIM_FIRST = 8  # hosts claimed by one that has none; then as many as it has, if there are
ELSEWHERE_MAX = (
    10_000  # hosts that other workers lease, of which it is known when they were asked for
)
POLLED = 32  # hosts asked for URLs that others found, in one look
SHARED_REST_S = 5.0  # hosts that rest longer are not shared out: others could not use them soon


class _PutAway(NamedTuple):
    update: HostUpdate
    limit: Skip


class HostLeases:
    """Leases hosts from the store for the frontier, and releases them. runs_forever: the crawl does
    not end by itself.

    The store has all that is known of a released host. A session of callers on a store in memory
    is the exception: there a host is deleted when it is released to make room, to bound the memory
    of programs that run long. So it stays until its delay is over, and its robots.txt is fetched
    again first.
    """

    def __init__(
        self,
        crawl: CrawlContext,
        committer: Committer,
        others: OtherWorkers,
        *,
        runs_forever: bool,
    ) -> None:
        self._crawl = crawl
        self._frontier = crawl.frontier
        self._permits = crawl.frontier.permits
        self._buffer = crawl.frontier.buffer
        self._committer = committer
        self._others = others
        self._runs_forever = runs_forever
        self._callers_only = crawl.frontier.faults is FaultOwner.CALLER
        self._elsewhere: dict[
            str, float
        ] = {}  # leased by other workers: when to ask for them again
        self.fair = FairShare(others, crawl.clock.monotonic())
        # Until then, hosts are left to workers with fewer: counted from when none was unclaimed.
        self._held_back_s = NEVER
        self._polled = 0
        self.full_until_s = NEVER  # there is no room, and none is looked for before
        self.leasing = (
            asyncio.Lock()
        )  # what the store leases is registered before more is asked for
        self._full: dict[
            str, _PutAway
        ] = {}  # leased to the end of the run, but no longer in memory
        # Hosts that still have URLs at the end -> until (Unix seconds, or None), and why.
        self.waiting: dict[str, tuple[float | None, Reason]] = {}

    @property
    def room(self) -> int:
        """How many more hosts may be leased."""
        return HOSTS_LEASED_MAX - len(self._permits)

    @property
    def _portion(self) -> int:
        """How many hosts to claim next: of a shared crawl, not all that there are."""
        if not self._others.shared or self.room <= 0:
            return min(CLAIM_HOSTS, self.room)
        now_s, portion = self._crawl.clock.monotonic(), max(CLAIM_FIRST, len(self._permits))
        if self._others.sharing:
            own = self.sharing
            missing = self.fair.share(own, now_s) - own
            if missing > 0:
                portion = missing
            elif now_s < self._held_back_s and not self.fair.settled(own, now_s):
                return 0  # what has just been released is for those with fewer
        return min(CLAIM_HOSTS, self.room, portion)

    @property
    def sharing(self) -> int:
        """How many hosts have URLs for it to request: what workers divide among them."""
        return sum(map(_is_shared, self._permits))

    # ------------------------------------------------------------ leasing

    def is_leaving(self, slot: str) -> bool:
        """Return whether `lease` has to wait for a commit."""
        return slot in self._full or self._buffer.releasing(slot)

    async def lease(self, slot: str) -> HostQueue | None:
        """Return the host of a slot, leased if need be; None while another worker has it, which
        is looked up every ELSEWHERE_AGAIN_S at most."""
        if (host := self._permits.hosts.get(slot)) is not None:
            return host
        if (away := self._full.pop(slot, None)) is not None:
            self._buffer.return_lease(away.update)
            await self._committer.flush()
        elif self._buffer.releasing(slot):
            await self._committer.flush()
        async with self.leasing:
            if (host := self._permits.hosts.get(slot)) is not None:  # another task was faster
                return host
            now_s = self._crawl.clock.monotonic()
            if self._elsewhere.get(slot, NEVER) > now_s:
                return None
            losses = self._frontier.losses
            lease = (await self._crawl.store.acquire(self._crawl.session, [slot])).get(slot)
            if lease is None:
                if len(self._elsewhere) >= ELSEWHERE_MAX:
                    self._elsewhere.clear()
                self._elsewhere[slot] = now_s + ELSEWHERE_AGAIN_S
                return None
            self._elsewhere.pop(slot, None)
            if losses != self._frontier.losses:
                self._frontier.return_leases([lease])
                return None
            host = self._frontier.host_leased(lease)
        self._frontier.want(host)  # it was leased without URLs, but may have some
        return host

    async def lease_for_caller(self, slot: str) -> HostQueue | None:
        """Return the host as `lease` does, after making room for it."""
        if self.room <= 0 and (released := self._release_spare()) and self._callers_only:
            await self._committer.flush()
            for host in released:
                await self._crawl.store.forget(host.slot)
        return await self.lease(slot)

    async def claim(self) -> None:
        """Lease hosts that have URLs, as far as there is room."""
        frontier = self._frontier
        while (
            frontier.claimable
            and not frontier.stopping
            and self._permits.pages_open
            and not self._permits.stops.frozen
        ):
            room = self._portion
            if room <= 0:
                if self.room > 0 or not self.make_room():
                    return
                await self._committer.flush()
                continue
            frontier.claimable = False
            async with self.leasing:
                losses = frontier.losses
                leases = await self._crawl.store.claim(
                    self._crawl.session,
                    hosts=room,
                    urls_per_host=PREFETCH,
                    referrers=self._crawl.page_queue is not None,
                )
                if losses != frontier.losses:
                    frontier.return_leases(leases)
                    leases = ()
                for lease in leases:
                    if self._permits.hosts.get(lease.slot) is None:
                        frontier.host_leased(lease)
            frontier.claimable = frontier.claimable or len(leases) == room
            if self._others.shared:
                return  # others claim as well; the next portion follows

    def lost(self) -> None:
        """All leases were lost, also those of hosts that were put away."""
        for slot in self._full:
            self.waiting.pop(slot, None)
        self._full.clear()

    # ------------------------------------------------------------ releasing

    def release(self, host: HostQueue, *, put_off_s: float | None = None) -> None:
        """Release with the next commit. put_off_s: there is nothing to do at it before, if the
        caller knows."""
        if put_off_s is None and not self._callers_only:
            put_off_s = self._frontier.waiting.only_closed(host)
        self._frontier.drop(host)
        self._buffer.release(host, put_off_s=NEVER if put_off_s is None else put_off_s)

    def make_room(self) -> bool:
        """Release hosts that do nothing, or that wait long, those first that callers used least
        recently; True if any were. False without a look at them if the last one, which looks at
        every host in memory, was a short while ago."""
        return bool(self._release_spare())

    def _release_spare(self) -> list[HostQueue]:
        now_s = self._crawl.clock.monotonic()
        if now_s < self.full_until_s:
            return []
        spares = (host for host in self._permits if self._is_spare(host, now_s))
        spare = list(itertools.islice(spares, CLAIM_HOSTS))
        took_s = self._crawl.clock.monotonic() - now_s
        self.full_until_s = now_s + took_s / ROOM_SHARE
        for host in spare:
            if not host.full:
                self.release(host)
            elif not self.keeps_full:
                self.put_away(host)  # a new lease would lead to the same result
            else:  # hosts put away are nobody's to take up
                self.release(host, put_off_s=now_s + FULL_AGAIN_S)
        return spare

    def _is_spare(self, host: HostQueue, now_s: float) -> bool:
        """Whether it does nothing, or waits long."""
        if not self._may_leave(host):
            return False
        if self._callers_only:
            return self._delay_is_over(host)
        move = self._frontier.waiting.next_move(host)
        if move is None:
            return not host.in_memory  # else its last outcome is being committed
        return move.at_s is None or move.at_s > now_s + RELEASE_WAIT_S

    def share(self, *, unclaimed: bool) -> None:
        """Share out the hosts of a worker in a shared crawl: release hosts with nothing to do,
        whose new URLs others may find; ask for URLs of hosts that wait for something else; and
        release those beyond its share, unless some are unclaimed."""
        idle: list[HostQueue] = []
        waiting: list[HostQueue] = []
        for host in self._permits:
            if not (host.prefetched or host.full or host.in_memory) and self._may_leave(host):
                has_work = self._frontier.waiting.has_work(host)
                (waiting if has_work else idle).append(host)
        for host in idle:
            self.release(host)
        self._poll(waiting)
        now_s = self._crawl.clock.monotonic()
        if unclaimed:
            return
        self._held_back_s = now_s + CHANGING_HANDS_S
        if self._others.sharing and (count := self.fair.surplus(self.sharing, now_s)) > 0:
            self._share_out(count)

    def _poll(self, waiting: Sequence[HostQueue]) -> None:
        """Some of these at a time: others may have found URLs of them."""
        for host in waiting[self._polled : self._polled + POLLED]:
            self._frontier.want(host)
        self._polled = self._polled + POLLED if self._polled + POLLED < len(waiting) else 0

    def _share_out(self, count: int) -> None:
        """Release so many hosts with no work under way: first those that rest, which lose no time,
        and those last leased."""
        rests_s = {
            host: self._frontier.waiting.why(host)[0]
            for host in reversed(list(self._permits))
            if _is_shared(host) and self._may_leave(host)
        }
        spare = [host for host, rest_s in rests_s.items() if rest_s <= SHARED_REST_S]
        spare.sort(key=lambda host: rests_s[host] == 0.0)
        for host in spare[: min(count, CLAIM_HOSTS)]:
            self.release(host)

    def release_unused(self) -> None:
        """Release hosts that no caller has used lately, in a session of callers whose store is
        shared."""
        before_s = self._crawl.clock.monotonic() - UNUSED_S
        unused = list(itertools.takewhile(lambda host: host.used_s <= before_s, self._permits))
        for host in unused:
            if self._may_leave(host) and self._delay_is_over(host):
                self.release(host)

    def _delay_is_over(self, host: HostQueue) -> bool:
        """Whether it may be contacted now: its delay and the waits for its origins are over."""
        now_s = self._crawl.clock.monotonic()
        return self._frontier.waiting.why(host)[1] is READY and all(
            lost.until_s <= now_s for lost in host.out_of_reach.values()
        )

    def _may_leave(self, host: HostQueue) -> bool:
        """Whether no work is under way at the host."""
        if host.busy or host.unread or host.tickets or host.wanting or host.callers:
            return False
        if self.is_judged(host):
            return False
        # Else its page would be given twice.
        queue = self._crawl.page_queue
        return queue is None or host.slot not in queue.waiting

    def is_judged(self, host: HostQueue) -> bool:
        """Return whether one of its robots.txt is being fetched, or its pages are being judged
        again."""
        return any(origin.in_use or origin.pinned for origin in self._frontier.robots.of(host))

    async def release_all(self) -> None:
        """Release every host; returns when that is committed."""
        for host in list(self._permits):
            if not host.busy:  # as after a crash, its next worker waits the full delay first
                self.release(host)
        await self._committer.flush()
        for n, away in enumerate(list(self._full.values()), 1):
            self._buffer.return_lease(away.update)
            if n % CLAIM_HOSTS == 0:
                await self._committer.flush()
        await self._committer.flush()

    # ------------------------------------------------------------ full hosts

    @property
    def keeps_full(self) -> bool:
        """Whether full hosts may have more work: pages are revisited, and in a crawl that runs
        forever a robots.txt may arrive late or change."""
        return self._runs_forever or self._crawl.config.config.revisits

    def put_away(self, host: HostQueue) -> None:
        """Put away a full host: keep only its lease, so that no worker claims it."""
        if host.full is None or host.gone or host.tickets or host.callers or self.is_judged(host):
            return
        self._frontier.drop(host)
        update = host.update(self._crawl.clock.monotonic())
        host.contacts_new += update.contacts  # for the commit of its last outcome
        self._buffer.touch(host)
        self._full[host.slot] = _PutAway(structs.replace(update, contacts=()), host.full)
        if len(self._full) > FULL_KEPT_MAX:
            longest = self._full.pop(next(iter(self._full))).update
            again = structs.replace(longest.clock, next_in_s=FULL_AGAIN_S, rested_s=None)
            self._buffer.return_lease(structs.replace(longest, clock=again))
        if len(self.waiting) < WAITING_NOTED:
            self.waiting[host.slot] = (None, limit_reached(host.full))

    def put_away_for(self, slot: str) -> Skip | None:
        """The limit for which a host was put away; None if it was not."""
        away = self._full.get(slot)
        return None if away is None else away.limit

    def clock_away(self, slot: str) -> HostClock | None:
        """The clock of a host when it was put away; None if it was not."""
        away = self._full.get(slot)
        return None if away is None else away.update.clock

    def bring_back(self, before: Config, config: Config) -> None:
        """Bring back full hosts whose limits a config change has changed."""
        revisits_begin = config.revisits and not before.revisits

        def changes(slot: str) -> bool:
            limits = _limits(before.site(slot).scope), _limits(config.site(slot).scope)
            return revisits_begin or limits[0] != limits[1]

        for slot in [slot for slot in self._full if changes(slot)]:
            self._buffer.return_lease(self._full.pop(slot).update)
            self.waiting.pop(slot, None)
        for host in self._permits:
            if host.full and changes(host.slot):
                host.full = None
                self._frontier.want(host)


def _limits(rules: ScopeRules) -> tuple[float, float]:
    return rules.max_pages_per_host, rules.max_bytes_per_host


def _is_shared(host: HostQueue) -> bool:
    return bool(host.in_memory) and not (host.full or host.closed or host.paused)

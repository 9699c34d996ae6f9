"""The hosts a crawl holds: leased and given back, within a bound whatever the frontier's size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.engine.course import Course
from crawler.engine.rejudge import Rejudge
from crawler.politeness.ending import Ending, limit_reached
from crawler.politeness.gate import Gate
from crawler.politeness.host import PREFETCH, Host
from crawler.politeness.pace import NEVER
from crawler.politeness.turns import Turns
from crawler.visiting.handover import Handover
from crawler.visiting.ledger import Ledger
from policies.robots_policy import Closed
from policies.scope import Skip
from storage.store import HostUpdate, Lease, Prefetched, Store

HOSTS_HELD_MAX = 4_096  # hosts in memory; all others are on disk (law 7)
WAITING_NOTED = 1_000  # hosts that have had their pages; a summary shows a hundred
CLAIM_HOSTS = 256  # leased in one transaction
REVISIT = "its next page is due again"  # names a timer
DUE = "its next URL falls due"  # names a timer; the others are named by their origins
FULL_KEPT_MAX = 50_000  # hosts that have had their pages: half a kilobyte each
FULL_AGAIN_S = 3_600.0  # when those beyond it are looked at again
# Of large robots.txt in memory, in each dialect: read, hostile ones take up to 20 times that.
ROBOTS_BYTES_MAX = 16_777_216
TURN_S = 5.0  # when a host with a large robots.txt that had to leave may be back
RELEASE_WAIT_S = 10.0  # when there is no room: hosts that wait longer make place for others


class _PutAway(NamedTuple):
    update: HostUpdate
    limit: Skip


class Holdings:
    """Leases hosts from the store, seats them at `Turns` and the gate, and gives them back."""

    def __init__(
        self,
        effective: CurrentConfig,
        *,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        turns: Turns,
        gate: Gate,
        ledger: Ledger,
        rejudge: Rejudge,
        ending: Ending,
        handover: Handover | None,
        forever: bool = False,
    ) -> None:
        self._effective = effective
        self._forever = forever
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._turns = turns
        self._gate = gate
        self._ledger = ledger
        self._rejudge = rejudge
        self._ending = ending
        self._handover = handover
        self.leasing = asyncio.Lock()  # what the store leases is held before more is asked for
        self._full: dict[str, _PutAway] = {}  # leased to the end of the run, but no longer held

    @property
    def room(self) -> int:
        """How many hosts more may be held."""
        return HOSTS_HELD_MAX - len(self._turns)

    async def hold(self, slot: str) -> Host | None:
        """The held host of a slot, leased if need be; None while another worker holds it."""
        if (host := self._turns.get(slot)) is not None:
            return host
        if (away := self._full.pop(slot, None)) is not None:
            self._ledger.give_back(away.update)
            await self._ledger.flush()
        elif self._ledger.releasing(slot):
            await self._ledger.flush()
        async with self.leasing:
            if (host := self._turns.get(slot)) is not None:  # another task was faster
                return host
            lease = (await self._store.acquire(self._session, [slot])).get(slot)
            if lease is None:
                return None
            host = self._take_on(lease)
        if not self._course.stopping:
            self._ledger.want(host)  # it was leased with empty hands, but may have URLs
        return host

    def _take_on(self, lease: Lease) -> Host:
        politeness = self._effective.config.site(lease.slot).politeness
        host = Host(lease, politeness, now_s=self._clock.monotonic())
        self._gate.adopt(host, dict(lease.robots))
        for origin in self._gate.origins_of(host):
            if isinstance(origin.standing, Closed):
                host.closed.add(origin.name)
        self.plan_due(host, lease.prefetched)
        self._turns.hold(host)
        if not host.hand and lease.prefetched.next_due_in_s is not None:
            self._ledger.want(host)
        return host

    def _plan_revisit(self, host: Host, in_s: float | None) -> None:
        """Wake the host when the next of its pages is due again. That is no reason to go on: a
        crawl may end before."""
        host.set_timer(REVISIT, None)
        if in_s is not None:

            def due() -> None:
                if not host.gone and not host.hand:
                    self._ledger.want(host)

            host.set_timer(REVISIT, self._clock.call_at(self._clock.monotonic() + in_s, due))

    def release(self, host: Host, *, put_off_s: float | None = None) -> None:
        """`put_off_s`: there is nothing to do at it until then, as who calls knows."""
        if put_off_s is None:
            put_off_s = self._ending.only_closed(host)
        host.empty_hand()
        self._turns.drop(host)
        self._gate.forget(host)
        self._ledger.release(host, put_off_s=NEVER if put_off_s is None else put_off_s)

    def put_away(self, host: Host) -> None:
        """It has had its pages: the lease is kept, so that nobody claims it, and nothing else."""
        if host.full is None or host.gone or host.waiters or self.is_judged(host):
            return
        host.empty_hand()
        self._turns.drop(host)
        self._gate.forget(host)
        update = host.update(self._clock.monotonic())
        host.contacts_new += update.contacts  # for the commit of its last outcome
        self._ledger.touch(host)
        self._full[host.slot] = _PutAway(structs.replace(update, contacts=()), host.full)
        if len(self._full) > FULL_KEPT_MAX:
            longest = self._full.pop(next(iter(self._full))).update
            again = structs.replace(longest.clock, next_in_s=FULL_AGAIN_S, rested_s=None)
            self._ledger.give_back(structs.replace(longest, clock=again))
        if len(self._course.waiting) < WAITING_NOTED:
            self._course.waiting[host.slot] = (None, limit_reached(host.full))

    @property
    def keeps_full(self) -> bool:
        """Is there more to come where a host has had its pages? They are visited again; and while a
        crawl lives on, a robots.txt may come late, or change (law 4)."""
        return self._forever or self._effective.config.revisits

    def put_away_for(self, slot: str) -> Skip | None:
        """The limit for which a host was put away; None if it was not."""
        away = self._full.get(slot)
        return None if away is None else away.limit

    def bring_back(self, slots: Callable[[str], bool]) -> None:
        """Those that have had their pages, by another limit, may have more now."""
        for slot in [slot for slot in self._full if slots(slot)]:
            self._ledger.give_back(self._full.pop(slot).update)
            self._course.waiting.pop(slot, None)
        for host in self._turns:
            if host.full and slots(host.slot):
                host.full = None
                self._ledger.want(host)

    async def release_all(self) -> None:
        """Give every host back; returns when that is committed."""
        for host in list(self._turns):
            self.release(host)
        await self._ledger.flush()
        for n, away in enumerate(list(self._full.values()), 1):
            self._ledger.give_back(away.update)
            if n % CLAIM_HOSTS == 0:
                await self._ledger.flush()
        await self._ledger.flush()

    async def claim(self) -> None:
        """Fill the bench from the store, as far as there is room."""
        self.give_back_large()
        while (
            self._course.may_claim
            and not self._course.stopping
            and self._turns.pages_open
            and not self._turns.frozen
        ):
            room = min(CLAIM_HOSTS, self.room)
            if room <= 0:
                if not self.make_room():
                    return
                await self._ledger.flush()
                continue
            self._course.may_claim = False
            async with self.leasing:
                leases = await self._store.claim(self._session, hosts=room, urls_per_host=PREFETCH)
                for lease in leases:
                    if self._turns.get(lease.slot) is None:
                        self._take_on(lease)
                        self.give_back_large()
            self._course.may_claim = self._course.may_claim or len(leases) == room

    def give_back_large(self) -> None:
        """If large robots.txt take too much memory, hosts with one take turns (law 7)."""
        if self._gate.large_bytes <= ROBOTS_BYTES_MAX:
            return
        # Within the patience of the crawl, which ends when nothing can be done for that long.
        turn_s = min(TURN_S, self._effective.config.crawl.patience_s / 2)
        again_s = self._clock.monotonic() + turn_s
        for host in self._gate.with_large():
            if self._may_leave(host):
                self.release(host, put_off_s=again_s)
                if self._gate.large_bytes <= ROBOTS_BYTES_MAX:
                    return

    def make_room(self) -> bool:
        """Give back hosts that do nothing, or that wait long; True if any were."""
        now_s = self._clock.monotonic()
        spare: list[Host] = []
        for host in self._turns:
            if not self._may_leave(host):
                continue
            move = self._ending.next_move(host, asked=self._course.asked)
            if move is None:
                if host.held:
                    continue  # its last outcome is being committed
                spare.append(host)
            elif move.at_s is None or move.at_s > now_s + RELEASE_WAIT_S:
                spare.append(host)
            if len(spare) == CLAIM_HOSTS:
                break
        for host in spare:
            if not host.full:
                self.release(host)
            elif not self.keeps_full:
                self.put_away(host)  # who leases it again finds out the same
            else:  # hosts put away are nobody's to take up
                self.release(host, put_off_s=now_s + FULL_AGAIN_S)
        return bool(spare)

    def _may_leave(self, host: Host) -> bool:
        """Is nothing under way at it?"""
        if host.busy or host.unread or host.waiters or host.wanting or self.is_judged(host):
            return False
        # Else its page would be given twice.
        return self._handover is None or host.slot not in self._handover.waiting

    def is_judged(self, host: Host) -> bool:
        """Is one of its robots.txt being asked for, or its pages being judged again?"""
        return any(
            origin.in_use or self._rejudge.runs(origin.name)
            for origin in self._gate.origins_of(host)
        )

    def plan_due(self, host: Host, hand: Prefetched) -> None:
        """Wake the host when its next URL falls due (a retry), if it has nothing else by then."""
        host.next_due_s = None
        host.set_timer(DUE, None)
        self._plan_revisit(host, hand.next_revisit_in_s)
        if hand.next_due_in_s:
            at_s = self._clock.monotonic() + hand.next_due_in_s
            host.next_due_s = at_s

            def due() -> None:
                if host.next_due_s == at_s and not host.gone and not host.hand:
                    host.next_due_s = None
                    self._ledger.want(host)

            host.set_timer(DUE, self._clock.call_at(at_s, due))

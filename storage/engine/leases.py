"""Leases of hosts, their clocks, and the URLs that are prefetched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from policies.robots_state import RobotsState
from storage.columns import CONTACTS_KEPT
from storage.engine.counters import CounterChanges
from storage.engine.name_ids import NameIds
from storage.engine.recrawl_plans import RecrawlPlans
from storage.engine.robots_copies import COPY_BYTES_MAX, read_copy
from storage.engine.statements import Statements, Values
from storage.records import (
    WAIT_INSTEAD_S,
    WAIT_S_MAX,
    Contact,
    Glance,
    HostClock,
    HostUpdate,
    Lease,
    Prefetch,
    Prefetched,
)
from storage.row_values import whole
from storage.timekeeper import Moment, Stamp
from storage.url_records import Queued

COPIES_PER_LEASE = 64  # robots.txt copies given with a lease
ORIGINS_AT_ONCE = 256  # of one host, read for one `Prefetch`: some 3 ms
HOSTS_AT_ADDRESS = 1_000  # whose delays are looked at, the longest first
PROMOTED_AT_ONCE = 2_000  # URLs of a host whose retry is due, in one transaction

_NUMBER_MAX = 1e11  # more seconds than any time has


class PrefetchShares(NamedTuple):
    """The numbers of queued URLs, and of visited ones that are due again, to prefetch."""

    queued: int
    due: int


def prefetch_shares(count: int, *, queued: int, due: int) -> PrefetchShares:
    """Share out `count`: queued URLs first, but a quarter for visited ones, so that a site that
    grows without end is revisited too."""
    count = max(0, count)
    again = min(due, max(count // 4, count - queued))
    return PrefetchShares(min(queued, count - again), again)


class LeasedHost(Struct):
    """A host that this session leases."""

    id: int
    epoch: int
    ring: int  # contacts ever written to its ring
    after: int = 0  # the origin after which prefetching continues, if there are very many


class _LeaseRow(Struct, frozen=True, array_like=True):
    """A row of the statement `leases`."""

    id: int
    ring: int
    session: int | None  # that leases it
    stamp: Stamp
    origins: int
    stored: Lease  # with the clock as of the stamp

    def lease(self, at: Moment, **more: Any) -> Lease:
        """The lease, with its clock now and further fields. Only time that is proven to have passed
        since the stamp counts."""
        clock, slow_s = self.stored.clock, self.stored.slow_s
        passed_s = at.passed_s(self.stamp)
        clock = structs.replace(
            clock,
            next_in_s=_wait_s(clock.next_in_s - passed_s),
            rested_s=None if clock.rested_s is None else clock.rested_s + passed_s,
            delay_s=min(clock.delay_s, WAIT_S_MAX),
            backoff_in_s=_wait_s(clock.backoff_in_s - passed_s),
        )
        slow_s = None if slow_s is None else min(slow_s, WAIT_S_MAX)
        return structs.replace(self.stored, clock=clock, slow_s=slow_s, **more)


class _AddressRow(Struct, frozen=True, array_like=True):
    """A row of the statement `address_delays`."""

    delay_s: float
    rested_s: float | None  # as of the stamp
    clean: bool
    stamp: Stamp

    def delay_left_s(self, at: Moment) -> float:
        """Return for how many seconds the address must not be contacted yet for this host."""
        if not self.clean:
            return self.delay_s
        if self.rested_s is None:
            return 0.0  # it was never contacted
        return max(0.0, self.delay_s - self.rested_s - at.passed_s(self.stamp))


_Offer = tuple[float, int, int, int, Queued]  # a URL, behind its place among others
_PrefetchShape = list[tuple[int, int, str, list[tuple[int, Queued]], float | None]]


class Leases:
    """The leased hosts, and everything written about them. For the store's thread only."""

    def __init__(self, sql: Statements, names: NameIds, plans: RecrawlPlans) -> None:
        self._sql = sql
        self._names = names
        self._plans = plans
        self._session = 0
        self._leased: dict[str, LeasedHost] = {}
        self._tick = 0

    def start(self, session: int) -> None:
        """Void the leases of earlier sessions; their hosts stay not clean."""
        self._session = session
        self._leased.clear()
        if self._sql.shared:
            return  # those of sessions that have ended are voided when that is certain
        leased = self._sql.read(list[int], "leased")
        self._sql.run("void_leases")
        self.settle(leased)

    def lose(self) -> None:
        """Forget all leases: other sessions have taken the hosts."""
        self._leased.clear()

    def resume(self, session: int) -> None:
        """Read the leases of this session again."""
        self._session = session
        leased = self._sql.read(list[tuple[int, str, int, int]], "held", session)
        self._leased = {name: LeasedHost(key, epoch, ring) for key, name, epoch, ring in leased}

    def tick(self, now_s: float) -> int:
        """Return a number that grows with every call, across sessions too."""
        self._tick = max(self._tick + 1, int(now_s * 1e6))
        return self._tick

    def retry_numbers(self, count: int, now_s: float) -> list[int]:
        """Return ascending numbers, greater than all that were returned before."""
        if not self._sql.shared:
            return [self.tick(now_s) for _ in range(count)]
        return self._sql.read(list[int], "next_turns", count) if count else []

    def leased(self, update: HostUpdate) -> LeasedHost | None:
        leased = self._leased.get(update.slot)
        return None if leased is None or leased.epoch != update.epoch else leased

    def lock(self, updates: Sequence[HostUpdate]) -> None:
        """Keep other sessions away from the hosts of a commit until it ends, and find out which
        hosts this session has lost."""
        if not self._sql.shared:
            return
        leased = {update.slot: self._leased.get(update.slot) for update in updates}
        rows: list[Values] = [(host.id, host.epoch) for host in leased.values() if host is not None]
        still = set(self._sql.read_many(list[int], "lock_held", rows, self._session))
        for slot, host in leased.items():
            if host is not None and host.id not in still:
                del self._leased[slot]

    def settle(self, slots: Iterable[int]) -> None:
        """Compute when these hosts become ready."""
        self._sql.many("settle_slots", [(key, False) for key in slots])

    # ------------------------------------------------------------ leases

    def glance(self, slot: str, at: Moment) -> Glance | None:
        """Return what is stored of a host; None if it is unknown. Writes nothing."""
        found = self._sql.read_many(list[tuple[str, int]], "slot_ids", [(slot,)])
        if not found:
            return None
        keys: list[Values] = [(key,) for _, key in found]
        for row in self._sql.read_many(list[_LeaseRow], "leases", keys, 1):
            if row.session is None:
                lease = row.lease(at)
                return Glance(clock=lease.clock, paused=lease.paused, slow_s=lease.slow_s)
        return Glance(clock=None)

    def address_delay_s(self, address: str, at: Moment) -> float:
        """Return for how many seconds an address must not be contacted yet, after the contacts
        with its hosts. Only time that is proven to have passed counts, and none after a contact
        that may have been broken off."""
        rows = self._sql.read(list[_AddressRow], "address_delays", address, HOSTS_AT_ADDRESS)
        delays = [row.delay_left_s(at) for row in rows]
        if len(rows) == HOSTS_AT_ADDRESS:
            delays.append(min(row.delay_s for row in rows))  # none of the others asks for more
        return max(delays, default=0.0)

    def acquire(self, slots: Sequence[str], at: Moment) -> dict[str, Lease]:
        ids = self._names.slots(slots, at.now_s)
        free = [ids[name] for name in dict.fromkeys(slots) if name not in self._leased]
        return {lease.slot: lease for lease in self.lease(free, None, at)}

    def lease(
        self, ids: Sequence[int], urls: int | None, at: Moment, *, referrers: bool = False
    ) -> list[Lease]:
        if not ids or self._sql.settling:
            return []
        if self._sql.shared and self._sql.row("live_session", self._session) is None:
            return []  # it was ended, and will learn so
        keys: list[Values] = [(key,) for key in ids]
        most = COPIES_PER_LEASE + 1  # origins counted: one more shows that there are more
        rows = self._sql.read_many(list[_LeaseRow], "leases", keys, most)
        place = {key: n for n, key in enumerate(ids)}
        rows.sort(key=lambda row: place[row.id])  # they were locked in the order of their ids
        self._sql.many("lease", [(row.id, self.tick(at.now_s)) for row in rows], self._session)
        self._names.forget_bodies()
        for row in rows:
            self._leased[row.stored.slot] = LeasedHost(row.id, row.stored.epoch, row.ring)
        prefetched: Mapping[str, Prefetched] = {}
        if urls is not None:
            slots = [row.stored.slot for row in rows]
            wants = [Prefetch(slot=slot, count=urls, referrers=referrers) for slot in slots]
            prefetched = self.prefetch(wants, at.now_s)
        copies, large = self._copies([(row.id,) for row in rows if row.origins])
        return [
            row.lease(
                at,
                robots=copies.get(row.id, {}),
                robots_large=large.get(row.id, {}),
                prefetched=prefetched.get(row.stored.slot, row.stored.prefetched),
                robots_all=row.origins <= COPIES_PER_LEASE,
            )
            for row in rows
        ]

    def _copies(
        self, keys: Sequence[Values]
    ) -> tuple[dict[int, dict[str, RobotsState]], dict[int, dict[str, int]]]:
        """Return the copies of hosts by origin, and the sizes of those that are large instead."""
        copies: dict[int, dict[str, RobotsState]] = {}
        large: dict[int, dict[str, int]] = {}
        most, size_max = COPIES_PER_LEASE, COPY_BYTES_MAX
        rows = self._sql.rows_many("copies_of_slots", keys, most, most, size_max, size_max)
        for slot, origin, size, *row in rows:
            if size is not None:
                large.setdefault(whole(slot), {})[str(origin)] = whole(size)
            else:
                copies.setdefault(whole(slot), {})[str(origin)] = read_copy(row)
        return copies, large

    # ------------------------------------------------------------ clocks

    def recheck_delays(self, slot: str | None, now_s: float) -> None:
        most = COPIES_PER_LEASE + 1
        if slot is None:
            rows = self._sql.rows("recheck_delays", now_s, most)
        else:
            rows = self._sql.rows("recheck_delay_of", now_s, most, slot)
        self.settle([int(row[0] or 0) for row in rows])

    def write_clocks(
        self,
        updates: Sequence[tuple[LeasedHost, HostUpdate]],
        at: Moment,
        tally: CounterChanges | None = None,
    ) -> None:
        """Write the clocks, contacts and counters of leased hosts, and release some of them."""
        now_s = at.latest_s
        clocks: dict[int, Values] = {}
        tally = tally or CounterChanges()
        contacts: list[Values] = []
        released = []
        for leased, update in updates:
            clock = update.clock
            new = update.contacts[-CONTACTS_KEPT:]
            leased.ring += len(update.contacts)
            contacts += [
                (
                    leased.id, (leased.ring - len(new) + n) % CONTACTS_KEPT, *_times(c),
                    c.kind, c.status,
                )
                for n, c in enumerate(new)
            ]  # fmt: skip
            stored = _stored(clock)
            clocks[leased.id] = (
                leased.id, now_s + stored.next_in_s,
                now_s + stored.backoff_in_s if stored.backoff_in_s > 0 else None, leased.ring,
                None if stored.rested_s is None else now_s - stored.rested_s,
                *structs.astuple(stored), *tally.of_slot(leased.id),
            )  # fmt: skip
            if update.release:
                released.append(leased.id)
                del self._leased[update.slot]
        # A server draws the stamp by itself.
        stamp = () if self._sql.shared else (self._session,)
        self._sql.many("wind_slots", list(clocks.values()), *at.stamp, *stamp)
        self._sql.many("put_contacts", contacts)
        self._sql.many("settle_slots", [(key, True) for key in released])

    # ------------------------------------------------------------ prefetching

    def prefetch(
        self, wants: Sequence[Prefetch], now_s: float, *, ended: Collection[int] = ()
    ) -> dict[str, Prefetched]:
        """Return the best due URLs of leased hosts. The ids in `ended` no longer count as held."""
        slots = {leased.id: want for want in wants if (leased := self._leased.get(want.slot))}
        if not slots:
            return {}
        keys: list[Values] = [(key,) for key in slots]
        self._sql.many("promote", keys, now_s, PROMOTED_AT_ONCE)
        in_memory = set(chain.from_iterable(want.in_memory for want in wants)).difference(ended)
        most = max(want.count for want in wants) + 1  # one more shows whether there are more
        referrers = any(want.referrers for want in wants)
        taken = msgspec.json.encode(list(in_memory)).decode()
        offers: dict[int, list[_Offer]] = {}
        waits: dict[int, list[float]] = {}
        # Of a host with very many origins, some at a time, starting after those of the last time.
        start = {k: self._leased[want.slot].after for k, want in slots.items() if want.queued}
        asking = dict(start)
        wrapped: set[int] = set()
        while asking:
            seen: dict[int, list[int]] = {}
            for slot, origin_id, origin, urls, due_in_s in self._sql.read_many(
                _PrefetchShape,
                "prefetch",
                list(asking.items()),
                referrers,
                taken,
                most,
                now_s,
                ORIGINS_AT_ONCE,
            ):
                seen.setdefault(slot, []).append(origin_id)
                if origin in slots[slot].closed or (slot in wrapped and origin_id > start[slot]):
                    continue
                offers.setdefault(slot, []).extend(
                    [(-one.priority, turn, one.depth, one.id, one) for turn, one in urls]
                )
                if due_in_s is not None:
                    waits.setdefault(slot, []).append(due_in_s)
            further = {}
            for slot in asking:
                more = len(seen.get(slot, ())) == ORIGINS_AT_ONCE
                last = max(seen[slot]) if more else 0
                self._leased[slots[slot].slot].after = last
                if len(offers.get(slot, ())) > slots[slot].count:
                    continue
                if more and not (slot in wrapped and last >= start[slot]):
                    further[slot] = last
                elif not more and start[slot] and slot not in wrapped:
                    wrapped.add(slot)
                    further[slot] = 0
            asking = further
        again = self._plans.again(slots, taken, now_s)
        prefetched = {}
        for slot, want in slots.items():
            offered = sorted(offers.get(slot, []))
            due, next_revisit_in_s = again.get(slot, ([], None))
            shares = prefetch_shares(want.count, queued=len(offered), due=len(due))
            next_due_in_s: float | None = None
            if len(offered) > shares.queued:
                next_due_in_s = 0.0
            elif slot in waits:
                next_due_in_s = max(0.0, min(waits[slot]))
            prefetched[want.slot] = Prefetched(
                urls=[queued for *_, queued in offered[: shares.queued]] + due[: shares.due],
                next_due_in_s=next_due_in_s,
                next_revisit_in_s=0.0 if len(due) > shares.due else next_revisit_in_s,
            )
        return prefetched


def _stored(clock: HostClock) -> HostClock:
    """Return a clock with bounded numbers, which JSON can return."""
    waits_s = (clock.next_in_s, clock.delay_s, clock.backoff_in_s, clock.address_delay_s or 0.0)
    others_s = (clock.rested_s or 0.0, clock.latency_s or 0.0, clock.smallest_rest_s or 0.0)
    if min(waits_s) >= 0.0 and abs(sum(waits_s) + sum(map(abs, others_s))) <= WAIT_S_MAX:
        return clock  # as almost all are, and not a number is in none
    return structs.replace(
        clock,
        next_in_s=_wait_s(clock.next_in_s),
        rested_s=_bounded(clock.rested_s),
        delay_s=_wait_s(clock.delay_s),
        latency_s=_bounded(clock.latency_s),
        backoff_in_s=min(clock.backoff_in_s, WAIT_S_MAX) if clock.backoff_in_s > 0 else 0.0,
        smallest_rest_s=_bounded(clock.smallest_rest_s),
        address_delay_s=None if clock.address_delay_s is None else _wait_s(clock.address_delay_s),
    )


def _times(contact: Contact) -> tuple[float | None, float | None]:
    start_at, end_at = contact.start_at, contact.end_at
    if 0.0 <= start_at <= end_at <= _NUMBER_MAX:
        return start_at, end_at
    return _bounded(start_at), _bounded(end_at)


def _wait_s(asked_s: float) -> float:
    """Bound a wait for storing; what is not a number must not shorten it."""
    if asked_s != asked_s:
        return WAIT_INSTEAD_S
    return min(max(0.0, asked_s), WAIT_S_MAX)


def _bounded(value: float | None) -> float | None:
    """Bound a number for storing: JSON could not return an infinity."""
    if value is None or value != value:
        return None
    return min(max(-_NUMBER_MAX, value), _NUMBER_MAX)

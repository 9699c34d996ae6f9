"""The one writer of a store: its caches, and the verbs that run inside its transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

import msgspec

from storage.engine.chains import Chains
from storage.engine.counters import CounterChanges, Totals
from storage.engine.crawl_sessions import CrawlSessions
from storage.engine.in_flight import NOTHING_LEFT, LeftInFlight
from storage.engine.leases import Leases
from storage.engine.link_notes import LinkNotes
from storage.engine.link_table import LinkTable
from storage.engine.name_ids import NameIds
from storage.engine.outcomes import Outcomes, pointed_to
from storage.engine.recrawl_plans import RecrawlPlans
from storage.engine.robots_copies import RobotsCopies
from storage.engine.statements import AloneNeeded, Statements
from storage.engine.url_changes import UrlChanges, UrlRow, url_rows
from storage.records import (
    WAIT_S_MAX,
    Batch,
    Completed,
    Glance,
    HostUpdate,
    Lease,
    Order,
    Outlook,
)
from storage.timekeeper import Moment
from storage.url_records import (
    Link,
    Moved,
    Outcome,
    SitemapRead,
    Unplanned,
    UrlState,
    Visited,
)

Committed = tuple[Completed, bool]  # the bool: `settle_chains` has more to do


class Writer:
    """Verbs of a store as plain functions, and the caches of the one writer. Further verbs, in
    `commits`, `robots_work` and `operator_work`, are functions of it.

    For the store's thread only. `at` is the time of the transaction that is running.
    """

    at: Moment

    def __init__(self, sql: Statements, *, queries_per_path_max: float) -> None:
        self.sql = sql
        self.session = 0
        self._generation = sql.generation
        self.names = NameIds(self.sql)
        self.links = LinkTable(self.sql, self.names, queries_per_path_max=queries_per_path_max)
        self.plans = RecrawlPlans(self.sql)
        self.leases = Leases(self.sql, self.names, self.plans)
        self.copies = RobotsCopies(self.sql, self.names)
        self.totals = Totals(self.sql)
        self.notes = LinkNotes(self.sql, self.names, self.links, self.plans)
        self.chains = Chains(self.sql)
        self.outcomes = Outcomes(
            sql=self.sql,
            names=self.names,
            links=self.links,
            leases=self.leases,
            copies=self.copies,
            chains=self.chains,
            plans=self.plans,
        )
        self.sessions = CrawlSessions(self.sql, self.names, self.copies)

    # ------------------------------------------------------------ sessions

    def last_time(self) -> tuple[float, float, float | None] | None:
        return self.sessions.last_time(self.at)

    def start(self, name: str, left: LeftInFlight = NOTHING_LEFT) -> int:
        """Begin a session. `left`: what was in flight when the process of an earlier one died."""
        session = self.session = self.sessions.next_number(self.at)
        self.sql.ids.start()
        tally = CounterChanges()
        # Another session may have begun since; with one writer, that has dealt with it.
        if self.sql.shared or left.session == session - 1:
            self.sessions.suspect(left, tally, self.at)
        self.finish(tally, {})
        self.leases.start(session)
        self.sessions.begin(session, name, self.at)
        return session

    def resume(self, session: int) -> None:
        """Continue a session with empty caches, after a transaction that was undone."""
        self.session = session
        self.sql.ids.start()
        self.sessions.resume()
        self.leases.resume(session)

    def forget_if(self, generation: int) -> None:
        """Empty the caches if other sessions have changed what they contain."""
        if generation != self._generation:
            self._generation = generation
            self.names.forget()
            self.links.forget_known()

    def name_session(self, session: int, name: str) -> None:
        self.sql.run("name_session", name, session)

    def end(self, session: int) -> None:
        self.sql.run("end_session", self.at.wall_s, session)

    # ------------------------------------------------------------ other sessions

    def reap(self, session: int, beat: int) -> bool:
        """End a session that was not renewed since this beat; False if it was after all."""
        return self.sql.run("reap", session, beat) == 1

    def void_some(self, session: int, *, limit: int) -> int:
        """Free up to `limit` hosts of a session that has ended; return how many."""
        slots = self.sql.read(list[int], "void_some", session, limit)
        self.leases.settle(slots)
        return len(slots)

    def revive(self, session: int) -> None:
        """Continue a session that was ended, and leases nothing any more."""
        self.leases.lose()
        self.sql.run("revive", session)

    def publish(self, session: int, order: Order) -> None:
        """Send an order to all other live workers, who receive it with their next pulses."""
        if self.sql.shared:
            body = msgspec.json.encode(order.body).decode()
            self.sql.run("publish", self.session, order.verb, body)

    def newest_order(self) -> int:
        """The number of the latest order that any session has published; 0 before the first."""
        (number,) = self.sql.row("newest_order") or (0,)
        assert isinstance(number, int)
        return number

    # ------------------------------------------------------------ links and outcomes

    def add(self, links: Sequence[Link], *, revive: bool, referrer: int | None) -> Completed:
        tally, skipped = CounterChanges(), Counter[str]()
        self.insert(links, tally, skipped, referrer)
        if revive:
            known = self.links.known([link.url for link in links])
            changes = UrlChanges(self.sql, self.names, tally)
            for row in url_rows(self.sql, known.values()).values():
                if row.state == UrlState.FAILED:
                    changes.requeued(row)
            changes.write()
        self.finish(tally, skipped)
        return Completed(stale=frozenset(), added=tally.added, prefetched={})

    def insert(
        self,
        links: Sequence[Link],
        tally: CounterChanges,
        skipped: Counter[str],
        referrer: int | None = None,
    ) -> None:
        self.links.insert([(referrer, links)], (), tally, skipped, self.at.now_s)
        self.notes.note(links, tally, self.at)

    def link(self, outcomes: Sequence[Outcome], hosts: Sequence[HostUpdate]) -> Mapping[str, int]:
        """Insert the links of outcomes; return how many URLs were queued, by slot. A host that is
        no longer leased may have lost its pages, too: the links of these are kept without them.

        Where there are other sessions, this is a transaction of its own before `complete`: links
        lead to hosts of other sessions, whose rows must not be locked as long as a commit takes.
        """
        leased = {update.slot for update in hosts if self.leases.leased(update) is not None}
        ours = [outcome for outcome in outcomes if outcome.slot in leased]
        tally, skipped = CounterChanges(), Counter[str]()
        self._insert_links(ours, ours, tally, skipped)
        for one in outcomes:
            if one.slot not in leased and isinstance(one, Visited | SitemapRead):
                self.insert(one.links, tally, skipped)
        self.finish(tally, skipped)
        return tally.added

    def _insert_links(
        self,
        linking: Sequence[Outcome],
        pointing: Sequence[Outcome],
        tally: CounterChanges,
        skipped: Counter[str],
    ) -> Mapping[str, int]:
        """Insert the links of `linking`; return the ids of the URLs that `pointing` refer to."""
        answers = [one for one in linking if isinstance(one, Visited | SitemapRead)]
        targets = [
            (url, one.id) for one in pointing if isinstance(one, Visited) for url in pointed_to(one)
        ]
        links = [(one.id, one.links) for one in answers]
        ids = self.links.insert(links, targets, tally, skipped, self.at.now_s)
        noted = [
            link
            for one in answers
            for link in one.links
            if link.sitemap or link.again_before is not None or link.listing is not None
        ]
        self.notes.note(noted, tally, self.at)
        return ids

    def complete(self, batch: Batch) -> Committed:
        now_s = self.at.now_s
        if not self.sql.alone and any(isinstance(one, Moved) for one in batch.outcomes):
            raise AloneNeeded
        self.leases.lock(batch.hosts)
        leased = {update.slot: self.leases.leased(update) for update in batch.hosts}
        stale = {slot for slot, lease in leased.items() if lease is None}
        stale.update(outcome.slot for outcome in batch.outcomes if outcome.slot not in leased)
        outcomes = [outcome for outcome in batch.outcomes if outcome.slot not in stale]
        tally, skipped = CounterChanges(), Counter(batch.skipped)
        linking = () if self.sql.shared else batch.outcomes
        ids = self._insert_links(linking, outcomes, tally, skipped)
        moves = self.outcomes.apply(outcomes, ids, tally, skipped, self.at)
        writing = [(lease, update) for update in batch.hosts if (lease := leased[update.slot])]
        # A host's counters are written with its clock, unless an origin moves: what it takes along
        # to another host is subtracted from counters that must be right by then.
        together = not moves
        written = {lease.id for lease, _ in writing} if together else set[int]()
        moved = self.finish(tally, skipped, moves, but=written)
        self.leases.write_clocks(writing, self.at, tally if together else None)
        self.leases.settle(moved)
        prefetched = self.leases.prefetch(
            [want for want in batch.prefetch if leased.get(want.slot) is not None],
            now_s,
            ended={outcome.id for outcome in outcomes},
        )
        done = Completed(stale=frozenset(stale), added=tally.added, prefetched=prefetched)
        return done, self.chains.left

    def settle_chains(self) -> tuple[Mapping[str, int], bool]:
        """Have some more redirects follow the URLs they lead to; return how many URLs were queued
        again by slot, and whether more redirects remain."""
        tally = CounterChanges()
        self.chains.proceed(UrlChanges(self.sql, self.names, tally), self.at.wall_s)
        self.finish(tally, {})
        return tally.added, self.chains.left

    def finish(
        self,
        tally: CounterChanges,
        skipped: Mapping[str, int],
        moves: Mapping[int, tuple[UrlRow, str]] | None = None,
        *,
        but: Container[int] = (),
    ) -> list[int]:
        """Write counters and skips, except the counters of the hosts in `but`, and move origins;
        return the hosts between which they moved."""
        tally.write(self.sql, but=but)
        self.links.lower_depths()
        session = (self.session,) if self.sql.shared else ()  # counted by session
        self.sql.many("add_to_skips", list(skipped.items()), *session)
        moved = []
        if moves:
            moved = self.outcomes.move_origins(moves, tally, self.at)
        if self.sql.shared and (moves or self.links.forgot):
            self.sql.run("change_names")
            self.links.forgot = False
        new_hosts, self.names.new_slots = self.names.new_slots, 0
        self.totals.add(tally, new_hosts, self.session)
        return moved

    # ------------------------------------------------------------ leases

    def claim(
        self, session: int, *, hosts: int, urls_per_host: int, referrers: bool = False
    ) -> Sequence[Lease]:
        """Lease up to `hosts` free hosts that may be contacted now and have queued URLs due, with
        up to `urls_per_host` URLs each. The host that became ready first is first; of equal ones,
        the one that was leased longest ago. Paused hosts are left out. referrers: as in
        Prefetch."""
        if hosts <= 0:
            return []
        ids = self.sql.read(list[int], "claimable", self.at.now_s, hosts)
        return self.leases.lease(ids, urls_per_host, self.at, referrers=referrers)

    def acquire(self, slots: Sequence[str]) -> Mapping[str, Lease]:
        leases = self.leases.acquire(slots, self.at)
        self.finish(CounterChanges(), {})
        return leases

    def glance(self, session: int, slot: str) -> Glance | None:
        """Return what is stored of a host, without leasing it; None if it is unknown, as it then
        remains."""
        return self.leases.glance(slot, self.at)

    def address_delay_s(self, address: str) -> float:
        """Return for how many seconds an IP address must not be contacted yet, after contacts with
        hosts there, of this session and earlier ones; see `HostClock.address`."""
        return self.leases.address_delay_s(address, self.at)

    def outlook(self, session: int) -> Outlook:
        """Return when work of hosts that are not leased falls due."""
        now_s = self.at.now_s
        robots_in_s, robots_delay_s = self.copies.next_due(now_s)
        row = self.sql.row("next_claim")
        claimable_in_s = None
        if row is not None and row[0] is not None:
            claimable_in_s = min(max(0.0, float(row[0]) - now_s), WAIT_S_MAX)
        return Outlook(
            claimable_in_s=claimable_in_s,
            robots_in_s=robots_in_s,
            robots_delay_s=robots_delay_s,
            revisit_in_s=self.plans.next_in_s(now_s),
        )

    def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        """Return slots of free hosts that may be contacted now and have visited URLs due again,
        the longest due first. Lease them with `acquire`, and prefetch with `revisits`."""
        return [str(name) for (name,) in self.sql.rows("revisits_due", self.at.now_s, limit)]

    def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        """Return the visited URLs without a plan among the `limit` ids above `after`, and the
        `after` of the next call (None at the end). They were visited while recrawling was off."""
        return self.plans.unplanned(after, limit)

    def forget(self, slot: str) -> None:
        """Delete a free host to which no URL belongs, with its robots.txt copies."""
        row = self.sql.row("unused_slot", slot)
        if row is not None:
            self.copies.drop(_whole(row[0]))
            for name in ("drop_contacts", "drop_origins", "drop_slot"):
                self.sql.run(name, row[0])
            self.names.forget_origins()
            self.totals.add(CounterChanges(), -1, self.session)


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0

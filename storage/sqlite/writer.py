"""The verbs of a store, as they run inside its transactions."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Container, Mapping, Sequence

import msgspec
from msgspec import Struct

from policies.robots_state import RobotsState
from storage.records import WAIT_S_MAX
from storage.sqlite.chains import Chains
from storage.sqlite.counters import FAILED, QUEUED, CounterChanges, Totals
from storage.sqlite.crawl_sessions import CrawlSessions
from storage.sqlite.in_flight import NOTHING_LEFT, LeftInFlight
from storage.sqlite.leases import Leases
from storage.sqlite.link_notes import LinkNotes
from storage.sqlite.link_table import LinkTable, some_seeds
from storage.sqlite.name_ids import NameIds
from storage.sqlite.outcomes import Outcomes, pointed_to
from storage.sqlite.recrawl_plans import RecrawlPlans
from storage.sqlite.robots_copies import RobotsCopies
from storage.sqlite.statements import Statements
from storage.sqlite.url_changes import UrlChanges, UrlRow, url_rows
from storage.store import (
    Batch,
    Blocked,
    Completed,
    HostUpdate,
    Judged,
    Lease,
    Link,
    Outlook,
    Plan,
    RobotsDue,
    SitemapRead,
    Stats,
    Unplanned,
    UrlState,
    Visited,
)
from storage.timekeeper import Moment

Committed = tuple[Completed, bool]  # the bool: `settle_chains` has more to do


class HostFailure(Struct, frozen=True, kw_only=True):
    """Why URLs of a host fail, as `Store.fail_host` is given it. `origin`: those of that origin
    alone."""

    error: str
    attempts: int
    last_at: float  # Unix seconds
    origin: str | None


class Writer:
    """The verbs of a store as plain functions, and the caches of the one writer.

    For the store's thread only. `at` is the time of the transaction that is running.
    """

    at: Moment

    def __init__(self, db: sqlite3.Connection, *, queries_per_path_max: float) -> None:
        self.sql = Statements(db)
        self._names = NameIds(self.sql)
        self._links = LinkTable(self.sql, self._names, queries_per_path_max=queries_per_path_max)
        self._plans = RecrawlPlans(self.sql)
        self._leases = Leases(self.sql, self._names, self._plans)
        self._copies = RobotsCopies(self.sql, self._names)
        self._totals = Totals(self.sql)
        self._notes = LinkNotes(self.sql, self._names, self._links, self._plans)
        self._chains = Chains(self.sql)
        self._outcomes = Outcomes(
            sql=self.sql,
            names=self._names,
            links=self._links,
            leases=self._leases,
            copies=self._copies,
            chains=self._chains,
            plans=self._plans,
        )
        self.sessions = CrawlSessions(self.sql, self._names, self._copies)

    # ------------------------------------------------------------ sessions

    def last_time(self) -> tuple[float, float, float | None] | None:
        return self.sessions.last_time(self.at)

    def start(self, name: str, left: LeftInFlight = NOTHING_LEFT) -> int:
        """Begin a session. `left`: what was in flight when the process of an earlier one died."""
        session = self.sessions.next_number(self.at)
        self._read_ids()
        tally = CounterChanges()
        if left.session == session - 1:  # else that has been dealt with
            self.sessions.suspect(left, tally, self.at)
        self._finish(tally, {})
        self._leases.start(session)
        self.sessions.begin(session, name, self.at)
        return session

    def resume(self, session: int) -> None:
        """Continue a session with empty caches, after a transaction that was undone."""
        self._read_ids()
        self._leases.resume(session)

    def _read_ids(self) -> None:
        url_id, slot_id, origin_id, text_id = map(_whole, self.sql.row("newest_ids") or ())
        self._links.start(url_id=url_id)
        self._names.start(slot_id=slot_id, origin_id=origin_id, text_id=text_id)

    def name_session(self, session: int, name: str) -> None:
        self.sessions.rename(session, name)

    def end(self, session: int) -> None:
        self.sessions.end(session, self.at)

    # ------------------------------------------------------------ links and outcomes

    def add(self, links: Sequence[Link], *, revive: bool, referrer: int | None) -> Completed:
        tally, skipped = CounterChanges(), Counter[str]()
        self._insert(links, tally, skipped, referrer)
        if revive:
            known = self._links.known([link.url for link in links])
            changes = UrlChanges(self.sql, self._names, tally)
            for row in url_rows(self.sql, known.values()).values():
                if row.state == UrlState.FAILED:
                    changes.requeued(row)
            changes.write()
        self._finish(tally, skipped)
        return Completed(stale=frozenset(), added=tally.added, prefetched={})

    def _insert(
        self,
        links: Sequence[Link],
        tally: CounterChanges,
        skipped: Counter[str],
        referrer: int | None = None,
    ) -> None:
        self._links.insert([(referrer, links)], (), tally, skipped, self.at.now_s)
        self._notes.note(links, tally, self.at)

    def complete(self, session: int, batch: Batch) -> Committed:
        now_s = self.at.now_s
        held = {update.slot: self._leases.held(session, update) for update in batch.hosts}
        stale = {slot for slot, lease in held.items() if lease is None}
        stale.update(outcome.slot for outcome in batch.outcomes if outcome.slot not in held)
        outcomes = [outcome for outcome in batch.outcomes if outcome.slot not in stale]
        answers = [one for one in batch.outcomes if isinstance(one, Visited | SitemapRead)]
        targets = [
            (url, one.id) for one in outcomes if isinstance(one, Visited) for url in pointed_to(one)
        ]
        tally, skipped = CounterChanges(), Counter(batch.skipped)
        links = [(one.id, one.links) for one in answers]
        ids = self._links.insert(links, targets, tally, skipped, now_s)
        noted = [
            link
            for one in answers
            for link in one.links
            if link.sitemap or link.again_before is not None or link.listing is not None
        ]
        self._notes.note(noted, tally, self.at)
        moves = self._outcomes.apply(outcomes, ids, tally, skipped, self.at)
        winding = [(lease, update) for update in batch.hosts if (lease := held[update.slot])]
        # A host's counters are written with its clock, unless an origin moves: what it takes along
        # to another host is subtracted from counters that must be right by then.
        together = not moves
        wound = {lease.id for lease, _ in winding} if together else set[int]()
        moved = self._finish(tally, skipped, moves, but=wound)
        self._leases.wind(winding, now_s, tally if together else None)
        self._leases.settle(moved)
        prefetched = self._leases.prefetch(
            [want for want in batch.prefetch if held.get(want.slot) is not None],
            now_s,
            ended={outcome.id for outcome in outcomes},
        )
        done = Completed(stale=frozenset(stale), added=tally.added, prefetched=prefetched)
        return done, self._chains.left

    def settle_chains(self) -> tuple[Mapping[str, int], bool]:
        """Have some more redirects follow the URLs they lead to; return how many URLs were queued
        again by slot, and whether more redirects remain."""
        tally = CounterChanges()
        self._chains.proceed(UrlChanges(self.sql, self._names, tally), self.at.wall_s)
        self._finish(tally, {})
        return tally.added, self._chains.left

    def _finish(
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
        self.sql.many("add_to_skips", list(skipped.items()))
        moved = self._outcomes.move_origins(moves, tally, self.at) if moves else []
        new_hosts, self._names.new_slots = self._names.new_slots, 0
        self._totals.add(tally, new_hosts)
        return moved

    # ------------------------------------------------------------ leases

    def claim(self, session: int, *, hosts: int, urls_per_host: int) -> Sequence[Lease]:
        return self._leases.claim(hosts=hosts, urls_per_host=urls_per_host, now_s=self.at.now_s)

    def acquire(self, slots: Sequence[str]) -> Mapping[str, Lease]:
        leases = self._leases.acquire(slots, self.at.now_s)
        self._finish(CounterChanges(), {})
        return leases

    def outlook(self, session: int) -> Outlook:
        now_s = self.at.now_s
        robots_in_s, robots_rest_s = self._copies.next_due(self.at.wall_s, now_s)
        row = self.sql.row("next_claim")
        claimable_in_s = None
        if row is not None and row[0] is not None:
            claimable_in_s = min(max(0.0, float(row[0]) - now_s), WAIT_S_MAX)
        return Outlook(
            claimable_in_s=claimable_in_s,
            robots_in_s=robots_in_s,
            robots_rest_s=robots_rest_s,
            revisit_in_s=self._plans.next_in_s(now_s),
        )

    def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        return self._plans.due(self.at.now_s, limit)

    def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        last = _whole((self.sql.row("newest_ids") or (0,))[0])
        found = self._plans.unplanned(after, limit)
        return found, after + limit if after + limit < last else None

    def plan(self, plans: Mapping[int, Plan]) -> None:
        self._plans.plan(plans, self.at.now_s)

    def forget(self, slot: str) -> None:
        """Delete a free host to which no URL belongs, with its robots.txt copies."""
        row = self.sql.row("unused_slot", slot)
        if row is not None:
            self._copies.drop(_whole(row[0]))
            for name in ("drop_contacts", "drop_origins", "drop_slot"):
                self.sql.run(name, row[0])
            self._names.forget_origins()
            self._totals.add(CounterChanges(), -1)

    # ------------------------------------------------------------ robots.txt

    def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: RobotsState | None,
        also: HostUpdate | None,
        *,
        rejudge: bool,
        links: Sequence[Link],
    ) -> Completed:
        if copy is not None:
            self._copies.put(slot, origin, copy, self.at.now_s, rejudge=rejudge)
        tally, skipped = CounterChanges(), Counter[str]()
        if links:
            self._insert(links, tally, skipped)
        self._finish(tally, skipped)
        if also is not None and (held := self._leases.held(session, also)) is not None:
            self._leases.wind([(held, also)], self.at.now_s)
        return Completed(stale=frozenset(), added=tally.added, prefetched={})

    def robots_get(self, origin: str) -> RobotsState | None:
        return self._copies.get(origin)

    def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        return self._copies.due(self.at.wall_s, self.at.now_s, limit)

    def rejudge_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        return self._copies.to_rejudge(limit)

    def rejudge_all(self, session: int) -> None:
        self._copies.rejudge_all(self.at.now_s)

    def rejudge_done(self, session: int, origin: str) -> None:
        self._copies.rejudged(origin)

    def ungoverned(self, origin: str, *, limit: int) -> Sequence[Judged]:
        return self._copies.ungoverned(origin, limit)

    def blocked_by_robots(self, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
        return self._copies.blocked(origin, after, limit)

    def rejudge(
        self, *, kept: Sequence[int], withdrawn: Sequence[Blocked], freed: Sequence[int]
    ) -> Committed:
        tally = CounterChanges()
        self._outcomes.rejudge(kept, withdrawn, freed, tally, self.at)
        self._finish(tally, {})
        done = Completed(stale=frozenset(), added=tally.added, prefetched={})
        return done, self._chains.left

    # ------------------------------------------------------------ commands, and work in bulk

    def fail_some(
        self, session: int, update: HostUpdate, failure: HostFailure, *, limit: int, wind: bool
    ) -> int:
        """Fail up to `limit` queued URLs of a held host and return how many. `wind`: also write
        the host's clock."""
        held = self._leases.held(session, update)
        if held is None:
            return 0
        some = self.sql.read(list[tuple[int, int]], "some_queued", held.id, failure.origin, limit)
        tally = CounterChanges()
        if some:
            text = self._names.texts([failure.error])[failure.error]
            ids = msgspec.json.encode([key for key, _ in some]).decode()
            self.sql.run("drop_some_tries", ids)
            self.sql.run("fail_some", ids, text, failure.attempts, failure.last_at)
            self.sql.run("fail_some_urls", ids)
            for origin_id, count in Counter(origin_id for _, origin_id in some).items():
                tally.count(origin_id, held.id, QUEUED, -count)
                tally.count(origin_id, held.id, FAILED, count)
        self._finish(tally, {})
        if wind:
            self._leases.wind([(held, update)], self.at.now_s)
        return len(some)

    def release_robots(self, host: str | None) -> int:
        """Have quarantined robots.txt fetched again; return how many."""
        hosts = self._copies.release(host, self.at.wall_s, self.at.now_s)
        self._leases.settle(dict.fromkeys(hosts))
        return len(hosts)

    def forgive(self, host: str | None) -> None:
        """Forget the connection failures and backoffs of hosts with failed URLs."""
        slots = self.sql.read(list[int], "failed_slots", host)
        self.sql.many("forgive_slots", [(slot,) for slot in slots], self.at.now_s)

    def retry_some(
        self, host: str | None, code: str | None, *, after: int, limit: int
    ) -> tuple[int, int]:
        """Queue up to `limit` failed URLs with ids above `after` again; return how many, and the
        last id."""
        some = self.sql.read(
            list[tuple[int, int, int, str]], "some_failed", after, host, limit, code
        )
        if not some:
            return 0, after
        tally = CounterChanges()
        ids = msgspec.json.encode([key for key, *_ in some]).decode()
        self.sql.run("retry_some", ids)
        self.sql.run("drop_some_failures", ids)
        places = Counter((origin, slot, name) for _, origin, slot, name in some)
        for (origin, slot, name), count in places.items():
            tally.count(origin, slot, FAILED, -count)
            tally.queued(origin, slot, name, count)
        self._finish(tally, {})
        return len(some), some[-1][0]

    def set_control(
        self,
        slot: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> bool:
        change_slow = slow_s is not None or clear_slow
        known = self.sql.row("control", paused, change_slow, slow_s, slot) is not None
        if change_slow:
            self._leases.rouse(slot, self.at.now_s)
        return known

    def recheck_delays(self, session: int) -> None:
        self._leases.rouse(None, self.at.now_s)

    def set_paused(self, paused: bool) -> None:
        self.sql.run("put_paused", paused)

    def paused(self) -> bool:
        row = self.sql.row("paused")
        return bool(row and row[0])

    # ------------------------------------------------------------ reading

    def seeds(self, after: int) -> list[tuple[int, str]]:
        return some_seeds(self.sql, after)

    def stats(self) -> Stats:
        return self._totals.stats()


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0

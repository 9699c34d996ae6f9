"""What the store does inside its transactions. Runs in the store's thread, one call at a time."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Container, Mapping, Sequence

import msgspec

from policies import quarantine
from policies.retries import FailureCode
from policies.robots_state import UNKNOWN, RobotsState
from policies.url import canonical
from storage.columns import WAIT_S_MAX
from storage.sqlite.chains import Chains
from storage.sqlite.counters import FAILED, QUEUED, Tally, Totals
from storage.sqlite.in_flight import NOTHING_LEFT, Left
from storage.sqlite.leases import Leases
from storage.sqlite.link_notes import Notes
from storage.sqlite.link_table import SUSPECT, Links, some_seeds
from storage.sqlite.name_ids import Names
from storage.sqlite.outcomes import Outcomes, pointed_to
from storage.sqlite.recrawl_schedule import Plans
from storage.sqlite.robots_copies import Copies
from storage.sqlite.statements import Statements
from storage.sqlite.url_changes import Changes, UrlRow, url_rows
from storage.store import (
    SUSPECT_REST_S,
    Batch,
    Blocked,
    Completed,
    Failed,
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

SESSIONS_KEPT = 1_000  # in the diary of who wrote when
# What is beyond these was not written by a store: the file is damaged.
_TIME_S_MAX = 1e11  # three thousand years
_SESSION_MAX = 2**31


class Writer:
    """One writer's caches and counters, and the operations of `Store` as plain calls."""

    def __init__(self, db: sqlite3.Connection, *, queries_per_path_max: float) -> None:
        self.sql = Statements(db)
        self._names = Names(self.sql)
        self._links = Links(self.sql, self._names, queries_per_path_max=queries_per_path_max)
        self._plans = Plans(self.sql)
        self._leases = Leases(self.sql, self._names, self._plans)
        self._copies = Copies(self.sql, self._names)
        self._totals = Totals(self.sql)
        self._notes = Notes(self.sql, self._names, self._links, self._plans)
        self._chains = Chains(self.sql)
        self._outcomes = Outcomes(
            self.sql, self._names, self._links, self._leases, self._copies, self._chains
        )
        self._told: tuple[float, float] = (float("-inf"), 0.0)  # time and shift last written

    # ------------------------------------------------------------ sessions

    def last_time(self, at: Moment) -> tuple[float, float, float | None] | None:
        """The time the last session told last, how far it was ahead of the wall clock, and how long
        ago that was, if the machine knows."""
        row = self.sql.row("crawl")
        if row is None:
            return None
        last_s, shift_s = float(row[1] or 0.0), float(row[2] or 0.0)
        if not (0.0 <= last_s < _TIME_S_MAX and abs(shift_s) < _TIME_S_MAX):
            raise msgspec.ValidationError(f"no time: {last_s}, {shift_s}")
        boot, uptime_s = self.sql.row("uptime") or (None, None)
        passed_s = None
        if at.uptime is not None and boot is not None and uptime_s is not None:
            passed_s = at.uptime.since(str(boot), float(uptime_s))
        return last_s, shift_s, passed_s

    def resume(self, session: int) -> None:
        """Continue a session after a transaction that was undone: what this writer knows is read
        from the database again."""
        self._read_ids()
        self._leases.resume(session)

    def _read_ids(self) -> None:
        url_id, slot_id, origin_id, text_id = map(_whole, self.sql.row("newest_ids") or ())
        self._links.start(url_id=url_id)
        self._names.start(slot_id=slot_id, origin_id=origin_id, text_id=text_id)

    def start(self, name: str, at: Moment, left: Left = NOTHING_LEFT) -> int:
        """`left`: a session whose process died, and what was in flight then."""
        if self.sql.row("crawl") is None:
            self.sql.run("new_crawl", at.now_s)
            self._told = (float("-inf"), 0.0)  # told to nobody yet
        row = self.sql.row("new_session")
        self._read_ids()
        session = _whole(row[0] if row else 0)
        if not 0 < session < _SESSION_MAX:
            raise msgspec.ValidationError(f"no number of a session: {session}")
        if left.session == session - 1:  # else that has been dealt with
            self._suspect(left.urls, at)
            for slot, origin in left.robots:
                self._suspect_robots(slot, origin, at)
        self._leases.start(session)
        self.sql.run("begin_session", session, name, at.wall_s)
        self.sql.run("forget_sessions", session - SESSIONS_KEPT)
        return session

    def _suspect(self, ids: Sequence[int], at: Moment) -> None:
        """Those that were in flight when a process died before are quarantined, the others become
        suspects."""
        tally = Tally()
        changes = Changes(self.sql, self._names, tally)
        suspects = []
        error = str(FailureCode.QUARANTINED) + (
            ": the process died twice while this URL was in flight; `courtly retry quarantined` "
            "queues it again"
        )
        for row in url_rows(self.sql, ids).values():
            if not (row.state in (UrlState.QUEUED, UrlState.VISITED) or row.planned):
                continue
            if row.flags & SUSPECT:
                failure = Failed(
                    id=row.id, slot=row.slot_name or "", error=error, attempts=2, last_at=at.wall_s
                )
                changes.failed(row, failure, self._names.texts([error]))
            else:
                suspects.append(row.id)
        changes.write()
        self._finish(tally, {})
        encoded = msgspec.json.encode(suspects).decode()
        self.sql.run("suspect", encoded, at.now_s + SUSPECT_REST_S)

    def _suspect_robots(self, slot: str, origin: str, at: Moment) -> None:
        if not slot or "/" in origin[8:] or canonical(f"{origin}/") != f"{origin}/":
            return  # the file is damaged
        known = self._copies.get(origin) or UNKNOWN
        died = quarantine.died_with(known, now_s=at.wall_s)
        self._copies.put(slot, origin, died, at.now_s, rejudge=False)

    def rename(self, session: int, name: str) -> None:
        self.sql.run("name_session", name, session)

    def end(self, session: int, at: Moment) -> None:
        self.sql.run("end_session", at.wall_s, session)

    def tell_time(self, at: Moment) -> None:
        """Note the time now and then, so that the next session does not start before it."""
        last_s, shift_s = self._told
        if at.now_s - last_s > 1.0 or at.shift_s != shift_s:
            self._told = (at.now_s, at.shift_s)
            up = at.uptime
            known = (None, None) if up is None else (up.boot, up.uptime_s)
            self.sql.run("put_time", at.now_s, at.shift_s, *known)

    # ------------------------------------------------------------ links and outcomes

    def add(
        self, links: Sequence[Link], *, revive: bool, referrer: int | None, at: Moment
    ) -> Completed:
        tally, skipped = Tally(), Counter[str]()
        self._links.insert([(referrer, links)], (), tally, skipped, at.now_s)
        self._notes.note(links, tally, at)
        if revive:
            known = self._links.known([link.url for link in links])
            changes = Changes(self.sql, self._names, tally)
            for row in url_rows(self.sql, known.values()).values():
                if row.state == UrlState.FAILED:
                    changes.requeued(row)
            changes.write()
        self._finish(tally, skipped)
        return Completed(stale=frozenset(), added=tally.added, prefetched={})

    def complete(self, session: int, batch: Batch, at: Moment) -> Completed:
        held = {update.slot: self._leases.held(session, update) for update in batch.hosts}
        stale = {slot for slot, lease in held.items() if lease is None}
        stale.update(outcome.slot for outcome in batch.outcomes if outcome.slot not in held)
        outcomes = [outcome for outcome in batch.outcomes if outcome.slot not in stale]
        tally, skipped = Tally(), Counter(batch.skipped)
        targets = self._links.insert(
            [
                (one.id, one.links)
                for one in batch.outcomes
                if isinstance(one, Visited | SitemapRead)
            ],
            [
                (url, one.id)
                for one in outcomes
                if isinstance(one, Visited)
                for url in pointed_to(one)
            ],
            tally,
            skipped,
            at.now_s,
        )
        links = [
            link
            for one in batch.outcomes
            if isinstance(one, Visited | SitemapRead)
            for link in one.links
            if link.sitemap or link.again_before is not None or link.listing is not None
        ]
        self._notes.note(links, tally, at)
        moves = self._outcomes.apply(outcomes, targets, tally, skipped, at)
        winding = [(lease, update) for update in batch.hosts if (lease := held[update.slot])]
        # A host's counters are written with its clock, unless they must be right before: what an
        # origin takes along to another host is taken off them.
        together = not moves
        wound = {lease.id for lease, _ in winding} if together else set[int]()
        moved = self._finish(tally, skipped, moves, at, but=wound)
        self._leases.wind(winding, at.now_s, tally if together else None)
        self._leases.settle(moved)
        hands = self._leases.hands(
            [want for want in batch.prefetch if held.get(want.slot) is not None],
            at.now_s,
            ended={outcome.id for outcome in outcomes},
        )
        return Completed(stale=frozenset(stale), added=tally.added, prefetched=hands)

    def _finish(
        self,
        tally: Tally,
        skipped: Mapping[str, int],
        moves: Mapping[int, tuple[UrlRow, str]] | None = None,
        at: Moment | None = None,
        *,
        but: Container[int] = (),
    ) -> list[int]:
        """Write counters and skips, but for the counters of the hosts in `but`; give the hosts
        between which origins moved."""
        tally.write(self.sql, but=but)
        self.sql.many("add_to_skips", list(skipped.items()))
        moved: list[int] = []
        if moves and at is not None:
            shift = Tally()
            slots = self._names.slots((to_slot for _, to_slot in moves.values()), at.now_s)
            for origin, (row, to_slot) in moves.items():
                counts = [_whole(count) for count in self.sql.row("origin_counts", origin) or ()]
                self._names.move_origin(origin, slots[to_slot])
                for what, count in enumerate(counts):
                    shift.count_slot(slots[to_slot], what, count)
                    if row.slot is not None:
                        shift.count_slot(row.slot, what, -count)
                        moved.append(row.slot)
                moved.append(slots[to_slot])
                tally.added[to_slot] = tally.added.get(to_slot, 0) + counts[QUEUED]
            shift.write(self.sql)
            self._plans.moved(moves, moved)
        new_hosts, self._names.new_slots = self._names.new_slots, 0
        self._totals.add(tally, new_hosts)
        return list(dict.fromkeys(moved))

    # ------------------------------------------------------------ leases

    def claim(self, *, hosts: int, urls_per_host: int, at: Moment) -> list[Lease]:
        return self._leases.claim(hosts=hosts, urls_per_host=urls_per_host, now_s=at.now_s)

    def acquire(self, slots: Sequence[str], at: Moment) -> dict[str, Lease]:
        leases = self._leases.acquire(slots, at.now_s)
        self._finish(Tally(), {})
        return leases

    def outlook(self, at: Moment) -> Outlook:
        row = self.sql.row("next_claim")
        robots_in_s, robots_rest_s = self._copies.next_due(at.wall_s, at.now_s)
        claimable_at = None if row is None or row[0] is None else float(row[0])
        return Outlook(
            claimable_in_s=None
            if claimable_at is None
            else min(max(0.0, claimable_at - at.now_s), WAIT_S_MAX),
            robots_in_s=robots_in_s,
            robots_rest_s=robots_rest_s,
            revisit_in_s=self._plans.next_in_s(at.now_s),
        )

    def revisits_due(self, limit: int, at: Moment) -> list[str]:
        return self._plans.due(at.now_s, limit)

    def unplanned(self, after: int, limit: int) -> tuple[list[Unplanned], int | None]:
        last = _whole((self.sql.row("newest_ids") or (0,))[0])
        found = self._plans.unplanned(after, limit)
        return found, after + limit if after + limit < last else None

    def plan(self, plans: Mapping[int, Plan], at: Moment) -> None:
        self._plans.plan(plans, at.now_s)

    # ------------------------------------------------------------ robots

    def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: RobotsState | None,
        also: HostUpdate | None,
        at: Moment,
        *,
        rejudge: bool,
        links: Sequence[Link],
    ) -> Completed:
        if copy is not None:
            self._copies.put(slot, origin, copy, at.now_s, rejudge=rejudge)
        tally, skipped = Tally(), Counter[str]()
        if links:
            self._links.insert([(None, links)], (), tally, skipped, at.now_s)
            self._notes.note(links, tally, at)
        self._finish(tally, skipped)
        if also is not None and (held := self._leases.held(session, also)) is not None:
            self._leases.wind([(held, also)], at.now_s)
        return Completed(stale=frozenset(), added=tally.added, prefetched={})

    def robots_get(self, origin: str) -> RobotsState | None:
        return self._copies.get(origin)

    def robots_due(self, limit: int, at: Moment) -> list[RobotsDue]:
        return self._copies.due(at.wall_s, at.now_s, limit)

    def rejudge_due(self, limit: int) -> list[RobotsDue]:
        return self._copies.to_rejudge(limit)

    def rejudge_all(self, at: Moment) -> None:
        self._copies.rejudge_all(at.now_s)

    def rejudge_done(self, origin: str) -> None:
        self._copies.rejudged(origin)

    def ungoverned(self, origin: str, limit: int) -> list[Judged]:
        return self._copies.ungoverned(origin, limit)

    def blocked_by_robots(self, origin: str, after: int, limit: int) -> list[Judged]:
        return self._copies.blocked(origin, after, limit)

    def rejudge(
        self, *, kept: Sequence[int], withdrawn: Sequence[Blocked], freed: Sequence[int], at: Moment
    ) -> Completed:
        tally = Tally()
        changes = Changes(self.sql, self._names, tally)
        rows = url_rows(self.sql, [*kept, *(block.id for block in withdrawn), *freed])
        for key in kept:
            if (row := rows.get(key)) is not None and row.ungoverned:
                changes.govern(row)
                del rows[key]
        roots: list[int] = []
        for block in withdrawn:
            row = rows.get(block.id)
            if row is not None and row.state == UrlState.VISITED:
                changes.blocked(row, block, withdrawn=True)
                roots.append(row.id)
                del rows[row.id]
        free = {
            key: row for key in freed if (row := rows.get(key)) and row.state == UrlState.BLOCKED
        }
        for row in free.values():
            changes.requeued(row)
        changes.write()
        self._chains.settle([*roots, *free], changes, at.wall_s)
        self._finish(tally, {})
        return Completed(stale=frozenset(), added=tally.added, prefetched={})

    @property
    def chains_left(self) -> bool:
        """Whether redirects wait for `settle_chains`."""
        return self._chains.left

    def settle_chains(self, at: Moment) -> dict[str, int]:
        """Treat some of the redirects left over; give what was queued again, by host."""
        tally = Tally()
        self._chains.proceed(Changes(self.sql, self._names, tally), at.wall_s)
        self._finish(tally, {})
        return tally.added

    # ------------------------------------------------------------ in bulk and by hand

    def fail_some(
        self,
        *,
        session: int,
        update: HostUpdate,
        error: str,
        attempts: int,
        last_at: float,
        origin: str | None,
        limit: int,
        wind: bool,
        at: Moment,
    ) -> int:
        """Fail up to `limit` queued URLs of a held host; give how many. `wind` its clock too."""
        held = self._leases.held(session, update)
        if held is None:
            return 0
        some = self.sql.read(list[tuple[int, int]], "some_queued", held.id, origin, limit)
        tally = Tally()
        if some:
            text = self._names.texts([error])[error]
            ids = msgspec.json.encode([key for key, _ in some]).decode()
            self.sql.run("drop_some_tries", ids)
            self.sql.run("fail_some", ids, text, attempts, last_at)
            self.sql.run("fail_some_urls", ids)
            for origin_id, count in Counter(origin_id for _, origin_id in some).items():
                tally.count(origin_id, held.id, QUEUED, -count)
                tally.count(origin_id, held.id, FAILED, count)
        self._finish(tally, {})
        if wind:
            self._leases.wind([(held, update)], at.now_s)
        return len(some)

    def release_robots(self, host: str | None, at: Moment) -> int:
        """Have quarantined robots.txt fetched again; give how many."""
        hosts = self._copies.release(host, at.wall_s, at.now_s)
        self._leases.settle(dict.fromkeys(hosts))
        return len(hosts)

    def forgive(self, host: str | None, at: Moment) -> None:
        """Forget the connection failures and back-offs of hosts with failed URLs."""
        slots = self.sql.read(list[int], "failed_slots", host)
        self.sql.many("forgive_slots", [(slot,) for slot in slots], at.now_s)

    def retry_some(
        self, host: str | None, code: str | None, after: int, limit: int
    ) -> tuple[int, int]:
        """Queue up to `limit` failed URLs with ids above `after` again; give how many, and the
        last id."""
        some = self.sql.read(
            list[tuple[int, int, int, str]], "some_failed", after, host, limit, code
        )
        if not some:
            return 0, after
        tally = Tally()
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
        self, slot: str, paused: bool | None, slow_s: float | None, at: Moment, *, clear_slow: bool
    ) -> bool:
        change_slow = slow_s is not None or clear_slow
        known = self.sql.row("control", paused, change_slow, slow_s, slot) is not None
        if change_slow:
            self._leases.rouse(slot, at.now_s)
        return known

    def rouse(self, at: Moment) -> None:
        self._leases.rouse(None, at.now_s)

    def set_paused(self, *, paused: bool) -> None:
        self.sql.run("put_paused", paused)

    def paused(self) -> bool:
        row = self.sql.row("paused")
        return bool(row and row[0])

    # ------------------------------------------------------------ what is there

    def seeds(self, after: int) -> list[tuple[int, str]]:
        return some_seeds(self.sql, after)

    def stats(self) -> Stats:
        return self._totals.stats()


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0

"""Applies the outcomes of a commit to their URLs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from storage.engine.chains import Chains
from storage.engine.counters import QUEUED, CounterChanges
from storage.engine.leases import Leases
from storage.engine.link_table import SITEMAP, SUSPECT, LinkTable
from storage.engine.name_ids import NameIds
from storage.engine.recrawl_plans import RecrawlPlans
from storage.engine.robots_copies import RobotsCopies
from storage.engine.statements import Statements
from storage.engine.url_changes import UrlChanges, UrlRow, url_rows
from storage.timekeeper import Moment
from storage.url_records import (
    Blocked,
    Dropped,
    Failed,
    Moved,
    Outcome,
    Retry,
    Revisited,
    SitemapRead,
    UrlState,
    Visited,
)


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """Changes URLs by what became of them. For the store's thread only."""

    sql: Statements
    names: NameIds
    links: LinkTable
    leases: Leases
    copies: RobotsCopies
    chains: Chains
    plans: RecrawlPlans

    def apply(
        self,
        outcomes: Sequence[Outcome],
        targets: Mapping[str, int],
        tally: CounterChanges,
        skipped: Counter[str],
        at: Moment,
    ) -> dict[int, tuple[UrlRow, str]]:
        """Change the URLs; return the origins to be moved to other hosts."""
        if not outcomes:
            return {}
        rows = url_rows(self.sql, [outcome.id for outcome in outcomes])
        texts = self.names.texts(_texts_of(outcomes))
        changes = UrlChanges(self.sql, self.names, tally)
        moves: dict[int, tuple[UrlRow, str]] = {}
        roots: list[int] = []
        redirects: dict[int, int] = {}  # pages, and the URLs they lead to
        dropped: list[int] = []
        ungoverned: list[int] = []  # their origins
        retries = sum(isinstance(outcome, Retry) for outcome in outcomes)
        turns = iter(self.leases.retry_numbers(retries, at.now_s))
        for outcome in outcomes:
            row = rows.get(outcome.id)
            if row is None:
                continue
            if isinstance(outcome, Moved):
                if outcome.to_slot != row.slot_name:
                    moves[row.origin] = (row, outcome.to_slot)
                continue
            if not counts_for(outcome, row.state, planned=bool(row.planned)):
                continue
            del rows[outcome.id]  # a second outcome of one URL comes too late
            match outcome:
                case Visited() if row.flags & SITEMAP:
                    pass  # named as one since it was asked for as a page: it is to be read as one
                case Visited(redirect_url=url):
                    target = None if url is None else targets[url]
                    changes.visited(row, outcome, targets)
                    if outcome.plan is not None:
                        changes.plan(row, outcome.plan, at.now_s)
                    if outcome.ungoverned:
                        ungoverned.append(row.origin)
                    if target is not None:
                        redirects[row.id] = target
                case Revisited(plan=plan):
                    changes.plan(row, plan, at.now_s)
                    if row.flags & SUSPECT and not outcome.deferred:
                        changes.cleared(row)
                case SitemapRead():
                    changes.read(row, outcome, texts, at.now_s)
                case Blocked():
                    withdrawn = row.fetched or row.state == UrlState.VISITED
                    changes.blocked(row, outcome, withdrawn=withdrawn)
                    roots.append(row.id)
                case Failed():
                    changes.failed(row, outcome, texts)
                case Retry():
                    changes.retry(row, outcome, texts, turn=next(turns), now_s=at.now_s)
                case Dropped(reason=reason):
                    changes.dropped(row, texts, reason)
                    dropped.append(row.id)
                    skipped[reason] += 1
        changes.write()
        self.copies.mark_late(ungoverned, at.now_s)
        if dropped:
            names = [(key,) for key in dropped]
            self.links.forget(self.sql.read_many(list[tuple[int, str]], "url_names", names))
        if redirects:
            roots += self.chains.arrived(redirects, changes, at.wall_s)
        if roots:
            self.chains.settle(roots, changes, at.wall_s)
        return moves

    def move_origins(
        self, moves: Mapping[int, tuple[UrlRow, str]], tally: CounterChanges, at: Moment
    ) -> list[int]:
        """Move origins to other hosts; return the hosts between which they moved."""
        moved: list[int] = []
        shift = CounterChanges()
        slots = self.names.slots((to_slot for _, to_slot in moves.values()), at.now_s)
        for origin, (row, to_slot) in moves.items():
            counts = [int(count or 0) for count in self.sql.row("origin_counts", origin) or ()]
            self.names.move_origin(origin, slots[to_slot])
            for what, count in enumerate(counts):
                shift.count_slot(slots[to_slot], what, count)
                if row.slot is not None:
                    shift.count_slot(row.slot, what, -count)
                    moved.append(row.slot)
            moved.append(slots[to_slot])
            tally.added[to_slot] = tally.added.get(to_slot, 0) + counts[QUEUED]
        shift.write(self.sql)
        self.plans.moved(moves, moved)
        return list(dict.fromkeys(moved))

    def rejudge(
        self,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
        tally: CounterChanges,
        at: Moment,
    ) -> None:
        """Apply new verdicts, as `Store.rejudge`."""
        changes = UrlChanges(self.sql, self.names, tally)
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
        self.chains.settle([*roots, *free], changes, at.wall_s)


def pointed_to(page: Visited) -> Iterator[str]:
    """URLs that a page's row or its links refer to, and that need rows of their own."""
    if page.redirect_url is not None:
        yield page.redirect_url
    if page.canonical_url is not None:
        yield page.canonical_url
    for link in page.outlinks:
        yield link.url
    for pointer in page.pointers:
        yield pointer.url


def _texts_of(outcomes: Sequence[Outcome]) -> list[str]:
    """The sentences that are kept once."""
    texts = []
    for outcome in outcomes:
        match outcome:
            case Dropped(reason=text):
                texts.append(text)
            case Failed(error=text) | Retry(error=text) | SitemapRead(error=str(text)):
                texts.append(text)
    return texts


def counts_for(outcome: Outcome, state: int | None, *, planned: bool) -> bool:
    """Return whether an outcome still counts for a URL in this state; see `Store.complete`.
    `planned`: it is a sitemap that was read, and is to be read again."""
    if isinstance(outcome, SitemapRead) and outcome.again:
        return planned
    if isinstance(outcome, Revisited) or (isinstance(outcome, Visited) and outcome.again):
        return state == UrlState.VISITED or (planned and isinstance(outcome, Revisited))
    if state == UrlState.FAILED:  # with its whole host, meanwhile: an answer to it counts
        return isinstance(outcome, Visited | SitemapRead | Blocked | Failed)
    return state == UrlState.QUEUED or (state == UrlState.VISITED and isinstance(outcome, Blocked))

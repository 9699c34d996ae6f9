"""Recrawl plans of visited URLs: when they are due, and what the visit is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from policies.listing import Changefreq, Listing
from storage.engine.link_table import REQUISITE, SEED, SITEMAP, SUSPECT, hops_of, requisite_depth_of
from storage.engine.statements import Statements, Values
from storage.store import Before, Looked, Plan, Prefetch, Queued, Unplanned

ListingShape = tuple[int | None, str | None, float | None]
_AgainShape = list[
    tuple[
        int,
        list[
            tuple[
                int, str, int, float, int, int, str | None, str | None, float, float, float, int,
                int, str | None, str | None, str | None, ListingShape | None, int, str | None,
                str | None, str | None,
            ]
        ],
        float | None,
    ]
]  # fmt: skip
_UnplannedShape = list[tuple[list[tuple[int, str, int, float, ListingShape | None]], int | None]]


def listing_of(row: ListingShape | None) -> Listing | None:
    if row is None:
        return None
    lastmod, changefreq, priority = row
    return Listing(
        lastmod_at=None if lastmod is None else float(lastmod),
        changefreq=None if changefreq is None else Changefreq(changefreq),
        priority=priority,
    )


def plan_row(key: int, slot: int, plan: Plan, now_s: float) -> Values:
    """Return a row for the statement `put_plans`."""
    return (
        key, slot, now_s + max(0.0, plan.due_in_s), plan.interval_s, round(plan.checked_at * 1e3),
        round(plan.changed_at * 1e3), plan.visits, plan.failures, plan.etag, plan.last_modified,
        plan.declared,
    )  # fmt: skip


@dataclass(slots=True)
class RecrawlPlans:
    """For the store's thread only."""

    sql: Statements

    def settle(self, slots: Iterable[int | None]) -> None:
        """Compute when the first URL of these hosts is due."""
        keys: list[Values] = [(slot,) for slot in dict.fromkeys(slots) if slot is not None]
        self.sql.many("settle_revisits", keys)

    def moved(self, origins: Iterable[int], slots: Iterable[int]) -> None:
        """Move the plans of origins that belong to other hosts now."""
        for origin in origins:
            self.sql.run("move_plans", origin)
        self.settle(slots)

    def hasten(self, ids: Sequence[int], now_s: float, wall_s: float) -> None:
        """Make URLs due whose sitemap entry was modified since their last visit, and not in the
        future."""
        rows: list[Values] = [(key,) for key in ids]
        slots = self.sql.read_many(list[int], "changed_since", rows, wall_s, now_s)
        if slots:
            self.sql.many("hasten_plans", rows, now_s, wall_s)
            self.settle(slots)

    def again(
        self, wants: Mapping[int, Prefetch], taken: str, now_s: float
    ) -> dict[int, tuple[list[Queued], float | None]]:
        """Return, by host, the URLs that are due (one more than wanted), and in how many seconds
        the next one is."""
        keys: list[Values] = [(slot,) for slot, want in wants.items() if want.revisits]
        if not keys:
            return {}
        most = max(want.count for want in wants.values()) + 1
        referrers = any(want.referrers for want in wants.values())
        closed = msgspec.json.encode([n for want in wants.values() for n in want.closed]).decode()
        found: dict[int, tuple[list[Queued], float | None]] = {}
        for slot, rows, next_in_s in self.sql.read_many(
            _AgainShape,
            "due_plans",
            keys,
            referrers,
            now_s,
            taken,
            closed,
            most,
            now_s,
            now_s,
            taken,
        ):
            urls = [
                Queued(
                    id=key, url=url, depth=depth, priority=priority, attempts=0, refusals=0,
                    seed=bool(flags & SEED), hops=hops_of(flags),
                    suspect=bool(flags & SUSPECT), sitemap=bool(flags & SITEMAP),
                    requisite=bool(flags & REQUISITE),
                    requisite_depth=requisite_depth_of(flags),
                    listing=listing_of(listing), data=data, referrer=referrer,
                    before=Before(
                        plan=Plan(
                            due_in_s=0.0, interval_s=interval_s, checked_at=checked_at,
                            changed_at=changed_at, visits=visits, failures=failures, etag=etag,
                            last_modified=last_modified, declared=declared,
                        ),
                        status=status, redirect_url=redirect_url, body_hash=body_hash,
                        looked=Looked(looked), content_type=content_type,
                    ),
                )
                for (
                    key, url, depth, priority, flags, status, redirect_url, body_hash, interval_s,
                    checked_at, changed_at, visits, failures, etag, last_modified, declared,
                    listing, looked, data, referrer, content_type,
                ) in rows
            ]  # fmt: skip
            found[slot] = (urls, next_in_s)
        return found

    def due(self, now_s: float, limit: int) -> list[str]:
        """Return hosts that may be contacted now and have a URL that is due."""
        return [str(name) for (name,) in self.sql.rows("revisits_due", now_s, limit)]

    def next_in_s(self, now_s: float) -> float | None:
        best: float | None = None
        for due_at, free_at in self.sql.rows("next_revisit"):
            if best is not None and float(due_at or 0.0) >= best:
                break
            at = max(float(due_at or 0.0), float(free_at or 0.0))
            best = at if best is None else min(best, at)
        return None if best is None else max(0.0, best - now_s)

    def unplanned(self, after: int, limit: int) -> tuple[list[Unplanned], int | None]:
        """Return pages without a plan, and the `after` of the next call."""
        ((rows, last),) = self.sql.read(_UnplannedShape, "unplanned", after, limit)
        found = [
            Unplanned(
                id=key, url=url, status=status, fetched_at=fetched_at, listing=listing_of(listing)
            )
            for key, url, status, fetched_at, listing in rows
        ]
        return found, last

    def plan(self, plans: Mapping[int, Plan], now_s: float) -> None:
        rows: list[Values] = [(key,) for key in plans]
        slots = dict(self.sql.read_many(list[tuple[int, int]], "slots_unplanned", rows))
        new = [plan_row(key, slot, plans[key], now_s) for key, slot in slots.items()]
        self.sql.many("put_plans", new)
        self.settle(slots.values())

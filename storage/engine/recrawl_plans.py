"""Recrawl plans of visited URLs: when they are due, and what the visit is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from storage.engine.statements import Statements, Values
from storage.records import Prefetch
from storage.url_records import Plan, Queued, Unplanned

_UnplannedShape = list[tuple[list[Unplanned], int | None]]


def plan_row(key: int, slot: int, plan: Plan, now_s: float) -> Values:
    """Return a row for the statement `put_plans`."""
    return (
        key, slot, now_s + max(0.0, plan.due_in_s), plan.interval_s, round(plan.checked_at * 1e3),
        round(plan.changed_at * 1e3), plan.visits, plan.failures, plan.etag, plan.last_modified,
        plan.declared,
    )  # fmt: skip


@dataclass(slots=True)
class RecrawlPlans:
    """Reads and writes the recrawl plans of URLs. For the store's thread only."""

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
            list[tuple[int, list[Queued], float | None]],
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
            found[slot] = (rows, next_in_s)
        return found

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
        (found,) = self.sql.read(_UnplannedShape, "unplanned", after, limit)
        return found

    def plan(self, plans: Mapping[int, Plan], now_s: float) -> None:
        rows: list[Values] = [(key,) for key in plans]
        slots = dict(self.sql.read_many(list[tuple[int, int]], "slots_unplanned", rows))
        new = [plan_row(key, slot, plans[key], now_s) for key, slot in slots.items()]
        self.sql.many("put_plans", new)
        self.settle(slots.values())

"""Why a host that is not in memory is not being contacted, from its row in the store."""

from __future__ import annotations

from typing import NamedTuple

from crawler.frontier.reasons import BACKOFF, PAGE_BUDGET, PAUSED, Reason, Wait
from storage.store import Row


class StoredWait(NamedTuple):
    until: float | None  # Unix seconds; None: until an operator acts
    reason: Reason


def stored_wait(row: Row, now_s: float, *, spent: bool = False) -> StoredWait:
    """`row`: of the `hosts` view. `spent`: the run has reached `crawl.max_pages`."""
    if row["paused"]:
        return StoredWait(None, PAUSED)
    backoff, next_at = row["backoff_until"], row["next_at"]
    if isinstance(backoff, int | float) and backoff > now_s:
        return StoredWait(float(backoff), BACKOFF)
    if spent:
        return StoredWait(None, PAGE_BUDGET)
    until = float(next_at) if isinstance(next_at, int | float) else None
    source = f" ({row['delay_source']})" if row["delay_source"] else ""
    return StoredWait(until, Reason(Wait.STORED, f"its turn{source}"))

"""Why a host that is not in memory is not being contacted, from its row in the store."""

from __future__ import annotations

from typing import NamedTuple

from crawler.frontier.reasons import PAUSED, Reason, Wait, run_limit_reached
from storage.store import Row


class StoredWait(NamedTuple):
    until: float | None  # Unix seconds; None: until an operator acts
    reason: Reason


def stored_wait(row: Row, now_s: float, *, limit: str | None = None) -> StoredWait:
    """`row`: of the `hosts` view. `limit`: of the run, if one is reached."""
    if row["paused"]:
        return StoredWait(None, PAUSED)
    backoff, next_at = row["backoff_until"], row["next_at"]
    if isinstance(backoff, int | float) and backoff > now_s:
        status = row["backoff_status"]
        known = status if isinstance(status, int) else None
        return StoredWait(float(backoff), Reason(Wait.BACKOFF, status=known))
    if limit is not None:
        return StoredWait(None, run_limit_reached(limit))
    until = float(next_at) if isinstance(next_at, int | float) else None
    source = f" ({row['delay_source']})" if row["delay_source"] else ""
    return StoredWait(until, Reason(Wait.STORED, f"its turn{source}"))

"""Why a host that no crawl holds is not being contacted: in words, from its row in the store."""

from __future__ import annotations

from typing import NamedTuple

from crawler.politeness.ending import PAUSED, SPENT
from crawler.politeness.pace import BACKING_OFF
from storage.store import Row


class Wait(NamedTuple):
    until: float | None  # Unix seconds; None: until somebody acts
    reason: str


def of_row(row: Row, now_s: float, *, spent: bool = False) -> Wait:
    """By a row of the `hosts` view; `spent`: the run has had its `max_pages`."""
    if row["paused"]:
        return Wait(None, PAUSED)
    backoff, next_at = row["backoff_until"], row["next_at"]
    if isinstance(backoff, int | float) and backoff > now_s:
        return Wait(float(backoff), BACKING_OFF)
    if spent:
        return Wait(None, SPENT)
    until = float(next_at) if isinstance(next_at, int | float) else None
    source = f" ({row['delay_source']})" if row["delay_source"] else ""
    return Wait(until, f"its turn{source}")

"""Why a host that is not in memory is not being contacted, from its row in the store."""

from __future__ import annotations

import enum
from typing import NamedTuple

from crawler.politeness.ending import PAUSED, SPENT
from crawler.politeness.pace import BACKING_OFF
from storage.store import Row


class WaitKind(enum.Enum):
    """What a host waits for."""

    PAUSED = enum.auto()  # an operator
    BACKOFF = enum.auto()
    MAX_PAGES = enum.auto()  # the run has reached `crawl.max_pages`
    DELAY = enum.auto()  # its politeness delay, or a crawl


class StoredWait(NamedTuple):
    """The wait of a host; `until` in Unix seconds, None until an operator acts."""

    until: float | None
    kind: WaitKind
    reason: str


def stored_wait(row: Row, now_s: float, *, spent: bool = False) -> StoredWait:
    """`row`: of the `hosts` view. `spent`: the run has reached `crawl.max_pages`."""
    if row["paused"]:
        return StoredWait(None, WaitKind.PAUSED, PAUSED)
    backoff, next_at = row["backoff_until"], row["next_at"]
    if isinstance(backoff, int | float) and backoff > now_s:
        return StoredWait(float(backoff), WaitKind.BACKOFF, BACKING_OFF)
    if spent:
        return StoredWait(None, WaitKind.MAX_PAGES, SPENT)
    until = float(next_at) if isinstance(next_at, int | float) else None
    source = f" ({row['delay_source']})" if row["delay_source"] else ""
    return StoredWait(until, WaitKind.DELAY, f"its turn{source}")

"""What the queued URLs of a database wait for, summed over its hosts in one statement.

It looks at every host with queued URLs: some 10 ms for 20,000 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from storage.engine.statements import Statements
from storage.read_records import Row, StoredReason

COLUMNS: Final = (
    "host", "reason", "urls", "hosts", "first_at", "last_at", "through_at", "visited_hosts",
    "gone_hosts",
)  # fmt: skip

# A column's time of the store as a time of the wall clock; the later of two times, for all engines.
_SHIFT: Final = "(SELECT shift_s FROM crawl)"
_REASONS: Final = (
    (StoredReason.PAUSED, "paused = 1"),
    (StoredReason.BACKOFF, "backoff_at > :now"),
    (StoredReason.UNREACHABLE, "connect_failures > 0"),
    (StoredReason.DELAY, "next_at > :now"),
    (StoredReason.LATER, "lease IS NULL AND ready_at > :now"),
)
_CASE: Final = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in _REASONS)
# Each host with queued URLs: its reason, and the times it is told by.
_HELD: Final = (
    "SELECT id, name, lease, queued, visited, delay_s, connect_failures, next_at, backoff_at,"  # noqa: S608 - constants
    "  ready_at,"
    f" CASE {_CASE} ELSE '{StoredReason.READY}' END AS reason"
    " FROM (SELECT id, name, lease, queued, visited, delay_s, paused, connect_failures,"
    f"  next_at - {_SHIFT} AS next_at, coalesce(backoff_until - {_SHIFT}, 0.0) AS backoff_at,"
    f"  ready_at - {_SHIFT} AS ready_at FROM slots WHERE queued > 0) AS timed"
)
QUERY: Final = (
    "SELECT host, reason, CAST(sum(queued) AS bigint), count(*), min(until), max(until),"  # noqa: S608 - constants
    " max(CASE WHEN until > :now THEN until ELSE :now END + queued * delay_s),"
    " sum(CASE WHEN visited > 0 THEN 1 ELSE 0 END),"
    " sum(CASE WHEN visited > 0 AND connect_failures > 0 THEN 1 ELSE 0 END)"
    " FROM (SELECT CASE WHEN lease IS NULL THEN '' ELSE name END AS host, reason, queued, visited,"
    "  delay_s, connect_failures,"
    f"  CASE reason WHEN '{StoredReason.BACKOFF}' THEN backoff_at"
    f"  WHEN '{StoredReason.LATER}' THEN ready_at ELSE next_at END AS until"
    f"  FROM ({_HELD}) AS reasons) AS holds"
    " GROUP BY host, reason"
)


def queue_waits(sql: Statements, now_s: float) -> list[Row]:
    """Return what the queued URLs wait for, by reason; their sum is that of all `queued` of the
    hosts, at one moment. now_s: Unix seconds.

    Each row has `reason` (StoredReason), `urls`, `hosts`, `first_at` and `last_at` (Unix
    seconds: when the first and the last of its hosts may be contacted), and `through_at`: when
    the slowest would be done if every URL took one request; `visited_hosts`: how many of the
    hosts have visited URLs; `gone_hosts`: how many of those could not be connected to at
    last. `host` is "", or, for a host that a session holds, its name: that session knows more
    about it.
    """
    found = sql.select(QUERY, {"now": float(now_s)})
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def waiting_ids(reasons: Sequence[StoredReason]) -> str:
    """A query for the ids of the hosts whose rows have one of these reasons, as of `:now`."""
    wanted = ", ".join(f"'{StoredReason(reason)}'" for reason in reasons)
    return f"SELECT id FROM ({_HELD}) AS reasons WHERE reason IN ({wanted})"  # noqa: S608

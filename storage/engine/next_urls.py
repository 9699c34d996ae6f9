"""The next URLs of a host, in the order in which they are leased."""

from __future__ import annotations

from typing import Final

from storage.engine.link_table import SITEMAP
from storage.engine.page_queries import origins_of
from storage.engine.statements import Parameter, Statements
from storage.paging import check_limit, findable
from storage.read_records import Row
from storage.row_values import number

ORIGINS_MAX: Final = 32  # of one host; another order than theirs is rare
COLUMNS: Final = (
    "id", "url", "priority", "depth", "due_at", "attempts", "error", "sitemap", "turn",
)  # fmt: skip
_SHIFT: Final = "(SELECT shift_s FROM crawl)"
_WITH_WORK: Final = (
    "SELECT id FROM origins WHERE id IN :origins AND queued > 0 ORDER BY id LIMIT :most"
)
_DUE: Final = (
    "SELECT u.id FROM urls AS u WHERE u.origin = :origin AND u.state = 0 AND u.due_at IS NULL"
    " ORDER BY u.priority DESC, u.turn, u.depth, u.id LIMIT :limit"
)
_WAITING: Final = (
    "SELECT u.id FROM urls AS u WHERE u.origin = :origin AND u.state = 0 AND u.due_at IS NOT NULL"
    " ORDER BY u.due_at LIMIT :limit"
)
_ROWS: Final = (
    f"SELECT u.id, o.name || u.path, u.priority, u.depth, u.due_at - {_SHIFT},"  # noqa: S608 - constants
    f" coalesce(t.attempts, 0), e.text, u.flags & {SITEMAP}, u.turn"
    " FROM urls AS u JOIN origins AS o ON o.id = u.origin"
    " LEFT JOIN tries AS t ON t.id = u.id LEFT JOIN texts AS e ON e.id = t.error"
    " WHERE u.id IN :ids AND u.state = 0"
)


def next_urls(sql: Statements, host: str, *, limit: int = 20, now_s: float) -> list[Row]:
    """Implement `Reader.next_urls`. Raises ValueError for an invalid limit."""
    check_limit(limit)
    among: dict[str, Parameter] = {"origins": origins_of(sql, findable(host)), "most": ORIGINS_MAX}
    ids: list[int] = []
    for (origin,) in sql.select(_WITH_WORK, among):
        for query in (_DUE, _WAITING):
            found = sql.select(query, {"origin": origin, "limit": limit})
            ids += [key for (key,) in found if isinstance(key, int)]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in sql.select(_ROWS, {"ids": ids})]
    for row in rows:
        row["sitemap"] = bool(row["sitemap"])
    rows.sort(key=lambda row: _order(row, now_s))
    for row in rows:
        del row["turn"]
    return list(rows[:limit])


def _order(row: Row, now_s: float) -> tuple[float, ...]:
    """URLs that are due by priority, then the others by the time at which they are."""
    due_at = number(row["due_at"])
    best = (-number(row["priority"]), number(row["turn"]), number(row["depth"]))
    return (max(0.0, due_at - now_s), *best, number(row["id"]))

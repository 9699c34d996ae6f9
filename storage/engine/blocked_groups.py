"""Blocked URLs by host and rule: a number of them is looked at, so a large crawl costs no more."""

from __future__ import annotations

from typing import Final

from storage.engine.page_queries import origins_of, rule_conditions
from storage.engine.statements import Parameter, Statements
from storage.paging import check_limit, findable
from storage.read_records import BlockedGroups

GROUPED_MAX: Final = 200_000  # blocked URLs of one query: some 0.1 s
COLUMNS: Final = ("host", "reason", "rule", "line", "robots_url", "urls", "last_at")

_BLOCKS: Final = (
    "SELECT b.origin, b.verdict, b.blocked_at FROM blocks AS b WHERE {origins} LIMIT :most"
)
_GROUPS: Final = (
    "SELECT s.name, v.reason, v.rule,"  # noqa: S608 - constants
    " CASE WHEN min(v.line) = max(v.line) THEN min(v.line) END,"
    " CASE WHEN min(v.robots_url) = max(v.robots_url) THEN min(v.robots_url) END,"
    " CAST(sum(g.urls) AS bigint) AS urls, max(g.last_at)"
    " FROM (SELECT b.origin, b.verdict, count(*) AS urls, max(b.blocked_at) AS last_at"
    f"  FROM ({_BLOCKS}) AS b GROUP BY b.origin, b.verdict) AS g"
    " JOIN verdicts AS v ON v.id = g.verdict"
    " JOIN origins AS o ON o.id = g.origin JOIN slots AS s ON s.id = o.slot"
    " WHERE {verdicts} GROUP BY s.name, v.reason, v.rule"
    " ORDER BY urls DESC, s.name, v.reason, coalesce(v.rule, '') LIMIT :limit"
)
_COUNT: Final = f"SELECT count(*) FROM ({_BLOCKS}) AS b"  # noqa: S608 - constants


def blocked_groups(
    sql: Statements,
    *,
    host: str | None = None,
    rule: str = "",
    exact: bool = False,
    reason: str = "",
    limit: int = 100,
) -> BlockedGroups:
    """Implement `Reader.blocked_groups`. Raises ValueError for invalid arguments."""
    check_limit(limit)
    conditions, values = rule_conditions(rule=rule, exact=exact, reason=reason)
    values |= {"limit": limit + 1, "most": GROUPED_MAX}
    origins: dict[str, Parameter] = {"most": GROUPED_MAX + 1}
    among = "TRUE"
    if host is not None:
        among = "b.origin IN :origins"
        values["origins"] = origins["origins"] = origins_of(sql, findable(host))
    query = _GROUPS.replace("{origins}", among)
    query = query.replace("{verdicts}", " AND ".join(("TRUE", *conditions)))
    found = [dict(zip(COLUMNS, row, strict=True)) for row in sql.select(query, values)]
    ((count,),) = sql.select(_COUNT.replace("{origins}", among), origins)
    assert isinstance(count, int)
    return BlockedGroups(rows=found[:limit], more=len(found) > limit, complete=count <= GROUPED_MAX)

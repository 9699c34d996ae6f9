"""Pages of the views by keyset pagination: a page costs the same wherever it begins.

Hosts by name, and blocked URLs, are read along an index. Other orders look at every row of `slots`
(some tens of milliseconds at 100,000), because an index on a counter would cost every commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Concatenate, Final, ParamSpec

from msgspec import Struct

from storage.columns import VIEWS
from storage.engine.queue_query import waiting_ids
from storage.engine.statements import Parameter, Statements
from storage.paging import (
    FILTER_SQL,
    UNKNOWN,
    HostFilter,
    ascii_lower,
    check_limit,
    findable,
    host_place,
    id_place,
    mark,
    sort_of,
    value_of,
)
from storage.read_records import BlockedGroups, HostsWaiting, RowPage

P = ParamSpec("P")

_ORIGINS: Final = (
    "SELECT id FROM origins WHERE hostname = :host"
    " UNION SELECT o.id FROM origins AS o JOIN slots AS s ON s.id = o.slot WHERE s.name = :host"
)


def origins_of(sql: Statements, host: str) -> list[int]:
    """Return the ids of a host's origins, to select by: not every planner begins with them."""
    return [_int(key) for (key,) in sql.select(_ORIGINS, {"host": host})]


class HostsQuery(Struct, frozen=True, kw_only=True):
    """The query for a page of hosts."""

    sql: str
    values: dict[str, Parameter]
    waiting: HostsWaiting | None
    sort: str
    limit: int

    def read(self, sql: Statements) -> RowPage:
        columns = VIEWS["hosts"]
        values = dict(self.values)
        if self.waiting is not None:
            values["named"] = _ids_of(sql, self.waiting.named)
            values["others"] = _ids_of(sql, self.waiting.others)
        found = sql.select(self.sql, values)
        rows = [dict(zip(columns, row, strict=True)) for row in found[: self.limit]]
        if len(found) <= self.limit:
            return RowPage(rows=rows, after=None)
        last, column = rows[-1], self.sort.removeprefix("-")
        return RowPage(
            rows=rows, after=mark(self.sort, (value_of(last, column), str(last["host"])))
        )


def _ids_of(sql: Statements, names: Sequence[str]) -> list[int]:
    found = sql.read_many(list[tuple[str, int]], "slot_ids", [(name,) for name in names])
    return [key for _, key in found]


def hosts(
    *,
    search: str = "",
    pattern: str = "",
    state: str = "all",
    waiting: HostsWaiting | None = None,
    sort: str = "host",
    limit: int = 100,
    after: str = "",
    now_s: float = 0.0,
) -> HostsQuery:
    """A page of `hosts`. A host that changes its place in the order between two pages
    may appear twice, or not at all.

    search: only hosts whose name contains this, ignoring case.
    pattern: only hosts whose whole name is like this, in lower case: `*` stands for any
    characters, and a leading `*.` also covers the name after it.
    waiting: only hosts with queued URLs that wait for this, as of `now_s`.
    state: a `storage.paging.HostFilter`, as of `now_s` (Unix seconds).
    sort: one of `storage.paging.HOST_SORTS`, after "-" for descending order; then by name.
    after: from the page before.

    Raises ValueError for invalid arguments.
    """
    column, descends = sort_of(sort)
    check_limit(limit)
    values: dict[str, Parameter] = {"limit": limit + 1, "now": float(now_s)}
    conditions = [FILTER_SQL[HostFilter(state)]]
    key = column if column == "host" else f"coalesce({column}, {UNKNOWN})"
    if search:
        conditions.append(contains("host", "search"))
        values["search"] = findable(search.lower())
    if pattern:
        # `*.example.org` is example.org as well.
        whole = pattern.removeprefix("*.")
        conditions.append("(host LIKE :pattern ESCAPE '!' OR host LIKE :whole ESCAPE '!')")
        values |= {"pattern": findable(_like(pattern)), "whole": findable(_like(whole))}
    if waiting is not None:
        stored = f"id IN ({waiting_ids(waiting.stored)})" if waiting.stored else "FALSE"
        conditions.append(f"queued > 0 AND (id IN :named OR ({stored} AND NOT (id IN :others)))")
    if after:
        values["value"], values["name"] = host_place(after, sort)
        sign = "<" if descends else ">"
        conditions.append(
            f"host {sign} :name" if column == "host" else f"({key}, host) {sign} (:value, :name)"
        )
    way = " DESC" if descends else ""
    order = f"host{way}" if column == "host" else f"{key}{way}, host{way}"
    sql = (
        f"SELECT {', '.join(VIEWS['hosts'])} FROM hosts WHERE {' AND '.join(conditions)}"  # noqa: S608
        f" ORDER BY {order} LIMIT :limit"
    )
    return HostsQuery(sql=sql, values=values, waiting=waiting, sort=sort, limit=limit)


def _like(pattern: str) -> str:
    """A host pattern as the pattern of LIKE, with "!" as its escape character."""
    return re.sub(r"[!%_]", r"!\g<0>", pattern).replace("*", "%")


def contains(text: str, name: str) -> str:
    """A condition in words that all engines know: each has another function for this."""
    return f"replace({text}, :{name}, '') <> {text}"


class BlockedQuery(Struct, frozen=True, kw_only=True):
    """The query for a page of blocked URLs: first their keys, by the index, then their rows."""

    sql: str
    values: dict[str, Parameter]
    host: str | None
    limit: int

    def read(self, sql: Statements) -> RowPage:
        columns = VIEWS["blocked"]
        values = dict(self.values)
        if self.host is not None:
            values["origins"] = origins_of(sql, self.host)
        keys = [(_int(origin), _int(key)) for origin, key in sql.select(self.sql, values)]
        more, keys = len(keys) > self.limit, keys[: self.limit]
        query = f"SELECT {', '.join(columns)}, id FROM blocked WHERE id IN :ids"  # noqa: S608
        found = {row[-1]: row for row in sql.select(query, {"ids": [key for _, key in keys]})}
        rows = [dict(zip(columns, found[key], strict=False)) for _, key in keys if key in found]
        return RowPage(rows=rows, after=mark("id", keys[-1]) if more else None)


def rule_conditions(
    *, rule: str, exact: bool, reason: str
) -> tuple[list[str], dict[str, Parameter]]:
    """Conditions on the verdict `v` by which URLs are blocked, and their values: see
    `Reader.blocked_page`."""
    conditions: list[str] = []
    values: dict[str, Parameter] = {}
    if exact:
        conditions.append("v.rule = :rule" if rule else "v.rule IS NULL")
        values["rule"] = findable(rule)
    elif rule:
        conditions.append(contains("lower(v.rule)", "rule"))
        values["rule"] = findable(ascii_lower(rule))
    if reason:
        conditions.append("v.reason = :reason")
        values["reason"] = findable(reason)
    return conditions, values


def blocked(
    *,
    host: str | None = None,
    rule: str = "",
    exact: bool = False,
    reason: str = "",
    limit: int = 100,
    after: str = "",
) -> BlockedQuery:
    """A page of `blocked`, in a stable order: of one host (as in `iterate`), and with
    rules that contain `rule` (ignoring case in A to Z).

    exact: with this rule, or, if it is "", with none. reason: with this `BlockReason` only.

    Raises ValueError as `hosts_page`.
    """
    check_limit(limit)
    values: dict[str, Parameter] = {"limit": limit + 1}
    conditions = ["TRUE"]
    if after:
        conditions.append("(b.origin, b.id) > (:after_origin, :after_id)")
        values["after_origin"], values["after_id"] = id_place(after)
    if host is not None:
        host = findable(host)
        conditions.append("b.origin IN :origins")
    of_verdict, more = rule_conditions(rule=rule, exact=exact, reason=reason)
    if of_verdict:  # EXISTS: they are looked up for blocks in their order, not the other way round
        conditions.append(
            "EXISTS (SELECT 1 FROM verdicts AS v"  # noqa: S608
            f" WHERE v.id = b.verdict AND {' AND '.join(of_verdict)})"
        )
        values |= more
    sql = (
        f"SELECT b.origin, b.id FROM blocks AS b WHERE {' AND '.join(conditions)}"  # noqa: S608
        " ORDER BY b.origin, b.id LIMIT :limit"
    )
    return BlockedQuery(sql=sql, values=values, host=host, limit=limit)


def _page(
    query: Callable[P, HostsQuery | BlockedQuery],
) -> Callable[Concatenate[Statements, P], RowPage]:
    def page(sql: Statements, /, *args: P.args, **kwargs: P.kwargs) -> RowPage:
        return query(*args, **kwargs).read(sql)

    return update_wrapper(page, query)


hosts_page = _page(hosts)
blocked_page = _page(blocked)

_LINES: Final = (
    "SELECT v.line, count(*) FROM"
    " (SELECT b.verdict FROM blocks AS b JOIN origins AS o ON o.id = b.origin"
    "  WHERE o.name = :origin AND b.judged = 1 LIMIT :limit) AS b"
    " JOIN verdicts AS v ON v.id = b.verdict"
    " JOIN origins AS o ON o.name = :origin"
    " JOIN copies AS c ON c.origin = o.id AND c.body = v.body"
    " WHERE v.line IS NOT NULL GROUP BY v.line"
)


def blocked_lines(sql: Statements, origin: str, *, limit: int = 100_000) -> dict[int, int]:
    """Count, for each line of the stored robots.txt of an origin, the URLs that it blocks,
    among the first `limit` blocked URLs."""
    rows = sql.select(_LINES, {"origin": findable(origin), "limit": limit})
    return {_int(line): _int(count) for line, count in rows}


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


GROUPED_MAX: Final = 200_000  # blocked URLs of one query: some 0.1 s
_GROUP_COLUMNS: Final = ("host", "reason", "rule", "line", "robots_url", "urls", "last_at")

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
    """Count blocked URLs by host, reason and rule, the most first; filters as of
    `blocked_page`. Raises ValueError for an invalid limit."""
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
    found = [dict(zip(_GROUP_COLUMNS, row, strict=True)) for row in sql.select(query, values)]
    ((count,),) = sql.select(_COUNT.replace("{origins}", among), origins)
    assert isinstance(count, int)
    return BlockedGroups(rows=found[:limit], more=len(found) > limit, complete=count <= GROUPED_MAX)

"""Pages of the views by keyset pagination: a page costs the same wherever it begins.

Hosts by name, and blocked URLs, are read along an index. Other orders look at every row of `slots`
(some tens of milliseconds at 100,000), because an index on a counter would cost every commit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from msgspec import Struct, field

from storage.columns import VIEWS
from storage.paging import (
    FILTER_SQL,
    UNKNOWN,
    HostFilter,
    ascii_lower,
    check_limit,
    host_place,
    id_place,
    mark,
    sort_of,
    value_of,
)
from storage.sqlite.statements import Value
from storage.store import RowPage

_ORIGINS = (
    "SELECT id FROM origins WHERE hostname = :host"
    " UNION SELECT o.id FROM origins AS o JOIN slots AS s ON s.id = o.slot WHERE s.name = :host"
)


class HostsQuery(Struct, frozen=True, kw_only=True):
    """The query for a page of hosts."""

    sql: str
    values: dict[str, Value]
    sort: str
    limit: int

    def read(self, db: sqlite3.Connection) -> RowPage:
        columns = VIEWS["hosts"]
        found = db.execute(self.sql, self.values).fetchall()
        rows = [dict(zip(columns, row, strict=True)) for row in found[: self.limit]]
        if len(found) <= self.limit:
            return RowPage(rows=rows, after=None)
        last, column = rows[-1], self.sort.removeprefix("-")
        return RowPage(
            rows=rows, after=mark(self.sort, (value_of(last, column), str(last["host"])))
        )


def hosts(
    *, search: str, state: str, sort: str, limit: int, after: str, now_s: float
) -> HostsQuery:
    """Raise ValueError for invalid arguments. All names in the SQL are constants."""
    column, descends = sort_of(sort)
    check_limit(limit)
    values: dict[str, Value] = {"limit": limit + 1, "now": now_s}
    conditions = [FILTER_SQL[HostFilter(state)]]
    key = column if column == "host" else f"coalesce({column}, {UNKNOWN})"
    if search:
        conditions.append("instr(host, :search) > 0")
        values["search"] = search.lower()
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
    return HostsQuery(sql=sql, values=values, sort=sort, limit=limit)


class BlockedQuery(Struct, frozen=True, kw_only=True):
    """The query for a page of blocked URLs: first their keys, by the index, then their rows."""

    sql: str
    values: dict[str, Value] = field(default_factory=dict)
    limit: int

    def read(self, db: sqlite3.Connection) -> RowPage:
        columns = VIEWS["blocked"]
        keys = db.execute(self.sql, self.values).fetchall()
        more, keys = len(keys) > self.limit, keys[: self.limit]
        marks = ", ".join("?" * len(keys))
        query = f"SELECT {', '.join(columns)}, id FROM blocked WHERE id IN ({marks})"  # noqa: S608
        found = {row[-1]: row for row in db.execute(query, [key for _, key in keys])}
        rows = [dict(zip(columns, found[key], strict=False)) for _, key in keys if key in found]
        return RowPage(rows=rows, after=mark("id", keys[-1]) if more else None)


def blocked(*, host: str | None, rule: str, limit: int, after: str) -> BlockedQuery:
    """Raise ValueError for invalid arguments."""
    check_limit(limit)
    values: dict[str, Value] = {"limit": limit + 1}
    conditions = ["1"]
    if after:
        conditions.append("(b.origin, b.id) > (:after_origin, :after_id)")
        values["after_origin"], values["after_id"] = id_place(after)
    if host is not None:
        conditions.append(f"b.origin IN ({_ORIGINS})")
        values["host"] = host
    join = ""
    if rule:
        join = " CROSS JOIN verdicts AS v ON v.id = b.verdict"  # CROSS: blocks first, in order
        conditions.append("instr(lower(v.rule), :rule) > 0")
        values["rule"] = ascii_lower(rule)
    sql = (
        f"SELECT b.origin, b.id FROM blocks AS b{join} WHERE {' AND '.join(conditions)}"  # noqa: S608
        " ORDER BY b.origin, b.id LIMIT :limit"
    )
    return BlockedQuery(sql=sql, values=values, limit=limit)


ROBOTS_STATES = (
    "SELECT h.value, (SELECT r.state FROM robots AS r WHERE r.host = h.value"
    " ORDER BY r.state = 'rules', r.id LIMIT 1) FROM json_each(:hosts) AS h"
)


def robots_states(db: sqlite3.Connection, hosts: Sequence[str]) -> dict[str, str]:
    """One query for all hosts, because each one competes with the crawl for the interpreter."""
    rows = db.execute(ROBOTS_STATES, {"hosts": json.dumps(list(hosts))})
    return {str(host): str(state) for host, state in rows if state is not None}


def blocked_lines(db: sqlite3.Connection, origin: str, limit: int) -> dict[int, int]:
    """As `Reader.blocked_lines`."""
    rows = db.execute(
        "SELECT v.line, count(*) FROM"
        " (SELECT b.verdict FROM blocks AS b JOIN origins AS o ON o.id = b.origin"
        "  WHERE o.name = :origin AND b.judged LIMIT :limit) AS b"
        " JOIN verdicts AS v ON v.id = b.verdict"
        " JOIN origins AS o ON o.name = :origin"
        " JOIN copies AS c ON c.origin = o.id AND c.body = v.body"
        " WHERE v.line IS NOT NULL GROUP BY v.line",
        {"origin": origin, "limit": limit},
    )
    return {int(line): int(count) for line, count in rows}

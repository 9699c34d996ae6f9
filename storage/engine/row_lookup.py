"""Rows that readers look up: of one URL, of one host, and of what only a server has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from policies.url import origin_of
from storage.columns import CONTACTS_KEPT, STATE_VIEWS, VIEWS
from storage.engine.link_table import OUT, REQUISITE, SEED, SITEMAP, fingerprints, hops_of
from storage.engine.statements import Statements, Value
from storage.paging import findable
from storage.read_records import Row
from storage.row_values import whole
from storage.url_records import UrlState

_READ: Final = -1
_Found = tuple[int, int]  # the id and the state of a URL
_WORKER: Final = (
    "id", "name", "host", "pid", "began_at", "seen_s", "idle", "hosts", "in_flight", "pages",
    "pages_per_s", "uncommitted", "held",
)  # fmt: skip
_TABLE: Final = ("table", "bytes", "rows", "dead_rows")
_TABLES_MAX: Final = 12


def find_url(sql: Statements, url: str) -> _Found | None:
    """Find a URL (the state of one that was read as a sitemap: `_READ`)."""
    url = findable(url)
    try:
        origin = origin_of(url)
    except ValueError:
        return None
    row = sql.row("find_url", origin, fingerprints(sql.secret())(url))
    return None if row is None else (whole(row[0]), whole(row[1]))


def url_of(sql: Statements, url: str) -> Row | None:
    """The row of a URL; without columns if the database contradicts itself."""
    found = find_url(sql, url)
    while found is not None:
        row = _url_row(sql, url, *found)
        if row is not None:
            return row
        before, found = found, find_url(sql, url)
        if found == before:  # otherwise a crawl has changed its state meanwhile
            return {}
    return None


def _url_row(sql: Statements, url: str, key: int, state: int) -> Row | None:
    row: dict[str, object] = {"url": url}
    common = sql.row("url_about", key)
    slot, origin, referrer, anchor, error, flags, data = common or (None,) * 7
    if state == OUT:
        row |= {"state": "skipped", "reason": error}
    else:
        view = "sitemaps" if state == _READ else STATE_VIEWS.get(state)  # type: ignore[call-overload]
        of_view = None if view is None else _view_row(sql, view, "id", key)
        if of_view is None:
            return None
        row |= of_view | {"state": view}
    row |= {"host": slot, "origin": origin, "referrer": referrer, "anchor": anchor, "data": data}
    row["sitemap"] = bool(whole(flags) & SITEMAP)
    row["requisite"] = bool(whole(flags) & REQUISITE)
    row["seed"] = bool(whole(flags) & SEED)
    row["hops"] = hops_of(whole(flags))
    row["listing"] = _view_row(sql, "listings", "id", key)
    if state == UrlState.QUEUED:
        row["error"] = error
    return row


def _view_row(sql: Statements, view: str, column: str, value: Value) -> dict[str, object] | None:
    """The row of a view with a value in a column. Names are constants."""
    columns = VIEWS[view]
    query = f"SELECT {', '.join(columns)} FROM {view} WHERE {column} = :value"  # noqa: S608
    rows = sql.select(query, {"value": value})
    return dict(zip(columns, rows[0], strict=True)) if rows else None


def host_of(sql: Statements, host: str) -> Row | None:
    ids = sql.select("SELECT id FROM hosts WHERE host = :host", {"host": host})
    row = _view_row(sql, "hosts", "id", ids[0][0]) if ids else None
    if row is None:
        return None
    key = ids[0][0]
    contacts = sql.rows("contacts_of_slot", CONTACTS_KEPT, key)
    names = ("start_at", "end_at", "kind", "status")
    robots: list[Mapping[str, object]] = [
        dict(zip(VIEWS["robots"], row, strict=True)) for row in sql.rows("robots_of_slot", key)
    ]
    return {
        **row,
        "contacts": [dict(zip(names, row, strict=True)) for row in contacts],
        "robots": robots,
    }


def workers(sql: Statements) -> Sequence[Row]:
    """Return the live workers; () where there is one."""
    if not sql.shared:
        return ()
    found = [dict(zip(_WORKER, row, strict=True)) for row in sql.rows("workers")]
    return [{**row, "held": msgspec.json.decode(str(row["held"]))} for row in found]


def table_sizes(sql: Statements) -> Sequence[Row]:
    """Return the largest tables of a server's database; () for others."""
    if not sql.shared:
        return ()
    return [dict(zip(_TABLE, row, strict=True)) for row in sql.rows("table_sizes", _TABLES_MAX)]

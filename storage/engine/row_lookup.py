"""Rows that readers look up: of one URL, of one host, and of what only a server has."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from policies.robots_state import RobotsState
from policies.url import origin_of
from storage.columns import CONTACTS_KEPT, STATE_VIEWS, VIEWS
from storage.engine.link_table import OUT, REQUISITE, SEED, SITEMAP, fingerprints, hops_of
from storage.engine.robots_copies import read_copy
from storage.engine.statements import Statements, Value, record
from storage.paging import findable
from storage.read_records import EarlierCopy, Row
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
    """Return the row of `hosts` with `contacts` (the ring, oldest first) and `robots` (its rows
    of that view)."""
    ids = sql.select("SELECT id FROM hosts WHERE host = :host", {"host": findable(host)})
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
    """Return the live workers of a shared store, in the order of their `id`; () for others.

    Each has `id` (its session), `name`, `host` (of its machine), `pid`, `began_at` (Unix
    seconds), `seen_s` (seconds since it was last renewed), and `idle`, `hosts`, `in_flight`,
    `pages`, `pages_per_s`, `uncommitted` and `held` of its last WorkerStatus.
    """
    if not sql.shared:
        return ()
    found = [dict(zip(_WORKER, row, strict=True)) for row in sql.rows("workers")]
    return [{**row, "held": msgspec.json.decode(str(row["held"]))} for row in found]


def table_sizes(sql: Statements) -> Sequence[Row]:
    """Return the largest tables of a database on a server, the largest first; () for others.

    Each has `table` (its name), `bytes` (with its indexes), and, as the server estimates them,
    `rows` and `dead_rows`, whose space is reused once the table is vacuumed.
    """
    if not sql.shared:
        return ()
    return [dict(zip(_TABLE, row, strict=True)) for row in sql.rows("table_sizes", _TABLES_MAX)]


def sessions(sql: Statements) -> list[str]:
    """Return the names of the latest 20 sessions, newest first."""
    return sql.read(list[str], "session_names")


def robots_states(sql: Statements, hosts: Sequence[str]) -> dict[str, str]:
    """Return the `state` of the view `robots` by host. If a host has several origins, another
    state than "rules" wins. Hosts whose robots.txt was never requested are missing."""
    rows = [(findable(host),) for host in hosts]
    found = sql.read_many(list[tuple[str, str | None]], "robots_states", rows)
    return {host: state for host, state in found if state is not None}


def robots_copy(sql: Statements, origin: str) -> RobotsState | None:
    """Return the stored robots state of an origin, with its body."""
    row = sql.row("copy", findable(origin))
    return None if row is None else read_copy(row)


def robots_before(sql: Statements, origin: str) -> EarlierCopy | None:
    """Return the robots.txt of an origin that applied before the stored one, if there was one."""
    row = sql.row("earlier_copy", findable(origin))
    if row is None:
        return None
    body, *values = row
    return record(EarlierCopy, (_unpacked(body), *values))


def robots_body(sql: Statements, url: str) -> bytes | None:
    """Return the robots.txt by which a blocked URL was judged, even if replaced since."""
    found = find_url(sql, url)
    row = None if found is None else sql.row("body_of_block", found[0])
    return None if row is None else _unpacked(row[0])


def _unpacked(body: Value) -> bytes | None:
    return zlib.decompress(body) if isinstance(body, bytes) else None

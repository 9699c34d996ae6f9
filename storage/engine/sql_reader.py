"""Looking at a database, beside the crawl that writes it or after it."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from math import inf
from types import TracebackType
from typing import Protocol, Self, TypeVar

from policies.robots_state import RobotsState
from policies.url import origin_of
from storage.columns import CONTACTS_KEPT, REPORTS, STATE_VIEWS, VIEWS, check_view
from storage.engine import (
    blocked_groups,
    history_table,
    next_urls,
    operator_work,
    page_queries,
    queue_query,
    sampled_urls,
    url_pages,
)
from storage.engine.link_table import (
    OUT,
    REQUISITE,
    SEED,
    SITEMAP,
    fingerprints,
    hops_of,
    some_seeds,
)
from storage.engine.robots_copies import read_copy, read_earlier_copy
from storage.engine.statements import Statements, Value, Values
from storage.engine.view_rows import ROWS_AT_ONCE, ViewRows
from storage.history import History
from storage.paging import findable
from storage.reader import BlockedGroups, EarlierCopy, HostsHeld, UrlFilter
from storage.row_values import number, whole
from storage.store import Row, RowPage, Stats, StoreError, UrlState

T = TypeVar("T")
_READ = -1
_Found = tuple[int, int]  # the id and the state of a URL


class ReadDatabase(Protocol):
    """A database that readers read. Its methods raise StoreRefused and StoreError."""

    name: str  # for messages: "the database crawl.db"

    async def open(self) -> object:
        """Open it, unless it is open. The other methods do so as well."""
        ...

    async def read(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`, run in the database's thread, maybe twice."""
        ...

    def report(self, kind: str) -> AsyncGenerator[Values, None]:
        """Yield the rows of a report. No transaction is open in between."""
        ...

    async def close(self) -> None:
        """Release the database. Does nothing if it is not open."""
        ...


class SqlReader:
    """`Reader` of a database with named statements. It opens it at the first call."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    async def __aenter__(self) -> Self:
        try:
            await self._database.open()
        except BaseException:  # cancelled after it was opened
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._database.close()

    # ------------------------------------------------------------ the contract

    async def stats(self) -> Stats:
        row = await self._database.read(lambda sql: sql.row("totals"))
        if row is None:
            raise StoreError(f"{self._database.name} cannot be used: it has no counters")
        visited, blocked, failed, queued, hosts, body_bytes, returns = map(whole, row[:-1])
        return Stats(
            visited=visited,
            blocked=blocked,
            failed=failed,
            queued=queued,
            hosts=hosts,
            body_bytes=body_bytes,
            returns=returns,
            returned_at=number(row[-1]) or None,
        )

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        after = 0
        while some := await self._database.read(partial(some_seeds, after=after)):
            yield [url for _, url in some]
            after = some[-1][0]

    async def sessions(self) -> list[str]:
        return await self._database.read(lambda sql: sql.read(list[str], "session_names"))

    async def workers(self) -> Sequence[Row]:
        return ()

    async def paused(self) -> bool:
        return await self._database.read(operator_work.is_paused)

    async def table_sizes(self) -> Sequence[Row]:
        return ()

    async def queue_holds(self, now_s: float) -> Sequence[Row]:
        return await self._database.read(partial(queue_query.queue_holds, now_s=now_s))

    async def history(self, *, from_s: float, to_s: float) -> History:
        return await self._database.read(
            partial(history_table.read_history, from_s=from_s, to_s=to_s)
        )

    async def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        check_view(view, host)
        found = ViewRows(view, None if host is None else findable(host))
        left = inf if limit is None else limit
        while rows := await self._database.read(partial(_next_rows, found, left)):
            for row in rows:
                yield row
            left -= len(rows)

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        columns = REPORTS[kind]
        rows = self._database.report(kind)
        try:
            async for row in rows:
                yield dict(zip(columns, row, strict=True))
        finally:
            await rows.aclose()

    async def hosts_page(
        self,
        *,
        search: str = "",
        pattern: str = "",
        state: str = "all",
        held: HostsHeld | None = None,
        sort: str = "host",
        limit: int = 100,
        after: str = "",
        now_s: float = 0.0,
    ) -> RowPage:
        query = page_queries.hosts(
            search=search,
            pattern=pattern,
            state=state,
            held=held,
            sort=sort,
            limit=limit,
            after=after,
            now_s=now_s,
        )
        return await self._database.read(query.read)

    async def blocked_page(
        self,
        *,
        host: str | None = None,
        rule: str = "",
        exact: bool = False,
        reason: str = "",
        limit: int = 100,
        after: str = "",
    ) -> RowPage:
        query = page_queries.blocked(
            host=host, rule=rule, exact=exact, reason=reason, limit=limit, after=after
        )
        return await self._database.read(query.read)

    async def blocked_groups(
        self,
        *,
        host: str | None = None,
        rule: str = "",
        exact: bool = False,
        reason: str = "",
        limit: int = 100,
    ) -> BlockedGroups:
        return await self._database.read(
            partial(
                blocked_groups.blocked_groups,
                host=host,
                rule=rule,
                exact=exact,
                reason=reason,
                limit=limit,
            )
        )

    async def urls_page(self, wanted: UrlFilter, *, limit: int = 100, after: str = "") -> RowPage:
        page = partial(url_pages.urls_page, wanted=wanted, limit=limit, after=after)
        return await self._database.read(page)

    async def failures_by_code(self) -> dict[str, int]:
        return await self._database.read(url_pages.failures_by_code)

    async def seeds_page(
        self, *, text: str = "", state: str = "", limit: int = 100, after: str = ""
    ) -> RowPage:
        page = partial(url_pages.seeds_page, text=text, state=state, limit=limit, after=after)
        return await self._database.read(page)

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        rows = [(findable(host),) for host in hosts]
        found = await self._database.read(
            lambda sql: sql.read_many(list[tuple[str, str | None]], "robots_states", rows)
        )
        return {host: state for host, state in found if state is not None}

    async def blocked_lines(self, origin: str, *, limit: int = 100_000) -> dict[int, int]:
        return await self._database.read(lambda sql: page_queries.blocked_lines(sql, origin, limit))

    async def url(self, url: str) -> Row | None:
        row = await self._database.read(lambda sql: _url(sql, url))
        if row == {}:
            raise StoreError(f"{self._database.name} cannot be used: it is damaged")
        return row

    async def host(self, host: str) -> Row | None:
        return await self._database.read(lambda sql: _host(sql, findable(host)))

    async def next_urls(self, host: str, *, limit: int = 20, now_s: float) -> Sequence[Row]:
        return await self._database.read(lambda sql: next_urls.next_urls(sql, host, limit, now_s))

    async def sampled_urls(self, origin: str, *, limit: int = 200) -> Sequence[str]:
        return await self._database.read(lambda sql: sampled_urls.sampled_urls(sql, origin, limit))

    async def robots_copy(self, origin: str) -> RobotsState | None:
        def find(sql: Statements) -> RobotsState | None:
            row = sql.row("copy", findable(origin))
            return None if row is None else read_copy(row)[1]

        return await self._database.read(find)

    async def robots_before(self, origin: str) -> EarlierCopy | None:
        row = await self._database.read(lambda sql: sql.row("earlier_copy", findable(origin)))
        return None if row is None else read_earlier_copy(row)

    async def robots_body(self, url: str) -> bytes | None:
        """The robots.txt a blocked URL was judged by, also when it has been replaced since."""

        def find(sql: Statements) -> bytes | None:
            found = _find(sql, url)
            row = None if found is None else sql.row("body_of_block", found[0])
            return zlib.decompress(row[0]) if row and isinstance(row[0], bytes) else None

        return await self._database.read(find)


def _next_rows(found: ViewRows, left: float, sql: Statements) -> list[Row]:
    return found.read(sql, int(min(left, ROWS_AT_ONCE))) if left > 0 else []


def _find(sql: Statements, url: str) -> _Found | None:
    """Find a URL (the state of one that was read as a sitemap: `_READ`)."""
    url = findable(url)
    try:
        origin = origin_of(url)
    except ValueError:
        return None
    row = sql.row("find_url", origin, fingerprints(sql.secret())(url))
    return None if row is None else (whole(row[0]), whole(row[1]))


def _url(sql: Statements, url: str) -> Row | None:
    """The row of a URL; without columns if the database contradicts itself."""
    found = _find(sql, url)
    while found is not None:
        row = _url_row(sql, url, *found)
        if row is not None:
            return row
        before, found = found, _find(sql, url)
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


def _host(sql: Statements, host: str) -> Row | None:
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

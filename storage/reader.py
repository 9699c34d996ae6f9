"""Looking at a database, beside the crawl that writes it or after it."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial, update_wrapper
from math import inf
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from policies.robots_state import RobotsState
from storage.columns import REPORTS, check_view
from storage.engine import (
    history_table,
    operator_work,
    page_queries,
    queue_query,
    row_lookup,
    url_pages,
)
from storage.engine.counters import stored_stats
from storage.engine.databases import ReadDatabase
from storage.engine.link_table import some_seeds
from storage.engine.robots_copies import read_copy, read_earlier_copy
from storage.engine.statements import Statements
from storage.engine.view_rows import ROWS_AT_ONCE, ViewRows
from storage.paging import findable
from storage.read_records import EarlierCopy, Row
from storage.store_errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")


def reading(
    work: Callable[Concatenate[Statements, P], T],
) -> Callable[Concatenate[Reader, P], Coroutine[Any, Any, T]]:
    """A method of `Reader` that runs one function in the database's thread."""

    async def method(self: Reader, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(lambda sql: work(sql, *args, **kwargs))

    return update_wrapper(method, work)


class Reader:
    """Reads without changing anything, also while a crawl writes to the store.

    Rows have the columns of `storage.columns.VIEWS`, which docs/database.md describes. A caller
    that does not exhaust a generator must close it (`contextlib.aclosing`) before the reader.
    """

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
        """Release the store."""
        await self._database.close()

    stats = reading(stored_stats)
    """Return the counts."""

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        """The same as `Store.seeds`."""
        after = 0
        while some := await self._database.read(partial(some_seeds, after=after)):
            yield [url for _, url in some]
            after = some[-1][0]

    async def sessions(self) -> list[str]:
        """Return the names of the latest 20 sessions, newest first."""
        return await self._database.read(lambda sql: sql.read(list[str], "session_names"))

    workers = reading(row_lookup.workers)
    """Return the live workers of a shared store, in the order of their `id`; () for others.

    Each has `id` (its session), `name`, `host` (of its machine), `pid`, `began_at` (Unix
    seconds), `seen_s` (seconds since it was last renewed), and `idle`, `hosts`, `in_flight`,
    `pages`, `pages_per_s`, `uncommitted` and `held` of its last WorkerStatus.
    """

    paused = reading(operator_work.is_paused)
    """The same as `Store.paused`."""

    table_sizes = reading(row_lookup.table_sizes)
    """Return the largest tables of a database on a server, the largest first; () for others.

    Each has `table` (its name), `bytes` (with its indexes), and, as the server estimates them,
    `rows` and `dead_rows`, whose space is reused once the table is vacuumed.
    """

    queue_waits = reading(queue_query.queue_waits)
    """Return what the queued URLs wait for, by reason; their sum is that of all `queued` of the
    hosts, at one moment. now_s: Unix seconds.

    Each row has `reason` (StoredReason), `urls`, `hosts`, `first_at` and `last_at` (Unix
    seconds: when the first and the last of its hosts may be contacted), and `through_at`: when
    the slowest would be done if every URL took one request; `visited_hosts`: how many of the
    hosts have visited URLs; `gone_hosts`: how many of those could not be connected to at
    last. `host` is "", or, for a host that a session holds, its name: that session knows more
    about it.
    """

    history = reading(history_table.read_history)
    """Return the history of a span of time (Unix seconds), as `Store.put_history` has written
    it: the steps of all sessions that touch it; the marks in it, those that began before and
    lasted, and the last start, pause or resumption before it."""

    async def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        """Yield the rows of a view in a stable order.

        A few hundred rows are read at a time, and no transaction is open in between, so a URL that
        changes its state meanwhile may be missing, or be in two views.

        host: only the rows of one host; for `links`, `malformed` and `fragments`, those of its
        pages. Raises ValueError for `skipped`, whose rows belong to no host, and for an unknown
        view.
        """
        check_view(view, host)
        found = ViewRows(view, None if host is None else findable(host))
        left = inf if limit is None else limit
        while rows := await self._database.read(partial(_next_rows, found, left)):
            for row in rows:
                yield row
            left -= len(rows)

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        """Yield the rows of a report, with the columns of `storage.columns.REPORTS`.

        - `broken`: URLs that failed or were answered with status 400 or above, each with the pages
          that link to it, or to a redirect (`via`) that ends there: all pages if links are stored,
          otherwise the first. A URL without such a page has one row. Rows of a URL are adjacent.
          `kind` is "link" or a `Rel`.
        - `malformed`: the rows of that view, ordered by href and reason.
        - `dangling`: links with a fragment that does not exist on the page at `url`: the fragment,
          the page with the link, and the target of the link if redirects (`via`) lead from there.
          Rows of a URL and fragment are adjacent.
        - `looked`: one row: the number of HTML pages (2xx), and of how many of them each part was
          extracted (see `Looked`).
        - `forbidden`: blocked URLs with the pages that link to them, ordered by host and rule.
        - `duplicates`: pages (2xx) with the same body as another; those of a body are adjacent.
        """
        columns = REPORTS[kind]
        rows = self._database.report(kind)
        try:
            async for row in rows:
                yield dict(zip(columns, row, strict=True))
        finally:
            await rows.aclose()

    hosts_page = reading(page_queries.hosts_page)
    """Return some rows of `hosts`. A host that changes its place in the order between two pages
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

    blocked_page = reading(page_queries.blocked_page)
    """Return some rows of `blocked` in a stable order: of one host (as in `iterate`), and with
    rules that contain `rule` (ignoring case in A to Z).

    exact: with this rule, or, if it is "", with none. reason: with this `BlockReason` only.

    Raises ValueError as `hosts_page`.
    """

    blocked_groups = reading(page_queries.blocked_groups)
    """Count blocked URLs by host, reason and rule, the most first; filters as of
    `blocked_page`. Raises ValueError for an invalid limit."""

    urls_page = reading(url_pages.urls_page)
    """Return some rows of the view `wanted.state`, those found last first. A page may have
    fewer than `limit` rows, even none, although another follows: only some thousands of URLs
    are looked through for each. Raises ValueError as `hosts_page`."""

    failures_by_code = reading(url_pages.failures_by_code)
    """Count the failed URLs by their failure code, the most frequent first; of more than
    200,000, those found last."""

    seeds_page = reading(url_pages.seeds_page)
    """Return some seeds with the columns `storage.columns.SEED_COLUMNS`, those added last
    first; otherwise as `urls_page`. `state`: a view, or `sitemap` or `skipped` (out of
    scope)."""

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        """Return the `state` of the view `robots` by host. If a host has several origins, another
        state than "rules" wins. Hosts whose robots.txt was never requested are missing."""
        rows = [(findable(host),) for host in hosts]
        found = await self._database.read(
            lambda sql: sql.read_many(list[tuple[str, str | None]], "robots_states", rows)
        )
        return {host: state for host, state in found if state is not None}

    blocked_lines = reading(page_queries.blocked_lines)
    """Count, for each line of the stored robots.txt of an origin, the URLs that it blocks,
    among the first `limit` blocked URLs."""

    async def url(self, url: str) -> Row | None:
        """Return all that is stored about a canonical URL; None for an unknown one.

        The row has the columns of its view, and: `state` (the name of the view), `host` (its slot),
        `origin`, `referrer`, `anchor`, `data` (JSON text, or None), `sitemap` (whether it is one),
        `listing` (its row of `listings`, or None); `seed`, `requisite` and `hops` as in its `Link`;
        for a queued URL the last `error`. The state is `sitemaps` for a sitemap that was read, and
        `skipped`, with a `reason`, for a URL that scope excludes by now (None: only a redirect led
        to it).
        """
        row = await self._database.read(lambda sql: row_lookup.url_of(sql, url))
        if row == {}:
            raise StoreError(f"{self._database.name} cannot be used: it is damaged")
        return row

    async def host(self, host: str) -> Row | None:
        """Return the row of `hosts` with `contacts` (the ring, oldest first) and `robots` (its rows
        of that view)."""
        return await self._database.read(lambda sql: row_lookup.host_of(sql, findable(host)))

    next_urls = reading(url_pages.next_urls)
    """Return queued URLs of a host in the order in which they would be leased: those that are
    due at `now_s` (Unix seconds) by priority, then the others by `due_at`.

    Each row has `id`, `url`, `priority`, `depth`, `due_at` (Unix seconds; None: now),
    `attempts`, `error` (of the last one, or None), and `sitemap` (whether it is one). Of a host
    with very many origins, some are left out. Raises ValueError for an invalid limit.
    """

    sampled_urls = reading(url_pages.sampled_urls)
    """Return the queued and visited ones among up to `limit` URLs of an origin, in no order
    that has a meaning. Raises ValueError for an invalid limit."""

    async def robots_copy(self, origin: str) -> RobotsState | None:
        """Return the stored robots state of an origin, with its body."""

        def find(sql: Statements) -> RobotsState | None:
            row = sql.row("copy", findable(origin))
            return None if row is None else read_copy(row)

        return await self._database.read(find)

    async def robots_before(self, origin: str) -> EarlierCopy | None:
        """Return the robots.txt of an origin that applied before the stored one, if there was
        one."""
        row = await self._database.read(lambda sql: sql.row("earlier_copy", findable(origin)))
        return None if row is None else read_earlier_copy(row)

    async def robots_body(self, url: str) -> bytes | None:
        """Return the robots.txt by which a blocked URL was judged, even if replaced since."""

        def find(sql: Statements) -> bytes | None:
            found = row_lookup.find_url(sql, url)
            row = None if found is None else sql.row("body_of_block", found[0])
            return zlib.decompress(row[0]) if row and isinstance(row[0], bytes) else None

        return await self._database.read(find)


def _next_rows(found: ViewRows, left: float, sql: Statements) -> list[Row]:
    return found.read(sql, int(min(left, ROWS_AT_ONCE))) if left > 0 else []

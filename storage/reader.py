"""Looking at a database, beside the crawl that writes it or after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial, update_wrapper
from math import inf
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

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
from storage.engine.link_table import known_urls, some_seeds
from storage.engine.statements import Statements
from storage.engine.view_rows import ROWS_AT_ONCE, ViewRows
from storage.paging import findable
from storage.read_records import Row
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

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        """The same as `Store.seeds`."""
        after = 0
        while some := await self._database.read(partial(some_seeds, after=after)):
            yield [url for _, url in some]
            after = some[-1][0]

    sessions = reading(row_lookup.sessions)
    workers = reading(row_lookup.workers)
    paused = reading(operator_work.is_paused)
    table_sizes = reading(row_lookup.table_sizes)
    queue_waits = reading(queue_query.queue_waits)
    history = reading(history_table.read_history)

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
    blocked_page = reading(page_queries.blocked_page)
    blocked_groups = reading(page_queries.blocked_groups)
    blocked_lines = reading(page_queries.blocked_lines)
    urls_page = reading(url_pages.urls_page)
    failures_by_code = reading(url_pages.failures_by_code)
    seeds_page = reading(url_pages.seeds_page)
    known_urls = reading(known_urls)
    next_urls = reading(url_pages.next_urls)
    sampled_urls = reading(url_pages.sampled_urls)
    host = reading(row_lookup.host_of)
    robots_states = reading(row_lookup.robots_states)
    robots_copy = reading(row_lookup.robots_copy)
    robots_before = reading(row_lookup.robots_before)
    robots_body = reading(row_lookup.robots_body)

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


def _next_rows(found: ViewRows, left: float, sql: Statements) -> list[Row]:
    return found.read(sql, int(min(left, ROWS_AT_ONCE))) if left > 0 else []

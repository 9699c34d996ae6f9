"""Looking at a database, beside the crawl that writes it or after it."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from policies.robots_state import RobotsState
from policies.url import origin_of
from storage.columns import CONTACTS_KEPT, REPORTS, STATE_VIEWS, VIEWS, check_view
from storage.sqlite import page_queries, report_queries
from storage.sqlite.connection_thread import ConnectionThread, finish
from storage.sqlite.databases import MemoryDatabase, Runner
from storage.sqlite.link_table import (
    OUT,
    REQUISITE,
    SEED,
    SITEMAP,
    fingerprints,
    hops_of,
    some_seeds,
)
from storage.sqlite.robots_copies import read_copy
from storage.sqlite.schema import FAILURES, DamagedError, connect_reader, translate
from storage.sqlite.statements import Statements, Value
from storage.sqlite.views import ROWS_AT_ONCE, ViewRows
from storage.store import Row, RowPage, Stats, StoreError, UrlState
from storage.transient_faults import words_of

T = TypeVar("T")
_READ = -1


class SqliteReader:
    """`Reader` of one file. It opens the file at the first call, which may raise StoreRefused."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._name = f"the database {path}"
        self._thread: ConnectionThread | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            await self._runner()
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
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.close()

    async def _runner(self) -> Runner:
        async with self._opening:
            if self._thread is None:
                await finish(asyncio.ensure_future(self._open()))
            assert self._thread is not None
            return self._thread

    async def _open(self) -> None:
        try:
            self._thread = await self._thread_of(partial(connect_reader, self._path))
        except FAILURES as error:
            raise translate(error, self._name) from error

    async def _thread_of(self, connect: Callable[[], sqlite3.Connection]) -> ConnectionThread:
        try:
            return await ConnectionThread.open(connect)
        except MemoryError as error:
            raise StoreError(f"{self._name} cannot be used: {words_of(error)}") from error

    async def _read(self, work: Callable[[Statements], T]) -> T:
        return await self._run(await self._runner(), lambda db: work(Statements(db)))

    async def _run(self, runner: Runner, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await runner.run(work)
        except FAILURES as error:
            raise translate(error, self._name) from error

    # ------------------------------------------------------------ the contract

    async def stats(self) -> Stats:
        row = await self._read(lambda sql: sql.row("totals"))
        if row is None:
            raise StoreError(f"{self._name} cannot be used: it has no counters")
        visited, blocked, failed, queued, hosts, body_bytes = (
            value if isinstance(value, int) else 0 for value in row
        )
        return Stats(
            visited=visited,
            blocked=blocked,
            failed=failed,
            queued=queued,
            hosts=hosts,
            body_bytes=body_bytes,
        )

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        after = 0
        while some := await self._read(partial(some_seeds, after=after)):
            yield [url for _, url in some]
            after = some[-1][0]

    async def sessions(self) -> list[str]:
        return await self._read(lambda sql: sql.read(list[str], "session_names"))

    async def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        check_view(view, host)
        found, left = ViewRows(view, host), inf if limit is None else limit
        while rows := await self._read(partial(_next_rows, found, left)):
            for row in rows:
                yield row
            left -= len(rows)

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        columns = REPORTS[kind]
        spool = await self._thread_of(partial(self._connect_spool, kind))
        try:
            after = 0
            while rows := await self._run(spool, partial(report_queries.spooled, after=after)):
                after = rows[-1][0]
                for row in rows:
                    yield dict(zip(columns, row[1:], strict=True))
        finally:
            await spool.close()

    def _connect_spool(self, kind: str) -> sqlite3.Connection:
        try:
            db = connect_reader(self._path)
            try:
                report_queries.spool(db, kind)
            except BaseException:
                db.close()
                raise
        except FAILURES as error:
            raise translate(error, self._name) from error
        return db

    async def hosts_page(
        self,
        *,
        search: str = "",
        state: str = "all",
        sort: str = "host",
        limit: int = 100,
        after: str = "",
        now_s: float = 0.0,
    ) -> RowPage:
        query = page_queries.hosts(
            search=search, state=state, sort=sort, limit=limit, after=after, now_s=now_s
        )
        return await self._read(lambda sql: query.read(sql.db))

    async def blocked_page(
        self, *, host: str | None = None, rule: str = "", limit: int = 100, after: str = ""
    ) -> RowPage:
        query = page_queries.blocked(host=host, rule=rule, limit=limit, after=after)
        return await self._read(lambda sql: query.read(sql.db))

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        return await self._read(lambda sql: page_queries.robots_states(sql.db, hosts))

    async def blocked_lines(self, origin: str, *, limit: int = 100_000) -> dict[int, int]:
        return await self._read(lambda sql: page_queries.blocked_lines(sql.db, origin, limit))

    async def url(self, url: str) -> Row | None:
        return await self._read(lambda sql: _url(sql, url))

    async def host(self, host: str) -> Row | None:
        return await self._read(lambda sql: _host(sql, host))

    async def robots_copy(self, origin: str) -> RobotsState | None:
        def find(sql: Statements) -> RobotsState | None:
            row = sql.row("copy", origin)
            return None if row is None else read_copy(row)[1]

        return await self._read(find)

    async def robots_body(self, url: str) -> bytes | None:
        """The robots.txt a blocked URL was judged by, also when it has been replaced since."""

        def find(sql: Statements) -> bytes | None:
            found = _find(sql, url)
            row = None if found is None else sql.row("body_of_block", found[0])
            return zlib.decompress(row[0]) if row and isinstance(row[0], bytes) else None

        return await self._read(find)


class MemoryReader(SqliteReader):
    """`Reader` of the database of a `MemoryStore`, by the same connection. It never waits."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__("in memory")
        self._database = database

    async def _runner(self) -> Runner:
        return self._database

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        for row in report_queries.rows(self._database.db, kind):
            yield dict(zip(REPORTS[kind], row, strict=True))


def _next_rows(found: ViewRows, left: float, sql: Statements) -> list[Row]:
    return found.read(sql.db, int(min(left, ROWS_AT_ONCE))) if left > 0 else []


def _find(sql: Statements, url: str) -> tuple[int, int] | None:
    """Id and state of a URL (one that was read as a sitemap: `_READ`)."""
    try:
        origin = origin_of(url)
    except ValueError:
        return None
    row = sql.row("find_url", origin, fingerprints(sql.secret())(url))
    return None if row is None else (_int(row[0]), _int(row[1]))


def _url(sql: Statements, url: str) -> Row | None:
    found = _find(sql, url)
    if found is None:
        return None
    key, state = found
    row: dict[str, object] = {"url": url}
    common = sql.row("url_about", key)
    slot, origin, referrer, anchor, error, flags = common or (None,) * 6
    if state == OUT:
        row |= {"state": "skipped", "reason": error}
    else:
        view = "sitemaps" if state == _READ else STATE_VIEWS.get(state)  # type: ignore[call-overload]
        if view is None:
            raise DamagedError
        columns = VIEWS[view]
        query = f"SELECT {', '.join(columns)} FROM {view} WHERE id = ?"  # noqa: S608
        values = sql.db.execute(query, (key,)).fetchone()
        if values is None:
            raise DamagedError
        row |= dict(zip(columns, values, strict=True)) | {"state": view}
    row |= {"host": slot, "origin": origin, "referrer": referrer, "anchor": anchor}
    row["sitemap"] = bool(_int(flags) & SITEMAP)
    row["requisite"] = bool(_int(flags) & REQUISITE)
    row["seed"] = bool(_int(flags) & SEED)
    row["hops"] = hops_of(_int(flags))
    row["listing"] = _listing(sql, key)
    if state == UrlState.QUEUED:
        row["error"] = error
    return row


def _listing(sql: Statements, key: int) -> Row | None:
    columns = VIEWS["listings"]
    query = f"SELECT {', '.join(columns)} FROM listings WHERE id = ?"  # noqa: S608
    values = sql.db.execute(query, (key,)).fetchone()
    return None if values is None else dict(zip(columns, values, strict=True))


def _host(sql: Statements, host: str) -> Row | None:
    columns = VIEWS["hosts"]
    query = f"SELECT {', '.join(columns)}, id FROM hosts WHERE host = ?"  # noqa: S608
    values = sql.db.execute(query, (host,)).fetchone()
    if values is None:
        return None
    key = values[-1]
    contacts = sql.rows("contacts_of_slot", CONTACTS_KEPT, key)
    names = ("start_at", "end_at", "kind", "status")
    robots: list[Mapping[str, object]] = [
        dict(zip(VIEWS["robots"], row, strict=True)) for row in sql.rows("robots_of_slot", key)
    ]
    return {
        **dict(zip(columns, values, strict=False)),
        "contacts": [dict(zip(names, row, strict=True)) for row in contacts],
        "robots": robots,
    }


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0

"""Lists as files: CSV or JSON lines, written while they are read."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from aiohttp import web
from msgspec import structs

from crawler.console.command_forms import conditions, filter_of
from crawler.console.list_pages import LogFilter, UrlListFilter, blocked_filter
from crawler.console.rendering import PageHandlers
from crawler.daemon.list_responses import LogRow, SeedRow
from crawler.daemon.responses import HostRow
from crawler.daemon.robots_responses import BlockedRow
from crawler.explain.site_text import csv_text
from storage.columns import VIEWS
from storage.paging import ROWS_MAX

_Page = tuple[Sequence[Mapping[str, object]], str | None]  # rows, and `after`
TYPES: Final = {"csv": "text/csv", "jsonl": "application/jsonl"}
_HOST_COLUMNS: Final = tuple(one for one in HostRow.__struct_fields__ if one != "now")


class ListDownloads(PageHandlers):
    """Handlers of the downloads. Each has all rows that match the filter of its page."""

    async def hosts(self, request: web.Request) -> web.StreamResponse:
        """Yield the hosts by name, each as in GET /api/hosts without nested values (`now`)."""
        wanted = conditions(filter_of(request.query))

        async def page(after: str) -> _Page:
            found = await self.operations.hosts(**wanted, limit=ROWS_MAX, after=after)
            return [structs.asdict(row) for row in found.hosts], found.after

        return await _sent(request, "hosts", _HOST_COLUMNS, page)

    async def urls(self, request: web.Request) -> web.StreamResponse:
        """Yield the rows of GET /api/urls."""
        wanted = UrlListFilter.of(request.query)

        async def page(after: str) -> _Page:
            found = await self.operations.url_lists.urls(**structs.asdict(wanted), after=after)
            return found.urls, found.after

        return await _sent(request, f"{wanted.state}-urls", VIEWS.get(wanted.state, ()), page)

    async def blocked(self, request: web.Request) -> web.StreamResponse:
        """Yield the rows of GET /api/blocked."""
        wanted = blocked_filter(request.query)

        async def page(after: str) -> _Page:
            views = self.operations.robots_views
            found = await views.blocked(**wanted, limit=ROWS_MAX, after=after)
            return [structs.asdict(row) for row in found.blocked], found.after

        return await _sent(request, "blocked-urls", BlockedRow.__struct_fields__, page)

    async def seeds(self, request: web.Request) -> web.StreamResponse:
        """Yield the rows of GET /api/seeds."""
        text, state = request.query.get("text", ""), request.query.get("state", "")

        async def page(after: str) -> _Page:
            found = await self.operations.url_lists.seeds(text=text, state=state, after=after)
            return [structs.asdict(row) for row in found.seeds], found.after

        return await _sent(request, "seeds", SeedRow.__struct_fields__, page)

    async def log(self, request: web.Request) -> web.StreamResponse:
        """Yield the entries of GET /api/log. The values of an event are JSON in a CSV file."""
        wanted = LogFilter.of(request.query)

        async def page(after: str) -> _Page:
            found = await self.operations.log.lines(**structs.asdict(wanted), after=after)
            return [_log_row(row, request) for row in found.lines], found.after

        return await _sent(request, "log", LogRow.__struct_fields__, page)


def _log_row(row: LogRow, request: web.Request) -> Mapping[str, object]:
    values = structs.asdict(row)
    if request.match_info["kind"] == "csv":
        values["values"] = json.dumps(row.values, ensure_ascii=False)
    return values


async def _sent(
    request: web.Request,
    name: str,
    columns: Sequence[str],
    page: Callable[[str], Awaitable[_Page]],
) -> web.StreamResponse:
    """Send all pages as a file. page: returns the rows of one, and where the next one begins."""
    kind = request.match_info["kind"]
    answer = web.StreamResponse()
    answer.content_type, answer.charset = TYPES[kind], "utf-8"
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    after: str | None = ""
    while after is not None:
        rows, after = await page(after)
        if not answer.prepared:  # nothing is sent before the filter was accepted
            await answer.prepare(request)
            if kind == "csv":
                await answer.write(_csv([columns]))
        if kind == "csv":
            await answer.write(_csv([row[name] for name in columns] for row in rows))
        else:
            lines = (json.dumps({name: row[name] for name in columns}) + "\n" for row in rows)
            await answer.write("".join(lines).encode())
    await answer.write_eof()
    return answer


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    return csv_text(rows).encode("utf-8", "replace")

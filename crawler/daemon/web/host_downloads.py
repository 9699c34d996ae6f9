"""The list of hosts as a file: CSV or JSON lines, written while it is read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Final

from aiohttp import web
from msgspec import structs

from crawler.daemon.responses import HostRow
from crawler.daemon.web.host_filters import conditions, filter_of
from crawler.daemon.web.rendering import PageHandlers
from crawler.reports.exports import csv_cell
from storage.paging import ROWS_MAX

_TYPES: Final = {"csv": "text/csv", "jsonl": "application/jsonl"}


class HostDownloads(PageHandlers):
    """Handler of the downloads."""

    async def hosts(self, request: web.Request) -> web.StreamResponse:
        """All hosts that match the filter of the page, by name: what GET /api/hosts says of each,
        except what is nested (`now`)."""
        kind = request.match_info["kind"]
        wanted = conditions(filter_of(request.query))
        page = await self.operations.hosts(**wanted, limit=ROWS_MAX)
        answer = web.StreamResponse()  # nothing is sent before the filter was accepted
        answer.content_type, answer.charset = _TYPES[kind], "utf-8"
        answer.headers["Content-Disposition"] = f'attachment; filename="hosts.{kind}"'
        await answer.prepare(request)
        columns = [one for one in HostRow.__struct_fields__ if one != "now"]
        if kind == "csv":
            await answer.write(_csv([columns]))
        while True:
            rows = [structs.asdict(row) for row in page.hosts]
            if kind == "csv":
                await answer.write(_csv([row[name] for name in columns] for row in rows))
            else:
                lines = (json.dumps({name: row[name] for name in columns}) + "\n" for row in rows)
                await answer.write("".join(lines).encode())
            if page.after is None:
                break
            page = await self.operations.hosts(**wanted, limit=ROWS_MAX, after=page.after)
        await answer.write_eof()
        return answer


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")

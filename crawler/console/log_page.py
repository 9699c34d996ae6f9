"""The page of the log. It works without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Self

from aiohttp import web
from msgspec import Struct, structs

from crawler.console.filters import plain
from crawler.console.rendering import PageHandlers, link
from crawler.daemon.api.log_view import ACTIONS_FILTER, LEVELS
from crawler.daemon.list_responses import LogRow

LINES_PER_PAGE: Final = 50
_VALUE_CHARS: Final = 300  # of a value on the page; the downloads have all of it
# What a line is about: the first of these. The other values follow, with their names.
_LEADS: Final = ("message", "sentence", "what", "why", "problems")


class LogFilter(Struct, frozen=True, kw_only=True):
    """The filter of the page, as in its address: the arguments of `LogView.lines`."""

    level: str = ""
    event: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        return cls(**{name: query.get(name, "").strip() for name in cls.__struct_fields__})


class ShownLine(Struct, frozen=True, kw_only=True):
    """A line for people. url: what it is about, if that is a URL; lead: else. values: the rest, by
    name."""

    at: float
    level: str
    event: str
    url: str
    lead: str
    host: str
    values: tuple[tuple[str, str], ...]


class LogPages(PageHandlers):
    """The handler of the page."""

    async def log(self, request: web.Request) -> web.Response:
        wanted = LogFilter.of(request.query)
        query = structs.asdict(wanted)
        view, after = self.operations.log, request.query.get("after", "")
        found = await view.lines(**query, limit=LINES_PER_PAGE, after=after)
        values = {
            "wanted": wanted,
            "levels": LEVELS,
            "events": sorted({*view.events(), wanted.event} - {"", ACTIONS_FILTER}),
            "rows": [shown(row) for row in found.lines],
            "kept": found.kept,
            "written": found.written,
            "file": view.file,
            "after": after,
            "narrows": any(query.values()),
            "first": link("/log", query),
            "next": found.after and link("/log", {**query, "after": found.after}),
            "limit": LINES_PER_PAGE,
            "downloads": {kind: link(f"/log.{kind}", query) for kind in ("csv", "jsonl")},
        }
        return await self.page(request, "log", values)


def shown(row: LogRow) -> ShownLine:
    """A line as the page shows it."""
    values = {name: value for name, value in row.values.items() if value not in (None, [])}
    url, host = str(values.pop("url", "")), str(values.pop("host", ""))
    lead = next((values.pop(name) for name in _LEADS if name in values), "") if not url else ""
    return ShownLine(
        at=row.at,
        level=row.level,
        event=row.event,
        url=url,
        lead=_text(lead),
        host="" if url else host,
        values=tuple((plain(name), _text(value)) for name, value in values.items()),
    )


def _text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = "; ".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = plain(text)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"

"""The lists of queued, failed, visited and blocked URLs, of what was skipped, and the log. They
work without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Self, TypedDict

from aiohttp import web
from msgspec import Struct, structs

from crawler.console.filters import plain
from crawler.console.rendering import PageHandlers, link
from crawler.daemon.api.url_lists import ACTIONS_FILTER, LEVELS
from crawler.daemon.list_responses import LogRow
from crawler.daemon.problem import invalid
from crawler.daemon.robots_responses import BlockedRule
from storage.paging import ROWS_MAX
from storage.read_records import UrlList

URLS_PER_PAGE: Final = 50
_TITLES: Final = {
    UrlList.QUEUED: "Queued URLs",
    UrlList.FAILED: "Failed URLs",
    UrlList.VISITED: "Visited URLs",
}
BLOCKED_PER_PAGE: Final = 50
RULES_SHOWN: Final = 15
REASONS: Final = (
    ("", "any"),
    ("robots", "a line of robots.txt"),
    ("redirect", "a redirect to a blocked URL"),
    ("noindex-line", "a Noindex line"),
)
LINES_PER_PAGE: Final = 50
_VALUE_CHARS: Final = 300  # of a value on the page; the downloads have all of it
# What a line is about: the first of these. The other values follow, with their names.
_LEADS: Final = ("message", "sentence", "what", "why", "problems")


class UrlListFilter(Struct, frozen=True, kw_only=True):
    """The filter of a list, as in the address of its page: the arguments of `UrlLists.urls`."""

    state: str = UrlList.QUEUED
    host: str = ""
    text: str = ""
    code: str = ""
    status: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Raise Problem if `status` is no number."""
        given = {name: query.get(name, "").strip() for name in ("host", "text", "code")}
        status = query.get("status", "").strip()
        if status and not (status.isascii() and status.isdigit() and len(status) == 3):
            raise invalid("status", "must be an HTTP status such as 404")
        state = query.get("state", "").strip() or str(UrlList.QUEUED)
        return cls(state=state, status=int(status) if status else None, **given)

    @property
    def narrows(self) -> bool:
        """Whether it leaves out any URL of its state."""
        return bool(self.host or self.text or self.code or self.status)

    def query(self) -> dict[str, str]:
        """The query of an address."""
        return {name: str(value) for name, value in structs.asdict(self).items() if value}


class UrlListPages(PageHandlers):
    """Handlers of the lists."""

    async def urls(self, request: web.Request) -> web.Response:
        wanted = UrlListFilter.of(request.query)
        after = request.query.get("after", "")
        lists = self.operations.url_lists
        found = await lists.urls(**structs.asdict(wanted), limit=URLS_PER_PAGE, after=after)
        codes = (await lists.failures()).codes if wanted.state == UrlList.FAILED else ()
        query = wanted.query()
        values = {
            "wanted": wanted,
            "title": _TITLES[UrlList(wanted.state)],
            "rows": found.urls,
            "codes": codes,
            "after": after,
            "here": link("/urls", query),
            "of_all": link("/urls", {"state": wanted.state}),
            "next": found.after and link("/urls", {**query, "after": found.after}),
            "limit": URLS_PER_PAGE,
            "downloads": {kind: link(f"/urls.{kind}", query) for kind in ("csv", "jsonl")},
        }
        return await self.page(request, "urls", values)

    async def skipped(self, request: web.Request) -> web.Response:
        rows = (await self.operations.url_lists.skipped()).skipped
        return await self.page(request, "urls", {"rows": rows}, template="skipped")


class BlockedFilter(TypedDict):
    """The filter of the page, as the arguments of `RobotsViews.blocked`."""

    host: str
    rule: str
    exact: bool
    reason: str


def blocked_filter(query: Mapping[str, str]) -> BlockedFilter:
    """The filter in a query."""
    return {
        "host": query.get("host", "").strip(),
        "rule": query.get("rule", "").strip(),
        "exact": bool(query.get("exact")),
        "reason": query.get("reason", ""),
    }


class BlockedUrls(PageHandlers):
    """Handler of the page."""

    async def blocked(self, request: web.Request) -> web.Response:
        wanted, after = blocked_filter(request.query), request.query.get("after", "")
        fields = _fields(wanted)
        views = self.operations.robots_views
        found = await views.blocked(**wanted, limit=BLOCKED_PER_PAGE, after=after)
        values: dict[str, Any] = {"rules": None, "rows_of_rules": ()}
        if not after and not (wanted["host"] and wanted["exact"]):  # those are one group
            every = request.query.get("rules") == "all"
            rules = await views.blocked_rules(**wanted, limit=ROWS_MAX if every else RULES_SHOWN)
            values = {"rules": rules, "rows_of_rules": [(one, _link(one)) for one in rules.rules]}
        values |= {
            "fields": wanted,
            "after": after,
            "reasons": REASONS,
            "rows": found.blocked,
            "filtered": bool(fields),
            "first": link("/blocked", fields),
            "all_rules": link("/blocked", fields | {"rules": "all"}),
            "next": found.after and link("/blocked", fields | {"after": found.after}),
            "limit": BLOCKED_PER_PAGE,
            "downloads": {kind: link(f"/blocked.{kind}", fields) for kind in ("csv", "jsonl")},
        }
        return await self.page(request, "blocked", values)


def _fields(wanted: BlockedFilter) -> dict[str, str]:
    """The filter as a query."""
    given = {
        "host": wanted["host"],
        "rule": wanted["rule"],
        "exact": "1" if wanted["exact"] else "",
        "reason": wanted["reason"],
    }
    return {name: value for name, value in given.items() if value}


def _link(one: BlockedRule) -> str:
    """The page with the URLs of a group."""
    query = {"host": one.host, "rule": one.rule or "", "exact": "1", "reason": one.reason}
    return link("/blocked", query)


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

"""The page of blocked URLs: counted by rule and host first, then one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from aiohttp import web

from crawler.console.rendering import PageHandlers, link
from crawler.daemon.robots_responses import BlockedRule
from storage.paging import ROWS_MAX

BLOCKED_PER_PAGE: Final = 50
RULES_SHOWN: Final = 15
REASONS: Final = (
    ("", "any"),
    ("robots", "a line of robots.txt"),
    ("redirect", "a redirect to a blocked URL"),
    ("noindex-line", "a Noindex line"),
)


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

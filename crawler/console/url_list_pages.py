"""The lists of queued, failed and visited URLs, and of what was skipped. They work without
JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from aiohttp import web
from msgspec import Struct, structs

from crawler.console.rendering import PageHandlers, link
from crawler.daemon.problem import invalid
from storage.read_records import UrlList

URLS_PER_PAGE: Final = 50
_TITLES: Final = {
    UrlList.QUEUED: "Queued URLs",
    UrlList.FAILED: "Failed URLs",
    UrlList.VISITED: "Visited URLs",
}


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

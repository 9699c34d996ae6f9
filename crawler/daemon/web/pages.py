"""The pages that only look, hosts apart: each a GET that works without JavaScript."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from crawler.clock import Clock
from crawler.daemon.answering.answers import Answers
from crawler.daemon.problem import Problem
from crawler.daemon.shapes import UrlAnswer
from crawler.daemon.watching.watch import Watch
from crawler.daemon.web.facts import facts, sections
from crawler.daemon.web.frame import Frame, link
from crawler.daemon.web.overview import SPAN_DEFAULT, Overview
from crawler.daemon.web.render import Renderer
from policies.url import without_userinfo

BLOCKED_PER_PAGE: Final = 50


class Pages:
    """Handlers of the overview, of blocked URLs, of one URL and of the config."""

    def __init__(
        self, answers: Answers, watch: Watch, clock: Clock, renderer: Renderer, frame: Frame
    ) -> None:
        self._answers = answers
        self._clock = clock
        self._renderer = renderer
        self._frame = frame
        self._overview = Overview(answers, watch, clock)

    async def overview(self, request: web.Request) -> web.Response:
        values = await self._frame.values(request, "overview")
        values |= await self._overview.values(
            await self._answers.status(), span=request.query.get("span", SPAN_DEFAULT)
        )
        return self._renderer.response("overview.html", values)

    async def find(self, request: web.Request) -> web.Response:
        """Leads to the page of a host or of a URL, or to the hosts whose names are like it."""
        asked = without_userinfo(request.query.get("q", "").strip())
        if "/" in asked:
            raise web.HTTPSeeOther(link("/url", {"url": asked}))
        try:
            host = await self._answers.host(asked)
        except Problem:
            raise web.HTTPSeeOther(link("/hosts", {"search": asked})) from None
        raise web.HTTPSeeOther(link("/host", {"host": host["host"]}))

    async def blocked(self, request: web.Request) -> web.Response:
        asked = {
            "host": request.query.get("host", "").strip(),
            "rule": request.query.get("rule", "").strip(),
            "after": request.query.get("after", ""),
        }
        values = await self._frame.values(request, "blocked")
        found = await self._answers.blocked(**asked, limit=BLOCKED_PER_PAGE)
        words_asked = {key: value for key, value in asked.items() if key != "after"}
        values |= {
            "asked": asked,
            "rows": found["blocked"],
            "filtered": bool(asked["host"] or asked["rule"]),
            "first": link("/blocked", words_asked),
            "next": found["after"] and link("/blocked", words_asked | {"after": found["after"]}),
            "limit": BLOCKED_PER_PAGE,
        }
        return self._renderer.response("blocked.html", values)

    async def url(self, request: web.Request) -> web.Response:
        asked = without_userinfo(request.query.get("url", "").strip())
        values = await self._frame.values(request, "url")
        known: UrlAnswer | None = None
        status = 200
        if asked:
            try:
                known = await self._answers.url(asked)
            except Problem as problem:
                if problem.status >= 500:
                    raise
                values["problem"], status = problem.detail, problem.status
        shown = [] if known is None else facts(known["row"], self._clock.wall())
        values |= {"asked": asked, "known": known, "facts": shown}
        return self._renderer.response("url.html", values, status=status)

    async def config(self, request: web.Request) -> web.Response:
        asked = request.query.get("host", "").strip().lower()
        values = await self._frame.values(request, "config")
        values |= {"asked": asked, "sections": ()}
        status = 200
        try:
            found = await self._answers.config(asked)
            values["sections"] = sections(found["settings"])
        except Problem as problem:
            if problem.status >= 500:
                raise
            values["problem"], status = problem.detail, problem.status
        return self._renderer.response("config.html", values, status=status)

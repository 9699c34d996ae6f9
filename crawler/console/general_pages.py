"""The pages about one URL and the config, which work without JavaScript, and the search field."""

from __future__ import annotations

from aiohttp import web

from crawler.console.filters import facts, sections
from crawler.console.rendering import PageHandlers, link
from crawler.daemon.http.commands import REFUSAL
from crawler.daemon.problem import Problem
from crawler.daemon.responses import UrlAnswer
from crawler.operator_commands import Reload
from policies.url import without_userinfo


class GeneralPages(PageHandlers):
    """Handlers of the search field, one URL and the config."""

    async def find(self, request: web.Request) -> web.Response:
        """Redirect to the page of a host or URL, or to the hosts with similar names."""
        wanted = without_userinfo(request.query.get("q", "").strip())
        if "/" in wanted:
            raise web.HTTPSeeOther(link("/url", {"url": wanted}))
        try:
            host = await self.operations.host(wanted)
        except Problem:
            raise web.HTTPSeeOther(link("/hosts", {"search": wanted})) from None
        raise web.HTTPSeeOther(link("/host", {"host": host.host}))

    async def url(self, request: web.Request) -> web.Response:
        wanted = without_userinfo(request.query.get("url", "").strip())
        known: UrlAnswer | None = None
        error, status = None, 200
        if wanted:
            try:
                known = await self.operations.url(wanted)
            except Problem as problem:
                if problem.status >= 500:
                    raise
                error, status = problem.detail, problem.status
        shown = [] if known is None else facts(known.row, self.renderer.clock.wall())
        values = {"wanted": wanted, "known": known, "facts": shown, "problem": error}
        return await self.page(request, "urls", values, template="url", status=status)

    # ------------------------------------------------------------ the config

    async def config(self, request: web.Request) -> web.Response:
        wanted = request.query.get("host", "").strip().lower()
        values: dict[str, object] = {"wanted": wanted, "sections": ()}
        status = 200
        try:
            values["sections"] = sections((await self.operations.config(wanted)).settings)
        except Problem as problem:
            if problem.status >= 500:
                raise
            values["problem"], status = problem.detail, problem.status
        return await self.page(request, "config", values, status=status)

    async def reload(self, request: web.Request) -> web.Response:
        """GET shows what would change, POST applies it."""
        done = request.method == "POST"
        values: dict[str, object] = {"changes": (), "done": done, "problems": (), "notes": ()}
        status = 200
        try:
            found = await self.operations.execute(Reload(dry_run=not done))
        except Problem as problem:
            if problem.status not in (400, 409, 422):
                raise
            values |= {"problem": problem.detail, "problems": problem.problems or (problem.detail,)}
            request[REFUSAL] = "; ".join(problem.problems) or problem.detail
            status = problem.status
        else:
            values |= {
                "changes": found.changes,
                "notes": (
                    ("Takes effect after a restart", found.restart),
                    ("Valid, but probably unintended", found.warnings),
                ),
            }
        return await self.page(request, "config", values, template="reload", status=status)

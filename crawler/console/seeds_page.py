"""The page of seeds: a form to add some, and the list of all. It works without JavaScript.

A form that succeeded is answered by a redirect, so that reloading the page repeats nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from crawler.console.rendering import PageHandlers, form_of, link, number_in
from crawler.daemon.api.url_lists import SEED_STATES
from crawler.daemon.http.commands import REFUSAL
from crawler.daemon.problem import Problem, as_problems
from crawler.explain.formatting import counted
from crawler.operator_commands import AddSeeds

SEEDS_PER_PAGE: Final = 50


class SeedsPage(PageHandlers):
    """Handlers of the page of seeds."""

    async def seeds(self, request: web.Request) -> web.Response:
        result = ""
        if "added" in request.query:
            known = _whole(request.query.get("known", "0"))
            result = _seeds_result(_whole(request.query["added"]), known)
        return await self._seeds_page(request, {"urls": "", "priority": "0"}, result=result)

    async def add_seeds(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        fields = {"urls": form.get("urls", ""), "priority": form.get("priority") or "0"}
        urls = fields["urls"].split()
        if not urls:
            problem = "Enter at least one URL."
            return await self._seeds_page(request, fields, problem=problem, status=422)
        try:
            priority = number_in(fields, "priority")
            with as_problems():
                command = AddSeeds(urls=tuple(urls), priority=priority)
            done = await self.operations.execute(command)
        except Problem as error:
            request[REFUSAL] = error.detail
            return await self._seeds_page(
                request, fields, problem=error.detail, status=error.status
            )
        if not done.refused:
            query = urlencode({"added": done.added, "known": done.known})
            raise web.HTTPSeeOther(f"/seeds?{query}")
        return await self._seeds_page(
            request,
            {**fields, "urls": "\n".join(each.url for each in done.refused)},
            refused=done.refused,
            result=_seeds_result(done.added, done.known),
            status=200 if done.added or done.known else 422,
        )

    async def _seeds_page(
        self,
        request: web.Request,
        fields: Mapping[str, str],
        *,
        problem: str | None = None,
        refused: Sequence[object] = (),
        result: str = "",
        status: int = 200,
    ) -> web.Response:
        wanted = {name: request.query.get(name, "").strip() for name in ("text", "state", "after")}
        found = await self.operations.url_lists.seeds(**wanted, limit=SEEDS_PER_PAGE)
        query = {name: wanted[name] for name in ("text", "state")}
        values = {
            "fields": fields,
            "refused": refused,
            "result": result,
            "problem": problem,
            "wanted": wanted,
            "states": SEED_STATES,
            "filtered": any(query.values()),
            "rows": found.seeds,
            "first": link("/seeds", query),
            "next": found.after and link("/seeds", {**query, "after": found.after}),
            "limit": SEEDS_PER_PAGE,
            "downloads": {kind: link(f"/seeds.{kind}", query) for kind in ("csv", "jsonl")},
        }
        return await self.page(request, "seeds", values, status=status)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _seeds_result(added: int, known: int) -> str:
    new = f"{counted(added, 'new seed')} queued" if added else "No new seed"
    old = f"; {known:,} {'was' if known == 1 else 'were'} known already" if known else ""
    return f"{new}{old}."

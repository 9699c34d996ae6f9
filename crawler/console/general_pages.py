"""The pages about one URL, the config and the seeds, the robots tester, and the search field.

They work without JavaScript. A form that succeeded is answered by a redirect, so that reloading the
page repeats nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from crawler.console.filters import facts, sections
from crawler.console.rendering import PageHandlers, form_of, link, number_in
from crawler.console.robots_sheet import LineMark, sheet
from crawler.daemon.api.url_lists import SEED_STATES
from crawler.daemon.http.commands import REFUSAL
from crawler.daemon.problem import Problem, as_problems
from crawler.daemon.responses import CheckedUrl, UrlAnswer
from crawler.explain.formatting import counted
from crawler.operator_commands import AddSeeds, Reload
from policies.url import without_userinfo

SEEDS_PER_PAGE: Final = 50
FINDINGS_SHOWN: Final = 40  # of a file that is too long to be shown in full
URLS_MAX: Final = 50  # in one test
_FIELDS: Final = ("robots", "url", "agent", "urls")


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


class TesterPage(PageHandlers):
    """Handlers of the tester."""

    async def form(self, request: web.Request) -> web.Response:
        fields = {name: request.query.get(name, "") for name in _FIELDS}
        fields |= {"robots": "", "url": without_userinfo(fields["url"])}
        return await self.page(request, "tester", {"fields": fields, "results": ()})

    async def test(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        values: dict[str, object] = {"fields": {name: form.get(name, "") for name in _FIELDS}}
        status = 200
        try:
            values |= await self._results(form)
        except Problem as problem:
            values |= {"results": (), "problem": problem.detail}
            status = problem.status
        return await self.page(request, "tester", values, status=status)

    async def _results(self, form: Mapping[str, str]) -> dict[str, object]:
        urls = list(dict.fromkeys(form.get("urls", "").split()))
        if not urls:
            raise Problem(422, "Enter at least one URL or path to test.", field="urls")
        if len(urls) > URLS_MAX:
            raise Problem(422, f"Test at most {URLS_MAX} URLs at a time.", field="urls")
        pasted, site = form.get("robots", ""), form.get("url", "").strip()
        if pasted.strip() and site:
            raise Problem(422, "Paste a robots.txt or enter a site, not both.", field="url")
        if not pasted.strip() and not site:
            raise Problem(422, "Paste a robots.txt, or enter a site.", field="robots")
        agents = form.get("agent", "").replace(",", " ").split()
        checked = await self.operations.robots_check(
            urls=urls,
            robots=None if site else pasted,
            url=site or None,
            agent=agents,
            dialect="all",
        )
        by_url: dict[str, list[CheckedUrl]] = {}
        for verdict in checked.verdicts:
            by_url.setdefault(verdict.url, []).append(verdict)
        dialects = list(dict.fromkeys(verdict.dialect for verdict in checked.verdicts))
        marks = _marks(checked.verdicts, len(dialects))
        shown = None
        if checked.robots:
            shown = await sheet(checked.robots, name="tested", marks=marks, agents=agents)
        return {
            "results": [
                {"url": url, "verdicts": verdicts, "reasons": _reasons(verdicts)}
                for url, verdicts in by_url.items()
            ],
            "dialects": dialects,
            "summary": _summary(by_url, len(dialects)),
            "sheet": shown,
            "findings": () if shown is None else shown.findings[:FINDINGS_SHOWN],
            "robots_url": checked.robots_url,
        }


def _reasons(verdicts: Sequence[CheckedUrl]) -> list[dict[str, object]]:
    """One reason for all dialects with the same verdict by the same line."""
    found: dict[tuple[bool, int | None], list[CheckedUrl]] = {}
    for verdict in verdicts:
        found.setdefault((verdict.allowed, verdict.line), []).append(verdict)
    return [
        {"dialects": [each.dialect for each in alike], "reason": alike[0].reason}
        for alike in found.values()
    ]


def _summary(by_url: Mapping[str, Sequence[CheckedUrl]], dialects: int) -> str:
    split = sum(len({each.allowed for each in verdicts}) > 1 for verdicts in by_url.values())
    if not split:
        return f"All {dialects} dialects agree on every URL."
    return (
        f"The dialects disagree on {counted(split, 'URL')}; deviations from the first are marked."
    )


def _marks(verdicts: Sequence[CheckedUrl], dialects: int) -> dict[int, list[LineMark]]:
    """The effect of each deciding line, and its dialects."""
    deciding: dict[int, dict[bool, list[str]]] = {}
    for verdict in verdicts:
        if verdict.line is not None:
            by_side = deciding.setdefault(verdict.line, {})
            by_side.setdefault(verdict.allowed, []).append(verdict.dialect)
    marks: dict[int, list[LineMark]] = {}
    for line, sides in deciding.items():
        for allowed, repeated in sides.items():
            names = list(dict.fromkeys(repeated))
            where = "in all dialects" if len(names) == dialects else f"in {', '.join(names)}"
            kind, verb = ("allowed", "allows") if allowed else ("blocked", "blocks")
            marks.setdefault(line, []).append(LineMark(kind=kind, words=f"{verb} {where}"))
    return marks

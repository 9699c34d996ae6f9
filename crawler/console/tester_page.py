"""The robots tester: the verdict of every dialect on some URLs, and the lines that decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web

from crawler.console.rendering import PageHandlers, form_of
from crawler.console.robots_sheet import LineMark, sheet
from crawler.daemon.problem import Problem
from crawler.daemon.responses import CheckedUrl
from crawler.explain.formatting import counted
from policies.url import without_userinfo

FINDINGS_SHOWN: Final = 40  # of a file that is too long to be shown in full
URLS_MAX: Final = 50  # in one test
_FIELDS: Final = ("robots", "url", "agent", "urls")


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

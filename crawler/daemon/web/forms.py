"""The pages that do something: forms that are posted, and answered by a redirect where all went
well, so that a page loaded again does nothing twice. Where they come from is checked before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from crawler.daemon.answering.answers import Answers
from crawler.daemon.problem import Problem
from crawler.daemon.shapes import CheckedUrl
from crawler.daemon.web.frame import Frame
from crawler.daemon.web.render import Renderer
from crawler.daemon.web.sheet import Mark, sheet
from policies.url import without_userinfo

_BACK = re.compile(r"/hosts?(\?[!-~]{0,4000})?\Z")  # where a form about a host may lead back to
FINDINGS_SHOWN: Final = 40  # of a file too long to be shown whole
URLS_MAX: Final = 50  # of one test: times nine dialects that is a table still


class Forms:
    """Handlers of what is posted, and of the pages that have a form as their subject."""

    def __init__(self, answers: Answers, frame: Frame, renderer: Renderer) -> None:
        self._answers = answers
        self._frame = frame
        self._renderer = renderer

    # ------------------------------------------------------------ the crawl, a host

    async def pause(self, _: web.Request) -> web.Response:
        await self._answers.pause()
        raise web.HTTPSeeOther("/?said=paused")

    async def resume(self, _: web.Request) -> web.Response:
        await self._answers.resume()
        raise web.HTTPSeeOther("/?said=resumed")

    async def host_pause(self, request: web.Request) -> web.Response:
        given = await _form(request)
        host = given.get("host", "")
        await self._answers.host_pause(host)
        return _back(given, host, "host-paused")

    async def host_resume(self, request: web.Request) -> web.Response:
        given = await _form(request)
        host = given.get("host", "")
        await self._answers.host_resume(host)
        return _back(given, host, "host-resumed")

    async def host_slow(self, request: web.Request) -> web.Response:
        given = await _form(request)
        host = given.get("host", "")
        await self._answers.host_slow(host, _number(given, "delay_s"))
        return _back(given, host, "host-slowed")

    async def host_retry(self, request: web.Request) -> web.Response:
        given = await _form(request)
        host = given.get("host", "")
        if not host:  # without one, all hosts would be meant
            raise Problem(422, "host: must name a host", field="host")
        await self._answers.retry(host)
        return _back(given, host, "host-retried")

    # ------------------------------------------------------------ seeds

    async def seeds(self, request: web.Request) -> web.Response:
        return await self._seeds_page(request, {"urls": "", "priority": "0"})

    async def add_seeds(self, request: web.Request) -> web.Response:
        given = await _form(request)
        asked = {"urls": given.get("urls", ""), "priority": given.get("priority") or "0"}
        urls = asked["urls"].split()
        if not urls:
            empty = Problem(422, "Give at least one URL.", field="urls")
            return await self._seeds_page(request, asked, problem=empty)
        try:
            done = await self._answers.seeds(urls, _number(asked, "priority"))
        except Problem as problem:
            return await self._seeds_page(request, asked, problem=problem)
        if not done["refused"]:
            said = urlencode({"added": done["added"], "known": done["known"]})
            raise web.HTTPSeeOther(f"/seeds?{said}")
        left = {**asked, "urls": "\n".join(each["url"] for each in done["refused"])}
        return await self._seeds_page(
            request,
            left,
            refused=done["refused"],
            result=_seeds_words(done["added"], done["known"]),
            status=422 if not done["added"] and not done["known"] else 200,
        )

    async def _seeds_page(
        self,
        request: web.Request,
        asked: Mapping[str, str],
        *,
        problem: Problem | None = None,
        refused: Sequence[object] = (),
        result: str = "",
        status: int = 200,
    ) -> web.Response:
        values = await self._frame.values(request, "seeds")
        if not result and request.method == "GET" and "added" in request.query:
            result = _seeds_words(
                _whole(request.query["added"]), _whole(request.query.get("known", "0"))
            )
        values |= {
            "asked": asked,
            "refused": refused,
            "result": result,
            "problem": None if problem is None else problem.detail,
        }
        return self._renderer.response(
            "seeds.html", values, status=status if problem is None else problem.status
        )

    # ------------------------------------------------------------ config

    async def reload(self, request: web.Request) -> web.Response:
        """GET says what would change, POST changes it."""
        done = request.method == "POST"
        values = await self._frame.values(request, "config")
        status = 200
        values |= {"changes": (), "done": done, "problems": (), "notes": ()}
        try:
            found = await self._answers.reload(dry_run=not done)
        except Problem as problem:
            if problem.status not in (400, 409, 422):
                raise
            values |= {"problem": problem.detail, "problems": problem.problems or (problem.detail,)}
            status = problem.status
        else:
            values |= {
                "changes": found["changes"],
                "notes": (
                    ("Only after a restart", found.get("restart", ())),
                    ("Allowed, but probably not meant", found.get("warnings", ())),
                ),
            }
        return self._renderer.response("reload.html", values, status=status)

    # ------------------------------------------------------------ the robots tester

    async def tester(self, request: web.Request) -> web.Response:
        asked = {
            "robots": "",
            "url": without_userinfo(request.query.get("url", "")),
            "agent": request.query.get("agent", ""),
            "urls": request.query.get("urls", ""),
        }
        return await self._tester_page(request, asked)

    async def test(self, request: web.Request) -> web.Response:
        given = await _form(request)
        asked = {key: given.get(key, "") for key in ("robots", "url", "agent", "urls")}
        try:
            return await self._tester_page(request, asked, results=await self._tested(asked))
        except Problem as problem:
            return await self._tester_page(request, asked, problem=problem)

    async def _tested(self, asked: Mapping[str, str]) -> dict[str, object]:
        urls = list(dict.fromkeys(asked["urls"].split()))
        if not urls:
            raise Problem(422, "Give at least one URL or path to test.", field="urls")
        if len(urls) > URLS_MAX:
            raise Problem(422, f"Test at most {URLS_MAX} URLs at once.", field="urls")
        pasted, site = asked["robots"], asked["url"].strip()
        if pasted.strip() and site:
            raise Problem(422, "Paste a file or name a site, not both.", field="url")
        if not pasted.strip() and not site:
            raise Problem(422, "Paste a robots.txt, or name the site it is of.", field="robots")
        agents = asked["agent"].replace(",", " ").split()
        checked = await self._answers.robots_check(
            urls=urls,
            robots=None if site else pasted,
            url=site or None,
            agent=agents,
            dialect=("all",),
        )
        by_url: dict[str, list[CheckedUrl]] = {}
        for verdict in checked["verdicts"]:
            by_url.setdefault(verdict["url"], []).append(verdict)
        dialects = list(dict.fromkeys(verdict["dialect"] for verdict in checked["verdicts"]))
        body = checked.get("robots")
        marks = _marks(checked["verdicts"], len(dialects))
        shown = None if not body else await sheet(body, name="tested", marks=marks, agents=agents)
        return {
            "results": [
                {"url": url, "cells": _cells(verdicts), "words": _in_words(verdicts)}
                for url, verdicts in by_url.items()
            ],
            "dialects": dialects,
            "verdict_words": _verdict_words(by_url, len(dialects)),
            "sheet": shown,
            "findings": () if shown is None else shown.findings[:FINDINGS_SHOWN],
            "robots_url": checked.get("robots_url"),
        }

    async def _tester_page(
        self,
        request: web.Request,
        asked: Mapping[str, str],
        *,
        results: Mapping[str, object] | None = None,
        problem: Problem | None = None,
    ) -> web.Response:
        values = await self._frame.values(request, "tester")
        values |= {"asked": asked, "results": (), **(results or {})}
        values["problem"] = None if problem is None else problem.detail
        return self._renderer.response(
            "tester.html", values, status=200 if problem is None else problem.status
        )


# ---------------------------------------------------------------- helpers


async def _form(request: web.Request) -> dict[str, str]:
    """The fields of a posted form that are text."""
    return {key: value for key, value in (await request.post()).items() if isinstance(value, str)}


def _number(given: Mapping[str, str], name: str) -> float:
    text = given.get(name, "")
    try:
        return float(text)
    except ValueError:
        raise Problem(422, f"“{text[:60]}” is not a number.", field=name) from None


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _back(given: Mapping[str, str], host: str, said: str) -> web.Response:
    back = given.get("back", "")
    path = back if _BACK.match(back) else "/hosts"
    told = {"said": said} if path.startswith("/host?") else {"said": said, "host": host}
    raise web.HTTPSeeOther(f"{path}{'&' if '?' in path else '?'}{urlencode(told)}")


def _seeds_words(added: int, known: int) -> str:
    new = "No new seed" if not added else f"{added:,} new seed{'' if added == 1 else 's'} queued"
    met = f"; {known:,} {'was' if known == 1 else 'were'} known already" if known else ""
    return f"{new}{met}."


def _cells(verdicts: Sequence[CheckedUrl]) -> list[dict[str, object]]:
    """One for each dialect; those that say other than the first stand out."""
    first = verdicts[0]["allowed"]
    return [{**verdict, "differs": verdict["allowed"] != first} for verdict in verdicts]


def _in_words(verdicts: Sequence[CheckedUrl]) -> list[dict[str, object]]:
    """Dialects that say the same by the same line share a sentence, that of the first of them."""
    found: dict[tuple[bool, int | None], list[CheckedUrl]] = {}
    for verdict in verdicts:
        found.setdefault((verdict["allowed"], verdict["line"]), []).append(verdict)
    return [
        {"dialects": [each["dialect"] for each in alike], "reason": alike[0]["reason"]}
        for alike in found.values()
    ]


def _verdict_words(by_url: Mapping[str, Sequence[CheckedUrl]], dialects: int) -> str:
    split = sum(len({each["allowed"] for each in verdicts}) > 1 for verdicts in by_url.values())
    if not split:
        return f"All {dialects} dialects agree on every URL."
    urls = "URL" if split == 1 else "URLs"
    return f"The dialects differ on {split} {urls}; what differs from the first column is marked."


def _marks(verdicts: Sequence[CheckedUrl], dialects: int) -> dict[int, list[Mark]]:
    """What each line decided: in which dialects, and how many URLs if there are several."""
    deciding: dict[int, dict[bool, list[CheckedUrl]]] = {}
    for verdict in verdicts:
        if verdict["line"] is not None:
            by_side = deciding.setdefault(verdict["line"], {})
            by_side.setdefault(verdict["allowed"], []).append(verdict)
    marks: dict[int, list[Mark]] = {}
    for line, sides in deciding.items():
        for allowed, alike in sides.items():
            names = list(dict.fromkeys(each["dialect"] for each in alike))
            who = "in all dialects" if len(names) == dialects else f"in {', '.join(names)}"
            kind = "allowed" if allowed else "blocked"
            marks.setdefault(line, []).append(
                Mark(kind=kind, words=f"{'allows' if allowed else 'blocks'} {who}")
            )
    return marks

"""Requisites of pages: style sheets that import others, and their recrawls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from crawler.processing.page_requisites import DEPTH_MAX
from crawler.sinks import requisites
from crawler.testing import LocalWeb, ReceivedRequest, Reply, html
from policies.scope import Skip

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POLITE = {"delay": 0, "latency_factor": 0}
STYLE = '<link rel="stylesheet" href="/s/0.css">'


@pytest.mark.parametrize("how", ["scope", "mirror"])
async def test_style_sheets_that_import_new_ones_without_end(courtly: Courtly, how: str) -> None:
    def style(asked: ReceivedRequest) -> Reply:
        number = int(asked.path.removeprefix("/s/").partition(".")[0]) + 1
        body = f'@import "/s/{number}.css"; @import "/s/{number}.css?again";'
        return Reply(body=body, content_type="text/css")

    names = [f"/s/{n}.css{query}" for n in range(DEPTH_MAX + 5) for query in ("", "?again")]
    site = {"/": html("Home", head=STYLE)} | dict.fromkeys(names, style)
    if how == "mirror":
        courtly.sink("mirror", "copy")
    async with LocalWeb({"a.test": site}) as web:
        scope = {"requisites": how == "scope"}
        await courtly.crawl(web, "a.test", politeness=POLITE, scope=scope)
        read = {url.partition("/s/")[2] for (url,) in courtly.rows("visited", "url")} - {""}
        both = {f"{n}.css{query}" for n in range(1, DEPTH_MAX + 1) for query in ("", "?again")}
        assert read == {"0.css", *both}
        assert courtly.rows("failed", "url") == []
        last = f"{web.url('a.test', f'/s/{DEPTH_MAX}.css')}"
        cut = dict(courtly.rows("visited", "url, cut"))
        reason = str(Skip.MANY_REQUISITES)
        assert {url for url, said in cut.items() if said == reason} == {last, f"{last}?again"}
        assert courtly.rows("skipped", "reason, count") == [(reason, 4)]


async def test_more_requisites_than_are_fetched_leave_a_trace(
    courtly: Courtly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requisites, "REQUISITES_MAX", 1)
    site = {"/": html("Home", body='<img src="a.png"><img src="b.png"><img src="c.png">')}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE, scope={"requisites": True})
        reason = str(Skip.MANY_REQUISITES)
        assert dict(courtly.rows("visited", "url, cut"))[web.url("a.test")] == reason
        assert courtly.rows("skipped", "reason, count") == [(reason, 1)]


async def test_style_sheets_of_other_hosts_are_visited_again(courtly: Courtly) -> None:
    site: dict[str, Reply] = {}
    other = {"/s.css": Reply(body="p { color: red }", content_type="text/css")}
    async with LocalWeb({"a.test": site, "b.test": other}) as web:
        sheet = web.url("b.test", "/s.css")
        site["/"] = html("Home", head=f'<link rel="stylesheet" href="{sheet}">')
        scope = {"requisites": True}
        revisit = {"mode": "fixed", "interval": "1s"}
        for _ in range(2):
            await courtly.crawl(web, "a.test", politeness=POLITE, scope=scope, revisit=revisit)
            await asyncio.sleep(1.1)
        visits = dict(courtly.rows("visited", "url, visits"))
        assert visits[sheet] == visits[web.url("a.test")] == 2

"""Recrawls on a real server: conditional requests, changes, and a kill in between."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from crawler.clock import RealClock
from crawler.testing import Handler, LocalWeb, ReceivedRequest, Reply, html, text

SOON = {"mode": "fixed", "interval": 0.4}
LATER = {"mode": "fixed", "interval": "1h"}
WALL_S = time.time()


async def test_conditional_requests_and_what_comes_of_them(courtly: Any) -> None:
    asked: list[ReceivedRequest] = []
    told = {"ETag": 'W/"7"', "Last-Modified": "Tue, 05 Mar 2024 10:30:00 GMT"}

    def still(one: ReceivedRequest) -> Reply:
        asked.append(one)
        if one.headers.get("if-none-match") == 'W/"7"':
            return Reply(status=304, headers=told)
        return Reply(body=html("Still", "/moving", "/gone").body, headers=told)

    def moving(_: ReceivedRequest) -> Reply:
        return html(f"{time.monotonic()}", f"/new/{len(asked)}")

    async with LocalWeb() as web:
        site: dict[str, Reply | Handler] = {
            "/robots.txt": text("User-agent: *\nDisallow: /x\n"),
            "/": still,
            "/moving": moving,
            "/gone": html("Here today"),
        }
        web.sites["a.test"] = site
        await courtly.crawl(web, "a.test", revisit=LATER)
        del site["/gone"]
        courtly.make_due()
        await courtly.crawl(web, "a.test", revisit=LATER)
        seed = web.url("a.test")
    first, second = asked[0], asked[1]
    assert "if-none-match" not in first.headers
    assert second.headers["if-none-match"] == 'W/"7"'
    assert second.headers["if-modified-since"] == told["Last-Modified"]
    pages = {
        url.removeprefix(seed): row
        for url, *row in courtly.rows(
            "visited",
            "url, status, title, visits, changed_at = fetched_at, next_visit_at > checked_at",
        )
    }
    assert pages[""] == [200, "Still", 2, 1, 1]
    assert pages["moving"][2:] == [2, 1, 1]
    assert pages["gone"][0] == 404
    assert {"new/1", "new/2"} <= set(pages)
    (breaches,) = courtly.rows("hosts", "breaches")
    assert breaches == (0,)


async def test_a_page_is_fetched_and_changed_at_the_same_time(
    courtly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to make the outcome of an answer."""
    reads = itertools.count()
    monkeypatch.setattr(RealClock, "wall", staticmethod(lambda: WALL_S + 0.002 * next(reads)))
    async with LocalWeb() as web:
        web.sites["a.test"] = {"/": html("A", "/b"), "/b": html("B")}
        await courtly.crawl(web, "a.test", revisit=LATER)
    times = courtly.rows("visited", "changed_at = fetched_at, checked_at = fetched_at")
    assert times == [(1, 1), (1, 1)]


async def test_a_crawl_killed_while_it_visits_again_loses_no_page(courtly: Any) -> None:
    slow = False

    def page(_: ReceivedRequest) -> Reply:
        return Reply(body=html("Page").body, delay_s=0.3 if slow else 0.0)

    async with LocalWeb() as web:
        web.sites["a.test"] = {
            "/": html("Home", *(f"/{n}" for n in range(8))),
            **{f"/{n}": page for n in range(8)},
        }
        await courtly.crawl(web, "a.test", revisit=LATER)
        courtly.make_due()
        slow = True
        begun = len(web.log.requests("a.test"))
        async with courtly.process(web, web.url("a.test"), revisit=SOON) as process:
            for _ in range(500):
                if len(web.log.requests("a.test")) > begun + 3:
                    break
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
        assert len(courtly.rows("visited")) == 9
        slow = False
        await courtly.crawl(web, "a.test", revisit=LATER)
    assert [visits for (visits,) in courtly.rows("visited", "visits")] >= [2] * 9
    assert courtly.rows("queued") == []

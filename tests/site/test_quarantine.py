"""A URL or robots.txt during which the process dies twice is quarantined, and the crawl completes
without it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect, text
from storage.sqlite.maintenance import check
from tests.site.commands import retried

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POISON = "/poison"
PATHS = ["/", *(f"/{n}" for n in range(8)), POISON]


async def run(courtly: Courtly, web: LocalWeb, how: str, *seeds: str) -> int | None:
    config = courtly.config(web, robots={"unreachable": "open"})
    given = json.dumps([config, str(courtly.db), seeds, how])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.site.poisoned", given, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(60):
        return await process.wait()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", ["SIGSEGV", "exit"])
async def test_a_page_that_kills_the_process_is_quarantined(courtly: Courtly, how: str) -> None:
    page = html("A", *PATHS)
    died = -signal.SIGSEGV if how == "SIGSEGV" else 3
    async with LocalWeb({"a.test": dict.fromkeys(PATHS, page)}) as web:
        assert await run(courtly, web, how, web.url("a.test")) == died
        assert await run(courtly, web, how, web.url("a.test")) == died
        assert await run(courtly, web, how, web.url("a.test")) == 0
        assert courtly.urls("failed") == [web.url("a.test", POISON)]
        ((error,),) = courtly.rows("failed", "error")
        assert error.startswith("quarantined: ")
        assert courtly.urls("queued") == []
        assert len(courtly.urls("visited")) == len(PATHS) - 1
        assert await retried(courtly.db, code="quarantined") == 1
        assert courtly.urls("queued") == [web.url("a.test", POISON)]
        assert check(courtly.db) == []


@pytest.mark.timeout(240)
async def test_a_clean_stop_makes_no_suspect(courtly: Courtly) -> None:
    """SIGTERM while a page hangs, several times."""
    asked = asyncio.Event()

    def hangs(_: ReceivedRequest) -> Reply:
        asked.set()
        return Reply(body="late", delay_s=2.0)

    async with LocalWeb({"a.test": {"/": html("A", "/slow"), "/slow": hangs}}) as web:
        for _ in range(2):
            asked.clear()
            async with courtly.process(web, web.url("a.test")) as process:
                await asyncio.wait_for(asked.wait(), 20)
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGINT)
                await asyncio.wait_for(process.wait(), 20)
            if courtly.urls("visited", "url LIKE '%slow'"):
                break
        assert courtly.urls("failed") == []
        assert not courtly.db.with_name("crawl.db.inflight").exists()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", ["own", "hop", "kept"])
async def test_a_robots_txt_that_kills_the_process_is_quarantined(
    courtly: Courtly, way: str
) -> None:
    """Its origin is closed although robots.unreachable is "open"; everything else is crawled."""
    deadly = text("User-agent: *\nDisallow: /no\n# poison\n")
    page = html("A", *PATHS[:4])
    good = [f"good{n}.test" for n in range(5)]
    sites = {host: dict.fromkeys(PATHS[:4], page) for host in ["bad.test", *good]}
    async with LocalWeb(sites) as web:
        sites["bad.test"]["/robots.txt"] = deadly
        if way == "hop":
            web.sites["worse.test"] = {"/robots.txt": deadly}
            sites["bad.test"]["/robots.txt"] = redirect(web.url("worse.test", "/robots.txt"))
        if way == "kept":
            assert await run(courtly, web, "never", web.url("bad.test", "/7")) == 0
        seeds = [web.url(host) for host in ["bad.test", *good]]
        asked = len(web.log.paths("bad.test"))
        assert await run(courtly, web, "SIGSEGV", *seeds) == -signal.SIGSEGV
        assert await run(courtly, web, "SIGSEGV", *seeds) == -signal.SIGSEGV
        assert await run(courtly, web, "SIGSEGV", *seeds) == 0
        assert {*web.log.paths("bad.test")[asked:]} <= {"/robots.txt"}
        assert courtly.urls("failed") == []
        assert courtly.urls("queued") == [web.url("bad.test")]
        assert len(courtly.urls("visited", "url LIKE '%good%'")) == len(good) * 4
        closed = courtly.rows("robots", "origin", "error LIKE 'quarantined: %'")
        assert (web.url("bad.test")[:-1],) in closed
        assert check(courtly.db) == []

        assert await retried(courtly.db, code="quarantined") == len(closed)
        assert await run(courtly, web, "never") == 0
        assert courtly.urls("queued") == []
        assert len(courtly.urls("visited", "url LIKE '%bad%'")) == 4 + (way == "kept")
        assert courtly.rows("robots", "origin", "error IS NOT NULL AND origin LIKE '%bad%'") == []


@pytest.mark.timeout(240)
async def test_a_sitemap_that_kills_the_process_is_quarantined(courtly: Courtly) -> None:
    page = html("A", *PATHS[:4])
    async with LocalWeb({"a.test": dict.fromkeys(PATHS[:4], page)}) as web:
        sitemap = web.url("a.test", "/sitemap.xml")
        found = web.url("a.test", "/found")
        web.sites["a.test"] = {
            **dict.fromkeys(PATHS[:4], page),
            "/found": page,
            "/robots.txt": text(f"Sitemap: {sitemap}\n"),
            "/sitemap.xml": text(f"<urlset><!-- poison --><url><loc>{found}</loc></url></urlset>"),
        }
        seed = web.url("a.test")
        assert await run(courtly, web, "SIGSEGV", seed) == -signal.SIGSEGV
        assert await run(courtly, web, "SIGSEGV", seed) == -signal.SIGSEGV
        assert await run(courtly, web, "SIGSEGV", seed) == 0
        assert courtly.urls("failed", "error LIKE 'quarantined: %'") == [sitemap]
        assert len(courtly.urls("visited")) == 4
        assert await retried(courtly.db, code="quarantined") == 1
        assert await run(courtly, web, "never") == 0
        assert found in courtly.urls("visited")
        assert check(courtly.db) == []

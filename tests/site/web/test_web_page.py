"""The daemon's page in a real browser, with a real daemon that crawls a local web."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from crawler.app import open_crawl
from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.console import application
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.service import operations_of
from crawler.observer import Contacted, Observer
from crawler.testing import LocalWeb, Reply, hang_up, html, redirect, text
from tests.site.web.conftest import LOOKS

# What a title, a link and a line of robots.txt may be made of. Each part would say so if it ran.
HOSTILE = "\"'><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>"
TOKEN = "a-token-of-some-length"


def a_web(web_: LocalWeb) -> None:
    """Sites: busy, with a Crawl-delay, hostile, refusing, broken; and one that does not exist."""
    pages: dict[str, Reply] = {
        f"/{number}": html(f"Page {number}", *(f"/{number * 5 + more}" for more in range(1, 6)))
        for number in range(400)
    }
    robots = "User-agent: *\nDisallow: /private/\n"
    web_.sites["busy.test"] = {
        **pages,
        "/robots.txt": text(robots),
        "/": html("Busy", "/1", "/private/a", "/gone", web_.url("hostile.test"),
                  web_.url("careful.test"), web_.url("refuses.test"), web_.url("broken.test"),
                  "http://nobody.test:1/"),
        "/gone": redirect("/private/b"),
    }  # fmt: skip
    web_.sites["careful.test"] = {
        "/robots.txt": text("User-agent: *\nCrawl-delay: 30\n"),
        "/": html("Careful", "/a"),
        "/a": html("A"),
    }
    web_.sites["broken.test"] = {"/robots.txt": text(""), "/": hang_up()}
    web_.sites["refuses.test"] = {"/": Reply(status=503, headers={"Retry-After": "3600"})}
    web_.sites["hostile.test"] = {
        "/robots.txt": text(f"User-agent: *\nDisallow: /no{HOSTILE}\n# {HOSTILE}\nDisallow: /b\n"),
        "/": html(HOSTILE, "/ok", f"/b{HOSTILE}", head=f"<meta name='x' content='{HOSTILE}'>"),
        "/ok": html(HOSTILE),
    }


class Seen(Observer):
    """An observer that can be waited for."""

    def __init__(self) -> None:
        self._contacts: Counter[str] = Counter()
        self._news = asyncio.Event()

    def contacted(self, seen: Contacted) -> None:
        self._contacts[seen.slot] += 1
        self._news.set()

    async def contacts(self, *hosts: str, least: int = 2) -> None:
        """Wait until each of these hosts has had that number of contacts."""
        async with asyncio.timeout(20):
            while any(self._contacts[host] < least for host in hosts):
                self._news.clear()
                await self._news.wait()


class Daemon:
    """The URL of the pages, the observer and the database file."""

    def __init__(self, base: str, local: LocalWeb, db: Path, seen: Seen) -> None:
        self.base = base
        self.web = local
        self.seen = seen
        self._db = db

    def url(self, path: str) -> str:
        return self.base + path

    def row(self, sql: str) -> Any:
        with closing(sqlite3.connect(f"file:{self._db}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchone()


@asynccontextmanager
async def daemon(folder: Path, token: str = "") -> AsyncIterator[Daemon]:
    async with LocalWeb() as local:
        a_web(local)
        db = folder / "crawl.db"
        config = from_dict(
            local.config(
                crawl={"user_agent": "pagebot/1.0 (+https://example.com/bot)"},
                scope={"follow": "any", "include": ["http://*.test:*"]},
                fetch={"max_attempts": 1},
                politeness={"delay": 0.05},
                storage={"url": f"sqlite:{db}"},
            )
        )
        monitor, seen = Monitor(RealClock()), Seen()
        seeds = [local.url("busy.test")]
        observers = (seen, *monitor.observers)
        async with (
            open_crawl(config, seeds=seeds, runs_forever=True, observers=observers) as opened,
            operations_of(opened, monitor) as operations,
            monitor.sampling(opened.control, operations.queue),
            asyncio.TaskGroup() as tasks,
        ):
            app = application(operations, HttpSettings(token=token), monitor)
            runner = web.AppRunner(app, shutdown_timeout=1.0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            crawl = tasks.create_task(opened.scheduler.run())
            try:
                port = runner.addresses[0][1]
                yield Daemon(f"http://127.0.0.1:{port}", local, db, seen)
            finally:
                monitor.stream.close()
                await runner.cleanup()
                opened.control.stop()
                await crawl


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with daemon(tmp_path) as there:
        yield there


def pages(running: Daemon) -> list[str]:
    hostile = quote(running.web.url("hostile.test"), safe="")
    return [
        "/",
        "/hosts",
        "/hosts?search=nothing-like-this",
        "/host?host=busy.test",
        "/host?host=hostile.test",
        "/host?host=refuses.test",
        "/urls",
        "/urls?state=visited&status=200",
        "/urls?state=failed",
        "/urls/skipped",
        "/blocked",
        "/url",
        f"/url?url={hostile}",
        "/tester",
        "/seeds",
        "/history",
        "/config?host=busy.test",
        "/config/reload",
        "/no-such-page",
    ]


TESTED = f"User-agent: *\nDisallow: /private/\nAllow: /private/open\n# {HOSTILE}\n"


async def tested(tab: Any, running: Daemon) -> None:
    """Use the robots tester and stay on its verdicts."""
    await tab.goto(running.url("/tester"))
    await tab.fill("#robots", TESTED)
    await tab.fill("#agent", "examplebot")
    await tab.fill("#urls", f"/private/open/x\n/private/\n/{HOSTILE.replace(' ', '')}")
    await tab.click("main form button")


async def test_an_operator_pauses_and_resumes_the_crawl_and_a_host(
    tab: Any, running: Daemon
) -> None:
    await running.seen.contacts("busy.test")
    await tab.goto(running.url("/"))
    assert await tab.text("h1") == "Running"
    await tab.click("button.stop")
    assert await tab.text("h1") == "Paused"
    assert "No new requests are started" in await tab.text(".said")
    await tab.click("#steer button.go")
    assert await tab.text("h1") == "Running"

    await tab.goto(running.url("/hosts?search=busy"))
    await tab.click("tr td.act button")
    assert "busy.test is paused" in await tab.text(".said")
    assert running.row("SELECT paused FROM hosts WHERE host = 'busy.test'") == (1,)
    assert await tab.text("tr td.mood") == "paused"
    await tab.click("tbody th a.host")
    assert (await tab.text("#steer-host button")).split() == ["Resume", "busy.test"]
    await tab.click("#steer-host button")
    assert running.row("SELECT paused FROM hosts WHERE host = 'busy.test'") == (0,)
    await tab.fill("#delay", "7")
    await tab.click(".slow button")
    assert running.row("SELECT slow_s FROM hosts WHERE host = 'busy.test'") == (7.0,)
    assert "slowed" in await tab.text("#why")
    assert not tab.errors


async def test_a_seed_that_is_added_is_crawled_and_one_that_is_none_is_explained(
    tab: Any, running: Daemon
) -> None:
    running.web.sites["new.test"] = {"/": html("New")}
    await tab.goto(running.url("/seeds"))
    await tab.fill("#urls", running.web.url("new.test") + "\nexample.org")
    await tab.click("main form button")
    assert "1 new seed queued" in await tab.text(".said")
    assert await tab.js("document.activeElement.className") == "said", "what came of it is read out"
    assert "example.org" in await tab.text(".refused")
    assert await tab.js("document.querySelector('#urls').value") == "example.org"
    await running.seen.contacts("new.test")
    await tab.fill("#urls", running.web.url("busy.test"))
    await tab.click("main form button")
    assert "1 was known already" in await tab.text(".said")


async def test_failed_urls_are_found_by_code_dropped_and_gone(tab: Any, running: Daemon) -> None:
    async with asyncio.timeout(20):
        while running.row("SELECT count(*) FROM failed") == (0,):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await tab.goto(running.url("/urls?state=failed"))
    await tab.click(".codes tbody th a")
    assert "broken.test" in await tab.text(".urls tbody")
    await tab.click("details.confirm summary", loads=False)
    await tab.click("details.confirm button")
    assert "1 URL dropped" in await tab.text(".said")
    assert "No URL has failed" in await tab.text("main")
    await tab.goto(running.url("/urls/skipped"))
    assert "an operator dropped it" in await tab.text(".codes")
    assert not tab.errors


async def test_the_tester_shows_dialects_side_by_side_and_the_lines_that_decided(
    tab: Any, running: Daemon
) -> None:
    await tested(tab, running)
    heads = await tab.text(".grid-table thead")
    assert "slurp" in heads
    assert "google" in heads
    assert "/private/open/x" in await tab.text(".grid-table tbody tr")
    assert "line 3" in await tab.text(".grid-table tbody tr")
    assert "Disallow: /private/" in await tab.text("#tested-L2")
    assert await tab.js("document.querySelectorAll('.sheet tr.hit').length") == 2
    assert "disagree on 1 URL" in await tab.text(".verdicts")


async def test_a_robots_txt_that_the_crawl_has_is_tested_by_the_name_of_its_site(
    tab: Any, running: Daemon
) -> None:
    await running.seen.contacts("hostile.test")
    await tab.goto(running.url("/tester?url=" + quote(running.web.url("hostile.test"), safe="")))
    await tab.fill("#urls", "/b")
    await tab.click("main form button")
    assert "Disallow: /b" in await tab.text("#tested-L4")


async def test_nothing_that_the_web_wrote_runs(tab: Any, running: Daemon) -> None:
    await running.seen.contacts("hostile.test", "refuses.test")
    for path in pages(running):
        await tab.goto(running.url(path))
        own = "[...document.scripts].every((s) => new URL(s.src).origin === location.origin)"
        assert await tab.js(own)
        assert not await tab.js(
            "document.querySelectorAll('[onerror], [onload], img[src=x]').length"
        )
    await tab.goto(running.url("/url?url=" + quote(running.web.url("hostile.test"), safe="")))
    assert "<script>alert(2)</script>" in await tab.text("main")
    await tab.goto(running.url("/host?host=hostile.test"))
    assert "<script>alert(2)</script>" in await tab.text(".sheet")
    await tested(tab, running)
    assert "<script>alert(2)</script>" in await tab.text(".sheet")
    assert not tab.dialogs
    refused = [error for error in tab.errors if "Content Security Policy" in error]
    assert not refused


async def test_parts_of_the_page_live_without_a_reload_and_stand_still_when_told(
    tab: Any, running: Daemon
) -> None:
    await tab.goto(running.url("/"))
    before = json.dumps(await tab.text("#stats"))
    await tab.js("window.neverReloaded = true")
    await tab.until(f"document.querySelector('#stats').innerText !== {before}")
    await tab.until("document.querySelectorAll('#feed tbody tr').length > 3")
    assert await tab.js("window.neverReloaded")
    await tab.click("#live-switch button", loads=False)
    assert await tab.text("#live-switch") == "Start live updates"
    assert not tab.errors


async def test_a_plot_is_read_off_where_it_is_pointed_at(tab: Any, running: Daemon) -> None:
    await running.seen.contacts("busy.test")
    await tab.goto(running.url("/"))
    await tab.until("JSON.parse(document.querySelector('[data-read]').dataset.read).length > 0")
    x, y = await tab.js(
        "(() => { const r = document.querySelector('.plot svg').getBoundingClientRect();"
        " return [r.right - 5, r.y + 20]; })()"
    )
    await tab.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert re.search(r"/s at \d\d:\d\d:\d\d$", await tab.text(".plot figcaption strong"))
    await tab.send("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert " at " not in await tab.text(".plot figcaption strong")
    assert not tab.errors


async def test_without_javascript_all_of_it_works(tab: Any, running: Daemon) -> None:
    await running.seen.contacts("busy.test")
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    await tab.goto(running.url("/host?host=busy.test"))
    await tab.click("#steer-host button")
    assert running.row("SELECT paused FROM hosts WHERE host = 'busy.test'") == (1,)
    await tested(tab, running)
    assert "disagree on 1 URL" in await tab.text(".verdicts")


async def test_every_page_fits_and_passes_an_accessibility_check(tab: Any, running: Daemon) -> None:
    """In narrow windows nothing scrolls sideways."""
    await running.seen.contacts("busy.test", "hostile.test", "refuses.test")

    async def check(path: str) -> None:
        for dark in (False, True):
            await tab.look(dark=dark)
            assert await tab.violations() == [], (path, dark)
        for width in (320, 390, 768):
            await tab.look(width=width, height=800)
            assert await tab.js("document.documentElement.scrollWidth <= innerWidth"), (path, width)

    for path in pages(running):
        await tab.goto(running.url(path))
        await check(path)
        if path in ("/", "/hosts", "/host?host=busy.test"):
            for look in LOOKS[:2]:
                await tab.look(**look)
                assert await tab.violations() == [], (path, look)
    await tested(tab, running)
    await check("the verdicts of the tester")


async def test_the_keyboard_is_enough(tab: Any, running: Daemon) -> None:
    await running.seen.contacts("busy.test")
    await tab.goto(running.url("/hosts"))
    await tab.key("Tab", 9)
    assert await tab.js("document.activeElement.className") == "skip"
    assert await tab.js("document.activeElement.getBoundingClientRect().left >= 0")
    await tab.key("Enter", 13, "\r")
    assert await tab.js("document.activeElement.id") == "main"
    await tab.key("/", 191, "/")
    assert await tab.js("document.activeElement.id") == "search"
    await tab.key("Tab", 9)
    outline = await tab.js("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


async def test_with_a_token_who_logs_in_uses_all_of_it(tab: Any, tmp_path: Path) -> None:
    async with daemon(tmp_path, TOKEN) as running:
        await tab.goto(running.url("/hosts"))
        assert await tab.text("h1") == "Log in"
        assert await tab.violations() == []
        await tab.fill("#token", "wrong")
        await tab.click("main form button")
        assert "Wrong token" in await tab.text(".refused")
        await tab.fill("#token", TOKEN)
        await tab.click("main form button")
        assert await tab.text("h1") == "Hosts"
        await tab.goto(running.url("/"))
        await tab.click("button.stop")
        assert await tab.text("h1") == "Paused"
        await tab.click("form[action='/logout'] button")
        assert await tab.text("h1") == "Log in"

"""The page of a host in a browser: a long robots.txt, and the next URLs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawler.testing import html, text
from tests.site.web.conftest import LOOKS
from tests.site.web.test_web_page import Daemon, daemon

CLOSED = [f"Disallow: /closed{number}/" for number in range(300)]
ROBOTS = ["# A long one", "", "User-agent: otherbot", "Disallow: /", "", "User-agent: *", *CLOSED]

BLOCKED = "SELECT count(*) FROM blocked WHERE rule = 'Disallow: /closed201/'"


@pytest.fixture
async def running(tmp_path: Path, tab: Any) -> AsyncIterator[Daemon]:
    """A host with a long robots.txt, line 208 of which blocks a URL."""
    async with daemon(tmp_path) as there:
        there.web.sites["long.test"] = {
            "/robots.txt": text("\n".join([*ROBOTS, "Crawl-delay: 4"])),
            "/": html("Long"),
        }
        paths = ("/closed201/a", "/closed201/b", *(f"/{number}" for number in range(30)))
        urls = [there.web.url("long.test", path) for path in paths]
        await tab.goto(there.url("/seeds"))
        await tab.fill("#urls", "\n".join(urls))
        await tab.click("main form button")
        async with asyncio.timeout(20):
            while there.row(BLOCKED) != (2,):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        yield there


LINES = "[...document.querySelectorAll('.sheet td.no')].map((cell) => cell.textContent)"


async def test_deciding_lines_stand_in_their_context(tab: Any, running: Daemon) -> None:
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    await tab.goto(running.url("/host?host=long.test"))
    assert await tab.js(LINES) == ["6", "206", "207", "208", "209", "210"]
    assert "blocked" in await tab.text("#copy0-L208")
    folds = await tab.js("document.querySelectorAll('details.fold').length")
    assert folds == 3
    assert not await tab.js("document.querySelector('.folded').checkVisibility()")
    await tab.click("details.fold summary", loads=False)
    assert await tab.js("document.querySelector('.folded').checkVisibility()")
    assert (await tab.text(".folded .code")).startswith("# A long one\n\nUser-agent: otherbot")
    heights = await tab.js(
        "[...document.querySelector('.folded').children].map((e) => e.offsetHeight)"
    )
    assert heights[0] == heights[1]  # the numbers stand beside their lines


async def test_the_next_urls_are_listed_in_their_order(tab: Any, running: Daemon) -> None:
    await tab.goto(running.url("/host?host=long.test"))
    rows = await tab.js("document.querySelectorAll('.next-urls tbody tr').length")
    assert rows == 20
    assert re.search(r"now|in \d+ s", await tab.text(".next-urls .at"))
    await tab.click("#next-urls p a")
    assert await tab.text("h1") != ""
    assert "long.test" in await tab.text("main")


async def test_the_page_is_sound(tab: Any, running: Daemon) -> None:
    await tab.goto(running.url("/host?host=long.test"))
    await tab.js("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    for look in LOOKS:
        await tab.look(**look)
        assert await tab.js("document.documentElement.scrollWidth <= innerWidth"), look
        assert await tab.violations() == [], look

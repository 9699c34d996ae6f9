"""The list of hosts in a browser: filtered, steered in bulk, and on a phone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.site.web.test_web_page import Daemon, daemon


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with daemon(tmp_path) as there:
        await there.seen.contacts("busy.test", "refuses.test")
        yield there


HOSTS = "[...document.querySelectorAll('.hosts a.host')].map((a) => a.textContent)"


async def test_what_holds_the_queue_leads_to_its_hosts(tab: Any, running: Daemon) -> None:
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    async with asyncio.timeout(20):
        while await tab.js("document.querySelector('.hold-backoff') === null"):
            await tab.goto(running.url("/"))
            await asyncio.sleep(0.2)
    await tab.click(".hold-backoff th a")
    assert await tab.js(HOSTS) == ["refuses.test"]
    assert "their host is backing off" in await tab.text(".lead")
    assert await tab.js("document.querySelector('#reason').value") == "backoff"
    await tab.fill("#search", "*.example.com")
    await tab.click("form.filter button")
    assert "No host matches" in await tab.text("#hosts")
    await tab.fill("#search", "*s.test")
    await tab.click("form.filter button")
    assert await tab.js(HOSTS) == ["refuses.test"]


async def test_selected_hosts_are_paused_without_javascript(tab: Any, running: Daemon) -> None:
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    await tab.goto(running.url("/hosts?search=.test&sort=host"))
    assert not await tab.js("document.querySelector('#bulk-delay').checkVisibility()")
    await tab.click("input[value='busy.test']", loads=False)
    await tab.click("input[value='refuses.test']", loads=False)
    await tab.click("#bulk button[value=chosen]")
    assert await tab.text("h1") == "Pause 2 hosts?"
    await tab.click(".actions button.go")
    assert "Paused: 2 hosts" in await tab.text(".said")
    assert running.row("SELECT group_concat(host) FROM hosts WHERE paused = 1") == (
        "busy.test,refuses.test",
    )


async def test_the_table_fits_a_screen(tab: Any, running: Daemon) -> None:
    await tab.goto(running.url("/hosts?sort=host"))
    assert await tab.js(
        "(() => { const box = document.querySelector('.table-box');"
        " return box.scrollWidth <= box.clientWidth; })()"
    )


async def test_long_names_and_reasons_leave_a_row_two_lines_high(tab: Any, running: Daemon) -> None:
    await tab.goto(running.url("/hosts?sort=host"))
    await tab.js(
        "document.querySelectorAll('.hosts tbody tr').forEach((row) => {"
        " row.querySelector('bdi').textContent = 'www.' + 'department-'.repeat(9) + '.example';"
        " row.querySelector('.rests small').textContent = 'Crawl-delay in robots.txt';"
        " row.querySelector('.why span').textContent = 'the server refused. '.repeat(9); })"
    )
    heights = await tab.js(
        "[...document.querySelectorAll('.hosts tbody tr')].map((row) => row.offsetHeight)"
    )
    assert heights
    assert max(heights) <= 60, heights
    tops = await tab.js(
        "[...document.querySelectorAll('.hosts tbody th')].map((cell) =>"
        " cell.querySelector('a').getBoundingClientRect().top"
        " - cell.querySelector('input').getBoundingClientRect().top)"
    )
    assert all(abs(top) < 10 for top in tops), tops
    assert await tab.js(
        "(() => { const box = document.querySelector('.table-box');"
        " return box.scrollWidth <= box.clientWidth; })()"
    )


async def test_the_navigation_is_in_line_with_the_content(tab: Any, running: Daemon) -> None:
    left = (
        "(() => { const range = document.createRange();"
        " range.selectNodeContents(document.querySelector('{}'));"
        " return range.getBoundingClientRect().left; })()"
    )
    for width in (390, 1280):
        await tab.look(width=width)
        await tab.goto(running.url("/hosts"))
        navigation = await tab.js(left.replace("{}", "nav[aria-label=Pages] a"))
        assert abs(navigation - await tab.js(left.replace("{}", "h1"))) <= 2


async def test_a_phone_shows_one_line_per_host(tab: Any, running: Daemon) -> None:
    await tab.look(width=390)
    await tab.goto(running.url("/hosts?sort=host"))
    assert await tab.js("document.documentElement.scrollWidth <= innerWidth")
    heights = await tab.js(
        "[...document.querySelectorAll('.hosts tbody tr')].map((row) => row.offsetHeight)"
    )
    assert heights
    assert max(heights) <= 50, heights
    assert "queued" in await tab.js(
        "getComputedStyle(document.querySelector('.hosts .queued'), '::after').content"
    )
    assert not await tab.js("document.querySelector('.hosts .why').checkVisibility()")
    box = await tab.js(
        "(() => { const box = document.querySelector('.table-box');"
        " return box.scrollWidth <= box.clientWidth; })()"
    )
    assert box
    for dark in (False, True):
        await tab.look(width=390, dark=dark)
        assert await tab.violations() == [], dark

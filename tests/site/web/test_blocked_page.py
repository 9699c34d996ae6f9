"""The page of blocked URLs in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.site.web.conftest import LOOKS
from tests.site.web.test_web_page import Daemon, daemon


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with daemon(tmp_path) as there:
        await there.seen.contacts("busy.test", least=12)
        yield there


async def test_a_rule_leads_to_the_urls_it_blocks(tab: Any, running: Daemon) -> None:
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    await tab.goto(running.url("/"))
    await tab.click("button.stop")  # or further URLs are blocked meanwhile
    await tab.goto(running.url("/blocked?host=busy.test"))
    assert "Disallow: /private/" in await tab.text(".rules tbody")
    urls = int(await tab.js("document.querySelector('.rules .urls a').firstChild.textContent"))
    await tab.click(".rules .urls a")
    assert await tab.js("document.querySelectorAll('table tbody tr').length") == urls
    assert await tab.js("document.querySelector('.rules')") is None
    assert await tab.js("document.querySelector('#exact').checked")
    assert "/private/" in await tab.text("tbody")
    await tab.click("form.filter a")
    assert await tab.js("document.querySelector('.rules') !== null")


async def test_a_phone_shows_each_group_and_url_in_a_few_lines(tab: Any, running: Daemon) -> None:
    await tab.look(width=390)
    await tab.goto(running.url("/blocked"))
    for table, height in ((".rules", 40), (".blocked", 90)):
        rows = f"[...document.querySelectorAll('{table} tbody tr')].map((row) => row.offsetHeight)"
        heights = await tab.js(rows)
        assert heights
        assert min(heights) <= height, heights


async def test_the_page_is_sound(tab: Any, running: Daemon) -> None:
    await tab.goto(running.url("/blocked"))
    assert await tab.js("document.querySelector('.rules') !== null")
    fits = (
        "(() => { const box = document.querySelector('.table-box');"
        " return box.scrollWidth <= box.clientWidth; })()"
    )
    for look in LOOKS:
        await tab.look(**look)
        assert await tab.js("document.documentElement.scrollWidth <= innerWidth"), look
        assert await tab.js(fits), look
        assert await tab.violations() == [], look

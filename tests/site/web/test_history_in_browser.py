"""The page History in a real browser: at both widths, in both themes, with and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.site.web.conftest import LOOKS
from tests.site.web.test_web_page import Daemon, daemon

EVENTS = "[...document.querySelectorAll('.happened tbody .pill')].map((one) => one.textContent)"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with daemon(tmp_path) as there:
        await there.seen.contacts("busy.test")
        yield there


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
async def test_a_pause_is_marked_in_all_charts(tab: Any, running: Daemon, scripts: bool) -> None:
    await tab.send("Emulation.setScriptExecutionDisabled", value=not scripts)
    await tab.goto(running.url("/"))
    await tab.click("#steer button")
    await tab.click("nav a[href='/history']")
    assert await tab.js(EVENTS) == ["pause", "start"]
    bands = "document.querySelectorAll('figure rect.band-pause').length"
    assert await tab.js(bands) == 5
    assert await tab.js("document.querySelectorAll('figure line.at-start').length") == 5
    # The charts share one time axis: they begin and end at the same place.
    assert (
        await tab.js(
            "new Set([...document.querySelectorAll('figure svg')].map((one) => {"
            " const box = one.getBoundingClientRect(); return `${box.left} ${box.right}`; })).size"
        )
        == 1
    )
    for span in ("6h", "24h", "7d", "90d"):
        await tab.click(f".spans a[href='/history?span={span}']")
        assert await tab.js("document.querySelector('.spans [aria-current]').search") == (
            f"?span={span}"
        )
        assert await tab.js(bands) == 5
    await tab.click(".steps a[rel=prev]")
    assert "No crawl ran in this span" in await tab.text("#history")
    await tab.click(".steps a[rel=next]")
    assert await tab.js(EVENTS) == ["pause", "start"]
    assert tab.errors == []


async def test_it_fits_and_is_accessible(tab: Any, running: Daemon) -> None:
    for span in ("1h", "90d"):
        await tab.goto(running.url(f"/history?span={span}"))
        for look in LOOKS:
            await tab.look(**look)
            assert await tab.js("document.documentElement.scrollWidth <= innerWidth"), look
            assert await tab.violations() == [], look
        assert await tab.js(
            "[...document.querySelectorAll('figure svg')].every((one) =>"
            " one.getAttribute('aria-label').length > 20)"
        )


async def test_it_updates_itself(tab: Any, running: Daemon) -> None:
    await tab.goto(running.url("/history"))
    await tab.js(
        "fetch('/api/pause', {method: 'POST', headers: {'Content-Type': 'application/json'},"
        " body: '{}'}).then((answer) => answer.status)"
    )
    await tab.until("document.querySelector('figure rect.band-pause')")
    await tab.until(f"{EVENTS}[0] === 'pause'")

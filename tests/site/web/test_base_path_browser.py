"""The page under a path prefix, in a browser, through a reverse proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crawler.daemon.http.accounts import Sessions
from crawler.daemon.http.application import GUARDS
from crawler.daemon.http.guards import HttpSettings
from crawler.testing import LocalWeb
from tests.crawler.console.test_base_path import BASE, TOKEN, proxied
from tests.crawler.daemon.conftest import daemon_of, site


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_browser_logs_in_steers_and_stays_under_the_prefix(
    tab: Any, tmp_path: Path, scripts: bool
) -> None:
    settings = HttpSettings(token=TOKEN, base_path=BASE)
    async with LocalWeb({"a.test": site("one")}) as town:
        config = town.config(politeness={"delay": 0.02, "latency_factor": 0})
        async with (
            daemon_of(config, tmp_path, town.url("a.test"), settings=settings) as daemon,
            proxied(daemon.port, strips=False) as (here, strayed),
        ):
            await daemon.idle()
            await tab.send("Emulation.setScriptExecutionDisabled", value=not scripts)
            await tab.goto(f"{here}{BASE}/hosts")
            assert await tab.js("location.pathname") == f"{BASE}/login"
            await tab.fill("#token", TOKEN)
            await tab.click("button.go")
            assert await tab.js("location.pathname") == f"{BASE}/hosts"
            await tab.click("th a.host")
            assert await tab.js("location.pathname + location.search") == f"{BASE}/host?host=a.test"
            await tab.click(".actions .stop")
            assert "is paused" in await tab.js("document.querySelector('.said').textContent")
            await tab.goto(f"{here}{BASE}/")
            styled = "getComputedStyle(document.querySelector('.band')).display !== 'inline'"
            assert await tab.js(styled)
            assert tab.errors == []
            if scripts:
                async with asyncio.timeout(10):
                    while not len(daemon.monitor.stream):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                assert tab.errors == []
                daemon.app[GUARDS].sessions = Sessions(daemon.monitor.clock)  # the old ones ended
                link = "document.querySelector('#no-contact a')"
                await tab.until(f"{link} !== null")
                onward = await tab.js(f"{link}.getAttribute('href')")
                assert onward == f"{BASE}/login?next=%2F"
            assert strayed == []

"""The page of the log in a browser: live, filtered, and on a phone."""

from __future__ import annotations

import aiohttp

from tests.site.web.conftest import LOOKS, Tab
from tests.site.web.test_lost_contact import Running, running

__all__ = ["running"]  # a fixture

EVENTS = "[...document.querySelectorAll('.log .event')].map((cell) => cell.textContent)"


async def command(running: Running, path: str, **body: object) -> None:
    async with aiohttp.ClientSession() as session:
        (await session.post(running.url + path, json=body)).release()


async def test_new_lines_appear_by_themselves(tab: Tab, running: Running) -> None:
    await tab.goto(f"{running.url}/log")
    assert await tab.js(EVENTS) == ["started"]
    assert "written to standard error" in await tab.text(".lead")
    await command(running, "/api/pause")
    await tab.until(f"{EVENTS}[0] === 'steered'")
    assert "pause by anyone from 127.0.0.1 via api" in " ".join(
        (await tab.text(".details")).split()
    )
    assert tab.errors == []


async def test_actions_are_one_filter_without_javascript(tab: Tab, running: Running) -> None:
    await command(running, "/api/pause")
    await command(running, "/api/hosts/pause", host="nowhere.test")
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    await tab.goto(f"{running.url}/")
    await tab.click('nav a[href="/log"]')
    assert await tab.js(EVENTS) == ["refused", "steered", "started"]
    await tab.click('.tabs a[href="/log?event=actions"]')
    assert await tab.js(EVENTS) == ["refused", "steered"]
    await tab.fill("#text", "NOWHERE")
    await tab.click("form.filter button")
    assert await tab.js(EVENTS) == ["refused"]
    assert await tab.js("document.querySelector('#event').value") == "actions"
    await tab.click(".go-row a")
    await tab.js("document.querySelector('#level').value = 'error'")
    await tab.click("form.filter button")
    assert "No line matches" in await tab.text("#log-lines")


async def test_it_fits_and_is_accessible(tab: Tab, running: Running) -> None:
    await command(running, "/api/pause")
    await command(running, "/api/hosts/pause", host=f"{'very-' * 12}long-name.test")
    await tab.goto(f"{running.url}/log")
    assert len(await tab.js(EVENTS)) == 3
    for look in LOOKS:
        await tab.look(**look)
        assert await tab.js("document.documentElement.scrollWidth <= innerWidth"), look
        assert await tab.violations() == [], look

"""An open page shows that the daemon does not answer, and how old its data is."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_processes import start

SHOWN_WITHIN_S = 6.0  # 5 s, and what the test itself needs


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Running:
    """`courtly run` as a process of its own."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._config = folder / "crawl.toml"
        self._config.write_text(
            f'[storage]\nurl = "sqlite:{folder / "news.db"}"\n'
            f'[daemon]\nlisten = "127.0.0.1:{port}"\ntoken = "{token}"\n',
            "utf-8",
        )
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        self.process = await start("run", str(self._config), stderr=asyncio.subprocess.DEVNULL)
        assert self.process.stdout is not None
        assert b"shows the crawl" in await asyncio.wait_for(self.process.stdout.readline(), 20)

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    made = Running(tmp_path)
    await made.start()
    yield made
    await made.kill()


async def until(tab: Any, true: Callable[[Any], bool], within_s: float) -> Any:
    """Ask the page until the condition holds."""
    ends_s = time.monotonic() + within_s
    banner = "document.querySelector('#no-contact')"
    look = f"[{banner}.textContent, document.title, {banner}.hidden]"
    while not true(seen := await tab.js(look)):
        assert time.monotonic() < ends_s, seen
        await asyncio.sleep(0.1)
    return seen


async def test_a_daemon_that_stops_answering_is_noticed_and_welcomed_back(
    tab: Any, running: Running
) -> None:
    await tab.goto(running.url)
    title = "Idle · Overview · news"
    await until(tab, lambda seen: seen[1] == title, SHOWN_WITHIN_S)
    assert await tab.js("document.querySelector('#no-contact').hidden") is True
    os.kill(running.process.pid, signal.SIGSTOP)
    words, shown, _ = await until(tab, lambda seen: not seen[2], SHOWN_WITHIN_S)
    assert words.startswith("No answer from the daemon for")
    assert shown == "⚠ No contact · Idle · Overview · news"
    assert "ago" in await tab.text("#age")
    opacity = "getComputedStyle(document.querySelector('{}')).opacity"
    for part in ("#stats", "#feed-section"):
        assert float(await tab.js(opacity.format(part))) < 1
    os.kill(running.process.pid, signal.SIGCONT)
    await until(tab, lambda seen: seen[2] and seen[1] == title, SHOWN_WITHIN_S + 4)

    await running.kill()
    words, shown, _ = await until(tab, lambda seen: not seen[2], SHOWN_WITHIN_S)
    assert shown.startswith("⚠ No contact")
    await running.start()
    await until(tab, lambda seen: seen[2], SHOWN_WITHIN_S + 4)


async def test_a_session_that_has_ended_leads_to_the_login(tab: Any, tmp_path: Path) -> None:
    running = Running(tmp_path, token="0123456789abcdefghij")
    await running.start()
    try:
        await tab.goto(running.url)
        await tab.fill("#token", "0123456789abcdefghij")
        await tab.click("main form button")
        await tab.until("document.querySelector('h1').innerText === 'Waiting for seeds'")
        await running.kill()
        await running.start()  # sessions end with the process
        words, shown, _ = await until(tab, lambda seen: "session" in seen[0], SHOWN_WITHIN_S + 6)
        assert words.startswith("Your session has ended")
        assert shown.startswith("⚠ Logged out")
        link = await tab.js("document.querySelector('#no-contact a').getAttribute('href')")
        assert link == "/login?next=%2F"
    finally:
        await running.kill()

"""An outage of the web that a daemon crawls: its webhook is told, and told when it is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.command_processes import start
from tests.crawler.daemon.test_processes import toml

LIMIT_S = 45.0
HOSTS = 40


class Endless:
    """Many hosts with endless pages on one port, which can be killed and started again."""

    def __init__(self) -> None:
        self.port = 0
        self._runner = web.ServerRunner(web.Server(self._page))

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._page), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        await self._runner.cleanup()

    async def _page(self, request: web.BaseRequest) -> web.Response:
        if not request.path.strip("/").isdigit() and request.path != "/":
            return web.Response(text="")
        number = int(request.path.strip("/") or 0)
        links = "".join(f'<a href="/{number * 3 + one}">' for one in (1, 2, 3))
        return web.Response(text=f"<title>{number}</title>{links}", content_type="text/html")


class Hook:
    """The receiver."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.received.append(json.loads(await request.text()))
        return web.Response()

    async def next(self, number: int) -> dict[str, Any]:
        """The notification with this number, once it is there."""
        async with asyncio.timeout(LIMIT_S):
            while len(self.received) <= number:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            return self.received[number]


@pytest.fixture
async def hook() -> AsyncIterator[tuple[Hook, str]]:
    made = Hook()
    runner = web.ServerRunner(web.Server(made.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield made, f"http://127.0.0.1:{runner.addresses[0][1]}/hush-hush"
    await runner.cleanup()


@pytest.fixture
async def endless() -> AsyncIterator[Endless]:
    made = Endless()
    await made.start()
    yield made
    await made.kill()


async def test_the_webhook_is_told_of_an_outage_and_of_its_end(
    tmp_path: Path, endless: Endless, hook: tuple[Hook, str]
) -> None:
    receiver, url = hook
    config = tmp_path / "crawl.toml"
    (tmp_path / "hook").write_text(url, "utf-8")
    config.write_text(
        toml(
            {
                "crawl": {
                    "seeds": [f"http://h{one}.test:{endless.port}/" for one in range(HOSTS)],
                    "user_agent": "examplebot/1.0 (+http://h.test/bot)",
                },
                "network": {"allow": ["127.0.0.1"], "resolve": {"*.test": "127.0.0.1"}},
                "politeness": {"delay": 0.5, "latency_factor": 0},
                "storage": {"url": f"sqlite:{tmp_path / 'news.db'}"},
                "daemon": {"listen": "127.0.0.1:0", "log": "log"},
                "webhook": {"url": "file:hook", "after": "1s", "checks": ["network"]},
            }
        ),
        "utf-8",
    )
    process = await start("run", str(config), cwd=tmp_path)
    try:
        assert process.stdout is not None
        page = (await asyncio.wait_for(process.stdout.readline(), LIMIT_S)).decode().split()[0]
        await status_of(page, lambda status: status["visited"] >= HOSTS)
        await endless.kill()
        began = await receiver.next(0)
        assert (began["event"], began["check"], began["state"]) == ("began", "network", "bad")
        assert (began["daemon"], began["health"], began["page"]) == ("news", "bad", page)
        assert began["text"] == f"news: network is bad. {began['sentence']}"
        await endless.start()
        over = await receiver.next(1)
        assert (over["event"], over["check"], over["state"]) == ("recovered", "network", "ok")
        assert over["since"] == began["since"]
        assert over["lasted_s"] < over["at"] - over["since"]  # it was found out later
        status = await status_of(page, lambda status: True)
        (check,) = [one for one in status["health"]["checks"] if one["check"] == "webhook"]
        assert check["state"] == "ok"
        assert "hush" not in str(await fetched(f"{page}api/config"))
        process.terminate()
        _, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert (process.returncode, errors) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    log = (tmp_path / "log").read_text("utf-8")
    assert log.count('"event":"notified"') == 2
    assert "hush" not in log
    assert len(receiver.received) == 2


async def fetched(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


async def status_of(page: str, true: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while not true(status := await fetched(f"{page}api/status")):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return status

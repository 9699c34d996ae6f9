"""A running crawl of a local web, with its API on a real port and on its socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from crawler.app import OpenCrawl, open_crawl
from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.console import application
from crawler.daemon import unix_socket
from crawler.daemon.api.operations import Operations
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.event_log import EventLog
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.service import operations_of
from crawler.front_door.connections import Connections, serving
from crawler.front_door.listener import accepting, bind
from crawler.testing import LocalWeb, Reply, html, text
from storage.socket_path import socket_path

ROBOTS = text("User-agent: *\nDisallow: /private/\nCrawl-delay: 0.05\n")


def site(*pages: str) -> Mapping[str, Reply]:
    """A small site whose home page links to its pages, and to a forbidden one."""
    paths = [f"/{page}.html" for page in pages]
    return {
        "/robots.txt": ROBOTS,
        "/": html("Home <b>&", *paths, "/private/x.html"),
        **{path: html(path) for path in paths},
    }


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any  # JSON, or text


class Client:
    """Sends requests to the daemon, as curl does, or as a browser does with the headers given."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        options.setdefault("allow_redirects", False)
        async with self.session.request(method, self.base + path, **options) as response:
            if "json" in response.content_type:
                body = await response.json(content_type=None)
            else:
                body = await response.text()
            return Answer(response.status, response.headers.copy(), body)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, json: object = None, **options: Any) -> Answer:
        if json is not None:
            options["json"] = json
        return await self.ask("POST", path, **options)


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running crawl and its clients. `local` uses the Unix socket."""

    opened: OpenCrawl
    operations: Operations
    client: Client
    local: Client
    database: Path
    port: int
    app: web.Application
    connections: Connections
    monitor: Monitor

    async def until(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status that satisfies the condition."""
        async with asyncio.timeout(20):
            while not true(status := msgspec.to_builtins(await self.operations.status())):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            return status

    async def idle(self) -> dict[str, Any]:
        return await self.until(lambda status: status["state"] == "idle")


@contextlib.asynccontextmanager
async def daemon_of(
    made: Mapping[str, object],
    folder: Path,
    *seeds: str,
    settings: HttpSettings | None = None,
    url: str | None = None,
    log: EventLog | None = None,
    **living_options: Any,
) -> AsyncIterator[Daemon]:
    """url: of a database in place of a file."""
    database = folder / "crawl.db"
    config = from_dict({**made, "storage": {"url": url or f"sqlite:{database}"}})
    monitor = Monitor(RealClock(), log)
    async with (
        open_crawl(
            config, seeds=seeds, runs_forever=True, observers=monitor.observers, **living_options
        ) as opened,
        operations_of(opened, monitor) as operations,
        monitor.sampling(opened.control, operations.queue, operations.shared),
    ):
        app = application(operations, settings or HttpSettings(), monitor)
        base_path = "" if settings is None else settings.base_path
        (bound,) = await bind("127.0.0.1", 0)
        port = bound.getsockname()[1]
        own = application(operations, HttpSettings(local=True), monitor)
        warnings: list[str] = []
        async with (
            serving(app, monitor.clock, monitor.access, base_path) as connections,
            accepting([bound], connections, monitor.clock),
            unix_socket.serving(own, database, warnings.append),
            aiohttp.ClientSession() as session,
            aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(socket_path(database)))
            ) as through,
            asyncio.TaskGroup() as group,
        ):
            assert warnings == []
            run = group.create_task(opened.run())
            try:
                yield Daemon(
                    opened,
                    operations,
                    Client(session, f"http://127.0.0.1:{port}"),
                    Client(through, "http://localhost"),
                    database,
                    port,
                    app,
                    connections,
                    monitor,
                )
            finally:
                monitor.stream.close()
                opened.control.stop()
                await asyncio.wait([run], timeout=5)
                run.cancel()


Start = Callable[..., AbstractAsyncContextManager[Daemon]]


@pytest.fixture
async def town() -> AsyncIterator[LocalWeb]:
    """Three sites."""
    async with LocalWeb(
        {"a.test": site("one", "two"), "b.test": site("one"), "c.test": site()}
    ) as made:
        yield made


@pytest.fixture
def start(town: LocalWeb, tmp_path: Path) -> Start:
    """Start a crawl of some hosts of `town`."""

    def begin(*hosts: str, **options: Any) -> AbstractAsyncContextManager[Daemon]:
        sections = options.pop("config", {})
        config = town.config(**{"politeness": {"delay": 0.02, "latency_factor": 0}, **sections})
        return daemon_of(config, tmp_path, *(town.url(host) for host in hosts), **options)

    return begin


@pytest.fixture
async def daemon(start: Start) -> AsyncIterator[Daemon]:
    """An idle crawl of all three sites."""
    async with start("a.test", "b.test", "c.test") as made:
        await made.idle()
        yield made


class Hand:
    """A clock that the test advances; nothing waits on it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    def advance(self, by_s: float) -> None:
        self.now_s += by_s


@pytest.fixture
def hand() -> Hand:
    return Hand()

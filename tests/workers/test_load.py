"""Orders, renewals and commits of workers meet: seeds that redirect, and commands, under load."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from crawler.testing import LocalWeb, html, redirect
from tests.postgres_server import PostgresServer
from tests.storage.postgres.proxy import Proxy
from tests.workers.conftest import NewCrew
from tests.workers.crew import Crew, Worker
from tests.workers.judge import check_delays

DELAY_S = 0.05
LINKS = ("/1", "/2")
BUSY_LOOPS = 8  # on the 2 processors of a small machine
ROUND_TRIP_S = 0.02  # to the server: what must not meet takes long enough to
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def far_url(postgres: PostgresServer, postgres_url: str) -> AsyncIterator[str]:
    """The URL of a database that is far away."""
    async with Proxy(postgres.host, postgres.port).running() as proxy:
        proxy.delay_s = ROUND_TRIP_S
        yield postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")


def soak(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.soak)


@contextlib.asynccontextmanager
async def redirecting_web(seeds: int) -> AsyncIterator[LocalWeb]:
    """Each host redirects to its `www.`, so that each seed is an order to all other workers."""
    async with LocalWeb() as web:
        for n in range(seeds):
            pages = {path: html("Page", *LINKS) for path in ("/", *LINKS)}
            web.sites[f"h{n}.test"] = {"/": redirect(web.url(f"www.h{n}.test"))}
            web.sites[f"www.h{n}.test"] = pages
        yield web


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Processes that leave the workers little of the processors."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def crew_of(new_crew: NewCrew, web: LocalWeb, url: str, **sections: Any) -> Crew:
    politeness = {"delay": DELAY_S, "latency_factor": 0}
    return new_crew(web, url=url, politeness=politeness, scope={"follow": "host"}, **sections)


async def check_whole(crew: Crew, web: LocalWeb, seeds: int) -> None:
    expected = {web.url(f"www.h{n}.test", path) for n in range(seeds) for path in ("/", *LINKS)}
    assert await crew.urls("visited") >= expected
    check_delays(web.log, DELAY_S)
    assert await crew.problems() == []


@pytest.mark.parametrize(
    ("seeds", "workers", "loops"),
    [(30, 1, 0), soak(400, 1, BUSY_LOOPS), soak(400, 3, BUSY_LOOPS)],
)
async def test_seeds_that_redirect(
    new_crew: NewCrew, far_url: str, seeds: int, workers: int, loops: int
) -> None:
    async with redirecting_web(seeds) as web:
        urls = [web.url(f"h{n}.test") for n in range(seeds)]
        crew = crew_of(new_crew, web, far_url, crawl={"seeds": urls, "patience": 5})
        config = crew.write_config("worker1")
        with busy(loops):
            command = ["crawl", "--config", str(config), "--workers", str(workers)]
            worker = await crew.launch("worker1", *command)
            await crew.finish(within_s=90.0 + seeds)
        assert "started again" not in worker.said()
        await check_whole(crew, web, seeds)


async def base_of(service: Worker) -> str:
    async with asyncio.timeout(60):
        while True:
            if found := re.search(r"(http://\S+?)/? shows the crawl", service.said()):
                return found[1]
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("commands", "workers", "loops"),
    [(12, 1, 0), soak(100, 1, BUSY_LOOPS), soak(100, 3, BUSY_LOOPS)],
)
async def test_commands_to_a_service(
    new_crew: NewCrew, far_url: str, commands: int, workers: int, loops: int
) -> None:
    """Commands, several at a time, while seeds redirect."""
    seeds = commands // 2
    async with redirecting_web(seeds + commands) as web, aiohttp.ClientSession() as http:
        urls = [web.url(f"h{n}.test") for n in range(seeds)]
        crew = crew_of(
            new_crew, web, far_url, crawl={"seeds": urls}, daemon={"listen": "127.0.0.1:0"}
        )
        config = crew.write_config("worker1")
        with busy(loops):
            service = await crew.launch("worker1", "run", str(config), "--workers", str(workers))
            base = await base_of(service)
            at_once = asyncio.Semaphore(8)

            async def post(path: str, body: object) -> None:
                async with at_once, http.post(base + path, json=body) as answer:
                    assert answer.status == 200, await answer.text()

            async with asyncio.TaskGroup() as group:
                for n in range(commands):
                    new = web.url(f"h{seeds + n}.test")
                    group.create_task(post("/api/seeds", {"urls": [new]}))
                    slow = {"hosts": [f"h{n % seeds}.test"], "delay_s": 0.1}
                    group.create_task(post("/api/hosts/slow", slow))
            pages = len(LINKS) + 2  # the redirect, and where it leads
            await crew.until(
                f"SELECT 1 FROM visited HAVING count(*) >= {(seeds + commands) * pages}",
                within_s=114.0 + 3 * commands,
            )
            service.signal(signal.SIGTERM)
            await crew.finish()
        assert "started again" not in service.said()
        await check_whole(crew, web, seeds + commands)

"""`--workers N`: several processes on one machine, started by one command."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from typing import Any

import aiohttp

from tests.workers.conftest import NewCrew
from tests.workers.crew import Crew, Worker
from tests.workers.endless_web import endless_web, requests_since, until
from tests.workers.judge import Fault, check_delays, check_sound
from tests.workers.linked_web import everything, hosts_of, linked_web

DELAY_S = 0.4
POLITENESS = {"delay": DELAY_S, "latency_factor": 0}
REACHES_S = 3.0


async def pids(crew: Crew) -> list[int]:
    """Of the workers that have begun a session, the first of them first."""
    return [pid for (pid,) in await crew.rows("SELECT pid FROM sessions ORDER BY id")]


async def started(crew: Crew, *command: str) -> Worker:
    """Two workers, at work."""
    worker = await crew.launch("worker1", *command, "--workers", "2")
    await crew.until("SELECT 1 FROM sessions WHERE id > 1 AND hosts > 0")
    return worker


async def test_workers_that_are_killed_are_started_again(new_crew: NewCrew) -> None:
    """Any of them, also the one that shows the progress."""
    counts = hosts_of(10, 20)
    faults = []
    async with linked_web(counts) as web:
        crew = new_crew(web, politeness=POLITENESS)
        config = crew.write_config("worker1")
        seeds = [web.url(host) for host in counts]
        worker = await started(crew, "crawl", "--config", str(config), *seeds)
        for number in (0, 1):
            await web.until(20 + 40 * number)
            os.kill((await pids(crew))[number], signal.SIGKILL)
            at_s = time.monotonic()
            faults.append(Fault(at_s=at_s, until_s=at_s, worker="worker1", committed=frozenset()))
            await crew.until(f"SELECT 1 FROM sessions WHERE id > {2 + number}")
        await crew.finish()
        assert await crew.urls("visited") == {web.url(*page) for page in everything(counts)}
        assert "ended with exit code 137; it is started again" in worker.said()
        check_sound(await web.log(), DELAY_S, faults)


async def test_a_service_with_several_workers(new_crew: NewCrew) -> None:
    """One page and one API for both; a clean stop by SIGTERM."""
    hosts = [f"h{n}.test" for n in range(8)]
    async with endless_web(*hosts, "new.test") as web, aiohttp.ClientSession() as http:
        crew = new_crew(
            web,
            crawl={"seeds": [web.url(host) for host in hosts]},
            politeness=POLITENESS,
            daemon={"listen": "127.0.0.1:0"},
        )
        service = await started(crew, "run", str(crew.write_config("worker1")))
        found = re.search(r"(http://\S+?)/? shows the crawl", service.said())
        assert found, service.said()
        base = found[1]

        async def post(path: str, body: object = None) -> Any:
            async with http.post(base + path, json=body) as answer:
                assert answer.status == 200, await answer.text()
                return await answer.json()

        async with http.get(base + "/") as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
        async with http.get(base + "/api/status") as answer:
            status = await answer.json()
        assert status["state"] == "running"
        assert {one["pid"] for one in status["workers"]} == set(await pids(crew))

        await post("/api/pause")
        paused_s = time.monotonic() + REACHES_S
        await asyncio.sleep(REACHES_S + 1.0)
        assert not [one for one in web.log if one.start_s > paused_s], "both are paused"
        resumed_s = time.monotonic()
        await post("/api/resume")
        await post("/api/seeds", {"urls": [web.url("new.test")]})
        for host in (*hosts, "new.test"):
            await until(lambda: requests_since(web, host, resumed_s), 2 * REACHES_S)  # noqa: B023

        service.signal(signal.SIGTERM)
        await crew.finish()
        check_delays(web.log, DELAY_S)
    assert await crew.rows("SELECT 1 FROM sessions WHERE ended_at IS NULL") == []
    assert await crew.rows("SELECT 1 FROM slots WHERE lease IS NOT NULL OR clean = 0") == []
    assert not [pid for pid in await pids(crew) if os.path.exists(f"/proc/{pid}")]  # noqa: ASYNC240, PTH110
    assert await crew.problems() == []

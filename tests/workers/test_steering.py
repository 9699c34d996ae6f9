"""Commands on the database of running workers, judged by the log of the web."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import pytest

from crawler.testing import LocalWeb
from tests.workers.conftest import NewCrew
from tests.workers.crew import Crew
from tests.workers.endless_web import endless_web, requests_since, until
from tests.workers.judge import TOLERANCE_S, check_delays, worker_of

HOSTS = [f"h{n}.test" for n in range(8)]
DELAY_S = 0.25
SLOW_S = 1.0
REACHES_S = 3.0  # generous: a worker learns of a command within a second


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    async with endless_web(*HOSTS, "new.test") as web:
        yield web


@pytest.fixture
async def crew(new_crew: NewCrew, web: LocalWeb) -> Crew:
    """Two workers at work."""
    crew = new_crew(
        web,
        politeness={"delay": DELAY_S, "latency_factor": 0},
        fetch={"max_attempts": 1},
        scope={"max_path_segments": 3},
    )
    await crew.start_all(2, *(web.url(host) for host in HOSTS))
    for worker in crew.workers:
        await until(lambda: sum(worker_of(one) == worker.name for one in web.log) > 10, 60)  # noqa: B023
    return crew


def hosts_in_hand(crew: Crew, web: LocalWeb) -> list[str]:
    """A host of each worker, which it contacted just now."""
    latest = {worker_of(one): one.host for one in web.log}
    return [latest[worker.name] for worker in crew.workers]


async def test_commands_reach_the_worker_that_holds_the_host(crew: Crew, web: LocalWeb) -> None:
    hosts = hosts_in_hand(crew, web)
    for host in hosts:
        await crew.run("host", "pause", host)
    paused_s = time.monotonic() + REACHES_S
    await asyncio.sleep(REACHES_S + 1.5)
    for host in hosts:
        assert requests_since(web, host, paused_s) == [], "it is paused"
    for worker in crew.workers:
        assert any(worker_of(one) == worker.name and one.start_s > paused_s for one in web.log)

    for host in hosts:
        await crew.run("host", "resume", host)
    resumed_s = time.monotonic()
    for host in hosts:
        await until(lambda: requests_since(web, host, resumed_s), REACHES_S)  # noqa: B023

    for host in hosts:
        await crew.run("host", "slow", host, "--delay", f"{SLOW_S:g}s")
    slowed_s = time.monotonic() + REACHES_S
    await asyncio.sleep(REACHES_S)
    for host in hosts:
        await until(lambda: len(requests_since(web, host, slowed_s)) > 2, 10 * SLOW_S)  # noqa: B023
        contacts = [one for one in web.log.requests(host) if one.start_s > slowed_s]
        gaps = [two.start_s - one.end_s for one, two in itertools.pairwise(contacts)]
        assert min(gaps) >= SLOW_S - TOLERANCE_S
    await left(crew, web)


async def test_what_commands_queue_is_taken_up(crew: Crew, web: LocalWeb) -> None:
    await crew.run("seeds", "add", web.url("new.test", "/100"))
    await until(lambda: requests_since(web, "new.test", 0.0), REACHES_S)

    host, _ = hosts_in_hand(crew, web)
    await crew.run("seeds", "add", "--priority", "5", web.url(host, "/broken"))
    await crew.until("SELECT 1 FROM failed")
    failed_s = time.monotonic()
    assert "1 failed URL queued again" in await crew.run("retry", "failed")
    await until(
        lambda: any(e.path == "/broken" and e.start_s > failed_s for e in web.log),
        REACHES_S,
    )
    await crew.until(f"SELECT 1 FROM visited WHERE url = '{web.url(host, '/broken')}'")
    await left(crew, web)


async def left(crew: Crew, web: LocalWeb) -> None:
    for worker in crew.workers:
        worker.interrupt()
    await crew.finish()
    assert await crew.problems() == []
    check_delays(web.log, DELAY_S)

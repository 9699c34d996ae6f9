"""Workers that share a crawl are killed and stopped, and so is their server. Judged by the log of
the web, and by the database."""

from __future__ import annotations

import asyncio
import random
import signal
import time

import pytest

from crawler.config import from_dict
from crawler.offline_control import execute_in_database
from crawler.operator_commands import RetryFailed
from tests.postgres_server import PostgresServer, running_server
from tests.workers.conftest import NewCrew
from tests.workers.crew import GRACE_S, LEASE_S, Crew, Worker
from tests.workers.judge import (
    Fault,
    check_committed,
    check_delays,
    check_repeats,
    check_robots,
)
from tests.workers.linked_web import (
    CRAWL_DELAY_S,
    SLOW_HOST,
    LinkedWeb,
    everything,
    hosts_of,
    linked_web,
)

WEB = {SLOW_HOST: 6, **hosts_of(25, 24)}
DELAY_S = 0.8
SERVER_DOWN_S = 1.5
QUARANTINED = "error LIKE 'quarantined: %'"


class Course:
    """A crawl with faults, at moments of its progress rather than of time: so they come in the
    midst of it on any machine."""

    def __init__(self, crew: Crew, web: LinkedWeb, seed: int) -> None:
        self.crew = crew
        self.web = web
        self.rng = random.Random(seed)
        self.faults: list[Fault] = []

    async def until(self, part: float) -> None:
        """Wait until so much of the web was requested, and a little longer."""
        await self.web.until(part * len(everything(WEB)))
        await asyncio.sleep(self.rng.uniform(0.0, 0.5))

    async def kill(self, worker: Worker) -> Worker:
        """`kill -9`; another one takes its place."""
        assert worker.process.returncode is None, worker.said()
        at_s = worker.kill()
        await worker.process.wait()
        committed = frozenset(await self.crew.urls("visited"))
        self.faults.append(
            Fault(at_s=at_s, until_s=time.monotonic(), worker=worker.name, committed=committed)
        )
        return await self.crew.joined(await self.crew.start())

    async def stop(self, worker: Worker) -> None:
        """SIGSTOP until others have taken over its hosts and contact them, then SIGCONT."""
        at_s = worker.signal(signal.SIGSTOP)
        await self.crew.until(
            f"SELECT 1 FROM sessions WHERE pid = {worker.process.pid} AND ended_at IS NOT NULL"
        )
        assert time.monotonic() - at_s > LEASE_S + GRACE_S - 1.5, "its hosts were taken too soon"
        committed = frozenset(await self.crew.urls("visited"))
        self.faults.append(
            Fault(at_s=at_s, until_s=at_s, worker=worker.name, committed=frozenset())
        )
        await asyncio.sleep(2.0)
        cont_s = worker.signal(signal.SIGCONT)
        self.faults.append(
            Fault(at_s=at_s, until_s=cont_s, worker=worker.name, committed=committed)
        )

    async def restart(self, server: PostgresServer) -> None:
        """`kill -9` of the server, which starts again after a while."""
        committed = frozenset(await self.crew.urls("visited"))
        at_s = time.monotonic()
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(SERVER_DOWN_S)
        await asyncio.to_thread(server.start)
        self.faults.append(
            Fault(at_s=at_s, until_s=time.monotonic(), worker=None, committed=committed)
        )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3, 4))])
async def test_faults_lose_nothing_and_hurry_nobody(new_crew: NewCrew, seed: int) -> None:
    with running_server() as server:
        async with linked_web(WEB, seed) as web:
            politeness = {"delay": DELAY_S, "latency_factor": 0}
            crew = new_crew(web, url=server.create_database(), politeness=politeness)
            seeds = [web.url(f"h{n}.test") for n in range(4)]
            await crew.start_all(3, *seeds)
            course = Course(crew, web, seed)
            one, two, three = course.rng.sample(crew.workers, 3)

            await course.until(0.1)
            await course.kill(one)
            await course.until(0.25)
            await course.stop(two)
            await course.until(0.5)
            await course.kill(three)
            await course.until(0.7)
            await course.restart(server)
            assert await crew.urls("queued"), "the faults came in the midst of it"
            await crew.finish(within_s=120)

            if quarantined := await crew.rows(f"SELECT url FROM failed WHERE {QUARANTINED}"):
                assert len(quarantined) <= 3, "processes killed at random make few suspects"
                database = from_dict({"storage": {"url": crew.url}})
                command = RetryFailed(code="quarantined")
                retried, _ = await execute_in_database(database, command)
                assert retried.retried == len(quarantined)
                await crew.start()
                await crew.finish()
            pages = everything(WEB)
            assert await crew.urls("visited") == {web.url(*page) for page in pages}
            for view in ("queued", "failed"):
                assert await crew.urls(view) == set(), view
            assert await crew.problems() == []

            log = await web.log()
            assert pages <= {(entry.host, entry.path) for entry in log}
            check_delays(log, DELAY_S, {SLOW_HOST: CRAWL_DELAY_S})
            check_robots(log)
            repeats = check_repeats(log, course.faults)
            check_committed(log, course.faults, web.port)
            assert repeats <= 3 * len(WEB), "of each fault, at most one in flight at each host"

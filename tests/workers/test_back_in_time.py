"""Workers whose database goes back in time."""

from __future__ import annotations

import asyncio
import time

from tests.postgres_server import PostgresServer, running_replica, running_server
from tests.workers.conftest import NewCrew
from tests.workers.crew import Crew
from tests.workers.judge import check_delays
from tests.workers.linked_web import LinkedWeb, everything, hosts_of, linked_web

DELAY_S = 0.4
POLITENESS = {"delay": DELAY_S, "latency_factor": 0}
WENT_BACK = "went back in time"


def either(one: PostgresServer, other: PostgresServer, database: str) -> str:
    hosts = f"{one.host}:{one.port},{other.host}:{other.port}"
    return f"postgresql://courtly@{hosts}/{database}?target_session_attrs=read-write"


async def check_nothing_lost(crew: Crew, web: LinkedWeb, counts: dict[str, int]) -> None:
    await crew.finish()
    for worker in crew.workers:
        assert worker.said().count(WENT_BACK) >= 1, f"{worker.name} did not notice"
    assert await crew.urls("visited") == {web.url(*page) for page in everything(counts)}
    assert await crew.problems() == []
    check_delays(await web.log(), DELAY_S)
    assert await crew.rows("SELECT sum(breaches) FROM hosts") == [(0,)]
    assert await crew.rows("SELECT returns, settled FROM crawl") == [(1, 1)]


async def test_a_replica_takes_over_that_had_not_received_all(new_crew: NewCrew) -> None:
    counts = hosts_of(8, 25)
    with running_server(replicated=True) as primary:
        database = primary.create_database().rpartition("/")[2]
        with running_replica(primary) as replica:
            async with linked_web(counts) as web:
                url = either(primary, replica, database)
                crew = new_crew(web, url=url, politeness=POLITENESS)
                for _ in range(2):
                    await crew.joined(await crew.start(*(web.url(host) for host in counts)))
                await web.until(30)
                await asyncio.to_thread(replica.stop_receiving)
                begun = await web.count()
                await web.until(begun + 50)  # of which the replica learns nothing
                await asyncio.to_thread(primary.kill)
                killed_s = time.monotonic()
                await asyncio.to_thread(replica.promote)
                await check_nothing_lost(crew, web, counts)
                log = await web.log()
                contacts = sorted(entry.start_s for entry in log if entry.start_s > killed_s)
                assert contacts, "something was left to do"

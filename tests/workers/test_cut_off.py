"""Workers whose database is away for a while, or seems to be."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.postgres_server import PostgresServer, running_server
from tests.storage.postgres.proxy import Proxy
from tests.workers.conftest import NewCrew
from tests.workers.crew import GRACE_S, LEASE_S
from tests.workers.judge import IN_SOCKETS_S, Fault, check_sound, worker_of
from tests.workers.linked_web import everything, hosts_of, linked_web

DELAY_S = 0.6
POLITENESS = {"delay": DELAY_S, "latency_factor": 0}


async def test_workers_that_are_cut_off_contact_nobody_after_their_leases(
    new_crew: NewCrew, postgres: PostgresServer, postgres_url: str
) -> None:
    """From the first, nothing arrives any more; the connections of the second are closed, and it
    can make no others."""
    counts = hosts_of(18, 30)

    def through(proxy: Proxy) -> str:
        return postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")

    async with (
        linked_web(counts) as web,
        Proxy(postgres.host, postgres.port).running() as one,
        Proxy(postgres.host, postgres.port).running() as two,
    ):
        crew = new_crew(web, politeness=POLITENESS)
        seeds = [web.url(host) for host in counts]
        for url in (through(one), through(two), postgres_url):
            await crew.start(*seeds, url=url)
        await web.until_each([worker.name for worker in crew.workers], 10)

        cut_s = time.monotonic()
        one.speaking.clear()
        two.refusing = True
        two.cut_all()
        pids = ", ".join(str(worker.process.pid) for worker in crew.workers[:2])
        ended = f"SELECT 1 FROM sessions WHERE pid IN ({pids}) AND ended_at IS NOT NULL"
        await crew.until(f"{ended} OFFSET 1")
        taken_s = time.monotonic()
        await asyncio.sleep(2.0)
        two.refusing = False
        one.speaking.set()
        back_s = time.monotonic()

        await crew.finish()
        assert await crew.urls("visited") == {web.url(*page) for page in everything(counts)}
        assert await crew.problems() == []
        log = await web.log()
    assert taken_s > cut_s + LEASE_S + GRACE_S - 1.5, "its hosts were taken too soon"
    faults = []
    for worker in crew.workers[:2]:
        times_s = [entry.start_s for entry in log if worker_of(entry) == worker.name]
        last_s = max(start_s for start_s in times_s if start_s < back_s)
        assert last_s < cut_s + LEASE_S + IN_SOCKETS_S, "it contacts nobody after its deadline"
        assert max(times_s) > back_s, "it continues"
        faults.append(Fault(at_s=cut_s, until_s=taken_s, worker=worker.name, committed=frozenset()))
    assert any(cut_s + 0.2 < entry.start_s < cut_s + LEASE_S for entry in log)
    check_sound(log, DELAY_S, faults)


async def test_a_worker_outlives_restarts_of_the_server(new_crew: NewCrew) -> None:
    counts = hosts_of(8, 15)
    with running_server() as server:
        async with linked_web(counts) as web:
            crew = new_crew(web, url=server.create_database(), politeness=POLITENESS)
            await crew.start(*(web.url(host) for host in counts))
            for pages, mode in ((25, signal.SIGINT), (60, signal.SIGKILL)):
                await web.until(pages)
                await asyncio.to_thread(server.stop, mode=mode)
                await asyncio.sleep(1.0)
                await asyncio.to_thread(server.start)
            await crew.finish()
            assert await crew.urls("visited") == {web.url(*page) for page in everything(counts)}
            assert await crew.problems() == []
            log = await web.log()
    check_sound(log, DELAY_S)  # nothing is requested again

"""Workers that share a crawl without faults, that join it, and that leave it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter

from crawler.testing import RequestLog
from tests.workers.conftest import NewCrew
from tests.workers.crew import Crew
from tests.workers.endless_web import endless_web, until
from tests.workers.judge import check_delays, check_sound, worker_of
from tests.workers.linked_web import Counts, LinkedWeb, everything, hosts_of, linked_web

DELAY_S = 0.6
PACE_S = 0.2
WATCHED_S = 4.0
POLITENESS = {"delay": DELAY_S, "latency_factor": 0}


async def finished(crew: Crew, web: LinkedWeb, counts: Counts) -> RequestLog:
    """The log of a crawl that has visited everything, when all workers have ended."""
    await crew.finish()
    assert await crew.urls("visited") == {web.url(*page) for page in everything(counts)}
    assert await crew.urls("queued") == await crew.urls("failed") == set()
    assert await crew.problems() == []
    return await web.log()


async def test_workers_share_the_hosts(new_crew: NewCrew) -> None:
    counts = hosts_of(12, 16)
    async with linked_web(counts) as web:
        crew = new_crew(web, politeness=POLITENESS)
        await crew.start_all(3, *(web.url(host) for host in counts))
        log = await finished(crew, web, counts)
    check_sound(log, DELAY_S)
    requests = {worker.name: 0 for worker in crew.workers}
    for entry in log:
        requests[worker_of(entry)] += 1
    assert min(requests.values()) >= 8, requests


async def test_a_worker_that_joins_takes_part(new_crew: NewCrew) -> None:
    counts = hosts_of(10, 20)
    async with linked_web(counts) as web:
        crew = new_crew(web, politeness=POLITENESS)
        await crew.start(*(web.url(host) for host in counts))
        await web.until(15)
        await crew.start()
        log = await finished(crew, web, counts)
    check_sound(log, DELAY_S)
    assert sum(worker_of(entry) == "worker2" for entry in log) >= 15


async def test_one_that_joins_late_visits_as_many_pages(new_crew: NewCrew) -> None:
    """The hosts are alike and have no end: each worker soon has as many as the others."""
    hosts = [f"h{n}.test" for n in range(12)]
    async with endless_web(*hosts) as web:
        crew = new_crew(web, politeness={"delay": PACE_S, "latency_factor": 0})
        await crew.start_all(2, *(web.url(host) for host in hosts))
        await until(lambda: len({worker_of(entry) for entry in web.log}) == 2, 20)
        await crew.joined(await crew.start())
        await crew.until(
            "SELECT 1 FROM (SELECT count(*) AS n FROM slots WHERE lease > 0 GROUP BY lease) AS held"
            f" HAVING count(*) = 3 AND min(n) = max(n) AND sum(n) = {len(hosts)}",
            within_s=20,
        )
        from_s = time.monotonic()
        await asyncio.sleep(WATCHED_S)
        pages = Counter(worker_of(entry) for entry in web.log if entry.start_s >= from_s)
        for worker in crew.workers:
            worker.interrupt()
        await crew.finish()
        check_sound(web.log, PACE_S)
    assert min(pages.values()) > WATCHED_S / PACE_S
    assert max(pages.values()) <= 1.25 * min(pages.values()), pages


async def test_a_worker_that_is_interrupted_leaves_its_hosts_to_the_others(
    new_crew: NewCrew,
) -> None:
    counts = hosts_of(10, 15)
    async with linked_web(counts) as web:
        crew = new_crew(web, politeness=POLITENESS)
        one, two = await crew.start_all(2, *(web.url(host) for host in counts))
        await web.until_each([one.name, two.name], 10)
        one.interrupt()
        await one.process.wait()
        held = "SELECT 1 FROM slots JOIN sessions AS s ON s.id = lease WHERE s.ended_at > 0"
        assert await crew.rows(held) == [], "its hosts are free immediately"
        assert await crew.rows("SELECT 1 FROM slots WHERE lease IS NULL AND clean = 0") == []
        log = await finished(crew, web, counts)
    check_sound(log, DELAY_S)  # it has committed everything, so nothing is requested again


async def test_no_two_workers_contact_one_domain(new_crew: NewCrew) -> None:
    """With `per = "domain"`, all hosts of a registrable domain have one clock."""
    counts = {f"h{n}.d{n % 4}.test": 3 for n in range(16)}
    async with linked_web(counts) as web:
        crew = new_crew(web, politeness={**POLITENESS, "per": "domain"})
        await crew.start_all(2, *(web.url(host) for host in counts))
        log = await finished(crew, web, counts)
    domains = RequestLog(
        dataclasses.replace(entry, host=entry.host.partition(".")[2]) for entry in log
    )
    assert len({entry.host for entry in domains}) == 4
    check_delays(domains, DELAY_S)
    check_sound(log, DELAY_S)
    assert len({worker_of(entry) for entry in log}) == 2


async def test_workers_take_turns_at_one_address(new_crew: NewCrew) -> None:
    """With `per = "ip"`, all hosts here have one clock."""
    counts = hosts_of(8, 4)
    pace = {"per": "ip", "ip_delay": 0.1, "delay": 0.5, "latency_factor": 0}
    async with linked_web(counts) as web:
        crew = new_crew(web, politeness=pace)
        await crew.start_all(2, *(web.url(host) for host in counts))
        log = await finished(crew, web, counts)
    check_delays(RequestLog(dataclasses.replace(entry, host="one") for entry in log), 0.1)
    check_sound(log, 0.5)
    assert len({worker_of(entry) for entry in log}) == 2

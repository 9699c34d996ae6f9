"""A session of callers on a store that others share: it waits for hosts that they hold, leaves its
own to them, and contacts nobody without a valid lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawler.config import from_dict
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_waits import WaitLimit
from crawler.embedding.redirects import _ask
from crawler.fetching.request import Answer, Failure, Request
from crawler.operator_commands import SlowHosts, encode
from crawler.testing import JumpClock, Reply, html, not_found
from storage.store import Batch, HostClock, HostUpdate, WorkerStatus
from tests.crawler.scheduling.shared_rig import (
    AGENT,
    GRACE_S,
    LEASE_S,
    SharedWorld,
    WorkerClock,
    WorkerStore,
)

CONFIG = from_dict(
    {"crawl": {"user_agent": AGENT}, "politeness": {"delay": 1, "latency_factor": 0}}
)


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        world = SharedWorld(clock)
        await world.memory.open()
        yield world


def answers(request: Request) -> Reply:
    if request.url.endswith("/robots.txt"):
        return not_found()
    return Reply(body="x", delay_s=25.0) if "slow" in request.url else html("Page")


async def get(client: CallerGate, url: str) -> Answer | Failure:
    return await _ask(client, Request(url=url), WaitLimit(client.clock), retry=True)


async def keep(store: WorkerStore) -> None:
    """Renew a session that does nothing else."""
    while True:
        await store.pulse(store.number, WorkerStatus(idle=True))
        await store._clock.sleep_until(store._clock.monotonic() + 1)


async def test_it_waits_for_a_host_that_another_worker_holds(shared: SharedWorld) -> None:
    other = WorkerStore(shared.memory, WorkerClock(shared.clock))
    (lease,) = (await other.acquire(other.number, ["a.test"])).values()
    renewing = asyncio.create_task(keep(other))
    async with shared.session(CONFIG, answers) as client:
        asked = [asyncio.create_task(get(client, f"http://a.test/{n}")) for n in range(3)]
        await shared.wait(30)
        assert not any(task.done() for task in asked)
        turn = await client.next_turn("http://a.test/")
        assert turn.reason == "another worker has leased this host"
        assert isinstance(await get(client, "http://b.test/"), Answer)
        update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(), release=True)
        await other.complete(other.number, Batch(hosts=[update]))
        for answer in await asyncio.gather(*asked):
            assert isinstance(answer, Answer)
    renewing.cancel()


async def test_it_leaves_hosts_that_nobody_uses_to_others(shared: SharedWorld) -> None:
    other = WorkerStore(shared.memory, WorkerClock(shared.clock))
    async with shared.session(CONFIG, answers) as client:
        await get(client, "http://a.test/")
        assert await other.acquire(other.number, ["a.test"]) == {}
        await shared.wait(10)
        leases = await other.acquire(other.number, ["a.test"])
        assert leases["a.test"].clean


async def test_callers_go_on_after_the_lease_was_lost(shared: SharedWorld) -> None:
    """Whoever waits in line waits on, for a lease of the host that is valid."""
    other = WorkerStore(shared.memory, WorkerClock(shared.clock))
    renewing = asyncio.create_task(keep(other))
    async with shared.session(CONFIG, answers) as client:
        store = client._loop.crawl.store
        await get(client, "http://a.test/0")
        asked = [asyncio.create_task(get(client, f"http://a.test/{n}")) for n in range(1, 40)]
        await shared.wait(5)
        store.reachable.clear()  # type: ignore[attr-defined]
        await shared.wait(LEASE_S + GRACE_S + 5)
        done = sum(task.done() for task in asked)
        assert 0 < done < 39
        store.reachable.set()  # type: ignore[attr-defined]
        for answer in await asyncio.gather(*asked):
            assert isinstance(answer, Answer)
        fetcher = client.downloader._fetcher
        gaps = fetcher.log.gaps("a.test")  # type: ignore[attr-defined]
        assert min(gaps) >= 1 - 1e-6
        assert max(gaps) > GRACE_S
    renewing.cancel()


async def test_a_request_that_may_not_be_sent_waits_for_the_next_permit(
    shared: SharedWorld,
) -> None:
    async with shared.session(CONFIG, answers) as client:
        await get(client, "http://a.test/")
        permit = await client.enter("http://a.test/1")
        shared.clock.sleep(3600)
        refused = await client.contact(permit, Request(url="http://a.test/1"))
        assert isinstance(refused, Failure)
        assert not refused.contacted
        assert permit.over
        answer = await _ask(
            client, Request(url="http://a.test/1"), WaitLimit(client.clock), retry=True
        )
        assert isinstance(answer, Answer)
        log = client.downloader._fetcher.log  # type: ignore[attr-defined]
        assert log.paths() == ["/robots.txt", "/", "/1"]


async def test_what_is_broken_off_is_asked_again(shared: SharedWorld) -> None:
    async with shared.session(CONFIG, answers) as client:
        store = client._loop.crawl.store
        url = "http://a.test/slow"
        asking = asyncio.create_task(
            _ask(client, Request(url=url), WaitLimit(client.clock), retry=True)
        )
        await shared.wait(3)
        store.reachable.clear()  # type: ignore[attr-defined]
        await shared.wait(LEASE_S + 1)
        log = client.downloader._fetcher.log  # type: ignore[attr-defined]
        assert log[-1].path == "/slow"
        assert log[-1].end_s <= shared.clock.monotonic()
        store.reachable.set()  # type: ignore[attr-defined]
        assert isinstance(await asking, Answer)


async def test_a_robots_txt_that_is_broken_off_is_asked_for_again(shared: SharedWorld) -> None:
    def slow_robots(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return Reply(status=404, delay_s=25.0)
        return html("Page")

    async with shared.session(CONFIG, slow_robots) as client:
        store = client._loop.crawl.store
        asking = asyncio.create_task(get(client, "http://a.test/"))
        await shared.wait(3)
        store.reachable.clear()  # type: ignore[attr-defined]
        await shared.wait(LEASE_S + 1)
        store.reachable.set()  # type: ignore[attr-defined]
        assert isinstance(await asking, Answer)
        log = client.downloader._fetcher.log  # type: ignore[attr-defined]
        assert log.paths() == ["/robots.txt", "/robots.txt", "/"]


async def test_it_obeys_what_is_ordered_for_its_hosts(shared: SharedWorld) -> None:
    other = WorkerStore(shared.memory, WorkerClock(shared.clock))
    async with shared.session(CONFIG, answers) as client:
        await get(client, "http://a.test/")
        await other.publish(other.number, encode(SlowHosts(hosts=("a.test",), delay_s=20.0)))
        await shared.wait(1.2)
        before_s = shared.clock.monotonic()
        await get(client, "http://a.test/1")
        assert shared.clock.monotonic() - before_s > 15


async def test_a_crawl_does_not_wait_for_the_end_of_a_session(shared: SharedWorld) -> None:
    async with shared.session(CONFIG, answers) as client:
        await get(client, "http://other.test/")
        (worker,) = await shared.begin(answers, "http://a.test/", workers=1)
        await shared.end()
        assert worker.ended_s is not None
        assert worker.ended_s < 30

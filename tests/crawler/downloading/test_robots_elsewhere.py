"""A robots.txt that redirects to a host that another worker has leased."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from crawler.fetching.request import Request
from crawler.testing import JumpClock, Reply, html, not_found, text
from policies.url import host_of, path_of
from storage.store import WorkerStatus
from tests.crawler.scheduling.shared_rig import SharedWorld, WorkerClock, WorkerStore


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        yield SharedWorld(clock)


BARE = [f"http://h{n}.test/0" for n in range(6)]
FULL = [f"http://www.h{n}.test/0" for n in range(6)]


def answers(request: Request) -> Reply:
    """Each bare host's robots.txt is that of its www, which has many pages."""
    host, path = host_of(request.url), path_of(request.url)
    if path == "/robots.txt":
        if host.startswith("www."):
            return text("User-agent: *\nDisallow: /no\n")
        return Reply(status=301, headers={"Location": f"http://www.{host}/robots.txt"})
    return html("Page", *(f"/{n}" for n in range(40)), "/no")


async def test_what_the_holder_stored_is_used_without_a_request(shared: SharedWorld) -> None:
    await shared.begin(answers, *FULL, *BARE, workers=3)
    await shared.wait(15)
    visited = {entry.host for entry in shared.requests if entry.path != "/robots.txt"}
    assert visited == {host_of(url) for url in (*BARE, *FULL)}, "while all www are crawled"
    await shared.end()
    robots = [entry.host for entry in shared.requests if entry.path == "/robots.txt"]
    assert sorted(set(robots)) == sorted(host_of(url) for url in (*BARE, *FULL))
    assert len(robots) == len(set(robots)), "each is fetched once"
    assert len(shared.fetched()) == 12 * 40
    assert not [url for url in shared.fetched() if url.endswith("/no")]
    shared.check_delays()


async def test_else_it_waits_and_asks_for_the_host_once_a_second(shared: SharedWorld) -> None:
    """The target is no robots.txt of its own, so it must be requested at that host."""

    def elsewhere(request: Request) -> Reply:
        host, path = host_of(request.url), path_of(request.url)
        if path != "/robots.txt":
            return html("Page", *(f"/{n}" for n in range(20 if host == "big.test" else 2)))
        if host == "big.test":
            return not_found()
        return Reply(status=301, headers={"Location": "http://big.test/rules"})

    await shared.memory.open()
    other = WorkerStore(shared.memory, WorkerClock(shared.clock))
    assert "big.test" in await other.acquire(other.number, ["big.test"])
    (worker,) = await shared.begin(elsewhere, "http://small.test/0", workers=1)
    await shared.wait(2)
    before = worker.store.calls
    await shared.wait(5)
    assert worker.store.calls - before < 5 * 8
    now = worker.control.host_now("small.test")
    assert now is not None
    assert now.reason == "its robots.txt redirects to big.test, leased by another worker"
    assert [entry.host for entry in worker.requests] == ["small.test"]
    other.end()
    await shared.wait(2)
    assert worker.requests[1].path == "/rules"
    await shared.end()
    assert "http://small.test/1" in shared.fetched()
    shared.check_delays()


async def test_after_a_minute_it_counts_as_unreachable(shared: SharedWorld) -> None:
    def elsewhere(request: Request) -> Reply:
        return Reply(status=301, headers={"Location": "http://big.test/rules"})

    await shared.memory.open()
    other = WorkerStore(shared.memory, WorkerClock(shared.clock))
    await other.acquire(other.number, ["big.test"])
    (worker,) = await shared.begin(elsewhere, "http://small.test/0", workers=1)
    for _ in range(70):
        await other.pulse(other.number, WorkerStatus(idle=True))
        await shared.wait(1)
    (row,) = await shared.memory.rows("robots")
    assert row["state"] == "unreachable"
    assert {entry.host for entry in worker.requests} == {"small.test"}
    worker.scheduler.stop()
    await shared.end()

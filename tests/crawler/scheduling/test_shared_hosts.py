"""Hosts of a shared crawl find their way to whoever can use them, and what others find is seen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from crawler.fetching.request import Request
from crawler.frontier.commit_buffer import CommitBatch
from crawler.scheduling import host_leases
from crawler.testing import JumpClock, Reply, html, not_found
from policies.retries import FailureCode
from policies.scope import Skip
from policies.url import host_of, path_of
from storage.store import Batch, Completed, Dropped, HostClock, HostUpdate, Lease, Prefetched
from tests.crawler.frontier.rig import DrivenFrontier
from tests.crawler.scheduling.shared_rig import GRACE_S, LEASE_S, SharedWorld

LONG = 90  # pages: hosts that are still crawled when others have been given up


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        yield SharedWorld(clock)


def long_sites(request: Request) -> Reply:
    if path_of(request.url) == "/robots.txt":
        return not_found()
    return html("Page", *(f"/{n}" for n in range(LONG)))


LEASE = Lease(
    slot="a.test", epoch=7, clean=True, clock=HostClock(), paused=False, slow_s=None, visited=0,
    body_bytes=0, robots={}, prefetched=Prefetched(urls=(), next_due_in_s=None),
)  # fmt: skip
SEEDS = [f"http://h{n}.test/0" for n in range(12)]


async def test_hosts_are_claimed_in_portions(shared: SharedWorld) -> None:
    """Those who start together share what there is, without one giving to the other."""
    first, second = await shared.begin(long_sites, *SEEDS)
    await shared.wait(0.5)
    assert (len(first.hosts), len(second.hosts)) in ((8, 4), (4, 8))
    for worker in shared.workers:
        worker.scheduler.stop()
    await shared.end()


async def test_hosts_that_were_shared_out_are_not_claimed_back(shared: SharedWorld) -> None:
    """The one that needs them may be slow to claim them."""
    (first,) = await shared.begin(long_sites, *SEEDS, workers=1)
    await shared.wait(4)
    assert len(first.hosts) == len(SEEDS)
    (second,) = await shared.begin(long_sites, workers=1)
    while len(first.hosts) == len(SEEDS):
        await shared.wait(0.05)
    second.store.slow_s = 8.0
    for _ in range(80):
        assert len(first.hosts) == len(SEEDS) / 2
        await shared.wait(0.1)
    for worker in shared.workers:
        worker.scheduler.stop()
    await shared.end()


async def test_hosts_that_were_taken_over_are_left_to_their_new_worker(
    shared: SharedWorld,
) -> None:
    """A worker that was stopped drops all that it held: others are in the midst of it."""
    first, second = await shared.begin(long_sites, *SEEDS[:4])
    await shared.wait(5.03)
    held = set(first.hosts)
    first.clock.stop()
    await shared.wait(LEASE_S + GRACE_S + 10)
    first.clock.resume()
    await shared.wait(0.2)
    assert held <= set(second.hosts)
    assert not held & set(first.hosts)
    taken = [e for e in second.requests if e.host in held]
    assert taken, "they are crawled already"
    await shared.end()
    assert len(shared.fetched()) == 4 * LONG
    shared.check_delays()


async def test_what_others_find_on_an_idle_host_is_visited_soon(shared: SharedWorld) -> None:
    def answers(request: Request) -> Reply:
        host, path = host_of(request.url), path_of(request.url)
        if path == "/robots.txt":
            return not_found()
        if host == "hub.test":
            return html("Hub")
        number = int(path[1:])
        links = [f"/{number + 1}"] if number < 30 else []
        return html("Page", *links, *(["http://hub.test/new"] if number == 15 else []))

    seeds = ["http://hub.test/", *(f"http://h{n}.test/0" for n in range(3))]
    await shared.begin(answers, *seeds, scope={"follow": "any"})
    await shared.end()
    found_s = min(e.end_s for e in shared.requests if e.path == "/15")
    (visited_s,) = [e.start_s for e in shared.requests if e.path == "/new"]
    assert visited_s < found_s + 3
    shared.check_delays()


@pytest.mark.parametrize("others", [0, 2])
async def test_what_others_find_on_a_host_that_waits_is_visited_before_its_retry(
    shared: SharedWorld, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts that wait are asked for in turn, one in each look."""
    monkeypatch.setattr(host_leases, "POLLED", 1)

    def answers(request: Request) -> Reply | FailureCode:
        host, path = host_of(request.url), path_of(request.url)
        if path == "/robots.txt":
            return not_found()
        if request.url == "http://hub.test/" or host.startswith("silent"):
            return FailureCode.TIMEOUT
        if host == "hub.test":
            return html("Hub")
        number = int(path[1:])
        links = [f"/{number + 1}"] if number < 30 else []
        return html("Page", *links, *(["http://hub.test/new"] if number == 15 else []))

    silent = [f"http://silent{n}.test/" for n in range(others)]
    seeds = [*silent, "http://hub.test/", *(f"http://h{n}.test/0" for n in range(3))]
    fetch = {"max_attempts": 6}
    await shared.begin(answers, *seeds, scope={"follow": "any"}, fetch=fetch)
    await shared.end()
    found_s = min(e.end_s for e in shared.requests if e.path == "/15")
    (visited_s,) = [e.start_s for e in shared.requests if e.path == "/new"]
    tries = [e.start_s for e in shared.requests if (e.host, e.path) == ("hub.test", "/")]
    assert len(tries) > 1
    assert visited_s < found_s + 4 + others
    assert tries[0] < visited_s < tries[-1]


async def test_scope_that_another_worker_has_widened_is_waited_for(shared: SharedWorld) -> None:
    """Where a seed's redirects lead is known to others a moment after they can claim its URLs."""

    def answers(request: Request) -> Reply:
        host, path = host_of(request.url), path_of(request.url)
        if path == "/robots.txt":
            return not_found()
        if host == "old.test":
            return Reply(status=301, headers={"Location": "http://www.new.test/"})
        return html("Page", *(f"http://s{n}.new.test/" for n in range(60)))

    workers = await shared.begin(answers, "http://old.test/", workers=3, scope={"follow": "domain"})
    late = list(workers)
    while late and "http://www.new.test/" not in shared.fetched():
        await shared.wait(0.05)
        for worker in [worker for worker in late if worker.requests]:
            worker.store.slow_s = 1.5  # others are faster to claim what it finds,
            late.remove(worker)
    for worker in late:
        worker.store.pulse_s = 6.0  # and what it publishes comes late to them
    await shared.end()
    assert {f"http://s{n}.new.test/" for n in range(60)} <= {*shared.fetched()}
    assert sum(bool(worker.requests) for worker in late) == len(late) > 0
    assert await shared.memory.rows("skipped") == []
    assert max(worker.store.calls for worker in late) < 600, "it asks once a second"


async def test_an_old_lease_that_is_refused_costs_no_new_one() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        host = driven.frontier.host_leased(LEASE)
        driven.frontier.deadline.begin()
        old = HostUpdate(slot="a.test", epoch=host.epoch - 1, clock=HostClock())
        stale = Completed(stale=frozenset({"a.test"}), added={}, prefetched={})
        driven.frontier.committed(CommitBatch(outcomes=[], batch=Batch(hosts=[old]), upto=0), stale)
        assert not host.gone
        new = HostUpdate(slot="a.test", epoch=host.epoch, clock=HostClock())
        driven.frontier.committed(CommitBatch(outcomes=[], batch=Batch(hosts=[new]), upto=0), stale)
        assert host.gone
        assert host.lease_lost
        driven.close()


async def test_nothing_is_recorded_of_a_lost_lease() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        host = driven.frontier.host_leased(LEASE)
        buffer = driven.frontier.buffer
        driven.frontier.deadline.begin()
        driven.frontier.renewed(clock.boottime() + 15, lost=True)
        assert len(driven.permits) == 0
        outcome = Dropped(id=1, slot="a.test", reason=Skip.OUTSIDE)
        buffer.record(outcome, host)
        buffer.touch(host)
        buffer.contacted(host)
        buffer.urgent(host)
        assert buffer.take() is None
        driven.close()

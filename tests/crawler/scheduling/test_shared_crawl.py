"""Workers that share a crawl: each host is one's at a time, whatever happens to it or its store."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from crawler.fetching.request import Request
from crawler.testing import JumpClock, Reply, html, not_found
from policies.holds import HoldReason
from policies.url import host_of, path_of
from tests.crawler.scheduling.shared_rig import GRACE_S, LEASE_S, SharedWorld

PAGES = 20


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        yield SharedWorld(clock)


def sites(request: Request) -> Reply:
    """Hosts of PAGES pages each, which link to each other."""
    path = path_of(request.url)
    if path == "/robots.txt":
        return not_found()
    return html("Page", *(f"/{n}" for n in range(PAGES)))


def seeds_of(hosts: int) -> list[str]:
    return [f"http://h{n}.test/0" for n in range(hosts)]


ALL = PAGES  # the pages of one host


# ---------------------------------------------------------------- together


async def test_each_page_is_visited_once_and_no_host_early(shared: SharedWorld) -> None:
    workers = await shared.begin(sites, *seeds_of(12), workers=3)
    await shared.end()
    fetched = shared.fetched()
    assert len(fetched) == 12 * ALL
    assert set(fetched.values()) == {1}
    shared.check_delays()
    by_worker = [{entry.host for entry in worker.requests} for worker in workers]
    assert all(len(hosts) >= 2 for hosts in by_worker), "each has its share"
    robots = [entry.host for entry in shared.requests if entry.path == "/robots.txt"]
    assert sorted(robots) == sorted(f"h{n}.test" for n in range(12)), "once per origin"


async def test_workers_end_together(shared: SharedWorld) -> None:
    workers = await shared.begin(sites, *seeds_of(3), workers=3)
    await shared.end()
    ends = [worker.ended_s or 0.0 for worker in workers]
    assert max(ends) - min(ends) < 5
    assert 0 < max(ends) < 60


async def test_those_without_hosts_wait_for_links(shared: SharedWorld) -> None:
    """One seed: one worker has it all, until it leads to other hosts."""

    def answers(request: Request) -> Reply:
        host, path = host_of(request.url), path_of(request.url)
        if path == "/robots.txt":
            return not_found()
        if host == "first.test":
            number = int(path[1:])
            links = [f"/{number + 1}"] if number < 30 else [f"http://h{n}.test/0" for n in range(8)]
            return html("Page", *links)
        return sites(request)

    workers = await shared.begin(answers, "http://first.test/0", workers=4, scope={"follow": "any"})
    await shared.wait(20)
    assert sum(bool(worker.requests) for worker in workers) == 1
    assert not any(worker.task.done() for worker in workers)
    await shared.end()
    assert len(shared.fetched()) == 31 + 8 * ALL
    assert set(shared.fetched().values()) == {1}
    assert sum(bool(worker.requests) for worker in workers) > 2
    shared.check_delays()


async def test_a_worker_that_joins_late_is_given_hosts(shared: SharedWorld) -> None:
    (first,) = await shared.begin(sites, *seeds_of(10), workers=1)
    await shared.wait(5)
    assert len(first.hosts) == 10
    (second,) = await shared.begin(sites, workers=1)
    await shared.wait(6)
    assert 3 <= len(second.hosts) <= 7
    await shared.end()
    assert set(shared.fetched().values()) == {1}
    assert len(shared.fetched()) == 10 * ALL
    shared.check_delays()


async def test_idle_workers_ask_the_store_once_a_second(shared: SharedWorld) -> None:
    workers = await shared.begin(sites, "http://a.test/0", workers=2)
    await shared.wait(15)
    idle = next(worker for worker in workers if not worker.requests)
    assert idle.store.calls < 15 * 8
    await shared.end()


async def test_one_that_is_stopped_leaves_its_hosts_to_the_others(shared: SharedWorld) -> None:
    first, second = await shared.begin(sites, *seeds_of(6), workers=2)
    await shared.wait(6)
    first.scheduler.stop()
    await first.task
    assert not second.task.done()
    await shared.end()
    assert set(shared.fetched().values()) == {1}
    assert len(shared.fetched()) == 6 * ALL
    shared.check_delays()


async def test_the_page_budget_is_each_workers_own(shared: SharedWorld) -> None:
    """A host whose pages one worker may not visit any more is left to the others."""
    workers = await shared.begin(sites, "http://a.test/0", workers=3, crawl={"max_pages": 5})
    await shared.end()
    assert len(shared.fetched()) == 15
    assert [len(worker.requests) for worker in workers].count(5) >= 2
    shared.check_delays()


# ---------------------------------------------------------------- faults


async def test_the_hosts_of_a_killed_worker_rest_and_are_taken_over(shared: SharedWorld) -> None:
    first, second = await shared.begin(sites, *seeds_of(4), workers=2)
    await shared.wait(5.03)
    held = set(first.hosts)
    assert held
    first.kill()
    killed_s = shared.clock.monotonic()
    await shared.end()
    taken = [e for e in second.requests if e.host in held and e.start_s > killed_s]
    assert min(e.start_s for e in taken) >= killed_s + LEASE_S
    assert max(e.start_s for e in taken) <= killed_s + LEASE_S + GRACE_S + 60
    assert len(shared.fetched()) == 4 * ALL
    assert sum(count - 1 for count in shared.fetched().values()) <= 4, "what was in flight"
    shared.check_delays()


async def test_the_audit_agrees_with_the_log_while_clocks_are_set(shared: SharedWorld) -> None:
    """The clock of the database and those of the workers are set again and again, by steps that are
    easily overlooked, while hosts change hands: what the view says is what the sites saw."""
    workers = await shared.begin(sites, *seeds_of(9), workers=2)
    for number in range(20):
        await shared.wait(0.7)
        shared.clock.set_wall((0.9, -0.95, 0.95, 0.93)[number % 4])
        if number == 5:
            workers += await shared.begin(sites, workers=1)  # which takes some over
        for at, worker in enumerate(workers):
            skew_s = 0.95 * (number + at) % 7.3
            worker.clock.wall = lambda by_s=skew_s: shared.clock.wall() - by_s  # type: ignore[misc]
    killed = workers[0]
    assert killed.hosts
    killed.kill()
    await shared.end()
    shared.check_delays()
    unproven = 0
    for row in await shared.memory.rows("hosts"):
        log = [entry for entry in shared.requests if entry.host == row["host"]]
        # Of the last contacts of the killed worker, nothing may have been stored.
        rests_s = [after.start_s - one.end_s for one, after in itertools.pairwise(log)]
        smallest_s, contacts = row["smallest_rest_s"], row["contacts"]
        assert row["breaches"] == 0
        assert isinstance(contacts, int)
        assert isinstance(smallest_s, float)
        if not row["unproven"]:
            assert contacts == len(log)
            assert smallest_s == pytest.approx(min(rests_s), abs=1e-3)
        assert min(rests_s) - 1e-3 <= smallest_s <= max(rests_s) + 1e-3
        assert isinstance(row["unproven"], int)
        unproven += row["unproven"]
    assert unproven


async def test_a_stopped_worker_contacts_nobody_when_it_continues(shared: SharedWorld) -> None:
    """SIGSTOP beyond the lease: the first thing after waking is no request."""
    first, _ = await shared.begin(sites, *seeds_of(4), workers=2)
    await shared.wait(5.03)
    first.clock.stop()
    await shared.wait(LEASE_S + GRACE_S + 30)
    before = len(first.requests)
    first.store.slow_s = 0.5
    first.clock.resume()
    resumed_s = shared.clock.monotonic()
    await shared.wait(0.499)
    assert first.scheduler.frontier.permits.stops.reasons
    assert len(first.requests) == before
    await shared.end()
    later = [entry.start_s for entry in first.requests[before:]]
    assert all(at_s > resumed_s for at_s in later)
    assert len(shared.fetched()) == 4 * ALL
    shared.check_delays()


async def test_a_stop_within_the_lease_changes_nothing(shared: SharedWorld) -> None:
    first, _ = await shared.begin(sites, *seeds_of(4), workers=2)
    await shared.wait(5.03)
    held = set(first.hosts)
    first.clock.stop()
    await shared.wait(LEASE_S - 3)
    first.clock.resume()
    await shared.wait(1)
    assert set(first.hosts) == held
    await shared.end()
    assert set(shared.fetched().values()) == {1}
    shared.check_delays()


async def test_the_lease_counts_from_when_its_renewal_was_asked_for(shared: SharedWorld) -> None:
    """The answer may be long on its way, or wait in a buffer while the process is stopped."""
    (worker,) = await shared.begin(sites, *seeds_of(2), workers=1)
    await shared.wait(5)
    worker.store.pulse_s = 10.0
    await shared.wait(11.5)  # one answer has come
    assert worker.scheduler.frontier.deadline.left_s < LEASE_S - 9
    worker.store.pulse_s = 0.0
    await shared.end()


async def test_a_machine_that_slept_contacts_nobody(shared: SharedWorld) -> None:
    (worker,) = await shared.begin(sites, *seeds_of(2), workers=1)
    await shared.wait(5.03)
    shared.clock.sleep(3600)
    before = len(worker.requests)
    assert not worker.scheduler.frontier.expiry.may_contact()
    await shared.wait(0.5)
    assert len(worker.requests) == before
    await shared.end()
    assert len(shared.fetched()) == 2 * ALL


async def test_without_the_store_requests_wait_with_a_reason(shared: SharedWorld) -> None:
    (worker,) = await shared.begin(sites, *seeds_of(4), workers=1)
    await shared.wait(5)
    worker.store.reachable.clear()
    cut_s = shared.clock.monotonic()
    await shared.wait(LEASE_S + 1)
    holds = {hold.reason for hold in worker.scheduler.frontier.holds.current}
    assert holds == {HoldReason.LEASES_EXPIRED}
    assert worker.control.state == "held"
    await shared.wait(120)
    assert max(entry.start_s for entry in worker.requests) <= cut_s + LEASE_S
    worker.store.reachable.set()
    await shared.wait(3)
    assert not worker.scheduler.frontier.holds.current
    await shared.end()
    assert len(shared.fetched()) == 4 * ALL
    shared.check_delays()


async def test_what_is_in_flight_is_broken_off_when_the_lease_ends(shared: SharedWorld) -> None:
    """Another worker may contact the host soon: a slow answer must not be under way then."""

    def slow(request: Request) -> Reply:
        reply = sites(request)
        return Reply(body=reply.body, delay_s=25.0) if request.url.endswith("/6") else reply

    first, _ = await shared.begin(slow, *seeds_of(2), workers=2)
    await shared.wait(11)
    slow_ones = [entry for entry in shared.requests if entry.path == "/6"]
    assert len(slow_ones) == 2
    first.store.reachable.clear()
    cut_s = shared.clock.monotonic()
    await shared.wait(LEASE_S + 2)
    (mine,) = [entry for entry in first.requests if entry.path == "/6"]
    assert mine.end_s <= cut_s + LEASE_S
    await shared.wait(300)
    first.store.reachable.set()
    await shared.end()
    assert set(shared.fetched()) == {
        f"http://h{n}.test/{page}" for n in (0, 1) for page in range(ALL)
    }
    shared.check_delays()


async def test_workers_end_though_their_database_answers_slowly(
    shared: SharedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each second, they ask it for what others may have found at a host that waits."""
    monkeypatch.setattr("tests.crawler.scheduling.shared_rig.CALLS_MAX", 12_000)
    workers = await shared.begin(
        {"http://a.test/robots.txt": Reply(status=500)},
        "http://a.test/",
        crawl={"patience": 100},
        robots={"unreachable": "closed"},
    )
    for worker in workers:
        worker.store.slow_s = 0.3
    await shared.end()
    assert shared.clock.elapsed_s < 1000

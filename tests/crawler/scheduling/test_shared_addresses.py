"""`per = "ip"` in a shared crawl: an address is contacted by one worker at a time."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable

import pytest

from crawler.fetching.request import Request
from crawler.frontier.addresses import LEASE_MIN_S, OTHERS_LEASE_S, Addresses
from crawler.frontier.host_queue import HostQueue
from crawler.testing import JumpClock, LoggedRequest, Reply, html, not_found, text
from policies.pacing import PacingRules, Per
from policies.url import host_of, path_of
from storage.store import HostClock, Lease, LeasedAddress, Prefetched
from tests.crawler.scheduling.shared_rig import GRACE_S, LEASE_S, SharedWorld, SharingWorker

PAGES = 8
IP_DELAY_S = 1.0
POLITENESS = {"per": "ip", "ip_delay": IP_DELAY_S, "delay": 2.0}


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        yield SharedWorld(clock)


def sites(request: Request) -> Reply:
    if path_of(request.url) == "/robots.txt":
        return not_found()
    return html("Page", *(f"/{n}" for n in range(PAGES)))


def patient_sites(request: Request) -> Reply:
    """One of them wants its address left alone for long."""
    if path_of(request.url) == "/robots.txt" and host_of(request.url) == "h0.test":
        return text("User-agent: *\nCrawl-delay: 12")
    return sites(request)


def seeds_of(hosts: int) -> list[str]:
    return [f"http://h{n}.test/0" for n in range(hosts)]


def address_of(host: str) -> str:
    """Of three."""
    return f"192.0.2.{int(host.removeprefix('h').removesuffix('.test')) % 3}"


def spread(workers: Iterable[SharingWorker], hosts: int) -> None:
    """Give the hosts three addresses, instead of one."""
    for worker in workers:
        worker.fetcher.addresses = {f"h{n}.test": address_of(f"h{n}.test") for n in range(hosts)}


def check(requests: Iterable[LoggedRequest], delay_s: float = IP_DELAY_S) -> None:
    """No address was contacted early, whoever contacted it."""
    ended_s: dict[str, float] = {}
    for entry in requests:
        address = address_of(entry.host)
        if address in ended_s:
            assert entry.start_s >= ended_s[address] + delay_s - 1e-6, (entry.host, entry.path)
        ended_s[address] = max(entry.end_s, ended_s.get(address, 0.0))


async def test_no_address_is_contacted_early(shared: SharedWorld) -> None:
    workers = await shared.begin(sites, *seeds_of(12), workers=3, politeness=POLITENESS)
    spread(workers, 12)
    await shared.end()
    assert set(shared.fetched().values()) == {1}
    assert len(shared.fetched()) == 12 * PAGES
    check(shared.requests)
    assert sum(bool(worker.requests) for worker in workers) == 3


async def test_workers_take_turns(shared: SharedWorld) -> None:
    """One address, and hosts without an end: nobody waits for long."""

    def endless(request: Request) -> Reply:
        path = path_of(request.url)
        if path == "/robots.txt":
            return not_found()
        return html("Page", f"/{int(path[1:]) + 1}")

    workers = await shared.begin(
        endless, *seeds_of(12), workers=2, politeness={**POLITENESS, "ip_delay": 0.5}
    )
    await shared.wait(120)
    for worker in workers:
        worker.scheduler.stop()
    await shared.end()
    counts = [len(worker.requests) for worker in workers]
    assert min(counts) > 0.25 * sum(counts)
    assert sum(counts) > 0.6 * 120 / 0.6, "changing hands costs little"
    for entry, after in itertools.pairwise(shared.requests):
        assert after.start_s >= entry.end_s + 0.5 - 1e-6


@pytest.mark.parametrize("stopped", [False, True])
async def test_an_address_outlives_the_worker_that_holds_it(
    shared: SharedWorld, stopped: bool
) -> None:
    """After a kill, and after a pause beyond the lease."""
    workers = await shared.begin(sites, *seeds_of(9), workers=3, politeness=POLITENESS)
    spread(workers, 9)
    await shared.wait(12.3)
    victim = max(workers, key=lambda worker: len(worker.requests))
    if stopped:
        victim.clock.stop()
        await shared.wait(LEASE_S + GRACE_S + 10)
        victim.clock.resume()
    else:
        victim.kill()
    await shared.end()
    assert len(shared.fetched()) == 9 * PAGES
    check(shared.requests)


async def test_the_longest_delay_of_an_address_is_kept_by_its_next_worker(
    shared: SharedWorld,
) -> None:
    workers = await shared.begin(patient_sites, *seeds_of(6), workers=2, politeness=POLITENESS)
    await shared.wait(40)
    for worker in workers:
        if "h0.test" in {entry.host for entry in worker.requests}:
            worker.kill()
    await shared.end()
    requests = shared.requests
    for entry, after in itertools.pairwise(requests):
        rest_s = 12 if entry.host == "h0.test" and entry.path != "/robots.txt" else IP_DELAY_S
        assert after.start_s >= entry.end_s + rest_s - 1e-6, (entry.host, after.host)


# ---------------------------------------------------------------- one worker's view

LEASE = Lease(
    slot="a.test", epoch=7, clean=True, clock=HostClock(), paused=False, slow_s=None, visited=0,
    body_bytes=0, robots={}, prefetched=Prefetched(urls=(), next_due_in_s=None),
)  # fmt: skip
PLACE = "192.0.2.1"


def host_at(addresses: Addresses, now_s: float) -> HostQueue:
    host = HostQueue(LEASE, PacingRules(per=Per.IP, ip_delay=IP_DELAY_S), now_s=now_s)
    addresses.move(host, PLACE, now_s)
    return host


def test_an_address_is_left_to_those_who_want_it_after_a_turn() -> None:
    addresses = Addresses(shared=True)
    host = host_at(addresses, 0.0)
    clock = host.address_clock
    assert clock is not None
    assert addresses.wanted([host], 0.0) == {PLACE: IP_DELAY_S}
    assert not clock.leased
    assert addresses.set_leased({PLACE: LeasedAddress(5.0, wanted=False)}, 1.0) == [clock]
    assert clock.leased
    assert clock.ready_s == 6.0, "it may have been contacted until now"
    wanted = {PLACE: LeasedAddress(5.0, wanted=True)}
    assert addresses.set_leased(wanted, LEASE_MIN_S) == []
    assert clock.leased, "its turn is not over"
    clock.busy = True
    assert addresses.set_leased(wanted, 1.0 + LEASE_MIN_S) == []
    assert not clock.leased
    assert addresses.wanted([host], 2.0 + LEASE_MIN_S) == {PLACE: IP_DELAY_S}, "a contact is open"
    assert addresses.set_leased(wanted, 3.0 + LEASE_MIN_S) == []
    assert not clock.leased
    clock.busy = False
    assert addresses.wanted([host], 4.0 + LEASE_MIN_S) == {}
    again_s = 3.0 + LEASE_MIN_S + OTHERS_LEASE_S
    assert addresses.wanted([host], again_s) == {PLACE: IP_DELAY_S}
    assert addresses.set_leased({}, again_s) == []
    assert not clock.leased
    assert addresses.set_leased({PLACE: LeasedAddress(5.0, wanted=False)}, again_s) == [clock]


def test_an_address_without_hosts_is_leased_no_longer() -> None:
    addresses = Addresses(shared=True)
    host = host_at(addresses, 0.0)
    addresses.set_leased({PLACE: LeasedAddress(1.0, wanted=False)}, 1.0)
    assert addresses.wanted([], 2.0) == {}
    assert host.address_clock is not None
    assert not host.address_clock.leased


def test_a_lost_address_rests_before_it_is_contacted_again() -> None:
    addresses = Addresses(shared=True)
    host = host_at(addresses, 0.0)
    addresses.set_leased({PLACE: LeasedAddress(1.0, wanted=False)}, 1.0)
    addresses.lose()
    (clock,) = addresses.set_leased({PLACE: LeasedAddress(1.0, wanted=False)}, 60.0)
    assert clock is host.address_clock
    assert clock.ready_s == 61.0


def test_a_change_of_the_rules_counts_from_the_last_contact_at_an_address() -> None:
    addresses = Addresses(shared=False)
    host = host_at(addresses, 0.0)
    clock = host.address_clock
    assert clock is not None
    addresses.ended(clock, host, 5.0)
    assert clock.ready_s == 5.0 + IP_DELAY_S
    host.pace.rules = PacingRules(per=Per.IP, ip_delay=3 * IP_DELAY_S)
    addresses.recompute([host])
    assert clock.ready_s == 5.0 + 3 * IP_DELAY_S

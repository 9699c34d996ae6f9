"""Sessions of several workers: what one holds, how it is lost, and what the others learn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from storage.postgres import pulses
from storage.postgres.pulses import SessionActivity, Silence
from storage.store import (
    Batch,
    HostClock,
    HostUpdate,
    Lease,
    LeasedAddress,
    Order,
    Store,
    WorkerStatus,
)
from tests.storage.postgres.stores import assert_sound, link, one, store_at

ACTIVE = WorkerStatus(hosts=1)
IDLE = WorkerStatus(idle=True, sharing=0)
LEASE_S = 0.5


class Pair:
    """Two workers of one crawl."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stores = [store_at(url, lease_s=LEASE_S) for _ in range(2)]
        self.sessions: list[int] = []

    async def open(self) -> Pair:
        self.sessions = [await store.open_session("worker") for store in self.stores]
        return self

    async def pulse(self, number: int, status: WorkerStatus = ACTIVE) -> Any:
        return await self.stores[number].pulse(self.sessions[number], status)

    async def claim(self, number: int, hosts: int = 10) -> list[Lease]:
        store, session = self.stores[number], self.sessions[number]
        return list(await store.claim(session, hosts=hosts, urls_per_host=5))

    async def silence(self) -> None:
        """The first worker is silent until the second has taken its hosts."""
        until_s = asyncio.get_running_loop().time() + 10.0
        while await one(self.url, "SELECT count(*) FROM slots WHERE lease = 1"):
            await self.pulse(1)
            await asyncio.sleep(0.05)
            assert asyncio.get_running_loop().time() < until_s

    async def close(self) -> None:
        for store in self.stores:
            await store.close()
        await assert_sound(self.url)


@pytest.fixture
async def pair(crawl_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    monkeypatch.setattr(pulses, "GRACE_S", 0.2)
    opened = await Pair(crawl_url).open()
    yield opened
    await opened.close()


def update(lease: Lease, **values: Any) -> HostUpdate:
    return HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=HostClock(), **values)


def store_of(pair: Pair, number: int) -> Store:
    return pair.stores[number]


async def test_a_host_belongs_to_one_worker(pair: Pair) -> None:
    await store_of(pair, 0).add([link(f"http://{name}.test/") for name in "abcdef"])
    first, second = await pair.claim(0, 3), await pair.claim(1, 10)
    slots = [lease.slot for lease in (*first, *second)]
    assert sorted(slots) == [f"{name}.test" for name in "abcdef"]
    taken = await store_of(pair, 1).acquire(pair.sessions[1], [first[0].slot, "new.test"])
    assert list(taken) == ["new.test"]


async def test_a_silent_worker_loses_its_hosts_and_what_it_commits_is_refused(pair: Pair) -> None:
    await store_of(pair, 0).add([link("http://a.test/1"), link("http://a.test/2")])
    (lease,) = await pair.claim(0)
    await pair.pulse(0)
    await pair.silence()
    (again,) = await pair.claim(1)
    assert (again.slot, again.clean, again.epoch) == ("a.test", False, lease.epoch + 1)
    batch = Batch(hosts=[update(lease)], skipped={"scope": 1})
    assert (await store_of(pair, 0).complete(pair.sessions[0], batch)).stale == {"a.test"}
    assert not (
        await store_of(pair, 1).complete(pair.sessions[1], Batch(hosts=[update(again)]))
    ).stale


async def test_a_worker_that_was_given_up_learns_so_and_continues(pair: Pair) -> None:
    await store_of(pair, 0).add([link("http://a.test/"), link("http://b.test/")])
    assert len(await pair.claim(0)) == 2
    await pair.silence()
    pulse = await pair.pulse(0)
    assert pulse.lost
    assert not (await pair.pulse(0)).lost
    slots = [lease.slot for lease in await pair.claim(0)]
    assert sorted(slots) == ["a.test", "b.test"], "the ones that it had lost, too"


async def test_a_worker_that_was_given_up_claims_nothing_before_it_knows(pair: Pair) -> None:
    await store_of(pair, 0).add([link("http://a.test/")])
    await pair.claim(0)
    await pair.silence()
    assert await pair.claim(0) == []
    assert await store_of(pair, 0).acquire(pair.sessions[0], ["a.test", "c.test"]) == {}
    assert len(await pair.claim(1)) == 1


async def test_a_renewed_session_is_never_given_up(pair: Pair) -> None:
    await store_of(pair, 0).add([link("http://a.test/")])
    (lease,) = await pair.claim(0)
    for _ in range(12):
        assert not (await pair.pulse(0)).lost
        await pair.pulse(1)
        await asyncio.sleep(0.1)
    batch = Batch(hosts=[update(lease, release=True)])
    assert not (await store_of(pair, 0).complete(pair.sessions[0], batch)).stale


async def test_a_session_that_ends_frees_its_hosts_immediately(pair: Pair) -> None:
    await store_of(pair, 0).add([link("http://a.test/")])
    await pair.claim(0)
    await store_of(pair, 0).close()
    (lease,) = await pair.claim(1)
    assert not lease.clean, "it was not released"


async def test_pulses_count_the_others(pair: Pair) -> None:
    await pair.pulse(1, IDLE)
    pulse = await pair.pulse(0)
    assert (pulse.others_active, pulse.others_sharing) == (0, {pair.sessions[1]: 0})
    await pair.pulse(1, ACTIVE)
    pulse = await pair.pulse(0)
    assert (pulse.others_active, pulse.others_sharing) == (1, {})
    assert pulse.lease_s == LEASE_S


async def test_orders_reach_all_others_once(pair: Pair) -> None:
    orders = [Order(verb="pause", body={"n": n, "host": "ä.test"}) for n in range(3)]
    for order in orders:
        await store_of(pair, 0).publish(pair.sessions[0], order)
    assert (await pair.pulse(1)).orders == orders
    assert (await pair.pulse(1)).orders == []
    assert (await pair.pulse(0)).orders == []


async def test_a_pause_reaches_the_others(pair: Pair) -> None:
    await store_of(pair, 0).set_paused(True)
    assert (await pair.pulse(1)).paused
    await store_of(pair, 1).set_paused(False)
    assert not (await pair.pulse(0)).paused


def test_silence_is_counted_by_the_observer_alone() -> None:
    silence, limits_s = Silence(), {1: 10.0, 2: 10.0}
    assert silence.silent({1: 5, 2: 7}, limits_s, 100.0) == []
    assert silence.silent({1: 5, 2: 7}, limits_s, 105.0) == []
    assert silence.silent({1: 5, 2: 8}, limits_s, 109.0) == []
    assert silence.silent({1: 5, 2: 8}, limits_s, 110.1) == [(1, 5)]
    assert silence.silent({1: 6, 2: 8}, limits_s, 111.0) == []
    assert silence.silent({2: 8}, limits_s, 115.0) == []
    assert silence.silent({2: 8}, limits_s, 119.1) == [(2, 8)]
    assert silence.silent({1: 6}, limits_s, 123.0) == [], "one that was away is observed anew"


def test_nobody_is_silent_whom_nobody_could_hear() -> None:
    """The server was down for longer than a lease: all others need it to renew their sessions."""
    silence, limits_s = Silence(), {1: 10.0}
    for at_s in (100.0, 130.0, 135.0, 139.0):
        assert silence.silent({1: 5}, limits_s, at_s) == []
    assert silence.silent({1: 5}, limits_s, 140.1) == [(1, 5)]


def test_a_worker_counts_as_active_for_some_seconds_more() -> None:
    activity = SessionActivity()
    assert activity.count({1: False}, {1: 5}, 100.0) == 1
    assert activity.count({1: True}, {1: 6}, 101.0) == 1
    assert activity.count({}, {}, 103.9) == 1, "its hosts may have become free a moment ago"
    assert activity.count({}, {}, 104.0) == 0


def test_a_worker_that_is_not_heard_of_counts_as_active() -> None:
    """It may have claimed hosts since it said that it was idle."""
    activity = SessionActivity()
    found = [activity.count({1: True}, {1: 6}, at_s) for at_s in (100.0, 101.0, 102.0, 102.5)]
    assert found == [0, 0, 0, 0]
    assert activity.count({1: True}, {1: 6}, 102.6) == 1
    found = [activity.count({1: True}, {1: beat}, 96.0 + beat) for beat in range(7, 12)]
    assert found == [1, 1, 1, 1, 0]


async def test_a_worker_is_given_up_after_its_own_lease(pair: Pair, crawl_url: str) -> None:
    """Not after the shorter one of whoever observes it."""
    longer = store_at(crawl_url, lease_s=60.0)
    session = await longer.open_session("patient")
    assert await longer.pulse(session, ACTIVE) is not None
    await longer.add([link("http://a.test/")])
    assert await longer.claim(session, hosts=1, urls_per_host=5)
    for _ in range(12):
        await pair.pulse(1)
        await asyncio.sleep(0.1)
    assert await one(crawl_url, f"SELECT count(*) FROM slots WHERE lease = {session}") == 1
    pulse = await longer.pulse(session, ACTIVE)
    assert pulse is not None
    assert not pulse.lost
    await longer.close(session)


# ---------------------------------------------------------------- addresses


def asks(*addresses: str, delay_s: float = 1.0) -> WorkerStatus:
    return WorkerStatus(addresses=dict.fromkeys(addresses, delay_s))


async def test_an_address_belongs_to_one_worker(pair: Pair) -> None:
    near, far = "192.0.2.1", "192.0.2.2"
    assert dict((await pair.pulse(0, asks(near))).addresses) == {
        near: LeasedAddress(1.0, wanted=False)
    }
    pulse = await pair.pulse(1, asks(near, far, delay_s=3.0))
    assert dict(pulse.addresses) == {far: LeasedAddress(3.0, wanted=False)}
    pulse = await pair.pulse(0, asks(near))
    assert dict(pulse.addresses) == {near: LeasedAddress(3.0, wanted=True)}, "the longest delay"
    assert dict((await pair.pulse(0, asks())).addresses) == {}
    pulse = await pair.pulse(1, asks(near))
    assert dict(pulse.addresses) == {near: LeasedAddress(3.0, wanted=False)}
    pulse = await pair.pulse(0, asks(near, far))
    assert dict(pulse.addresses) == {far: LeasedAddress(3.0, wanted=False)}, (
        "it was not named again"
    )


async def test_many_take_addresses_at_the_same_time(pair: Pair) -> None:
    """Each is one worker's, whatever the order in which they name them, and nobody is refused."""
    names = [f"192.0.2.{n}" for n in range(200)]
    for _ in range(10):
        first, second = await asyncio.gather(
            pair.pulse(0, asks(*names)), pair.pulse(1, asks(*reversed(names)))
        )
        assert sorted([*first.addresses, *second.addresses]) == sorted(names)
        await asyncio.gather(pair.pulse(0, asks(*names[::2])), pair.pulse(1, asks(*names[1::2])))


async def test_a_silent_worker_loses_its_addresses(pair: Pair) -> None:
    await store_of(pair, 0).add([link("http://a.test/")])
    await pair.claim(0)
    await pair.pulse(0, asks("192.0.2.1"))
    await pair.silence()
    async with asyncio.timeout(5):
        while not (await pair.pulse(1, asks("192.0.2.1"))).addresses:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    lost = await pair.pulse(0, asks("192.0.2.1"))
    assert lost.lost
    assert dict(lost.addresses) == {}


async def test_a_session_that_ends_frees_its_addresses(pair: Pair) -> None:
    await pair.pulse(0, asks("192.0.2.1"))
    await store_of(pair, 0).close()
    assert list((await pair.pulse(1, asks("192.0.2.1"))).addresses) == ["192.0.2.1"]


async def test_limits_of_the_server_are_not_for_workers(pair: Pair) -> None:
    limits = ("idle_session_timeout", "lock_timeout", "statement_timeout")
    database = pair.url.rpartition("/")[2]
    # One connection, without them: a new one that is not quick enough would be ended.
    db = await asyncpg.connect(pair.url, server_settings=dict.fromkeys(limits, "0"))
    try:
        for name in limits:
            await db.execute(f"ALTER DATABASE {database} SET {name} = 1")
        store = store_at(pair.url, lease_s=LEASE_S)
        session = await store.open_session("limited")
        await store.add([link(f"http://a.test/{n}") for n in range(1_000)])
        assert await store.pulse(session, ACTIVE) is not None
        await store.close(session)
        assert store.telemetry().reconnections == 0
    finally:
        await db.execute(f"ALTER DATABASE {database} RESET ALL")
        await db.close()

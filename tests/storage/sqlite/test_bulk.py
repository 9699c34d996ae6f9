"""What is done to a million URLs at once is done in pieces, so that others get their turn."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from storage.engine import operator_work as module
from storage.store import HostClock, HostUpdate, StoreError
from tests.storage.conftest import on_connection

PIECE = 100


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "BULK_URLS", PIECE)


def update(lease, **values):
    return HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=HostClock(delay_s=3.0), **values)


async def fail(rig, lease, **values):
    return await rig.store.fail_host(
        rig.session, values.pop("update", None) or update(lease), error="connect: refused",
        attempts=3, last_at=rig.wall_s, **values,
    )  # fmt: skip


async def test_others_get_in_between_the_pieces(sqlite_rig):
    rig = sqlite_rig
    await rig.add(*(f"http://a.test/{n}" for n in range(10 * PIECE + 1)))
    lease = await rig.claim_one(1)
    failing = asyncio.ensure_future(fail(rig, lease))
    seen = []
    while not failing.done():
        seen.append((await rig.store.stats()).failed)
    assert await failing == 10 * PIECE + 1
    assert len(set(seen) - {0, 10 * PIECE + 1}) >= 5, "they saw it under way"

    retrying = asyncio.ensure_future(rig.store.retry_failed())
    seen = []
    while not retrying.done():
        seen.append((await rig.store.stats()).queued)
    assert await retrying == 10 * PIECE + 1
    assert len(set(seen) - {0, 10 * PIECE + 1}) >= 5
    assert len(await rig.urls("queued")) == 10 * PIECE + 1
    assert await rig.urls("failed") == []


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE])
async def test_all_are_failed_and_all_come_back_whatever_their_number(sqlite_rig, count):
    rig = sqlite_rig
    await rig.add("http://b.test/", *(f"http://a.test/{n}" for n in range(count)))
    held = await rig.store.acquire(rig.session, ["a.test"])
    assert await fail(rig, held["a.test"], origin="http://a.test") == count
    assert len(await rig.urls("failed")) == count
    assert await rig.urls("queued") == ["http://b.test/"]
    assert await rig.store.retry_failed("b.test") == 0
    assert await rig.store.retry_failed("a.test") == count
    assert len(await rig.urls("queued", host="a.test")) == count


async def test_a_host_is_given_back_when_the_last_has_failed(sqlite_rig):
    rig = sqlite_rig
    await rig.add(*(f"http://a.test/{n}" for n in range(3 * PIECE)))
    lease = await rig.claim_one(1)
    assert await fail(rig, lease, update=update(lease, release=True)) == 3 * PIECE
    await rig.store.retry_failed()
    again = await rig.claim_one()
    assert again.clean
    assert again.clock.delay_s == 3.0


async def test_a_crash_in_between_leaves_the_rest_queued(sqlite_rig):
    rig = sqlite_rig
    await rig.add(*(f"http://a.test/{n}" for n in range(10 * PIECE)))
    lease = await rig.claim_one(1)
    failing = asyncio.ensure_future(fail(rig, lease))
    while not (await rig.store.stats()).failed:
        pass
    await rig.store.close()
    with contextlib.suppress(StoreError):
        await failing
    await rig.crash()
    failed, queued = set(await rig.urls("failed")), set(await rig.urls("queued"))
    assert failed
    assert queued
    assert failed | queued == {f"http://a.test/{n}" for n in range(10 * PIECE)}
    assert not failed & queued


async def test_retries_due_all_at_once_join_the_queue_in_pieces(sqlite_rig, monkeypatch):
    """After an outage a whole host may be due: a commit moves no more of it than there is room."""
    monkeypatch.setattr("storage.engine.leases.PROMOTED_AT_ONCE", PIECE)
    rig = sqlite_rig
    count = 5 * PIECE + 3
    await rig.add(*(f"http://a.test/{n}" for n in range(count)))
    lease = await rig.claim_one(count)
    retries = [rig.retry(one, 5.0) for one in lease.prefetched.urls]
    assert len(retries) == count
    await rig.commit(lease, *retries, release=True)
    rig.wall_s += 10.0
    waiting = "SELECT count(*) FROM urls WHERE due_at IS NOT NULL"
    lease = await rig.claim_one(7)
    ((left,),) = await on_connection(rig.store, lambda db: db.execute(waiting).fetchall())
    assert left == count - PIECE
    seen = [one.url for one in lease.prefetched.urls]
    while lease.prefetched.urls:
        done = await rig.commit(
            lease, *(rig.visited(one) for one in lease.prefetched.urls), want=PIECE // 2
        )
        hand = done.prefetched["a.test"]
        seen += [one.url for one in hand.urls]
        lease = msgspec.structs.replace(lease, prefetched=hand)
    assert len(seen) == len(set(seen)) == count

"""A cancelled call has happened whole or not at all, and leaves no transaction open."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from storage.store import Batch, HostClock, HostUpdate, StoreError
from tests.storage.conftest import on_connection


async def blocked_thread(rig):
    """Keep the store's thread busy until the event is set."""
    gate = threading.Event()
    waiting = asyncio.ensure_future(on_connection(rig.store, lambda _: gate.wait(30)))
    await asyncio.sleep(0)
    return gate, waiting


async def test_a_call_cancelled_before_it_runs_has_happened_when_it_raises(sqlite_rig):
    rig = sqlite_rig
    gate, waiting = await blocked_thread(rig)
    call = asyncio.ensure_future(rig.add("http://a.test/"))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()  # it waits for the end of what it began
    call.cancel()  # impatience changes nothing
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await waiting
    assert await rig.urls("queued") == ["http://a.test/"]
    assert not await on_connection(rig.store, lambda db: db.in_transaction)


@pytest.mark.parametrize("held", [True, False])
async def test_a_commit_cancelled_at_any_step_is_whole(sqlite_rig, held):
    """Outcome, links, clock and release are there together: `held` until it has been cancelled,
    when it cannot be over before, and racing with the cancellation."""
    rig = sqlite_rig
    for steps in range(12):
        page = f"http://h{steps}.test/"
        await rig.add(page)
        lease = await rig.claim_one()
        visit = rig.visited(
            lease.prefetched.urls[0], lease.slot, links=[f"http://h{steps}.test/link"]
        )
        gate, waiting = await blocked_thread(rig) if held else (None, None)
        call = asyncio.ensure_future(
            rig.commit(lease, visit, clock=HostClock(next_in_s=9999.0), release=True)
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = call.cancel()  # False: it was over
        if gate is not None and waiting is not None:
            assert cancelled
            gate.set()
            await waiting
        if cancelled:
            with pytest.raises(asyncio.CancelledError):
                await call
        else:
            await call
        about = await rig.reader.url(page)
        link = await rig.reader.url(page + "link")
        assert about is not None
        assert cancelled or about["state"] == "visited"
        if about["state"] == "visited":
            assert link is not None
            assert not await rig.claim()
        else:
            assert link is None
            update = HostUpdate(
                slot=lease.slot, epoch=lease.epoch, clock=HostClock(next_in_s=9999.0), release=True
            )
            await rig.store.complete(rig.session, Batch(hosts=[update]))


async def test_an_error_after_the_cancellation_is_not_lost_on_the_store(sqlite_rig):
    rig = sqlite_rig
    gate, waiting = await blocked_thread(rig)

    class Damaged(list):
        def __iter__(self):
            raise sqlite3.DatabaseError("a page is damaged")

    call = asyncio.ensure_future(rig.store.add(Damaged()))
    await asyncio.sleep(0)
    call.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await waiting
    with pytest.raises(StoreError, match="a page is damaged"):
        await rig.store.stats()


async def test_opening_cancelled_lets_go_of_the_file(tmp_path, sqlite_rig):
    from storage.sqlite import file_store

    path = tmp_path / "other.db"
    for steps in range(8):
        store = file_store(path, wall=lambda: 1.0)
        call = asyncio.ensure_future(store.open_session("test"))
        for _ in range(steps):
            await asyncio.sleep(0)
        if call.cancel():
            with pytest.raises(asyncio.CancelledError):
                await call
        await store.close()
    store = file_store(path, wall=lambda: 1.0)
    assert await store.open_session("test") >= 1
    await store.close()


async def test_calls_made_at_once_do_not_mix(sqlite_rig):
    rig = sqlite_rig
    await asyncio.gather(*(rig.add(f"http://a.test/{n}", f"http://b.test/{n}") for n in range(50)))
    stats = await rig.store.stats()
    assert (stats.queued, stats.hosts) == (100, 2)

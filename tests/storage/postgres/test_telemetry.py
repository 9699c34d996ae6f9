"""What a store counts of its renewals and of what went wrong, and the sizes of its tables."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from storage.location import ServerLocation, parse_location
from storage.postgres import pulses as pulses_module
from storage.postgres import server_reader, server_store
from storage.store import Batch, HostClock, HostUpdate, Lease, Link, Store, Visited, WorkerStatus
from tests.postgres_server import PostgresServer
from tests.storage.postgres.proxy import Proxy

BUSY = WorkerStatus(hosts=3)
REAP = "UPDATE sessions SET ended_at = 1.0 WHERE ended_at IS NULL"


def location_of(url: str) -> ServerLocation:
    location = parse_location(url)
    assert isinstance(location, ServerLocation)
    return location


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[Proxy]:
    async with Proxy(postgres.host, postgres.port).running() as running:
        yield running


Opener = Callable[..., Any]


@pytest.fixture
async def open_store(
    proxy: Proxy, postgres: PostgresServer, postgres_url: str
) -> AsyncIterator[Opener]:
    """Opens stores through the proxy; returns each with its session."""
    url = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")
    stores: list[tuple[Store, int]] = []

    async def opened(**options: Any) -> tuple[Store, int]:
        store = server_store(location_of(url), wall=time.time, **options)
        stores.append((store, await store.open_session("a")))
        return stores[-1]

    yield opened
    for store, session in stores:
        await store.close(session)


@pytest.fixture
async def db(postgres_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    connection.terminate()


def link(url: str) -> Link:
    return Link(url=url, slot="a.test", host="a.test", depth=0)


async def leased(store: Store, session: int) -> Lease:
    await store.add([link(f"http://a.test/{n}") for n in range(5)])
    (lease,) = await store.claim(session, hosts=1, urls_per_host=5)
    return lease


def commit_of(lease: Lease, number: int) -> Batch:
    page = Visited(
        id=lease.prefetched.urls[number].id, slot=lease.slot, status=200, fetched_at=1.0,
        content_type=None, body_bytes=10, elapsed_s=0.1, links=[link("http://a.test/more")],
    )  # fmt: skip
    update = HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=HostClock())
    return Batch(outcomes=[page], hosts=[update])


async def test_renewals_are_counted_and_timed(open_store: Opener, proxy: Proxy) -> None:
    store, session = await open_store(lease_s=3.0)
    proxy.delay_s = 0.05
    for _ in range(2):
        assert await store.pulse(session, BUSY) is not None
    found = store.telemetry()
    assert (found.renewals, found.renewals_failed) == (2, 0)
    assert 0.1 < found.renewals_s < 5.0
    proxy.delay_s = 0.0
    proxy.speaking.clear()
    assert await store.pulse(session, BUSY) is None
    proxy.speaking.set()
    assert await store.pulse(session, BUSY) is not None
    found = store.telemetry()
    assert (found.renewals, found.renewals_failed, found.reconnections) == (3, 1, 1)


async def test_lost_leases_and_reaped_sessions_are_counted(
    open_store: Opener, db: asyncpg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses_module, "GRACE_S", 0.1)
    reaped, other = await open_store(lease_s=0.5)
    reaper, session = await open_store(lease_s=0.5)
    async with asyncio.timeout(10):
        while not reaper.telemetry().sessions_reaped:
            await reaper.pulse(session, BUSY)
            await asyncio.sleep(0.1)
    assert await db.fetchval("SELECT ended_at FROM sessions WHERE id = $1", other) is not None
    assert reaped.telemetry().leases_lost == 0
    assert (await reaped.pulse(other, BUSY)).lost
    assert not (await reaped.pulse(other, BUSY)).lost
    assert reaped.telemetry().leases_lost == BUSY.hosts
    assert reaper.telemetry().leases_lost == 0


async def test_a_worker_learns_of_its_loss_however_long_its_session_takes_to_continue(
    open_store: Opener, db: asyncpg.Connection[Any]
) -> None:
    store, session = await open_store(lease_s=0.6)
    await leased(store, session)
    await db.execute(REAP)
    await db.execute("BEGIN; SELECT FROM slots FOR UPDATE")
    assert await store.pulse(session, BUSY) is None
    await db.execute("COMMIT")
    async with asyncio.timeout(10):
        while not await db.fetchval("SELECT ended_at IS NULL FROM sessions"):
            pass
        while (pulse := await store.pulse(session, BUSY)) is None:
            pass
    assert pulse.lost
    assert not (await store.pulse(session, BUSY)).lost
    assert store.telemetry().leases_lost == BUSY.hosts


async def test_commits_without_an_answer_and_reconnections_are_counted(
    open_store: Opener, proxy: Proxy
) -> None:
    store, session = await open_store()
    lease = await leased(store, session)
    assert store.telemetry().commits_settled == store.telemetry().reconnections == 0
    proxy.cut_after = b"COMMIT"
    await store.complete(session, commit_of(lease, 0))
    found = store.telemetry()
    assert (found.commits_settled, found.reconnections, found.conflicts) == (1, 1, 0)


async def test_repeated_transactions_are_counted(
    open_store: Opener, db: asyncpg.Connection[Any]
) -> None:
    """This one locks the host's row, and then waits for another that the store waits with."""
    store, session = await open_store()
    lease = await leased(store, session)
    await db.execute("BEGIN; SET LOCAL deadlock_timeout = '1min'")
    await db.execute("SELECT FROM urls WHERE id = $1 FOR UPDATE", lease.prefetched.urls[0].id)
    committing = asyncio.create_task(store.complete(session, commit_of(lease, 0)))
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(10):
        while not await db.fetchval(waiting):
            pass
        await db.execute("SELECT FROM slots WHERE name = 'a.test' FOR UPDATE")
    await db.execute("COMMIT")
    assert not (await committing).stale
    assert store.telemetry().conflicts >= 1  # its second try may lock the host's row first again


async def test_the_largest_tables(open_store: Opener, postgres_url: str) -> None:
    store, _ = await open_store()
    await store.add([link(f"http://a.test/{n}") for n in range(2_000)])
    reader = server_reader(location_of(postgres_url))
    try:
        found = await reader.table_sizes()
    finally:
        await reader.close()
    assert len(found) == 12
    sizes = [int(str(row["bytes"])) for row in found]
    assert sizes == sorted(sizes, reverse=True)
    assert found[0]["table"] == "urls"
    assert all(isinstance(row[name], int) for row in found for name in ("rows", "dead_rows"))

"""What happens to a store when its server, or the connection to it, does not do its part."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from storage.postgres import pulses
from storage.postgres.errors import ServerIsReplica
from storage.postgres.schema import create_or_check
from storage.store import (
    Batch,
    HostClock,
    HostUpdate,
    Lease,
    Pulse,
    Store,
    StoreError,
    StoreRefused,
    Visited,
)
from storage.store import WorkerStatus as Status
from tests.postgres_server import PostgresServer
from tests.storage.conftest import selected
from tests.storage.postgres.proxy import Proxy
from tests.storage.postgres.stores import assert_sound, link, one, store_at

IDLE = Status(idle=True)
TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def leased(store: Store, session: int) -> Lease:
    await store.add([link(f"http://a.test/{n}") for n in range(50)])
    (lease,) = await store.claim(session, hosts=1, urls_per_host=50)
    return lease


def commit_of(lease: Lease, number: int, *, release: bool = False) -> Batch:
    """A commit that must be made exactly once: it counts a skip, and writes the ring."""
    page = Visited(
        id=lease.prefetched.urls[number].id, slot=lease.slot, status=200, fetched_at=1.0,
        content_type="text/html", body_bytes=10, elapsed_s=0.1,
        links=[link(f"http://a.test/of-{number}"), link(f"http://b.test/of-{number}")],
    )  # fmt: skip
    clock = HostClock(contacts=number + 1)
    update = HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=clock, release=release)
    return Batch(outcomes=[page], hosts=[update], skipped={"scope": 1})


async def answered(store: Store, session: int) -> Pulse:
    """The first pulse that is answered."""
    for _ in range(1_000):
        if (pulse := await store.pulse(session, IDLE)) is not None:
            return pulse
        await asyncio.sleep(0.01)
    raise AssertionError("the server does not answer")


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[Proxy]:
    async with Proxy(postgres.host, postgres.port).running() as running:
        yield running


@pytest.fixture
def by_proxy(proxy: Proxy, postgres: PostgresServer, crawl_url: str) -> str:
    return crawl_url.replace(f":{postgres.port}/", f":{proxy.port}/")


@pytest.mark.parametrize("forwarded", [True, False])
async def test_a_commit_without_an_answer_is_made_exactly_once(
    proxy: Proxy, by_proxy: str, crawl_url: str, forwarded: bool
) -> None:
    store = store_at(by_proxy)
    session = await store.open_session("a")
    lease = await leased(store, session)
    for number in range(6):
        if number % 2:
            proxy.cut_after, proxy.cut_before = (b"COMMIT", b"") if forwarded else (b"", b"COMMIT")
        done = await store.complete(session, commit_of(lease, number))
        assert not done.stale
    assert proxy.cuts == 3
    assert store.faults.now is None
    await store.close(session)
    assert await one(crawl_url, "SELECT count FROM skipped WHERE reason = 'scope'") == 6
    assert await one(crawl_url, "SELECT visited FROM hosts WHERE host = 'a.test'") == 6
    await assert_sound(crawl_url)


@pytest.mark.parametrize(
    "word", [b"BEGIN", b"INSERT INTO urls", b"INSERT INTO pages", b"UPDATE slots", b"Bind"]
)
async def test_a_cut_in_a_transaction_undoes_it_and_it_is_repeated(
    proxy: Proxy, by_proxy: str, crawl_url: str, word: bytes
) -> None:
    """`Bind` is never sent in words: there is no cut, and nothing to repeat."""
    store = store_at(by_proxy)
    session = await store.open_session("a")
    lease = await leased(store, session)
    proxy.cut_before = word
    for number in range(4):
        assert not (await store.complete(session, commit_of(lease, number))).stale
    await store.close(session)
    assert await one(crawl_url, "SELECT count FROM skipped WHERE reason = 'scope'") == 4
    await assert_sound(crawl_url)


async def test_a_killed_server_is_waited_for(postgres: PostgresServer, crawl_url: str) -> None:
    """Nothing acknowledged is lost, nothing happens twice, and no call fails."""
    store = store_at(crawl_url)
    store.set_patience(float("inf"))
    session = await store.open_session("a")
    lease = await leased(store, session)
    acknowledged = 0

    async def work() -> None:
        nonlocal acknowledged
        for number in range(50):
            assert not (await store.complete(session, commit_of(lease, number))).stale
            acknowledged = number + 1
            await asyncio.sleep(0.02)

    working = asyncio.create_task(work())
    for _ in range(2):
        await asyncio.sleep(0.3)
        await store.stats()
        await asyncio.to_thread(postgres.kill)
        try:
            known = acknowledged
            assert await store.pulse(session, IDLE) is None
            await asyncio.sleep(0.3)
            assert store.faults.now is not None, "the crawl must learn why its calls take long"
            assert (await store.stats()).visited  # the last that is known
        finally:
            await asyncio.to_thread(postgres.start)
        assert await one(crawl_url, "SELECT visited FROM hosts WHERE host = 'a.test'") >= known
    await working
    assert await store.pulse(session, IDLE) is not None
    assert store.faults.now is None
    await store.close(session)
    assert await one(crawl_url, "SELECT count FROM skipped WHERE reason = 'scope'") == 50
    await assert_sound(crawl_url)


async def test_leases_survive_a_crash_of_the_server_whatever_its_settings(
    postgres: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    try:
        store = store_at(postgres_url)
        await store.open_session("a")
        asked = "SELECT current_setting('synchronous_commit')"
        assert await one(postgres_url, asked) == "off"
        assert await selected(store, asked) == [("on",)]
        await store.close()
    finally:
        postgres.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


async def test_a_server_that_was_down_for_long_takes_no_hosts_from_anybody(
    postgres: PostgresServer, crawl_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither worker could renew its session meanwhile."""
    monkeypatch.setattr(pulses, "GRACE_S", 0.2)
    workers = [store_at(crawl_url, lease_s=0.5) for _ in range(2)]
    sessions = [await worker.open_session("a") for worker in workers]
    lease = await leased(workers[0], sessions[0])
    for worker, session in zip(workers, sessions, strict=True):
        assert await worker.pulse(session, IDLE) is not None
    await asyncio.to_thread(postgres.kill)
    try:
        await asyncio.sleep(1.5)
    finally:
        await asyncio.to_thread(postgres.start)
    for _ in range(2):
        await answered(workers[1], sessions[1])
    await workers[1].claim(sessions[1], hosts=1, urls_per_host=1)  # behind anything it has begun
    assert not (await answered(workers[0], sessions[0])).lost
    assert not (await workers[0].complete(sessions[0], commit_of(lease, 0))).stale
    for worker, session in zip(workers, sessions, strict=True):
        await worker.close(session)


async def test_the_first_counts_are_waited_for(postgres: PostgresServer, crawl_url: str) -> None:
    """A server that is killed while a worker starts does not end the worker."""
    store = store_at(crawl_url)
    session = await store.open_session("a")
    await asyncio.to_thread(postgres.kill)
    try:
        counting = asyncio.create_task(store.stats())
        await asyncio.sleep(0.3)
        assert not counting.done()
    finally:
        await asyncio.to_thread(postgres.start)
    assert (await counting).visited == 0
    await store.close(session)


async def test_cut_connections_are_made_again(crawl_url: str) -> None:
    store = store_at(crawl_url)
    session = await store.open_session("a")
    lease = await leased(store, session)
    for number in range(5):
        assert await one(crawl_url, TERMINATE) >= 1
        assert not (await store.complete(session, commit_of(lease, number))).stale
        await store.pulse(session, IDLE)  # may find its connection cut
        assert await store.pulse(session, IDLE) is not None
    await store.close(session)
    await assert_sound(crawl_url)


async def test_a_silent_server_delays_no_answer_to_a_pulse(proxy: Proxy, by_proxy: str) -> None:
    store = store_at(by_proxy, lease_s=3.0)
    session = await store.open_session("a")
    assert await store.pulse(session, IDLE) is not None
    proxy.speaking.clear()
    began_s = time.monotonic()
    assert await store.pulse(session, IDLE) is None
    assert time.monotonic() - began_s < 2.0
    proxy.speaking.set()
    assert await store.pulse(session, IDLE) is not None
    await store.close(session)


async def test_a_slow_server_is_used_all_the_same(proxy: Proxy, by_proxy: str) -> None:
    store = store_at(by_proxy)
    session = await store.open_session("a")
    lease = await leased(store, session)
    proxy.delay_s = 0.05
    assert not (await store.complete(session, commit_of(lease, 0))).stale
    pulse = await store.pulse(session, IDLE)
    assert pulse is not None
    assert not pulse.lost
    await store.close(session)


async def test_patience_that_ends_gives_the_reason(
    postgres: PostgresServer, crawl_url: str
) -> None:
    store = store_at(crawl_url)
    await store.open_session("a")
    store.set_patience(0.5)
    await asyncio.to_thread(postgres.kill)
    try:
        with pytest.raises(StoreError, match="cannot be used"):
            await store.add([link("http://a.test/")])
        await store.close()
    finally:
        await asyncio.to_thread(postgres.start)


# ---------------------------------------------------------------- at the start


async def test_a_worker_that_starts_while_the_server_is_away_waits_for_it(
    postgres: PostgresServer, crawl_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(postgres.kill)
    store = store_at(crawl_url, start_wait_s=60.0)
    try:
        opening = asyncio.create_task(store.open_session("a"))
        await asyncio.sleep(0.5)
        assert not opening.done()
        assert "connection refused; trying again for 60 s" in caplog.text
        hasty = store_at(crawl_url, start_wait_s=0.3)
        with pytest.raises(StoreError, match="connection refused") as late:
            await hasty.open_session("b")
        assert not isinstance(late.value, StoreRefused), "another attempt may succeed"
        with pytest.raises(StoreRefused, match="is the server running"):
            await store_at(crawl_url).open_session("a command")
    finally:
        await asyncio.to_thread(postgres.start)
    session = await opening
    assert await store.pulse(session, IDLE) is not None
    await store.close(session)


def confused(code: str) -> asyncpg.PostgresError:
    errors = {
        "53300": asyncpg.TooManyConnectionsError, "57P03": asyncpg.CannotConnectNowError,
        "57P01": asyncpg.AdminShutdownError,
    }  # fmt: skip
    return errors[code]("not now")


@pytest.mark.parametrize(
    "error",
    [
        *map(confused, ("53300", "57P03", "57P01")),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        FileNotFoundError(2, "No such file or directory"),
        asyncpg.InternalClientError("unexpected message"),
    ],
)
async def test_what_may_pass_is_waited_for_at_the_start(
    crawl_url: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    connect, failures = asyncpg.connect, [error, error]

    async def failing(**arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return await connect(**arguments)

    monkeypatch.setattr(asyncpg, "connect", failing)
    store = store_at(crawl_url, start_wait_s=10.0)
    session = await store.open_session("a")
    assert not failures
    await store.close(session)


async def test_a_server_that_is_a_replica_still_is_waited_for_by_a_running_crawl(
    crawl_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being promoted."""
    store = store_at(crawl_url)
    session = await store.open_session("a")
    failures = 2

    async def failing(*arguments: Any) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ServerIsReplica("it is a replica")
        await create_or_check(*arguments)

    monkeypatch.setattr("storage.postgres.connection.create_or_check", failing)
    await one(crawl_url, TERMINATE)
    await store.add([link("http://a.test/")])
    assert not failures
    await store.close(session)


@pytest.mark.parametrize("word", ["nowhere", "nobody"])
async def test_what_can_never_succeed_is_not_waited_for(
    postgres: PostgresServer, crawl_url: str, word: str
) -> None:
    url = postgres.url("nowhere") if word == "nowhere" else postgres.url(user="nobody")
    async with asyncio.timeout(5):
        with pytest.raises(StoreRefused, match="does not exist"):
            await store_at(url, start_wait_s=60.0).open_session("a")

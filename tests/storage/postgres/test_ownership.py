"""Each connection has one owner: whatever is called at once, operations of asyncpg never meet."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import pkgutil
import random
import time
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

import storage.postgres
from storage.location import ServerLocation, parse_location
from storage.postgres import pulses, server_reader
from storage.postgres.copying import open_source
from storage.records import WorkerHold
from storage.secret_sources import SecretError
from storage.store import Order, StoreError, WorkerStatus
from storage.transient_faults import FaultKind
from tests.storage.postgres.stores import link, one, store_at

IDLE = WorkerStatus(idle=True, addresses={"192.0.2.1": 1.0})
ORDER = Order(verb="seeds", body={"urls": ["http://a.test/"]})
CALLS = 40
TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def location_of(url: str) -> ServerLocation:
    location = parse_location(url)
    assert isinstance(location, ServerLocation)
    return location


async def test_calls_of_all_kinds_at_once(crawl_url: str) -> None:
    store, reader = store_at(crawl_url), server_reader(location_of(crawl_url))
    session = await store.open_session("a")
    async with open_source(location_of(crawl_url)) as source, asyncio.TaskGroup() as group:
        pulses = [group.create_task(store.pulse(session, IDLE)) for _ in range(CALLS)]
        for number in range(CALLS):
            group.create_task(store.publish(session, ORDER))
            group.create_task(store.add([link(f"http://a.test/{number}")]))
            group.create_task(store.stats())
            group.create_task(store.paused())
            group.create_task(reader.workers())
            group.create_task(source.state())
            group.create_task(source.others(session))
    assert all(pulse.result() is not None for pulse in pulses)
    assert store.telemetry().renewals == CALLS
    assert (await store.stats()).queued == CALLS
    await reader.close()
    await store.close(session)


async def test_callers_that_are_cancelled_leave_a_connection_that_works(crawl_url: str) -> None:
    store, other = store_at(crawl_url), store_at(crawl_url)
    session, listening = await store.open_session("a"), await other.open_session("b")
    chosen = random.Random(1)
    for _ in range(CALLS):
        tasks = [
            asyncio.create_task(store.pulse(session, IDLE)),
            asyncio.create_task(store.publish(session, ORDER)),
            asyncio.create_task(store.pulse(session, IDLE)),
        ]
        for task in tasks:
            await asyncio.sleep(chosen.uniform(0.0, 0.004))
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert await store.pulse(session, IDLE) is not None
    telemetry = store.telemetry()
    assert (telemetry.renewals_failed, telemetry.reconnections) == (0, 0)
    await store.publish(session, ORDER)
    hurried = asyncio.create_task(other.pulse(listening, IDLE))
    await asyncio.sleep(0)
    hurried.cancel()
    pulse = await other.pulse(listening, IDLE)
    assert pulse is not None
    assert pulse.orders[-1] == ORDER, "received by nobody before"
    await other.close(listening)
    await store.close(session)


async def test_an_order_that_waits_for_a_lock_delays_no_renewal(crawl_url: str) -> None:
    store = store_at(crawl_url, lease_s=3.0)
    session = await store.open_session("a")
    foreign = await asyncpg.connect(crawl_url)
    async with foreign.transaction():
        await foreign.execute("SELECT FROM crawl FOR UPDATE")
        publishing = asyncio.create_task(store.publish(session, ORDER))
        began_s = time.monotonic()
        for _ in range(3):
            assert await store.pulse(session, IDLE) is not None
            await asyncio.sleep(0.05)
        assert time.monotonic() - began_s < 1.0
        assert not publishing.done()
    await publishing
    await foreign.close()
    await store.close(session)


@pytest.mark.parametrize("raised", [RuntimeError, AssertionError, asyncio.CancelledError])
async def test_an_error_that_nobody_has_foreseen_is_tried_again(
    crawl_url: str, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    """Of a transaction, of a renewal and of a reader, by new connections."""
    store, reader = store_at(crawl_url), server_reader(location_of(crawl_url))
    session = await store.open_session("a")
    assert await store.pulse(session, IDLE) is not None
    await reader.workers()
    failing = {"link", "pulse", "reader"}
    fetchval, fetch, fetchrow = (
        asyncpg.Connection.fetchval, asyncpg.Connection.fetch, asyncpg.Connection.fetchrow,
    )  # fmt: skip

    def failed(who: str, sql: str, sign: str) -> None:
        if sign in sql and who in failing:
            failing.discard(who)
            raise raised("the driver is confused")

    async def confused(self: Any, sql: str, *values: Any, **options: Any) -> Any:
        failed("pulse", sql, "idle::integer, sharing")
        return await fetchval(self, sql, *values, **options)

    async def confused_rows(self: Any, sql: str, *values: Any, **options: Any) -> Any:
        failed("reader", sql, "uncommitted")
        return await fetch(self, sql, *values, **options)

    async def confused_row(self: Any, sql: str, *values: Any, **options: Any) -> Any:
        failed("link", sql, "clock_timestamp())::double precision, shift_s")
        return await fetchrow(self, sql, *values, **options)

    monkeypatch.setattr(asyncpg.Connection, "fetchval", confused)
    monkeypatch.setattr(asyncpg.Connection, "fetch", confused_rows)
    monkeypatch.setattr(asyncpg.Connection, "fetchrow", confused_row)
    await store.add([link("http://a.test/")])
    assert await store.pulse(session, IDLE) is None
    assert await store.pulse(session, IDLE) is not None
    assert len(await reader.workers()) == 1
    assert not failing
    assert (await store.stats()).queued == 1
    assert store.telemetry().reconnections == 2
    assert store.faults.now is None
    await reader.close()
    await store.close(session)


@pytest.mark.parametrize(
    "failing",
    [
        "storage.postgres.server_connection.connect",
        "storage.postgres.connection.create_or_check",
        "storage.postgres.connection.register",
        "storage.postgres.pulses.check_readable",
        "storage.postgres.postgres_reader.check_readable",
    ],
)
async def test_an_error_while_a_connection_is_made_again_is_no_fault_of_a_value(
    crawl_url: str, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Of whatever kind: neither is what is to be stored dropped, nor does the crawl end. A secret
    cannot be read while its file is being replaced."""
    store, reader = store_at(crawl_url), server_reader(location_of(crawl_url))
    session = await store.open_session("a")
    assert await store.pulse(session, IDLE) is not None
    await reader.workers()
    function, failures = pkgutil.resolve_name(failing), list[Exception]()

    async def confused(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return await function(*arguments, **options)

    monkeypatch.setattr(failing, confused)
    for raised in (RuntimeError, AttributeError, TypeError, SecretError):
        await one(crawl_url, TERMINATE)
        failures += [raised("once"), raised("twice")]
        while failures:
            await store.pulse(session, IDLE)
            with contextlib.suppress(StoreError):  # a reader leaves it to its caller to try again
                await reader.workers()
            await store.add([link("http://a.test/")])
    assert (await store.stats()).queued == 1
    assert await store.pulse(session, IDLE) is not None
    assert len(await reader.workers()) == 1
    await reader.close()
    await store.close(session)


def test_connections_are_made_by_their_owners_alone() -> None:
    """`asyncpg.connect` has one caller, and what it returns goes to owners, and to functions that
    keep it to themselves."""
    callers = set()
    for path in Path(storage.postgres.__path__[0]).glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("connect"):
                        callers.add((path.stem, function.name, ast.unparse(node.func)))
    assert {caller for caller in callers if caller[2] != "self._connect"} == {
        ("server_connection", "connect", "asyncpg.connect"),
        ("server_connection", "open", "connect"),
        ("maintenance", "_connected", "connect"),
        ("schema", "_keeps_its_session", "connect"),
    }


async def test_a_foreign_lock_on_a_row_is_shown_while_it_keeps_the_worker_waiting(
    crawl_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses, "BLOCKED_S", 0.1)
    store, reader = store_at(crawl_url), server_reader(location_of(crawl_url))
    session = await store.open_session("a")
    await store.add([link("http://a.test/")])
    foreign = await asyncpg.connect(crawl_url, server_settings={"application_name": "psql"})
    async with foreign.transaction():
        await foreign.execute("SELECT FROM slots FOR UPDATE")
        writing = asyncio.create_task(store.set_controls(["a.test"], paused=True))
        await asyncio.sleep(0.3)
        assert await store.pulse(session, IDLE) is not None
        fault = store.faults.now
        assert fault is not None
        assert fault.kind is FaultKind.LOCKED
        pid = foreign.get_server_pid()
        assert f"process {pid} (psql of user courtly) has locked" in fault.sentence
        held = WorkerHold(reason="database-locked", sentence=fault.sentence, since=fault.since)
        await store.pulse(session, WorkerStatus(held=[held]))
        (worker,) = await reader.workers()
        assert worker["held"] == [msgspec.to_builtins(held)]
        assert not writing.done()
    assert await writing
    assert await store.pulse(session, IDLE) is not None
    assert store.faults.now is None
    (worker,) = await reader.workers()
    assert worker["held"] == []
    await foreign.close()
    await reader.close()
    await store.close(session)

"""A reader of a server: its connection changes nothing, holds nothing, and may be cut."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from asyncpg import SerializationError

from storage.columns import REPORTS
from storage.engine.statements import Statements, TransactionConflict
from storage.engine.view_rows import ROWS_AT_ONCE
from storage.postgres import server_reader
from storage.postgres.server_connection import connect
from storage.reader import Reader
from storage.store import StoreError, StoreRefused, WorkerStatus
from tests.postgres_server import PostgresServer, running_server
from tests.storage.conftest import server_location
from tests.storage.postgres.proxy import Proxy
from tests.storage.postgres.stores import link, one, store_at

COUNT = 2 * ROWS_AT_ONCE + 7
# An autovacuum worker may come at any time.
_OTHERS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
)


def reader_at(url: str) -> Reader:
    return server_reader(server_location(url))


@pytest.fixture
async def url(postgres_url: str) -> str:
    """A crawl with some rows of every kind."""
    store = store_at(postgres_url)
    session = await store.open_session("a")
    await store.add([link(f"http://a.test/{n}") for n in range(COUNT)])
    await store.close(session)
    return postgres_url


@pytest.fixture
async def reader(url: str) -> AsyncIterator[Reader]:
    async with reader_at(url) as opened:
        yield opened


async def count(reader: Reader) -> int:
    return len([row async for row in reader.iterate("queued")])


async def test_a_large_view_is_read_in_pieces_without_a_transaction(
    url: str, reader: Reader
) -> None:
    async with aclosing(reader.iterate("queued")) as rows:
        seen = 0
        async for _ in rows:
            seen += 1
            if seen in (1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1):
                assert await one(url, f"SELECT array_agg(state) {_OTHERS}") == ["idle"]
    assert seen == COUNT


@pytest.fixture
async def large_report(url: str) -> str:
    """More links without a target than are read at once."""
    await one(
        url,
        "INSERT INTO hrefs (source, place, href, reason)"
        " SELECT (SELECT min(id) FROM urls), n, 'x:' || n, 'scheme'"
        f" FROM generate_series(1, {COUNT}) AS n RETURNING 1",
    )
    return url


async def test_a_report_is_complete_and_holds_no_connection_while_it_is_read(
    large_report: str, reader: Reader
) -> None:
    seen: set[object] = set()
    async with aclosing(reader.report("malformed")) as rows:
        async for row in rows:
            if not seen:
                assert await one(large_report, f"SELECT array_agg(state) {_OTHERS}") == ["idle"]
            seen.add(row["href"])
    assert len(seen) == COUNT


async def test_a_report_that_is_left_early_leaves_nothing_open(
    large_report: str, reader: Reader
) -> None:
    async with aclosing(reader.report("malformed")) as rows:
        assert (await anext(rows))["reason"] == "scheme"
    assert await one(large_report, f"SELECT count(*) {_OTHERS}") == 1


async def test_a_report_without_room_for_its_rows_says_so(
    large_report: str, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None: ...

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(StoreError, match="a temporary file cannot be written: no space left"):
        await anext(reader.report("malformed"))
    assert await one(large_report, f"SELECT count(*) {_OTHERS}") == 1


async def test_nothing_can_be_changed_by_it(reader: Reader) -> None:
    def change(sql: Statements) -> int:
        return sql.run("put_paused", 1)

    with pytest.raises(StoreError, match="read-only transaction"):
        await reader._database.read(change)
    assert (await reader.stats()).queued == COUNT


async def test_limits_of_the_server_are_not_for_readers(url: str) -> None:
    database = url.rpartition("/")[2]
    await one(
        url, f"DO $$BEGIN EXECUTE 'ALTER DATABASE {database} SET statement_timeout = 1'; END$$"
    )
    async with reader_at(url) as reader:
        found = await reader._database.read(lambda sql: sql.select("SHOW statement_timeout", {}))
        assert found == [("0",)]
        for kind in REPORTS:
            async for _ in reader.report(kind):
                pass


# ---------------------------------------------------------------- connections that end


async def test_a_connection_that_was_cut_is_made_again(url: str, reader: Reader) -> None:
    for _ in range(3):
        assert await one(url, f"SELECT count(pg_terminate_backend(pid)) {_OTHERS}") == 1
        assert await count(reader) == COUNT


async def test_a_view_is_read_on_after_the_connection_was_cut(url: str, reader: Reader) -> None:
    seen = []
    async with aclosing(reader.iterate("queued", host="a.test")) as rows:
        async for row in rows:
            seen.append(row["url"])
            if len(seen) in (1, ROWS_AT_ONCE):
                await one(url, f"SELECT count(pg_terminate_backend(pid)) {_OTHERS}")
    assert seen == [f"http://a.test/{n}" for n in range(COUNT)]


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[Proxy]:
    async with Proxy(postgres.host, postgres.port).running() as running:
        yield running


async def test_a_query_without_an_answer_is_repeated(
    postgres: PostgresServer, proxy: Proxy, url: str
) -> None:
    async with reader_at(url.replace(f":{postgres.port}/", f":{proxy.port}/")) as reader:
        proxy.cut_after = b"FROM queued"
        assert await count(reader) == COUNT
        assert proxy.cuts == 1


@pytest.mark.parametrize("conflicts", [2, 3])
async def test_a_query_that_a_replica_cancels_is_repeated_some_times(
    reader: Reader, conflicts: int
) -> None:
    calls: list[Statements] = []

    def work(sql: Statements) -> int:
        calls.append(sql)
        if len(calls) <= conflicts:
            raise TransactionConflict from SerializationError("conflict with recovery")
        return 7

    if conflicts == 2:
        assert await reader._database.read(work) == 7
    else:
        with pytest.raises(StoreError, match="cannot be used: conflict with recovery"):
            await reader._database.read(work)
    assert len(calls) == 3


async def test_a_server_that_is_gone_is_found_again() -> None:
    with running_server() as server:
        url = server.create_database()
        store = store_at(url)
        session = await store.open_session("a")
        await store.add([link("http://a.test/")])
        await store.close(session)
        async with reader_at(url) as reader:
            assert await count(reader) == 1
            await asyncio.to_thread(server.stop)
            for _ in range(2):
                with pytest.raises(StoreError, match="is the server running"):
                    await reader.stats()
            await asyncio.to_thread(server.start)
            assert await count(reader) == 1


async def test_the_system_ends_connections_to_machines_that_are_gone(url: str) -> None:
    db = await connect(server_location(url))
    try:
        tcp = db._transport.get_extra_info("socket")  # type: ignore[attr-defined]
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    finally:
        await db.close()


# ---------------------------------------------------------------- refusals


async def test_an_empty_database_is_refused_and_stays_empty(postgres_url: str) -> None:
    with pytest.raises(StoreRefused, match="there is no crawl in postgresql://"):
        await reader_at(postgres_url).stats()
    assert (
        await one(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    )
    assert await one(postgres_url, f"SELECT count(*) {_OTHERS}") == 0


async def test_a_database_of_others_is_refused(postgres_url: str) -> None:
    await one(postgres_url, "CREATE TABLE theirs (id integer)")
    with pytest.raises(StoreRefused, match="1 table that are not courtly's"):
        await reader_at(postgres_url).stats()


async def test_a_newer_schema_is_refused(url: str) -> None:
    await one(url, "UPDATE crawl SET version = 99")
    with pytest.raises(StoreRefused, match="made by a newer courtly"):
        await reader_at(url).stats()


# ---------------------------------------------------------------- workers


async def test_workers_are_shown_as_they_report_themselves(postgres_url: str) -> None:
    first, second = store_at(postgres_url), store_at(postgres_url)
    sessions = [await first.open_session("one"), await second.open_session("two")]
    status = WorkerStatus(
        idle=False, hosts=3, in_flight=2, pages=10, pages_per_s=1.5, uncommitted=4
    )
    await first.pulse(sessions[0], status)
    async with reader_at(postgres_url) as reader:
        rows = await reader.workers()
        assert [row["id"] for row in rows] == sessions
        assert [row["name"] for row in rows] == ["one", "two"]
        row: dict[str, Any] = dict(rows[0])
        assert 0.0 <= row.pop("seen_s") < 60.0
        assert row.pop("host") == socket.gethostname()
        assert row.pop("pid") > 0
        assert row.pop("began_at") > 1e9
        assert row == {
            "id": sessions[0], "name": "one", "idle": False, "hosts": 3, "in_flight": 2,
            "pages": 10, "pages_per_s": 1.5, "uncommitted": 4, "held": [],
        }  # fmt: skip
        await first.close(sessions[0])
        assert [row["id"] for row in await reader.workers()] == sessions[1:]
    await second.close(sessions[1])

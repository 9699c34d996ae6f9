"""What `courtly db` says of a database on a server, what it finds wrong, and how it shrinks it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from crawler.clock import RealClock
from crawler.databases import copy_database, open_store
from storage.database_info import TABLES_SHOWN
from storage.location import FileLocation, ServerLocation, parse_location
from storage.postgres.maintenance import REFERENCES, check, info, vacuum
from storage.postgres.schema import SCHEMA_VERSION
from storage.postgres.server_connection import connect
from storage.sqlite.schema import migrate
from storage.store import StoreRefused
from tests.postgres_server import PostgresServer
from tests.storage.sqlite.test_maintenance import filled


@pytest.fixture
async def crawled(sqlite_rig, postgres_url: str) -> ServerLocation:
    """Two URLs in every state."""
    await filled(sqlite_rig)
    await sqlite_rig.store.close(sqlite_rig.session)
    location = parse_location(postgres_url)
    assert isinstance(location, ServerLocation)
    async with aclosing(copy_database(FileLocation(sqlite_rig.path), location)) as steps:
        async for _ in steps:
            pass
    return location


async def test_info(crawled: ServerLocation) -> None:
    store = open_store(crawled, RealClock())
    session = await store.open_session("a worker")
    found = await asyncio.to_thread(info, crawled)
    await store.close(session)
    assert (found.urls, found.visited, found.blocked, found.failed, found.queued) == (8, 2, 2, 2, 2)
    assert (found.hosts, found.origins, found.robots_copies) == (1, 1, 1)
    assert (found.database, found.schema, found.shared) == (str(crawled), SCHEMA_VERSION, True)
    assert found.bytes > 100_000
    newest, oldest = found.sessions
    assert (newest.name, newest.ended_at) == ("a worker", None)
    assert oldest.name == "test"
    assert found.last_at == pytest.approx(time.time(), abs=30)


async def test_info_about_the_server(crawled: ServerLocation) -> None:
    stores = [open_store(crawled, RealClock()) for _ in range(2)]
    sessions = [await store.open_session(name) for store, name in zip(stores, "ab", strict=True)]
    other = await connect(crawled)
    await other.execute("ANALYZE; BEGIN; SELECT 1")
    server = (await asyncio.to_thread(info, crawled)).server
    assert server is not None
    assert (server.replica, server.workers) == (False, 2)
    assert server.version.split(".")[0] == str(other.get_server_version().major)
    assert server.transaction_s is not None
    assert 0.0 <= server.transaction_s < 60.0
    await other.close()
    for store, session in zip(stores, sessions, strict=True):
        await store.close(session)
    server = (await asyncio.to_thread(info, crawled)).server
    assert server is not None
    assert (server.workers, server.transaction_s) == (0, None)
    sizes = [table.bytes for table in server.tables]
    assert len(sizes) == TABLES_SHOWN
    assert sizes == sorted(sizes, reverse=True)


async def test_a_new_database_has_nothing_in_it(postgres_url: str) -> None:
    location = parse_location(postgres_url)
    store = open_store(location, RealClock())
    await store.close(await store.open_session("x"))
    assert isinstance(location, ServerLocation)
    found = await asyncio.to_thread(info, location)
    assert (found.urls, found.bytes_per_url) == (0, None)
    assert await asyncio.to_thread(check, location) == []


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        ("UPDATE urls SET state = 1 WHERE state = 3", "2 URLs are visited without a page"),
        ("DELETE FROM pages", "2 URLs are visited without a page"),
        ("DELETE FROM failures", "2 URLs failed without an error"),
        ("UPDATE origins SET visited = 7", "origin http://a.test: visited is 7, but counted 2"),
        ("UPDATE slots SET visited = 7", "host a.test: visited is 7, but its origins say 2"),
        ("UPDATE totals SET visited = 7", "1 sums of the sessions are not those of the hosts"),
        (
            "DELETE FROM kinds",
            "table pages: 2 rows refer by kind to rows of kinds that do",
        ),
        ("DELETE FROM slots", "table origins: 1 rows refer by slot to rows of slots that do not"),
    ],
)
async def test_check_finds_what_is_wrong(
    crawled: ServerLocation, postgres: PostgresServer, harm: str, sentence: str
) -> None:
    assert await asyncio.to_thread(check, crawled) == []
    await asyncio.to_thread(postgres.execute, harm, url=str(crawled))
    assert any(text.startswith(sentence) for text in await asyncio.to_thread(check, crawled))


def test_the_references_are_those_that_sqlite_enforces(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as db:
        migrate(db)
        found = {
            (table, row[3], row[2])
            for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            for row in db.execute(f"PRAGMA foreign_key_list({table})").fetchall()
        }
    assert found == {*REFERENCES}


async def test_vacuum(crawled: ServerLocation, postgres: PostgresServer) -> None:
    sql = "INSERT INTO texts SELECT n, 'text ' || n FROM generate_series(1000, 50000) AS n"
    await asyncio.to_thread(postgres.execute, sql, url=str(crawled))
    sql = "DELETE FROM texts WHERE id >= 1000"
    await asyncio.to_thread(postgres.execute, sql, url=str(crawled))
    before, after = await asyncio.to_thread(vacuum, crawled)
    assert before - after > 1_000_000
    assert await asyncio.to_thread(check, crawled) == []


async def test_vacuum_is_refused_while_a_worker_runs(crawled: ServerLocation) -> None:
    store = open_store(crawled, RealClock())
    session = await store.open_session("a worker")
    with pytest.raises(StoreRefused, match=r"is in use by process \d+ on .* \(a worker\)"):
        await asyncio.to_thread(vacuum, crawled)
    await store.close(session)
    await asyncio.to_thread(vacuum, crawled)

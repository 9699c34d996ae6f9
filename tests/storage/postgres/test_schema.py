"""A database of an older version is brought up to date by the first worker, and by no reader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from crawler.databases import database_info
from storage.database_info import Table
from storage.location import ServerLocation, parse_location
from storage.postgres import PostgresReader
from storage.postgres.schema import SCHEMA_VERSION
from storage.store import StoreError, StoreRefused
from tests.postgres_server import PostgresServer
from tests.storage.conftest import server_location
from tests.storage.postgres.stores import assert_sound, link, one, store_at

OLD_TABLES = (
    "DROP TABLE data; DROP TABLE history; DROP TABLE marks; DROP TABLE earlier_copies;"
    " DROP VIEW hosts;"
    " ALTER TABLE slots DROP COLUMN backoff_status; ALTER TABLE plans DROP COLUMN declared;"
    " ALTER TABLE bodies DROP COLUMN domain, DROP COLUMN packed_bytes;"
    " ALTER TABLE sessions DROP COLUMN held; ALTER TABLE totals DROP COLUMN commits;"
    " DROP SEQUENCE ticks; ALTER TABLE sessions DROP COLUMN last_at;"
    " ALTER TABLE crawl DROP COLUMN distrusted, DROP COLUMN returns, DROP COLUMN settled,"
    " DROP COLUMN returned_at, DROP COLUMN server, DROP COLUMN fingerprint;"
    " ALTER TABLE slots DROP COLUMN rest_s, DROP COLUMN backoff_s, DROP COLUMN rested_s,"
    " DROP COLUMN stamp, DROP COLUMN boot, DROP COLUMN uptime_s, DROP COLUMN unproven;"
    " CREATE VIEW hosts AS SELECT name AS host FROM slots; UPDATE crawl SET version = 1"
)
COLUMNS = (
    "SELECT array_agg(column_name || ' ' || data_type || ' ' || is_nullable"
    " ORDER BY table_name, ordinal_position)::text FROM information_schema.columns"
    " WHERE table_schema = current_schema()"
    " AND table_name IN ('bodies', 'data', 'earlier_copies', 'history', 'marks', 'plans')"
)


async def execute(url: str, sql: str) -> None:
    db = await asyncpg.connect(url)
    try:
        await db.execute(sql)
    finally:
        await db.close()


@pytest.fixture
async def old(postgres_url: str) -> ServerLocation:
    """A crawl of version 1, with one URL."""
    store = store_at(postgres_url)
    session = await store.open_session("old")
    await store.add([link("http://a.test/")])
    await store.close(session)
    await execute(postgres_url, OLD_TABLES)
    return server_location(postgres_url)


async def test_a_reader_refuses_it(old: ServerLocation) -> None:
    reader = PostgresReader(old)
    with pytest.raises(StoreRefused, match=r"older courtly \(its schema is 1, .* a crawl brings"):
        await reader.stats()
    await reader.close()


async def test_workers_that_open_it_together_bring_it_up_to_date_once(
    old: ServerLocation, crawl_url: str, postgres_url: str
) -> None:
    stores = [store_at(postgres_url) for _ in range(3)]
    sessions = await asyncio.gather(*(store.open_session("new") for store in stores))
    assert await one(postgres_url, "SELECT version FROM crawl") == SCHEMA_VERSION
    await stores[0].add([link("http://a.test/", data="[1]", seed=True)])
    (lease,) = await stores[1].claim(sessions[1], hosts=1, urls_per_host=1)
    assert [queued.data for queued in lease.prefetched.urls] == ["[1]"]
    for store, session in zip(stores, sessions, strict=True):
        await store.close(session)
    await assert_sound(postgres_url)
    assert await one(crawl_url, COLUMNS) == await one(postgres_url, COLUMNS)


async def test_what_extensions_own_is_nobody_s_crawl(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """Managed servers put pg_stat_statements, and others postgis, into `public`."""
    postgres.execute(
        "CREATE TABLE spatial_ref_sys (id int); CREATE VIEW pg_stat_statements AS SELECT 1 AS x;"
        "ALTER EXTENSION plpgsql ADD TABLE spatial_ref_sys;"
        "ALTER EXTENSION plpgsql ADD VIEW pg_stat_statements",
        url=postgres_url,
    )
    store = store_at(postgres_url)
    await store.close(await store.open_session("a"))
    names = {table.name for table in await asyncio.to_thread(tables_of, postgres_url)}
    assert names
    assert "spatial_ref_sys" not in names
    postgres.execute("CREATE TABLE other (id int); DROP TABLE crawl CASCADE", url=postgres_url)
    with pytest.raises(StoreRefused, match="not courtly's"):
        await store_at(postgres_url).open_session("a")


def tables_of(url: str) -> Sequence[Table]:
    server = database_info(parse_location(url)).server
    assert server is not None
    return server.tables


@pytest.mark.parametrize("found", ["'another'", "NULL"])
async def test_a_database_of_another_commit_with_the_same_version_is_refused(
    crawl_url: str, found: str
) -> None:
    """No version says which of them made it, so none can bring it up to date, and workers of two
    commits do not share it."""
    running = store_at(crawl_url)
    session = await running.open_session("mine")
    await execute(crawl_url, f"UPDATE crawl SET fingerprint = {found}")
    with pytest.raises(StoreRefused, match=r"another commit .*same number .*start a new database"):
        await store_at(crawl_url).open_session("other")
    with pytest.raises(StoreError, match=r"another commit|newer"):
        await running.add([link("http://a.test/")])
    await running.close(session)


async def test_a_worker_stops_when_a_newer_one_changes_the_schema(crawl_url: str) -> None:
    running = store_at(crawl_url)
    session = await running.open_session("mine")
    await execute(crawl_url, "UPDATE crawl SET version = version + 1, fingerprint = 'newer'")
    with pytest.raises(StoreError, match=r"made by a newer courtly"):
        await running.add([link("http://a.test/")])
    await running.close(session)

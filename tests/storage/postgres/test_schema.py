"""A database of an older version is brought up to date by the first worker, and by no reader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from crawler.databases import database_info
from storage.database_info import Table
from storage.location import ServerLocation, parse_location
from storage.postgres import schema, server_reader
from storage.store import StoreError, StoreRefused
from tests.postgres_server import PostgresServer
from tests.storage.conftest import server_location
from tests.storage.postgres.stores import assert_sound, link, one, store_at


async def execute(url: str, sql: str) -> None:
    db = await asyncpg.connect(url)
    try:
        await db.execute(sql)
    finally:
        await db.close()


@pytest.fixture
async def old(
    crawl_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, ServerLocation]:
    """A crawl of the version before ours, whose migration adds a table."""
    version = schema.SCHEMA_VERSION + 1
    script = tmp_path / f"{version:04}.sql"
    script.write_text(f"CREATE TABLE more (id bigint); UPDATE crawl SET version = {version}")
    monkeypatch.setattr(schema, "SCRIPTS", tmp_path)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", version)
    monkeypatch.setattr(schema, "fingerprint", lambda: "newer")
    return crawl_url, server_location(crawl_url)


async def test_a_reader_refuses_it(old: tuple[str, ServerLocation]) -> None:
    url, location = old
    reader = server_reader(location)
    before = schema.SCHEMA_VERSION - 1
    with pytest.raises(
        StoreRefused, match=rf"older courtly \(its schema is {before}, .* a crawl brings"
    ):
        await reader.stats()
    await reader.close()
    assert await one(url, "SELECT version FROM crawl") == before


async def test_workers_that_open_it_together_bring_it_up_to_date_once(
    old: tuple[str, ServerLocation],
) -> None:
    url, _ = old
    stores = [store_at(url) for _ in range(3)]
    sessions = await asyncio.gather(*(store.open_session("new") for store in stores))
    assert await one(url, "SELECT version FROM crawl") == schema.SCHEMA_VERSION
    assert await one(url, "SELECT count(*) FROM more") == 0
    await stores[0].add([link("http://a.test/")])
    (lease,) = await stores[1].claim(sessions[1], hosts=1, urls_per_host=1)
    assert [queued.url for queued in lease.prefetched.urls] == ["http://a.test/"]
    for store, session in zip(stores, sessions, strict=True):
        await store.close(session)
    await assert_sound(url)


async def test_a_database_of_a_development_version_is_refused(crawl_url: str) -> None:
    await execute(crawl_url, "UPDATE crawl SET version = 3")
    sentence = r"made by a development version .* schema is 3.*: start a new database, or use"
    with pytest.raises(StoreRefused, match=sentence):
        await store_at(crawl_url).open_session("a")
    reader = server_reader(server_location(crawl_url))
    with pytest.raises(StoreRefused, match=sentence):
        await reader.stats()
    await reader.close()
    assert await one(crawl_url, "SELECT version FROM crawl") == 3


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

"""A crawl that moves from SQLite to PostgreSQL and back is the same crawl."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from crawler.clock import RealClock
from crawler.databases import check_database, open_store
from storage import copying
from storage.copying import TABLES
from storage.location import FileLocation, Location, ServerLocation, parse_location
from storage.postgres.copying import open_source, open_target
from storage.sqlite.copying import SqliteTarget
from storage.store import Link, StoreRefused, WorkerStatus
from tests.postgres_server import PostgresServer
from tests.storage.conftest import Rig, server_location
from tests.storage.test_copying import Rows, copied, insert_made_up, small_chunks, source, tables

__all__ = ["small_chunks", "source"]
# Columns that SQLite alone has, in tables that every engine has.
OF_SQLITE = {("slots", "pending"), ("origins", "pending"), ("origins", "governs")}


@pytest.fixture
def server(postgres_url: str) -> ServerLocation:
    location = parse_location(postgres_url)
    assert isinstance(location, ServerLocation)
    return location


@pytest.fixture
def back(tmp_path: Path) -> FileLocation:
    return FileLocation(tmp_path / "back.db")


async def query(location: ServerLocation, sql: str) -> list[tuple[object, ...]]:
    db = await asyncpg.connect(**location.connect_arguments())
    try:
        return [tuple(row) for row in await db.fetch(sql)]
    finally:
        await db.close()


async def session_of(location: Location, name: str) -> None:
    store = open_store(location, RealClock())
    await store.close(await store.open_session(name))


async def test_both_engines_have_the_same_columns(
    source: FileLocation, server: ServerLocation
) -> None:
    await session_of(server, "x")
    here, there = set(), set()
    with closing(sqlite3.connect(source.path)) as db:
        for table in TABLES:
            here |= {(table.name, row[1]) for row in db.execute(f"PRAGMA table_info({table.name})")}
    rows = await query(
        server,
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND is_generated = 'NEVER'",
    )
    names = {table.name for table in TABLES}
    there = {row for row in rows if row[0] in names}
    assert here - there == OF_SQLITE
    # What a worker says of itself is of no use in a copy. The columns of URLs are those of `known`.
    more = {row for row in there - here if row[0] != "sessions"}
    assert more == {("urls", "fingerprint"), ("urls", "hidden")}


async def test_there_and_back(
    source: FileLocation, server: ServerLocation, back: FileLocation
) -> None:
    await copied(source, server)
    await copied(server, back)
    assert comparable(tables(back.path)) == comparable(tables(source.path))


def comparable(rows: Rows) -> Rows:
    """All rows. A session that was killed in the source has an end in a copy, and the stamps of one
    database mean nothing in another. Turns keep their order only."""
    rows["slots"] = [(*row[:-4], *row[-3:]) for row in rows["slots"]]
    rows["sessions"] = [row[:3] for row in rows["sessions"]]
    rows["urls"] = [(*row[:6], row[6] and 1, *row[7:]) for row in rows["urls"]]  # its turn
    return rows


async def test_every_column_there_and_back(
    server: ServerLocation, back: FileLocation, tmp_path: Path
) -> None:
    source = FileLocation(tmp_path / "made.db")
    await session_of(source, "x")
    with closing(sqlite3.connect(source.path, isolation_level=None)) as db:
        for table in TABLES:
            for sign in (1, -1):
                insert_made_up(db, table.name, sign)
    await copied(source, server)
    await copied(server, back)
    assert comparable(tables(back.path)) == comparable(tables(source.path))


@pytest.mark.usefixtures("small_chunks")
async def test_an_interrupted_copy_resumes(
    source: FileLocation, server: ServerLocation, back: FileLocation
) -> None:
    attempts = 0
    for one, other in ((source, server), (server, back)):
        while len(await copied(one, other, chunks=9)) == 9:
            attempts += 1
            store = open_store(other, RealClock())
            with pytest.raises(StoreRefused, match="is an incomplete copy: run the same `courtly"):
                await store.open_session("x")
    assert attempts > 6
    assert comparable(tables(back.path)) == comparable(tables(source.path))


async def test_new_rows_get_ids_above_the_copied_ones(
    source: FileLocation, server: ServerLocation
) -> None:
    await copied(source, server)
    store = open_store(server, RealClock())
    session = await store.open_session("after")
    links = [
        Link(url=f"http://{host}/{n}", slot=host, host=host, depth=0)
        for host in ("a.test", "new.test")
        for n in range(3)
    ]
    assert (await store.add(links)).added == {"a.test": 3, "new.test": 3}
    stats = await store.stats()
    assert (stats.queued, stats.visited, stats.blocked, stats.failed) == (8, 2, 2, 2)
    assert stats.hosts == 2
    await store.close(session)
    with closing(sqlite3.connect(source.path)) as db:
        (newest,) = db.execute("SELECT max(session) FROM crawl").fetchone()
    assert session == newest + 1


async def test_retries_keep_their_order(
    sqlite_rig: Rig, server: ServerLocation, postgres_url: str
) -> None:
    """Those of the file, then those of the server, whatever their depth."""
    await sqlite_rig.add("http://a.test/late", depth=0)
    await sqlite_rig.add("http://a.test/later", depth=1)
    await sqlite_rig.add("http://a.test/first", depth=2)
    lease = await sqlite_rig.claim_one()
    queued = {one.url.rpartition("/")[2]: one for one in lease.prefetched.urls}
    await sqlite_rig.commit(lease, sqlite_rig.retry(queued["first"], 0.0))
    sqlite_rig.wall_s += 2.0
    await sqlite_rig.commit(lease, sqlite_rig.retry(queued["later"], 0.0), release=True)
    await sqlite_rig.store.close(sqlite_rig.session)
    await copied(FileLocation(sqlite_rig.path), server)
    rig = Rig("postgres", sqlite_rig.path, server_location(postgres_url))
    await rig.open()
    try:
        lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
        hand = (await rig.commit(lease, want=9)).prefetched["a.test"].urls
        await rig.commit(lease, rig.retry(hand[0], 0.0))
        hand = (await rig.commit(lease, want=9)).prefetched["a.test"].urls
        assert [one.url.rpartition("/")[2] for one in hand] == ["first", "later", "late"]
    finally:
        await rig.close()


async def test_the_time_of_the_store_goes_on(source: FileLocation, server: ServerLocation) -> None:
    """The source was written in the year 2027, by the clock of its crawl."""
    await copied(source, server)
    ((now_s,),) = await query(
        server, "SELECT shift_s + extract(epoch FROM clock_timestamp())::float8 FROM crawl"
    )
    with closing(sqlite3.connect(source.path)) as db:
        (last_s,) = db.execute("SELECT last_at FROM crawl").fetchone()
    assert now_s == pytest.approx(last_s, abs=30)


async def test_a_target_with_a_crawl_is_refused(
    source: FileLocation, server: ServerLocation
) -> None:
    await session_of(server, "a crawl")
    with pytest.raises(StoreRefused, match="holds a crawl: copy to a database that is empty"):
        await copied(source, server)


async def test_a_target_with_other_tables_is_refused(
    source: FileLocation, server: ServerLocation
) -> None:
    await query(server, "CREATE TABLE mine (a int)")
    with pytest.raises(StoreRefused, match="holds 1 table that are not courtly's"):
        await copied(source, server)


async def test_a_live_worker_is_refused(server: ServerLocation, back: FileLocation) -> None:
    store = open_store(server, RealClock())
    session = await store.open_session("a crawl")

    async def work() -> None:
        while True:
            await store.pulse(session, WorkerStatus())
            await asyncio.sleep(0.2)

    task = asyncio.create_task(work())
    with pytest.raises(StoreRefused, match=r"is in use by session 1 \(a crawl\) of process \d+ on"):
        await copied(server, back)
    task.cancel()
    await asyncio.wait([task])
    await store.close(session)
    await copied(server, back)


async def test_a_worker_that_joins_during_a_copy_spoils_it(
    source: FileLocation, server: ServerLocation, back: FileLocation
) -> None:
    await copied(source, server)
    joined: list[object] = []

    class Target:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        async def write(self, table, columns, rows):
            await self.inner.write(table, columns, rows)
            if not joined:
                joined.append(table)
                await session_of(server, "another")

    async with open_source(server) as given, SqliteTarget(back.path) as made:
        with pytest.raises(StoreRefused, match="was used by another process during the copy"):
            async for _ in copying.copy(given, Target(made), session=-1):
                pass


async def test_two_copies_to_one_target_are_refused(
    source: FileLocation, server: ServerLocation
) -> None:
    async with open_target(server):
        with pytest.raises(StoreRefused, match="is being copied to by another process"):
            await copied(source, server)
    await copied(source, server)


async def test_nul_characters_are_replaced(source: FileLocation, server: ServerLocation) -> None:
    with closing(sqlite3.connect(source.path)) as db, db:
        db.execute("UPDATE pages SET title = ?", ("a\0b",))
    await copied(source, server)
    assert ("a\ufffdb",) in await query(server, "SELECT title FROM pages")


async def test_a_url_without_a_fingerprint_is_copied(
    source: FileLocation, server: ServerLocation, back: FileLocation
) -> None:
    """The damage is in the copy, too, and a check finds it there."""
    source = FileLocation(Path(shutil.copy(source.path, back.path.with_name("damaged.db"))))
    with closing(sqlite3.connect(source.path)) as db, db:
        db.execute("DELETE FROM known WHERE id IN (1, 2)")
        db.execute("UPDATE known SET id = -4 WHERE id = 3")  # two rows say that they are of URL 4
    await copied(source, server)
    found = ["3 URLs cannot be found by their fingerprint"]
    assert [one for one in await checked(server) if "cannot be found" in one] == found
    await copied(server, back)
    assert [one for one in await checked(back) if "cannot be found" in one] == found


async def checked(location: Location) -> list[str]:
    return list(await asyncio.to_thread(check_database, location))


async def test_between_two_servers(
    source: FileLocation, server: ServerLocation, postgres: PostgresServer, back: FileLocation
) -> None:
    other = parse_location(postgres.create_database())
    await copied(source, server)
    await copied(server, other)
    await copied(other, back)
    assert comparable(tables(back.path)) == comparable(tables(source.path))
    assert isinstance(other, ServerLocation)
    postgres.drop_database(f"/{other.database}")

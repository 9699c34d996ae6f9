"""A copied crawl is the same crawl: every row, after interruptions too, in SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from crawler.clock import RealClock
from crawler.databases import check_database, copy_database, open_reader, open_store
from storage import copying
from storage.copying import TABLES, CopyProgress, Table
from storage.location import FileLocation, Location
from storage.store import StoreRefused
from tests.storage.sqlite.test_maintenance import filled

Rows = dict[str, list[tuple[object, ...]]]
ONCE = {"crawl", "secret", "skips"}  # CrawlState


def tables(path: Path) -> Rows:
    """All rows but those about the copy itself. Stamps of one database mean nothing in another."""
    with closing(sqlite3.connect(path)) as db:
        names = [
            name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        rows = {name: sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
    rows["sessions"] = [row for row in rows["sessions"] if row[1] != "db copy"]
    rows["slots"] = [(*row[:-6], *row[-5:]) for row in rows["slots"]]
    del rows["crawl"]
    return rows


@pytest.fixture
async def source(sqlite_rig) -> FileLocation:
    """Some URLs in every state."""
    await filled(sqlite_rig)
    await sqlite_rig.store.close(sqlite_rig.session)
    return FileLocation(sqlite_rig.path)


@pytest.fixture
def target(tmp_path: Path) -> FileLocation:
    return FileLocation(tmp_path / "copy.db")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row per transaction."""
    tables = tuple(Table(one.name, one.key, rows_at_once=1) for one in TABLES)
    monkeypatch.setattr(copying, "TABLES", tables)


async def copied(
    source: Location, target: Location, *, chunks: int | None = None
) -> list[CopyProgress]:
    """Copy; end after some chunks, as an interruption does."""
    done: list[CopyProgress] = []
    async with aclosing(copy_database(source, target)) as progress:
        async for step in progress:
            if step.rows and step not in done:
                done.append(step)
            if len(done) == chunks:
                break
    return done


async def test_every_table_is_copied(source: FileLocation) -> None:
    assert {*tables(source.path)} - ONCE == {table.name for table in TABLES}


async def test_a_copy_has_the_same_rows(source: FileLocation, target: FileLocation) -> None:
    done = await copied(source, target)
    assert tables(target.path) == tables(source.path)
    assert check_database(target) == []
    assert CopyProgress("urls", 8) in done
    for view in ("visited", "blocked", "failed", "queued", "hosts", "robots", "skipped"):
        assert await shown(source, view) == await shown(target, view)


async def shown(location: FileLocation, view: str) -> list[dict[str, object]]:
    """The rows of a view. Times depend on when the copy was made, by microseconds."""
    reader = open_reader(location)
    rows = [
        {name: round(one, 1) if isinstance(one, float) else one for name, one in row.items()}
        async for row in reader.iterate(view)
    ]
    await reader.close()
    return rows


async def test_the_time_of_the_store_goes_on(source: FileLocation, target: FileLocation) -> None:
    """The source was written in the year 2027, by the clock of its crawl."""
    await copied(source, target)
    times = []
    for place in (source, target):
        with closing(sqlite3.connect(place.path)) as db:
            times.append(db.execute("SELECT last_at, shift_s FROM crawl").fetchone())
    assert times[0][0] == pytest.approx(times[1][0], abs=30)
    assert times[0][1] == pytest.approx(times[1][1], abs=30)
    assert times[0][1] > 1000


async def test_a_copy_can_be_crawled(source: FileLocation, target: FileLocation) -> None:
    await copied(source, target)
    with closing(sqlite3.connect(source.path)) as db:
        (newest,) = db.execute("SELECT session FROM crawl").fetchone()
    store = open_store(target, RealClock())
    session = await store.open_session("test")
    assert session == newest + 1
    assert [list(urls) async for urls in store.seeds()] == [["http://a.test/"]]
    await store.close(session)


@pytest.mark.usefixtures("small_chunks")
async def test_an_interrupted_copy_resumes(source: FileLocation, target: FileLocation) -> None:
    attempts = 0
    while len(await copied(source, target, chunks=9)) == 9:
        attempts += 1
        for refuse in (
            open_reader(target).stats(),
            open_store(target, RealClock()).open_session("x"),
        ):
            with pytest.raises(StoreRefused, match="is an incomplete copy: run the same"):
                await refuse
        with pytest.raises(StoreRefused, match="is an incomplete copy: run the same"):
            check_database(target)
    assert attempts > 3
    assert tables(target.path) == tables(source.path)
    assert check_database(target) == []


async def test_an_outdated_copy_is_not_resumed(source: FileLocation, target: FileLocation) -> None:
    await copied(source, target, chunks=1)
    store = open_store(source, RealClock())
    await store.close(await store.open_session("another crawl"))
    with pytest.raises(StoreRefused, match=r"was changed since the copy to .* delete the copy"):
        await copied(source, target)


async def test_another_crawl_is_not_continued(
    source: FileLocation, target: FileLocation, tmp_path: Path
) -> None:
    await copied(source, target, chunks=1)
    other = FileLocation(tmp_path / "other.db")
    store = open_store(other, RealClock())
    await store.close(await store.open_session("other"))
    with pytest.raises(StoreRefused, match="is an incomplete copy of another crawl"):
        await copied(other, target)
    with pytest.raises(StoreRefused, match="holds a crawl: copy to a database that does not exist"):
        await copied(source, other)
    await copied(source, target)
    with pytest.raises(StoreRefused, match="holds a crawl: copy to a database that does not exist"):
        await copied(source, target)


async def test_databases_in_use_are_refused(source: FileLocation, target: FileLocation) -> None:
    store = open_store(source, RealClock())
    session = await store.open_session("a crawl")
    with pytest.raises(StoreRefused, match="is in use by process"):
        await copied(source, target)
    await store.close(session)
    await copied(source, target)
    assert tables(target.path) == tables(source.path)


async def test_a_copy_of_itself_is_refused(source: FileLocation, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(source.path)
    with pytest.raises(StoreRefused, match="cannot be copied to itself"):
        await copied(source, FileLocation(link))


async def test_a_foreign_file_is_refused_and_not_changed(
    source: FileLocation, target: FileLocation
) -> None:
    target.path.write_bytes(b"mine")
    with pytest.raises(StoreRefused, match="is not an SQLite database"):
        await copied(source, target)
    assert target.path.read_bytes() == b"mine"
    assert sorted(one.name for one in target.path.parent.glob("copy.db*")) == ["copy.db"]


@pytest.mark.usefixtures("small_chunks")
async def test_every_column_is_copied(tmp_path: Path, target: FileLocation) -> None:
    """Rows that no crawl would write, with a value of its own in every column."""
    source = FileLocation(tmp_path / "made.db")
    store = open_store(source, RealClock())
    await store.close(await store.open_session("x"))
    with closing(sqlite3.connect(source.path, isolation_level=None)) as db:
        for table in TABLES:
            for sign in (1, -1):
                insert_made_up(db, table.name, sign)
    await copied(source, target)
    assert tables(target.path) == tables(source.path)


MADE_UP_URLS = {1: 100, -1: 1_100}


def insert_made_up(db: sqlite3.Connection, table: str, sign: int) -> None:
    values: list[object] = []
    for number, (_, name, kind, *_) in enumerate(db.execute(f"PRAGMA table_info({table})")):
        value: object = sign * (100 + number)
        if name == "state":
            value = 2 + sign
        elif (table, name) == ("urls", "id"):
            value = MADE_UP_URLS[sign]
        elif table == "known":  # of these, on a server: its rows are in the table of URLs
            value = {
                "id": sign * MADE_UP_URLS[sign],
                "origin": sign * 101,
                "depth": sign * 104,
            }.get(name, value)
        elif name == "body":
            value = sign * 100  # which is there
        elif (table, name) in (
            ("slots", "pending"),
            ("origins", "pending"),
            ("origins", "governs"),
        ):
            value = 1
        elif kind == "INTEGER" and table in ("slots", "origins"):
            value = abs(int(str(value))) + (sign < 0) * 1000  # counters are not negative
        elif kind == "REAL":
            value = sign * (number + 0.5)
        elif kind in ("TEXT", "BLOB"):
            text = f"{name} {sign} \u00fc\U0001f600"
            value = text if kind == "TEXT" else text.encode()
        values.append(value)
    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

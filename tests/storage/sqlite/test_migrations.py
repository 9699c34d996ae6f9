"""A database of an older version is brought up to date when it is opened, and loses nothing."""

from __future__ import annotations

import sqlite3

import pytest

from storage.sqlite import SqliteReader, SqliteStore, schema
from storage.sqlite.fingerprint import fingerprint
from storage.sqlite.maintenance import check, info, vacuum
from storage.store import Link, StoreRefused

# sql/schema.sql: this, all that the migrations make of nothing, and the rows of a new database.
HEAD = """\
-- What the migrations make of nothing, all at once: a fifth of the time, at the start of each crawl
-- into a new file. Written by tests/storage/sqlite/test_migrations.py, which holds it to them.

"""
ROWS = "INSERT INTO secret VALUES (1, randomblob(16));\n"


def migrated() -> sqlite3.Connection:
    """A database that went through every version."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.create_function("fingerprint", 2, fingerprint, deterministic=True)
    for script in schema.migrations():
        db.executescript(script)
    return db


def things(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Kind, name and SQL of all that a schema has, in the order in which it was made."""
    return db.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ).fetchall()


def whole() -> str:
    return HEAD + "".join(f"{sql};\n\n" for _, _, sql in things(migrated())) + ROWS


@pytest.fixture
def old(tmp_path):
    """A database of version 1 with a page, a queued URL, and a redirect's target."""
    path = tmp_path / "crawl.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.executescript(schema.migrations()[0])
    db.executescript(f"""
        INSERT INTO crawl VALUES (1, 3, 0.0, 0.0);
        INSERT INTO slots (id, name, queued, visited, body_bytes, ready_at, next_at)
          VALUES (1, 'a.test', 1, 1, 9, 0.0, 0.0);
        INSERT INTO origins (id, name, hostname, slot, queued, visited, body_bytes)
          VALUES (1, 'http://a.test', 'a.test', 1, 1, 1, 9);
        INSERT INTO urls (id, origin, path, state, depth, priority, turn, flags)
          VALUES (1, 1, '/', 1, 0, 0.0, 0, 0), (2, 1, '/next', 0, 4, 0.0, 0, 0),
            (3, 1, '/target', 4, 0, 0.0, 0, 0);
        INSERT INTO known VALUES (1, x'01', 1, 0), (1, x'02', 2, 4), (1, x'03', -3, 0);
        INSERT INTO texts VALUES (1, 'text/html');
        INSERT INTO pages VALUES (1, 200, 1800000000.125, 1, 9, 0.0625, 'Home', 1, 0, 1);
        PRAGMA user_version = 1;
        PRAGMA application_id = {schema.APPLICATION_ID};
    """)
    db.close()
    return path


async def test_pages_of_version_1_are_kept(old):
    store = SqliteStore(old, wall=lambda: 1_800_000_001.0)
    assert await store.open_session("test") == 4
    await store.close()
    async with SqliteReader(old) as reader:
        (row,) = [dict(row) async for row in reader.iterate("visited")]
    assert row["url"] == "http://a.test/"
    assert (row["fetched_at"], row["elapsed_s"]) == (1_800_000_000.125, 0.0625)
    assert (row["indexable"], row["followable"], row["archivable"]) == (1, 0, 1)
    assert (row["title"], row["content_type"], row["status"]) == ("Home", "text/html", 200)


async def test_urls_of_version_1_are_known_and_claimed(old):
    store = SqliteStore(old, wall=lambda: 1_800_000_001.0)
    session = await store.open_session("test")
    urls = ["http://a.test/", "http://a.test/next", "http://a.test/target"]
    links = [Link(url=url, slot="a.test", host="a.test", depth=3) for url in urls]
    assert (await store.add(links)).added == {"a.test": 1}  # the one that was out of view
    (lease,) = await store.claim(session, hosts=9, urls_per_host=9)
    assert [queued.url for queued in lease.prefetched.urls] == urls[1:]
    assert [queued.depth for queued in lease.prefetched.urls] == [3, 3]
    await store.close()
    assert check(old) == []


def test_a_new_database_is_made_at_once_as_the_migrations_make_it(tmp_path):
    assert schema.whole() == whole(), (
        "`python tests/storage/sqlite/test_migrations.py` writes it anew"
    )
    new, old = schema.connect_writer(tmp_path / "new.db"), migrated()
    assert things(new) == things(old)
    tables = [name for kind, name, _ in things(old) if kind == "table"]
    for table in tables:
        count = f"SELECT count(*) FROM {table}"  # of names from our own schema
        assert new.execute(count).fetchone() == old.execute(count).fetchone(), table
    assert new.execute("SELECT id, length(bytes) FROM secret").fetchall() == [(1, 16)]
    assert new.execute("PRAGMA user_version").fetchone() == (len(schema.migrations()),)
    new.close()
    old.close()


def test_who_only_looks_is_told_that_a_file_is_older(old):
    assert info(old).schema == 1
    with pytest.raises(StoreRefused, match=r"older courtly .its schema is 1.* `courtly db vacuum`"):
        check(old)
    vacuum(old)
    assert check(old) == []


def test_old_and_new_end_with_one_schema(old, tmp_path):
    schema.connect_writer(old).close()
    schema.connect_writer(tmp_path / "new.db").close()

    def tables(path):
        db = sqlite3.connect(path)
        rows = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2").fetchall()
        db.close()
        return rows

    assert tables(old) == tables(tmp_path / "new.db")


async def test_what_pages_share_is_kept_once_and_comes_back_as_it_was(old):
    """Every field may be missing or differ alone."""
    said = [
        (200, 1, 7, None), (200, 1, 7, 2), (200, None, 7, None), (404, 1, 7, None),
        (200, 1, 6, None), (200, None, 7, 2), (200, 2, 7, 1), (200, 1, 7, None),
    ]  # fmt: skip
    db = sqlite3.connect(old)
    db.create_function("fingerprint", 2, schema.fingerprint, deterministic=True)
    for script in schema.migrations()[1:7]:
        db.executescript(script)
    db.execute("INSERT INTO texts VALUES (2, 'ai=n')")
    for key, (status, kind, directives, usage) in enumerate(said, start=10):
        row = (key, status, key * 1000, kind, 5, key, f"T{key}", directives, 1, key, usage)
        db.execute(
            "INSERT INTO urls VALUES (?, 1, ?, 1, 0, 0, 0, NULL, 0, 1, NULL)", (key, f"/{key}")
        )
        db.execute("INSERT INTO known VALUES (1, ?, ?, 0)", (key, key))
        db.execute(f"INSERT INTO pages VALUES ({', '.join('?' * 11)})", row)
    db.execute("UPDATE origins SET visited = 9, body_bytes = 49")
    db.execute("UPDATE slots SET visited = 9, body_bytes = 49")
    db.execute("PRAGMA user_version = 7")
    db.commit()
    before = db.execute("SELECT * FROM visited ORDER BY id").fetchall()
    db.close()
    schema.connect_writer(old).close()
    db = sqlite3.connect(old)
    rows = db.execute("SELECT * FROM visited ORDER BY id").fetchall()
    assert [(*row[:-2], row[-1]) for row in rows] == before  # all but `cut`
    assert db.execute("SELECT count(*) FROM kinds").fetchone() == (8,)  # that of the home page, too
    db.close()
    assert len(before) == 9
    assert check(old) == []


def test_what_is_written_anew_is_not_held_in_memory(old, monkeypatch):
    """The journal of a dropped table is as large as the table, and VACUUM's copy as the file."""
    held = []

    def temp_store(db):
        return db.execute("PRAGMA temp_store").fetchone()[0]

    class Watched(schema.Connection):
        def execute(self, sql, *values):
            held.extend(
                (word, temp_store(self)) for word in ("DROP TABLE", "VACUUM") if word in sql
            )
            return super().execute(sql, *values)

    monkeypatch.setattr(schema, "Connection", Watched)
    vacuum(old)
    assert {what for what, _ in held} == {"DROP TABLE", "VACUUM"}
    assert all(store in (0, 1) for _, store in held), held  # the default, or a file
    db = schema.connect_writer(old)
    assert temp_store(db) == 2  # what a crawl sorts is small
    db.close()


def test_a_migration_that_fails_changes_nothing(old, monkeypatch):
    scripts = (*schema.migrations(), "CREATE TABLE more (id INTEGER);\nCREATE TABLE more (id);\n")
    monkeypatch.setattr(schema, "migrations", lambda: scripts)
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        schema.connect_writer(old)
    db = sqlite3.connect(old)
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert db.execute("SELECT elapsed_s FROM pages").fetchall() == [(0.0625,)]
    db.close()


if __name__ == "__main__":
    (schema.SCRIPTS / "schema.sql").write_text(whole(), encoding="utf-8")

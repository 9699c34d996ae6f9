"""Which databases are opened, brought up to date, or refused untouched."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from storage.sqlite import file_reader, file_store, schema
from storage.sqlite.maintenance import check, info, vacuum
from storage.store import StoreRefused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of the present schema."""
    path = tmp_path / "crawl.db"
    schema.connect_writer(path).close()
    return path


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version after the present one; the script of its migration, which adds a table."""
    monkeypatch.setattr(schema, "_check_shape", lambda *_: None)  # `schema.sql` is the present one
    scripts = tmp_path / "sql"
    scripts.mkdir()
    script = scripts / f"{schema.SCHEMA_VERSION + 1:04}.sql"
    script.write_text("CREATE TABLE more (id INTEGER) STRICT;\nINSERT INTO more VALUES (7);\n")
    monkeypatch.setattr(schema, "SCRIPTS", scripts)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    return script


def execute(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(sql).fetchall()


def version_of(path: Path) -> object:
    return execute(path, "PRAGMA user_version")[0][0]


def test_a_new_database_has_the_version_and_a_secret_of_its_own(path: Path, tmp_path: Path) -> None:
    assert version_of(path) == info(path).schema == schema.SCHEMA_VERSION
    assert execute(path, "PRAGMA application_id") == [(schema.APPLICATION_ID,)]
    other = tmp_path / "other.db"
    schema.connect_writer(other).close()
    (secret,) = execute(path, "SELECT bytes FROM secret")
    assert [secret] != execute(other, "SELECT bytes FROM secret")
    assert len(str(secret[0])) >= 16


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (99, rf"newer courtly .its schema is 99, this one knows {schema.SCHEMA_VERSION}."),
        (14, r"was made by a development version .* schema is 14.*: start a new database, or use"),
        (1, r"was made by a development version of courtly"),
    ],
)
def test_a_database_of_an_unknown_version_is_refused_untouched(
    path: Path, version: int, sentence: str
) -> None:
    execute(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match=sentence):
        asyncio.run(file_store(path, wall=lambda: 1.0).open_session("test"))
    with pytest.raises(StoreRefused, match=sentence):
        asyncio.run(file_reader(path).stats())
    for look in (info, check, vacuum):
        with pytest.raises(StoreRefused, match=sentence):
            look(path)
    assert path.read_bytes() == before
    assert not path.with_name("crawl.db.lock").exists()


def test_a_database_of_the_version_before_is_brought_up_to_date(
    path: Path, next_version: Path
) -> None:
    assert info(path).schema == schema.SCHEMA_VERSION - 1
    old = schema.SCHEMA_VERSION - 1
    with pytest.raises(StoreRefused, match=rf"older courtly .*is {old}.* `courtly db vacuum`"):
        check(path)
    vacuum(path)
    assert version_of(path) == schema.SCHEMA_VERSION
    assert execute(path, "SELECT id FROM more") == [(7,)]
    assert check(path) == []


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE slots ADD COLUMN more INTEGER",
        "ALTER TABLE slots DROP COLUMN unproven",
        "DROP INDEX urls_queue",
        "CREATE TABLE more (id INTEGER)",
        "DROP VIEW skipped; CREATE VIEW skipped AS SELECT reason, count + 1 AS count FROM skips",
        "DROP INDEX urls_queue; CREATE INDEX urls_queue ON urls (origin)",
    ],
)
@pytest.mark.parametrize(
    "act",
    [schema.connect_writer, schema.connect_reader, info, check, vacuum],
    ids=["writer", "reader", "info", "check", "vacuum"],
)
def test_a_database_of_another_commit_with_the_same_version_is_refused(
    path: Path, change: str, act: Callable[[Path], object]
) -> None:
    """No version says which of them made it, so none can bring it up to date, nor read it."""
    if "unproven" in change:
        execute(path, "DROP VIEW hosts")
    for statement in change.split("; "):
        execute(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match=r"another commit .*same number .*start a new database"):
        act(path)
    assert path.read_bytes() == before


def test_a_migration_that_fails_changes_nothing(path: Path, next_version: Path) -> None:
    next_version.write_text("CREATE TABLE more (id INTEGER);\nCREATE TABLE more (id);\n")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        schema.connect_writer(path)
    assert version_of(path) == schema.SCHEMA_VERSION - 1
    assert execute(path, "SELECT name FROM sqlite_schema WHERE name = 'more'") == []


def test_what_is_rewritten_is_not_held_in_memory(
    path: Path, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a dropped table is as large as the table, and the copy of VACUUM as the
    file."""
    held: list[int] = []

    def temp_store(db: sqlite3.Connection) -> int:
        return int(db.execute("PRAGMA temp_store").fetchone()[0])

    class Watched(schema.LockedConnection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            held.extend(
                (word, temp_store(self)) for word in ("CREATE TABLE", "VACUUM") if word in sql
            )
            return super().execute(sql, *values)

    monkeypatch.setattr(schema, "LockedConnection", Watched)
    vacuum(path)
    assert {what for what, _ in held} == {"CREATE TABLE", "VACUUM"}
    assert all(store in (0, 1) for _, store in held), held  # the default, or a file
    with closing(schema.connect_writer(path)) as db:
        assert temp_store(db) == 2  # what a crawl sorts is small

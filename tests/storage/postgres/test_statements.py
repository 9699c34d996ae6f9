"""The SQL of the PostgreSQL engine: complete, accepted by a server, and like that of SQLite in
what it returns."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from storage.columns import REPORTS, VIEWS
from storage.postgres.statements import statements
from storage.sqlite.schema import new_schema as sqlite_schema
from storage.sqlite.statements import statements as sqlite_statements
from tests.postgres_server import PostgresServer

from .conftest import NewWorker, read_script

FILLED = Path(__file__).with_name("filled.sql").read_text(encoding="utf-8")

# A file has one writer, which holds every lease, and numbers its rows itself; fingerprints are in a
# table of their own.
ONLY_SQLITE = {
    "distrust", "known_again", "leased", "new_crawl", "new_known", "newest_ids", "uptime",
    "void_leases",
}  # fmt: skip
# Statements for several workers.
ONLY_POSTGRES = {
    "blockers",
    "add_to_totals", "beat", "begin", "change_names", "correct_shift", "count_commit",
    "drop_orders", "enter", "enter_alone", "lease_addresses", "live_session", "lock_held",
    "lock_slots", "lock_urls",
    "newest_order", "next_origins", "next_slots", "next_texts", "next_turns", "next_urls",
    "orders_after", "others", "place_session", "publish", "pulse_state", "reap", "revive",
    "settle_return",
    "table_sizes", "transaction_id",
    "transaction_status", "void_some", "workers",
}  # fmt: skip


def test_both_engines_have_the_same_statements() -> None:
    ours, theirs = set(statements()), set(sqlite_statements())
    assert theirs - ours == ONLY_SQLITE
    assert ours - theirs == ONLY_POSTGRES
    assert list(statements("reports")) == list(sqlite_statements("reports"))
    assert set(statements("checks")) - set(sqlite_statements("checks")) == {"totals"}
    assert set(sqlite_statements("checks")) <= set(statements("checks"))


async def test_a_server_accepts_every_statement(new_worker: NewWorker) -> None:
    worker = await new_worker()
    for file in ("statements", "reports", "checks"):
        for name, sql in statements(file).items():
            try:
                await worker.db.prepare(sql)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{name} in {file}.sql: {error}")


async def test_text_is_ordered_by_its_bytes(new_worker: NewWorker) -> None:
    """In every column of text, whatever the locale of the server."""
    worker = await new_worker()
    columns = await worker.db.fetch(
        "SELECT attrelid::regclass::text, attname FROM pg_attribute"
        " JOIN pg_class ON pg_class.oid = attrelid"
        " WHERE relnamespace = current_schema()::regnamespace AND attcollation <> 0"
        """ AND attcollation <> '"C"'::regcollation"""
    )
    assert [tuple(column) for column in columns] == []


async def test_tables_have_no_padding(new_worker: NewWorker) -> None:
    """Columns of 8 bytes come first, then those of 4, 2 and 1, and at last text, which needs no
    alignment if it is short."""
    worker = await new_worker()
    rows = await worker.db.fetch(
        "SELECT attrelid::regclass::text AS name,"
        " array_agg(typalign::text ORDER BY attnum) AS types"
        " FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
        " JOIN pg_type ON pg_type.oid = atttypid"
        " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND attnum > 0"
        " AND typlen > 0 GROUP BY attrelid"
    )
    assert len(rows) > 20
    for name, types in rows:
        assert types == sorted(types, key="disc".index), name


# ---------------------------------------------------------------- the same rows in both engines


class Twins:
    """A database of each engine, with the same rows."""

    def __init__(self, ours: asyncpg.Connection[Any], theirs: sqlite3.Connection) -> None:
        self.ours = ours
        self.theirs = theirs

    async def copy(self) -> None:
        """Replace what is in the tables of SQLite."""
        tables = self.theirs.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            columns = [row[1] for row in self.theirs.execute(f"PRAGMA table_info({table})")]
            found = await self.ours.fetch(
                f"SELECT * FROM {'skipped' if table == 'skips' else table}"
            )
            self.theirs.execute(f"DELETE FROM {table}")
            if not found:
                continue
            shared = [name for name in columns if name in dict(found[0])]
            places = ", ".join("?" * len(shared))
            self.theirs.executemany(
                f"INSERT INTO {table} ({', '.join(shared)}) VALUES ({places})",
                [[row[name] for name in shared] for row in found],
            )

    async def rows(self, sql: str, theirs: str | None = None) -> tuple[list[Any], list[Any]]:
        return (
            [tuple(row) for row in await self.ours.fetch(sql)],
            self.theirs.execute(theirs or sql).fetchall(),
        )


@pytest.fixture(scope="module")
def filled_url(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create_database()
    postgres.execute(read_script("schema") + FILLED.replace("SLOTS", "30"), url=url)
    yield url
    postgres.drop_database(url)


@pytest.fixture
async def twins(filled_url: str) -> AsyncIterator[Twins]:
    """What a test changes is undone at its end."""
    ours = await asyncpg.connect(filled_url)
    with closing(sqlite3.connect(":memory:")) as theirs:
        theirs.executescript(sqlite_schema())
        try:
            await ours.execute("BEGIN")
            twins = Twins(ours, theirs)
            await twins.copy()
            yield twins
        finally:
            await ours.close()


def _typed(rows: list[tuple[object, ...]]) -> list[Any]:
    """Numbers that are equal are the same; 1 and 1.0 are not."""
    return [[(type(value).__name__, value) for value in row] for row in rows]


async def test_views_and_reports(twins: Twins) -> None:
    """The same columns, values and types; of reports, in the same order as well."""
    for view in VIEWS:
        ours, theirs = await twins.rows(f"SELECT {', '.join(VIEWS[view])} FROM {view}")
        assert ours, view
        assert sorted(map(repr, _typed(ours))) == sorted(map(repr, _typed(theirs))), view
        names = await twins.ours.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass ORDER BY attnum",
            view,
        )
        info = twins.theirs.execute(f"PRAGMA table_info({view})").fetchall()
        assert [row[0] for row in names] == [row[1] for row in info], view
    for report in REPORTS:
        ours, theirs = await twins.rows(
            statements("reports")[report], sqlite_statements("reports")[report]
        )
        assert ours, report
        assert _typed(ours) == _typed(theirs), report


# Each breaks something that a check is to find.
DAMAGE = {
    "nothing": "SELECT 1",
    "states": "UPDATE urls SET state = (state + 1) % 4 WHERE state < 4 AND id % 9 = 0",
    "flags": "UPDATE urls SET flags = flags # 52 WHERE id % 7 = 0",
    "waiting": "UPDATE urls SET due_at = 1.0 WHERE id % 7 = 0",
    "urls": "DELETE FROM urls WHERE id % 7 = 0",
    "pages": "DELETE FROM pages WHERE id % 7 = 0",
    "origins": "DELETE FROM origins WHERE id % 7 = 0",
    "plans": "UPDATE plans SET slot = slot + 1, due_at = due_at + 1 WHERE id % 7 = 0",
    "known": "UPDATE urls SET hidden = NOT hidden WHERE id % 7 = 0",
    "fingerprints": "UPDATE urls SET fingerprint = NULL WHERE id % 7 = 0",
    "counters": "UPDATE origins SET queued = queued + 1, judged = judged + 1 WHERE id % 7 = 0",
    "hosts": "UPDATE slots SET failed = failed + 1, revisit_at = NULL WHERE id % 7 = 0",
}


async def test_checks(twins: Twins) -> None:
    """They find the same."""
    for damage, sql in DAMAGE.items():
        await twins.ours.execute("SAVEPOINT sound")
        await twins.ours.execute(sql)
        await twins.copy()
        found = {}
        for name, check in sqlite_statements("checks").items():
            ours, theirs = await twins.rows(statements("checks")[name], check)
            assert sorted(ours, key=repr) == sorted(theirs, key=repr), (damage, name)
            if name in ("recounted", "summed"):
                half = len(ours[0]) // 2
                found[name] = sum(row[1 : half + 1] != row[half + 1 :] for row in ours)
            else:
                found[name] = ours[0][0]
        assert any(found.values()) == (damage != "nothing"), (damage, found)
        await twins.ours.execute("ROLLBACK TO SAVEPOINT sound")


async def test_the_check_of_sums(twins: Twins) -> None:
    """It does not matter which session counted what."""
    sql = statements("checks")["totals"]
    assert await twins.ours.fetchval(sql) == 0
    for change in ("session = 99", "visited = visited + 1", "hosts = hosts - 1"):
        await twins.ours.execute("SAVEPOINT sound")
        await twins.ours.execute(f"UPDATE totals SET {change} WHERE session = 1")
        assert await twins.ours.fetchval(sql) == (change != "session = 99"), change
        await twins.ours.execute("ROLLBACK TO SAVEPOINT sound")


def test_sql_names_no_schema() -> None:
    """Everything is in the first schema of the search path."""
    texts = [read_script("schema"), read_script("settings")]
    for file in ("statements", "reports", "checks"):
        texts += statements(file).values()
    for text in texts:
        assert not re.search(r"\b(public|pg_temp)\.", re.sub(r"--.*", "", text)), text

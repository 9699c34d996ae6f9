"""A reader that pauses half-way (a pager, a slow pipe) keeps no transaction open."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial

import pytest

from storage.columns import REPORTS, VIEWS
from storage.engine.view_rows import _IDS_AT_ONCE, ROWS_AT_ONCE, ViewRows
from storage.sqlite import file_reader
from storage.sqlite.statements import SqliteStatements
from tests.storage.conftest import Rig, on_connection

COUNT = 2 * ROWS_AT_ONCE + 7
HOST = "a.test"
# What a query does per row it gives, in thousands of steps of SQLite's machine.
STEPS_PER_ROW_MAX = 1.0


def _all(sql, db):
    return db.execute(sql).fetchall()


async def filled(rig, count=COUNT):
    """Hosts, and URLs in every state, more than are read at once."""
    add = rig.store.add
    await add([rig.link(f"http://{HOST}/{n}") for n in range(4 * count)])
    await add([rig.link(f"http://h{n}.test/") for n in range(count)])
    await add([rig.link(f"http://{HOST}/s{n}.xml", sitemap=True) for n in range(count)])
    db = rig.store

    def fill(db):
        """Written past the store: a thousandth of the time."""
        db.execute("BEGIN")
        ids = [key for (key,) in db.execute("SELECT id FROM urls WHERE path GLOB '/[0-9]*'")]
        (origin,) = db.execute("SELECT id FROM origins WHERE hostname = 'a.test'").fetchone()
        db.execute("INSERT INTO texts VALUES (1000, 'ERROR: x')")
        db.execute("INSERT INTO kinds VALUES (1000, 404, NULL, 7, NULL, NULL)")
        db.execute("INSERT INTO kinds VALUES (1001, 200, NULL, 23, NULL, NULL)")
        db.execute(
            "INSERT INTO verdicts (id, reason, dialect, robots_url)"
            " VALUES (1000, 'robots', 'r', 'u')"
        )
        for n, key in enumerate(ids):
            if n % 4 == 0:
                kind = 1000 + (n % 16 > 0)
                db.execute("INSERT INTO pages VALUES (?, ?, 0, 9, 9, NULL, NULL, 5)", (key, kind))
                db.execute("UPDATE urls SET state = 1 WHERE id = ?", (key,))
                db.execute("INSERT INTO edges VALUES (?, ?, NULL, NULL)", (key, ids[0]))
                db.execute("INSERT INTO hrefs VALUES (?, 0, 'hhttp:', 'scheme')", (key,))
                db.execute("INSERT INTO pointers VALUES (?, 0, ?, 'x', NULL)", (key, key))
                db.execute("INSERT INTO hints VALUES (?, 1, NULL, NULL)", (key,))
            elif n % 4 == 1:
                db.execute("INSERT INTO blocks VALUES (?, ?, 1000, 1, 0.0, 0)", (origin, key))
                db.execute("UPDATE urls SET state = 2 WHERE id = ?", (key,))
            elif n % 4 == 2:
                db.execute("INSERT INTO failures VALUES (?, 1000, 1, 0.0)", (key,))
                db.execute("UPDATE urls SET state = 3 WHERE id = ?", (key,))
        db.execute(
            "INSERT INTO readings SELECT id, NULL, 200, 0, 0, 0, NULL FROM urls WHERE flags & 16"
        )
        db.execute("UPDATE urls SET state = 4 WHERE flags & 16")
        db.execute("INSERT INTO copies (origin, failures, truncated) SELECT id, 0, 0 FROM origins")
        db.execute(
            "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n LIMIT ?)"
            " INSERT INTO skips SELECT 'reason ' || n, n FROM n",
            (count,),
        )
        db.execute("COMMIT")

    await on_connection(db, fill)


@pytest.fixture
async def full(tmp_path):
    """The counters of its hosts are not kept: not for `care.check`."""
    rig = Rig("sqlite", tmp_path / "crawl.db")
    await rig.open()
    await filled(rig)
    yield rig
    await rig.store.close()


async def can_reset(rig):
    """Whether the write-ahead log can be emptied after a commit."""
    await rig.store.set_paused(True)
    pragma = "PRAGMA wal_checkpoint(TRUNCATE)"
    ((busy, _, _),) = await on_connection(rig.store, lambda db: db.execute(pragma).fetchall())
    size = rig.path.with_name(rig.path.name + "-wal").stat().st_size
    return not busy and size == 0


def iterators(reader):
    for view in VIEWS:
        yield view, reader.iterate(view)
        if view not in ("skipped", "hosts"):
            yield f"{view} of a host", reader.iterate(view, host=HOST)
    for kind in REPORTS:
        yield kind, reader.report(kind)


async def test_the_log_can_be_reset_while_a_reader_pauses(full):
    await on_connection(full.store, lambda db: db.execute("PRAGMA busy_timeout = 0").fetchall())
    async with file_reader(full.path) as reader:
        for name, iterator in iterators(reader):
            async with aclosing(iterator) as rows:
                seen = 0
                async for _ in rows:
                    seen += 1
                    if seen in (1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1):
                        assert await can_reset(full), name
            assert name in ("robots of a host", "looked") or seen > ROWS_AT_ONCE, name


async def test_pages_give_what_one_query_gives(full):
    async with file_reader(full.path) as reader:
        for view, columns in VIEWS.items():
            order = {
                "hosts": "host", "robots": "origin", "skipped": "reason", "links": "id, target_id",
                "malformed": "id, place", "fragments": "id, place",
            }.get(view, "id")  # fmt: skip
            sql = f"SELECT {', '.join(columns)} FROM {view} ORDER BY {order}"
            expected = await on_connection(full.store, partial(_all, sql))
            assert len(expected) >= COUNT
            rows = [tuple(row.values()) async for row in reader.iterate(view)]
            assert rows == expected, view
            for limit in (0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1):
                rows = [tuple(row.values()) async for row in reader.iterate(view, limit=limit)]
                assert rows == expected[:limit], (view, limit)
            if view not in ("skipped", "hosts", "robots"):
                name = "url" if "url" in columns else "source"
                at = columns.index(name)
                mine = [row for row in expected if row[at].startswith(f"http://{HOST}/")]
                found = reader.iterate(view, host=HOST)
                assert [tuple(row.values()) async for row in found] == mine, view
                found = reader.iterate(view, host=HOST, limit=_IDS_AT_ONCE + 3)
                assert [tuple(r.values()) async for r in found] == mine[: _IDS_AT_ONCE + 3]


async def test_a_page_costs_the_same_wherever_it_begins(full):
    """Counted in steps of SQLite's machine: no page looks at what others have given."""

    def count(view, host, db):
        steps = [0]

        def step():
            steps[-1] += 1

        found = ViewRows(view, host)
        db.set_progress_handler(step, 1_000)
        while found.read(SqliteStatements(db), ROWS_AT_ONCE):
            steps.append(0)
        db.set_progress_handler(None, 0)
        return steps

    for view in VIEWS:
        for host in (None, HOST):
            if host and view in ("skipped", "hosts", "robots"):
                continue
            steps = await on_connection(full.store, partial(count, view, host))
            assert max(steps[1:]) <= ROWS_AT_ONCE * STEPS_PER_ROW_MAX, (view, host, steps)

"""The queries of docs/postgresql.md, and those of docs/database.md on a file, can be run as they
are."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path

import asyncpg
import pytest

from storage.sqlite import file_store
from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    HostClock,
    HostUpdate,
    Link,
    Outcome,
    Store,
    Visited,
)
from tests.storage.postgres.stores import store_at

DOCS = Path(__file__).parents[3] / "docs"


def queries(page: str) -> list[str]:
    """The statements of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [part.strip() for block in blocks for part in block.split(";") if part.strip()]


async def fill(store: Store) -> int:
    """A crawl with a row in each view that the queries read; returns its session."""
    session = await store.open_session("crawl")
    await store.add(
        [
            Link(url=f"http://a.test/{n}", slot="a.test", host="a.test", depth=0)
            for n in ("ok", "gone", "private", "later")
        ]
    )
    (lease,) = await store.claim(session, hosts=1, urls_per_host=4)
    ids = {queued.url.rpartition("/")[2]: queued.id for queued in lease.prefetched.urls}
    now_s = time.time()
    outcomes: list[Outcome] = [
        Visited(
            id=ids[name], slot="a.test", status=status, fetched_at=now_s, content_type="text/html",
            body_bytes=100, elapsed_s=0.1,
        )
        for name, status in (("ok", 200), ("gone", 404))
    ]  # fmt: skip
    outcomes.append(
        Blocked(
            id=ids["private"], slot="a.test", reason=BlockReason.ROBOTS, dialect="slurp",
            rule="Disallow: /private", line=2, robots_url="http://a.test/robots.txt",
            blocked_at=now_s,
        )
    )  # fmt: skip
    update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(contacts=4, breaches=1))
    await store.complete(session, Batch(outcomes=outcomes, hosts=[update]))
    return session


# Of these, nothing is found in a healthy database with one worker.
EMPTY = ("pg_blocking_pids",)
PRIVILEGES = ("CREATE ROLE", "GRANT")


async def test_those_about_postgresql(crawl_url: str) -> None:
    store = store_at(crawl_url)
    session = await fill(store)
    db = await asyncpg.connect(crawl_url)
    try:
        asked = [sql for sql in queries("postgresql.md") if not sql.startswith(PRIVILEGES)]
        assert len(asked) >= 8
        for sql in asked:
            found = await db.fetch(sql)
            assert found or any(name in sql for name in EMPTY), sql
    finally:
        await db.close()
        await store.close(session)


async def test_a_role_that_only_reads(crawl_url: str) -> None:
    store = store_at(crawl_url)
    session = await fill(store)
    create, grant = (sql for sql in queries("postgresql.md") if sql.startswith(PRIVILEGES))
    db = await asyncpg.connect(crawl_url)
    try:
        await db.execute(f"BEGIN; {create}; {grant}; SET LOCAL ROLE crawl_reader")
        assert await db.fetchval("SELECT count(*) FROM visited") == 2
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("DELETE FROM urls")
        await db.execute("ROLLBACK")
    finally:
        await db.close()
        await store.close(session)


async def test_those_about_files(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=time.time)
    session = await fill(store)
    await store.close(session)
    db = sqlite3.connect(path)
    try:
        asked = queries("database.md")
        assert len(asked) >= 4
        for sql in asked:
            assert db.execute(sql).fetchall(), sql
    finally:
        db.close()

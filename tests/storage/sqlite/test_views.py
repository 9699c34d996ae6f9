"""The views are the contract: plain SQL for anyone's sqlite3, columns as named."""

from __future__ import annotations

import sqlite3

import pytest

from policies.robots_state import RobotsState
from storage.columns import VIEWS
from storage.sqlite.schema import SCHEMA_VERSION
from storage.store import HostClock

# The documented columns. Others may be added behind them.
CONTRACT = {
    "visited": "url, status, fetched_at, content_type, body_bytes, elapsed_s, depth, referrer,"
    " redirect_url, title, indexable, followable, archivable",
    "blocked": "url, reason, dialect, rule, line, robots_url, blocked_at, withdrawn, anchor,"
    " referrer",
    "failed": "url, error, attempts, last_at",
    "queued": "url, priority, depth, due_at, attempts",
    "hosts": "host, queued, visited, blocked, failed, body_bytes, delay_s, delay_source, next_at,"
    " paused, backoff_until, contacts, smallest_rest_s, peak_concurrency, breaches",
    "robots": "origin, host, state, status, fetched_at, expires_at, retry_at, body_bytes",
    "skipped": "reason, count",
}


@pytest.fixture
def shell(sqlite_rig):
    """What a person at the sqlite3 shell sees, while the crawl goes on."""
    db = sqlite3.connect(f"{sqlite_rig.path.as_uri()}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    yield db
    db.close()


@pytest.mark.parametrize("view", CONTRACT)
async def test_columns(sqlite_rig, shell, view):
    await sqlite_rig.add("http://a.test/")
    columns = [row["name"] for row in shell.execute(f"PRAGMA table_info({view})")]
    wanted = CONTRACT[view].split(", ")
    assert columns[: len(wanted)] == wanted
    assert columns[: len(VIEWS[view])] == list(VIEWS[view])


async def test_views_while_a_crawl_writes(sqlite_rig, shell):
    rig = sqlite_rig
    await rig.add("http://a.test/", "http://a.test/x", "http://a.test/f", "http://a.test/later")
    await rig.store.robots_put(
        rig.session, "a.test", "http://a.test", RobotsState(status=200, body=b"x", fetched_at=1.5)
    )
    lease = await rig.claim_one()
    home, x, f, later = lease.prefetched.urls
    await rig.commit(
        lease, rig.visited(home, links=[rig.link("http://b.test/", depth=1, anchor="Bee")]),
        rig.blocked(x), rig.failed(f), rig.retry(later, 5.0),
        clock=HostClock(next_in_s=1.0, backoff_in_s=2.0, delay_s=1.0),
    )  # fmt: skip
    one = {
        view: [dict(row) for row in shell.execute(f"SELECT * FROM {view}")]
        for view in CONTRACT
        if view != "skipped"
    }
    assert [row["url"] for row in one["visited"]] == ["http://a.test/"]
    assert [row["url"] for row in one["blocked"]] == ["http://a.test/x"]
    assert [row["url"] for row in one["failed"]] == ["http://a.test/f"]
    assert {row["url"]: row["due_at"] for row in one["queued"]} == {
        "http://a.test/later": rig.wall_s + 5.0, "http://b.test/": 0.0,
    }  # fmt: skip
    host = next(row for row in one["hosts"] if row["host"] == "a.test")
    assert (host["next_at"], host["backoff_until"]) == (rig.wall_s + 1.0, rig.wall_s + 2.0)
    assert one["robots"][0]["state"] == "rules"
    # a page that leads to a blocked link, as a person would ask
    assert (
        shell.execute("SELECT count(*) FROM queued WHERE url LIKE 'http://b.test/%'").fetchone()[0]
        == 1
    )


async def test_times_are_real(sqlite_rig, shell):
    rig = sqlite_rig
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await rig.commit(
        lease, rig.visited(lease.prefetched.urls[0], fetched_at=5), clock=HostClock(next_in_s=1)
    )
    await rig.add("http://a.test/2")
    for view, column in (("visited", "fetched_at"), ("queued", "due_at"), ("hosts", "next_at")):
        assert shell.execute(f"SELECT typeof({column}) FROM {view}").fetchone()[0] == "real"


async def test_the_schema_is_strict_and_ours(sqlite_rig, shell):
    assert shell.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    assert shell.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert shell.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    tables = shell.execute("SELECT name, strict FROM pragma_table_list WHERE type = 'table'")
    assert [
        t["name"] for t in tables if not t["strict"] and not t["name"].startswith("sqlite_")
    ] == []

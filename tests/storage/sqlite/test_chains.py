"""Very many redirects to one URL: a commit does no more for them, and what becomes of that URL
reaches them in pieces. Work is counted in steps of SQLite's machine, not timed."""

from __future__ import annotations

import asyncio

import pytest

from storage.engine import chains
from storage.sqlite import file_reader
from storage.sqlite.maintenance import check
from storage.store import Blocked, BlockReason
from tests.storage.conftest import on_connection

MANY = 20_000
PIECE = 500
GOAL = "http://goal.test/"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(chains, "URLS_AT_ONCE", PIECE)


async def lead_to_goal(rig, count):
    """So many pages that redirect to one URL, written past the store."""
    await rig.add(GOAL, *(f"http://a.test/{n}" for n in range(count)))

    def fill(db):
        db.execute("BEGIN")
        (goal,) = db.execute("SELECT id FROM urls ORDER BY id LIMIT 1").fetchone()
        db.execute("INSERT INTO kinds VALUES (1000, 301, NULL, 7, NULL, NULL)")
        for sql in (
            "INSERT INTO pages SELECT id, 1000, 0, 1, 9, NULL, NULL, NULL FROM urls WHERE id <> ?",
            "INSERT INTO redirects SELECT id, ?1 FROM urls WHERE id <> ?1",
            "UPDATE urls SET state = 1 WHERE id <> ?",
        ):
            db.execute(sql, (goal,))
        for table in ("origins", "slots"):
            db.execute(
                f"UPDATE {table} SET visited = queued, queued = 0, body_bytes = queued"
                " WHERE name LIKE '%a.test'"
            )
        db.execute("COMMIT")

    await on_connection(rig.store, fill)
    rig.store._writer = None  # its counters are those of before
    await rig.crash()


async def steps_of(rig, work):
    """Thousands of steps taken, and the most in one transaction."""
    steps = [0]

    def step():
        steps[-1] += 1

    def began(sql):
        if sql.startswith("BEGIN"):
            steps.append(0)

    def watch(db):
        db.set_progress_handler(step, 100)
        db.set_trace_callback(began)

    def leave(db):
        db.set_progress_handler(None, 0)
        db.set_trace_callback(None)

    await on_connection(rig.store, watch)
    try:
        result = await work
    finally:
        await on_connection(rig.store, leave)
    return result, steps


def blocked(rig, lease, n=0):
    return Blocked(
        id=lease.prefetched.urls[n].id, slot=lease.slot, reason=BlockReason.ROBOTS,
        dialect="rfc9309", rule="Disallow: /", line=2, robots_url="http://goal.test/robots.txt",
        blocked_at=rig.wall_s,
    )  # fmt: skip


async def test_one_more_redirect_costs_the_same_whoever_leads_there(sqlite_rig, tmp_path):
    rig = sqlite_rig
    await lead_to_goal(rig, MANY)
    counts = []
    for n, goal in enumerate(("http://goal.test/lonely", GOAL)):
        await rig.add(f"http://b{n}.test/")
        (lease,) = [one for one in await rig.claim(9) if one.slot == f"b{n}.test"]
        page = rig.visited(lease.prefetched.urls[0], lease.slot, status=301, redirect_url=goal)
        _, steps = await steps_of(rig, rig.commit(lease, page))
        counts.append(sum(steps))
    lonely, many = counts
    assert many <= lonely + 20, counts
    assert check(rig.path) == []


async def test_blocking_and_freeing_a_goal_of_many_happens_in_pieces(sqlite_rig):
    rig = sqlite_rig
    count = 10 * PIECE + 7
    await lead_to_goal(rig, count)
    (lease,) = [one for one in await rig.claim(9) if one.slot == "goal.test"]
    block = blocked(rig, lease)

    _, steps = await steps_of(rig, rig.commit(lease, block))
    assert len(steps) > 10
    assert max(steps) < 3 * sum(steps) / 10  # none of them does a large part
    stats = await rig.store.stats()
    assert (stats.visited, stats.blocked, stats.queued) == (0, count + 1, 0)
    assert (
        await on_connection(rig.store, lambda db: db.execute("SELECT * FROM chains").fetchall())
        == []
    )

    freeing = rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[block.id])
    done, steps = await steps_of(rig, freeing)
    assert len(steps) > 10
    assert max(steps) < 3 * sum(steps) / 10
    assert done.added == {"goal.test": 1, "a.test": count}
    stats = await rig.store.stats()
    assert (stats.visited, stats.blocked, stats.queued) == (0, 0, count + 1)


async def test_others_get_in_between_and_a_crash_loses_none(sqlite_rig):
    rig = sqlite_rig
    count = 10 * PIECE
    await lead_to_goal(rig, count)
    (lease,) = [one for one in await rig.claim(9) if one.slot == "goal.test"]
    committing = asyncio.ensure_future(rig.commit(lease, blocked(rig, lease)))
    seen = set()
    while not committing.done():
        seen.add((await rig.store.stats()).blocked)
        if len(seen) > 3:
            committing.cancel()
            break
    with pytest.raises(asyncio.CancelledError):
        await committing
    assert 0 < (await rig.store.stats()).blocked < count
    await rig.crash()
    assert 0 < (await rig.store.stats()).blocked < count
    await rig.add("http://b.test/")
    (lease,) = [one for one in await rig.claim(9) if one.slot == "b.test"]
    await rig.commit(lease, rig.visited(lease.prefetched.urls[0], lease.slot))
    assert (await rig.store.stats()).blocked == count + 1


async def test_a_goal_freed_while_it_is_still_being_blocked(sqlite_rig):
    """What counts is what the goal is when a redirect's turn comes."""
    rig = sqlite_rig
    count = 6 * PIECE
    await lead_to_goal(rig, count)
    (lease,) = [one for one in await rig.claim(9) if one.slot == "goal.test"]
    block = blocked(rig, lease)
    committing = asyncio.ensure_future(rig.commit(lease, block))
    while (await rig.store.stats()).blocked < PIECE:
        pass
    freeing = rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[block.id])
    await asyncio.gather(committing, freeing)
    stats = await rig.store.stats()
    assert stats.blocked == 0
    assert stats.visited + stats.queued == count + 1


async def test_long_chains_are_followed_to_their_beginning(sqlite_rig):
    """Each hop is found behind the one before, over several transactions too."""
    rig = sqlite_rig
    hops = PIECE + 20
    await lead_to_goal(rig, hops)

    def chain(db):
        db.execute("UPDATE redirects SET target = id - 1")

    await on_connection(rig.store, chain)
    (lease,) = [one for one in await rig.claim(9) if one.slot == "goal.test"]
    block = blocked(rig, lease)
    await rig.commit(lease, block)
    assert (await rig.store.stats()).blocked == hops + 1
    async with file_reader(rig.path) as reader:
        row = await reader.url(f"http://a.test/{hops - 1}")
        assert row is not None
        assert (row["reason"], row["rule"], row["line"]) == ("redirect", "Disallow: /", 2)
    await rig.store.rejudge(rig.session, kept=[], withdrawn=[], freed=[block.id])
    assert (await rig.store.stats()).blocked == 0

"""What the statements promise to workers that meet: on real connections, which wait for each
other's locks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import asyncpg
import pytest

from .conftest import NewWorker, Worker

HOST = 1 * 256 + 7  # of the host and its origin
OTHER = 2 * 256 + 9
FREE_AT_S = 100.0


async def add_hosts(worker: Worker) -> None:
    """Two free hosts, each with an origin and a queued URL; and sessions 1 and 2."""
    for session in (1, 2):
        await worker.run("begin_session", session, f"worker {session}", 0.0)
    await worker.many("new_slots", [(HOST, "a.test"), (OTHER, "b.test")], FREE_AT_S, FREE_AT_S)
    await worker.many(
        "new_origins",
        [(HOST, "https://a.test", "a.test", HOST), (OTHER, "https://b.test", "b.test", OTHER)],
    )
    for key in (HOST, OTHER):
        await add_url(worker, key)


async def add_url(
    worker: Worker, host: int, *, number: int = 1, due_at: float | None = None
) -> None:
    key = number * 65536 + host
    rows = [(key, host, "/", 0, 0, 0.0, 0, None, None, key)]
    assert await worker.read_many("new_urls", rows) == [key]
    await worker.many("move_urls", [(key, 0, 0, due_at, 0)])
    await worker.many("count_slots", [(host, 1, 0, 0, 0, 0)])
    await worker.many("count_origins", [(host, 1, 0, 0, 0, 0, 0, 0)])
    await worker.many("wake_slots", [(host,)])


async def lease(worker: Worker, session: int, *hosts: int) -> None:
    await worker.many("lease", [(host, 1) for host in hosts], session)


async def blocked(worker: Worker, waiting: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start something that has to wait for a lock of `worker`; return when it does."""
    task = asyncio.create_task(waiting)
    async with asyncio.timeout(20):
        while not await worker.db.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            assert not task.done(), "it did not wait"
            await asyncio.sleep(0.01)
    return task


async def ready_at(worker: Worker, host: int = HOST) -> float | None:
    found = await worker.db.fetchval("SELECT ready_at FROM slots WHERE id = $1", host)
    return None if found is None else float(found)


# ---------------------------------------------------------------- names


async def test_one_of_two_workers_inserts_a_name(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    async with one.db.transaction():
        await one.many("new_slots", [(HOST, "a.test"), (512, "z.test")], 0.0, 0.0)
        await one.many("new_texts", [(1, "text"), (2, "x" * 100_000)])
        task = await blocked(one, two.many("new_slots", [(OTHER, "a.test")], 0.0, 0.0))
    await task
    await two.many("new_texts", [(3, "text"), (4, "x" * 100_000)])
    assert await two.read("slot_ids", ["a.test"]) == [["a.test", HOST]]
    found = await two.read("text_ids", ["text", "x" * 100_000, "another"])
    assert sorted(key for _, key in found) == [1, 2]
    values = (200, 7, None, 1, None)
    assert await one.row("new_kind", *values) == await two.row("kind_id", *values)
    assert await two.row("new_kind", *values) is None
    for rule in (None, "Disallow: /" + "x" * 10_000):  # longer than an index entry
        verdict = ("https://a.test/robots.txt", "robots", "rfc9309", rule, None, None)
        assert await two.row("verdict_id", *verdict) is None
        assert await one.row("new_verdict", *verdict) == await two.row("verdict_id", *verdict)
        assert await two.row("new_verdict", *verdict) is None


async def test_a_url_belongs_to_the_worker_that_was_first(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()

    def row(key: int, fingerprint: int, *, state: int = 0) -> tuple[object, ...]:
        return key, HOST, "/", state, 0, 0.0, 0, None, None, fingerprint

    async with one.db.transaction():
        rows = [row(11, 5), row(12, 4, state=4)]
        assert sorted(await one.read_many("new_urls", rows)) == [11, 12]
        mine = [row(21, 4), row(22, 6), row(23, 5, state=4)]
        task = await blocked(one, two.read_many("new_urls", mine))
    assert await task == [22]
    found = await two.read_many("known_ids", [(n, HOST, 4 + n) for n in range(3)])
    assert sorted(found) == [[0, -12, 0], [1, 11, 0], [2, 22, 0]]


async def test_numbers_are_given_out_once(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    for name in ("next_urls", "next_slots", "next_origins", "next_texts"):
        async with one.db.transaction():
            some = await one.read(name, 100)
            others = await two.read(name, 100)
        assert len({*some, *others}) == 200
        assert min(some) == 1


async def test_an_origin_joins_one_host(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    await one.many("new_origins", [(HOST, "https://a.test", "a.test", None)])
    async with one.db.transaction():
        await one.many("home_origins", [(HOST, 1)])
        task = await blocked(one, two.many("home_origins", [(HOST, 2)]))
    await task
    assert await two.read("origin_ids", ["https://a.test"]) == [["https://a.test", HOST, 1, None]]


async def test_a_body_is_kept_for_whoever_is_about_to_refer_to_it(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    (body,) = await one.row("new_body", b"hash", 4, b"packed", "a.test", 6) or ()
    async with one.db.transaction():
        assert await one.row("body_id", b"hash") == (body,)
        await two.many("drop_bodies", [(body,)])  # does not wait, either
        copy = [None] * 7 + [0, None, None, None, 0]
        await one.run("put_copy", HOST, None, body, *copy)
    await two.many("drop_bodies", [(body,)])
    assert await two.row("body_id", b"hash") == (body,)
    await one.run("put_copy", HOST, None, None, *copy)
    await two.many("drop_bodies", [(body,)])
    assert await two.row("body_id", b"hash") is None
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await one.run("put_copy", HOST, None, body, *copy)


# ---------------------------------------------------------------- leases


async def test_workers_claim_different_hosts(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    await add_hosts(one)
    async with one.db.transaction():
        mine = await one.read("claimable", FREE_AT_S, 1)
        async with two.db.transaction():
            others = await two.read("claimable", FREE_AT_S, 2)  # without waiting
            await lease(two, 2, *others)
        await lease(one, 1, *mine)
    assert sorted(mine + others) == [HOST, OTHER]
    assert [key for key, *_ in await one.read("held", 1)] == mine
    assert [key for key, *_ in await one.read("held", 2)] == others


async def test_a_host_that_was_leased_meanwhile_is_not_leased_again(
    new_worker: NewWorker,
) -> None:
    one, two = await new_worker(), await new_worker()
    await add_hosts(one)
    wanted = [OTHER, HOST], 65
    async with one.db.transaction():
        found = await one.read("leases", *wanted)
        assert sorted(row[0] for row in found) == [HOST, OTHER]
        task = await blocked(one, two.read("leases", *wanted))
        await lease(one, 1, HOST)
    assert [row[0] for row in await task] == [OTHER]
    await lease(two, 2, HOST)
    assert await two.read("held", 2) == []


async def test_a_commit_needs_the_lease(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    await add_hosts(one)
    await lease(one, 1, HOST, OTHER)
    rows = [(HOST, 1), (OTHER, 1)]
    assert sorted(await one.read_many("lock_held", rows, 1)) == [HOST, OTHER]
    assert await one.read_many("lock_held", rows, 2) == []
    assert await one.read_many("lock_held", [(HOST, 2)], 1) == []
    async with two.db.transaction():  # it takes the hosts while the commit waits
        assert await two.run("reap", 1, 0) == 1
        assert await two.read("void_some", 1, 100) == [HOST, OTHER]
        task = await blocked(two, one.read_many("lock_held", rows, 1))
    assert await task == []


async def test_a_session_that_is_not_renewed_is_ended_once(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    await add_hosts(one)
    assert await one.run("beat", 1, True, False, 1, 2, 3, 4.0, 5, 15.0, "[]", 0.0) == 1
    assert await two.read("others", 2) == [[1, 1, 15.0, 1, 0]]
    assert await two.run("reap", 1, 0) == 0  # renewed since
    assert await two.run("reap", 1, 1) == 1
    assert await two.run("reap", 1, 1) == 0
    # So it learns of it.
    assert await one.run("beat", 1, False, True, 1, 2, 3, 4.0, 5, 15.0, "[]", 0.0) == 0
    assert await two.read("others", 2) == []
    assert await one.run("revive", 1) == 1
    assert await one.run("beat", 1, False, True, 1, 2, 3, 4.0, 5, 15.0, "[]", 0.0) == 1
    assert await two.read("others", 2) == [[1, 3, 15.0, 0, 1]]
    assert await two.run("reap", 1, 1) == 0


async def test_no_host_stays_leased_by_a_session_that_ended(new_worker: NewWorker) -> None:
    """A session that is ended while it leases hosts: they are found, or not leased at all."""
    one, two = await new_worker(), await new_worker()
    await add_hosts(one)
    async with one.db.transaction():
        await lease(one, 1, HOST)
        await two.run(
            "beat", 1, False, False, 1, 2, 3, 4.0, 5, 15.0, "[]", 0.0
        )  # a renewal does not wait for it
        task = await blocked(one, two.run("reap", 1, 1))
    assert await task == 1
    await lease(one, 1, OTHER)
    await lease(two, 2, OTHER)
    assert await two.read("void_some", 1, 100) == [HOST]
    assert await two.read("void_some", 1, 100) == []
    assert await one.read("held", 1) == []
    assert await one.read("void_some", 2, 100) == []  # that one lives
    assert [key for key, *_ in await two.read("held", 2)] == [OTHER]


async def test_hosts_of_an_ended_session_are_freed_some_at_a_time(new_worker: NewWorker) -> None:
    one = await new_worker()
    await add_hosts(one)
    await lease(one, 1, HOST, OTHER)
    await one.run("end_session", 5.0, 1)
    freed = []
    while some := await one.read("void_some", 1, 1):
        assert len(some) == 1
        await one.many("settle_slots", [(key, False) for key in some])
        freed += some
    assert freed == [HOST, OTHER]
    rows = await one.read("leases", freed, 65)
    assert [row[-1][2] for row in rows] == [0, 0]  # not clean: they rest first


async def test_a_host_is_ready_for_what_another_worker_found_meanwhile(
    new_worker: NewWorker,
) -> None:
    """Two orders of releasing a host and of adding a URL to it."""
    one, two = await new_worker(), await new_worker()
    await add_hosts(one)
    await one.db.execute("UPDATE urls SET due_at = 5000.0")  # nothing else can move
    await lease(one, 1, HOST, OTHER)
    async with two.db.transaction():
        await add_url(two, HOST, number=2)
        task = await blocked(two, one.read_many("lock_held", [(HOST, 1)], 1))
    await task
    await one.many("settle_slots", [(HOST, True)])
    assert await ready_at(one) == FREE_AT_S
    async with one.db.transaction():
        await one.read_many("lock_held", [(OTHER, 1)], 1)
        await one.many("settle_slots", [(OTHER, True)])
        assert await ready_at(one, OTHER) == 5000.0
        task = await blocked(one, add_url(two, OTHER, number=3))
    await task
    assert await ready_at(one, OTHER) == FREE_AT_S


async def test_counters_of_several_workers_add_up(new_worker: NewWorker) -> None:
    """However they meet, also in opposite orders."""
    workers = [await new_worker() for _ in range(4)]
    await add_hosts(workers[0])

    async def count(worker: Worker, keys: list[int]) -> None:
        for _ in range(50):
            async with worker.db.transaction():
                await worker.many("count_slots", [(key, 1, 1, 0, 0, 5) for key in keys])
                await worker.many("count_origins", [(key, 1, 1, 0, 0, 5, 0, 1) for key in keys])
                await worker.run("add_to_totals", keys[0], 2, 2, 0, 0, 10, 0)

    orders = [[HOST, OTHER], [OTHER, HOST]] * 2
    await asyncio.gather(*(count(*pair) for pair in zip(workers, orders, strict=True)))
    for table in ("slots", "origins"):
        rows = await workers[0].db.fetch(f"SELECT queued, visited, body_bytes FROM {table}")
        assert [tuple(row) for row in rows] == [(201, 200, 1000)] * 2
    totals = await workers[0].row("totals")
    assert totals is not None
    assert totals[:6] == (400, 0, 0, 400, 0, 2000)


# ---------------------------------------------------------------- the crawl


async def test_one_worker_corrects_a_step_of_the_clock(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    assert await one.row("correct_shift", 3.0, 0) == (3.0, 1)
    assert await two.row("correct_shift", 3.0, 0) is None
    found = await two.row("begin", 1)
    assert found is not None
    assert found[1:4] == (3.0, 1, 0)


async def test_orders_arrive_once_and_in_order(new_worker: NewWorker) -> None:
    """Also those whose publishers meet: one that was committed later has the larger number."""
    one, two, three = await new_worker(), await new_worker(), await new_worker()
    (start,) = await three.row("newest_order") or ()
    async with one.db.transaction():
        await one.run("publish", 1, "first", json.dumps({"host": "a.test"}))
        task = await blocked(one, two.run("publish", 2, "second", "{}"))
        assert await three.read("orders_after", 3, start) == []
    await task
    found = await three.read("orders_after", 3, start)
    assert [row[1:] for row in found] == [["first", {"host": "a.test"}], ["second", {}]]
    assert await three.read("orders_after", 3, found[-1][0]) == []
    assert [row[1] for row in await one.read("orders_after", 1, start)] == ["second"]
    await one.db.execute("UPDATE orders SET at = at - 3700 WHERE verb = 'first'")
    assert await one.run("drop_orders") == 1
    assert await three.row("newest_order") == (found[-1][0],)


async def test_what_forgotten_sessions_counted_is_kept(new_worker: NewWorker) -> None:
    worker = await new_worker()
    for session in range(1, 6):
        await worker.run("begin_session", session, "worker", 0.0)
        await worker.run("add_to_totals", session, 1, 2, 3, 4, 5, 6)
        await worker.many("add_to_skips", [("scope", 10), (f"only {session}", 1)], session)
        if session != 2:
            await worker.run("end_session", 1.0, session)
    before = await worker.row("totals"), await worker.db.fetch("SELECT * FROM skipped")
    for _ in range(2):
        await worker.run("forget_sessions", 3)
        rows = await worker.db.fetch("SELECT id FROM sessions ORDER BY id")
        assert [row[0] for row in rows] == [2, 4, 5]  # one that lives is not forgotten
        rows = await worker.db.fetch("SELECT session FROM totals ORDER BY session")
        assert [row[0] for row in rows] == [0, 2, 4, 5]
        assert (
            await worker.row("totals"),
            await worker.db.fetch("SELECT * FROM skipped"),
        ) == before
    await worker.run("forget_sessions", 4)
    assert (await worker.row("totals"), await worker.db.fetch("SELECT * FROM skipped")) == before


async def test_redirects_that_wait_are_taken_by_one_worker(new_worker: NewWorker) -> None:
    one, two = await new_worker(), await new_worker()
    await one.many("put_chains", [(1, 10), (2, 20), (1, 30)])
    async with one.db.transaction():
        assert await one.read("some_chains", 1) == [[1, 30]]
        assert await two.read("some_chains", 5) == [[2, 20]]
        await one.many("drop_chains", [(1,)])
    await one.many("put_chains", [(2, 10)])  # begins earlier than what is waiting
    assert await two.read("some_chains", 5) == [[2, 10]]

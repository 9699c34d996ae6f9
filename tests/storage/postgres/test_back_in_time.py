"""A database that goes back in time under a worker: the worker forgets what it knows of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner

from crawler.cli import main
from crawler.explain.formatting import at
from storage.engine import commits
from storage.postgres import pulses
from storage.records import Batch, HostClock, HostUpdate, Pulse, WorkerStatus
from storage.store import Lease, Link, Store, StoreError, Visited
from tests.crawler.daemon.conftest import daemon_of
from tests.storage.postgres.stores import assert_sound, link, one, store_at

LEASE_S = 1.0
FORGOTTEN = 1_000


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulses, "GRACE_S", 0.2)


@asynccontextmanager
async def worker(url: str, name: str) -> AsyncIterator[tuple[Store, int]]:
    store = store_at(url, lease_s=LEASE_S)
    session = await store.open_session(name)
    try:
        yield store, session
    finally:
        await store.close(session)


async def execute(url: str, *statements: str) -> None:
    db = await asyncpg.connect(url)
    try:
        for sql in statements:
            await db.execute(sql)
    finally:
        await db.close()


async def pulse(store: Store, session: int) -> Pulse:
    """The next pulse that is answered."""
    for _ in range(100):
        if (answer := await store.pulse(session, WorkerStatus(hosts=1))) is not None:
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError("no pulse is answered")


async def settled(store: Store, session: int, losses: int = 0) -> int:
    """Renew until hosts may be leased again; return how many pulses reported a loss."""
    for _ in range(100):
        answer = await pulse(store, session)
        losses += answer.lost
        if losses and not answer.settling:
            return losses
        await asyncio.sleep(0.1)
    raise AssertionError("hosts cannot be leased")


async def claim_one(store: Store, session: int) -> Lease:
    (lease,) = await store.claim(session, hosts=1, urls_per_host=5)
    return lease


def visit(lease: Lease, *links: Link, release: bool = False) -> Batch:
    page = lease.prefetched.urls[0]
    outcome = Visited(
        id=page.id, slot=lease.slot, status=200, fetched_at=0.0, content_type="text/html",
        body_bytes=1, elapsed_s=0.1, links=links,
    )  # fmt: skip
    clock = HostClock(next_in_s=1.0, rested_s=0.0, delay_s=60.0, contacts=1)
    update = HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=clock, release=release)
    return Batch(outcomes=[outcome], hosts=[update])


EVIDENCE = {
    "renewals are missing": f"UPDATE sessions SET beat = beat - {FORGOTTEN}",
    "one commit is missing": "UPDATE totals SET commits = commits - 1",  # and no renewal is
    "the session is missing": "DELETE FROM sessions",
    "another worker found it": (
        "UPDATE crawl SET returns = returns + 1, distrusted = nextval('ticks')"
    ),
}


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("first", ["a transaction", "a renewal"])
async def test_a_worker_begins_anew(crawl_url: str, evidence: str, first: str) -> None:
    async with worker(crawl_url, "a") as (store, session):
        await store.add([link("http://a.test/", seed=True)])
        for _ in range(3):
            await pulse(store, session)
        held = await claim_one(store, session)
        numbers = await one(crawl_url, "SELECT last_value FROM url_numbers")
        # What was stored since then is gone: the seed, and what the worker knows to be there.
        await execute(
            crawl_url,
            "DELETE FROM urls", "DELETE FROM seeds",
            "UPDATE totals SET queued = 0", "UPDATE slots SET queued = 0, lease = NULL",
            "UPDATE origins SET queued = 0", EVIDENCE[evidence],
        )  # fmt: skip
        if first == "a transaction":
            done = await store.complete(session, visit(held, link("http://b.test/")))
            assert done.stale == {"a.test"}, "its page is no longer that of its id"
        assert await settled(store, session) == 1
        assert await one(crawl_url, "SELECT returns = settled AND returns = 1 FROM crawl")
        lease = await claim_one(store, session)
        assert (lease.slot, lease.clean) == ("a.test", False), "it is there again, and rests"
        if evidence != "another worker found it":  # who records it
            assert lease.prefetched.urls[0].id >> 8 > numbers + (1 << 31), "ids are given once"
        done = await store.complete(session, visit(lease, link("http://b.test/"), release=True))
        assert not done.stale
        assert await one(crawl_url, "SELECT count(*) FROM urls") == 2
        assert (await claim_one(store, session)).slot == "b.test"
    await assert_sound(crawl_url)


@pytest.mark.parametrize("trouble", ["another task", "a failure"])
async def test_seeds_are_added_again_whatever_comes_between(
    crawl_url: str, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker(crawl_url, "a") as (store, session):
        await store.add([link("http://a.test/", seed=True)])
        for _ in range(3):
            await pulse(store, session)
        await claim_one(store, session)
        await execute(
            crawl_url,
            "DELETE FROM urls", "DELETE FROM seeds",
            "UPDATE totals SET queued = 0", "UPDATE slots SET queued = 0, lease = NULL",
            "UPDATE origins SET queued = 0", EVIDENCE["one commit is missing"],
        )  # fmt: skip
        ends = asyncio.Event()
        add, fails = commits.insert, ["it cannot be written"]

        async def failing(*given: Any, **more: Any) -> Any:
            if fails:
                raise StoreError(fails.pop())
            return await add(*given, **more)

        await store.add([link("http://b.test/", seed=True)])  # finds what is missing
        if trouble == "another task":
            store._worker._start(ends.wait())  # type: ignore[union-attr]
        else:
            monkeypatch.setattr(commits, "insert", failing)
        assert await settled(store, session) == 1
        ends.set()
        for _ in range(3):
            await pulse(store, session)
            await asyncio.sleep(0.1)
        seeds = await one(crawl_url, "SELECT count(*) FROM seeds")
        assert seeds == 2
    await assert_sound(crawl_url)


async def test_a_return_is_shown_from_then_on(crawl_url: str, tmp_path: Path) -> None:
    """By a crawl that runs, and without one."""
    before_s = time.time()
    async with worker(crawl_url, "a") as (store, session):
        assert ((await store.stats()).returns, (await store.stats()).returned_at) == (0, None)
        await store.add([link("http://a.test/", seed=True)])
        for _ in range(3):
            await pulse(store, session)
        await execute(crawl_url, EVIDENCE["renewals are missing"])
        await settled(store, session)
        stats = await store.stats()
        assert stats.returns == 1
        assert stats.returned_at is not None
        await store.set_paused(True)  # nothing is to be requested below
        assert before_s - 1 <= stats.returned_at <= time.time() + 1
    words = f"the database went back in time at {at(stats.returned_at)}: what was stored last"
    printed = await asyncio.to_thread(CliRunner().invoke, main, ["status", "--db", crawl_url])
    assert words in printed.output
    options = ["status", "--json", "--db", crawl_url]
    printed = await asyncio.to_thread(CliRunner().invoke, main, options)
    found = json.loads(printed.output)
    expected = (1, stats.returned_at)
    assert (found["database_returns"], found["database_returned_at"]) == expected
    config = {"crawl": {"user_agent": "figures/1.0 (+https://figures.example/)"}}
    async with daemon_of(config, tmp_path, url=crawl_url) as daemon:
        status = (await daemon.client.get("/api/status")).body
        page = (await daemon.client.get("/")).body
        metrics = (await daemon.client.get("/metrics")).body
    assert (status["database_returns"], status["database_returned_at"]) == expected
    checks = {one["check"]: one for one in status["health"]["checks"]}
    assert checks["commits"]["state"] == "warning"
    assert "went back in time" in checks["commits"]["sentence"]
    assert f"T{words[1:]}" in page
    assert "courtly_database_returns_total 1.0" in metrics


async def test_nobody_leases_a_host_while_another_may_not_know(crawl_url: str) -> None:
    async with worker(crawl_url, "a") as (store, session):
        await store.add([link("http://a.test/", seed=True)])
        for _ in range(3):
            await pulse(store, session)
        await execute(crawl_url, EVIDENCE["renewals are missing"])
        assert await store.claim(session, hosts=1, urls_per_host=1) == []
        async with worker(crawl_url, "b") as (newcomer, other):
            assert await newcomer.claim(other, hosts=1, urls_per_host=1) == []
            assert await newcomer.acquire(other, ["a.test"]) == {}
        began_s = asyncio.get_running_loop().time()
        answer = await pulse(store, session)
        assert answer.lost
        await settled(store, session, losses=1)
        assert asyncio.get_running_loop().time() - began_s > LEASE_S / 2
        assert not (await claim_one(store, session)).clean


async def test_a_database_restored_between_two_runs_rests_in_full(crawl_url: str) -> None:
    """As from a dump of another server: no worker remembers anything."""
    async with worker(crawl_url, "a") as (store, session):
        await store.add([link("http://a.test/", seed=True)])
        lease = await claim_one(store, session)
        await store.complete(session, visit(lease, link("http://a.test/2"), release=True))
    await execute(crawl_url, "UPDATE crawl SET server = 'another/1/1/1'")
    async with worker(crawl_url, "b") as (store, session):
        assert await store.claim(session, hosts=1, urls_per_host=1) == []
        await settled(store, session, losses=1)
        assert not (await claim_one(store, session)).clean


async def test_a_restart_of_the_server_is_no_return(crawl_url: str) -> None:
    async with worker(crawl_url, "a") as (store, session):
        await store.add([link("http://a.test/")])
        await pulse(store, session)
        await execute(
            crawl_url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        assert not (await pulse(store, session)).lost
        assert (await claim_one(store, session)).clean
        assert await one(crawl_url, "SELECT returns FROM crawl") == 0

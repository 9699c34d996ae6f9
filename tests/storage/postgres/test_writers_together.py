"""Several workers write to the same hosts and URLs at the same time."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    HostClock,
    HostUpdate,
    Link,
    Moved,
    Outcome,
    Outlink,
    Plan,
    Queued,
    Retry,
    Visited,
)
from tests.storage.postgres.stores import assert_sound, link, one, store_at

HOSTS = [f"h{n}.test" for n in range(8)]
SECONDS = 4.0


class Web:
    """A small web, so that workers meet."""

    def __init__(self, number: int, *, moves: bool) -> None:
        self.random = random.Random(number)
        self.moves = moves

    def link(self) -> Link:
        rng = self.random
        query = f"?q={rng.randrange(30)}" if rng.random() < 0.1 else ""
        url = f"http://{rng.choice(HOSTS)}/{rng.randrange(300)}{query}"
        return link(url, depth=rng.randrange(4))

    def outcome(self, queued: Queued, slot: str) -> Outcome:
        rng, key = self.random, queued.id
        kind = rng.random()
        if kind < 0.7:
            links = [self.link() for _ in range(rng.randrange(6))]
            goal = links[0].url if links and kind < 0.1 else None
            plan = Plan(due_in_s=5.0, interval_s=9.0, checked_at=1.0, changed_at=1.0)
            return Visited(
                id=key, slot=slot, status=200 if goal is None else 301, fetched_at=1.0,
                content_type=f"text/{rng.randrange(4)}", body_bytes=10, elapsed_s=0.1, links=links,
                redirect_url=goal, outlinks=[Outlink(one.url, "a", None) for one in links],
                plan=plan if rng.random() < 0.3 else None,
            )  # fmt: skip
        if kind < 0.8:
            error = f"timeout: {rng.randrange(5)}"
            return Failed(id=key, slot=slot, error=error, attempts=1, last_at=1.0)
        if kind < 0.85:
            return Retry(id=key, slot=slot, due_in_s=0.3, attempts=1, refusals=0, error="reset: x")
        if kind < 0.9:
            return Dropped(id=key, slot=slot, reason="scope")
        if kind < 0.92 and self.moves:
            return Moved(id=key, slot=slot, to_slot=rng.choice(HOSTS))
        return Blocked(
            id=key, slot=slot, reason=BlockReason.ROBOTS, dialect="slurp",
            rule=f"Disallow: /{rng.randrange(3)}", line=3, robots_url=f"http://{slot}/robots.txt",
            blocked_at=1.0,
        )  # fmt: skip


async def work(number: int, url: str, *, moves: bool) -> int:
    """Return how many commits were made."""
    web, commits = Web(number, moves=moves), 0
    store = store_at(url)
    session = await store.open_session(f"worker {number}")
    until_s = time.monotonic() + SECONDS
    while time.monotonic() < until_s:
        leases = await store.claim(session, hosts=3, urls_per_host=6)
        if not leases:
            await store.add([web.link() for _ in range(20)])
        for lease in leases:
            outcomes = [web.outcome(queued, lease.slot) for queued in lease.prefetched.urls]
            update = HostUpdate(
                slot=lease.slot, epoch=lease.epoch, clock=HostClock(next_in_s=0.001), release=True
            )
            batch = Batch(outcomes=outcomes, hosts=[update], skipped={"depth": 1})
            assert not (await store.complete(session, batch)).stale
            commits += 1
        if web.random.random() < 0.05:
            await store.retry_failed(web.random.choice(HOSTS))
        if web.random.random() < 0.05:
            await store.rejudge_all(session)
    await store.close(session)
    return commits


@pytest.mark.parametrize("moves", [False, True])
async def test_what_they_store_is_sound(crawl_url: str, moves: bool) -> None:
    done = await asyncio.gather(*(work(n, crawl_url, moves=moves) for n in range(3)))
    assert min(done) > 5
    assert await one(crawl_url, "SELECT count FROM skipped WHERE reason = 'depth'") == sum(done)
    assert await one(crawl_url, "SELECT count(*) FROM slots WHERE lease IS NOT NULL") == 0
    await assert_sound(crawl_url)

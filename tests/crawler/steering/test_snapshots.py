"""The looks at a running crawl, and at the other workers of a shared one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from crawler.frontier.reasons import READY
from crawler.steering.live_state import HostState
from crawler.steering.summary import HOSTS_IN_SLICE, PAUSE_TIMES, Snapshots
from crawler.testing.jump_clock import JumpClock
from storage.store import Stats, Store, StoreError

LOOK_S = 0.001


class ManyHosts(list[Any]):
    """As permits: to be iterated over."""

    in_flight = 0


async def test_a_look_at_the_others_that_fails_is_tried_again() -> None:
    failures = [KeyError("twice"), RuntimeError("once"), StoreError("not now")]

    async def workers() -> list[dict[str, object]]:
        if failures:
            raise failures.pop()
        return [{"id": 1, "in_flight": 5}, {"id": 2, "in_flight": 3}]

    async def no_stats() -> None:
        return None

    scheduler: Any = SimpleNamespace(crawl=SimpleNamespace(session=1))
    store: Any = SimpleNamespace(stats=no_stats)
    reader: Any = SimpleNamespace(workers=workers)
    async with JumpClock() as clock:
        snapshots = Snapshots(scheduler, store, clock, reader=reader)
        reporting = asyncio.ensure_future(snapshots.report(lambda _: None))
        await clock.sleep_until(clock.monotonic() + 60.0)
        assert not reporting.done()
        reporting.cancel()
    assert not failures
    assert snapshots._of_others("in_flight") == 3


class SlowClock(JumpClock):
    """Each look at the time takes some."""

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks * LOOK_S

    looks = 0


async def test_a_snapshot_of_many_hosts_lets_other_work_pass_and_takes_a_share_of_the_time() -> (
    None
):
    host = SimpleNamespace(
        slot="a.test", busy=0, paused=False, tickets=(), parked={}, prefetched=(), closed=()
    )
    frontier = SimpleNamespace(
        permits=ManyHosts([host] * 10 * HOSTS_IN_SLICE),
        waiting=SimpleNamespace(why=lambda _: (0.0, READY)),
        holds=SimpleNamespace(current=()),
    )
    scheduler: Any = SimpleNamespace(
        frontier=frontier,
        committer=SimpleNamespace(rates=SimpleNamespace(per_s=lambda _: (0.0,))),
        downloader=SimpleNamespace(urls=()),
    )
    counts = dict.fromkeys(("visited", "blocked", "failed", "queued", "body_bytes"), 0)
    passes = 0

    async def other_work() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async with SlowClock() as clock:
        snapshots = Snapshots(scheduler, cast("Store", None), clock)
        work = asyncio.ensure_future(other_work())
        progress = await snapshots.snapshot(cast("Stats", SimpleNamespace(**counts)))
        work.cancel()
    assert progress.hosts_by_state == {HostState.IDLE: 10 * HOSTS_IN_SLICE}
    assert passes >= 10
    assert snapshots._pause_s >= PAUSE_TIMES * 10 * LOOK_S * 0.99

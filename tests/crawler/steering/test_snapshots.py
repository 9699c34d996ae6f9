"""The looks at the other workers of a shared crawl."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from crawler.steering.summary import Snapshots
from crawler.testing.jump_clock import JumpClock
from storage.store import StoreError


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

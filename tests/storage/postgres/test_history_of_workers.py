"""The history of several workers: each writes its own minutes, and they fold together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from storage.engine import history_table
from storage.history import HOUR_S, MINUTES_KEPT_S, HistoryCounts
from storage.postgres import server_reader
from tests.storage.conftest import server_location
from tests.storage.postgres.stores import store_at

WORKERS = 4


@asynccontextmanager
async def written(
    url: str, minutes: Sequence[HistoryCounts]
) -> AsyncIterator[Callable[[int], Awaitable[Sequence[HistoryCounts]]]]:
    """Workers that have written these minutes, each as its own. What is yielded has all of them
    write nothing so many times, at the same time, and returns what is then in the history."""
    stores = [store_at(url) for _ in range(WORKERS)]
    sessions = [await store.open_session("worker") for store in stores]

    async def put(number: int, times: int, counts: Sequence[HistoryCounts] = ()) -> None:
        for _ in range(times):
            await stores[number].put_history(sessions[number], counts, [])

    async def work(times: int) -> Sequence[HistoryCounts]:
        await asyncio.gather(*(put(number, times) for number in range(WORKERS)))
        async with server_reader(server_location(url)) as reader:
            return (await reader.history(from_s=0.0, to_s=time.time())).counts

    for number, session in enumerate(sessions):
        await put(number, 1, [structs.replace(one, session=session) for one in minutes])
    yield work
    for store, session in zip(stores, sessions, strict=True):
        await store.close(session)


async def test_workers_that_merge_together_lose_nothing_and_count_nothing_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_table, "MERGED_AT_ONCE", 3)
    monkeypatch.setattr(history_table, "MERGED_AFTER_S", HOUR_S)
    old = int(time.time()) // 60 * 60 - HOUR_S + 120
    minutes = [HistoryCounts(at=old + 60 * n, session=0, counts={"success": 1}) for n in range(30)]
    async with written(postgres_url, minutes) as work:
        monkeypatch.setattr(history_table, "MERGED_AFTER_S", 0)
        found = await work(15)
    assert [one.counts["success"] for one in found] == [WORKERS] * 30


async def test_workers_that_fold_together_lose_nothing_and_count_nothing_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_table, "FOLDED_AT_ONCE", 9)
    old = (int(time.time()) - MINUTES_KEPT_S) // HOUR_S * HOUR_S - 3 * HOUR_S
    monkeypatch.setattr(history_table, "MINUTES_KEPT_S", 100 * MINUTES_KEPT_S)
    minutes = [
        HistoryCounts(
            at=old + 60 * n,
            session=0,
            observed_s=60.0,
            queued=n,
            counts={"success": 1},
            durations={"latency": {n % 5: 1}},
        )
        for n in range(120)
    ]
    async with written(postgres_url, minutes) as work:
        monkeypatch.setattr(history_table, "MINUTES_KEPT_S", MINUTES_KEPT_S)
        found = await work(40)
    assert {one.step_s for one in found} == {HOUR_S}
    assert {one.at for one in found} == {old, old + HOUR_S}
    assert sum(one.counts["success"] for one in found) == WORKERS * 120
    assert (
        sum(count for one in found for count in one.durations["latency"].values()) == WORKERS * 120
    )
    assert max(one.queued for one in found) == 119

"""The history of several workers: each writes its own minutes, and they fold together."""

from __future__ import annotations

import asyncio
import time

import pytest

from storage.engine import history_table
from storage.history import HOUR_S, MINUTES_KEPT_S, HistoryCounts
from storage.postgres import server_reader
from tests.storage.conftest import server_location
from tests.storage.postgres.stores import store_at

WORKERS = 4


async def test_workers_that_merge_together_lose_nothing_and_count_nothing_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_table, "MERGED_AT_ONCE", 3)
    monkeypatch.setattr(history_table, "MERGED_AFTER_S", HOUR_S)
    old = int(time.time()) // 60 * 60 - HOUR_S + 120
    stores = [store_at(postgres_url) for _ in range(WORKERS)]
    sessions = [await store.open_session("worker") for store in stores]
    for store, session in zip(stores, sessions, strict=True):
        minutes = [
            HistoryCounts(at=old + 60 * number, session=session, success=1) for number in range(30)
        ]
        await store.put_history(session, minutes, [])
    monkeypatch.setattr(history_table, "MERGED_AFTER_S", 0)

    async def merge(number: int) -> None:
        for _ in range(15):
            await stores[number].put_history(sessions[number], [], [])

    await asyncio.gather(*map(merge, range(WORKERS)))
    reader = server_reader(server_location(postgres_url))
    found = (await reader.history(from_s=old, to_s=old + HOUR_S)).counts
    assert [one.success for one in found] == [WORKERS] * 30
    await reader.close()
    for store, session in zip(stores, sessions, strict=True):
        await store.close(session)


async def test_workers_that_fold_together_lose_nothing_and_count_nothing_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_table, "FOLDED_AT_ONCE", 9)
    old = (int(time.time()) - MINUTES_KEPT_S) // HOUR_S * HOUR_S - 3 * HOUR_S
    stores = [store_at(postgres_url) for _ in range(WORKERS)]
    sessions = [await store.open_session("worker") for store in stores]
    monkeypatch.setattr(history_table, "MINUTES_KEPT_S", 100 * MINUTES_KEPT_S)
    for store, session in zip(stores, sessions, strict=True):
        minutes = [
            HistoryCounts(
                at=old + 60 * number, session=session, observed_s=60.0, success=1, queued=number,
                latency={number % 5: 1},
            )
            for number in range(120)
        ]  # fmt: skip
        await store.put_history(session, minutes, [])
    monkeypatch.setattr(history_table, "MINUTES_KEPT_S", MINUTES_KEPT_S)

    async def fold(number: int) -> None:
        for _ in range(40):
            await stores[number].put_history(sessions[number], [], [])

    await asyncio.gather(*map(fold, range(WORKERS)))
    reader = server_reader(server_location(postgres_url))
    found = (await reader.history(from_s=old, to_s=old + 4 * HOUR_S)).counts
    assert {one.step_s for one in found} == {HOUR_S}
    assert {one.at for one in found} == {old, old + HOUR_S}
    assert sum(one.success for one in found) == WORKERS * 120
    assert sum(count for one in found for count in one.latency.values()) == WORKERS * 120
    assert max(one.queued for one in found) == 119
    await reader.close()
    for store, session in zip(stores, sessions, strict=True):
        await store.close(session)

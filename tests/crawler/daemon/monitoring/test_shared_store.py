"""The workers and the tables of a shared database, as they are shown while it answers, and while
it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from crawler.daemon.monitoring import shared_store
from crawler.daemon.monitoring.shared_store import SharedStore
from storage.reader import Reader
from storage.store import Row, Store, StoreError, StoreTelemetry
from tests.crawler.daemon.conftest import Hand


def row(number: int, **values: object) -> Row:
    fixed = {
        "id": number, "name": "crawl", "host": "m1", "pid": 10 + number, "began_at": 5.0,
        "seen_s": 0.5, "idle": False, "hosts": 3, "in_flight": 1, "pages": 7, "pages_per_s": 1.5,
        "uncommitted": 2,
    }  # fmt: skip
    return fixed | values


class Rows:
    """A store and its reader."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = [row(4), row(5)]
        self.reads = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.broken = False

    async def workers(self) -> Sequence[Row]:
        self.reads += 1
        await self.answers.wait()
        if self.broken:
            raise StoreError("the database cannot be used")
        return self.rows

    async def table_sizes(self) -> Sequence[Row]:
        return [{"table": "urls", "bytes": await self._read(), "rows": 1, "dead_rows": 0}]

    async def _read(self) -> int:
        self.reads += 1
        return self.reads

    def telemetry(self) -> StoreTelemetry:
        return StoreTelemetry(renewals=3)


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def shared(rows: Rows, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> SharedStore:
    monkeypatch.setattr(shared_store, "ANSWER_S", 0.05)
    given: Any = rows
    return SharedStore(cast("Store", given), cast("Reader", given), 5, cast("Any", hand))


async def test_workers_are_read_once_a_second(shared: SharedStore, rows: Rows, hand: Hand) -> None:
    first = await shared.workers()
    assert [(one.id, one.here) for one in first] == [(4, False), (5, True)]
    assert first[0].seen_s == 0.5
    rows.rows = [row(5)]
    hand.advance(0.5)
    assert [one.id for one in await shared.workers()] == [4, 5]
    hand.advance(0.6)
    assert [one.id for one in await shared.workers()] == [5]
    assert rows.reads == 2


async def test_a_silent_database_delays_nobody(shared: SharedStore, rows: Rows, hand: Hand) -> None:
    await shared.workers()
    rows.answers.clear()
    for _ in range(3):
        hand.advance(10)
        found = await shared.workers()
    assert found[0].seen_s == 30.5, "the time since the last renewal that is known"
    assert rows.reads == 2, "one read waits, and no other is begun"
    rows.rows = [row(6)]
    rows.answers.set()
    await asyncio.sleep(0)
    hand.advance(10)
    assert [one.id for one in await shared.workers()] == [6]
    await shared.close()


async def test_a_database_that_fails_is_read_again(
    shared: SharedStore, rows: Rows, hand: Hand
) -> None:
    rows.broken = True
    assert await shared.workers() == ()
    rows.broken = False
    hand.advance(2)
    assert len(await shared.workers()) == 2


async def test_closing_ends_a_read(shared: SharedStore, rows: Rows) -> None:
    rows.answers.clear()
    await shared.workers()
    async with asyncio.timeout(1):
        await shared.close()


async def test_tables_are_measured_once_a_minute(
    shared: SharedStore, rows: Rows, hand: Hand
) -> None:
    measures = await shared.measures()
    assert measures.telemetry.renewals == 3
    hand.advance(59)
    assert (await shared.measures()).tables == measures.tables
    hand.advance(2)
    assert (await shared.measures()).tables != measures.tables
    assert rows.reads == 2

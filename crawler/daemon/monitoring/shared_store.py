"""What a database that several workers share shows beside the crawl: the workers, and the sizes of
its tables."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct, structs

from crawler.clock import Clock
from crawler.daemon.responses import Worker, from_row
from storage.reader import Reader
from storage.store import Row, Store, StoreError, StoreTelemetry

WORKERS_KEPT_S: Final = 1.0  # as often as they report
TABLES_KEPT_S: Final = 60.0
ANSWER_S: Final = 1.0  # to wait for the database; then the latest rows are the answer


class StoreMeasures(Struct, frozen=True, kw_only=True):
    """What /metrics has of a shared store, beside its workers. tables: see `Reader.table_sizes`."""

    telemetry: StoreTelemetry
    tables: Sequence[Row]


class SharedStore:
    """session: that of the worker in this process. Nothing here raises, or takes long, while the
    database does not answer: what was read last is returned."""

    def __init__(self, store: Store, reader: Reader, session: int, clock: Clock) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._workers = _KeptRows(reader.workers, clock, WORKERS_KEPT_S)
        self._tables = _KeptRows(reader.table_sizes, clock, TABLES_KEPT_S)

    async def workers(self) -> tuple[Worker, ...]:
        """The live workers, by their number."""
        rows = await self._workers.get()
        age_s = self._clock.monotonic() - self._workers.read_s
        found = (from_row(Worker, row, here=row["id"] == self._session) for row in rows)
        return tuple(structs.replace(one, seen_s=max(0.0, one.seen_s) + age_s) for one in found)

    async def measures(self) -> StoreMeasures:
        return StoreMeasures(telemetry=self._store.telemetry(), tables=await self._tables.get())

    async def close(self) -> None:
        """Stop reading; to be called before the reader is closed."""
        await self._workers.close()
        await self._tables.close()


class _KeptRows:
    """Rows that are read in a task, at most every `kept_s` seconds."""

    def __init__(
        self, read: Callable[[], Awaitable[Sequence[Row]]], clock: Clock, kept_s: float
    ) -> None:
        self._read = read
        self._clock = clock
        self._kept_s = kept_s
        self._rows: Sequence[Row] = ()
        self._task: asyncio.Task[None] | None = None
        self._tried_s = -math.inf
        self.read_s = clock.monotonic()  # when the rows were read

    async def get(self) -> Sequence[Row]:
        now_s = self._clock.monotonic()
        if self._task is None and now_s - self._tried_s >= self._kept_s:
            self._tried_s = now_s
            self._task = asyncio.create_task(self._update())
        if self._task is not None:
            await asyncio.wait([self._task], timeout=ANSWER_S)
        return self._rows

    async def _update(self) -> None:
        try:
            rows = await self._read()
            self._rows, self.read_s = rows, self._clock.monotonic()
        except StoreError:
            pass  # the crawl meets and reports the same failure
        finally:
            self._task = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

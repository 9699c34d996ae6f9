"""The monitoring of a crawl, put together. A plain crawl has it from its start, so it is light."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final

from crawler.clock import Clock
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.daemon.monitoring.event_stream import EventStream
from crawler.daemon.monitoring.health_monitor import HealthMonitor
from crawler.daemon.monitoring.history_recorder import HistoryRecorder
from crawler.daemon.monitoring.metrics import Metrics
from crawler.daemon.monitoring.recent_contacts import RecentContacts
from crawler.daemon.monitoring.recent_log import RecentLog
from crawler.daemon.monitoring.series import FINE_STEP_S, Sample, Series
from crawler.daemon.responses import others_in
from crawler.observer import Observer
from crawler.periodic import PeriodicSteps
from crawler.steering.control import Control
from crawler.steering.queue_waits import QueueWait, queue_waits
from storage.reader import Reader
from storage.store import StoreError

if TYPE_CHECKING:
    from crawler.daemon.monitoring.event_log import EventLog
    from crawler.daemon.monitoring.shared_store import SharedStore, StoreMeasures
    from crawler.daemon.responses import Status

KEPT_S: Final = 7.0  # longer than from one sample of the monitor to the next
_AFTER_S: Final = 0.01  # for timers that fire early by the wall clock
KEPT_FACTOR: Final = 20.0  # the query takes at most this part of the time: it reads all hosts


class Monitor:
    """Metrics, plots, recent contacts and the event stream of one crawl.

    `observers` belong to the crawl; `sampling` is open while it runs. `log`: commands are logged
    there, and its lost lines are counted. `recent_log` has its latest lines; none without a log.
    """

    def __init__(self, clock: Clock, log: EventLog | None = None) -> None:
        self.clock = clock
        self.metrics = Metrics()
        self.health = HealthMonitor(clock, self.metrics)
        self.recent = RecentContacts(clock)
        self.recent_log = RecentLog() if log is None else log.recent
        self.log_name = "" if log is None else log.file.name  # of its file
        self.series = Series()
        self.access = AccessLog(clock, log, self.metrics.refused_requests)
        self.history = HistoryRecorder(clock, self.metrics)
        self.stream = EventStream(clock, log, self.history)
        self._log = log

    @property
    def observers(self) -> tuple[Observer, ...]:
        return (self.stream, self.metrics, self.health, self.recent, self.history)

    @contextlib.asynccontextmanager
    async def sampling(
        self,
        control: Control,
        queue: QueueView | None = None,
        shared: SharedStore | None = None,
    ) -> AsyncIterator[None]:
        """Sample the plots and record the history while this is open; close the event stream at the
        end. queue: for the health. shared: add what the other workers of its database do."""
        async with self.history.recording(control), asyncio.TaskGroup() as group:
            task = group.create_task(self._sample_forever(control, queue, shared))
            try:
                yield
            finally:
                self.stream.close()
                self.access.flush()
                task.cancel()

    async def _sample_forever(
        self, control: Control, queue: QueueView | None, shared: SharedStore | None
    ) -> None:
        samples = PeriodicSteps("a sample of the crawl")
        while True:
            await samples.take(partial(self._sample, control, queue, shared))
            # Just after multiples of a step of the wall clock: soon after each minute begins.
            pause_s = FINE_STEP_S - self.clock.wall() % FINE_STEP_S
            await self.clock.sleep_until(self.clock.monotonic() + pause_s + _AFTER_S)

    async def _sample(
        self, control: Control, queue: QueueView | None, shared: SharedStore | None
    ) -> None:
        self.history.sample()
        at_s, now, stats = self.clock.wall(), control.status(), await control.stats()
        self.history.queued = stats.queued
        if self._log is not None:
            self.metrics.log_lines_lost.of[()] = self._log.file.lost
        await self.health.sample(control.config, now.uncommitted)
        workers = () if shared is None else await shared.workers()
        waits = None if queue is None else await queue.waits(FINE_STEP_S / 2)
        self.history.judged(self.health.judged(now, stats, workers, waits))
        others = others_in(workers)
        self.series.add(
            at_s,
            Sample(
                pages_per_s=now.pages_per_s + sum(one.pages_per_s for one in others),
                bytes_per_s=now.bytes_per_s,
                queued=stats.queued,
                memory_bytes=math.nan if now.memory_bytes is None else now.memory_bytes,
                in_flight=now.in_flight + sum(one.in_flight for one in others),
            ),
        )

    def exposition(self, status: Status, measures: StoreMeasures | None = None) -> bytes:
        """The body of GET /metrics."""
        from crawler.daemon.monitoring.exposition import render  # imports prometheus_client

        if self._log is not None:
            self.metrics.log_lines_lost.of[()] = self._log.file.lost
        return render(self.metrics, status, measures)


class QueueView:
    """What holds the queue of one crawl, as it was at `at` (Unix seconds)."""

    def __init__(self, control: Control, reader: Reader, clock: Clock) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._kept: tuple[QueueWait, ...] = ()
        self._began_s = -math.inf
        self._took_s = 0.0
        self._state: object = None
        self._lock = asyncio.Lock()
        self.at: float | None = None

    async def waits(self, kept_s: float = KEPT_S) -> tuple[QueueWait, ...]:
        """The reasons, the one with the most URLs first, as of `kept_s` ago at most. While the
        database cannot be read, as they were before."""
        async with self._lock:
            began_s = self._clock.monotonic()
            kept_s = max(kept_s, KEPT_FACTOR * self._took_s)
            if began_s < self._began_s + kept_s and self._state is self._control.state:
                return self._kept
            now_s = self._clock.wall()
            try:
                rows = await self._reader.queue_waits(now_s)
            except StoreError:
                return self._kept
            self._state = self._control.state
            self._kept = queue_waits(
                rows,
                self._control.live_waits(),
                overall=self._control.overall_reason,
                pages_per_s=self._control.pages_per_s,
                now_s=now_s,
            )
            self.at = now_s
            self._began_s, self._took_s = began_s, self._clock.monotonic() - began_s
            return self._kept

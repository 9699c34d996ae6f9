"""All that watches a crawl for those who ask, from its start: a plain crawl has it, too, so it is
light."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from crawler.clock import Clock
from crawler.daemon.watching.metrics import Measured, Metrics
from crawler.daemon.watching.recent import Recent
from crawler.daemon.watching.series import FINE_STEP_S, Sample, Series
from crawler.daemon.watching.stream import Stream
from crawler.observer import Observer
from crawler.steering.control import Control

if TYPE_CHECKING:
    from crawler.daemon import shapes
    from crawler.daemon.watching.log import LogFile


class Watch(Struct, frozen=True):
    """`observers` belong to the crawl, `sample_for_ever` into a task of the daemon's, `rendered`
    is the body of an answer to GET /metrics (`crawler.daemon.watching.exposition.CONTENT_TYPE`)."""

    metrics: Metrics = field(default_factory=Metrics)
    recent: Recent = field(default_factory=Recent)
    series: Series = field(default_factory=Series)
    log: LogFile | None = None  # whose lost lines are counted

    @property
    def observers(self) -> tuple[Observer, ...]:
        return (self.metrics, self.recent)

    async def sample_for_ever(self, control: Control, clock: Clock) -> None:
        """One sample for the plots every FINE_STEP_S, until cancelled."""
        next_s = clock.monotonic()
        while True:
            await self._sample(control, clock.wall())
            # Behind by more than a step (a machine that slept): none is made up for.
            next_s = max(next_s + FINE_STEP_S, clock.monotonic())
            await clock.sleep_until(next_s)

    async def _sample(self, control: Control, at_s: float) -> None:
        now, stats = control.status(), await control.stats()
        self.series.add(
            at_s,
            Sample(
                pages_per_s=now.pages_per_s,
                bytes_per_s=now.bytes_per_s,
                queued=stats.queued,
                memory_bytes=math.nan if now.memory_bytes is None else now.memory_bytes,
                in_flight=now.in_flight,
            ),
        )

    def rendered(self, status: shapes.Status) -> bytes:
        from crawler.daemon.watching.exposition import render  # brings prometheus_client

        if self.log is not None:
            self.metrics.log_lines_lost.of[()] = self.log.lost
        return render(
            self.metrics,
            Measured(
                state=status["state"],
                urls={
                    "queued": status["queued"],
                    "visited": status["visited"],
                    "blocked": status["blocked"],
                    "failed": status["failed"],
                },
                hosts=status["hosts"],
                hosts_held=status["hosts_by_state"],
                in_flight=status["in_flight"],
                memory_bytes=status["memory_bytes"],
                uptime_s=status["uptime_s"],
                held=frozenset(each["reason"] for each in status["held"]),
            ),
        )


class Watchers:
    """All that watches a crawl; `observers` are to be the crawl's, `noted` as in `Stream`, `log` as
    in `Watch`."""

    def __init__(
        self,
        clock: Clock,
        *,
        noted: Callable[[Mapping[str, object]], None] | None = None,
        log: LogFile | None = None,
    ) -> None:
        self.clock = clock
        self.stream = Stream(clock, noted=noted)
        self.watch = Watch(log=log)

    @property
    def observers(self) -> tuple[Observer, ...]:
        return (self.stream, *self.watch.observers)

    @contextlib.asynccontextmanager
    async def sampling(self, control: Control) -> AsyncIterator[None]:
        """Samples for the plots are taken meanwhile."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.watch.sample_for_ever(control, self.clock))
            try:
                yield
            finally:
                self.stream.close()
                task.cancel()

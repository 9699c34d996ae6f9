"""All that watches a crawl for the page and for /metrics, put together once by the daemon."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from crawler.clock import Clock
from crawler.daemon import shapes
from crawler.daemon.metrics import Measured, Metrics
from crawler.daemon.recent import Recent
from crawler.daemon.series import FINE_STEP_S, Sample, Series
from crawler.observer import Observer


@dataclass(frozen=True, slots=True)
class Watch:
    """`observers` belong to the crawl, `sample_for_ever` into a task of the daemon's, `rendered`
    is the body of an answer to GET /metrics (`crawler.daemon.exposition.CONTENT_TYPE`)."""

    metrics: Metrics = field(default_factory=Metrics)
    recent: Recent = field(default_factory=Recent)
    series: Series = field(default_factory=Series)

    @property
    def observers(self) -> tuple[Observer, ...]:
        return (self.metrics, self.recent)

    async def sample_for_ever(
        self, status: Callable[[], Awaitable[shapes.Status]], clock: Clock
    ) -> None:
        """One sample for the plots every FINE_STEP_S, until cancelled."""
        next_s = clock.monotonic()
        while True:
            self.sample(clock.wall(), await status())
            # Behind by more than a step (a machine that slept): none is made up for.
            next_s = max(next_s + FINE_STEP_S, clock.monotonic())
            await clock.sleep_until(next_s)

    def sample(self, at_s: float, status: shapes.Status) -> None:
        memory_bytes = status["memory_bytes"]
        self.series.add(
            at_s,
            Sample(
                pages_per_s=status["pages_per_s"],
                bytes_per_s=status["bytes_per_s"],
                queued=status["queued"],
                memory_bytes=math.nan if memory_bytes is None else memory_bytes,
                in_flight=status["in_flight"],
            ),
        )

    def rendered(self, status: shapes.Status) -> bytes:
        from crawler.daemon.exposition import render  # brings prometheus_client

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
            ),
        )

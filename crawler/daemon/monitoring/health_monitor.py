"""Gathers what the health of a crawl is judged by, and judges it."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crawler.clock import Clock
from crawler.config import Config
from crawler.daemon.health import Counts, Health, HealthEvidence, Space, dated, judge
from crawler.daemon.monitoring.metrics import Metrics
from crawler.daemon.notify import Notify
from crawler.observer import Observer
from crawler.periodic import PeriodicSteps
from crawler.steering.control import Control
from crawler.steering.live_state import Activity
from crawler.steering.queue_waits import QueueWait
from crawler.threads import in_thread
from storage.location import FileLocation
from storage.store import StoreError

if TYPE_CHECKING:
    from crawler.daemon.responses import Worker
    from storage.store import Stats

WINDOW_S: Final = 300.0  # by which the health of a crawl is judged
STEP_S: Final = 5.0
SAMPLES_MAX: Final = 62  # a window of them, and the one before it


class HealthMonitor(Observer):
    """The health of one crawl. `metrics` counts what happens in it.

    undelivered: why notifications do not reach the webhook (`HealthEvidence.undelivered`).
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._counts = RecentCounts()
        self._spaces: Sequence[Space] = ()
        self._committed_s = clock.monotonic()
        self._waiting_s: float | None = None  # since when outcomes wait to be committed
        self._health: Health | None = None
        self._queue: Sequence[QueueWait] = ()
        self.undelivered: str | None = None

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._committed_s = self._clock.monotonic()

    async def sample(self, config: Config, uncommitted: int) -> None:
        """Take a sample of the counts, and look at the disks. Every few seconds."""
        self._counts.add(self._clock.monotonic(), self._metrics.counts())
        self._note(uncommitted)
        folders = _folders(config)
        self._spaces = await in_thread(lambda: _spaces(folders)) if folders else ()

    def _note(self, uncommitted: int) -> None:
        if not uncommitted:
            self._waiting_s = None
        elif self._waiting_s is None:
            self._waiting_s = self._clock.monotonic()

    def uncommitted_s(self) -> float:
        """Return how long outcomes have waited for a commit."""
        if self._waiting_s is None:
            return 0.0
        return self._clock.monotonic() - max(self._waiting_s, self._committed_s)

    def judged(
        self,
        now: Activity,
        stats: Stats,
        workers: Sequence[Worker] = (),
        queue: Sequence[QueueWait] | None = None,
    ) -> Health:
        """The health at this moment. queue: what holds the queue; None: as it was the last time."""
        if queue is not None:
            self._queue = queue
        self._note(now.uncommitted)
        counts = self._metrics.counts()
        found = judge(
            HealthEvidence(
                state=now.state,
                held=now.held,
                recent=self._counts.last(counts, now_s=self._clock.monotonic()),
                run=counts,
                failed=stats.failed,
                ended=stats.visited + stats.blocked + stats.failed,
                queued=stats.queued,
                known_hosts=sum(wait.visited_hosts for wait in self._queue),
                gone_hosts=sum(wait.gone_hosts for wait in self._queue),
                uncommitted_s=self.uncommitted_s(),
                spaces=self._spaces,
                log_lines_lost=int(self._metrics.log_lines_lost.of[()]),
                silent=[f"{one.id} ({one.name})" for one in workers if one.silent],
                workers=len(workers),
                returned_ago_s=(
                    None if stats.returned_at is None else self._clock.wall() - stats.returned_at
                ),
                undelivered=self.undelivered,
            )
        )
        self._health = dated(found, self._health, self._clock.wall())
        return self._health


def _folders(config: Config) -> list[Path]:
    """The directories that the crawl writes to."""
    files = [sink.path for sink in config.sinks]
    if isinstance(config.storage.location, FileLocation):
        files.append(config.storage.location.path)
    if config.daemon.log is not None:
        files.append(config.daemon.log)
    return sorted({file.absolute().parent for file in files})


def _spaces(folders: Sequence[Path]) -> list[Space]:
    """One for each file system; folders that cannot be examined are left out."""
    found: dict[int, Space] = {}
    for folder in folders:
        try:
            usage, device = shutil.disk_usage(folder), folder.stat().st_dev
        except OSError:
            continue
        space = Space(folder=folder, free_bytes=usage.free, total_bytes=usage.total)
        found.setdefault(device, space)
    return list(found.values())


class RecentCounts:
    """Samples of the counts of one run. Add one every STEP_S; times are of the monotonic clock."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Counts]] = deque(maxlen=SAMPLES_MAX)

    def add(self, at_s: float, counts: Counts) -> None:
        self._samples.append((at_s, counts))

    def last(self, counts: Counts, *, now_s: float, span_s: float = WINDOW_S) -> Counts:
        """Return what was counted in the last `span_s` seconds, within a step; of a shorter run,
        all of it. counts: as they are now."""
        before = Counts()
        for at_s, sample in self._samples:
            if at_s > now_s - span_s:
                break
            before = sample
        return counts.since(before)


class LivenessReporter(Observer):
    """Reports to the service manager while the crawl is healthy."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed_s = clock.monotonic()
        self._waiting_s: float | None = None  # since when outcomes wait to be committed

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._committed_s = self._clock.monotonic()

    async def is_healthy(self, control: Control, within_s: float) -> bool:
        """Return False if the store does not answer within that time, or has committed none of the
        outcomes waiting for that long. A crawl on hold waits on purpose."""
        if control.held:
            return True
        try:
            async with asyncio.timeout(within_s):
                await control.stats()
        except (TimeoutError, StoreError):
            return False
        now_s = self._clock.monotonic()
        if not control.status().uncommitted:
            self._waiting_s = None
            return True
        if self._waiting_s is None:
            self._waiting_s = now_s
        return now_s - max(self._waiting_s, self._committed_s) < within_s

    async def report(self, control: Control, notify: Notify, every_s: float) -> None:
        """Send keep-alives while the crawl is healthy, three in each interval of `every_s`."""
        looks = PeriodicSteps("the look at whether this process is alive")
        while True:
            if await looks.take(partial(self.is_healthy, control, every_s / 2)):
                notify.alive()
            await self._clock.sleep_until(self._clock.monotonic() + every_s / 3)

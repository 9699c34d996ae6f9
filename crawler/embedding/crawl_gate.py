"""The gate of a running crawl: callers fetch on the crawl's own clocks and robots.txt copies."""

from __future__ import annotations

import asyncio
from typing import Final

from crawler.config import Config
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_lines import HostLine
from crawler.embedding.caller_waits import WaitLimit
from crawler.errors import CourtlyError, SessionClosed
from crawler.frontier.host_queue import Permit
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from crawler.scheduling.scheduler import Scheduler
from crawler.sinks.dispatch import in_page_function
from storage.store import Glance

LINES_KEPT_MAX: Final = 1_024  # beyond it, those that no caller uses are forgotten


class CrawlGate(CallerGate):
    """Serves callers with the frontier of a running crawl. Hosts that the crawl does not hold are
    leased, and remain held like any other host of the crawl: they are released when others need the
    room. The crawl continues until its callers have their responses.

    At a host with URLs of the crawl, callers and the crawl take turns.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        crawl = scheduler.crawl
        super().__init__(
            scheduler.frontier,
            scheduler.downloader,
            scheduler.tasks,
            crawl.clock,
            observer=crawl.observer,
        )
        self._scheduler = scheduler
        self._lines: dict[str, HostLine] = {}  # of the hosts that callers use, or used

    @property
    def config(self) -> Config:
        return self._scheduler.crawl.config.config

    def _check_open(self) -> None:
        if not self._scheduler.under_way:
            raise SessionClosed("the crawl is ending, and sends no more requests")

    def _get(self, slot: str) -> HostLine | None:
        return self._lines.get(slot)

    async def _use(self, slot: str) -> HostLine:
        self.frontier.callers += 1
        try:
            await self._scheduler.begun.wait()
            self._check_open()
            began_s = self.clock.monotonic()
            while (line := await self._hold(slot)) is None:
                self.waits.report_held_elsewhere(slot, began_s)
                await self.clock.sleep_until(self.clock.monotonic() + ELSEWHERE_AGAIN_S)
                self._check_open()
        except BaseException:
            self._one_less()
            raise
        line.users += 1
        line.host.callers += 1
        return line

    async def _hold(self, slot: str) -> HostLine | None:
        leases = self._scheduler.leases
        if (host := self.frontier.permits.get(slot)) is None:
            if leases.room <= 0:
                leases.make_room()
            if leases.is_leaving(slot) and in_page_function():
                raise CourtlyError(
                    f"{slot} is being released with a commit that waits for this page function: "
                    "request it in a task that the function does not wait for"
                )
            held = self._tasks.spawn(leases.hold(slot))  # no caller's cancellation cuts it in two
            await asyncio.wait([held])
            self._check_open()
            host = held.result()
        if host is None or host.gone:
            return None
        line = self._lines.get(slot)
        if line is None or line.host is not host:
            line = self._lines[slot] = HostLine(host)
        return line

    async def _glance(self, slot: str) -> Glance | None:
        await self._scheduler.begun.wait()
        self._check_open()
        crawl, away = self._scheduler.crawl, self._scheduler.leases.clock_away(slot)
        if away is not None:
            return Glance(clock=away)
        return await crawl.store.glance(crawl.session, slot)

    def _leave(self, line: HostLine) -> None:
        super()._leave(line)
        line.host.callers -= 1
        if not line.users and len(self._lines) > LINES_KEPT_MAX:
            self._lines = {slot: line for slot, line in self._lines.items() if _in_use(line)}
        self._one_less()

    def _one_less(self) -> None:
        self.frontier.callers -= 1
        if not self.frontier.callers:
            self.frontier.look_for_work()  # it may be the end

    async def enter(self, url: str, limit: WaitLimit | None = None) -> Permit:
        permit = await super().enter(url, limit)
        permit.host.yields = True
        return permit

    def close(self) -> None:
        """The crawl ends: refuse all who wait. Requests in flight are completed."""
        self._call_all(list(self._lines.values()))


def _in_use(line: HostLine) -> bool:
    return bool(line.users or line.host.busy)


def gate_of(scheduler: Scheduler) -> CrawlGate:
    """The gate of this crawl; there is one."""
    gate = scheduler.callers
    if not isinstance(gate, CrawlGate):
        gate = scheduler.callers = CrawlGate(scheduler)
    return gate

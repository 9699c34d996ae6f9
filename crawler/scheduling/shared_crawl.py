"""One of several workers that share a crawl: renews its session, and learns of the others."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from crawler.clock import Clock
from crawler.downloading.downloader import Downloader
from crawler.frontier.commands import RejudgeMarked
from crawler.frontier.frontier import Frontier
from crawler.operator_commands import InvalidOrderError, OrderedCommand, decode
from crawler.periodic import PeriodicSteps
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.scheduling.fair_share import OtherWorkers
from crawler.scheduling.host_leases import HostLeases
from crawler.scheduling.host_supply import HostSupply
from crawler.scheduling.steering import Steering
from crawler.scheduling.task_set import TaskSet
from policies.holds import HoldReason
from storage.records import WorkerHold
from storage.store import Order, Pulse, Store, WorkerStatus

MARKED_EVERY_S: Final = 60.0  # how often marked origins are looked for that another worker leased

_log = logging.getLogger("courtly.workers")
RENEW_EVERY_S: Final = 1.0


class SharedCrawl:
    """The part of a worker in a shared crawl: renews its session, and learns what others ask of it.
    Does nothing in a store that is not shared."""

    def __init__(
        self,
        crawl: CrawlContext,
        leases: HostLeases,
        supply: HostSupply,
        committer: Committer,
        downloader: Downloader,
        steering: Steering,
        tasks: TaskSet,
        others: OtherWorkers,
    ) -> None:
        self._crawl = crawl
        self._frontier = crawl.frontier
        self._leases = leases
        self._supply = supply
        self._committer = committer
        self._downloader = downloader
        self._steering = steering
        self._tasks = tasks
        self._others = others
        self._renewal = Renewal(crawl.frontier, crawl.store, crawl.session, crawl.clock)
        self._orders: deque[OrderedCommand] = deque()
        self._obeying = False
        self._marked_s = crawl.clock.monotonic() + MARKED_EVERY_S

    async def join(self) -> None:
        """Renew the session before the first host is claimed."""
        if self._others.shared:
            await self._renew()

    async def run(self) -> None:
        """Renew the session until cancelled. Raises StoreError."""
        if not self._others.shared:
            return
        renewals = PeriodicSteps("the renewal of this worker's session")
        while True:
            await self._renewal.sleep_until_due()
            await renewals.take(self._renew)
            if self._crawl.clock.monotonic() >= self._marked_s and not self._frontier.stopping:
                self._marked_s = self._crawl.clock.monotonic() + MARKED_EVERY_S
                self._frontier.commands.put(RejudgeMarked())

    def _status(self) -> WorkerStatus:
        supply, in_flight = self._supply, self._frontier.permits.in_flight
        pages_per_s, _ = self._committer.rates.per_s(self._crawl.clock.monotonic())
        return WorkerStatus(
            idle=supply.idle and not in_flight,
            sharing=supply.sharing,
            hosts=len(self._frontier.permits),
            in_flight=len(self._downloader.urls),
            pages=self._committer.rates.pages,
            pages_per_s=pages_per_s,
            uncommitted=self._frontier.buffer.uncommitted,
            held=[
                WorkerHold(reason=hold.reason.value, sentence=hold.sentence, since=hold.since)
                for hold in self._frontier.holds.current
            ],
        )

    async def _renew(self) -> None:
        pauses = self._steering.pauses_settled
        pulse = await self._renewal.renew(self._status())
        if pulse is None:
            return
        if pulse.lost:
            _log.warning("other workers have taken over the hosts of this one: it begins anew")
            self._leases.lost()
            self._steering.forget_links()
        self._learn(pulse)
        if pauses is not None and pauses == self._steering.pauses_settled:
            self._steering.follow_pause(paused=pulse.paused)
        self._take(pulse.orders)

    def _learn(self, pulse: Pulse) -> None:
        others = self._others
        changed = (others.active, others.sharing) != (pulse.others_active, pulse.others_sharing)
        others.active, others.sharing = pulse.others_active, pulse.others_sharing
        others.asked_s = self._renewal.asked_s
        self._leases.fair.learned(self._leases.sharing, self._crawl.clock.monotonic())
        if changed:
            self._supply.wake()

    # ------------------------------------------------------------ orders

    def _take(self, orders: Sequence[Order]) -> None:
        for order in orders:
            try:
                self._orders.append(decode(order))
            except InvalidOrderError as error:
                _log.warning("%s", error)
        if self._orders and not self._obeying and not self._frontier.stopping:
            self._obeying = True
            self._tasks.spawn(self._obey())
        if not self._orders and not self._obeying:
            self._frontier.informed_s = self._renewal.asked_s

    async def _obey(self) -> None:
        try:
            informed_s = self._renewal.asked_s
            while self._orders:
                await self._steering.obey(self._orders.popleft())
            self._frontier.informed_s = informed_s
        finally:
            self._obeying = False


class Renewal:
    """Renews the session of a crawl or of callers, and with it the deadline until which its
    frontier may contact hosts."""

    def __init__(self, frontier: Frontier, store: Store, session: int, clock: Clock) -> None:
        self._frontier = frontier
        self._store = store
        self._session = session
        self._clock = clock
        self.asked_s = clock.monotonic()  # when the latest pulse was asked for

    async def renew(self, status: WorkerStatus) -> Pulse | None:
        """One pulse; None: the database cannot be reached now. Raises StoreError."""
        self.asked_s = self._clock.monotonic()
        asked_boottime_s = self._clock.boottime()  # the lease counts from before the call
        permits = self._frontier.permits
        status = replace(status, addresses=permits.wanted_addresses())
        pulse = await self._store.pulse(self._session, status)
        if pulse is not None:
            self._frontier.renewed(asked_boottime_s + pulse.lease_s, lost=pulse.lost)
            permits.set_leased_addresses(pulse.addresses)
            if pulse.settling:
                self._frontier.holds.begin(HoldReason.DATABASE_WENT_BACK)
            else:
                self._frontier.holds.end(HoldReason.DATABASE_WENT_BACK)
        return pulse

    async def sleep_until_due(self) -> None:
        """Wait until the next pulse is due."""
        await self._clock.sleep_until(
            max(self.asked_s + RENEW_EVERY_S, self._clock.monotonic() + RENEW_EVERY_S / 4)
        )

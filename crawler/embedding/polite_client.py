"""The polite client, on which `PoliteSession` and the aiohttp middleware are built.

It drives the same frontier as a crawl. Its URLs come from callers, who wait in line for their
hosts, instead of from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self, assert_never

from crawler import threads
from crawler.clock import Clock
from crawler.config import Config
from crawler.config.model import CurrentConfig
from crawler.contact_deadline import ContactDeadline
from crawler.downloading.downloader import Downloader
from crawler.downloading.robots_fetcher import RobotsFetcher
from crawler.downloading.robots_parser import RobotsParser
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_lines import CallerLines, HostLine
from crawler.errors import (
    CourtlyError,
    SessionClosed,
)
from crawler.fetching.fetcher import Fetcher
from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.commands import (
    AddWorkers,
    BreakOff,
    Command,
    Commit,
    ConfigApplied,
    FailOrigin,
    FetchRobots,
    LookForWork,
    NextPass,
    ParseRobots,
    Rejudge,
    RejudgeMarked,
)
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import Permit
from crawler.frontier.origin import Origin
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from crawler.observer import Observer
from crawler.orders import InvalidOrderError, SteerHosts, decode
from crawler.periodic import PeriodicSteps
from crawler.processing.committer import Committer
from crawler.scheduling.command_loop import commands_of
from crawler.scheduling.renewal import Renewal
from crawler.scheduling.task_set import TaskSet
from policies.holds import FaultOwner
from storage.store import Glance, Store, StoreError, WorkerStatus


class PoliteClient(CallerGate):
    """Serves callers with a frontier of its own, whose hosts it leases from the store on demand. An
    async context manager."""

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        fetcher: Fetcher,
        deadline: ContactDeadline | None = None,
        observer: Observer | None = None,
    ) -> None:
        frontier = Frontier(
            CurrentConfig(config),
            clock,
            store,
            faults=FaultOwner.CALLER,
            observer=observer,
            deadline=deadline,
        )
        downloader = Downloader(frontier, fetcher, clock, observer=observer)
        super().__init__(frontier, downloader, TaskSet(frontier.commands), clock, observer)
        self._config = config
        self._shared = store.shared
        self._store = store
        self._session = session
        self._renewal = Renewal(self.frontier, store, session, clock)
        self._committer = Committer(self.frontier, store, session, clock, observer=observer)
        self._lines = CallerLines(
            self.frontier, self._committer, self._tasks, store, session, clock
        )
        self._robots = RobotsFetcher(
            self.frontier,
            self.downloader,
            RobotsParser(self.frontier, store),
            self._lines,
            store,
            session,
            clock,
        )
        self._background: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None  # the error that ended it
        self._closed = True
        threads.start()

    # ------------------------------------------------------------ opening and closing

    async def __aenter__(self) -> Self:
        self._closed = False
        if self._shared:
            await self._renew()
        self._background = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Fail waiting callers, cancel requests in flight, and commit the hosts' clocks."""
        background, self._background = self._background, None
        self._close()
        assert background is not None
        try:
            await self._tasks.cancel()
            if not background.done():
                self._lines.release_all()
                flush = asyncio.ensure_future(self._committer.flush())
                try:
                    await asyncio.wait({flush, background}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    flush.cancel()
        finally:
            background.cancel()
            await asyncio.gather(background, return_exceptions=True)
        if kind is None and self._broken is not None:
            raise self._broken

    async def _run(self) -> None:
        """Commit, and carry out the frontier's commands, until cancelled or broken."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._committer.run())
                if self._shared:
                    group.create_task(self._keep_renewed())
                commands = commands_of(self.frontier, self.clock, self._tasks)
                async with contextlib.aclosing(commands):
                    async for command in commands:
                        self._carry_out(command)
        except BaseExceptionGroup as problems:
            self._broken = problems.exceptions[0]
        finally:
            self._close()

    async def _keep_renewed(self) -> None:
        renewals = PeriodicSteps("the renewal of this session")
        while True:
            await self._renewal.rest()
            await renewals.take(self._renew)
            self._lines.release_unused()

    async def _renew(self) -> None:
        """It counts as idle: a crawl need not wait for its end. Of the orders, those about hosts
        concern it; whether the crawl is paused does not."""
        status = WorkerStatus(
            idle=True, hosts=len(self._lines), in_flight=len(self.downloader.urls)
        )
        pulse = await self._renewal.renew(status)
        for order in () if pulse is None else pulse.orders:
            with contextlib.suppress(InvalidOrderError):
                steer = decode(order)
                if isinstance(steer, SteerHosts):
                    self._obey(steer)

    def _obey(self, steer: SteerHosts) -> None:
        for slot in steer.slots:
            if (line := self._lines.get(slot)) is not None:
                line.host.steer(
                    paused=steer.paused, slow_s=steer.slow_s, clear_slow=steer.clear_slow
                )
                self.frontier.permits.consider(line.host)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Commit():
                self._committer.begin()
            case BreakOff():
                self.downloader.break_off()
            case FetchRobots(origin):
                self._tasks.spawn(self._fetch_robots(origin))
            case ParseRobots(origin):
                self._tasks.spawn(self._parse_robots(origin))
            case FailOrigin(host):
                self.gave_up(host.slot)
            case (
                LookForWork()
                | NextPass()
                | AddWorkers()
                | ConfigApplied()
                | Rejudge()
                | RejudgeMarked()
            ):
                pass  # there are no workers, and nothing is stored that could be judged again
            case _:
                assert_never(command)

    async def _fetch_robots(self, origin: Origin) -> None:
        self.settled(await self._robots.refresh(origin))

    async def _parse_robots(self, origin: Origin) -> None:
        await self._robots.parse(origin)
        self.settled([origin])

    def _close(self) -> None:
        self._closed = True
        self.frontier.close()
        self._call_all(self._lines)

    def _check_open(self) -> None:
        if isinstance(self._broken, StoreError):
            raise StoreError(str(self._broken)) from self._broken
        if self._broken is not None:
            raise SessionClosed("the session ended because of an internal error") from self._broken
        if self._closed:
            raise SessionClosed("the session is closed: use it inside its `async with` block")

    async def contact(self, permit: Permit, request: Request) -> Answer | Failure:
        result = await super().contact(permit, request)
        if isinstance(result, Failure):
            self._check_open()  # closing cuts the connection: that is no fault of the server
        return result

    # ------------------------------------------------------------ the hosts

    @property
    def config(self) -> Config:
        return self._config

    async def _glance(self, slot: str) -> Glance | None:
        return await self._store.glance(self._session, slot)

    def _get(self, slot: str) -> HostLine | None:
        return self._lines.get(slot)

    async def _use(self, slot: str) -> HostLine:
        self._check_open()
        began_s = self.clock.monotonic()
        while (line := self._lines.use(slot)) is None:
            held = await self._lines.hold(slot)
            self._check_open()
            if held is None and not self._shared:
                raise CourtlyError(f"the host {slot} is in use by another worker")
            if held is None:
                self.waits.report_held_elsewhere(slot, began_s)
                await self.clock.sleep_until(self.clock.monotonic() + ELSEWHERE_AGAIN_S)
        return line

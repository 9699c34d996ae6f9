"""The loop that contacts hosts for a crawl, and for a session of callers: host leases, robots.txt
and commits."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Protocol

from crawler.clock import Clock, Timer
from crawler.downloading.downloader import Downloader
from crawler.downloading.robots_fetcher import RobotsFetcher, SitemapFinder
from crawler.downloading.robots_parser import RobotsParser
from crawler.fetching.request import Fetcher
from crawler.frontier.commands import (
    NEXT_PASS,
    BreakOff,
    Command,
    Commit,
    FailOrigin,
    FetchRobots,
    NextPass,
    ParseRobots,
    WorkCommand,
)
from crawler.frontier.frontier import Frontier
from crawler.frontier.origin import Origin
from crawler.frontier.tickets import FrontierClosedError
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.scheduling.due_work import DueRobots
from crawler.scheduling.fair_share import OtherWorkers
from crawler.scheduling.host_leases import HostLeases
from crawler.scheduling.task_set import TaskSet
from policies.robots_state import RobotsState, is_due
from policies.url import host_of


class ContactLoop:
    """Carries out the frontier's commands that every contact with hosts needs. Those about the
    pages of a crawl are for its owner: the `Scheduler` of a crawl, which fetches pages, or a
    `CallerSession`, which fetches none.

    The owner iterates over `commands` and runs `committer`. sitemaps: finds the sitemaps that are
    queued with a robots.txt; None: none are.
    """

    def __init__(
        self,
        crawl: CrawlContext,
        fetcher: Fetcher,
        committer: Committer,
        others: OtherWorkers,
        *,
        sitemaps: SitemapFinder | None = None,
        runs_forever: bool = False,
    ) -> None:
        self.crawl = crawl
        self.frontier = frontier = crawl.frontier
        self.committer = committer
        self.tasks = TaskSet(frontier.commands)  # the failure of one ends the loop
        self.downloader = Downloader(
            frontier, fetcher, crawl.clock, crawl.store, observer=crawl.observer
        )
        self.parser = RobotsParser(frontier, crawl.store)
        self.leases = HostLeases(crawl, committer, others, runs_forever=runs_forever)
        self.due_robots = DueRobots(crawl, self.leases)
        self._robots = RobotsFetcher(
            frontier,
            self.downloader,
            self.parser,
            self.leases,
            crawl.store,
            crawl.session,
            crawl.clock,
            sitemaps=sitemaps,
        )
        self._fetches: dict[Origin, asyncio.Task[None]] = {}
        self.running = False
        self.begun = asyncio.Event()  # it runs, or will not
        self.error: BaseException | None = None  # what ended it, where callers are to be told
        self.callers: Callers | None = None  # who fetch on the clocks of this loop

    @property
    def under_way(self) -> bool:
        """Whether work may begin: the loop runs and has not been stopped."""
        return self.running and not self.frontier.stopping

    def begin(self) -> None:
        self.running = True
        self.begun.set()

    def close(self) -> None:
        """Begin nothing new; callers find out."""
        self.frontier.close()
        if self.callers is not None:
            self.callers.close()

    async def commands(self) -> AsyncGenerator[WorkCommand, None]:
        """Carry out commands until the generator is closed, and yield those for the owner. Raises
        the first failure of `tasks`."""
        commands = commands_of(self.frontier, self.crawl.clock, self.tasks)
        async with contextlib.aclosing(commands):
            async for command in commands:
                if (left := self._carry_out(command)) is not None:
                    yield left

    def _carry_out(self, command: Command) -> WorkCommand | None:
        """Return a command that is for the owner."""
        match command:
            case Commit():
                self.committer.begin()
            case BreakOff():
                self.downloader.break_off()
            case FetchRobots(origin):
                self._fetches[origin] = self.tasks.spawn(self._refresh(origin))
            case ParseRobots(origin):
                self._fetches[origin] = self.tasks.spawn(self._parse(origin))
            case NextPass():
                pass  # the command loop has done it
            case FailOrigin(host):
                if self.callers is not None:
                    self.callers.gave_up(host.slot)
                return command
            case _:
                return command
        return None

    # ------------------------------------------------------------ robots.txt

    async def _refresh(self, origin: Origin) -> None:
        try:
            self._settled(await self._robots.refresh(origin))
        finally:
            self._fetches.pop(origin, None)

    async def _parse(self, origin: Origin) -> None:
        try:
            await self._robots.parse(origin)
            self._settled([origin])
        finally:
            self._fetches.pop(origin, None)

    def _settled(self, origins: Sequence[Origin]) -> None:
        self.due_robots.settled(origins)
        if self.callers is not None:
            self.callers.settled(origins)

    async def robots_of(self, name: str) -> RobotsState | None:
        """Return what is known of an origin's robots.txt, fetched first if it is due, unless
        another worker leases its host. None: it could not be connected to, or nothing is known."""
        host = await self.leases.lease(self.frontier.slot_of(host_of(f"{name}/")))
        if host is None:
            return await self.crawl.store.robots_get(name)
        try:
            origin = await self.parser.load(name, host)
        except FrontierClosedError:
            return await self.crawl.store.robots_get(name)
        if is_due(origin.access, self.crawl.clock.wall()):
            self.frontier.robots.fetch(origin)
        while origin.busy:
            fetch = self._fetches.get(origin)
            await (asyncio.sleep(0) if fetch is None else asyncio.wait([fetch]))
        if host.beyond_reach(name, self.crawl.clock.monotonic()) is not None:
            return origin.access if origin.access.body is not None else None
        return origin.access


class Callers(Protocol):
    """The callers of a loop, who wait for what only the loop and its owner learn."""

    def settled(self, origins: Iterable[Origin]) -> None:
        """The robots.txt of these origins were fetched or parsed."""
        ...

    def gave_up(self, slot: str) -> None:
        """An origin of this host was given up."""
        ...

    def contact_ended(self, slot: str) -> None:
        """The crawl has contacted this host: its pace may have changed."""
        ...

    def close(self) -> None:
        """The loop ends: no more permits are granted."""
        ...


async def commands_of(
    frontier: Frontier, clock: Clock, tasks: TaskSet
) -> AsyncGenerator[Command, None]:
    """Yield the frontier's commands as they arrive. Raises the first failure of `tasks`."""
    timer: Timer | None = None
    timer_s: float | None = None
    try:
        while True:
            frontier.advance()
            taken = frontier.commands.take()
            for command in taken:
                yield command
            if tasks.failure is not None:
                raise tasks.failure
            if NEXT_PASS in taken:
                await asyncio.sleep(0)
                frontier.next_pass()
                continue
            at_s = frontier.next_wake_s()
            if at_s != timer_s:
                if timer is not None:
                    timer.cancel()
                timer = None if at_s is None else clock.call_at(at_s, frontier.commands.wake)
                timer_s = at_s
            frontier.commands.sleep_until(math.inf if at_s is None else at_s)
            await frontier.commands.wait()
    finally:
        if timer is not None:
            timer.cancel()

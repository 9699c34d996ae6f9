"""The polite client, on which `PoliteSession` and the aiohttp middleware are built.

It drives the same frontier as a crawl. Its URLs come from callers, who wait in line for their
hosts, instead of from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Self, assert_never

from crawler import threads
from crawler.clock import Clock
from crawler.config import Config, check_identity
from crawler.config.model import CurrentConfig
from crawler.downloading.downloader import Downloader
from crawler.downloading.robots_fetcher import RobotsFetcher
from crawler.downloading.robots_parser import RobotsParser
from crawler.embedding.caller_lines import CallerLines, HostLine, Place
from crawler.embedding.caller_verdicts import CallerVerdicts, NextTurn
from crawler.errors import (
    CourtlyError,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
)
from crawler.fetching.fetcher import Answer, Failure, Fetcher, Request
from crawler.frontier.commands import (
    AddWorkers,
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
from crawler.frontier.frontier import PAGE, Frontier
from crawler.frontier.host_queue import Permit
from crawler.frontier.origin import Origin
from crawler.frontier.tickets import FrontierClosedError
from crawler.processing.committer import Committer
from crawler.scheduling.command_loop import commands_of
from crawler.scheduling.task_set import TaskSet
from policies.robots_state import RobotsState, is_due
from policies.url import host_of, origin_of
from storage.store import Store, StoreError

LOOPBACK_NAMES_MAX: Final = 10_000  # names remembered as loopback's


class PoliteClient:
    """Grants a permit for one URL with `enter`, and uses it with `contact`. An async context
    manager.

    Cancelling a caller leaves no trace. Raises CourtlyError, ConfigError (no contact in the user
    agent) and StoreError.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        fetcher: Fetcher,
    ) -> None:
        self.config = config
        self.clock = clock
        self._identified = config.has_contact
        self._loopback_names: set[str] = set()  # without a contact: hosts known to be local
        self.frontier = Frontier(CurrentConfig(config), clock, store, polite_client=True)
        self._tasks = TaskSet(self.frontier.commands)
        self._committer = Committer(self.frontier, store, session, clock)
        self.downloader = Downloader(self.frontier, fetcher, clock)
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
        self._verdicts = CallerVerdicts(clock, self.frontier)
        self._background: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None  # the error that ended it
        self._closed = True
        threads.start()

    # ------------------------------------------------------------ opening and closing

    async def __aenter__(self) -> Self:
        self._closed = False
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
                commands = commands_of(self.frontier, self.clock, self._tasks)
                async with contextlib.aclosing(commands):
                    async for command in commands:
                        self._carry_out(command)
        except BaseExceptionGroup as problems:
            self._broken = problems.exceptions[0]
        finally:
            self._close()

    def _carry_out(self, command: Command) -> None:
        match command:
            case Commit():
                self._committer.begin()
            case FetchRobots(origin):
                self._tasks.spawn(self._fetch_robots(origin))
            case ParseRobots(origin):
                self._tasks.spawn(self._parse_robots(origin))
            case FailOrigin(host):
                if (line := self._lines.get(host.slot)) is not None:
                    self._verdicts.turn_away(line)
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
        self._settled(*await self._robots.refresh(origin))

    async def _parse_robots(self, origin: Origin) -> None:
        await self._robots.parse(origin)
        self._settled(origin)

    def _settled(self, *origins: Origin) -> None:
        """Wake the callers that wait for these origins' robots.txt."""
        for origin in origins:
            self._verdicts.wake(origin.name)
            line = self._lines.get(origin.host.slot)
            if line is not None and not self._closed:
                self._verdicts.turn_away(line)

    def _close(self) -> None:
        self._closed = True
        self.frontier.close()
        self._verdicts.wake_all()
        for line in self._lines:
            if line.places:
                line.places[0].call()  # leaving, it calls the next

    def _check_open(self) -> None:
        if isinstance(self._broken, StoreError):
            raise StoreError(str(self._broken)) from self._broken
        if self._broken is not None:
            raise SessionClosed("the session ended because of an internal error") from self._broken
        if self._closed:
            raise SessionClosed("the session is closed: use it inside its `async with` block")

    # ------------------------------------------------------------ requests

    async def enter(self, url: str) -> Permit:
        """Wait for a permit for this canonical URL, in order of arrival at its host. The verdict is
        that of the moment of the grant. Use the permit with `contact`, or give it back to
        `frontier.permits`.

        Raises RobotsDisallowed and RobotsUnreachable as soon as that is known, FetchFailed when no
        connection can be made.
        """
        line = await self._line(url)
        try:
            if line.places:
                self._passes(line, url)  # a forbidden URL need not wait in line
            return await self._in_line(line, url)
        finally:
            line.users -= 1

    async def _in_line(self, line: HostLine, url: str) -> Permit:
        place = Place(url, asyncio.get_running_loop().create_future())
        places = line.places
        places.append(place)
        try:
            if places[0] is not place:
                await place.called
                if place.problem is not None:
                    raise place.problem
            return await self._at_the_head(line, url)
        finally:
            if places[0] is place:
                places.popleft()
                if places:
                    places[0].call()
            else:
                places.remove(place)

    async def _at_the_head(self, line: HostLine, url: str) -> Permit:
        while True:
            if not self._passes(line, url):
                await self._verdicts.change(line, url)
                continue
            try:
                permit = await self.downloader.permit(line.host, origin_of(url))
            except FrontierClosedError:
                self._check_open()
                raise
            if isinstance(permit, Failure):
                continue  # its origin is out of reach: it waits, or is given up
            try:
                # The verdict may have changed during the wait for the permit.
                passed = self._passes(line, url)
            except BaseException:
                self.frontier.permits.give_back(permit)
                raise
            if passed:
                return permit
            self.frontier.permits.give_back(permit)

    def _passes(self, line: HostLine, url: str) -> bool:
        self._check_open()
        return self._verdicts.passes(line, url)

    async def contact(self, permit: Permit, request: Request) -> Answer | Failure:
        """Use the permit for one request, without retries; adapt the host's pace to the result."""
        return await self.downloader.fetch(permit, request, kind=PAGE)

    def watch(self, permit: Permit, request: Request) -> asyncio.Task[None]:
        """As `contact`, in a task that continues when the caller is cancelled."""

        async def contact() -> None:
            await self.contact(permit, request)

        return self._tasks.spawn(contact())

    async def may_fetch(self, url: str) -> bool:
        """Return whether `enter` would grant a permit. Fetches robots.txt if it is due, and waits
        for nothing else. Raises FetchFailed if the host cannot be reached."""
        line = await self._line(url)
        try:
            while not self._passes(line, url):
                await self._verdicts.change(line, url)
        except (RobotsDisallowed, RobotsUnreachable):
            return False
        else:
            return True
        finally:
            line.users -= 1

    async def robots(self, url: str) -> RobotsState:
        """Return the state of the robots.txt of the URL's origin, fetched under a permit of its
        host if it is due, even without `robots.obey`. Raises FetchFailed if the host cannot be
        reached."""
        line = await self._line(url)
        name = origin_of(url)
        try:
            while True:
                self._check_open()
                if self._verdicts.is_reachable(line, url):
                    origin = self.frontier.robots.get_or_add(name, line.host)
                    if not origin.busy and is_due(origin.access, self.clock.wall()):
                        self.frontier.robots.fetch(origin)
                    elif not origin.busy:
                        return origin.access
                await self._verdicts.change(line, url)
        finally:
            line.users -= 1

    async def next_turn(self, url: str) -> NextTurn:
        """Return when the URL's host may be contacted next, without contacting it."""
        line = await self._line(url)
        line.users -= 1
        in_s, reason = self.frontier.waiting.why(line.host)
        return NextTurn(in_s=in_s, reason=reason.sentence, ahead=len(line.places))

    def slot_of(self, host: str) -> str:
        return self.config.slot_of(host)

    async def _line(self, url: str) -> HostLine:
        """The line of the URL's host, with the caller counted among its users."""
        name = host_of(url)
        if not self._identified and name not in self._loopback_names:
            check_identity(self.config, [url])
            if len(self._loopback_names) < LOOPBACK_NAMES_MAX:
                self._loopback_names.add(name)
        self._check_open()
        slot = self.slot_of(name)
        while (line := self._lines.use(slot)) is None:
            held = await self._lines.hold(slot)
            self._check_open()
            if held is None:
                raise CourtlyError(f"the host {slot} is in use by another worker")
        return line

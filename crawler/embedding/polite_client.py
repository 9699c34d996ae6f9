"""The polite client, on which `PoliteSession` and the aiohttp middleware are built.

It drives the same frontier as a crawl. Its URLs come from callers, who wait in line for their
hosts, instead of from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeVar, assert_never

from crawler import threads
from crawler.clock import Clock
from crawler.config import Config, check_identity
from crawler.config.model import CurrentConfig
from crawler.contact_deadline import ContactDeadline
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
from crawler.frontier.frontier import PAGE, Frontier
from crawler.frontier.host_queue import Permit
from crawler.frontier.origin import Origin
from crawler.frontier.reasons import HELD_ELSEWHERE
from crawler.frontier.tickets import FrontierClosedError
from crawler.orders import InvalidOrderError, SteerHost, decode
from crawler.processing.committer import Committer
from crawler.scheduling.command_loop import commands_of
from crawler.scheduling.renewal import Renewal
from crawler.scheduling.task_set import TaskSet
from policies.robots_state import RobotsState, is_due
from policies.url import host_of, origin_of
from storage.store import Store, StoreError, WorkerStatus

_T = TypeVar("_T")

ELSEWHERE_AGAIN_S: Final = 1.0  # until a host that another worker holds is asked for again
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
        deadline: ContactDeadline | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self._identified = config.has_contact
        self._loopback_names: set[str] = set()  # without a contact: hosts known to be local
        self.frontier = Frontier(
            CurrentConfig(config), clock, store, polite_client=True, deadline=deadline
        )
        self._shared = store.shared
        self._renewal = Renewal(self.frontier, store, session, clock)
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
        while True:
            await self._renewal.rest()
            await self._renew()
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
                line = self._lines.get(steer.slot) if isinstance(steer, SteerHost) else None
                if line is not None and isinstance(steer, SteerHost):
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

        async def wait(line: HostLine) -> Permit:
            if line.places:
                self._passes(line, url)  # a forbidden URL need not wait in line
            return await self._in_line(line, url)

        return await self._at(url, wait)

    async def _at(self, url: str, work: Callable[[HostLine], Awaitable[_T]]) -> _T:
        """Use the line of the URL's host; another one if the lease is lost meanwhile."""
        while True:
            line = await self._line(url)
            try:
                return await work(line)
            except FrontierClosedError:
                self._check_open()
                if not line.host.lease_lost:
                    raise
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
            permit = await self.downloader.permit(line.host, origin_of(url))
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
        self._check_held(line)
        return self._verdicts.passes(line, url)

    def _check_held(self, line: HostLine) -> None:
        """Raise FrontierClosedError if the lease was lost."""
        self._check_open()
        if line.host.gone:
            raise FrontierClosedError("the host is no longer held")

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

        async def judge(line: HostLine) -> bool:
            try:
                while not self._passes(line, url):
                    await self._verdicts.change(line, url)
            except (RobotsDisallowed, RobotsUnreachable):
                return False
            return True

        return await self._at(url, judge)

    async def robots(self, url: str) -> RobotsState:
        """Return the state of the robots.txt of the URL's origin, fetched under a permit of its
        host if it is due, even without `robots.obey`. Raises FetchFailed if the host cannot be
        reached."""
        name = origin_of(url)

        async def look(line: HostLine) -> RobotsState:
            while True:
                self._check_held(line)
                if self._verdicts.is_reachable(line, url):
                    origin = self.frontier.robots.get_or_add(name, line.host)
                    if not origin.busy and is_due(origin.access, self.clock.wall()):
                        self.frontier.robots.fetch(origin)
                    elif not origin.busy:
                        return origin.access
                await self._verdicts.change(line, url)

        return await self._at(url, look)

    async def next_turn(self, url: str) -> NextTurn:
        """Return when the URL's host may be contacted next, without contacting it."""
        slot = self.slot_of(host_of(url))
        if self._shared and self._lines.get(slot) is None and await self._lines.hold(slot) is None:
            return NextTurn(in_s=ELSEWHERE_AGAIN_S, reason=HELD_ELSEWHERE.sentence, ahead=0)
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
            if held is None and not self._shared:
                raise CourtlyError(f"the host {slot} is in use by another worker")
            if held is None:
                await self.clock.sleep_until(self.clock.monotonic() + ELSEWHERE_AGAIN_S)
        return line

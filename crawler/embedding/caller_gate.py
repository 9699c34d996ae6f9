"""Permits for callers: each waits in line for the host of its URL, subject to robots.txt."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeVar

from crawler.clock import Clock
from crawler.config import Config, check_identity
from crawler.downloading.downloader import Downloader, LentContact
from crawler.embedding.caller_lines import HostLine, Place
from crawler.embedding.caller_verdicts import CallerVerdicts, NextTurn
from crawler.embedding.caller_waits import CallerWaits, LimitedWait, WaitLimit
from crawler.errors import CourtlyError, RobotsDisallowed, RobotsUnreachable
from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.frontier import PAGE, Frontier
from crawler.frontier.host_queue import Permit
from crawler.frontier.origin import Origin
from crawler.frontier.reasons import HELD_ELSEWHERE
from crawler.frontier.tickets import FrontierClosedError
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from crawler.observer import Observer, Waited
from crawler.scheduling.task_set import TaskSet
from policies.robots_state import RobotsState, is_due
from policies.url import host_of, origin_of
from storage.store import Glance

_T = TypeVar("_T")

LOOPBACK_NAMES_MAX: Final = 10_000  # names remembered as loopback's


class CallerGate(ABC):
    """Grants a permit for one URL with `enter`, and uses it with `contact`.

    A subclass holds the hosts: `PoliteClient` with a frontier of its own, `CrawlGate` with that of
    a running crawl. Cancelling a caller leaves no trace. Raises CourtlyError, ConfigError (no
    contact in the user agent) and StoreError.
    """

    def __init__(
        self,
        frontier: Frontier,
        downloader: Downloader,
        tasks: TaskSet,
        clock: Clock,
        observer: Observer | None = None,
    ) -> None:
        self.frontier = frontier
        self.downloader = downloader
        self.clock = clock
        self._tasks = tasks
        self._observer = observer
        self._verdicts = CallerVerdicts(clock, frontier)
        self.waits = CallerWaits(clock, frontier)
        self._loopback_names: set[str] = set()  # without a contact: hosts known to be local

    # ------------------------------------------------------------ the hosts

    @property
    @abstractmethod
    def config(self) -> Config:
        """The effective config."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises SessionClosed or StoreError if no more permits are granted."""

    @abstractmethod
    async def _use(self, slot: str) -> HostLine:
        """The line of a host, which is held now, with the caller counted among its users. Raises as
        `_check_open`."""

    @abstractmethod
    def _get(self, slot: str) -> HostLine | None:
        """The line of a host, if callers use it."""

    def _leave(self, line: HostLine) -> None:
        """A caller no longer uses the line."""
        line.users -= 1

    @abstractmethod
    async def _glance(self, slot: str) -> Glance | None:
        """What is stored of a host that is not held. Raises as `_check_open`."""

    async def _line(self, url: str) -> HostLine:
        """The line of the URL's host, with the caller counted among its users."""
        self._check_identity(url)
        return await self._use(self.slot_of(host_of(url)))

    def _check_identity(self, url: str) -> None:
        """Refuse a host beyond loopback without a contact (law 10). Raises ConfigError."""
        name, config = host_of(url), self.config
        if not config.has_contact and name not in self._loopback_names:
            check_identity(config, [url])
            if len(self._loopback_names) < LOOPBACK_NAMES_MAX:
                self._loopback_names.add(name)

    def slot_of(self, host: str) -> str:
        return self.config.slot_of(host)

    # ------------------------------------------------------------ requests

    async def enter(self, url: str, limit: WaitLimit | None = None) -> Permit:
        """Wait for a permit for this canonical URL, in order of arrival at its host, where callers
        of different names take turns. The verdict is
        that of the moment of the grant. Use the permit with `contact`, or give it back to
        `frontier.permits`.

        Raises RobotsDisallowed, RobotsUnreachable and WaitTooLong as soon as that is known,
        FetchFailed when no connection can be made.
        """
        caller = "" if limit is None else limit.caller
        with self._observed(url):
            if limit is None or not limit.exists:
                return await self._at(url, lambda line: self._wait(line, url, None, caller))
            async with self.waits.limited(url, limit) as limited:
                return await self._at(url, lambda line: self._wait(line, url, limited, caller))

    async def _wait(
        self, line: HostLine, url: str, limited: LimitedWait | None, caller: str
    ) -> Permit:
        if asyncio.current_task() in line.lent_to and line.host.busy >= line.host.pace.lanes():
            raise CourtlyError(
                f"{url} would wait for itself: this task has a permit for the same host, and must "
                "end its block first"
            )
        if line.places:
            self._passes(line, url)  # a forbidden URL need not wait in line
        return await self._in_line(line, url, limited, caller)

    @contextlib.contextmanager
    def _observed(self, url: str) -> Iterator[None]:
        """Report the wait for a permit to the observer when it has ended."""
        if self._observer is None:
            yield
            return
        began_s, problem = self.clock.monotonic(), None
        try:
            yield
        except BaseException as error:
            problem = error
            raise
        finally:
            elapsed_s = self.clock.monotonic() - began_s
            self._observer.waited(
                Waited(
                    url=url,
                    slot=self.slot_of(host_of(url)),
                    started_at=self.clock.wall() - elapsed_s,
                    elapsed_s=elapsed_s,
                    error=problem,
                )
            )
            problem = None  # its traceback refers to this frame

    async def _at(self, url: str, work: Callable[[HostLine], Awaitable[_T]]) -> _T:
        """Use the line of the URL's host; another one if the lease is lost meanwhile."""
        while True:
            line = await self._line(url)
            try:
                return await work(line)
            except FrontierClosedError:
                self._check_open()
                if not line.host.gone:
                    raise
            finally:
                self._leave(line)

    async def _in_line(
        self, line: HostLine, url: str, limited: LimitedWait | None, caller: str
    ) -> Permit:
        place = Place(url, asyncio.get_running_loop().create_future(), caller)
        places = line.places
        ahead = line.join(place)
        try:
            self.waits.joined(line, place, limited, ahead=ahead)
            if places[0] is not place:
                await place.called
                if place.problem is not None:
                    raise place.problem
            return await self._at_the_head(line, place)
        finally:
            self.waits.left(place, limited)
            if places[0] is place:
                places.popleft()
                if places:
                    places[0].call()
            else:
                places.remove(place)

    async def _at_the_head(self, line: HostLine, place: Place) -> Permit:
        url = place.url
        while True:
            passed = self._passes(line, url)
            self.waits.waits_at_head(line, place)
            if not passed:
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
        try:
            return await self.downloader.fetch(permit, request, kind=PAGE)
        finally:
            self.contact_ended(permit.host.slot)

    @contextlib.asynccontextmanager
    async def lend(self, permit: Permit, url: str) -> AsyncIterator[LentContact]:
        """Lend the permit to the caller's own client until the block ends."""
        with self.held(permit):
            try:
                async with self.downloader.lend(permit, url) as lent:
                    yield lent
            finally:
                self.contact_ended(permit.host.slot)

    @contextlib.contextmanager
    def held(self, permit: Permit) -> Iterator[None]:
        """A block in which the caller's task has the permit. It must not wait for the host there:
        it would wait for itself, which `enter` refuses."""
        line, task = self._get(permit.host.slot), asyncio.current_task()
        holders = [] if line is None else line.lent_to
        holders.append(task)
        try:
            yield
        finally:
            holders.remove(task)

    def watch(self, permit: Permit, request: Request) -> asyncio.Task[Answer | Failure]:
        """As `contact`, in a task that continues when the caller is cancelled."""
        return self._tasks.spawn(self.contact(permit, request))

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
            loaded = False
            while True:
                self._check_held(line)
                if self._verdicts.is_reachable(line, url):
                    origin = self.frontier.robots.get_or_add(name, line.host)
                    due = is_due(origin.access, self.clock.wall())
                    if not origin.busy and (due or not (origin.loaded or loaded)):
                        loaded = not due  # a large file that does not govern may leave again
                        self.frontier.robots.fetch(origin)
                    elif not origin.busy:
                        return origin.access
                await self._verdicts.change(line, url)

        return await self._at(url, look)

    async def next_turn(self, url: str) -> NextTurn:
        """Return when the URL's host may be contacted for it, without contacting or leasing it: the
        question leaves nothing behind."""
        self._check_identity(url)
        slot = self.slot_of(host_of(url))
        self._check_open()
        if (host := self.frontier.permits.get(slot)) is None:
            found = await self._glance(slot)
            if found is not None and found.clock is None:
                reason = HELD_ELSEWHERE.sentence
                return NextTurn(in_s=ELSEWHERE_AGAIN_S, reason=reason, ahead=0)
            host = self.frontier.seen(slot, found)
        line = self._get(slot)
        return self.waits.next_turn(
            line if line is not None and line.host is host else HostLine(host), url
        )

    def wait_s(self, url: str) -> float:
        """For how long a permit for this URL is known not to be granted."""
        line = self._get(self.slot_of(host_of(url)))
        if line is None:
            return 0.0
        return self.waits.forecast(line, url).at_s - self.clock.monotonic()

    # ------------------------------------------------------------ what has changed

    def contact_ended(self, slot: str) -> None:
        """A host was contacted: its callers may have to wait for longer now."""
        if (line := self._get(slot)) is not None:
            self.waits.look(line)

    def settled(self, origins: Iterable[Origin]) -> None:
        """These origins' robots.txt were fetched or parsed: wake the callers that wait for them."""
        for origin in origins:
            self._verdicts.wake(origin.name)
            self.gave_up(origin.host.slot)

    def gave_up(self, slot: str) -> None:
        """An origin of this host may have been given up, or closed: refuse its callers."""
        line = self._get(slot)
        if line is not None and not self.frontier.stopping:
            self._verdicts.turn_away(line)
            self.waits.look(line)

    def _call_all(self, lines: Iterable[HostLine]) -> None:
        """The gate closes: all who wait find out."""
        self._verdicts.wake_all()
        for line in lines:
            if line.places:
                line.places[0].call()  # leaving, it calls the next

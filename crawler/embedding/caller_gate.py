"""Permits for callers: each waits in line for the host of its URL, subject to robots.txt."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from crawler.config import Config, check_identity
from crawler.downloading.downloader import LentContact
from crawler.embedding.caller_verdicts import CallerVerdicts, NextTurn
from crawler.embedding.caller_waits import CallerWaits, LimitedWait, WaitLimit
from crawler.embedding.host_line import HostLine, Place
from crawler.errors import CourtlyError, RobotsDisallowed, RobotsUnreachable, SessionClosed
from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.frontier import PAGE
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.frontier.origin import Origin
from crawler.frontier.reasons import LEASED_ELSEWHERE
from crawler.frontier.tickets import FrontierClosedError
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from policies.holds import FaultOwner
from policies.robots_state import RobotsState, is_due
from policies.url import host_of, origin_of
from storage.store import Glance, StoreError

if TYPE_CHECKING:
    from crawler.scheduling.contact_loop import ContactLoop  # loads what the database needs

_T = TypeVar("_T")

LOOPBACK_NAMES_MAX: Final = 10_000  # names remembered as loopback's


class CallerGate:
    """Grants a permit for one URL with `enter`, and uses it with `contact`.

    Its hosts are those of a loop, which runs for callers alone or for a crawl. A crawl continues
    until its callers have their responses; at a host with URLs of the crawl, they take turns. There
    is one gate for each loop: `gate_of`. Cancelling a caller leaves no trace. Raises CourtlyError,
    ConfigError (no contact in the user agent) and StoreError.
    """

    def __init__(self, loop: ContactLoop) -> None:
        crawl = loop.crawl
        self.frontier = crawl.frontier
        self.downloader = loop.downloader
        self.clock = crawl.clock
        self._loop = loop
        self._config = crawl.config
        self._verdicts = CallerVerdicts(crawl.clock, crawl.frontier)
        self.waits = CallerWaits(crawl.clock, crawl.frontier, crawl.observer)
        self._lines: dict[str, HostLine] = {}  # of the hosts that callers use now
        self._loopback_names: set[str] = set()  # without a contact: hosts known to be local

    # ------------------------------------------------------------ the hosts

    @property
    def config(self) -> Config:
        """The effective config."""
        return self._config.config

    def _check_open(self) -> None:
        """Raises SessionClosed or StoreError if no more permits are granted."""
        if self._loop.under_way:
            return
        error = self._loop.error
        if isinstance(error, StoreError):
            raise StoreError(str(error)) from error
        if error is not None:
            raise SessionClosed("the session ended because of an internal error") from error
        if self.frontier.faults is FaultOwner.CALLER:
            raise SessionClosed("the session is closed: use it inside its `async with` block")
        raise SessionClosed("the crawl is ending, and sends no more requests")

    async def _use(self, slot: str) -> HostLine:
        """The line of a host, which is held now, with the caller counted among its users; `_leave`
        follows. Raises as `_check_open`."""
        self.frontier.callers += 1
        try:
            await self._loop.begun.wait()
            self._check_open()
            host = self.frontier.permits.hosts.get(slot) or await self._lease(slot)
        except BaseException:
            self._one_less()
            raise
        host.callers += 1
        self.frontier.permits.use(host)
        return self._line_of(host)

    async def _lease(self, slot: str) -> HostQueue:
        """Lease a host, after other workers if need be."""
        began_s, leases = self.clock.monotonic(), self._loop.leases
        sinks = self._loop.crawl.sinks
        while True:
            if sinks is not None and sinks.in_page_function and leases.is_leaving(slot):
                raise CourtlyError(
                    f"{slot} is being released with a commit that waits for this page function: "
                    "request it in a task that the function does not wait for"
                )
            # No caller's cancellation cuts it in two.
            leased = self._loop.tasks.spawn(leases.lease_for_caller(slot))
            await asyncio.wait([leased])
            self._check_open()
            host = leased.result()
            if host is None:
                self.waits.report_leased_elsewhere(slot, began_s)
                await self.clock.sleep_until(self.clock.monotonic() + ELSEWHERE_AGAIN_S)
                self._check_open()
            elif not host.gone:
                return host

    def _line_of(self, host: HostQueue) -> HostLine:
        line = self._lines.get(host.slot)
        if line is None or line.host is not host:
            line = HostLine(host)
            if not host.gone:  # else the slot may have a line for its next lease
                self._lines[host.slot] = line
        return line

    def _leave(self, line: HostLine) -> None:
        """A caller no longer uses the line."""
        line.host.callers -= 1
        self._forget_unused(line)
        self._one_less()

    def _forget_unused(self, line: HostLine) -> None:
        host = line.host
        if not (host.callers or line.lent_to) and self._lines.get(host.slot) is line:
            del self._lines[host.slot]

    def _one_less(self) -> None:
        self.frontier.callers -= 1
        if not self.frontier.callers:
            self.frontier.look_for_work()  # it may be the end

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
        with self.waits.observed(url, self.slot_of(host_of(url))):
            if limit is None or not limit.exists:
                return await self._at(url, lambda line: self._wait(line, url, None, caller))
            async with self.waits.limited(url, limit) as limited:
                return await self._at(url, lambda line: self._wait(line, url, limited, caller))

    async def _wait(
        self, line: HostLine, url: str, limited: LimitedWait | None, caller: str
    ) -> Permit:
        if asyncio.current_task() in line.lent_to and line.host.busy >= line.host.pace.lanes:
            raise CourtlyError(
                f"{url} would wait for itself: this task has a permit for the same host, and must "
                "end its block first"
            )
        if line.places:
            self._passes(line, url)  # a forbidden URL need not wait in line
        return await self._in_line(line, url, limited, caller)

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
                line.host.yields = True
                return permit
            self.frontier.permits.give_back(permit)

    def _passes(self, line: HostLine, url: str) -> bool:
        self._check_leased(line)
        return self._verdicts.passes(line, url)

    def _check_leased(self, line: HostLine) -> None:
        """Raise FrontierClosedError if the lease was lost."""
        self._check_open()
        if line.host.gone:
            raise FrontierClosedError("the host is no longer leased")

    async def contact(self, permit: Permit, request: Request) -> Answer | Failure:
        """Use the permit for one request, without retries; adapt the host's pace to the result."""
        try:
            result = await self.downloader.fetch(permit, request, kind=PAGE)
        finally:
            self.contact_ended(permit.host.slot)
        if isinstance(result, Failure) and not self._loop.running:
            self._check_open()  # closing cuts the connection: that is no fault of the server
        return result

    @contextlib.asynccontextmanager
    async def lend(self, permit: Permit, url: str) -> AsyncIterator[LentContact]:
        """Lend the permit to the caller's own client until the block ends."""
        with self.owned(permit):
            try:
                async with self.downloader.lend(permit, url) as lent:
                    yield lent
            finally:
                self.contact_ended(permit.host.slot)

    @contextlib.contextmanager
    def owned(self, permit: Permit) -> Iterator[None]:
        """A block in which the caller's task has the permit. It must not wait for the host there:
        it would wait for itself, which `enter` refuses."""
        line, task = self._line_of(permit.host), asyncio.current_task()
        line.lent_to.append(task)
        try:
            yield
        finally:
            line.lent_to.remove(task)
            self._forget_unused(line)

    def watch(self, permit: Permit, request: Request) -> asyncio.Task[Answer | Failure]:
        """Call `contact` in a task that continues when the caller is cancelled."""
        return self._loop.tasks.spawn(self.contact(permit, request))

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
                self._check_leased(line)
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
        if (host := self.frontier.permits.hosts.get(slot)) is None:
            found = await self._glance(slot)
            if found is not None and found.clock is None:
                reason = LEASED_ELSEWHERE.sentence
                return NextTurn(in_s=ELSEWHERE_AGAIN_S, reason=reason, ahead=0)
            host = self.frontier.seen(slot, found)
        line = self._lines.get(slot)
        return self.waits.next_turn(
            line if line is not None and line.host is host else HostLine(host), url
        )

    async def _glance(self, slot: str) -> Glance | None:
        """What is stored of a host that is not held. Raises as `_check_open`."""
        await self._loop.begun.wait()
        self._check_open()
        crawl, away = self._loop.crawl, self._loop.leases.clock_away(slot)
        return await crawl.store.glance(crawl.session, slot) if away is None else Glance(clock=away)

    def wait_s(self, url: str) -> float:
        """Return for how many seconds a permit for this URL is known not to be granted."""
        host = self.frontier.permits.hosts.get(self.slot_of(host_of(url)))
        if host is None:
            return 0.0
        return self.waits.forecast(HostLine(host), url).at_s - self.clock.monotonic()

    # ------------------------------------------------------------ what has changed

    def contact_ended(self, slot: str) -> None:
        """A host was contacted: its callers may have to wait for longer now."""
        if (line := self._lines.get(slot)) is not None:
            self.waits.look(line)

    def settled(self, origins: Iterable[Origin]) -> None:
        """Wake callers: the robots.txt of these origins were fetched or parsed."""
        for origin in origins:
            self._verdicts.wake(origin.name)
            self.gave_up(origin.host.slot)

    def gave_up(self, slot: str) -> None:
        """An origin of this host may have been given up, or closed: refuse its callers."""
        line = self._lines.get(slot)
        if line is not None and not self.frontier.stopping:
            self._verdicts.refuse(line)
            self.waits.look(line)

    def close(self) -> None:
        """Grant no more permits: all who wait find out."""
        self._verdicts.wake_all()
        for line in list(self._lines.values()):
            if line.places:
                line.places[0].call()  # leaving, it calls the next


def gate_of(loop: ContactLoop) -> CallerGate:
    """The gate of this loop; there is one."""
    gate = loop.callers
    if not isinstance(gate, CallerGate):
        gate = loop.callers = CallerGate(loop)
    return gate

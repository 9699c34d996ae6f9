"""The only way to the network: one request per permit, for pages, sitemaps and robots.txt alike, so
that every contact counts on its host's clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import Clock
from crawler.faults import contained
from crawler.fetching.header_scope import HeaderScope
from crawler.fetching.request import Answer, Failure, Fetcher, Headers, Request
from crawler.frontier.frontier import PAGE, Frontier
from crawler.frontier.host_queue import HostQueue, Permit, plain_address
from crawler.frontier.tickets import Ticket
from crawler.observer import Contacted, Observer
from policies.holds import SENTENCES, HoldReason
from policies.retries import FailureCode
from policies.url import host_of
from storage.store import Store

NO_HEADERS: Final[Headers] = CIMultiDictProxy(CIMultiDict())


class LentContact(Struct, eq=False):
    """A contact made by a client of the caller's, and what it says of the answer. over: its permit
    has ended."""

    headers: Headers
    status: int | None = None
    over: bool = False


class Downloader:
    """Sends requests under permits, and reports their results to the frontier."""

    def __init__(
        self,
        frontier: Frontier,
        fetcher: Fetcher,
        clock: Clock,
        store: Store,
        *,
        observer: Observer | None = None,
    ) -> None:
        self._frontier = frontier
        self._fetcher = fetcher
        self._store = store
        self._clock = clock
        self._observer = observer
        self.header_scope: HeaderScope | None = (
            None  # what the config's headers are for; None: everything
        )
        self.urls: dict[str, float] = {}  # being fetched now, and since when (monotonic)
        self._sending: set[asyncio.Task[object]] = set()
        # Those of them whose requests were broken off -> what becomes of these.
        self._broken_off: dict[asyncio.Task[object], Callable[[str, float], Failure]] = {}

    def restrict_headers(self, url: str) -> None:
        """Send the config's headers for the host of this seed to its scheme and port alone."""
        self.header_scope = self.header_scope or HeaderScope()
        self.header_scope.add(url)

    # ------------------------------------------------------------ permits

    async def permit(self, host: HostQueue, origin: str) -> Permit | Failure:
        """A permit at this host for a request to the origin; its address is known where a clock
        depends on it. A Failure: the name has no address. Raises FrontierClosedError."""
        permits = self._frontier.permits
        while True:
            granted = permits.for_host(host)
            permit = await self._wait(granted, host) if isinstance(granted, Ticket) else granted
            try:
                located = await self.locate(permit, origin)
            except BaseException:
                permits.give_back(permit)
                raise
            if located is True and not permits.is_void(permit):
                return permit
            permits.give_back(permit)
            if isinstance(located, Failure):
                return located

    async def _wait(self, ticket: Ticket[Permit], host: HostQueue) -> Permit:
        try:
            return await ticket.wait()
        except BaseException:
            self._frontier.permits.withdraw(ticket, host)
            raise

    async def next_permit(self) -> Permit:
        """A permit at any host that has prefetched URLs. Raises FrontierClosedError."""
        ticket = self._frontier.permits.for_any_host()
        try:
            return await ticket.wait()
        except BaseException:
            self._frontier.permits.withdraw(ticket)
            raise

    async def locate(self, permit: Permit, origin: str) -> Failure | bool:
        """Find out which address's clock counts for the permit, with `per = "ip"`.

        True: it is known. False: it has just been learned, and the permit must be given back for
        another. A Failure: the name has no address, and the frontier knows.
        """
        if not self._frontier.needs_address(permit):
            return True
        try:
            address = await self._fetcher.address_of(host_of(origin + "/"))
        except Exception as error:  # noqa: BLE001 - its URLs wait as if it had no address
            address = self._fault(origin, error, self._clock.monotonic(), connected=False)
        if isinstance(address, Failure):
            judged = self._frontier.holds.judge(permit, address)
            assert isinstance(judged, Failure)
            self._frontier.connection_failed(permit.host, origin, judged)
            return judged
        # Where several workers share the store, each address is leased with its longest delay.
        shared = self._store.shared
        delay_s = 0.0 if shared else await self._store.address_delay_s(plain_address(address))
        self._frontier.permits.set_address(permit.host, address, delay_s=delay_s)
        return False

    # ------------------------------------------------------------ requests

    async def fetch(self, permit: Permit, request: Request, *, kind: str) -> Answer | Failure:
        """Use the permit for one request; it is over when this returns or raises."""
        began_s = self._begin(permit, request.url)
        result: Answer | Failure | None = None
        try:
            result = await self._send(permit, request, kind, began_s)
            return result
        finally:
            self._end(permit, request.url, kind, result, began_s)

    @contextlib.asynccontextmanager
    async def exchange(
        self, permit: Permit, request: Request, *, kind: str
    ) -> AsyncIterator[Answer | Failure]:
        """Fetch as `fetch` does, with the permit open until the block ends: what is learned in it
        (such as a Crawl-delay) counts for the delay after this very request."""
        began_s = self._begin(permit, request.url)
        result: Answer | Failure | None = None
        try:
            result = await self._send(permit, request, kind, began_s)
            yield result
        finally:
            self._end(permit, request.url, kind, result, began_s)

    @contextlib.asynccontextmanager
    async def lend(self, permit: Permit, url: str) -> AsyncIterator[LentContact]:
        """Lend the permit to a client of the caller's for one request, which lasts until the block
        ends. The host learns from the answer that is set by then, also if the block raises."""
        began_s = self._begin(permit, url)
        lent = LentContact(NO_HEADERS)
        try:
            yield lent
        finally:
            lent.over = True
            answer = None if lent.status is None else self._lent_answer(url, lent, began_s)
            if answer is not None and not permit.host.gone:
                self._frontier.learn(permit, answer, kind=PAGE)
            self._end(permit, url, PAGE, answer, began_s)

    def _lent_answer(self, url: str, lent: LentContact, began_s: float) -> Answer:
        assert lent.status is not None
        ended_s = self._clock.monotonic()
        return Answer(
            url=url,
            status=lent.status,
            headers=lent.headers,
            body=b"",
            body_read=False,
            cut=False,
            wire_bytes=0,
            started_s=began_s,
            ended_s=ended_s,
            address=None,
            latency_s=ended_s - began_s,
        )

    def _begin(self, permit: Permit, url: str) -> float:
        began_s = self.urls[url] = self._clock.monotonic()
        permit.host.pace.on_wire()
        return began_s

    async def _send(
        self, permit: Permit, request: Request, kind: str, began_s: float
    ) -> Answer | Failure:
        frontier = self._frontier
        if self.header_scope is not None and not self.header_scope.covers(request.url):
            request = replace(request, bare=True)
        if not frontier.expiry.may_contact():
            permit.host.pace.not_sent()
            frontier.permits.give_back(permit)
            return self._expired(request.url, began_s, contacted=False)
        task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        self._sending.add(task)
        try:
            try:
                result = await self._fetcher.fetch(request)
            except asyncio.CancelledError:
                if task not in self._broken_off or task.uncancel() > cancelling:
                    raise
                result = self._broken_off[task](request.url, began_s)
            finally:
                self._sending.discard(task)
                self._broken_off.pop(task, None)
            result = frontier.holds.judge(permit, result)
            if isinstance(result, Failure) and _is_unsent(result):
                permit.host.pace.not_sent()
                frontier.permits.give_back(permit)  # the host need not rest
                frontier.not_sent(permit.host, result, kind=kind)
            else:
                frontier.learn(permit, result, kind=kind)
        except Exception as error:  # noqa: BLE001 - it costs this request, and no other
            result = self._fault(request.url, error, began_s)
            if permit.probe:
                result = frontier.holds.judge(permit, result)
        return result

    def break_off(self, *, stopping: bool = False) -> None:
        """End all requests in flight: their hosts may be another worker's by now, or the crawl is
        stopping and has waited for them."""
        for task in self._sending - self._broken_off.keys():
            self._broken_off[task] = self._stopped if stopping else self._expired
            task.cancel()

    def _stopped(self, url: str, began_s: float) -> Failure:
        """Return a failure that is not charged to the URL, which stays queued."""
        return Failure(
            url=url,
            code=FailureCode.TIMEOUT,
            sentence="the crawl stopped before the response was complete",
            connected=True,
            permanent=False,
            started_s=began_s,
            ended_s=self._clock.monotonic(),
            stale=True,
            stopped=True,
        )

    def _expired(self, url: str, began_s: float, *, contacted: bool = True) -> Failure:
        return Failure(
            url=url,
            code=FailureCode.TIMEOUT if contacted else FailureCode.CONNECT,
            sentence=SENTENCES[HoldReason.LEASES_EXPIRED],
            connected=contacted,
            permanent=False,
            started_s=began_s,
            ended_s=self._clock.monotonic(),
            ours=HoldReason.LEASES_EXPIRED,
            contacted=contacted,
        )

    def _end(
        self,
        permit: Permit,
        url: str,
        kind: str,
        result: Answer | Failure | None,
        began_s: float,
    ) -> None:
        """`result` None: the request was cancelled."""
        self.urls.pop(url, None)
        if permit.over:
            return
        self._frontier.permits.end(
            permit,
            started_s=began_s if result is None else result.started_s,
            ended_s=self._clock.monotonic() if result is None else result.ended_s,
            kind=kind,
            status=result.status if result is not None else None,
        )
        self._frontier.request_ended(permit)
        if self._observer is not None:
            self._observer.contacted(self._seen(permit, url, kind, result, began_s))

    def _fault(
        self, url: str, error: Exception, began_s: float, *, connected: bool = True
    ) -> Failure:
        """An internal error, as a request that failed for good."""
        return Failure(
            url=url,
            code=FailureCode.INTERNAL,
            sentence=contained(f"the request for {url}", error),
            connected=connected,
            permanent=connected,
            started_s=began_s,
            ended_s=self._clock.monotonic(),
        )

    def _seen(
        self,
        permit: Permit,
        url: str,
        kind: str,
        result: Answer | Failure | None,
        began_s: float,
    ) -> Contacted:
        """The contact that has just ended, for observers; `result` None: it was cancelled."""
        now_s, wall_s = self._clock.monotonic(), self._clock.wall()
        started_s = began_s if result is None else result.started_s
        next_in_s, source = permit.host.pace.next_contact(now_s, wall_s)
        failure = result if isinstance(result, Failure) else None
        answer = result if isinstance(result, Answer) else None
        return Contacted(
            url=url,
            slot=permit.host.slot,
            kind=kind,
            status=result.status if result else None,
            error=failure.code if failure else None,
            sentence=failure.sentence if failure else "",
            started_at=started_s + wall_s - now_s,
            elapsed_s=(result.ended_s if result else now_s) - started_s,
            latency_s=answer.latency_s if answer else None,
            body_bytes=(answer.poured_bytes or len(answer.body)) if answer else 0,
            wire_bytes=answer.wire_bytes if answer else 0,
            address=answer.address if answer else None,
            late_s=max(0.0, started_s - permit.could_s),
            next_in_s=next_in_s,
            rest_source=source,
            early=started_s < permit.allowed_s,
            unproven=permit.unproven,
        )


def _is_unsent(failure: Failure) -> bool:
    """Whether nothing was sent to the host, because of this machine or of our own rules."""
    return not failure.contacted and (
        failure.ours is not None or failure.code is FailureCode.ADDRESS
    )

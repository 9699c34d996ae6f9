"""Requests of other programs through the crawl, on its clocks, robots.txt copies and
connections."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json as json_module
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from msgspec import structs

from crawler.clock import Clock, Timer
from crawler.daemon import responses
from crawler.daemon.actor import acting_client
from crawler.daemon.api.caller_limits import BUSY_S, Limit, Room
from crawler.daemon.problem import Problem
from crawler.daemon.responses import LentPermit
from crawler.embedding.caller_gate import gate_of
from crawler.embedding.caller_verdicts import canonical_url
from crawler.embedding.error_documents import document_of
from crawler.embedding.host_line import Caller, CallerBodies
from crawler.embedding.permit import RequestPermit
from crawler.embedding.request_arguments import WAIT_S_MAX, PermitArguments, RequestArguments
from crawler.embedding.response import Response
from crawler.embedding.session_requests import LocalRequests
from crawler.embedding.streaming import StreamedResponse
from crawler.errors import CourtlyError, InvalidRequest, WaitTooLong
from crawler.faults import contained
from crawler.frontier.large_bodies import LargeBodies
from crawler.scheduling.scheduler import Scheduler
from storage.store import StoreError

_T = TypeVar("_T")
_Asked = TypeVar("_Asked", bound=PermitArguments)

# Of all clients, waiting for their hosts or in flight: half of the daemon's connections.
REQUESTS_MAX: Final = 128
QUERIES_MAX: Final = 32  # likewise: requests that wait for a robots.txt at most
BODY_BYTES_MAX: Final = 64_000_000  # bodies of requests that wait or are in flight
# Of large response bodies until they are sent to the clients; half of it for one client.
BODIES_BYTES_MAX: Final = 100_663_296
WAIT_S_DEFAULT: Final = 300.0  # of requests without max_wait_s: they may wait for a dead host
QUERY_WAIT_S: Final = 60.0
_CALLS: Final = Limit(
    what="requests waiting or in flight", total=REQUESTS_MAX, of_one=48, share=4, reserve=32
)
_QUERIES: Final = Limit(
    what="queries waiting for a robots.txt", total=QUERIES_MAX, of_one=16, share=2, reserve=8
)
_BODIES: Final = Limit(
    what="bytes of request bodies waiting or in flight",
    total=BODY_BYTES_MAX,
    of_one=BODY_BYTES_MAX // 4,
    share=1_000_000,
    reserve=BODY_BYTES_MAX // 4,
)
LENT_MAX: Final = 64  # permits lent at the same time; at most half of `crawl.concurrency`
# From the grant on, however often it is renewed: then the crawl has its turn at the host.
LENT_S_MAX: Final = 1_800.0


class CallerRequests:
    """The operations of `PoliteSession`, for clients of the API."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._calls = Room(_CALLS)
        self._queries = Room(_QUERIES)
        self._bodies = Room(_BODIES)
        self._body_memory = LargeBodies(
            clock, Counter(), bytes_max=BODIES_BYTES_MAX, domain_bytes_max=BODIES_BYTES_MAX // 2
        )
        concurrency = scheduler.crawl.config.config.crawl.concurrency
        self._lent = LentPermits(clock, concurrency=concurrency)

    # ------------------------------------------------------------ requests

    async def fetch(self, asked: RequestArguments, *, stream: bool) -> FetchedBody:
        """Send a request as `PoliteSession.fetch` does, or as `stream`. The caller closes what it
        returns. Raises Problem."""
        async with contextlib.AsyncExitStack() as opened:
            requests = opened.enter_context(self._call(self._calls, asked.max_wait_s))
            asked = _checked(asked)
            size = len(asked.body or b"")
            opened.enter_context(self._bodies.taken(acting_client(), size))
            if stream:
                response = await opened.enter_async_context(requests.stream(asked))
                fetched = FetchedBody(response, response.chunks())
            else:
                whole = await requests.fetch(asked)
                fetched = FetchedBody(whole, _whole(whole.body))
            fetched.push_async_exit(opened.pop_all())
            return fetched

    async def may_fetch(self, url: str) -> responses.MayFetch:
        """Return whether robots.txt allows a URL now."""
        with self._call(self._queries) as requests:
            canonical = canonical_url(url)
            allowed = await self._in_time(requests.may_fetch(canonical), canonical)
            return responses.MayFetch(allowed=allowed)

    async def next_turn(self, url: str) -> responses.NextTurn:
        """Return when the host of a URL may be contacted next."""
        with self._call(self._queries) as requests:
            turn = await requests.next_turn(canonical_url(url))
            return responses.NextTurn(in_s=turn.in_s, reason=turn.reason, ahead=turn.ahead)

    async def robots_state(self, url: str) -> responses.RobotsKnown:
        """Return what is known of the robots.txt of a URL's origin."""
        with self._call(self._queries) as requests:
            canonical = canonical_url(url)
            known = structs.asdict(await self._in_time(requests.robots(canonical), canonical))
            body = known.pop("body")
            encoded = None if body is None else base64.b64encode(body).decode()
            return responses.RobotsKnown(**known, body=encoded)

    async def _in_time(self, query: Coroutine[Any, Any, _T], url: str) -> _T:
        """The result of a query. Raises WaitTooLong after QUERY_WAIT_S."""
        loop, limit = asyncio.get_running_loop(), asyncio.timeout(None)
        at_s = self._clock.monotonic() + QUERY_WAIT_S
        timer = self._clock.call_at(at_s, lambda: limit.reschedule(loop.time()))
        try:
            async with limit:
                return await query
        except TimeoutError:
            if not limit.expired():
                raise
            raise WaitTooLong(url, "its robots.txt has not arrived yet", None) from None
        finally:
            timer.cancel()

    @contextlib.contextmanager
    def _call(self, room: Room, max_wait_s: float | None = None) -> Iterator[LocalRequests]:
        """The requests of a client, for one call. What the block raises becomes a Problem."""
        if self._scheduler.frontier.stopping:
            raise Problem(503, "the crawl is ending", kind="session-closed", retry_after_s=BUSY_S)
        client = acting_client()
        with room.taken(client):
            try:
                unlimited = max_wait_s == WAIT_S_MAX
                wait_s = WAIT_S_MAX if unlimited else WAIT_S_DEFAULT
                bodies = CallerBodies(self._body_memory, client)
                caller = Caller(client, own=False, wait_s=wait_s, bodies=bodies)
                try:
                    yield LocalRequests(gate_of(self._scheduler.loop), caller=caller)
                finally:
                    bodies.leave()
            except StoreError:
                raise  # reported like every failure of the database
            except CourtlyError as error:
                raise self._problem(error) from error

    def _problem(self, error: CourtlyError) -> Problem:
        document = document_of(error)
        wait_s = None
        if document.status == 503:
            until = document.until
            wait_s = BUSY_S if until is None else max(0.0, until - self._clock.wall())
        return Problem(
            document.status,
            document.detail,
            kind=document.kind,
            attributes=document.attributes,
            retry_after_s=wait_s,
        )

    # ------------------------------------------------------------ permits

    async def permit(self, asked: PermitArguments, expires_in_s: float) -> responses.LentPermit:
        """Wait for a permit, and lend it until `end_permit`, or until it expires. Raises
        Problem."""
        with self._call(self._calls, asked.max_wait_s) as requests:
            waiting = requests.permit(_checked(asked))
            return await self._lent.lend(waiting, acting_client(), expires_in_s)

    async def renew_permit(self, name: str, expires_in_s: float) -> responses.LentPermit:
        """Have a permit expire later. Raises Problem."""
        return self._lent.renew(name, expires_in_s)

    async def end_permit(
        self, name: str, status: int | None, headers: Mapping[str, str]
    ) -> responses.PermitEnded:
        """End the contact of a permit, with the answer if there was one. Raises Problem."""
        try:
            await self._lent.end(name, status, headers)
        except InvalidRequest as error:
            raise self._problem(error) from error
        return responses.PermitEnded(id=name)

    async def close(self) -> None:
        """End all permits."""
        await self._lent.close()


class FetchedBody(contextlib.AsyncExitStack):
    """A response and the pieces of its body. An async context manager: the contact of a streamed
    response lasts until its end."""

    def __init__(self, response: Response | StreamedResponse, pieces: AsyncIterator[bytes]) -> None:
        super().__init__()
        self.response = response
        self.pieces = pieces


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _checked(asked: _Asked) -> _Asked:
    """A wait of WAIT_S_MAX is no limit, of clients that mean it."""
    if asked.max_wait_s == WAIT_S_MAX:
        asked = structs.replace(asked, max_wait_s=None)
    return asked.checked()


def description(response: Response | StreamedResponse, bytes_max: int) -> str:
    """A response without its body, as JSON in ASCII, for a header. If it is too long, the headers
    of redirects are left out, then the longest headers, and `shortened` is true."""
    hops = [_hop(one) for one in response.redirects]
    described = {**_hop(response), "redirects": hops}
    encoded = _ascii(described)
    if len(encoded) <= bytes_max:
        return encoded
    described["shortened"] = True
    for hop in hops:
        hop["headers"] = [pair for pair in hop["headers"] if pair[0].lower() == "location"]
    while len(encoded := _ascii(described)) > bytes_max and described["headers"]:
        described["headers"].remove(max(described["headers"], key=lambda pair: len(pair[1])))
    while len(encoded) > bytes_max and hops:
        hops.pop()
        encoded = _ascii(described)
    return encoded


def _hop(response: Response | StreamedResponse) -> dict[str, Any]:
    return {
        "url": response.url,
        "status": response.status,
        "headers": [[name, value] for name, value in response.headers.items()],
        "elapsed_s": response.elapsed_s,
    }


def _ascii(value: object) -> str:
    return json_module.dumps(value, separators=(",", ":"))


class _Lent:
    """A permit that a client has. over: it was ended, or has expired. until_s: it ends then at the
    latest (monotonic)."""

    def __init__(self, permit: RequestPermit, until_s: float) -> None:
        self.permit = permit
        self.until_s = until_s
        self.name = secrets.token_urlsafe(16)
        self.over = asyncio.Event()
        self.timer: Timer | None = None


class LentPermits:
    """A task holds each: the contact lasts as long as its block."""

    def __init__(self, clock: Clock, *, concurrency: int) -> None:
        self._clock = clock
        self._lent: dict[str, _Lent] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        total = max(1, min(LENT_MAX, concurrency // 2))
        self._room = Room(
            Limit(
                what="permits",
                total=total,
                of_one=max(1, total // 2),
                share=1,
                reserve=total // 4,
            )
        )

    async def lend(
        self, wait: AbstractAsyncContextManager[RequestPermit], client: str, expires_in_s: float
    ) -> LentPermit:
        """Wait for the permit, and lend it. Raises what `wait` raises, and Problem if too many are
        lent already; those that only wait do not count. Cancelled, it leaves no trace."""
        self._room.check(client)
        granted: asyncio.Future[_Lent] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._lend(wait, client, granted))
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        try:
            lent = await granted
        except BaseException:
            task.cancel()
            raise
        self._lent[lent.name] = lent
        return self.renew(lent.name, expires_in_s)

    async def _lend(
        self,
        wait: AbstractAsyncContextManager[RequestPermit],
        client: str,
        granted: asyncio.Future[_Lent],
    ) -> None:
        lent: _Lent | None = None
        try:
            async with wait as permit:
                with self._room.taken(client):
                    lent = _Lent(permit, self._clock.monotonic() + LENT_S_MAX)
                    if granted.done():
                        return  # the client has left
                    granted.set_result(lent)
                    await lent.over.wait()
        except Exception as error:  # noqa: BLE001 - it is the client's to deal with
            if not granted.done():
                granted.set_exception(error)
            else:
                contained("ending a permit of an API client", error)
        finally:
            if lent is not None:
                self._lent.pop(lent.name, None)
                if lent.timer is not None:
                    lent.timer.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    def renew(self, name: str, expires_in_s: float) -> LentPermit:
        """The permit expires `expires_in_s` from now, or LENT_S_MAX after it was granted. Raises
        Problem."""
        lent = self._get(name)
        if lent.timer is not None:
            lent.timer.cancel()
        now_s = self._clock.monotonic()
        expires_in_s = min(expires_in_s, lent.until_s - now_s)
        at_s = now_s + expires_in_s
        lent.timer = self._clock.call_at(at_s, lent.over.set)
        permit = lent.permit
        return LentPermit(id=name, url=permit.url, method=permit.method, expires_in_s=expires_in_s)

    async def end(self, name: str, status: int | None, headers: Mapping[str, str]) -> None:
        """End a permit; the host learns from the status and headers, if there are any. Raises
        Problem and InvalidRequest."""
        lent = self._get(name)
        if status is not None:
            lent.permit.record(status, headers)
        del self._lent[name]
        lent.over.set()

    def _get(self, name: str) -> _Lent:
        lent = self._lent.get(name)
        if lent is None or lent.over.is_set():
            raise Problem(404, "this permit has ended, or has never existed", kind="permit-ended")
        return lent

    async def close(self) -> None:
        """End all; none outlives the crawl."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""A Fetcher over the caller's own aiohttp ClientSessions.

robots.txt is fetched through them, and the requests that the caller makes are tracked from their
permit until their response is read or released.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import Future
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp import (
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientTimeout,
    ThreadedResolver,
)
from aiohttp.abc import AbstractResolver
from msgspec import structs
from multidict import CIMultiDict
from yarl import URL

from crawler.clock import Clock
from crawler.config import Config, ConfigError, check_identity
from crawler.fetching.exchange import Exchange, Phase
from crawler.fetching.network_errors import NETWORK_EXCEPTIONS, classify_error, send_once
from crawler.fetching.request import (
    DEFAULT_LIMITS,
    Answer,
    Failure,
    NetworkError,
    Request,
    readable,
)
from crawler.fetching.resolver import Resolver
from policies.header_field import is_of_connection, may_leave_origin
from policies.retries import FailureCode
from policies.url import host_of, origin_of

_NO_CLIENT: Final = NetworkError(FailureCode.CONNECT, "the ClientSession is closed")
ORIGINS_MAX: Final = 4_096  # whose secret headers are remembered
_IDENTITY: Final = frozenset({"user-agent", "from"})


class ThreadedNames(Resolver):
    """Resolves names with getaddrinfo, as aiohttp's own connectors do by default."""

    def new_system_resolver(self) -> AbstractResolver:
        return ThreadedResolver()


class GuardedConnector(aiohttp.TCPConnector):
    """A connector whose resolver has a table of static names.

    table: host pattern to address, as in `[network] resolve`.
    """

    def __init__(self, table: Mapping[str, str], **given: Any) -> None:
        super().__init__(**given)
        self.table = table


def check_request(config: Config, request: ClientRequest, url: str) -> None:
    """Check that a request without a contact in its user agent stays on this machine (law 10).

    Where the session does not connect by `[network] resolve`, the host of the URL decides.

    url: that of the request, canonical. Raises ConfigError.
    """
    connector = request.session.connector
    resolves = (
        request.proxy is None
        and isinstance(connector, GuardedConnector)
        and connector.table == config.network.resolve
    )
    check_identity(config, [url], resolves=resolves)


class CallerRequest:
    """A request that the caller makes, from its permit until its response is read or released.

    `ended` is settled once: when the connection is released, or by the error that ended it.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self.request = Request(url=url)
        self.url = url
        self.ended: Future[Answer | Failure] = asyncio.get_running_loop().create_future()
        self._clock = clock
        self._started_s = clock.monotonic()
        self._response: ClientResponse | None = None
        self._bytes = -1
        self._moved_s = self._started_s

    def answered(self, response: ClientResponse) -> None:
        """The header has arrived. If the body has as well, the request has ended."""
        self._response = response
        self._moved_s = self._clock.monotonic()
        connection = response.connection
        if connection is None:
            self._end()
        else:
            connection.add_callback(self._end)

    def failed(self, error: BaseException) -> None:
        if self.ended.done():
            return
        if isinstance(error, NETWORK_EXCEPTIONS):
            found = _network_error(error, self.url, self._clock, Phase.WAITING)
            failure = found.failure(
                self.url, started_s=self._started_s, ended_s=self._clock.monotonic()
            )
            self.ended.set_result(failure)
        else:
            self.ended.cancel()  # cancelled, or not a network error: it shows nothing of the host

    def stalled_s(self, now_s: float) -> float:
        """Return the seconds for which nobody has read from a response that is not at its end."""
        response = self._response
        if response is None or self.ended.done():
            return 0.0
        count = response.content.total_bytes
        if count != self._bytes:
            self._bytes = count
            self._moved_s = now_s
        return now_s - self._moved_s

    def _end(self) -> None:
        response = self._response
        if response is not None and not self.ended.done():
            self.ended.set_result(_answer(self.url, response, self._started_s, self._clock))


class ClientFetcher:
    """A Fetcher over the ClientSessions that were used last.

    The request of a CallerRequest is not sent: `fetch` waits until the caller's own has ended.
    """

    def __init__(self, clock: Clock, *, config: Config, headers: dict[str, str]) -> None:
        self._clock = clock
        self._config = config
        self._headers = headers
        self._clients: list[weakref.ref[aiohttp.ClientSession]] = []
        self._caller_requests: dict[int, CallerRequest] = {}
        self._secrets: dict[str, CIMultiDict[str]] = {}  # by origin: headers that the caller sent

    def use(self, client: aiohttp.ClientSession, url: str, headers: CIMultiDict[str]) -> None:
        """Fetch with this session from now on. The caller is about to request `url` (canonical)
        with `headers`."""
        name = origin_of(url)
        self._secrets.pop(name, None)
        secrets = CIMultiDict((key, value) for key, value in headers.items() if not is_public(key))
        if secrets:
            self._secrets[name] = secrets
            if len(self._secrets) > ORIGINS_MAX:
                del self._secrets[next(iter(self._secrets))]
        if not self._clients or self._clients[-1]() is not client:
            self._clients = [ref for ref in self._clients if ref() not in (None, client)]
            self._clients.append(weakref.ref(client))

    def watch(self, request: CallerRequest) -> None:
        """Expect a caller's request. To be called before `fetch` is called with it."""
        self._caller_requests[id(request.request)] = request

    async def address_of(self, host: str) -> str | Failure:
        error = NetworkError(
            FailureCode.DNS, "a ClientSession does not reveal the address it connects to"
        )
        now_s = self._clock.monotonic()
        return error.failure(host, started_s=now_s, ended_s=now_s)

    async def fetch(self, request: Request) -> Answer | Failure:
        caller_request = self._caller_requests.pop(id(request), None)
        if caller_request is not None:
            return await caller_request.ended
        started_s = self._clock.monotonic()
        clients = [c for ref in self._clients[::-1] if (c := ref()) and not c.closed]
        for client in clients:
            try:
                return await self._fetch_with(client, request, started_s)
            except ConfigError:
                continue  # it would leave this machine; another session may resolve the name itself
        error = _beyond(host_of(request.url)) if clients else _NO_CLIENT
        return error.failure(request.url, started_s=started_s, ended_s=self._clock.monotonic())

    async def _fetch_with(
        self, client: aiohttp.ClientSession, request: Request, started_s: float
    ) -> Answer | Failure:
        """Raises ConfigError if the request would leave this machine and must not."""
        response: ClientResponse | None = None
        try:
            async with client.request(
                request.method,
                URL(request.url, encoded=True),
                allow_redirects=False,
                headers={**self._headers, **request.headers},
                timeout=ClientTimeout(
                    total=request.limits.timeout_s, connect=request.limits.connect_s
                ),
                # They replace the session's own, of which the polite middleware is one.
                middlewares=(partial(self._guard, frozenset(request.headers)), send_once),
                raise_for_status=False,
            ) as response:
                body, cut = await _read(response, request.limits.body_bytes_max)
        except NETWORK_EXCEPTIONS as exc:
            phase = Phase.WAITING if response is None else Phase.READING
            error = _network_error(exc, request.url, self._clock, phase)
            return structs.replace(
                error.failure(request.url, started_s=started_s, ended_s=self._clock.monotonic()),
                status=None if response is None else response.status,
                headers=None if response is None else readable(response.headers),
            )
        return structs.replace(
            _answer(request.url, response, started_s, self._clock),
            body=body,
            body_read=True,
            cut=cut,
            wire_bytes=len(body),
        )

    async def _guard(
        self, own: frozenset[str], request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """A client middleware that withholds what may be the session's secrets. own: the names of
        the headers that belong to this very request.

        A session adds its own headers, cookies and credentials to each request. Here they are sent
        only to origins to which the caller sends them itself, not to wherever a redirect leads.
        Without a contact, no redirect leads off this machine. Raises ConfigError.
        """
        check_request(self._config, request, str(request.url))
        sent = self._secrets.get(origin_of(str(request.url)), CIMultiDict[str]())
        for name in {name for name in request.headers if not is_public(name)} - own:
            if name not in sent or request.headers.getall(name) != sent.getall(name):
                del request.headers[name]
        return await handler(request)


def is_public(name: str) -> bool:
    """Return whether a header of a session may be sent to any origin."""
    lower = name.lower()
    of_connection = is_of_connection(lower) and not lower.startswith("proxy-")
    return of_connection or may_leave_origin(lower) or lower in _IDENTITY


def _beyond(host: str) -> NetworkError:
    return NetworkError(
        FailureCode.ADDRESS,
        f"{host} is not on this machine, and without a contact in crawl.user_agent only this "
        "machine may be connected to",
        permanent=True,
    )


def _answer(url: str, response: ClientResponse, started_s: float, clock: Clock) -> Answer:
    """The answer without its body."""
    return Answer(
        url=url,
        status=response.status,
        headers=readable(response.headers),
        body=b"",
        body_read=False,
        cut=False,
        wire_bytes=0,
        started_s=started_s,
        ended_s=clock.monotonic(),
        address=None,
    )


async def _read(response: ClientResponse, bytes_max: int) -> tuple[bytes, bool]:
    """The body up to its limit, and whether the limit cut it."""
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            response.close()
            return b"".join(pieces)[:bytes_max], True
    return b"".join(pieces), False


def _network_error(error: BaseException, url: str, clock: Clock, phase: Phase) -> NetworkError:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return NetworkError(FailureCode.CONNECT, "the connection timed out")
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientOSError):
        return NetworkError(FailureCode.TIMEOUT, "the response was not complete before the timeout")
    task = asyncio.current_task()
    assert task is not None
    exchange = Exchange(clock, DEFAULT_LIMITS, task, False)
    exchange.phase = phase
    exchange.finish()
    return classify_error(error, exchange, tls=url.startswith("https:"))

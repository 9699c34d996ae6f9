"""An aiohttp ClientSession of somebody else's, seen as a Fetcher: robots.txt is fetched through it,
and requests that their owner makes with it are watched from their turn to their end."""

from __future__ import annotations

import asyncio
import weakref
from asyncio import Future
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, ClientTimeout
from multidict import CIMultiDict
from yarl import URL

from crawler.clock import Clock
from crawler.config import Config, ConfigError, check_identity
from crawler.fetching.exchange import Exchange, Phase
from crawler.fetching.header import readable
from crawler.fetching.request import DEFAULT_LIMITS, Answer, Failure, Request, may_be_secret
from crawler.fetching.trouble import NETWORK_ERRORS, Trouble, once, trouble
from policies.retry import FailureCode
from policies.url import host_of, origin_of

_NO_CLIENT: Final = Trouble(FailureCode.CONNECT, "the ClientSession to ask with is closed")
ORIGINS_MAX: Final = 4_096  # whose secret headers are remembered


class GuardedConnector(aiohttp.TCPConnector):
    """A connector whose resolver has a table of static names.

    table: host pattern to address, as `[network] resolve` has them.
    """

    def __init__(self, table: Mapping[str, str], **given: Any) -> None:
        super().__init__(**given)
        self.table = table


def check_request(config: Config, request: ClientRequest, url: str) -> None:
    """Check that a request without a contact in its user agent stays on this machine. Where the
    session does not connect by our `[network] resolve`, the host of the URL decides.

    url: that of the request, canonical. Raises ConfigError.
    """
    connector = request.session.connector
    resolves = (
        request.proxy is None
        and isinstance(connector, GuardedConnector)
        and connector.table == config.network.resolve
    )
    check_identity(config, [url], resolves=resolves)


class Contact:
    """One request in the hands of its owner, from its turn until its response is read or let go.

    `ended` is settled once, by the release of the connection or by what went wrong.
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
        """The header is there. The contact has ended if the body is, else when it is released."""
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
        if isinstance(error, NETWORK_ERRORS):
            task = asyncio.current_task()
            assert task is not None
            tls = self.url.startswith("https:")
            problem = _trouble(error, self._clock, task, Phase.WAITING, tls=tls)
            self.ended.set_result(_failure(self.url, problem, self._started_s, self._clock))
        else:
            self.ended.cancel()  # cancelled, or not of the network: nothing is learned from it

    def stalled_s(self, now_s: float) -> float:
        """For how long nobody has read on, although there is a response to read."""
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
            headers = readable(response.headers)
            self.ended.set_result(
                Answer(
                    url=self.url,
                    status=response.status,
                    headers=headers,
                    body=b"",
                    body_read=False,
                    cut=False,
                    wire_bytes=0,
                    started_s=self._started_s,
                    ended_s=self._clock.monotonic(),
                    address=None,
                )
            )


class ClientFetcher:
    """A Fetcher over the ClientSessions that were seen last; a Contact's request is not made but
    waited for."""

    def __init__(self, clock: Clock, *, config: Config, headers: dict[str, str]) -> None:
        self._clock = clock
        self._config = config
        self._headers = headers
        self._clients: list[weakref.ref[aiohttp.ClientSession]] = []
        self._contacts: dict[int, Contact] = {}
        self._secrets: dict[str, CIMultiDict[str]] = {}  # by origin: what its owner sent there

    def use(self, client: aiohttp.ClientSession, url: str, headers: CIMultiDict[str]) -> None:
        """Ask with this one from now on. Its owner is about to ask for `url` (canonical) with
        `headers`."""
        name = origin_of(url)
        self._secrets.pop(name, None)
        secrets = CIMultiDict((key, value) for key, value in headers.items() if may_be_secret(key))
        if secrets:
            self._secrets[name] = secrets
            if len(self._secrets) > ORIGINS_MAX:
                del self._secrets[next(iter(self._secrets))]
        if not self._clients or self._clients[-1]() is not client:
            self._clients = [ref for ref in self._clients if ref() not in (None, client)]
            self._clients.append(weakref.ref(client))

    def watch(self, contact: Contact) -> None:
        """To be called before the request of `contact` comes to `fetch`."""
        self._contacts[id(contact.request)] = contact

    async def address_of(self, host: str) -> str | Failure:
        problem = Trouble(FailureCode.DNS, "a ClientSession does not say what it connects to")
        return _failure(host, problem, self._clock.monotonic(), self._clock)

    async def fetch(self, request: Request) -> Answer | Failure:
        contact = self._contacts.pop(id(request), None)
        if contact is not None:
            return await contact.ended
        started_s = self._clock.monotonic()
        clients = [c for ref in self._clients[::-1] if (c := ref()) and not c.closed]
        for client in clients:
            try:
                return await self._ask(client, request, started_s)
            except ConfigError:
                continue  # it would leave this machine; another session may resolve the name itself
        problem = _beyond(host_of(request.url)) if clients else _NO_CLIENT
        return _failure(request.url, problem, started_s, self._clock)

    async def _ask(
        self, client: aiohttp.ClientSession, request: Request, started_s: float
    ) -> Answer | Failure:
        """Raises ConfigError if the request may not leave this machine, and would."""
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
                # Instead of the session's, this one's owner among them.
                middlewares=(self._permitted, once),
                raise_for_status=False,
            ) as response:
                body, cut = await _read(response, request.limits.body_bytes_max)
        except NETWORK_ERRORS as error:
            task = asyncio.current_task()
            assert task is not None
            phase = Phase.WAITING if response is None else Phase.READING
            tls = request.url.startswith("https:")
            problem = _trouble(error, self._clock, task, phase, tls=tls)
            status = None if response is None else response.status
            return _failure(request.url, problem, started_s, self._clock, status)
        headers = readable(response.headers)
        return Answer(
            url=request.url,
            status=response.status,
            headers=headers,
            body=body,
            body_read=True,
            cut=cut,
            wire_bytes=len(body),
            started_s=started_s,
            ended_s=self._clock.monotonic(),
            address=None,
        )

    async def _permitted(
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """A client middleware. The session adds its own headers, cookies and auth to each request:
        here they go only to origins to which its owner sends them, and not to wherever a redirect
        leads. Without a contact, no redirect leads off this machine. Raises ConfigError."""
        check_request(self._config, request, str(request.url))
        sent = self._secrets.get(origin_of(str(request.url)), CIMultiDict[str]())
        for name in {name for name in request.headers if may_be_secret(name)}:
            if name not in sent or request.headers.getall(name) != sent.getall(name):
                del request.headers[name]
        return await handler(request)


def _beyond(host: str) -> Trouble:
    return Trouble(
        FailureCode.ADDRESS,
        f"{host} is beyond this machine, and without a contact in crawl.user_agent only this "
        "machine may be connected to",
        permanent=True,
    )


async def _read(response: ClientResponse, bytes_max: int) -> tuple[bytes, bool]:
    """The body up to its bound, and whether that cut it."""
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            response.close()
            return b"".join(pieces)[:bytes_max], True
    return b"".join(pieces), False


def _trouble(
    error: BaseException, clock: Clock, task: asyncio.Task[object], phase: Phase, *, tls: bool
) -> Trouble:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Trouble(FailureCode.CONNECT, "no connection in time")
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientOSError):
        return Trouble(FailureCode.TIMEOUT, "the answer was not complete in time")
    exchange = Exchange(clock, DEFAULT_LIMITS, task, False)
    exchange.phase = phase
    exchange.finish()
    return trouble(error, exchange, DEFAULT_LIMITS, tls=tls)


def _failure(
    url: str, problem: Trouble, started_s: float, clock: Clock, status: int | None = None
) -> Failure:
    ended_s = clock.monotonic()
    return problem.failure(url, started_s=started_s, ended_s=ended_s, status=status)

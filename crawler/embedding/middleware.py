"""A client middleware that adds politeness to an existing aiohttp ClientSession."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.http import SERVER_SOFTWARE
from aiohttp.payload import Payload

from crawler.clock import Clock, RealClock, Timer
from crawler.config import Config, ConfigError
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_verdicts import NextTurn, canonical_url
from crawler.embedding.owned_resource import OwnedResource
from crawler.embedding.permit import with_time_to_connect
from crawler.embedding.request_arguments import check_client_request
from crawler.embedding.settings import (
    Dialects,
    Duration,
    Given,
    OneOrMore,
    paces,
    settings,
    setup_of,
)
from crawler.errors import CourtlyError, InvalidRequest, ResponseUnread
from crawler.fetching.client_session import (
    CallerRequest,
    ClientFetcher,
    GuardedConnector,
    ThreadedNames,
    check_request,
    is_public,
)
from crawler.fetching.fetcher import KEEPALIVE_S
from crawler.fetching.guard import address_rules, socket_guard
from crawler.frontier.host_queue import Permit
from crawler.observer import Observer
from policies.pacing import Per
from policies.url import host_of

# How long a request waits for an unread response of the same host. A server may pause this long
# within a body; a response that is being read, however slowly, does not count.
UNREAD_MAX_S: Final = 60.0
_SAFE: Final = frozenset({"GET", "HEAD"})


class Politeness:
    """An aiohttp client middleware: each request obeys robots.txt and waits for its host's delay.

    ```python
    async with (
        Politeness(user_agent="examplebot/1.0 (+https://example.com/bot)") as polite,
        aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
        session.get("https://example.com/a") as response,
    ):
        print(response.status, await response.text())
    ```

    The arguments are those of `PoliteSession`. A request raises RobotsDisallowed,
    RobotsUnreachable, FetchFailed (its host was given up for now), InvalidRequest (its headers do
    not fit its URL or body), ConfigError and StoreError, all of which are instances of
    `aiohttp.ClientError` as well; otherwise what aiohttp raises. Each hop of a redirect is a
    request of its own here, and so is one that aiohttp sends again after a disconnect. The
    User-Agent and From headers are set unless the request or the session sets its own.

    Limitations: `ClientTimeout.total` includes the wait for permission (set `sock_read` and
    `sock_connect` instead). Body sizes and private addresses are limited only by the session's
    connector (`connector()` returns a guarded one). A contact lasts until its response is read or
    released, so a request to a host with an unread response waits, and raises ResponseUnread after
    UNREAD_MAX_S. `per = "ip"` needs PoliteSession.
    """

    def __init__(
        self,
        *,
        user_agent: str | None = None,
        config: Given = None,
        db: str | Path | None = None,
        delay: Duration | None = None,
        allow: OneOrMore = (),
        dialect: Dialects = (),
        observer: Observer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._setup = setup_of(
            config=config,
            db=db,
            observer=observer,
            clock=clock,
            user_agent=user_agent,
            delay=delay,
            allow=allow,
            dialect=dialect,
        )
        self._config = self._setup.config
        if Per.IP in paces(self._config):
            raise ConfigError(
                'politeness.per = "ip": an aiohttp ClientSession does not say which address it '
                "connects to; use PoliteSession"
            )
        self._fetcher: ClientFetcher | None = None
        self._client: OwnedResource[CallerGate] = OwnedResource("middleware")
        self._chains = RedirectChains()
        self._open: dict[str, set[CallerRequest]] = {}  # by slot

    async def __aenter__(self) -> Self:
        from crawler.embedding.embed import caller_gate  # loads what the database needs

        clock = self._setup.clock or RealClock()
        fetcher = ClientFetcher(clock, config=self._config, headers=_identity(self._config))
        used = replace(self._setup, clock=clock, fetcher=fetcher)
        await self._client.open(caller_gate(used, name="middleware"))
        self._fetcher = fetcher
        return self

    async def open(self) -> Self:
        """Open it without a block, as in a notebook, and return it; `aclose` closes it. Raises as
        entering the block does."""
        return await self.__aenter__()

    async def aclose(self) -> None:
        """Close it. Does nothing if it is closed. Raises WrongEventLoop."""
        await self.__aexit__(None, None, None)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close(kind, error, trace)

    def _opened(self) -> tuple[CallerGate, ClientFetcher]:
        client = self._client.get()
        assert self._fetcher is not None
        return client, self._fetcher

    # ------------------------------------------------------------ a request

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send one request; called by aiohttp. Every error is a ClientError of aiohttp as well."""
        with client_errors():
            return await self._send(request, handler)

    async def _send(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        client, fetcher = self._opened()
        url = str(request.url)
        url = canonical_url("http" + url[2:] if url.startswith("ws") else url)
        check_request(self._config, request, url)
        check_client_request(request)
        self._chains.pass_on(request)
        for name, value in _identity(self._config).items():
            if request.headers.get(name, SERVER_SOFTWARE) == SERVER_SOFTWARE:
                request.headers[name] = value
        fetcher.use(request.session, url, request.headers)
        permit = await with_time_to_connect(client, lambda: self._enter(client, url))
        contact = CallerRequest(url, client.clock)
        fetcher.watch(contact)
        slot = permit.host.slot
        self._open.setdefault(slot, set()).add(contact)
        job = client.watch(permit, contact.request)
        job.add_done_callback(lambda _: self._forget(slot, contact))
        try:
            response = await handler(request)
        except BaseException as error:
            contact.failed(error)
            raise
        contact.answered(response)
        return response

    async def _enter(self, client: CallerGate, url: str) -> Permit:
        """Wait for the permit, but only UNREAD_MAX_S while a response of its host is unread."""
        slot = client.slot_of(host_of(url))
        loop, clock = asyncio.get_running_loop(), client.clock
        unread: list[CallerRequest] = []
        limit = asyncio.timeout(None)
        timer: Timer | None = None

        def look() -> None:
            nonlocal timer
            now_s = clock.monotonic()
            stalls = {one: one.stalled_s(now_s) for one in self._open.get(slot, ())}
            unread.extend(one for one, for_s in stalls.items() if for_s >= UNREAD_MAX_S)
            if unread:
                limit.reschedule(loop.time())
            else:
                left_s = UNREAD_MAX_S - max(stalls.values(), default=0.0)
                timer = clock.call_at(now_s + left_s, look)

        for one in self._open.get(slot, ()):
            one.stalled_s(clock.monotonic())  # what has come so far is seen; from here on it counts
        timer = clock.call_at(clock.monotonic() + UNREAD_MAX_S, look)
        try:
            async with limit:
                return await client.enter(url)
        except TimeoutError:
            if not unread:
                raise
            raise ResponseUnread(
                f"{url} is waiting for its host: the response from {unread[0].url} has not been "
                f"read for {UNREAD_MAX_S:g} s. Read it, or leave its `async with` block, before "
                "sending another request."
            ) from None
        finally:
            timer.cancel()

    def _forget(self, slot: str, contact: CallerRequest) -> None:
        if contacts := self._open.get(slot):
            contacts.discard(contact)
            if not contacts:
                del self._open[slot]

    # ------------------------------------------------------------ other methods

    async def next_turn(self, url: str) -> NextTurn:
        """Return when the URL's host may be contacted next, why not now, and how many callers
        wait."""
        return await self._opened()[0].next_turn(canonical_url(url))

    def connector(self, *, limit: int = 100) -> aiohttp.TCPConnector:
        """Return a guarded connector for the ClientSession; see `guarded_connector`."""
        return guarded_connector(self._config, limit=limit)


def guarded_connector(
    config: Given = None,
    *,
    user_agent: str | None = None,
    allow: OneOrMore = (),
    limit: int = 100,
) -> aiohttp.TCPConnector:
    """Return a connector that refuses private addresses, whether from a literal, a name, a redirect
    or a changed name. Without a contact in the user agent it connects to loopback only, if allowed.

    allow: private address ranges that may be connected to. `[network] resolve` of the config
    applies too. limit: maximum of simultaneous connections. Call it inside the event loop.
    """
    config = settings(config, user_agent=user_agent, allow=allow)
    addresses = address_rules(config)
    return GuardedConnector(
        config.network.resolve,
        limit=limit,
        keepalive_timeout=KEEPALIVE_S,
        resolver=ThreadedNames(config.network.resolve, addresses, RealClock()),
        use_dns_cache=False,  # the resolver has its own
        socket_factory=socket_guard(addresses),
    )


def _identity(config: Config) -> dict[str, str]:
    headers = {"User-Agent": config.user_agent_sent}
    if config.crawl.from_:
        headers["From"] = config.crawl.from_
    return headers


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise every CourtlyError of the block as an instance of its class and of ClientError: code
    that catches `aiohttp.ClientError` around a request of its session works unchanged."""
    try:
        yield
    except aiohttp.ClientError:
        raise
    except CourtlyError as error:
        raised = _as_client_error(type(error), error.args, error.__dict__)
        raise raised.with_traceback(error.__traceback__) from error.__cause__


def _as_client_error(
    kind: type[CourtlyError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> CourtlyError:
    both = _client_error_class(kind)  # type: ignore[arg-type]  # a class is hashable
    error = both.__new__(both)
    error.args = args
    error.__dict__.update(attributes)
    return error


@functools.cache
def _client_error_class(kind: type[CourtlyError]) -> type[CourtlyError]:
    """The class derived from this one and from ClientError. It has the name and the docstring of
    the first, and is pickled by it."""

    def reduce(error: CourtlyError) -> tuple[object, ...]:
        return _as_client_error, (kind, error.args, error.__dict__)

    return type(
        kind.__name__,
        (kind, aiohttp.ClientError),
        {"__doc__": kind.__doc__, "__module__": kind.__module__, "__reduce__": reduce},
    )


class RedirectChains:
    """Knows which requests of aiohttp's client follow a redirect, and drops what must not follow.

    All hops of one call share its timer. The last call of each task is remembered.
    """

    def __init__(self) -> None:
        self._last: ContextVar[tuple[object, str, bool] | None] = ContextVar("hop", default=None)

    def pass_on(self, request: ClientRequest) -> None:
        """Called before a hop is sent: if it, or one before it, left the origin of the one before,
        drop all headers but harmless ones, and the cookies that its own jar does not have for it.
        Raises InvalidRequest if it would take a body or an unsafe method to another origin."""
        call, origin = request._timer, str(request.url.origin())  # noqa: SLF001
        last = self._last.get()
        left = False
        if last is not None and last[0] is call:
            left = last[2] or last[1] != origin
        self._last.set((call, origin, left))
        if not left:
            return
        if request.method not in _SAFE or isinstance(request.body, Payload) or request.body:
            raise InvalidRequest(
                "allow_redirects",
                f"a redirect leads to another origin, {origin}: neither a {request.method} request "
                "nor a body is sent on to it",
            )
        for name in {name for name in request.headers if not is_public(name)}:
            del request.headers[name]
        if cookies := request.session.cookie_jar.filter_cookies(request.url):
            request.headers["Cookie"] = cookies.output(attrs=[], header="", sep=";").strip()

"""Politeness for code that has an aiohttp ClientSession already: a client middleware."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.http import SERVER_SOFTWARE

from crawler.clock import Clock, RealClock, Timer
from crawler.config import Config, ConfigError
from crawler.embedding.caller_verdicts import NextTurn, canonical_url
from crawler.embedding.lasting import Lasting
from crawler.embedding.polite_client import PoliteClient
from crawler.embedding.settings import Given, paces, settings
from crawler.errors import ResponseUnread
from crawler.fetching.client_session import (
    CallerRequest,
    ClientFetcher,
    GuardedConnector,
    ThreadedNames,
    check_request,
)
from crawler.fetching.fetcher import KEEPALIVE_S
from crawler.fetching.guard import address_rules, socket_guard
from crawler.frontier.host_queue import Permit
from policies.pacing import Per
from policies.url import host_of

# For so long a request waits for a response of the same host that nobody reads. A server may pause
# in the middle of a body for as long as this; who reads on, however slowly, is waited for.
HOLD_MAX_S: Final = 60.0


class Politeness:
    """An aiohttp client middleware: each request waits for its turn, under robots.txt's verdict.

    ```python
    async with (
        Politeness(user_agent="examplebot/1.0 (+https://example.com/bot)") as polite,
        aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
        session.get("https://example.com/a") as response,
    ):
        print(response.status, await response.text())
    ```

    The arguments are those of `PoliteSession`. A request raises RobotsDisallowed,
    RobotsUnreachable, FetchFailed (its host was given up for now), ConfigError and StoreError;
    otherwise what aiohttp raises. Each hop of a redirect is a request of its own here, and so is
    one that aiohttp sends again after a disconnect. The User-Agent and From headers are set unless
    the request or the session sets its own.

    What it cannot keep: `ClientTimeout.total` includes the wait for the turn (bound `sock_read` and
    `sock_connect` instead); bodies are as long, and addresses as private, as the session's own
    connector lets them be (`connector()` makes one that is guarded); a contact lasts until its
    response is read or released, so that who asks a host again with a response of it unread waits
    for himself: after HOLD_MAX_S that raises ResponseUnread. `per = "ip"` needs PoliteSession.
    """

    def __init__(
        self,
        *,
        user_agent: str | None = None,
        config: Given = None,
        db: str | Path | None = None,
        delay: float | None = None,
        allow: str | tuple[str, ...] | list[str] = (),
        dialect: str | tuple[str, ...] | list[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._config = settings(
            config, user_agent=user_agent, delay=delay, allow=allow, dialect=dialect
        )
        if Per.IP in paces(self._config):
            raise ConfigError(
                'politeness.per = "ip": an aiohttp ClientSession does not say which address it '
                "connects to; use PoliteSession"
            )
        self._db = db
        self._clock = clock
        self._fetcher: ClientFetcher | None = None
        self._client: Lasting[PoliteClient] = Lasting(
            "Politeness is not open: it lasts as long as its `async with`"
        )
        self._open: dict[str, set[CallerRequest]] = {}  # by slot

    async def __aenter__(self) -> Self:
        from crawler.embedding.embed import polite_client  # loads what the database needs

        clock = self._clock or RealClock()
        self._fetcher = ClientFetcher(clock, config=self._config, headers=_identity(self._config))
        await self._client.open(
            polite_client(
                self._config,
                db=self._db,
                clock=clock,
                fetcher=self._fetcher,
                name="middleware",
            )
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close(kind, error, trace)

    def _opened(self) -> tuple[PoliteClient, ClientFetcher]:
        client = self._client.get()
        assert self._fetcher is not None
        return client, self._fetcher

    # ------------------------------------------------------------ a request

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """For aiohttp."""
        client, fetcher = self._opened()
        url = str(request.url)
        url = canonical_url("http" + url[2:] if url.startswith("ws") else url)
        check_request(self._config, request, url)
        for name, value in _identity(self._config).items():
            if request.headers.get(name, SERVER_SOFTWARE) == SERVER_SOFTWARE:
                request.headers[name] = value
        fetcher.use(request.session, url, request.headers)
        permit = await self._enter(client, url)
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

    async def _enter(self, client: PoliteClient, url: str) -> Permit:
        """The permit; not for ever while a response of its host is held unread."""
        slot = client.slot_of(host_of(url))
        loop, clock = asyncio.get_running_loop(), client.clock
        unread: list[CallerRequest] = []
        limit = asyncio.timeout(None)
        timer: Timer | None = None

        def look() -> None:
            nonlocal timer
            now_s = clock.monotonic()
            stalls = {one: one.stalled_s(now_s) for one in self._open.get(slot, ())}
            unread.extend(one for one, for_s in stalls.items() if for_s >= HOLD_MAX_S)
            if unread:
                limit.reschedule(loop.time())
            else:
                timer = clock.call_at(now_s + HOLD_MAX_S - max(stalls.values(), default=0.0), look)

        for one in self._open.get(slot, ()):
            one.stalled_s(clock.monotonic())  # what has come so far is seen; from here on it counts
        timer = clock.call_at(clock.monotonic() + HOLD_MAX_S, look)
        try:
            async with limit:
                return await client.enter(url)
        except TimeoutError:
            if not unread:
                raise
            raise ResponseUnread(
                f"{url} waits for its host, whose response {unread[0].url} nobody has read on for "
                f"{HOLD_MAX_S:g} s: read it, or leave its `async with`, before asking again"
            ) from None
        finally:
            timer.cancel()

    def _forget(self, slot: str, contact: CallerRequest) -> None:
        if contacts := self._open.get(slot):
            contacts.discard(contact)
            if not contacts:
                del self._open[slot]

    # ------------------------------------------------------------ beside it

    async def next_turn(self, url: str) -> NextTurn:
        """When the URL's host may be contacted next, why not before, and how many wait for it."""
        return await self._opened()[0].next_turn(canonical_url(url))

    def connector(self, *, limit: int = 100) -> aiohttp.TCPConnector:
        """A connector for the ClientSession, guarded by this config: see `guarded_connector`."""
        return guarded_connector(self._config, limit=limit)


def guarded_connector(
    config: Given = None,
    *,
    user_agent: str | None = None,
    allow: str | tuple[str, ...] | list[str] = (),
    limit: int = 100,
) -> aiohttp.TCPConnector:
    """A connector that connects to no private address, however it was come by: literals, names,
    redirects, names that change (law 9); and without a contact in the user agent only to loopback,
    where `allow` lets it (law 10).

    allow: private ranges that may be connected to. `[network] resolve` of the config counts too.
    limit: connections at once. To be made inside the event loop.
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

"""PoliteSession: the fetch layer for programs that bring their own URLs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from yarl import URL

from crawler.clock import Clock
from crawler.config import Config, ConfigError
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_verdicts import NextTurn, canonical_url
from crawler.embedding.owned_resource import OwnedResource, SharedResource, check_alone
from crawler.embedding.permit import RequestPermit
from crawler.embedding.request_arguments import (
    Body,
    Fields,
    PermitArguments,
    RequestOptions,
    read_arguments,
)
from crawler.embedding.response import Response
from crawler.embedding.session_requests import LocalRequests, SessionRequests
from crawler.embedding.settings import Dialects, Duration, Given, OneOrMore, setup_of
from crawler.embedding.streaming import StreamedResponse
from crawler.fetching.request import Fetcher
from crawler.observer import Observer
from policies.robots_state import RobotsState

if TYPE_CHECKING:
    from crawler.embedding.remote_requests import RemoteRequests
    from crawler.embedding.response_cache import ResponseCache


class PoliteSession:
    """Fetches politely: obeys robots.txt, keeps a delay between requests to a host, and serves
    concurrent callers of a host in order.

    ```python
    async with PoliteSession(user_agent="examplebot/1.0 (+https://example.com/bot)") as session:
        response = await session.get("https://example.com/a")
        print(response.status, response.text)
    ```

    user_agent: the crawler's name with a contact (a URL or an e-mail address); required beyond
    loopback.
    config: a path, a dict shaped like the TOML file, or a Config; the other arguments override it.
    db: a database that keeps host clocks and robots.txt copies for later sessions and across
    crashes. Without one they are lost when the session closes.
    delay: minimum time between requests to a host, in seconds or as a string such as "2s".
    allow: private address ranges that may be connected to.
    dialect: how robots.txt is read: names, or constants of `policies.robots` (`robots.GOOGLE`).
    observer: is called at the end of each wait and contact; see `crawler.Observer`.
    cache: a file with the responses of earlier sessions, for development: what is in it is returned
    without a contact and without asking robots.txt. It is created if there is none.
    share: another PoliteSession, whose clocks, robots.txt copies, config and connections this one
    uses; only cache can be given with it. It must be open, and stay open, in the same event loop.
    via: send every request through another process, on its clocks and by its config: the address of
    a daemon ("http://127.0.0.1:8710", with its token), or the path of a database, for the crawl
    that holds it; if none does, the session opens the database itself.
    clock, fetcher: replacements for tests (`crawler.testing`).

    Requests wait as long as politeness requires. Bound the wait with `asyncio.timeout`; cancelling
    a call is always safe. Raises ConfigError, and on opening StoreRefused if the database is in use
    by another process, and SessionClosed if a daemon does not answer. Its methods raise
    CourtlyError (see `crawler.errors`), ConfigError and StoreError.
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
        cache: str | Path | None = None,
        via: str | Path | None = None,
        token: str | None = None,
        clock: Clock | None = None,
        fetcher: Fetcher | None = None,
        share: PoliteSession | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "user_agent": user_agent,
            "config": config,
            "db": db,
            "delay": delay,
            "allow": allow,
            "dialect": dialect,
            "observer": observer,
            "clock": clock,
            "fetcher": fetcher,
        }
        self._shared: SharedResource[CallerGate | RemoteRequests] | None = None
        if share is not None:
            check_alone({**options, "via": via, "token": token})
            if not isinstance(share, PoliteSession):
                raise ConfigError(f"share: expected a PoliteSession, not {type(share).__name__}")
            options = {"config": share.config}
            self._shared = SharedResource(share._client)  # noqa: SLF001 - of the same class
        elif via is not None or token is not None:
            from crawler.embedding.via import check_via

            check_via(via, token, {**options, "cache": cache})
        self._setup = setup_of(**options)
        self._via = via
        self._token = token
        self._cache = None if cache is None else _response_cache(cache)
        self._client: OwnedResource[CallerGate | RemoteRequests] = self._shared or OwnedResource(
            "session"
        )

    @property
    def config(self) -> Config:
        return self._setup.config

    async def __aenter__(self) -> Self:
        await self._client.open(self._opened())
        return self

    def _opened(self) -> AbstractAsyncContextManager[CallerGate | RemoteRequests]:
        from crawler.embedding.embed import caller_gate  # loads what the database needs

        if self._shared is not None:
            return self._shared.lent()
        if self._via is not None:
            from crawler.embedding.via import through

            return through(self._via, self._token, self._setup)
        return caller_gate(self._setup)

    def _requests(self) -> SessionRequests:
        client = self._client.get()
        if isinstance(client, CallerGate):
            return LocalRequests(client, self._cache)
        if self._cache is not None:
            raise ConfigError("cache: the session given as share sends its requests via another")
        return client

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

    # ------------------------------------------------------------ fetching

    async def get(self, url: str | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send a GET request and return the response, of any status. The options are those of
        `fetch`."""
        return await self.fetch(url, **options)

    async def head(self, url: str | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send a HEAD request and return the response, of any status. The options are those of
        `fetch`."""
        return await self.fetch(url, method="HEAD", **options)

    async def post(self, url: str | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send a POST request, which is never repeated, and return the response, of any status. The
        options are those of `fetch`."""
        return await self.fetch(url, method="POST", **options)

    async def fetch(
        self,
        url: str | URL,
        *,
        method: str = "GET",
        params: Fields | str | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: Fields | str | Body | None = None,
        body: Body | None = None,
        follow: bool = True,
        retry: bool = True,
        timeout_s: float | None = None,
        max_wait_s: float | None = None,
    ) -> Response:
        """Send a request when its host may be contacted, and return the response, whatever its
        status.

        params: appended to the URL's query; a mapping, a list of pairs or an encoded string. At
        most one of json (any value but None), data (a mapping or a list of pairs, sent as a form; a
        string, as UTF-8 text; or bytes) and body (bytes) is sent, with its Content-Type except for
        bytes. Headers of the connection, Host and User-Agent cannot be set.
        robots.txt applies to every method. follow: follow at most REDIRECTS_MAX redirects, each
        subject to robots.txt and to the delay of its host. To another scheme, host or port go only
        harmless headers (Accept, Accept-Language and the like), and neither a body nor a method
        other than GET and HEAD: such a redirect is returned. TRACE and CONNECT are refused.
        retry: repeat GET and HEAD requests, in the host's line, after temporary failures: network
        failures and 5xx up to `fetch.max_attempts` times, 429 and 503 (after which the host backs
        off) five times. Then the last response is returned.
        timeout_s: of each request from its permit on, instead of `fetch.timeout`; the wait for the
        permit does not count.
        max_wait_s: limits all waits of the call together: for robots.txt, for the hosts of all
        redirects, and before retries; not the requests themselves. None: it waits as long as
        politeness requires, but does not retry if that means a wait of more than RETRY_WAIT_S_MAX.

        Raises RobotsDisallowed, RobotsUnreachable, FetchFailed, TooManyRedirects, WaitTooLong (as
        soon as it is known that max_wait_s does not suffice), and before anything waits InvalidURL
        and InvalidRequest.
        """
        requests = self._requests()
        asked = read_arguments(
            url,
            method=method,
            params=params,
            headers=headers,
            json=json,
            data=data,
            body=body,
            follow=follow,
            retry=retry,
            timeout_s=timeout_s,
            max_wait_s=max_wait_s,
        )
        return await requests.fetch(asked)

    @contextlib.asynccontextmanager
    async def stream(
        self, url: str | URL, *, method: str = "GET", **options: Unpack[RequestOptions]
    ) -> AsyncIterator[StreamedResponse]:
        """Send a request as `fetch` does, and read its body, of any size, while it arrives.

        ```python
        async with session.stream(url) as response:
            async for chunk in response.chunks():
                file.write(chunk)
        ```

        The contact lasts until the body has been read or the block ends; ending the block early
        closes the connection. In the block, do not request anything from the same host before the
        body has been read. timeout_s limits the time until the body begins; after that, it must
        arrive at `fetch.min_rate` while it is being read. `fetch.max_body` applies only to the
        bodies of redirects, 429 and 5xx. A body that breaks off is not requested again.

        Raises what `fetch` raises.
        """
        requests = self._requests()
        asked = read_arguments(url, method=method, **options)
        async with requests.stream(asked) as response:
            yield response

    @contextlib.asynccontextmanager
    async def permit(
        self, url: str | URL, method: str = "GET", max_wait_s: float | None = None
    ) -> AsyncIterator[RequestPermit]:
        """Permission for a client of your own to send one request to the URL's host.

        ```python
        async with session.permit(url) as permit:
            response = await client.get(permit.url)  # one request, without redirects
            permit.record(response.status_code, response.headers)
        ```

        Waits for robots.txt and the host's turn as `get` does, at most `max_wait_s`. The contact
        lasts until the block ends, and the host's delay counts from there, however it ends; without
        `record` it counts as a contact without an answer. Each further request, such as one after a
        redirect, needs a permit of its own. Do not wait for the same host in the block.

        Your client connects by itself: addresses are checked only as far as the URL contains one.
        Raises what `fetch` raises before a request is sent.
        """
        requests = self._requests()
        asked = PermitArguments(url=canonical_url(url), method=method, max_wait_s=max_wait_s)
        async with requests.permit(asked.checked()) as permit:
            yield permit

    # ------------------------------------------------------------ inspecting

    async def may_fetch(self, url: str | URL) -> bool:
        """Return whether robots.txt allows this URL now; fetches it politely if needed. Raises
        FetchFailed if the host cannot be reached."""
        return await self._requests().may_fetch(canonical_url(url))

    async def next_turn(self, url: str | URL) -> NextTurn:
        """Return when the URL's host may be contacted next, and why not now, without contacting
        it."""
        return await self._requests().next_turn(canonical_url(url))

    async def robots(self, url: str | URL) -> RobotsState:
        """Return the state of the robots.txt of the URL's origin: the copy and its dates, or why
        there is none; fetches it politely if needed. `policies.robots_policy` interprets it. Raises
        FetchFailed if the host cannot be reached."""
        return await self._requests().robots(canonical_url(url))


def _response_cache(path: str | Path) -> ResponseCache:
    from crawler.embedding.response_cache import ResponseCache  # loads SQLite

    return ResponseCache(path)

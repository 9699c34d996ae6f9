"""PoliteSession: the fetch layer for programs that bring their own URLs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from crawler.clock import Clock
from crawler.config import Config
from crawler.embedding.caller_verdicts import NextTurn, canonical_url
from crawler.embedding.lasting import Lasting
from crawler.embedding.polite_client import PoliteClient
from crawler.embedding.response import Response
from crawler.embedding.settings import Given, settings
from crawler.errors import FetchFailed, TooManyRedirects
from crawler.fetching.header_scope import services_of
from crawler.fetching.request import (
    REDIRECT_STATUSES,
    Answer,
    Failure,
    Fetcher,
    Request,
    limits_of,
    may_be_secret,
    service_of,
)
from crawler.frontier.frontier import REFUSALS
from policies.holds import HoldReason
from policies.retries import FailureCode, GiveUp, RetryRules, after_failure, after_refusal
from policies.robots_state import RobotsState
from policies.url import canonical, host_of, origin_of

REDIRECTS_MAX: Final = 10  # browsers follow 20; more than ten are a loop
# Only safe methods are repeated (RFC 9110, section 9.2.1).
RETRIED: Final = frozenset({"GET", "HEAD"})
# These turn any other method into a GET, as browsers do for POST (RFC 9110, section 15.4).
BECOMES_GET: Final = frozenset({301, 302, 303})
OF_A_BODY: Final = frozenset({"content-type", "content-encoding", "content-language"})


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
    delay: minimum seconds between requests to a host. allow: private address ranges that may be
    connected to.
    dialect: how robots.txt is read. clock, fetcher: replacements for tests (`crawler.testing`).

    Requests wait as long as politeness requires. Bound the wait with `asyncio.timeout`; cancelling
    a call is always safe. Raises ConfigError, and StoreRefused on opening if the database is in use
    by another process. Its methods raise CourtlyError (see `crawler.errors`),
    ConfigError and StoreError.
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
        fetcher: Fetcher | None = None,
    ) -> None:
        self._config = settings(
            config, user_agent=user_agent, delay=delay, allow=allow, dialect=dialect
        )
        self._db = db
        self._clock = clock
        self._fetcher = fetcher
        self._client: Lasting[PoliteClient] = Lasting(
            "the session is not open: use it inside its `async with` block"
        )

    @property
    def config(self) -> Config:
        return self._config

    async def __aenter__(self) -> Self:
        from crawler.embedding.embed import polite_client  # loads what the database needs

        await self._client.open(
            polite_client(
                self._config,
                db=self._db,
                clock=self._clock,
                fetcher=self._fetcher,
                name="session",
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

    # ------------------------------------------------------------ fetching

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        follow: bool = True,
        retry: bool = True,
    ) -> Response:
        """Send a GET request and return the response, of any status. See `fetch`."""
        return await self.fetch(url, headers=headers, follow=follow, retry=retry)

    async def head(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        follow: bool = True,
        retry: bool = True,
    ) -> Response:
        """Send a HEAD request and return the response, of any status. See `fetch`."""
        return await self.fetch(url, method="HEAD", headers=headers, follow=follow, retry=retry)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        follow: bool = True,
        retry: bool = True,
    ) -> Response:
        """Send a request when its host may be contacted, and return the response, whatever its
        status.

        robots.txt applies to every method. follow: follow at most REDIRECTS_MAX redirects, each
        subject to robots.txt and to the delay of its host. Headers whose names suggest a secret are
        not sent to another scheme, host or port.
        retry: repeat GET and HEAD requests, in the host's line, after temporary failures: network
        failures and 5xx up to `fetch.max_attempts` times, 429 and 503 (after which the host backs
        off) five times. Then the last response is returned.

        Raises RobotsDisallowed, RobotsUnreachable, FetchFailed, TooManyRedirects, InvalidURL.
        """
        client = self._client.get()
        url = canonical_url(url)
        method = method.upper()
        sent = dict(headers or {})
        seen: list[Response] = []
        meant = _mean(client, url)
        bare = False
        while True:
            answer = await _ask(client, url, method, body, sent, retry=retry, bare=bare)
            response = Response(
                url=url,
                status=answer.status,
                headers=answer.headers,
                body=answer.body,
                elapsed_s=answer.elapsed_s,
                redirects=tuple(seen),
            )
            target = _target(answer) if follow else None
            if target is None:
                return response
            seen.append(response)
            if len(seen) > REDIRECTS_MAX:
                raise TooManyRedirects([*(one.url for one in seen), target])
            if answer.status in BECOMES_GET and method not in RETRIED:
                method, body = "GET", None
                sent = _without(sent, OF_A_BODY)
            if origin_of(target) != origin_of(url):
                sent = _public(sent)
            url = target
            bare = service_of(url) not in meant

    # ------------------------------------------------------------ inspecting

    async def may_fetch(self, url: str) -> bool:
        """Return whether robots.txt allows this URL now; fetches it politely if needed. Raises
        FetchFailed if the host cannot be reached."""
        client = self._client.get()
        url = canonical_url(url)
        _mean(client, url)
        return await client.may_fetch(url)

    async def next_turn(self, url: str) -> NextTurn:
        """Return when the URL's host may be contacted next, and why not now, without contacting
        it."""
        return await self._client.get().next_turn(canonical_url(url))

    async def robots(self, url: str) -> RobotsState:
        """Return the state of the robots.txt of the URL's origin: the copy and its dates, or why
        there is none; fetches it politely if needed. `policies.robots_policy` interprets it. Raises
        FetchFailed if the host cannot be reached."""
        client = self._client.get()
        url = canonical_url(url)
        _mean(client, url)
        return await client.robots(url)


async def _ask(
    client: PoliteClient,
    url: str,
    method: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    retry: bool,
    bare: bool,
) -> Answer:
    """Request one hop, with its retries."""
    retry = retry and method in RETRIED
    rules = client.config.site(host_of(url)).fetch
    request = Request(
        url=url,
        method=method,
        headers=headers,
        data=body,
        limits=limits_of(rules.timeout_s, rules.max_body_bytes),
        bare=bare,
    )
    attempts = refusals = 0
    while True:
        result = await client.contact(await client.enter(url), request)
        if isinstance(result, Answer) and result.status < 500 and result.status not in REFUSALS:
            return result
        attempts_max = RetryRules(max_attempts=rules.max_attempts)
        if isinstance(result, Failure):
            if result.ours is HoldReason.LEASES_EXPIRED and (retry or not result.contacted):
                continue  # with the next permit
            if result.ours is not None:
                raise FetchFailed(url, result)  # a fault of this machine: the caller decides
            if not result.connected:
                if not retry:
                    raise FetchFailed(url, result)
                continue  # a failure of the host: it is retried later, or given up
            fate = after_failure(
                result.code, attempts, attempts_max, refusals=refusals, permanent=result.permanent
            )
        elif result.status in REFUSALS:
            fate = after_refusal(refusals, attempts=attempts)
        else:
            fate = after_failure(FailureCode.HTTP, attempts, attempts_max, refusals=refusals)
        if not retry or isinstance(fate, GiveUp):
            if isinstance(result, Failure):
                raise FetchFailed(url, result)
            return result
        attempts, refusals = fate.attempts, fate.refusals
        if fate.in_s > 0:
            await client.clock.sleep_until(client.clock.monotonic() + fate.in_s)


def _target(answer: Answer) -> str | None:
    """The target of a redirect, if it is a valid URL."""
    location = answer.headers.get("Location")
    if answer.status not in REDIRECT_STATUSES or not location:
        return None
    return canonical(location, answer.url)


def _without(headers: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}


def _mean(client: PoliteClient, url: str) -> frozenset[str]:
    """Apply the config's headers to the schemes and ports that this URL stands for. A robots.txt
    redirected elsewhere is requested without them."""
    client.downloader.mean(url)
    return services_of(url)


def _public(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not may_be_secret(name)}

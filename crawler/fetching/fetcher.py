"""The fetcher: one bounded request per call, over aiohttp.

A request is sent exactly once, no redirect is followed, every address is checked before it is
connected to, and every failure has a code and a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Final, Self

import aiohttp
from msgspec import structs
from yarl import URL

from crawler.clock import Clock, ContactDeadline
from crawler.config import Config
from crawler.fetching.body import SinkFaultError, pour_body, read_body
from crawler.fetching.connection_pool import FIELD_BYTES_MAX, FIELDS_MAX, Connector, OpenConnections
from crawler.fetching.content_coding import ACCEPT_ENCODING
from crawler.fetching.cookies import Cookies
from crawler.fetching.direct import NO_TIMEOUT, DirectClient, Endpoint, RawResponse, goes_direct
from crawler.fetching.exchange import Exchange, Watchdog, enter_exchange, leave_exchange
from crawler.fetching.guard import AddressRefusedError, address_rules
from crawler.fetching.network_errors import (
    EXPIRED_ERROR,
    NETWORK_EXCEPTIONS,
    NO_PLACE_ERROR,
    PROXY_LOGIN,
    PROXY_LOGIN_ERROR,
    classify_error,
    deadline_error,
    drop_tracebacks,
    send_once,
)
from crawler.fetching.request import (
    DEFAULT_LIMITS,
    UNCONNECTED,
    Answer,
    Failure,
    Fetcher,
    FetchLimits,
    Head,
    Headers,
    NetworkError,
    NoPlaceError,
    Request,
    readable,
)
from crawler.fetching.resolver import NameLookupError, Resolver, literal_address
from crawler.fetching.site_settings import SiteSettingsTable
from policies.address import is_loopback
from policies.pacing import Per
from policies.retries import FailureCode

__all__ = [
    "AiohttpFetcher",
    "Answer",
    "Failure",
    "FetchLimits",
    "Fetcher",
    "Head",
    "Headers",
    "Request",
]

# Servers start to close idle connections after 5 s (Apache's default), and a request sent on a
# connection that is being closed is lost without an answer.
KEEPALIVE_S: Final = 4.0
# File descriptors reserved for everything but connections: the database, sinks, servers.
OTHER_FILES: Final = 128
ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

# What a proxy answers when it cannot reach the host. Its 503 cannot be told from that of an
# overloaded host, so a 503 always counts as the host's.
_GATEWAY: Final = frozenset({502, 504})
_NETWORK_LOGIN: Final = 511  # RFC 6585, 6: sent by a gateway on the way, never by the host
_BODILESS: Final = frozenset({204, 304})
_UNSENDABLE: Final = NetworkError(
    FailureCode.PROTOCOL, "the URL cannot be sent as it is written", permanent=True
)


class AiohttpFetcher:
    """The `Fetcher` of crawls and sessions; an async context manager.

    cookies: the jars to use, taken over from the fetcher that this one replaces.
    resolver: resolves names instead of `[network] resolve` and the system's DNS.
    deadline: until when requests are sent; one that is not sent is a Failure with `ours`.

    Raises ConfigError if a secret or certificate named in the config cannot be read.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        cookies: Cookies | None = None,
        resolver: Resolver | None = None,
        deadline: ContactDeadline | None = None,
        keepalive_s: float = KEEPALIVE_S,
    ) -> None:
        self._headers = {
            "User-Agent": config.user_agent_sent,
            "Accept": ACCEPT,
            "Accept-Encoding": ACCEPT_ENCODING,
        }
        if config.crawl.from_:
            self._headers["From"] = config.crawl.from_
        self._addresses = address_rules(config)
        self._clock = clock
        self._deadline = deadline
        self._keepalive_s = keepalive_s
        self._settings = SiteSettingsTable(config)
        self.cookies = Cookies(clock) if cookies is None else cookies
        self.resolver = resolver or Resolver(
            config.network.resolve, self._addresses, clock, pin=_is_paced_per_ip(config)
        )
        self.connections = OpenConnections(kept_max=_kept_max(config.crawl.concurrency))
        self._watchdog = Watchdog(clock)
        self._session: aiohttp.ClientSession | None = None
        self._direct: DirectClient | None = None
        self._lookups = 0

    def take_over(self, before: AiohttpFetcher) -> None:
        """Replace another fetcher, which must begin no further request.

        Names keep the addresses chosen there, because those addresses' delays are known (law 1).
        """
        self.resolver.pin_as(before.resolver)
        before.connections.retire()

    async def __aenter__(self) -> Self:
        connector = Connector(
            addresses=self._addresses,
            resolver=self.resolver,
            connections=self.connections,
            keepalive_s=self._keepalive_s,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=NO_TIMEOUT,
            middlewares=(send_once,),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=FIELD_BYTES_MAX,
            max_field_size=FIELD_BYTES_MAX,
            max_headers=FIELDS_MAX,
        )
        self._direct = DirectClient(connector, self._headers, self._settings)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = self._direct = None
        await self.resolver.close()

    @property
    def busy(self) -> bool:
        """Whether a request or a name lookup is in progress."""
        return self._watchdog.busy or self._lookups > 0

    async def address_of(self, host: str) -> str | Failure:
        """The address that requests to `host` go to with `per = "ip"`.

        The url of a Failure is the host.
        """
        started_s = self._clock.monotonic()
        self._lookups += 1
        try:
            return await self.resolver.address_of(host, timeout_s=DEFAULT_LIMITS.connect_s)
        except (NameLookupError, AddressRefusedError) as exc:
            return self._failure(host, exc.error, started_s)
        finally:
            self._lookups -= 1

    async def fetch(self, request: Request) -> Answer | Failure:
        """See `Fetcher.fetch`. Raises RuntimeError outside the context manager."""
        if self._direct is None:
            raise RuntimeError("the fetcher is not open: use `async with`")
        url = request.url
        if not _is_sendable(url) or (endpoint := self._direct.endpoint(url)) is None:
            return self._failure(url, _UNSENDABLE, self._clock.monotonic())
        limits = endpoint.limits(request.limits)
        if request.anonymous and endpoint.settings.lends_credentials:
            request = structs.replace(request, anonymous=False)
        own = request.bare or request.anonymous  # its headers are complete once they are applied
        if request.headers or own or not endpoint.settings.plain:
            request = endpoint.settings.apply(request, self.cookies)
        if request.proxy is not None and (refusal := self._refusal(endpoint.host)) is not None:
            return self._failure(url, refusal, self._clock.monotonic())
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("fetch() must run in a task")
        cancelling = task.cancelling()
        exchange = Exchange(self._clock, limits, task, request.proxy is not None)
        exchange.keep = endpoint.keeps_connections
        exchange.deadline = self._deadline
        token = enter_exchange(exchange)
        self._watchdog.begin(exchange)
        try:
            return await self._exchange(request, endpoint, exchange)
        except asyncio.CancelledError:
            if exchange.met is None or task.uncancel() > cancelling:
                raise
            return self._failed(url, deadline_error(exchange), endpoint, exchange)
        finally:
            leave_exchange(token)
            self._watchdog.end(exchange)
            exchange.finish()

    async def _exchange(
        self, request: Request, endpoint: Endpoint, exchange: Exchange
    ) -> Answer | Failure:
        try:
            response = await self._send(request, endpoint)
        except NETWORK_EXCEPTIONS as exc:
            return self._network_failure(request.url, exc, endpoint, exchange)
        whole = False
        try:
            result = await self._receive(request, response, endpoint, exchange)
            whole = isinstance(result, Answer)
            return result
        finally:
            # A connection whose answer was read to its end is back in the pool already.
            if not (whole and response.closed):
                response.close()

    def _send(self, request: Request, endpoint: Endpoint) -> Awaitable[RawResponse]:
        """Send a request. The result is there when the answer's header is."""
        direct, session = self._direct, self._session
        assert direct is not None
        assert session is not None
        if endpoint.pooled is not None and goes_direct(request):
            head = endpoint.head
            if request.headers or request.bare or request.anonymous:
                head = direct.head(endpoint.authority, request.headers)
            return direct.request(endpoint.pooled, request, head)
        return session.request(
            request.method,
            URL(request.url, encoded=True),
            allow_redirects=False,
            headers=request.headers
            or (None if request.bare or request.anonymous else endpoint.settings.headers),
            data=request.data,
            proxy=request.proxy,
            ssl=endpoint.settings.tls,
        )

    async def _receive(
        self, request: Request, response: RawResponse, endpoint: Endpoint, exchange: Exchange
    ) -> Answer | Failure:
        """Read the rest of an answer. Raises what the request's BodyReader and its
        BodySink raise."""
        url, status = request.url, response.status
        if status == PROXY_LOGIN and request.proxy is not None:
            return self._failed(url, PROXY_LOGIN_ERROR, endpoint, exchange)
        exchange.status = status
        headers = response.headers if exchange.ascii else readable(response.headers)
        exchange.headers = headers
        if endpoint.settings.cookies and "Set-Cookie" in headers and not request.anonymous:
            self.cookies.learn(url, headers.getall("Set-Cookie"))
        if status == 101:
            problem = NetworkError(
                FailureCode.PROTOCOL, "the server switched protocols without being asked"
            )
            return self._failed(url, problem, endpoint, exchange)
        body: bytes | None = b""
        poured, cut = 0, False
        if status not in _BODILESS and request.method != "HEAD":
            head = Head(url=url, status=status, headers=headers)
            reader = request.reader
            if reader is None or reader.wants_body(head):
                sink = None if reader is None else reader.sink(head)
                try:
                    if sink is None:
                        body, cut = await read_body(response, request, exchange)
                    else:
                        poured, cut = await pour_body(response, request, sink, exchange)
                except SinkFaultError as fault:
                    raise fault.__cause__ or fault from None
                except NoPlaceError:
                    failure = self._failed(url, NO_PLACE_ERROR, endpoint, exchange)
                    return structs.replace(failure, stale=True, stopped=True)
                except NETWORK_EXCEPTIONS as exc:
                    return self._network_failure(url, exc, endpoint, exchange)
            else:
                body = None
        if request.data is not None:
            exchange.stop_sending()
        return Answer(
            url=url,
            status=status,
            headers=headers,
            body=body or b"",
            body_read=body is not None,
            cut=cut,
            poured_bytes=poured,
            wire_bytes=exchange.received,
            started_s=exchange.started_s,
            ended_s=self._clock.monotonic() if exchange.ended_s is None else exchange.ended_s,
            address=exchange.address,
            latency_s=exchange.head_s - exchange.sent_s,
            gateway=_is_gateway(status, headers, request),
            raw_headers=None if headers is response.headers else response.headers,
        )

    def _refusal(self, host: str) -> NetworkError | None:
        """Why a request through a proxy is refused.

        The proxy connects, so only an address in the URL itself can be checked; and without a
        contact in the user agent, no name may lead off this machine (law 10).
        """
        literal = literal_address(host)
        if literal is None and self._addresses.loopback_only and not is_loopback(host):
            return NetworkError(
                FailureCode.ADDRESS,
                f"{host} is behind a proxy, and without a contact in crawl.user_agent only this "
                "machine may be connected to",
                permanent=True,
            )
        if literal is not None and (sentence := self._addresses.judge(literal)) is not None:
            return NetworkError(FailureCode.ADDRESS, sentence, permanent=True)
        return None

    def _network_failure(
        self, url: str, exc: Exception, endpoint: Endpoint, exchange: Exchange
    ) -> Failure:
        error = EXPIRED_ERROR
        if not exchange.expired:
            error = classify_error(exc, exchange, tls=url.startswith("https:"))
        drop_tracebacks(exc)  # they hold the body, in a reference cycle
        if error.code is FailureCode.CONNECT:
            self.resolver.forget(endpoint.host)
        return self._failed(url, error, endpoint, exchange)

    def _failed(
        self, url: str, error: NetworkError, endpoint: Endpoint, exchange: Exchange
    ) -> Failure:
        stale = exchange.reused and not exchange.received
        if stale:
            endpoint.keeps_connections = False  # each of those still kept could fail this way once
        # What a proxy sent before it connected did not come from the host.
        received = exchange.received > 0 and error.code not in UNCONNECTED
        return structs.replace(
            self._failure(url, error, exchange.started_s),
            status=exchange.status,
            headers=exchange.headers,
            stale=stale,
            received=received,
            broken_off=received and exchange.broken_off,
            contacted=exchange.contacted,
        )

    def _failure(self, url: str, error: NetworkError, started_s: float) -> Failure:
        return error.failure(url, started_s=started_s, ended_s=self._clock.monotonic())


def _is_gateway(status: int, headers: Headers, request: Request) -> bool:
    """Whether an answer is about the way to the host. One with a Retry-After is the host's own."""
    from_gateway = status == _NETWORK_LOGIN or (request.proxy is not None and status in _GATEWAY)
    return from_gateway and "Retry-After" not in headers


def _is_sendable(url: str) -> bool:
    plain = url.isascii() and url.isprintable() and " " not in url
    return plain and url.startswith(("http://", "https://"))


def _is_paced_per_ip(config: Config) -> bool:
    """Whether any host's delay counts per address, so that each name must keep one address."""
    return any(per is Per.IP for _, per in config.given.all_of("politeness", "per"))


def _kept_max(connections: int) -> int:
    """The number of open connections above which none is kept: the process's limit on open files,
    less the requests in flight and OTHER_FILES."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return 4096
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        files = 65_536
    return max(0, files - OTHER_FILES - connections)

"""One bounded request at a time over aiohttp: nothing sent twice, no redirect followed, no address
connected to unjudged, and every way to fail said in words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from crawler.clock import Clock
from crawler.fetching.body import SinkFaultError, pour_body, read_body
from crawler.fetching.cookies import Cookies
from crawler.fetching.decoding import ACCEPT_ENCODING
from crawler.fetching.direct import NO_TIMEOUT, Direct, Reply, Way, goes_direct
from crawler.fetching.exchange import Exchange, Watch, enter_exchange, leave_exchange
from crawler.fetching.guard import AddressRefusedError
from crawler.fetching.header import readable
from crawler.fetching.request import (
    DEFAULT_LIMITS,
    UNCONNECTED,
    Answer,
    Failure,
    Fetcher,
    FetchLimits,
    Head,
    Headers,
    Request,
)
from crawler.fetching.resolver import NameLookupError, Names, literal_address, within
from crawler.fetching.terms import Terms
from crawler.fetching.trouble import (
    NETWORK_ERRORS,
    NO_LOGIN,
    PROXY_LOGIN,
    Trouble,
    forget_frames,
    met,
    once,
    trouble,
)
from crawler.fetching.wire import FIELD_BYTES_MAX, FIELDS_MAX, Connector, Sockets
from policies.address import AddressRules, is_loopback
from policies.retry import FailureCode

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

# Servers begin to close idle connections after 5 s (Apache's default): a request on one of those is
# lost without an answer (design section 4).
KEEPALIVE_S: Final = 4.0
# Files of the process that are not ours to count: the database, sinks, servers.
OTHER_FILES: Final = 128
ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

# What a proxy answers where it cannot reach the host. Its 503 cannot be told from that of a host
# which is too busy, and must be left alone.
_GATEWAY: Final = frozenset({502, 504})
_NETWORK_LOGIN: Final = 511  # RFC 6585, 6: only what stands between us and the host answers so
_BODILESS: Final = frozenset({204, 304})
_UNSENDABLE: Final = Trouble(
    FailureCode.PROTOCOL, "the URL cannot be sent as it is written", permanent=True
)


class AiohttpFetcher:
    """The Fetcher of crawls and sessions; an async context manager.

    user_agent, from_: sent with every request (an empty From is not).
    resolve: static names, see `crawler.fetching.resolver.Names`. connections: how many requests
    its owner will have in flight at most. pin: one address for each host, as `address_of` says it.
    terms: what the config asks of requests to a host (`crawler.fetching.terms.terms_of`); None:
    nothing.
    cookies: those of the fetcher that this one takes the place of.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        from_: str = "",
        addresses: AddressRules,
        resolve: Mapping[str, str],
        clock: Clock,
        connections: int,
        pin: bool = False,
        terms: Callable[[str], Terms] | None = None,
        cookies: Cookies | None = None,
        keepalive_s: float = KEEPALIVE_S,
        system_resolver: Callable[[], AbstractResolver] | None = None,
    ) -> None:
        self._headers = {
            "User-Agent": user_agent,
            "Accept": ACCEPT,
            "Accept-Encoding": ACCEPT_ENCODING,
        }
        if from_:
            self._headers["From"] = from_
        self._addresses = addresses
        self._clock = clock
        self._keepalive_s = keepalive_s
        self._terms = terms
        self.cookies = Cookies(clock.wall) if cookies is None else cookies
        more = {} if system_resolver is None else {"system": system_resolver}
        self.names = Names(resolve, addresses, clock, pin=pin, **more)
        self._watch = Watch(clock)
        self.sockets = Sockets(kept_max=_kept_max(connections))
        self._session: aiohttp.ClientSession | None = None
        self._direct: Direct | None = None
        self._locating = 0

    def take_over(self, before: object) -> None:
        """Go on in the place of another: names keep to the addresses that they had there, whose
        clocks are known (law 1). No request begins there any more."""
        if isinstance(before, AiohttpFetcher):
            self.names.pin_as(before.names)
            before.sockets.retire()

    async def __aenter__(self) -> Self:
        connector = Connector(
            addresses=self._addresses,
            resolver=self.names,
            sockets=self.sockets,
            keepalive_s=self._keepalive_s,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=NO_TIMEOUT,
            middlewares=(once,),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=FIELD_BYTES_MAX,
            max_field_size=FIELD_BYTES_MAX,
            max_headers=FIELDS_MAX,
        )
        self._direct = Direct(connector, self._headers, self._terms)
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
        await self.names.close()

    @property
    def busy(self) -> bool:
        """Is a request, or the lookup of a name, under way?"""
        return self._watch.busy or self._locating > 0

    async def address_of(self, host: str) -> str | Failure:
        """The address that `host` is connected to with `pin`; a Failure's url is then the host."""
        started_s = self._clock.monotonic()
        self._locating += 1
        try:
            return await within(DEFAULT_LIMITS.connect_s, self.names, host)
        except NameLookupError as exc:
            problem = Trouble(
                FailureCode.DNS, exc.sentence, exc.permanent, ours=exc.ours, local=exc.local
            )
        except AddressRefusedError as exc:
            problem = Trouble(FailureCode.ADDRESS, exc.sentence, permanent=True)
        finally:
            self._locating -= 1
        return self._failure(host, problem, started_s)

    async def fetch(self, request: Request) -> Answer | Failure:
        """See `Fetcher.fetch`. Raises RuntimeError outside the context manager."""
        direct, session = self._direct, self._session
        if direct is None or session is None:
            raise RuntimeError("the fetcher is not open: use `async with`")
        url = request.url
        if not _is_sendable(url) or (way := direct.way(url)) is None:
            return self._failure(url, _UNSENDABLE, self._clock.monotonic())
        terms = way.terms
        limits = request.limits
        if terms is not None:
            limits = way.limits(limits)
            if request.headers or request.bare or not terms.plain:
                request = terms.dressed(request, self.cookies)
        if request.proxy is not None and (refusal := self._refusal(way.host)) is not None:
            return self._failure(url, refusal, self._clock.monotonic())
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("fetch() must run in a task")
        cancelling = task.cancelling()
        exchange = Exchange(self._clock, limits, task, request.proxy is not None)
        exchange.keep = way.keeps
        token = enter_exchange(exchange)
        self._watch.begin(exchange)
        response: Reply | None = None
        whole = False
        try:
            try:
                if way.asked is not None and goes_direct(request):
                    head = way.head
                    if request.headers or request.bare:
                        head = direct.head(way.authority, request.headers)
                    response = await direct.request(way.asked, request, head)
                else:
                    response = await session.request(
                        request.method,
                        URL(url, encoded=True),
                        allow_redirects=False,
                        headers=request.headers or (None if request.bare else way.headers) or None,
                        data=request.data,
                        proxy=request.proxy,
                        ssl=True if terms is None else terms.tls,
                    )
            except NETWORK_ERRORS as exc:
                return self._trouble(exc, url, way, exchange)
            if response.status == PROXY_LOGIN and request.proxy is not None:
                return self._failed(url, NO_LOGIN, way, exchange, None)
            received = response.headers if exchange.ascii else readable(response.headers)
            if terms is not None and terms.cookies and "Set-Cookie" in received:
                self.cookies.learn(url, received.getall("Set-Cookie"))
            body: bytes | None = b""
            poured, cut = 0, False
            if response.status == 101:
                problem = Trouble(FailureCode.PROTOCOL, "the server switched protocols unasked")
                return self._failure(url, problem, exchange.started_s, 101)
            if response.status not in _BODILESS and request.method != "HEAD":
                wants, into = request.wants_body, request.into
                answered = Head(url=url, status=response.status, headers=received)
                if wants is None or wants(answered):
                    sink = None if into is None else into(answered)
                    try:
                        if sink is None:
                            body, cut = await read_body(response, request, exchange)
                        else:
                            poured, cut = await pour_body(response, sink, exchange)
                    except SinkFaultError as fault:
                        raise fault.__cause__ or fault from None
                    except NETWORK_ERRORS as exc:
                        return self._trouble(exc, url, way, exchange, response.status)
                else:
                    body = None
            whole = True
            if request.data is not None:
                exchange.cut_short()
        except asyncio.CancelledError:
            if exchange.met is None or task.uncancel() > cancelling:
                raise
            status = None if response is None else response.status
            return self._failed(url, met(exchange, exchange.limits), way, exchange, status)
        finally:
            leave_exchange(token)
            self._watch.end(exchange)
            exchange.finish()
            # A no-op when the body was read to its end: the connection is back in the pool already.
            if response is not None and not (whole and response.closed):
                response.close()
        return Answer(
            url=url,
            status=response.status,
            headers=received,
            body=body or b"",
            body_read=body is not None,
            cut=cut,
            poured_bytes=poured,
            wire_bytes=exchange.received,
            started_s=exchange.started_s,
            ended_s=self._clock.monotonic() if exchange.ended_s is None else exchange.ended_s,
            address=exchange.address,
            latency_s=exchange.head_s - exchange.sent_s,
            gateway=_is_gateway(response.status, received, request),
            raw_headers=None if received is response.headers else response.headers,
        )

    def _refusal(self, host: str) -> Trouble | None:
        """A proxy connects: what can still be judged is an address in the URL itself, and without a
        contact for the host's owner, that no name is followed off this machine."""
        literal = literal_address(host)
        if literal is None and self._addresses.loopback_only and not is_loopback(host):
            return Trouble(
                FailureCode.ADDRESS,
                f"{host} is behind a proxy, and without a contact in crawl.user_agent only this "
                "machine may be connected to",
                permanent=True,
            )
        if literal is not None and (sentence := self._addresses.judge(literal)) is not None:
            return Trouble(FailureCode.ADDRESS, sentence, permanent=True)
        return None

    def _trouble(
        self,
        exc: Exception,
        url: str,
        way: Way,
        exchange: Exchange,
        status: int | None = None,
    ) -> Failure:
        problem = trouble(exc, exchange, exchange.limits, tls=url.startswith("https:"))
        forget_frames(exc)  # they hold the body, in a circle
        if problem.code is FailureCode.CONNECT:
            self.names.forget(way.host)
        return self._failed(url, problem, way, exchange, status)

    def _failed(
        self, url: str, problem: Trouble, way: Way, exchange: Exchange, status: int | None
    ) -> Failure:
        stale = exchange.reused and not exchange.received
        if stale:
            way.keeps = False  # those that are kept still can each be lost once
        # What a proxy said before it connected did not come from the host.
        received = exchange.received > 0 and problem.code not in UNCONNECTED
        return problem.failure(
            url,
            started_s=exchange.started_s,
            ended_s=self._clock.monotonic(),
            status=status,
            stale=stale,
            received=received,
            broken_off=received and exchange.broken_off,
            contacted=exchange.contacted,
        )

    def _failure(
        self, url: str, problem: Trouble, started_s: float, status: int | None = None
    ) -> Failure:
        return problem.failure(
            url, started_s=started_s, ended_s=self._clock.monotonic(), status=status
        )


def _is_gateway(status: int, headers: Headers, request: Request) -> bool:
    """Whether an answer speaks of the way to the host. One that asks for a rest is the host's."""
    spoken = status == _NETWORK_LOGIN or (request.proxy is not None and status in _GATEWAY)
    return spoken and "Retry-After" not in headers


def _is_sendable(url: str) -> bool:
    plain = url.isascii() and url.isprintable() and " " not in url
    return plain and url.startswith(("http://", "https://"))


def _kept_max(connections: int) -> int:
    """Open connections beyond which none is kept: what the process may have open, less the rest."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return 4096
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        files = 65_536
    return max(0, files - OTHER_FILES - connections)

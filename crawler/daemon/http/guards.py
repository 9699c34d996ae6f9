"""Checks on every request: Host and Origin headers, a rate limit and the token."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.config.checks import PROXY_ON_SOCKET
from crawler.daemon.http.accounts import DEFAULT, LOCAL, Account, Sessions, account, matching
from crawler.daemon.http.commands import ACTOR_NAME, ACTOR_PEER, route_of
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.daemon.problem import Problem
from crawler.front_door import connections
from crawler.front_door.own_names import OwnNames
from crawler.front_door.rate_limit import FAILURES, FAILURES_PER_S, RateLimiter
from crawler.front_door.request_handler import ON_SOCKET

WITHOUT_ROLE: Final = frozenset({"/login", "/logout"})
ACCOUNT: Final = web.RequestKey("account", Account)

SAFE_METHODS: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
SAFE_SITES: Final = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site; none: a typed address

HEADERS: Final = {
    # Only files of this server, and no inline scripts or styles: strings from the web cannot run.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer": with that, browsers send "Origin: null" with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "Server": "courtly",
}
REQUESTS = 400  # of one account in a burst: some tabs with all their parts
REQUESTS_PER_S = 100.0  # after the burst
CALLS = 400  # the same for requests of other programs, which send them through the crawl
CALLS_PER_S = 200.0
LINKS = 60  # the same for pages that links on other sites lead to
LINKS_PER_S = 5.0
STREAMS_MAX = 64  # listeners to /api/events in total
STREAMS_OF_ACCOUNT_MAX = 32
STREAMS_OF_PEER_MAX = 16
# Requests of other programs: these are cheap here, and wait for the hosts.
_CALLS: Final = re.compile(r"/api/(fetch|permit|may-fetch|next-turn|robots/state)(/|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Access settings of the API.

    Without `token` and `accounts`, every client is admitted. `trusted_proxies`: address ranges
    whose X-Forwarded-For is believed, and "unix" for the peers of a Unix socket. `hosts`: names
    accepted in Host and Origin besides the address listened on, with a port or for every port.
    `local`: the Unix socket beside a database, protected by its file mode: neither names nor tokens
    are checked. `unix`: a Unix socket for the page, with all checks. `base_path`: the prefix of
    links, redirects and cookies; requests have lost it when they arrive here."""

    token: str = ""
    accounts: tuple[Account, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    listen: str = "127.0.0.1"  # address or name, without port
    local: bool = False
    unix: bool = False
    base_path: str = ""

    @property
    def all_accounts(self) -> tuple[Account, ...]:
        return (*((account(DEFAULT, self.token),) if self.token else ()), *self.accounts)


class Guards:
    """Raises Problem for requests that must not be served."""

    def __init__(
        self, settings: HttpSettings, clock: Clock, access: AccessLog | None = None
    ) -> None:
        self.settings = settings
        self.access = access or AccessLog(clock)
        self._accounts = settings.all_accounts
        self.sessions = Sessions(clock) if self._accounts else None
        self._proxies = [
            ipaddress.ip_network(one) for one in settings.trusted_proxies if one != PROXY_ON_SOCKET
        ]
        self._trusts_socket = settings.unix and PROXY_ON_SOCKET in settings.trusted_proxies
        self.limits = Limits(clock)
        self._streams = Streams()
        self._names = OwnNames(settings.hosts, listen=settings.listen, unix=settings.unix)

    # ------------------------------------------------------------ Host and Origin

    def check(self, request: web.Request, *, public: bool) -> None:
        """Run all checks. `public`: without token and rate limit, so that the login form is always
        available.

        The rate limit comes last, so that refused requests do not count against it."""
        request[ACCOUNT] = LOCAL
        if self.settings.local:
            connections.mark_authorized(request)  # the file mode admits no other user
            return
        request[ACTOR_PEER] = peer = self.client_of(request)
        self._check_host(request)
        from_elsewhere = self._check_origin(request)
        if public:
            return
        request[ACCOUNT] = found = self._account(request)
        if self._accounts:
            request[ACTOR_NAME] = found.name
        self.count(request, found, peer, linked=from_elsewhere)
        if not from_elsewhere:
            connections.mark_authorized(request)

    def count(
        self, request: web.Request, account: Account, peer: str, *, linked: bool = False
    ) -> None:
        """Count an accepted request. Raises Problem if there are too many of the account, or, where
        no token is required, of the address."""
        name = account.name if self._accounts else ""
        try:
            self.limits.request(name or peer, request.path, linked=linked)
        except Problem:
            self.access.limited(name, peer)
            raise

    def check_role(self, request: web.Request) -> None:
        """Refuse everything but queries to tokens that may only read."""
        account = request[ACCOUNT]
        if account.can_steer or request.method in SAFE_METHODS or request.path in WITHOUT_ROLE:
            return
        raise Problem(403, f"the token “{account.name}” may only read")

    def _check_host(self, request: web.Request) -> None:
        """Refuse foreign host names (DNS rebinding)."""
        bound = request.transport.get_extra_info("sockname") if request.transport else None
        here = str(bound[0]) if isinstance(bound, tuple) else ""
        if not self._names.accepts_host(request.headers.getall(hdrs.HOST, []), here):
            raise Problem(
                403,
                "this host name is not one of the daemon's; add it to [daemon] hosts",
                field="Host",
            )

    def _check_origin(self, request: web.Request) -> bool:
        """Refuse requests from pages of other sites (CSRF), which carry Origin, Sec-Fetch-Site or
        both; return True for a followed link, the one kind that is served.

        Browsers send one of these headers with every request that changes something; programs send
        neither, and have no cookie."""
        origin = request.headers.get(hdrs.ORIGIN)
        host = request.headers[hdrs.HOST]
        if origin is not None and not self._names.accepts_origin(origin, host):
            raise Problem(403, "the request comes from another site", field="Origin")
        site = request.headers.get("Sec-Fetch-Site")
        changes = request.method not in SAFE_METHODS
        if site is not None and site not in SAFE_SITES:
            to = request.headers.get("Sec-Fetch-Dest", "document")
            navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and to == "document"
            if changes or not navigates or request.path.startswith("/api/"):
                raise Problem(403, "the request comes from another site", field="Sec-Fetch-Site")
        if changes and origin is None and site is None and cookie_name(request) in request.cookies:
            raise Problem(
                403, "a request with a session cookie needs an Origin header", field="Origin"
            )
        return site is not None and site not in SAFE_SITES

    # ------------------------------------------------------------ the token

    def _account(self, request: web.Request) -> Account:
        if self.sessions is None:
            return LOCAL
        name = request.cookies.get(cookie_name(request))
        if name is not None and (found := self.sessions.account(name)) is not None:
            return found
        kind, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if kind.lower() == "bearer" and given:
            return self.account_of(given.strip(), request)
        raise Problem(
            401, "a token is required: send Authorization: Bearer TOKEN, or use the login form"
        )

    def account_of(self, given: str, request: web.Request) -> Account:
        """The account of a token. Raises Problem if there is none."""
        if (found := matching(self._accounts, given)) is not None:
            return found  # wrong tokens from the same address do not lock the right one out
        peer = self.client_of(request)
        self.access.unauthorized(peer, route_of(request))  # also those beyond the limit
        self.limits.guess(peer)
        raise Problem(401, "wrong token", field="token")

    def streaming(self, request: web.Request) -> AbstractContextManager[None]:
        """Count a listener while this is open. Raises Problem if there are too many."""
        account = request[ACCOUNT].name if self._accounts else ""
        return self._streams.one(account, self.client_of(request))

    def may_stay(self, request: web.Request) -> bool:
        """Return whether a listener is still authorized: its session may have ended."""
        if self.sessions is None or self.settings.local or hdrs.AUTHORIZATION in request.headers:
            return True
        return self.sessions.account(request.cookies.get(cookie_name(request), "")) is not None

    # ------------------------------------------------------------ the client

    def client_of(self, request: web.Request) -> str:
        """The address of the client. Behind trusted proxies: the last one in X-Forwarded-For that
        is not a trusted proxy, because a client can write anything before it."""
        peer = ON_SOCKET if self.settings.unix else request.remote or ""
        if not self._is_proxy(peer):
            return connections.peer_of(peer)
        named = ",".join(request.headers.getall("X-Forwarded-For", []))
        for one in reversed([part.strip() for part in named.split(",")]):
            try:
                address = str(ipaddress.ip_address(one))
            except ValueError:
                break  # whoever wrote this, what is before it cannot be believed
            peer = address
            if not self._is_proxy(address):
                break
        return connections.peer_of(peer)

    def _is_proxy(self, address: str) -> bool:
        if address == ON_SOCKET:
            return self._trusts_socket
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._proxies)


def cookie_name(request: web.Request) -> str:
    """The name contains the port: browsers send cookies to every port of a host, and the sessions
    of two daemons on one machine must not collide."""
    bound = request.transport.get_extra_info("sockname") if request.transport else None
    return f"courtly_{bound[1]}" if isinstance(bound, tuple) else "courtly"


class Limits:
    """The rate limits of a server. All of them raise Problem (429)."""

    def __init__(self, clock: Clock) -> None:
        self.requests = RateLimiter(clock, at_once=REQUESTS, per_s=REQUESTS_PER_S)
        self.calls = RateLimiter(clock, at_once=CALLS, per_s=CALLS_PER_S)
        self.links = RateLimiter(clock, at_once=LINKS, per_s=LINKS_PER_S)
        self.guesses = RateLimiter(clock, at_once=FAILURES, per_s=FAILURES_PER_S)

    def request(self, who: str, path: str, *, linked: bool = False) -> None:
        """Count a request that was accepted. who: the account, or the address without one. linked:
        a link on another site led to it."""
        ours = self.calls if _CALLS.match(path) else self.requests
        limiter = self.links if linked else ours
        _spend(limiter, who, Problem(429, "too many requests"))

    def guess(self, peer: str) -> None:
        """Count a wrong token."""
        _spend(self.guesses, peer, Problem(429, "too many failed login attempts", field="token"))


def _spend(limiter: RateLimiter, who: str, problem: Problem) -> None:
    if wait_s := limiter.wait_s(who):
        problem.retry_after_s = wait_s
        raise problem
    limiter.spend(who)


class Streams:
    """Counts the listeners to the event stream."""

    def __init__(self) -> None:
        self._open = 0
        self._of_account: Counter[str] = Counter()
        self._of_peer: Counter[str] = Counter()

    @contextlib.contextmanager
    def one(self, account: str, peer: str) -> Iterator[None]:
        """Count a listener while this is open. account: "" if there is none. Raises Problem (503)
        if there are too many."""
        if (
            self._open >= STREAMS_MAX
            or (account and self._of_account[account] >= STREAMS_OF_ACCOUNT_MAX)
            or self._of_peer[peer] >= STREAMS_OF_PEER_MAX
        ):
            raise Problem(503, "too many listeners", retry_after_s=10.0)
        self._count(account, peer, 1)
        try:
            yield
        finally:
            self._count(account, peer, -1)

    def _count(self, account: str, peer: str, more: int) -> None:
        self._open += more
        for counter, name in ((self._of_account, account), (self._of_peer, peer)):
            counter[name] += more
            if not counter[name]:
                del counter[name]

"""What is asked of every request before it is served: a Host and an Origin that are ours, a pace
that can be borne, a token."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.daemon import connections
from crawler.daemon.problem import Problem
from crawler.daemon.serving.sessions import FAILURES, FAILURES_PER_S, Allowance, Sessions
from policies.address import is_loopback

REQUESTS = 400  # of one peer at once: a page with its parts, some tabs
REQUESTS_PER_S = 200.0  # and then so many
LINKS = 60  # of those, pages that links on other sites lead to: counted apart
LINKS_PER_S = 5.0
STREAMS_MAX = 64  # listeners of /api/events together
STREAMS_OF_PEER_MAX = 16
_log = logging.getLogger("courtly.http")

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
SAFE_METHODS: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
SAFE_SITES: Final = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site; none: typed by hand

HEADERS: Final = {
    # Nothing but our own files, and no scripts or styles inside a page: what the web put into a
    # title cannot run.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Who may ask. `token` "" lets in everybody who can connect; `hosts` are names accepted in Host
    and Origin, with a port or for every port, besides those listened on. `local`: a Unix socket,
    whose mode is its guard: neither names nor tokens are looked at."""

    token: str = ""
    hosts: tuple[str, ...] = ()
    listen: str = "127.0.0.1"  # address or name, without port
    local: bool = False


class Guards:
    """Raises Problem for a request that must not be served."""

    def __init__(self, settings: HttpSettings, clock: Clock) -> None:
        self.settings = settings
        self.sessions = Sessions(settings.token, clock) if settings.token else None
        self._pace = Allowance(clock, at_once=REQUESTS, per_s=REQUESTS_PER_S)
        self._pace_from_elsewhere = Allowance(clock, at_once=LINKS, per_s=LINKS_PER_S)
        self._guesses = Allowance(clock, at_once=FAILURES, per_s=FAILURES_PER_S)
        self._named = {name.lower().rstrip(".") for name in settings.hosts}
        self._streams: dict[str, int] = {}

    # ------------------------------------------------------------ whose names

    def check(self, request: web.Request, *, public: bool) -> None:
        """All of it. `public`: needs no token, and is not paced: who has to log in gets the form
        however many others ask.

        Names and token come before the pace, so that requests which are refused anyhow use up
        nothing of what is allowed to those who may ask."""
        if self.settings.local:
            return
        self._check_host(request)
        from_elsewhere = self._check_origin(request)
        if public:
            return
        self._check_token(request)
        peer = peer_of(request)
        pace = self._pace_from_elsewhere if from_elsewhere else self._pace
        if wait_s := pace.wait_s(peer):
            raise Problem(429, "too many requests", retry_after_s=wait_s)
        pace.spend(peer)
        if not from_elsewhere:
            connections.let_in(request)

    def _check_host(self, request: web.Request) -> None:
        """A page of another site whose name was made to lead here (DNS rebinding) names that site:
        only our own names are answered."""
        given = request.headers.getall(hdrs.HOST, [])
        if len(given) != 1 or not self._is_ours(given[0], request):
            raise Problem(
                403,
                "this host name is not one of the daemon's: [daemon] hosts names further ones",
                field="Host",
            )

    def _is_ours(self, authority: str, request: web.Request) -> bool:
        name = _name_in(authority)
        if name is None:
            return False
        if authority.lower() in self._named or name in self._named:
            return True
        socket = request.transport.get_extra_info("sockname") if request.transport else None
        here = str(socket[0]) if isinstance(socket, tuple) else ""
        if name in (self.settings.listen, here):
            return True
        return name in LOCAL_NAMES and is_loopback(here)

    def _check_origin(self, request: web.Request) -> bool:
        """What another site's page sends (CSRF) says so: in Origin, in Sec-Fetch-Site, or both.
        Of that, only following a link is served: True then.

        A browser sends at least one of them with all that changes something; programs send none,
        and have no cookie."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and not self._is_own_origin(origin, request):
            raise Problem(403, "the request comes from another site", field="Origin")
        site = request.headers.get("Sec-Fetch-Site")
        changes = request.method not in SAFE_METHODS
        if site is not None and site not in SAFE_SITES:
            to = request.headers.get("Sec-Fetch-Dest", "document")
            navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and to == "document"
            if changes or not navigates or request.path.startswith("/api/"):
                raise Problem(403, "the request comes from another site", field="Sec-Fetch-Site")
        if changes and origin is None and site is None and cookie_name(request) in request.cookies:
            raise Problem(403, "a browser's request has to say where it comes from", field="Origin")
        return site is not None and site not in SAFE_SITES

    def _is_own_origin(self, origin: str, request: web.Request) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
            return False
        authority = parts.netloc.lower()
        if authority == request.headers[hdrs.HOST].lower():
            return True
        return authority in self._named or _name_in(authority) in self._named

    # ------------------------------------------------------------ the token

    def _check_token(self, request: web.Request) -> None:
        if self.sessions is None:
            return
        name = request.cookies.get(cookie_name(request))
        if name is not None and self.sessions.is_open(name):
            return
        kind, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if kind.lower() == "bearer" and given:
            self.check_token(given.strip(), request)
            return
        raise Problem(401, "a token is needed: Authorization: Bearer TOKEN, or the login form")

    def check_token(self, given: str, request: web.Request) -> None:
        """Raises Problem unless this is the token."""
        if self.sessions is None or self.sessions.is_token(given):
            return  # whatever others have tried before from the same address
        peer = peer_of(request)
        if wait_s := self._guesses.wait_s(peer):
            raise Problem(429, "too many wrong tokens", field="token", retry_after_s=wait_s)
        self._guesses.spend(peer)
        _log.warning("a wrong token from %s", peer)
        raise Problem(401, "this is not the token", field="token")

    def may_stay(self, request: web.Request) -> bool:
        """Whether what let a listener in still holds: its session may have ended."""
        if self.sessions is None or self.settings.local or hdrs.AUTHORIZATION in request.headers:
            return True
        return self.sessions.is_open(request.cookies.get(cookie_name(request), ""))

    # ------------------------------------------------------------ streams

    def enter_stream(self, peer: str) -> None:
        """One more listener; `leave_stream` follows. Raises Problem where there are too many."""
        of_peer = self._streams.get(peer, 0)
        if sum(self._streams.values()) >= STREAMS_MAX or of_peer >= STREAMS_OF_PEER_MAX:
            raise Problem(503, "too many listen already", retry_after_s=10.0)
        self._streams[peer] = of_peer + 1

    def leave_stream(self, peer: str) -> None:
        if self._streams[peer] == 1:
            del self._streams[peer]
        else:
            self._streams[peer] -= 1


def peer_of(request: web.Request) -> str:
    return connections.peer_of(request.remote or "")


def cookie_name(request: web.Request) -> str:
    """With the port in it: a browser sends cookies to every port of a host, and two daemons of one
    machine would put each other's sessions out."""
    socket = request.transport.get_extra_info("sockname") if request.transport else None
    return f"courtly_{socket[1]}" if isinstance(socket, tuple) else "courtly"


def _name_in(authority: str) -> str | None:
    """The name or address in a Host header: lower case, without port, brackets or last dot."""
    try:
        parts = urlsplit(f"//{authority}")
        name = parts.hostname
        _ = parts.port
    except ValueError:
        return None
    if name is None or parts.path or parts.query or parts.fragment or "@" in authority:
        return None
    return name.rstrip(".")

"""A server of calls: small requests by POST to one path, answered when they are done."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web

from crawler.clock import Clock
from crawler.front_door import bodies
from crawler.front_door.bodies import BodyTooSlowError, body_of
from crawler.front_door.connections import (
    Connections,
    mark_authorized,
    peer_of,
    serving,
    while_connected,
)
from crawler.front_door.own_names import OwnNames
from crawler.front_door.rate_limit import FAILURES, FAILURES_PER_S, RateLimiter
from crawler.front_door.request_handler import CLIENT_ERRORS, PROBLEM_TYPE

BODY_BYTES_MAX: Final = 262_144  # the arguments of a call are a URL and some numbers
CALLS_MAX: Final = 192  # that are being answered at the same time; most wait for a host
AGAIN_S: Final = 5.0  # before a call is repeated that was one too many
HEADERS: Final = {
    "Server": "courtly",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RefusedError(Exception):
    """A request that is not served. retry_after_s: where waiting helps."""

    def __init__(self, status: int, sentence: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s


class CallShares:
    """Counts the calls that are being answered, by client."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    @contextlib.contextmanager
    def one(self, peer: str) -> Iterator[None]:
        """Count a call while this is open. Once half of CALLS_MAX are open, no client has more than
        its share, so that others are admitted. Raises RefusedError."""
        total = self._calls.total()
        share = CALLS_MAX // (len(self._calls) + (peer not in self._calls))
        if total >= CALLS_MAX or (total >= CALLS_MAX // 2 and self._calls[peer] >= share):
            raise RefusedError(503, "too many calls at the same time", retry_after_s=AGAIN_S)
        self._calls[peer] += 1
        try:
            yield
        finally:
            self._calls[peer] -= 1
            if not self._calls[peer]:
                del self._calls[peer]


class CallsServer:
    """Answers calls with an ASGI application.

    path: of the calls. token: "" admits every client whose request no page of another site can have
    made (`OwnNames`). log: receives the refusals.
    """

    def __init__(
        self,
        app: App,
        clock: Clock,
        *,
        path: str,
        token: str,
        names: OwnNames,
        log: logging.Logger,
    ) -> None:
        self._app = app
        self._clock = clock
        self._path = path
        self._token = token.encode("utf-8", "surrogateescape")
        self._names = names
        self._log = log
        self._guesses = RateLimiter(clock, at_once=FAILURES, per_s=FAILURES_PER_S)
        self._calls = CallShares()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Connections]:
        """The protocol factory for the caller's listening sockets."""
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        async with serving(app, self._clock, self) as connections:
            yield connections

    def malformed(self, peer: str, error: str) -> None:
        """Log a request that is not valid HTTP."""
        self._log.warning("a request from %s is not valid HTTP: %s", peer, error)

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == bodies.PATH:
            return web.Response(body=bodies.BODY, content_type=bodies.CONTENT_TYPE)
        try:
            self._check(request)
            with self._calls.one(peer_of(request.remote or "")):
                body = await body_of(request)
                response = await respond(self._app, request, body)
        except RefusedError as error:
            return self._refusal(error.status, str(error), error.retry_after_s)
        except BodyTooSlowError as error:
            return self._refusal(408, str(error))
        except web.HTTPRequestEntityTooLarge:
            return self._refusal(413, f"the body is longer than {BODY_BYTES_MAX:,} bytes")
        except CLIENT_ERRORS as error:
            self.malformed(peer_of(request.remote or ""), type(error).__name__)
            return self._refusal(400, "the body is not valid HTTP")
        except ConnectionError:  # the client is gone: nobody reads this
            return web.Response(status=400)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _check(self, request: web.Request) -> None:
        """Raises RefusedError for a request that must not be served."""
        bound = request.transport.get_extra_info("sockname") if request.transport else None
        here = str(bound[0]) if isinstance(bound, tuple) else ""
        hosts = request.headers.getall(hdrs.HOST, [])
        if not self._names.accepts_host(hosts, here):
            raise RefusedError(403, "the Host header does not name this server")
        for origin in request.headers.getall(hdrs.ORIGIN, []):
            if not self._names.accepts_origin(origin, hosts[0]):
                raise RefusedError(
                    403, "the Origin header names another site: web pages may not use this"
                )
        self._check_token(request)
        if request.path != self._path:
            raise RefusedError(404, f"there is nothing but {self._path}")
        if request.method != hdrs.METH_POST:
            # GET would open a stream for messages of the server, and there are none.
            raise RefusedError(
                405, "messages are sent with POST; there are no streams and sessions"
            )
        mark_authorized(request)

    def _check_token(self, request: web.Request) -> None:
        if not self._token:
            return
        given = request.headers.getall(hdrs.AUTHORIZATION, [])
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        offered = token.strip().encode("utf-8", "surrogateescape")
        if kind.lower() == "bearer" and hmac.compare_digest(offered, self._token):
            return  # wrong tokens from the same address do not lock the right one out
        peer = peer_of(request.remote or "")
        if wait_s := self._guesses.wait_s(peer):
            raise RefusedError(429, "too many wrong tokens", retry_after_s=wait_s)
        self._guesses.spend(peer)
        raise RefusedError(401, "a token is required: send the header Authorization: Bearer TOKEN")

    def _refusal(
        self, status: int, sentence: str, retry_after_s: float | None = None
    ) -> web.Response:
        if status != 429:
            self._log.warning("refused a request with %d: %s", status, sentence)
        problem = {"type": "about:blank", "title": HTTPStatus(status).phrase}
        body = json.dumps({**problem, "status": status, "detail": sentence}).encode()
        headers = dict(HEADERS)
        if status == 401:
            headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
        if status == 405:
            headers[hdrs.ALLOW] = hdrs.METH_POST
        if retry_after_s is not None:
            headers[hdrs.RETRY_AFTER] = str(max(1, round(retry_after_s + 0.5)))
        return web.Response(body=body, status=status, content_type=PROBLEM_TYPE, headers=headers)


async def respond(app: App, request: web.Request, body: bytes) -> web.Response:
    """The response of an ASGI application to a request with this body. It is cancelled when the
    client disconnects; ConnectionResetError is raised then."""
    exchange = _Exchange(body)
    await while_connected(request, _called(app, request, exchange))
    return web.Response(
        status=exchange.status, headers=exchange.headers, body=bytes(exchange.written)
    )


async def _called(app: App, request: web.Request, exchange: _Exchange) -> None:
    await app(_scope_of(request), exchange.receive, exchange.send)


class _Exchange:
    """One request, as the application reads and answers it."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.status = 500
        self.headers: list[tuple[str, str]] = []
        self.written = bytearray()

    async def receive(self) -> Message:
        body, self._body = self._body, b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
                if name.lower() not in (b"content-length", b"transfer-encoding", b"connection")
            ]
        elif message["type"] == "http.response.body":
            self.written += message.get("body", b"")


def _scope_of(request: web.Request) -> Scope:
    url = request.rel_url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": "https" if request.secure else "http",
        "path": url.path,
        "raw_path": url.raw_path.encode("ascii", "replace"),
        "query_string": url.raw_query_string.encode("ascii", "replace"),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": None,
        "server": None,
    }

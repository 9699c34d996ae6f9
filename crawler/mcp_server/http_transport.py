"""Serve clients over HTTP (the transport "Streamable HTTP"), at the path /mcp.

Requests are independent: there are no sessions to keep, and each answer is one JSON document.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from policies.address import is_loopback

PATH: Final = "/mcp"
BODY_BYTES_MAX: Final = 1_000_000
CALLS_MAX: Final = 64  # at the same time
STOP_S: Final = 3  # for calls in progress

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?\Z")
_log = logging.getLogger("courtly.mcp")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


class HttpServer:
    """Serves clients on a listening socket. token, names: see `Guard`."""

    def __init__(
        self,
        server: Server[Any],
        listener: socket.socket,
        *,
        token: str,
        names: tuple[str, ...] = (),
    ) -> None:
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=BODY_BYTES_MAX,
            # `Guard` checks the headers of every path, and says what is wrong.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                Guard(app, token=token, names=names),
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=CALLS_MAX,
                timeout_graceful_shutdown=STOP_S,
                ws="none",
            )
        )

    async def serve(self) -> None:
        """Serve until `stop`; calls in progress then have STOP_S to end."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Leaves signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Guard:
    """Refuses requests that a web page in a browser may have made, and those without the token.

    token: "" admits every client. names: host names accepted in Host and Origin besides those of
    the loopback. With a token any Host is accepted: a page that was led here by DNS rebinding does
    not have the token.
    """

    def __init__(self, app: App, *, token: str, names: tuple[str, ...] = ()) -> None:
        self._app = app
        self._token = token.encode()
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := self._problem(scope)) is not None:
            status, sentence = problem
            _log.warning("refused a request with %d: %s", status, sentence)
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            if status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
            if status == 405:
                headers.append((b"allow", b"POST"))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": f"{sentence}\n".encode()})
            return
        await self._app(scope, receive, send)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        """The status and sentence of a refusal; None for a request that is served."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not (self._token or self._is_ours(hosts[0])):
            return 421, "The Host header does not name this server."
        for origin in _values(scope, b"origin"):
            if not self._is_own_page(origin):
                return 403, "The Origin header names another site: web pages may not use this."
        if self._token:
            given = _values(scope, b"authorization")
            kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
            right = hmac.compare_digest(token.strip().encode(), self._token)
            if kind.lower() != "bearer" or not right:
                return 401, "A token is required: send the header Authorization: Bearer TOKEN."
        if scope["method"] != "POST":
            # GET would open a stream for messages of the server, and there are none.
            return 405, "Messages are sent with POST; there are no streams and sessions."
        return None

    def _is_own_page(self, origin: str) -> bool:
        scheme, separator, authority = origin.partition("://")
        return bool(separator) and scheme in ("http", "https") and self._is_ours(authority)

    def _is_ours(self, authority: str) -> bool:
        found = _AUTHORITY.match(authority)
        name = found[1].lower() if found else ""
        return bool(name) and (name in self._names or is_loopback(name))


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]

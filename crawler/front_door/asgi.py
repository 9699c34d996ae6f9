"""Serve an ASGI application behind the front door: whole requests in, whole responses out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiohttp import web

from crawler.front_door.connections import while_connected

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


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

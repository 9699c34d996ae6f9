"""A web of many virtual hosts on one loopback port that logs every request."""

from __future__ import annotations

import asyncio
import html as html_escape
import http
import inspect
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from multidict import CIMultiDict

from crawler.testing.request_log import LoggedRequest, RequestLog

_HEAD_BYTES_MAX = 65_536
_SLOW_PIECES = 10  # number of pieces in which a slow body is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request as received. A body, if any, is not read."""

    method: str
    host: str  # lower case, without the port
    path: str  # including the query, as sent
    headers: CIMultiDict[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response. Content-Length and Content-Type are added unless given."""

    status: int = 200
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    body: str | bytes = b""
    content_type: str = "text/html; charset=utf-8"
    delay_s: float = 0.0  # before the first byte
    body_s: float = 0.0  # the body is sent in small pieces over this many seconds
    broken: bool = False  # the connection is closed in the middle of the body


Handler = Callable[[ReceivedRequest], Reply | Awaitable[Reply]]
# Pages are looked up by path and query, then by path alone.
Pages = Mapping[str, Reply | Handler]
Site = Pages | Handler


def html(title: str, *links: str, head: str = "", body: str = "") -> Reply:
    """A small HTML page with a link to each of `links`."""
    anchors = "".join(
        f'<li><a href="{html_escape.escape(link)}">{html_escape.escape(link)}</a></li>\n'
        for link in links
    )
    return Reply(
        body=f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{html_escape.escape(title)}</title>{head}</head>\n"
        f"<body>\n<h1>{html_escape.escape(title)}</h1>\n{body}<ul>\n{anchors}</ul>\n</body>\n</html>\n"
    )


def text(body: str, *, status: int = 200) -> Reply:
    """A plain text response, such as a robots.txt."""
    return Reply(status=status, body=body, content_type="text/plain; charset=utf-8")


def redirect(to: str, *, status: int = 302) -> Reply:
    return Reply(status=status, headers={"Location": to})


def not_found() -> Reply:
    return Reply(status=404, body="<!DOCTYPE html><title>Not found</title><h1>Not found</h1>\n")


def hang_up() -> Reply:
    """Close the connection without sending a response."""
    return Reply(status=0, broken=True)


class LocalWeb:
    """`async with LocalWeb({"a.test": {"/": html("Home")}}) as web:` serves until the block ends.

    `sites` maps a host (from the Host header) to its pages, and may be changed while serving. A
    page is a `Reply`, or a function, async or not, that takes a `ReceivedRequest` and returns one.
    Unknown hosts and paths answer 404. If the function raises an exception, the request is answered
    with 500, and the exception is raised again when the block ends.
    """

    def __init__(self, sites: Mapping[str, Site] | None = None, *, keep_alive: bool = True) -> None:
        self.sites: dict[str, Site] = dict(sites or {})
        self.log = RequestLog()
        self.port = 0
        self.dead_port = 0  # refuses connections
        self.keep_alive = keep_alive
        self.connections = 0  # opened so far
        self._open: set[_HttpConnection] = set()
        self._errors: list[Exception] = []
        self._server: asyncio.Server | None = None
        self._dead: socket.socket | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _HttpConnection(self, self._open), "127.0.0.1", 0, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._dead = socket.socket()  # bound but not listening, so that no other process takes it
        self._dead.bind(("127.0.0.1", 0))
        self.dead_port = self._dead.getsockname()[1]
        return self

    async def __aexit__(self, _kind: object, error: object, _traceback: object) -> None:
        if self._dead:
            self._dead.close()
        if self._server:
            self._server.close()
        await asyncio.gather(*(connection.abort() for connection in tuple(self._open)))
        if self._server:
            await self._server.wait_closed()
        if self._errors and error is None:
            raise ExceptionGroup("pages of the local web raised", self._errors)

    # ------------------------------------------------------------ configuration

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def config(self, **sections: Mapping[str, object]) -> dict[str, dict[str, object]]:
        """A config, in the structure of the TOML file, that resolves `*.test` to this web.

        `sections` are merged into it:
        `web.config(politeness={"delay": 0.1}, network={"resolve": {…}})`.
        """
        config: dict[str, dict[str, object]] = {
            "network": {"resolve": {"*.test": "127.0.0.1"}, "allow": ["127.0.0.0/8"]},
        }
        for name, section in sections.items():
            config[name] = {**config.get(name, {}), **section}
        return config

    # ------------------------------------------------------------ responses

    async def answer(self, request: ReceivedRequest) -> Reply:
        """The response to a request. Subclasses and wrappers may override it."""
        site = self.sites.get(request.host, {})
        if callable(site):
            page: Reply | Handler | None = site
        else:
            page = site.get(request.path) or site.get(request.path.partition("?")[0])
        if page is None:
            return not_found()
        if isinstance(page, Reply):
            return page
        try:
            made = page(request)
            return await made if inspect.isawaitable(made) else made
        except Exception as error:  # noqa: BLE001 - raised again when the web closes
            self._errors.append(error)
            return Reply(status=500)


@dataclass(eq=False, slots=True)
class _HttpConnection(asyncio.Protocol):
    """One client connection. Requests are answered one after the other; bodies are not read."""

    web: LocalWeb
    open: set[_HttpConnection]
    transport: asyncio.Transport | None = None
    buffer: bytes = b""
    start_s: float = 0.0
    task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(transport)
        self.transport = transport
        self.web.connections += 1
        self.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.discard(self)
        if self.task:
            self.task.cancel()

    async def abort(self) -> None:
        if self.transport:
            self.transport.abort()
        if self.task:
            self.task.cancel()
            await asyncio.wait([self.task])

    def data_received(self, data: bytes) -> None:
        if not self.buffer:
            self.start_s = time.monotonic()
        self.buffer += data
        if self.task is None:
            self._next()
        if len(self.buffer) > _HEAD_BYTES_MAX and self.transport:
            self.transport.abort()

    def _next(self) -> None:
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end or self.transport is None or self.transport.is_closing():
            return
        self.buffer = rest
        request_line, *lines = head.decode("latin-1").split("\r\n")
        headers = CIMultiDict(
            (name, value.strip()) for name, _, value in (line.partition(":") for line in lines)
        )
        method, _, target = request_line.partition(" ")
        request = ReceivedRequest(
            method=method,
            host=_host(headers.get("Host", "")),
            path=target.rpartition(" ")[0],
            headers=headers,
        )
        entry = LoggedRequest(
            host=request.host,
            path=request.path,
            headers={name.lower(): value for name, value in headers.items()},
            start_s=self.start_s,
        )
        self.web.log.append(entry)
        self.task = asyncio.get_running_loop().create_task(
            self._answer(self.transport, request, entry)
        )
        self.task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if not task.cancelled() and (error := task.exception()):
            raise error
        self._next()

    async def _answer(
        self, transport: asyncio.Transport, request: ReceivedRequest, entry: LoggedRequest
    ) -> None:
        try:
            reply = await self.web.answer(request)
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s)
            close = reply.broken or not self.web.keep_alive
            head, body = _encoded(reply, close=close)
            if reply.broken:
                body = body[: len(body) // 2]
            if request.method == "HEAD":
                body = b""
            if reply.body_s:
                transport.write(head)
                head, step = b"", max(1, len(body) // _SLOW_PIECES)
                while len(body) > step:
                    transport.write(body[:step])
                    body = body[step:]
                    await asyncio.sleep(reply.body_s / _SLOW_PIECES)
            entry.status = reply.status or None
            entry.end_s = time.monotonic()
            transport.write(head + body)
            if close:
                transport.close()
        finally:
            entry.end_s = min(entry.end_s, time.monotonic())


def _host(header: str) -> str:
    if header.startswith("["):
        return header[1:].lower().partition("]")[0]
    return header.lower().partition(":")[0]


def _encoded(reply: Reply, *, close: bool) -> tuple[bytes, bytes]:
    if not reply.status:
        return b"", b""
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    headers = CIMultiDict(reply.headers)
    if body or reply.content_type:
        headers.setdefault("Content-Type", reply.content_type)
    if reply.status not in (204, 304):
        headers.setdefault("Content-Length", str(len(body)))
    if close:
        headers["Connection"] = "close"
    try:
        phrase = http.HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {reply.status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1"), body

"""The protocol of one server connection: aiohttp's, which also answers what is not valid HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import StreamReader, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

KEEPALIVE_S: Final = 60.0  # of an idle connection
LINGER_S: Final = 2.0  # for the rest of a body that is not read, such as of a refused request
HEADERS_MAX: Final = 64  # of a request; browsers send about 20
ON_SOCKET: Final = "the Unix socket"  # in place of the address of a client
PROBLEM_TYPE: Final = "application/problem+json"  # RFC 9457
# What a client has done wrong: in the header of a request, or in its body.
CLIENT_ERRORS: Final = (HttpProcessingError, web.RequestPayloadError)
CONTINUE: Final = "100-continue"
# Such a request reaches no route, so no middleware adds these.
_HEADERS: Final[Mapping[str, str]] = {
    "Server": "courtly",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}


class MalformedLog(Protocol):
    """The log of malformed requests."""

    def malformed(self, peer: str, error: str) -> None: ...


class RequestFactory:
    """Makes requests from their headers, for `web.Server.request_factory`.

    base_path: a prefix that is removed from their paths, so that no handler sees it. Paths without
    it are served as well, because some proxies remove it.
    """

    def __init__(self, server: web.Server, base_path: str = "") -> None:
        self._make = server.request_factory
        self._base_path = base_path

    def __call__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        made = self._without_prefix(_without_expectation(message))
        return self._make(made, payload, protocol, writer, task)

    def _without_prefix(self, message: RawRequestMessage) -> RawRequestMessage:
        base, path = self._base_path, message.url.raw_path
        if not base or not f"{path}/".startswith(f"{base}/"):
            return message
        url = URL.build(
            path=path[len(base) :] or "/", query_string=message.url.raw_query_string, encoded=True
        )
        return message._replace(path=str(url), url=url)


def _without_expectation(message: RawRequestMessage) -> RawRequestMessage:
    """Ignore expectations other than `100-continue` (RFC 9110, section 10.1.1, permits it): aiohttp
    would quote them in its response, or fail to."""
    if message.headers.get(hdrs.EXPECT, CONTINUE).lower() == CONTINUE:
        return message
    headers = CIMultiDict(message.headers)
    del headers[hdrs.EXPECT]
    return message._replace(headers=CIMultiDictProxy(headers))


class RequestHandler(web.RequestHandler):
    """Answers malformed requests without quoting them, in the response or in the log: what is wrong
    may be the header with the token."""

    __slots__ = ("_malformed", "peer")

    def __init__(self, server: web.Server, malformed: MalformedLog | None) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
            max_headers=HEADERS_MAX,
            access_log=None,  # type: ignore[arg-type]
        )
        self._malformed = malformed
        self.peer = ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is complete that is not answered: nothing has arrived since the last
        one, or a part of a header."""
        waits = self._waiter is not None and not self._waiter.done()
        return not self._messages and (waits or not self._request_count)

    def refuse_head(self, status: int) -> None:
        """Answer a request whose header is not complete, and close the connection."""
        self._record(web.HTTPRequestHeaderFieldsTooLarge())
        if self.transport is not None:
            phrase = HTTPStatus(status).phrase
            body = _invalid(status)
            head = [f"HTTP/1.1 {status} {phrase}", f"Content-Type: {PROBLEM_TYPE}"]
            head += [f"{name}: {value}" for name, value in _HEADERS.items()]
            head += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
            self.transport.write("\r\n".join(head).encode() + body)
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, CLIENT_ERRORS):
            return super().handle_error(request, status, exc, message)
        self._record(exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a response was sent already")
        response = web.Response(
            body=_invalid(status),
            status=status,
            content_type=PROBLEM_TYPE,
            headers=_HEADERS,
        )
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Errors outside of a handler, such as those of a body that no handler has read."""
        error = kw.get("exc_info")
        if isinstance(error, CLIENT_ERRORS):
            self._record(error)
        else:
            super().log_exception(*args, **kw)

    def _record(self, error: BaseException) -> None:
        if self._malformed is not None:
            self._malformed.malformed(self.peer or ON_SOCKET, type(error).__name__)


def _invalid(status: int) -> bytes:
    """The body of a response to what is not valid HTTP, as problem details."""
    title = HTTPStatus(status).phrase
    detail = "the request is not valid HTTP"
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return json.dumps(problem).encode()

"""Requests written straight onto the connections of aiohttp's pool.

aiohttp's connector makes and keeps the connections and its parser reads the answers, but the layers
of ClientSession and ClientResponse are bypassed: they cost more than half of the CPU time of a
request, for redirects, retries, cookie jars, traces and timeouts that a crawl does not use.
Requests with a body or a proxy go through the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from aiohttp import ClientConnectionResetError, ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.streams import StreamReader
from multidict import CIMultiDict
from yarl import URL

from crawler.fetching.connection_pool import FIELD_BYTES_MAX, FIELDS_MAX, Connector
from crawler.fetching.request import DEFAULT_LIMITS, FetchLimits, Headers, Request
from crawler.fetching.site_settings import SiteSettings, SiteSettingsTable

# The Watchdog enforces every deadline; aiohttp sets none.
NO_TIMEOUT: Final = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
# 1.4 KB each, as many as a crawl holds hosts. A dropped one is made again when it is needed.
ENDPOINTS_MAX: Final = 4_096
_METHODS: Final = frozenset({"GET", "HEAD"})


class RawResponse(Protocol):
    """An answer whose header has arrived: the part of aiohttp's ClientResponse that is used."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def content(self) -> StreamReader: ...
    @property
    def closed(self) -> bool:
        """Whether its connection is closed or back in the pool."""
        ...

    def close(self) -> None:
        """Close the connection, unless it is back in the pool."""
        ...


class DirectResponse:
    """A RawResponse read from a connection of the pool."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self, status: int, headers: Headers, content: StreamReader, connection: Connection
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        self._connection = connection
        if status != 101:  # that connection has switched to another protocol
            content.on_eof(connection.release)

    @property
    def closed(self) -> bool:
        return self._connection.protocol is None

    def close(self) -> None:
        self._connection.close()


class PooledRequest(ClientRequest):
    """The request by which the pool finds a connection, with its key computed once."""

    _key: ConnectionKey | None = None

    @property
    def connection_key(self) -> ConnectionKey:
        key = self._key
        if key is None:
            key = self._key = super().connection_key
        return key


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """How requests to one origin are made.

    host: as in the URL, an IPv6 address without its brackets.
    authority: the value of the Host field.
    pooled: finds a connection in the pool; None: only the session can send to this origin.
    head: the request from the end of the path on, for a request without headers of its own.
    keeps_connections: False once the server has not answered on a kept connection.
    """

    host: str
    authority: str
    settings: SiteSettings
    pooled: PooledRequest | None = None
    head: bytes = b""
    keeps_connections: bool = True
    _requested: FetchLimits | None = field(default=None, init=False)
    _limits: FetchLimits = field(default=DEFAULT_LIMITS, init=False)

    def limits(self, requested: FetchLimits) -> FetchLimits:
        """The limits of a request under the settings of its site.

        The last result is kept, since all pages of a host are requested with the same limits.
        """
        if requested is not self._requested:
            self._limits = self.settings.limited(requested)
            self._requested = requested
        return self._limits


class DirectClient:
    """Sends requests over a connector. `headers` go with each of them."""

    def __init__(
        self, connector: Connector, headers: Mapping[str, str], settings: SiteSettingsTable
    ) -> None:
        self._connector = connector
        self._headers = headers
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._endpoints: dict[str, Endpoint] = {}

    def endpoint(self, url: str) -> Endpoint | None:
        """The endpoint of a URL's origin; None: the URL cannot be requested."""
        path_at = url.find("/", 8)
        origin = url[:path_at] if path_at > 0 else ""
        if (endpoint := self._endpoints.get(origin)) is not None:
            return endpoint
        try:
            target = URL(url, encoded=True)
            host = target.raw_host
            return self._new_endpoint(origin, target, host) if host else None
        except ValueError:
            return None

    def _new_endpoint(self, origin: str, target: URL, host: str) -> Endpoint:
        settings = self._settings.of(host)
        authority = target.host_port_subcomponent or host
        endpoint = Endpoint(host=host, authority=authority, settings=settings)
        if str(target.origin()) != origin:
            return endpoint  # yarl writes this URL in another way
        endpoint.pooled = PooledRequest("GET", target.origin(), loop=self._loop, ssl=settings.tls)
        endpoint.head = self.head(authority, settings.headers)
        self._endpoints[origin] = endpoint
        if len(self._endpoints) > ENDPOINTS_MAX:
            del self._endpoints[next(iter(self._endpoints))]
        return endpoint

    def head(self, authority: str, headers: Mapping[str, str]) -> bytes:
        """The request from the end of the path on. `headers` replace the client's own of the same
        name. Raises ValueError for a header with a line break."""
        fields = CIMultiDict({"Host": authority})
        fields.update(self._headers)
        fields.update(headers)
        lines = [f"{name}: {value}" for name, value in fields.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise ValueError("a header must not have line breaks")
        return "\r\n".join((" HTTP/1.1", *lines, "", "")).encode()

    async def request(self, pooled: PooledRequest, request: Request, head: bytes) -> RawResponse:
        """Send a request once and return when the answer's header has arrived.

        Raises what aiohttp's connector and parser raise.
        """
        url, method = request.url, request.method
        connection = await self._connector.connect(pooled, [], NO_TIMEOUT)
        try:
            protocol = connection.protocol
            assert protocol is not None
            protocol.set_response_params(
                skip_payload=method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                max_line_size=FIELD_BYTES_MAX,
                max_field_size=FIELD_BYTES_MAX,
                max_headers=FIELDS_MAX,
            )
            _write(protocol, f"{method} {url[url.index('/', 8) :]}".encode() + head)
            while True:
                message, content = await protocol.read()
                status = message.code
                if status >= 200 or status < 100 or status == 101:
                    break
        except BaseException:
            connection.close()
            raise
        return DirectResponse(status, message.headers, content, connection)


def _write(protocol: ResponseHandler, data: bytes) -> None:
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise ClientConnectionResetError("the connection is closing")
    transport.write(data)


def goes_direct(request: Request) -> bool:
    """Return whether a request can be written directly, exactly as the session would write it."""
    return (
        request.data is None
        and request.proxy is None
        and request.method in _METHODS
        # yarl drops a fragment and the question mark of an empty query.
        and "#" not in request.url
        and request.url[-1] != "?"
    )

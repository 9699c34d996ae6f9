"""Requests written straight onto the connections of aiohttp's pool: its connector makes and keeps
them, its parser reads them, but what ClientSession and ClientResponse do around that is left out.

Measured (CPython 3.11, uvloop, pages of 23 KB over loopback, system calls included): 27 µs of CPU a
request, of which 11 are the kernel's; the same through `ClientSession.request` 70 µs. What this
leaves out is what a crawl does not use: redirects followed, requests sent again, cookie jars,
traces, middlewares, timeouts of its own, bodies sent, proxies. A request that needs one of the last
two goes through the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from aiohttp import ClientConnectionResetError, ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.streams import StreamReader
from multidict import CIMultiDict
from yarl import URL

from crawler.fetching.request import DEFAULT_LIMITS, FetchLimits, Headers, Request
from crawler.fetching.terms import Terms
from crawler.fetching.wire import FIELD_BYTES_MAX, FIELDS_MAX, Connector

# Our own timer holds every deadline; aiohttp sets none.
NO_TIMEOUT: Final = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
# 1.4 KB each, as many as a crawl holds hosts. One forgotten and learned again costs 12 µs.
WAYS_MAX: Final = 4_096
_METHODS: Final = frozenset({"GET", "HEAD"})


class Reply(Protocol):
    """An answer whose header is there: what is wanted of an aiohttp ClientResponse."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def content(self) -> StreamReader: ...
    @property
    def closed(self) -> bool:
        """Whether its connection is out of its hands: back in the pool, or closed."""
        ...

    def close(self) -> None:
        """Close the connection, if it is still in its hands."""
        ...


class DirectReply:
    """A Reply read off the connection."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self, status: int, headers: Headers, content: StreamReader, connection: Connection
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        self._connection = connection
        if status != 101:  # that connection speaks something else now
            content.on_eof(connection.release)

    @property
    def closed(self) -> bool:
        return self._connection.protocol is None

    def close(self) -> None:
        self._connection.close()


class Asked(ClientRequest):
    """What the pool goes by: it asks for the key at every request, and is given the same."""

    _key: ConnectionKey | None = None

    @property
    def connection_key(self) -> ConnectionKey:
        key = self._key
        if key is None:
            key = self._key = super().connection_key
        return key


class Way:
    """How requests to one origin are made.

    host: as in the URL, an IPv6 address without its brackets; authority: for the Host field.
    asked: what the pool goes by; None: only the session can ask this origin.
    head: what follows the path, for a request that adds nothing to the headers of its terms.
    keeps: whether its connections are kept; not where the server did not answer on a kept one.
    """

    __slots__ = ("_asked_limits", "_limits", "asked", "authority", "head", "host", "keeps", "terms")

    def __init__(
        self,
        host: str,
        authority: str,
        terms: Terms | None,
        asked: ClientRequest | None,
        head: bytes,
    ) -> None:
        self.host = host
        self.authority = authority
        self.terms = terms
        self.asked = asked
        self.head = head
        self.keeps = True
        self._asked_limits: FetchLimits | None = None
        self._limits = DEFAULT_LIMITS

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.terms is None else self.terms.headers

    def limits(self, asked: FetchLimits) -> FetchLimits:
        """Under its terms. The last answer is kept: all pages of a host ask for the same."""
        if asked is not self._asked_limits:
            self._limits = asked if self.terms is None else self.terms.limited(asked)
            self._asked_limits = asked
        return self._limits


class Direct:
    """Makes requests over a connector. `headers` are sent with each; `terms` as the fetcher has
    them."""

    def __init__(
        self,
        connector: Connector,
        headers: Mapping[str, str],
        terms: Callable[[str], Terms] | None,
    ) -> None:
        self._connector = connector
        self._headers = headers
        self._terms = terms
        self._loop = asyncio.get_running_loop()
        self._ways: dict[str, Way] = {}

    def way(self, url: str) -> Way | None:
        """The way to its origin; None: the URL cannot be requested."""
        path_at = url.find("/", 8)
        origin = url[:path_at] if path_at > 0 else ""
        way = self._ways.get(origin)
        if way is not None and (self._terms is None or self._terms(way.host) is way.terms):
            return way
        try:
            target = URL(url, encoded=True)
            host = target.raw_host
            return self._learn(origin, target, host) if host else None
        except ValueError:
            return None

    def _learn(self, origin: str, target: URL, host: str) -> Way:
        terms = None if self._terms is None else self._terms(host)
        authority = target.host_port_subcomponent or host
        if str(target.origin()) != origin:
            return Way(host, authority, terms, None, b"")  # yarl would write it in another way
        tls = True if terms is None else terms.tls
        way = Way(
            host,
            authority,
            terms,
            Asked("GET", target.origin(), loop=self._loop, ssl=tls),
            self.head(authority, {} if terms is None else terms.headers),
        )
        self._ways.pop(origin, None)
        self._ways[origin] = way
        if len(self._ways) > WAYS_MAX:
            del self._ways[next(iter(self._ways))]
        return way

    def head(self, authority: str, headers: Mapping[str, str]) -> bytes:
        """What follows the path, with these headers beside or instead of our own. Raises ValueError
        for one that would end its line."""
        fields = CIMultiDict({"Host": authority})
        fields.update(self._headers)
        fields.update(headers)
        lines = [f"{name}: {value}" for name, value in fields.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise ValueError("a header must not have line breaks")
        return "\r\n".join((" HTTP/1.1", *lines, "", "")).encode()

    async def request(self, asked: ClientRequest, request: Request, head: bytes) -> Reply:
        """Send a request and return when the answer's header is there. Raises what aiohttp's
        connector and parser raise; nothing is sent twice."""
        url, method = request.url, request.method
        connection = await self._connector.connect(asked, [], NO_TIMEOUT)
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
        return DirectReply(status, message.headers, content, connection)


def _write(protocol: ResponseHandler, data: bytes) -> None:
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise ClientConnectionResetError("the connection is closing")
    transport.write(data)


def goes_direct(request: Request) -> bool:
    """Whether it can be written here, and as the session would write it."""
    return (
        request.data is None
        and request.proxy is None
        and request.method in _METHODS
        # yarl drops a fragment, and the mark of an empty query.
        and "#" not in request.url
        and request.url[-1] != "?"
    )

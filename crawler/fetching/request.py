"""The interface of fetchers: requests, answers and failures as plain values."""

from __future__ import annotations

import copyreg
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct
from multidict import CIMultiDict, CIMultiDictProxy

from policies.holds import HoldReason
from policies.retries import FailureCode

Headers = CIMultiDictProxy[str]


def _reduced(headers: Headers) -> tuple[Callable[..., Headers], tuple[tuple[str, str], ...]]:
    return _restored, tuple(headers.items())


def _restored(*fields: tuple[str, str]) -> Headers:
    return CIMultiDictProxy(CIMultiDict(fields))


# multidict makes no proxy picklable; with this, pages, responses and their headers are.
copyreg.pickle(CIMultiDictProxy, _reduced)

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})  # RFC 9110, 15.4
# No connection was made: these failures count against the host, not against the URL.
UNCONNECTED: Final = frozenset(
    {FailureCode.DNS, FailureCode.CONNECT, FailureCode.TLS, FailureCode.ADDRESS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The limits of one request, in seconds and bytes. A failure names the limit it reached."""

    # From the first packet to the last byte of the body.
    timeout_s: float = 30.0
    # The body after decompression.
    body_bytes_max: int = 10_000_000
    # For the name lookup, and again for TCP and TLS together. A lost SYN is sent again after 1, 3
    # and 7 s: this waits for all three.
    connect_s: float = 10.0
    # From the request to the end of the answer's header; by default limited by `timeout_s` alone.
    head_s: float = math.inf
    # The answer's header, interim answers included: four fields of the maximum length.
    head_bytes_max: int = 256 * 1024
    # A body must bring at least rate x window bytes in each window. 1,000 bytes in 10 s is less
    # than the slowest modem could deliver.
    rate_bytes_per_s_min: float = 100.0
    rate_window_s: float = 10.0
    # The earliest time at which any of them can be reached.
    soonest_s: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        soonest_s = min(self.timeout_s, self.connect_s, self.head_s, self.rate_window_s)
        object.__setattr__(self, "soonest_s", soonest_s)


DEFAULT_LIMITS: Final = FetchLimits()


@functools.lru_cache(maxsize=256)
def limits_of(timeout_s: float, body_bytes_max: int) -> FetchLimits:
    """The default limits with these two. Requests with equal limits share one object."""
    return FetchLimits(timeout_s=timeout_s, body_bytes_max=body_bytes_max)


# They hold URLs, in which browsers percent-encode bytes that are not UTF-8.
_OF_URLS: Final = frozenset({"location", "content-location", "link", "refresh"})
_SURROGATE: Final = re.compile("[\udc80-\udcff]")


def readable(headers: Headers) -> Headers:
    """Headers without lone surrogates, which neither SQLite nor JSON can store.

    aiohttp decodes headers as UTF-8 and turns other bytes into lone surrogates. They become `%XX`
    in fields that hold URLs, else characters of Latin-1 (RFC 9110, 5.5); Latin-1's control
    characters become U+FFFD.
    """
    if "".join(headers.values()).isascii():
        return headers
    return CIMultiDictProxy(
        CIMultiDict(
            (
                name,
                _SURROGATE.sub(_escaped if name.lower() in _OF_URLS else _latin, value),
            )
            for name, value in headers.items()
        )
    )


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]) & 0xFF:02X}"


def _latin(found: re.Match[str]) -> str:
    byte = ord(found[0]) & 0xFF
    return chr(byte) if byte >= 0xA0 else "\ufffd"


class Head(Struct, frozen=True, kw_only=True):
    """The status and header of an answer whose body has not been read yet."""

    url: str
    status: int
    headers: Headers


class OversizeError(Exception):
    """The body is longer than its limit."""


class NoPlaceError(Exception):
    """Other large bodies left no memory for this one."""


def service_of(url: str) -> str:
    """The scheme and port of a canonical URL: `http:` or `https:`, and the port unless it is the
    scheme's default."""
    scheme, _, rest = url.partition("://")
    _, _, port = rest.partition("/")[0].rpartition("]")[2].partition(":")
    return f"{scheme}:{port}"


# A body up to this size is small: it needs no place, and as a page it is parsed on the event loop,
# in a few milliseconds.
LARGE_BYTES: Final = 262_144


class BodyPlace(Protocol):
    """What a body may take of the memory. It may have `size_bytes`; before it has more, it waits.

    Its owner, who makes the request, gives it up when the body is in memory no longer.
    """

    size_bytes: int

    async def grow(self, size_bytes: int, *, most_bytes: int, wait_s: float) -> None:
        """Wait until the body may have this many bytes, at most this long. most_bytes: what it may
        become. Raises NoPlaceError."""
        ...


class BodySink(Protocol):
    """Receives a decoded body in pieces of some 64 KB, so that it is never in memory as a whole.

    It limits the size of the body itself. The sender waits while it works.
    """

    @property
    def timeout_s(self) -> float | None:
        """The time that the whole request may take, if longer than the request's own limit."""
        ...

    @property
    def kept_bytes(self) -> int:
        """How much of what it took is in memory. Looked up if the request has a place."""
        ...

    async def take(self, piece: bytes) -> bool:
        """Take a piece. Returns whether more is wanted. May raise OversizeError."""
        ...

    async def end(self) -> None:
        """The body has ended, or no more was wanted. Not called for a broken body."""
        ...


class BodyReader(Protocol):
    """Decides about a body when its header has come."""

    def wants_body(self, head: Head) -> bool:
        """Return whether the body is read at all."""
        ...

    def sink(self, head: Head) -> BodySink | None:
        """Return where a wanted body goes; None: into the Answer. `limits.body_bytes_max` does not
        apply to a sink."""
        ...


class Request(Struct, frozen=True, kw_only=True):
    """One request.

    url: canonical (`policies.url.canonical`); it is sent as it is.
    headers: sent in addition to the fetcher's own, which they replace where names are equal.
    reader: decides whether the body is read, and where to. None: it is read into the Answer.
    place: what the body may take of the memory, if that is limited beside `limits`.
    cut_ok: a body longer than its limit is cut (robots.txt) instead of being a failure.
    proxy: the URL of an HTTP proxy. Addresses are then not checked, since the proxy connects,
      except for one in the URL itself.
    bare: without the headers configured for this host alone, which are for another of its schemes
      or ports.
    anonymous: of another program, which may not use what is configured for this host: without its
      credentials and cookies, and of its headers only the harmless ones. It teaches no cookies.

    Headers and proxy may hold secrets, so they are not part of its repr.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = _NO_HEADERS
    data: bytes | None = None
    limits: FetchLimits = DEFAULT_LIMITS
    reader: BodyReader | None = None
    place: BodyPlace | None = None
    cut_ok: bool = False
    proxy: str | None = None
    bare: bool = False
    anonymous: bool = False

    def __repr__(self) -> str:
        return f"Request(url={self.url!r}, method={self.method!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """The fields rich shows in tracebacks; by default it would show all of a Struct."""
        return [("url", self.url), ("method", self.method)]


class Answer(Struct, frozen=True, kw_only=True):
    """A complete answer, of any status.

    body: decompressed; b"" if there is none, or if it was not wanted (`body_read` is False).
    cut: the body was longer than its limit, with `Request.cut_ok`, or than its sink wanted.
    wire_bytes: bytes received: header, framing and the body as sent.
    poured_bytes: bytes of the decompressed body that went into a sink.
    started_s, ended_s: monotonic. The contact begins with the first packet sent to the host (the
      request itself on a connection that was kept open). It ends with the last byte of the answer,
      or when reading ended, if the framing does not show which byte is the last.
    address: the peer (with a proxy, the proxy).
    latency_s: from the sending of the request to the end of the answer's header.
    gateway: the answer is about the way to the host: the proxy could not reach it, or the network
      requires a login (511).
    raw_headers: the headers as received, with bytes that are not UTF-8 as lone surrogates; None if
      `headers` are the same.
    """

    url: str
    status: int
    headers: Headers
    body: bytes
    body_read: bool
    cut: bool
    wire_bytes: int
    started_s: float
    ended_s: float
    address: str | None
    latency_s: float = 0.0
    poured_bytes: int = 0
    raw_headers: Headers | None = None
    gateway: bool = False

    @property
    def elapsed_s(self) -> float:
        return self.ended_s - self.started_s


class Failure(Struct, frozen=True, kw_only=True):
    """The result of a request without an answer, or with an incomplete one.

    sentence: for people; it names the limit that was reached.
    connected: False exactly for dns, address, connect and tls.
    permanent: another attempt cannot help: a refused address, a name that does not exist, a URL
      that cannot be sent.
    status, headers: of the answer, if its header was read.
    ours: a problem of this machine, charged neither to the host nor to the URL.
    local: reported by our side of the network (no route, no resolver), so the problem may be this
      machine's or the host's.
    stale: the connection was kept from an earlier request and brought nothing. The server may have
      closed it before it saw the request, so the URL is not charged. No further connection to the
      origin is kept.
    received: whether any byte came from the host.
    broken_off: the answer stopped: the connection was reset, or nothing more arrived on it.
    contacted: False if no socket was made, so that nothing was sent to the host.
    stopped: broken off because the crawl ends, or has no memory for the body, which shows nothing
      of the host or the network.
    """

    url: str
    code: FailureCode
    sentence: str
    connected: bool
    permanent: bool
    started_s: float
    ended_s: float
    status: int | None = None
    headers: Headers | None = None
    ours: HoldReason | None = None
    local: bool = False
    stale: bool = False
    received: bool = False
    broken_off: bool = False
    contacted: bool = True
    stopped: bool = False

    @property
    def error(self) -> str:
        """The form that the `failed` view shows."""
        return f"{self.code}: {self.sentence}"

    @property
    def elapsed_s(self) -> float:
        return self.ended_s - self.started_s


class NetworkError(Struct, frozen=True):
    """Raised when a request failed; the fields are those of `Failure`."""

    code: FailureCode
    sentence: str
    permanent: bool = False
    ours: HoldReason | None = None
    local: bool = False

    def failure(self, url: str, *, started_s: float, ended_s: float) -> Failure:
        return Failure(
            url=url,
            code=self.code,
            sentence=self.sentence,
            connected=self.code not in UNCONNECTED,
            permanent=self.permanent,
            started_s=started_s,
            ended_s=ended_s,
            ours=self.ours,
            local=self.local,
        )


class Fetcher(Protocol):
    async def fetch(self, request: Request) -> Answer | Failure:
        """Send one request (none if no connection is made), follow no redirect, enforce the limits.

        Raises nothing that a server or a network can cause. Leaves no connection behind when
        cancelled.
        """
        ...

    async def address_of(self, host: str) -> str | Failure:
        """The address that requests to `host` go to, for delays that count per address
        (`per = "ip"`). Does not contact the host."""
        ...

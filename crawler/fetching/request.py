"""What is asked of a fetcher and what it answers: plain values, and the seam for test doubles."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct
from multidict import CIMultiDictProxy

from policies.holds import HoldReason
from policies.retry import FailureCode

Headers = CIMultiDictProxy[str]

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})  # RFC 9110, 15.4
# No connection was made: these are the host's failures, and count against it (design section 4).
UNCONNECTED: Final = frozenset(
    {FailureCode.DNS, FailureCode.CONNECT, FailureCode.TLS, FailureCode.ADDRESS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The bounds of one fetch; each is named by the failure that meets it. Seconds and bytes."""

    # From the first packet to the last byte of the body.
    timeout_s: float = 30.0
    # The body after decompression.
    body_bytes_max: int = 10_000_000
    # The name lookup; and again TCP and TLS together. A lost SYN is sent again after 1, 3 and 7 s:
    # this waits for all three.
    connect_s: float = 10.0
    # From the request to the end of the answer's header; by default as long as the whole may take:
    # a slow server is waited for as long as `timeout` promises.
    head_s: float = math.inf
    # The answer's header, interim answers included. Real headers stay under 16 KiB; four fields of
    # the longest kind we take fit in this.
    head_bytes_max: int = 256 * 1024
    # A body must bring at least rate x window bytes in each window. 1,000 bytes in 10 s is less
    # than the slowest modem brought; a slower sender holds a slot to no purpose.
    rate_bytes_per_s_min: float = 100.0
    rate_window_s: float = 10.0
    # The soonest any of them can be met: one timer a request, set to this.
    soonest_s: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        soonest_s = min(self.timeout_s, self.connect_s, self.head_s, self.rate_window_s)
        object.__setattr__(self, "soonest_s", soonest_s)


DEFAULT_LIMITS: Final = FetchLimits()


@functools.lru_cache(maxsize=256)
def limits_of(timeout_s: float, body_bytes_max: int) -> FetchLimits:
    """The default limits with these two; one object for all requests that have the same."""
    return FetchLimits(timeout_s=timeout_s, body_bytes_max=body_bytes_max)


# Not for another origin (scheme, host and port) than the one they were given for: headers with one
# of these in their names.
_OF_ONE_ORIGIN: Final = ("auth", "cookie", "key", "token", "secret", "session", "passw", "csrf")


def may_be_secret(name: str) -> bool:
    """Whether the name of a header suggests that its value is a secret."""
    lower = name.lower()
    return any(part in lower for part in _OF_ONE_ORIGIN)


class Head(Struct, frozen=True, kw_only=True):
    """Status and header of an answer whose body has not been read yet."""

    url: str
    status: int
    headers: Headers


class OversizeError(Exception):
    """The body passed its bound."""


def service_of(url: str) -> str:
    """Scheme and port of a canonical URL: `http:` or `https:`, followed by the port if it is not
    the scheme's own."""
    scheme, _, rest = url.partition("://")
    _, _, port = rest.partition("/")[0].rpartition("]")[2].partition(":")
    return f"{scheme}:{port}"


class BodySink(Protocol):
    """Takes a body as it comes, decoded, in pieces of some 64 KB, so that it is never whole in
    memory. The body's bound is its own affair: while it works the sender waits."""

    @property
    def timeout_s(self) -> float | None:
        """If more than the request's own, the time that the whole request may take."""
        ...

    async def take(self, piece: bytes) -> bool:
        """False: no more is wanted. May raise OversizeError."""
        ...

    async def end(self) -> None:
        """No more comes: that was all, or no more was wanted. Not called for a broken body."""
        ...


class Request(Struct, frozen=True, kw_only=True):
    """One request.

    url: canonical (`policies.url.canonical`); it goes on the wire as it stands.
    headers: sent besides the fetcher's own, and instead of those of the same name.
    wants_body: asked once the header is there; False leaves the body unread. None: always wanted.
    cut_ok: a body longer than its bound is kept up to it (robots.txt), not a failure.
    into: asked when the body is wanted; given a BodySink, the body goes there and not into the
      Answer, and `limits.body_bytes_max` does not count.
    proxy: the URL of an HTTP proxy. What it connects to is the proxy's affair: addresses are then
      not judged, save for one that stands in the URL itself.
    bare: without the headers that the config has for this host alone: they are meant for another
      scheme or port of it.
    Headers and proxy may hold secrets: they are not shown.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = _NO_HEADERS
    data: bytes | None = None
    limits: FetchLimits = DEFAULT_LIMITS
    wants_body: Callable[[Head], bool] | None = None
    cut_ok: bool = False
    into: Callable[[Head], BodySink | None] | None = None
    proxy: str | None = None
    bare: bool = False

    def __repr__(self) -> str:
        return f"Request(url={self.url!r}, method={self.method!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """What rich shows of it, in tracebacks as well: a Struct's own would show everything."""
        return [("url", self.url), ("method", self.method)]


class Answer(Struct, frozen=True, kw_only=True):
    """A complete answer, of any status.

    body: decompressed. b"" when there is none, or when it was not wanted (`body_read` False).
    cut: the body was longer than its bound and is kept up to it; only with `Request.cut_ok`. Or
      the sink it went to wanted no more of it.
    wire_bytes: bytes received: header, framing and body as it came.
    poured_bytes: of the decompressed body, what went into a sink.
    started_s, ended_s: monotonic. The contact begins with the first packet sent to the host (on a
      connection kept alive with the request) and ends with the last byte of the answer; with one
      that its framing does not tell, when the body was read; or when it was given up.
    address: the peer connected to (behind a proxy, the proxy).
    latency_s: from the request handed to an open connection to the end of the answer's header.
    gateway: it speaks of the way to the host and not of the host: its proxy could not reach it, or
      the network asks for a login (511).
    raw_headers: the headers as received, with bytes that are not UTF-8 as lone surrogates; None
      where `headers` are the same.
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
    """No answer, or not a whole one.

    sentence: for people; it names the bound that was met.
    connected: False exactly for dns, address, connect and tls.
    permanent: asking again cannot help: a refused address, a name that does not exist, a URL that
      cannot be sent.
    status: of the answer, where its header was read.
    ours: trouble of our own, for which neither the host nor the URL is charged.
    local: the network said so on our own side (no route to any network, no resolver): it may be
      trouble of our own, or of this one host.
    stale: the connection was kept from an earlier request, and nothing came on it any more. The
      server may have closed it before it saw the request, so this is not the URL's failure. No
      connection to the origin is kept from now on.
    received: whether any byte came from the host. broken_off: what came had no end: the connection
    was reset, or nothing more came on it. contacted: False where not even a socket could be
      made, so that nothing was sent to the host.
    """

    url: str
    code: FailureCode
    sentence: str
    connected: bool
    permanent: bool
    started_s: float
    ended_s: float
    status: int | None = None
    ours: HoldReason | None = None
    local: bool = False
    stale: bool = False
    received: bool = False
    broken_off: bool = False
    contacted: bool = True

    @property
    def error(self) -> str:
        """The form of the `failed` view, design section 6."""
        return f"{self.code}: {self.sentence}"

    @property
    def elapsed_s(self) -> float:
        return self.ended_s - self.started_s


class Fetcher(Protocol):
    async def fetch(self, request: Request) -> Answer | Failure:
        """Exactly one request on the wire (none where no connection was made), no redirect
        followed, every bound enforced. Raises nothing for what a server or a network can do;
        cancelled, it leaves no connection behind."""
        ...

    async def address_of(self, host: str) -> str | Failure:
        """The address that requests to `host` go to, where a clock belongs to each address
        (`per = "ip"`). It makes no contact with the host."""
        ...

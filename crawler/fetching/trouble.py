"""What aiohttp, the system and our own bounds raise, each translated once: a code, a sentence for
people, and whether asking again can help."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from typing import Final

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.http_exceptions import ContentLengthError, HttpProcessingError, LineTooLong
from msgspec import Struct

from crawler.fetching.body import BrokenOffError
from crawler.fetching.decoding import DecodingError
from crawler.fetching.exchange import UNCONNECTED_PHASES, Bound, Exchange, Phase
from crawler.fetching.guard import AddressRefusedError
from crawler.fetching.own import blame
from crawler.fetching.request import UNCONNECTED, Failure, FetchLimits, OversizeError
from crawler.fetching.resolver import NameLookupError
from crawler.fetching.wire import (
    FIELD_BYTES_MAX,
    FIELDS_MAX,
    INTERIM_MAX,
    HeadTooLargeError,
    TooManyInterimsError,
    TrailerTooLargeError,
)
from policies.holds import HoldReason
from policies.retry import FailureCode


class Trouble(Struct, frozen=True):
    code: FailureCode
    sentence: str
    permanent: bool = False
    ours: HoldReason | None = None
    local: bool = False

    def failure(
        self,
        url: str,
        *,
        started_s: float,
        ended_s: float,
        status: int | None = None,
        stale: bool = False,
        received: bool = False,
        broken_off: bool = False,
        contacted: bool = True,
    ) -> Failure:
        """As a fetcher answers it."""
        return Failure(
            url=url,
            code=self.code,
            sentence=self.sentence,
            connected=self.code not in UNCONNECTED,
            permanent=self.permanent,
            started_s=started_s,
            ended_s=ended_s,
            status=status,
            ours=self.ours,
            local=self.local,
            stale=stale,
            received=received,
            broken_off=broken_off,
            contacted=contacted,
        )


PROXY_LOGIN: Final = 407
# No host is to blame, and only a proxy may ask for it (RFC 9110, 15.5.8).
NO_LOGIN: Final = Trouble(FailureCode.CONNECT, "the proxy asks for another login (407)", local=True)


class LostError(Exception):
    """The connection ended before an answer. Neither an OSError nor a ClientError, so that aiohttp,
    which would send a GET again after either, does not."""


async def once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """A client middleware that keeps aiohttp from sending a request again after a disconnect."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # never sent again
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise LostError from error


# All that reading hostile input has been seen or may be thought to raise in aiohttp and yarl. What
# else comes out is a fault of our own, and costs the URL.
NETWORK_ERRORS: Final = (
    aiohttp.ClientError,
    HttpProcessingError,
    OSError,
    LostError,
    OversizeError,
    BrokenOffError,
    DecodingError,
    HeadTooLargeError,
    TooManyInterimsError,
    ValueError,
    LookupError,
    AssertionError,
    RuntimeError,
)


def met(exchange: Exchange, limits: FetchLimits) -> Trouble:
    """The trouble for the deadline that `exchange` met."""
    match exchange.met:
        case Bound.RESOLVE:
            sentence = f"the name was not resolved within {limits.connect_s:g} s"
            return Trouble(FailureCode.DNS, sentence)
        case Bound.CONNECT:
            return Trouble(FailureCode.CONNECT, f"no connection within {limits.connect_s:g} s")
        case Bound.HANDSHAKE:
            sentence = f"the TLS handshake was not finished within {limits.connect_s:g} s"
            return Trouble(FailureCode.TLS, sentence)
        case Bound.HEAD if exchange.received:
            sentence = f"the answer's header was not complete within {limits.head_s:g} s"
        case Bound.HEAD:
            sentence = f"no answer within {limits.head_s:g} s"
        case Bound.RATE:
            sentence = (
                f"the body came at less than {limits.rate_bytes_per_s_min:g} bytes a second "
                f"for {limits.rate_window_s:g} s"
            )
        case _ if exchange.phase in UNCONNECTED_PHASES:
            return Trouble(FailureCode.CONNECT, f"no connection within {limits.timeout_s:g} s")
        case _:
            sentence = f"the answer was not complete within {limits.timeout_s:g} s"
    return Trouble(FailureCode.TIMEOUT, sentence)


def trouble(exc: BaseException, exchange: Exchange, limits: FetchLimits, *, tls: bool) -> Trouble:
    """The trouble for one of NETWORK_ERRORS. tls: the URL's scheme is https."""
    match exc:
        case aiohttp.ClientHttpProxyError():
            if exc.status == PROXY_LOGIN:
                return NO_LOGIN
            sentence = f"the proxy refused to connect, with status {exc.status}"
            return Trouble(FailureCode.CONNECT, sentence)
        case aiohttp.ClientConnectorCertificateError():
            return Trouble(FailureCode.TLS, _certificate(exc.certificate_error))
        case aiohttp.ClientConnectorSSLError():
            return Trouble(FailureCode.TLS, _handshake(exc.os_error))
        case aiohttp.ClientConnectorError():
            return _unconnected(exc.os_error, exc, tls=tls)
        case aiohttp.InvalidURL():
            if exc.description and "IPv4" in exc.description:
                sentence = f"{exc.url} is not a way to write an address"
                return Trouble(FailureCode.ADDRESS, sentence, permanent=True)
            return Trouble(FailureCode.PROTOCOL, "the URL cannot be requested", permanent=True)
        case OversizeError():
            sentence = f"the body is longer than {limits.body_bytes_max:,} bytes"
            return Trouble(FailureCode.TOO_LARGE, sentence)
        case DecodingError():
            return Trouble(FailureCode.BODY, str(exc))
        case TrailerTooLargeError():
            sentence = f"the body's trailer is longer than {limits.head_bytes_max:,} bytes"
            return Trouble(FailureCode.TOO_LARGE, sentence)
        case HeadTooLargeError():
            sentence = f"the answer's header is longer than {limits.head_bytes_max:,} bytes"
            return Trouble(FailureCode.TOO_LARGE, sentence)
        case TooManyInterimsError():
            sentence = f"more than {INTERIM_MAX} interim (1xx) answers"
            return Trouble(FailureCode.PROTOCOL, sentence)
    ours, local = blame(exc)
    if exchange.phase in UNCONNECTED_PHASES:
        sentence = f"no connection could be made ({type(exc).__name__})"
        return Trouble(FailureCode.CONNECT, sentence, ours=ours, local=local)
    if ours is not None or local:
        words = _ERRNO_WORDS.get(_errno(exc), "the network of this machine failed")
        code = FailureCode.BODY if exchange.phase is Phase.READING else FailureCode.PROTOCOL
        return Trouble(code, f"the server {words}", ours=ours, local=local)
    if exchange.phase is Phase.READING:
        return Trouble(FailureCode.BODY, _body(exc))
    if isinstance(exc, (aiohttp.ClientResponseError, HttpProcessingError)):
        return _head(exc)
    if isinstance(exc, (LostError, aiohttp.ClientConnectionError, OSError)):
        return Trouble(FailureCode.PROTOCOL, _lost(exc, exchange))
    return Trouble(FailureCode.PROTOCOL, f"the answer could not be read ({type(exc).__name__})")


def _unconnected(cause: OSError, exc: aiohttp.ClientConnectorError, *, tls: bool) -> Trouble:
    if isinstance(cause, AddressRefusedError):
        return Trouble(FailureCode.ADDRESS, cause.sentence, permanent=True)
    if isinstance(cause, NameLookupError):
        return Trouble(
            FailureCode.DNS,
            cause.sentence,
            permanent=cause.permanent,
            ours=cause.ours,
            local=cause.local,
        )
    ours, local = blame(cause)
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        sentence = "the name could not be resolved"
        return Trouble(FailureCode.DNS, sentence, ours=ours, local=local)
    whom = "the proxy" if isinstance(exc, aiohttp.ClientProxyConnectionError) else "the server"
    if tls and isinstance(cause, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
        return Trouble(FailureCode.TLS, f"{whom} closed the connection during the TLS handshake")
    words = _ERRNO_WORDS.get(cause.errno or 0, "could not be connected to")
    return Trouble(FailureCode.CONNECT, f"{whom} {words}", ours=ours, local=local)


def _errno(exc: BaseException) -> int:
    """That of an error, or of what caused it; 0: none says one."""
    for cause in _causes(exc):
        if isinstance(cause, OSError) and cause.errno:
            return cause.errno
    return 0


_ERRNO_WORDS: Final = {
    errno.ECONNREFUSED: "refused the connection",
    errno.ECONNRESET: "reset the connection while it was being made",
    errno.ETIMEDOUT: "did not answer the connection",
    errno.EHOSTUNREACH: "cannot be reached: no route to the host",
    errno.ENETUNREACH: "cannot be reached: no route to its network",
    errno.EADDRNOTAVAIL: "cannot be reached: no local address is left to connect from",
    errno.ENETDOWN: "cannot be reached: the network of this machine is down",
    errno.EPERM: "cannot be reached: this machine does not permit it",
    errno.EACCES: "cannot be reached: this machine does not permit it",
    errno.ENOBUFS: "was not asked: this machine has no buffer left for a connection",
    errno.ENOMEM: "was not asked: this machine has no memory left for a connection",
    errno.EMFILE: "was not asked: this process has too many files open",
    errno.ENFILE: "was not asked: this machine has too many files open",
}


def _certificate(exc: Exception) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError) and exc.verify_message:
        return f"the certificate is not valid: {exc.verify_message.rstrip('.')}"
    return "the certificate is not valid"


def _handshake(exc: OSError) -> str:
    reason = getattr(exc, "reason", None)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "the server does not speak TLS on this port"
    words = f" ({reason.replace('_', ' ').lower()})" if isinstance(reason, str) else ""
    return f"the TLS handshake failed{words}"


def _lost(exc: BaseException, exchange: Exchange) -> str:
    cause = exc.__cause__ if isinstance(exc, LostError) else exc
    verb = "reset" if isinstance(cause, OSError) else "closed"
    if exchange.received:
        return f"the server {verb} the connection in the middle of the answer's header"
    return f"the server {verb} the connection before answering"


def _head(exc: BaseException) -> Trouble:
    for cause in _causes(exc):
        if isinstance(cause, LineTooLong):
            sentence = f"a header field is longer than {FIELD_BYTES_MAX:,} bytes"
            return Trouble(FailureCode.TOO_LARGE, sentence)
        if _is_long(cause):
            sentence = f"the answer's header has more than {FIELDS_MAX} fields"
            return Trouble(FailureCode.TOO_LARGE, sentence)
    return Trouble(FailureCode.PROTOCOL, "the answer is not HTTP")


def _body(exc: BaseException) -> str:
    parsing = [cause for cause in _causes(exc) if isinstance(cause, HttpProcessingError)]
    if any(isinstance(cause, ContentLengthError) for cause in parsing):
        return "the body ends before the length that was announced"
    if any(_is_long(cause) for cause in parsing):
        return "the trailer of the chunked body is too long"
    if parsing:
        return "the chunked body is broken or ends before its end"
    return "the connection was lost in the middle of the body"


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    while exc is not None:
        yield exc
        exc = exc.__cause__


def _is_long(exc: BaseException) -> bool:
    return isinstance(exc, LineTooLong) or "Too many headers" in str(exc)


def forget_frames(exc: BaseException) -> None:
    """Take the tracebacks off an exception and those that it came from: their frames refer to it,
    and only the garbage collector frees such a circle."""
    left: BaseException | None = exc
    while left is not None and left.__traceback__ is not None:
        left.__traceback__ = None
        left = left.__cause__ or left.__context__

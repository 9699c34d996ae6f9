"""Network errors: what aiohttp, the operating system and our own limits raise, each translated once
into a code, a sentence for people, and whether another attempt can help."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from typing import Final

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.http_exceptions import ContentLengthError, HttpProcessingError, LineTooLong

from crawler.fetching.body import BrokenOffError
from crawler.fetching.connection_pool import FIELD_BYTES_MAX, FIELDS_MAX, LimitError
from crawler.fetching.content_coding import DecodingError
from crawler.fetching.exchange import UNCONNECTED_PHASES, Bound, Exchange, Phase
from crawler.fetching.guard import AddressRefusedError
from crawler.fetching.local_errors import blame
from crawler.fetching.request import NetworkError, OversizeError
from crawler.fetching.resolver import NameLookupError
from policies.holds import SENTENCES, HoldReason
from policies.retries import FailureCode

PROXY_LOGIN: Final = 407
# No host is to blame, and only a proxy may ask for it (RFC 9110, 15.5.8).
PROXY_LOGIN_ERROR: Final = NetworkError(
    FailureCode.CONNECT, "the proxy requires valid credentials (407)", local=True
)


EXPIRED_ERROR: Final = NetworkError(
    FailureCode.CONNECT,
    SENTENCES[HoldReason.LEASES_EXPIRED],
    ours=HoldReason.LEASES_EXPIRED,
)

NO_PLACE_ERROR: Final = NetworkError(
    FailureCode.TIMEOUT, "large pages of other hosts left no memory for this one"
)


class LostError(Exception):
    """The connection ended before an answer.

    Neither an OSError nor a ClientError, because aiohttp sends a GET again after those.
    """


async def send_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """A client middleware that keeps aiohttp from sending a request again after a disconnect."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # never sent again
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise LostError from error


# What hostile input can make aiohttp and yarl raise. Any other exception is a fault of our own.
NETWORK_EXCEPTIONS: Final = (
    aiohttp.ClientError,
    HttpProcessingError,
    OSError,
    LostError,
    OversizeError,
    BrokenOffError,
    DecodingError,
    LimitError,
    ValueError,
    LookupError,
    AssertionError,
    RuntimeError,
)


def deadline_error(exchange: Exchange) -> NetworkError:
    """The error for the deadline that `exchange` missed."""
    limits, code = exchange.limits, FailureCode.TIMEOUT
    match exchange.met:
        case Bound.RESOLVE:
            code, sentence = (
                FailureCode.DNS,
                f"the name was not resolved within {limits.connect_s:g} s",
            )
        case Bound.CONNECT:
            code, sentence = FailureCode.CONNECT, f"no connection within {limits.connect_s:g} s"
        case Bound.HANDSHAKE:
            code = FailureCode.TLS
            sentence = f"the TLS handshake was not finished within {limits.connect_s:g} s"
        case Bound.HEAD if exchange.received:
            sentence = f"the response header was not complete within {limits.head_s:g} s"
        case Bound.HEAD:
            sentence = f"no response within {limits.head_s:g} s"
        case Bound.RATE:
            sentence = (
                f"the body arrived at less than {limits.rate_bytes_per_s_min:g} bytes per second "
                f"for {limits.rate_window_s:g} s"
            )
        case _ if exchange.phase in UNCONNECTED_PHASES:
            code, sentence = FailureCode.CONNECT, f"no connection within {limits.timeout_s:g} s"
        case _:
            sentence = f"the response was not complete within {limits.timeout_s:g} s"
    return NetworkError(code, sentence)


def classify_error(exc: BaseException, exchange: Exchange, *, tls: bool) -> NetworkError:
    """The error for one of NETWORK_EXCEPTIONS. tls: the URL's scheme is https."""
    match exc:
        case aiohttp.ClientHttpProxyError():
            if exc.status == PROXY_LOGIN:
                return PROXY_LOGIN_ERROR
            sentence = f"the proxy refused to connect, with status {exc.status}"
            return NetworkError(FailureCode.CONNECT, sentence)
        case aiohttp.ClientConnectorCertificateError():
            return NetworkError(FailureCode.TLS, _certificate(exc.certificate_error))
        case aiohttp.ClientConnectorSSLError():
            return NetworkError(FailureCode.TLS, _handshake(exc.os_error))
        case aiohttp.ClientConnectorError():
            return _unconnected(exc.os_error, exc, tls=tls)
        case aiohttp.InvalidURL():
            if exc.description and "IPv4" in exc.description:
                sentence = f"{exc.url} does not contain a valid address"
                return NetworkError(FailureCode.ADDRESS, sentence, permanent=True)
            return NetworkError(FailureCode.PROTOCOL, "the URL cannot be requested", permanent=True)
        case OversizeError():
            sentence = f"the body is longer than {exchange.limits.body_bytes_max:,} bytes"
            return NetworkError(FailureCode.TOO_LARGE, sentence)
        case DecodingError():
            return NetworkError(FailureCode.BODY, str(exc))
        case LimitError():
            return exc.error
    ours, local = blame(exc)
    if exchange.phase in UNCONNECTED_PHASES:
        sentence = f"no connection could be made ({type(exc).__name__})"
        return NetworkError(FailureCode.CONNECT, sentence, ours=ours, local=local)
    if ours is not None or local:
        words = _ERRNO_WORDS.get(_errno(exc), "the network of this machine failed")
        code = FailureCode.BODY if exchange.phase is Phase.READING else FailureCode.PROTOCOL
        return NetworkError(code, f"the server {words}", ours=ours, local=local)
    if exchange.phase is Phase.READING:
        return NetworkError(FailureCode.BODY, _body(exc))
    if isinstance(exc, (aiohttp.ClientResponseError, HttpProcessingError)):
        return _head(exc)
    sentence = f"the response could not be read ({type(exc).__name__})"
    if isinstance(exc, (LostError, aiohttp.ClientConnectionError, OSError)):
        sentence = _lost(exc, exchange)
    return NetworkError(FailureCode.PROTOCOL, sentence)


def _unconnected(cause: OSError, exc: aiohttp.ClientConnectorError, *, tls: bool) -> NetworkError:
    if isinstance(cause, (AddressRefusedError, NameLookupError)):
        return cause.error
    ours, local = blame(cause)
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        sentence = "the name could not be resolved"
        return NetworkError(FailureCode.DNS, sentence, ours=ours, local=local)
    whom = "the proxy" if isinstance(exc, aiohttp.ClientProxyConnectionError) else "the server"
    if tls and isinstance(cause, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
        return NetworkError(
            FailureCode.TLS, f"{whom} closed the connection during the TLS handshake"
        )
    words = _ERRNO_WORDS.get(cause.errno or 0, "could not be reached")
    return NetworkError(FailureCode.CONNECT, f"{whom} {words}", ours=ours, local=local)


def _errno(exc: BaseException) -> int:
    """The errno of an error or of one of its causes; 0: there is none."""
    for cause in _causes(exc):
        if isinstance(cause, OSError) and cause.errno:
            return cause.errno
    return 0


_ERRNO_WORDS: Final = {
    errno.ECONNREFUSED: "refused the connection",
    errno.ECONNRESET: "reset the connection while it was being established",
    errno.ETIMEDOUT: "did not accept the connection in time",
    errno.EHOSTUNREACH: "cannot be reached: no route to the host",
    errno.ENETUNREACH: "cannot be reached: no route to its network",
    errno.EADDRNOTAVAIL: "cannot be reached: no local port is left to connect from",
    errno.ENETDOWN: "cannot be reached: the network of this machine is down",
    errno.EPERM: "cannot be reached: this machine does not permit it",
    errno.EACCES: "cannot be reached: this machine does not permit it",
    errno.ENOBUFS: "was not contacted: this machine has no buffers left for a connection",
    errno.ENOMEM: "was not contacted: this machine has no memory left for a connection",
    errno.EMFILE: "was not contacted: this process has too many open files",
    errno.ENFILE: "was not contacted: this machine has too many open files",
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
        return f"the server {verb} the connection in the middle of the response header"
    return f"the server {verb} the connection before responding"


def _head(exc: BaseException) -> NetworkError:
    for cause in _causes(exc):
        if isinstance(cause, LineTooLong):
            sentence = f"a header field is longer than {FIELD_BYTES_MAX:,} bytes"
            return NetworkError(FailureCode.TOO_LARGE, sentence)
        if _is_long(cause):
            sentence = f"the response header has more than {FIELDS_MAX} fields"
            return NetworkError(FailureCode.TOO_LARGE, sentence)
    return NetworkError(FailureCode.PROTOCOL, "the response is not HTTP")


def _body(exc: BaseException) -> str:
    parsing = [cause for cause in _causes(exc) if isinstance(cause, HttpProcessingError)]
    if any(isinstance(cause, ContentLengthError) for cause in parsing):
        return "the body is shorter than its Content-Length"
    if any(_is_long(cause) for cause in parsing):
        return "the trailer of the chunked body is too long"
    if parsing:
        return "the chunked body is broken or incomplete"
    return "the connection was lost in the middle of the body"


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    while exc is not None:
        yield exc
        exc = exc.__cause__


def _is_long(exc: BaseException) -> bool:
    return isinstance(exc, LineTooLong) or "Too many headers" in str(exc)


def drop_tracebacks(exc: BaseException) -> None:
    """Remove the tracebacks of an exception and its causes.

    Their frames refer to the exception, and only the garbage collector frees such a cycle.
    """
    link: BaseException | None = exc
    while link is not None and link.__traceback__ is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__

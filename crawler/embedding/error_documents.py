"""Exceptions of requests as JSON and back, so that callers in other processes get the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import Struct

from crawler.config import ConfigError
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidRequest,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
    TooManyRedirects,
    WaitTooLong,
)
from crawler.fetching.request import Failure
from policies import robots
from policies.robots import Verdict

INVALID_URL: Final = "invalid-url"
INVALID_REQUEST: Final = "invalid-request"
INVALID_CONFIG: Final = "invalid-config"
DISALLOWED: Final = "robots-disallowed"
UNREACHABLE: Final = "robots-unreachable"
TOO_LONG: Final = "wait-too-long"
FETCH_FAILED: Final = "fetch-failed"
TOO_MANY_REDIRECTS: Final = "too-many-redirects"
CLOSED: Final = "session-closed"
OTHER: Final = "refused"
BUSY: Final = "busy"  # too many requests: no exception, it is repeated later


class ErrorDocument(Struct, frozen=True, kw_only=True):
    """An exception of a request. kind: one of the names above. attributes: those of the exception,
    as JSON. until: when a repetition may succeed, in Unix seconds."""

    kind: str
    status: int
    detail: str
    attributes: Mapping[str, object] = {}
    until: float | None = None


class VerdictFields(Struct, frozen=True, kw_only=True):
    """A verdict. `rule` and `line` are null where no line decided; `agents` and `path` are what was
    judged, by the strictest of `dialects`."""

    allowed: bool
    rule: str | None
    line: int | None
    dialect: str
    reason: str
    agents: tuple[str, ...]
    dialects: tuple[str, ...]
    path: str


class FailureFields(Struct, frozen=True, kw_only=True):
    """The reason why there is no response; the fields are those of `FetchFailed.failure`."""

    url: str
    code: str
    sentence: str
    connected: bool
    permanent: bool
    elapsed_s: float
    status: int | None
    ours: str | None
    local: bool
    stale: bool
    received: bool
    broken_off: bool
    contacted: bool
    stopped: bool = False  # the other side may be older


def document_of(error: CourtlyError) -> ErrorDocument:
    """The document of an exception that a request raised."""
    detail = str(error)
    match error:
        case RobotsDisallowed():
            attributes = {"url": error.url, "verdict": _verdict_fields(error.verdict)}
            return _document(DISALLOWED, HTTPStatus.FORBIDDEN, detail, attributes)
        case RobotsUnreachable():
            attributes = {"url": error.url, "reason": error.reason, "until": error.until}
            unavailable = HTTPStatus.SERVICE_UNAVAILABLE
            return _document(UNREACHABLE, unavailable, detail, attributes, until=error.until)
        case FetchFailed():
            attributes = {
                "url": error.url,
                "failure": _failure_fields(error.failure),
                "until": error.until,
            }
            gateway = HTTPStatus.BAD_GATEWAY
            return _document(FETCH_FAILED, gateway, detail, attributes, until=error.until)
        case WaitTooLong():
            attributes = {"url": error.url, "reason": error.reason, "until": error.until}
            unavailable = HTTPStatus.SERVICE_UNAVAILABLE
            return _document(TOO_LONG, unavailable, detail, attributes, until=error.until)
        case TooManyRedirects():
            attributes = {"urls": list(error.urls)}
            return _document(TOO_MANY_REDIRECTS, HTTPStatus.BAD_GATEWAY, detail, attributes)
        case InvalidRequest():
            attributes = {"argument": error.argument, "problem": error.problem}
            return _document(INVALID_REQUEST, HTTPStatus.BAD_REQUEST, detail, attributes)
        case InvalidURL():
            return _document(INVALID_URL, HTTPStatus.BAD_REQUEST, detail, {})
        case ConfigError():
            attributes = {"problems": list(error.problems)}
            return _document(INVALID_CONFIG, HTTPStatus.BAD_REQUEST, detail, attributes)
        case SessionClosed():
            return _document(CLOSED, HTTPStatus.SERVICE_UNAVAILABLE, detail, {})
        case _:
            return _document(OTHER, HTTPStatus.CONFLICT, detail, {})


def error_of(document: ErrorDocument, *, robots_txt: bytes | None, now_s: float) -> CourtlyError:
    """The exception of a document. robots_txt: the file that decided, for RobotsDisallowed. now_s:
    monotonic. Raises ValueError for a document that does not make sense."""
    given = document.attributes

    def failed() -> CourtlyError:
        failure = _failure(msgspec.convert(given["failure"], FailureFields), now_s)
        return FetchFailed(_text(given, "url"), failure, until=_time(given))

    def disallowed() -> CourtlyError:
        fields = msgspec.convert(given["verdict"], VerdictFields)
        return RobotsDisallowed(_text(given, "url"), _verdict(fields, robots_txt or b""))

    makers: Mapping[str, Callable[[], CourtlyError]] = {
        DISALLOWED: disallowed,
        UNREACHABLE: lambda: RobotsUnreachable(
            _text(given, "url"), _text(given, "reason"), _time(given)
        ),
        FETCH_FAILED: failed,
        TOO_LONG: lambda: WaitTooLong(_text(given, "url"), _text(given, "reason"), _time(given)),
        TOO_MANY_REDIRECTS: lambda: TooManyRedirects(msgspec.convert(given["urls"], list[str])),
        INVALID_REQUEST: lambda: InvalidRequest(_text(given, "argument"), _text(given, "problem")),
        INVALID_URL: lambda: InvalidURL(document.detail),
        INVALID_CONFIG: lambda: ConfigError(*msgspec.convert(given["problems"], list[str])),
        CLOSED: lambda: SessionClosed(document.detail),
    }
    try:
        return makers.get(document.kind, lambda: CourtlyError(document.detail))()
    except (KeyError, IndexError, msgspec.ValidationError) as error:
        raise ValueError(f"an incomplete problem document: {error}") from error


def _document(
    kind: str,
    status: HTTPStatus,
    detail: str,
    attributes: Mapping[str, object],
    *,
    until: float | None = None,
) -> ErrorDocument:
    return ErrorDocument(
        kind=kind, status=int(status), detail=detail, attributes=attributes, until=until
    )


def _text(given: Mapping[str, Any], name: str) -> str:
    return msgspec.convert(given[name], str)


def _time(given: Mapping[str, Any]) -> float | None:
    return msgspec.convert(given.get("until"), float | None)


def _verdict_fields(verdict: Verdict) -> VerdictFields:
    return VerdictFields(
        allowed=verdict.allowed,
        rule=verdict.rule,
        line=verdict.line,
        dialect=verdict.dialect,
        reason=str(verdict),
        agents=verdict.rules.agents,
        dialects=verdict.dialects,
        path=verdict.path,
    )


def _verdict(fields: VerdictFields, robots_txt: bytes) -> Verdict:
    dialects = [robots.DIALECTS[name] for name in fields.dialects]
    return robots.parse(robots_txt).rule_set(fields.agents, dialects).verdict(fields.path)


def _failure_fields(failure: Failure) -> FailureFields:
    fields = msgspec.structs.asdict(failure)
    del fields["started_s"], fields["ended_s"], fields["headers"]
    return FailureFields(**fields, elapsed_s=failure.elapsed_s)


def _failure(fields: FailureFields, now_s: float) -> Failure:
    """Its times on this process's clock: it ended now."""
    given = msgspec.structs.asdict(fields)
    started_s = now_s - given.pop("elapsed_s")
    return msgspec.convert({**given, "started_s": started_s, "ended_s": now_s}, Failure)

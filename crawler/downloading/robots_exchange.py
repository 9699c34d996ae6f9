"""One request for a robots.txt: its limits and headers, and its result as `policies.robots_state`
reads it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawler.fetching.request import REDIRECT_STATUSES, Answer, Failure, FetchLimits, Head
from crawler.frontier.origin import LARGE_BYTES
from policies.retries import FailureCode
from policies.robots_state import RobotsFetch, RobotsState

ROBOTS_BYTES_MAX = 500 * 1024  # RFC 9309, 2.5
ROBOTS_TIMEOUT_S = 30.0
LIMITS = FetchLimits(timeout_s=ROBOTS_TIMEOUT_S, body_bytes_max=ROBOTS_BYTES_MAX)


class Redirect(NamedTuple):
    """An answer that leads elsewhere; `url` None: to no valid URL."""

    status: int
    url: str | None


class NoRoom(enum.Enum):
    """The reason why a request for robots.txt was not made now, or broken off."""

    NO_ROOM = enum.auto()  # the file is large, and there is no place for it
    CROWDED = enum.auto()  # too many requests of its domain are in flight


NO_ROOM, CROWDED = NoRoom


class RobotsBody:
    """Receives the body of a robots.txt: a `BodyReader`, and a `BodySink` for bodies that may be
    large. These are received only if `admit`, with their size in bytes, admits them; otherwise the
    request ends, and `turned_away` is true."""

    timeout_s: float | None = None  # the request's own
    kept_bytes: Final = 0  # counted by `admit`

    def __init__(self, admit: Callable[[int], bool]) -> None:
        self._admit = admit
        self._size_bytes = ROBOTS_BYTES_MAX  # as announced
        self._body = bytearray()
        self._poured_bytes = 0
        self._counts = False
        self.turned_away = False

    def wants_body(self, head: Head) -> bool:
        self._counts = 200 <= head.status < 300
        return True

    def sink(self, head: Head) -> RobotsBody | None:
        length = head.headers.get("Content-Length", "")
        if head.headers.get("Content-Encoding") is None and length.isdecimal():
            self._size_bytes = min(int(length[:20]), ROBOTS_BYTES_MAX)
        return None if self._size_bytes <= LARGE_BYTES else self

    async def take(self, piece: bytes) -> bool:
        before, self._poured_bytes = self._poured_bytes, self._poured_bytes + len(piece)
        if self._counts:
            crossed = before <= LARGE_BYTES < self._poured_bytes
            if crossed and not self._admit(self._size_bytes):
                self.turned_away = True
                self._body.clear()
                return False
            self._body += piece
        return self._poured_bytes <= ROBOTS_BYTES_MAX

    async def end(self) -> None:
        pass

    def complete(self, result: Answer | Failure) -> Answer | Failure:
        """The result of the request with the body that was received."""
        if isinstance(result, Answer) and self._body:
            return replace(result, body=bytes(self._body[:ROBOTS_BYTES_MAX]))
        return result


def is_redirect(result: Answer | Failure) -> bool:
    return isinstance(result, Answer) and result.status in REDIRECT_STATUSES


def validators(known: RobotsState, url: str) -> dict[str, str]:
    """Conditional headers, only for the URL that gave the validators (RFC 9110, 13.1)."""
    headers: dict[str, str] = {}
    if known.body is not None and known.validators_url == url:
        if known.etag:
            headers["If-None-Match"] = known.etag
        if known.last_modified:
            headers["If-Modified-Since"] = known.last_modified
    return headers


def unreachable(url: str, sentence: str) -> RobotsFetch:
    """A robots.txt that could not be fetched, and why."""
    return RobotsFetch(status=None, body=None, headers={}, url=url, failure=sentence)


def news_of(result: Answer | Failure, url: str, *, retry_after_s_max: float) -> RobotsFetch:
    """The result of a request. retry_after_s_max: the longest Retry-After that is obeyed."""
    headers = {name.lower(): value for name, value in (result.headers or {}).items()}
    if isinstance(result, Failure):
        return RobotsFetch(
            status=None,
            body=None,
            headers=headers,
            url=url,
            failure=result.sentence,
            broken_body=result.code == "body",
            retry_after_s_max=retry_after_s_max,
        )
    return RobotsFetch(
        status=result.status,
        body=result.body if 200 <= result.status < 300 else None,
        headers=headers,
        url=url,
        truncated=result.cut,
        retry_after_s_max=retry_after_s_max,
    )


def says_something(result: Answer | Failure) -> bool:
    """Return whether the result of a request concerns the robots.txt itself."""
    if isinstance(result, Answer):
        return not is_redirect(result)
    counts = result.connected and result.ours is None and not result.stale
    return counts and result.code is not FailureCode.INTERNAL

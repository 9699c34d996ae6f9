"""What the embedding API raises: one small tree. An answer of any status is no error.

CourtlyError
    InvalidURL          what was asked for is no absolute http(s) URL
    RobotsDisallowed    robots.txt says no: `.verdict`
    RobotsUnreachable   robots.txt cannot be had, and its dialect stays away: `.reason`, `.until`
    FetchFailed         no answer, or not a whole one: `.failure`
    TooManyRedirects    `.urls`
    ResponseUnread      a request would wait for a response that nobody reads
    SessionClosed       asked after, or while, the session was closed

Besides these: `ConfigError` for what is configured wrong (law 10 among it), `StoreError` and its
kind `StoreRefused` for a database that cannot go on, or is in use by another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawler.fetching.request import Failure
    from policies.robots import Verdict


class CourtlyError(Exception):
    """The root of what the embedding API raises. The message is one sentence."""


class InvalidURL(CourtlyError, ValueError):  # noqa: N818 - named for what happened, like the others
    """Not an absolute http or https URL."""


class RobotsDisallowed(CourtlyError):  # noqa: N818
    """robots.txt does not let us ask for `url`; `verdict` says by which line, and why."""

    def __init__(self, url: str, verdict: Verdict) -> None:
        super().__init__(f"{url} may not be fetched: {verdict}")
        self.url = url
        self.verdict = verdict


class RobotsUnreachable(CourtlyError):  # noqa: N818
    """The origin of `url` is closed: its robots.txt cannot be had.

    reason: in words. until: Unix seconds; from then on a request asks for robots.txt again. None:
    the next request asks again.
    """

    def __init__(self, url: str, reason: str, until: float | None) -> None:
        told = "" if until is None else f" (until {said(until)})"
        super().__init__(f"{url} may not be fetched now: {reason}{told}")
        self.url = url
        self.reason = reason
        self.until = until


class FetchFailed(CourtlyError):  # noqa: N818
    """No answer, or not a whole one; `failure` has its code, its sentence and its times.

    until: Unix seconds; before then its host is not asked again. None: at its next turn.
    """

    def __init__(self, url: str, failure: Failure, *, until: float | None = None) -> None:
        # trying a refused address, or a name that is none, again would not help: no time is named
        told = ""
        if until is not None and not failure.permanent:
            told = f" (not tried again before {said(until)})"
        super().__init__(f"{url} could not be fetched: {failure.error}{told}")
        self.url = url
        self.failure = failure
        self.until = until


class TooManyRedirects(CourtlyError):  # noqa: N818
    """More redirects than are followed; `urls` are those asked for, in order, and the one that was
    not."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(f"{urls[0]} redirects more than {len(urls) - 2} times, last to {urls[-1]}")
        self.urls = tuple(urls)


class ResponseUnread(CourtlyError):  # noqa: N818
    """A request waited for the turn of a host whose response in hand is not read."""


class SessionClosed(CourtlyError):  # noqa: N818
    """The session is closed, or was never opened: use `async with`."""


def said(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

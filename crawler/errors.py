"""Exceptions of the embedding API. A response of any status is not an error.

CourtlyError            the base class (`policies.errors`)
    ConfigError         the config is invalid, such as a missing contact in the user agent
    StoreError          the database failed
        StoreRefused    it is in use by another process
    InvalidURL          the URL is not an absolute http(s) URL
    InvalidRequest      another argument of a request is not valid: `.argument`
    RobotsDisallowed    robots.txt forbids the URL: `.verdict`
    RobotsUnreachable   robots.txt could not be fetched: `.reason`, `.until`
    WaitTooLong         max_wait_s does not suffice: `.until`, `.reason`
    FetchFailed         no response, or an incomplete one: `.failure`
    TooManyRedirects    `.urls`
    ResponseUnread      a request would wait for an unread response
    SecondReader        two tasks iterate over one Crawler
    SessionClosed       the session was closed before or during the request
    WrongEventLoop      the session was opened in another event loop
    AlreadyOpen         the session is open already
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from policies.errors import CourtlyError as CourtlyError  # noqa: PLC0414 - re-exported

if TYPE_CHECKING:
    from crawler.fetching.request import Failure
    from policies.robots import Verdict


class InvalidURL(CourtlyError, ValueError):  # noqa: N818 - named for what happened, like the others
    """The URL is not an absolute http or https URL."""


class InvalidRequest(CourtlyError, ValueError):  # noqa: N818
    """An argument of a request is not valid, so nothing was sent; `argument` is its name.

    problem: a phrase that continues the name.
    """

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(argument, problem)
        self.argument = argument
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.argument}: {self.problem}"


class RobotsDisallowed(CourtlyError):  # noqa: N818
    """robots.txt forbids `url`; `verdict` holds the line and the reason."""

    def __init__(self, url: str, verdict: Verdict) -> None:
        super().__init__(f"{url} may not be fetched: {verdict}")
        self.url = url
        self.verdict = verdict


class RobotsUnreachable(CourtlyError):  # noqa: N818
    """The origin of `url` is closed because its robots.txt could not be fetched.

    reason: a phrase. until: when robots.txt may be fetched again, in Unix seconds; None: with the
    next request.
    """

    def __init__(self, url: str, reason: str, until: float | None) -> None:
        told = "" if until is None else f" (until {said(until)})"
        super().__init__(f"{url} may not be fetched now: {reason}{told}")
        self.url = url
        self.reason = reason
        self.until = until


class WaitTooLong(CourtlyError, TimeoutError):  # noqa: N818
    """`max_wait_s` has passed, or is already known not to suffice, so `url` was not requested.

    reason: a phrase. until: the request could not begin before, as far as is known, in Unix
    seconds; None: it is not known.
    """

    def __init__(self, url: str, reason: str, until: float | None) -> None:
        told = "" if until is None else f" (not before {said(until)})"
        super().__init__(f"{url} cannot be requested within max_wait_s: {reason}{told}")
        self.url = url
        self.reason = reason
        self.until = until


class FetchFailed(CourtlyError):  # noqa: N818
    """No response, or an incomplete one; `failure` holds the code, the sentence and the times.

    until: when the host may be contacted again, in Unix seconds; None: after its usual delay.
    """

    def __init__(self, url: str, failure: Failure, *, until: float | None = None) -> None:
        # retrying a refused address or an invalid name would not help, so no time is given
        told = ""
        if until is not None and not failure.permanent:
            told = f" (not tried again before {said(until)})"
        super().__init__(f"{url} could not be fetched: {failure.error}{told}")
        self.url = url
        self.failure = failure
        self.until = until


class TooManyRedirects(CourtlyError):  # noqa: N818
    """Too many redirects; `urls` holds the URLs requested, in order, and the first one that was
    not."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(f"{urls[0]} redirects more than {len(urls) - 2} times, last to {urls[-1]}")
        self.urls = tuple(urls)


class ResponseUnread(CourtlyError):  # noqa: N818
    """A request waited too long for a host whose previous response has not been read."""


class SecondReader(CourtlyError, RuntimeError):  # noqa: N818
    """Two tasks iterate over one `Crawler`."""


class SessionClosed(CourtlyError):  # noqa: N818
    """The session is closed, or was never opened: use `async with`."""


class WrongEventLoop(CourtlyError, RuntimeError):  # noqa: N818
    """The session was opened in another event loop, and cannot be used in this one."""


class AlreadyOpen(CourtlyError, RuntimeError):  # noqa: N818
    """The session is open already: each `async with` block needs an object of its own."""


def said(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

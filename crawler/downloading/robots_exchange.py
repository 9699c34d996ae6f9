"""One request for a robots.txt: its limits and headers, and its result as `policies.robots_state`
reads it."""

from __future__ import annotations

from crawler.fetching.request import REDIRECT_STATUSES, Answer, Failure, FetchLimits
from policies.robots_state import RobotsFetch, RobotsState

ROBOTS_BYTES_MAX = 500 * 1024  # RFC 9309, 2.5
ROBOTS_TIMEOUT_S = 30.0
LIMITS = FetchLimits(timeout_s=ROBOTS_TIMEOUT_S, body_bytes_max=ROBOTS_BYTES_MAX)


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

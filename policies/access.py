"""What is known of one origin's robots.txt over time, and when to ask again.

A state machine over plain values: `learn` takes what was known and the news of one try, and gives
what is known now; `standing` says what that means for the origin's pages at some moment, by the
dialect's row; `due` says whether to ask again. A body is kept only from a 2xx answer.
"""

from __future__ import annotations

import enum

from msgspec.structs import replace

from policies.access_state import (
    UNKNOWN,
    Access,
    News,
    RobotsRules,
    Unreachable,
    copy_age_s,
    due,
    next_due_at,
)
from policies.retry import http_date_s, retry_after_s, retry_delay_s
from policies.robots.dialect import dialects
from policies.robots.row import Dialect, Lifetime
from policies.robots.syntax import BYTES_MAX
from policies.standing import Closed, Open, Rules, Standing, Unknown, standing

__all__ = [
    "GONE_AGAIN_S",
    "UNKNOWN",
    "Access",
    "Closed",
    "News",
    "Open",
    "RobotsRules",
    "Rules",
    "Standing",
    "Unknown",
    "Unreachable",
    "due",
    "learn",
    "next_due_at",
    "standing",
]

GONE_AGAIN_S = 15 * 60.0
"""A copy holds after a 4xx until another one, at least so much later (design section 5)."""

_HEADER_CHARS_MAX = 1_024  # longer validators are not kept: nobody needs them that long
_ERROR_CHARS_MAX = 500


class _Class(enum.Enum):
    """What an answer amounts to."""

    FOUND = enum.auto()
    UNCHANGED = enum.auto()
    ABSENT = enum.auto()
    UNREACHABLE = enum.auto()


def _classify(access: Access, news: News) -> _Class:
    status = news.status
    if news.redirect_overflow:
        return _Class.ABSENT
    if status is None:
        return _Class.UNREACHABLE
    if 200 <= status < 300:
        return _Class.UNREACHABLE if news.broken_body or news.body is None else _Class.FOUND
    if status == 304:
        # Without a copy this confirms nothing: a server that answers so is asked again.
        return _Class.UNCHANGED if access.body is not None else _Class.UNREACHABLE
    if status == 429:
        return _Class.UNREACHABLE
    # A redirect that led nowhere (no Location, no URL) is as good as a file that is not there.
    return _Class.ABSENT if 300 <= status < 500 else _Class.UNREACHABLE


def learn(access: Access, news: News, *, now_s: float, rules: RobotsRules) -> Access:
    """What is known after one more try at robots.txt. `now_s` in Unix seconds."""
    match _classify(access, news):
        case _Class.FOUND:
            return _found(news, now_s=now_s, rules=rules)
        case _Class.UNCHANGED:
            return _confirmed(access, news, now_s=now_s, rules=rules)
        case _Class.ABSENT:
            return _absent(access, news, now_s=now_s, rules=rules)
        case _Class.UNREACHABLE:
            return _failed(access, news, now_s=now_s, rules=rules)


def _found(news: News, *, now_s: float, rules: RobotsRules) -> Access:
    body = news.body or b""
    etag, last_modified = _validator(news, "etag"), _validator(news, "last-modified")
    return Access(
        status=news.status,
        body=body[:BYTES_MAX],
        copy_at=now_s,
        etag=etag,
        last_modified=last_modified,
        validators_url=news.url if etag or last_modified else None,
        fetched_at=now_s,
        expires_at=now_s + _lifetime_s(news, now_s, rules),
        truncated=news.truncated or len(body) > BYTES_MAX,
    )


def _confirmed(access: Access, news: News, *, now_s: float, rules: RobotsRules) -> Access:
    return Access(
        status=news.status,
        body=access.body,
        copy_at=now_s,
        etag=_validator(news, "etag") or access.etag,
        last_modified=_validator(news, "last-modified") or access.last_modified,
        validators_url=access.validators_url,
        fetched_at=now_s,
        expires_at=now_s + _lifetime_s(news, now_s, rules),
        truncated=access.truncated,
    )


def _absent(access: Access, news: News, *, now_s: float, rules: RobotsRules) -> Access:
    holds = access.body is not None and copy_age_s(access, now_s) <= _copy_max_s(rules)
    since = access.gone_since
    if since is None or since > now_s:
        since = now_s
    if holds and now_s - since < GONE_AGAIN_S:
        # A copy is not given up for one bad answer: somebody may be moving the site.
        return replace(
            access,
            status=news.status,
            fetched_at=now_s,
            expires_at=since + GONE_AGAIN_S,
            retry_at=None,
            failures=0,
            unreachable_since=None,
            gone_since=since,
            error=None,
        )
    return Access(
        status=news.status,
        fetched_at=now_s,
        expires_at=now_s + _lifetime_s(news, now_s, rules),
        error="redirected more than five times" if news.redirect_overflow else None,
    )


def _failed(access: Access, news: News, *, now_s: float, rules: RobotsRules) -> Access:
    failures = access.failures + 1
    rows = dialects(rules.dialect)
    wait_s = min(retry_delay_s(failures) if row.keeps_trying else row.lifetime_s for row in rows)
    asked_s = retry_after_s(news.headers.get("retry-after"), now_s=now_s)
    since = access.unreachable_since
    return replace(
        access,
        status=news.status,
        fetched_at=_not_after(access.fetched_at, now_s) if news.status is None else now_s,
        retry_at=now_s + max(wait_s, asked_s or 0.0),
        failures=failures,
        unreachable_since=now_s if since is None else min(since, now_s),
        error=_cut(_failure_in_words(news)),
    )


def _cut(error: str) -> str:
    return error if len(error) <= _ERROR_CHARS_MAX else error[: _ERROR_CHARS_MAX - 1] + "…"


def _not_after(at_s: float | None, now_s: float) -> float | None:
    """A time of the future is one of a wall clock that was set back since."""
    return None if at_s is None else min(at_s, now_s)


def _failure_in_words(news: News) -> str:
    if news.failure:
        return news.failure
    if news.status is None:
        return "no answer"
    if news.broken_body:
        return f"the body of a {news.status} answer was broken"
    if news.status == 304:
        return "answered 304 (not modified) where there was no copy"
    return f"answered {news.status}"


def _validator(news: News, name: str) -> str | None:
    value = news.headers.get(name)
    return value if value and len(value) <= _HEADER_CHARS_MAX else None


def _lifetime_s(news: News, now_s: float, rules: RobotsRules) -> float:
    """How long an answer is kept: the shortest that one of the dialects says."""
    return min(_lifetime_of(row, news, now_s) for row in dialects(rules.dialect))


def _lifetime_of(row: Dialect, news: News, now_s: float) -> float:
    said: float | None = None
    if row.lifetime is Lifetime.CACHE_CONTROL:
        said = _maxcopy_age_s(news.headers.get("cache-control", ""))
    elif row.lifetime is Lifetime.EXPIRES and "expires" in news.headers:
        # An Expires that is no date means "already" (RFC 9111 section 5.3).
        expires_s = http_date_s(news.headers["expires"])
        date_s = http_date_s(news.headers.get("date", ""))
        said = 0.0 if expires_s is None else expires_s - (now_s if date_s is None else date_s)
    if said is None:
        return row.lifetime_s
    return min(max(said, row.lifetime_min_s), row.lifetime_max_s)


def _maxcopy_age_s(cache_control: str) -> float | None:
    for directive in cache_control[:_HEADER_CHARS_MAX].lower().split(","):
        name, _, value = directive.strip().partition("=")
        value = value.strip().strip('"')
        if name.strip() in ("no-cache", "no-store"):
            return 0.0
        if name.strip() == "max-age" and value.isascii() and value.isdigit():
            return float(value)
    return None


def _copy_max_s(rules: RobotsRules) -> float:
    return min(row.copy_max_s for row in dialects(rules.dialect))

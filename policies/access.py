"""What is known of one origin's robots.txt over time, and when to ask again.

A state machine over plain values: `learn` takes what was known and the news of one try, and gives
what is known now; `standing` says what that means for the origin's pages at some moment, by the
dialect's row; `due` says whether to ask again. Nothing opens by accident: a body is kept only from
a 2xx answer, and what holds while there is none is a value with its reason.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from policies.retry import http_date_s, retry_after_s, retry_delay_s
from policies.robots.dialect import dialects
from policies.robots.row import DAY_S, Aspect, Dialect, Door, Lifetime
from policies.robots.syntax import BYTES_MAX

GONE_AGAIN_S = 15 * 60.0
"""A copy holds after a 4xx until another one, at least so much later (design section 5)."""

_HEADER_CHARS_MAX = 1_024  # longer validators are not kept: nobody needs them that long
_ERROR_CHARS_MAX = 500


class Unreachable(enum.StrEnum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsRules:
    """The `[robots]` section: how robots.txt is read and obeyed."""

    dialect: tuple[str, ...] = ("slurp",)
    token: tuple[str, ...] = ()
    unreachable: Unreachable | None = None
    crawl_delay: bool = True
    obey: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What is known of one origin's robots.txt; kept by the store field by field. Unix seconds."""

    status: int | None = None  # of the last answer; None: none yet, or the last try had no answer
    body: bytes | None = None  # the copy in force, at most 500 KiB; None: no copy
    copy_at: float | None = None  # when that copy was last fetched or confirmed (304)
    etag: str | None = None
    last_modified: str | None = None
    validators_url: str | None = None  # the URL that gave the validators: they are sent only to it
    fetched_at: float | None = None  # the last try that got any answer
    expires_at: float | None = None  # until then what is known needs no asking
    retry_at: float | None = None  # when to try again while it cannot be had
    failures: int = 0  # tries in a row that failed
    unreachable_since: float | None = None
    gone_since: float | None = None  # the first 4xx after there had been a copy
    error: str | None = None  # the last failure in words
    truncated: bool = False  # the body was cut at 500 KiB


UNKNOWN = Access()


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What one try at robots.txt brought, its redirects followed."""

    status: int | None = None  # of the answer at the end of the redirects; None: `failure` says why
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    url: str = ""  # that answered
    failure: str | None = None  # in words
    truncated: bool = False  # the body was cut
    redirect_overflow: bool = False  # a sixth redirect: counts as absent
    broken_body: bool = False  # it ended early, or could not be decompressed


# ---------------------------------------------------------------- what it means now


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Pages are judged by this copy."""

    body: bytes
    copy_at: float  # Unix seconds
    stale: bool  # it has expired, or a refresh fails
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """All pages may be asked for."""

    reason: str
    answered: bool  # False: for lack of an answer; pages fetched now are judged again later (law 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """No page may be asked for."""

    reason: str
    until_s: float | None  # Unix seconds: when it is asked again, or may open; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """robots.txt must be asked for first."""


Standing = Rules | Open | Closed | Unknown


# ---------------------------------------------------------------- learning


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
    holds = access.body is not None and _age_s(access, now_s) <= _copy_max_s(rules)
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
        fetched_at=access.fetched_at if news.status is None else now_s,
        retry_at=now_s + max(wait_s, asked_s or 0.0),
        failures=failures,
        unreachable_since=now_s if since is None else min(since, now_s),
        error=_failure_in_words(news)[:_ERROR_CHARS_MAX],
    )


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
        said = _max_age_s(news.headers.get("cache-control", ""))
    elif row.lifetime is Lifetime.EXPIRES and "expires" in news.headers:
        # An Expires that is no date means "already" (RFC 9111 section 5.3).
        expires_s = http_date_s(news.headers["expires"])
        date_s = http_date_s(news.headers.get("date", ""))
        said = 0.0 if expires_s is None else expires_s - (now_s if date_s is None else date_s)
    if said is None:
        return row.lifetime_s
    return min(max(said, row.lifetime_min_s), row.lifetime_max_s)


def _max_age_s(cache_control: str) -> float | None:
    for directive in cache_control[:_HEADER_CHARS_MAX].lower().split(","):
        name, _, value = directive.strip().partition("=")
        value = value.strip().strip('"')
        if name.strip() in ("no-cache", "no-store"):
            return 0.0
        if name.strip() == "max-age" and value.isascii() and value.isdigit():
            return float(value)
    return None


# ---------------------------------------------------------------- asking


def due(access: Access, now_s: float) -> bool:
    """Whether robots.txt is to be asked for before anything else at this origin."""
    at_s = next_due_at(access)
    if at_s is None or now_s >= at_s:
        return True
    # A wall clock that was set back by a day: the stored times are believed no more.
    return access.fetched_at is not None and now_s < access.fetched_at - DAY_S


def next_due_at(access: Access) -> float | None:
    """When robots.txt is to be asked for next, in Unix seconds; None: at once, nothing is known."""
    if access.unreachable_since is not None:
        return access.retry_at
    return access.expires_at


# ---------------------------------------------------------------- standing


def standing(access: Access, *, now_s: float, rules: RobotsRules) -> Standing:
    """What is known, as a rule for the origin's pages now. Of several dialects the strictest."""
    if not rules.obey:
        return Open(reason="robots.obey = false", answered=True)
    return min(
        (_standing(access, row, now_s=now_s, rules=rules) for row in dialects(rules.dialect)),
        key=_openness,
    )


def _openness(standing: Standing) -> int:
    match standing:
        case Unknown():
            return 0
        case Closed():
            return 1
        case Rules():
            return 2
        case Open():
            # Between two open doors the one without an answer is looked at again later.
            return 4 if standing.answered else 3


def _standing(access: Access, row: Dialect, *, now_s: float, rules: RobotsRules) -> Standing:
    if access.unreachable_since is not None:
        return _without_answer(access, row, now_s=now_s, override=rules.unreachable)
    if access.body is not None:
        if _age_s(access, now_s) > row.copy_max_s:
            return Unknown()
        stale = access.gone_since is not None or due(access, now_s)
        return _rules(access, stale=stale)
    if access.fetched_at is None:
        return Unknown()
    said = access.error or f"answered {access.status}"
    if access.status in (401, 403):
        return _door(access, row, row.denied, Aspect.DENIED, f"robots.txt {said}", answered=True)
    return _door(access, row, row.missing, Aspect.MISSING, f"robots.txt {said}", answered=True)


def _without_answer(
    access: Access, row: Dialect, *, now_s: float, override: Unreachable | None
) -> Standing:
    since_s = access.unreachable_since if access.unreachable_since is not None else now_s
    why = f"robots.txt cannot be had ({access.error or 'no answer'})"
    if override is None and row.closed_first_s:
        return _in_stages(access, row, why, now_s=now_s, since_s=since_s)
    if access.body is not None and _age_s(access, now_s) <= row.copy_max_s:
        return _rules(access, stale=True)
    if override is not None:
        reason = f'{why}, and robots.unreachable = "{override}"'
        if override is Unreachable.OPEN:
            return Open(reason=reason, answered=False)
        return Closed(reason=reason, until_s=access.retry_at)
    return _door(access, row, row.unreachable, Aspect.UNREACHABLE, why, answered=False)


def _in_stages(access: Access, row: Dialect, why: str, *, now_s: float, since_s: float) -> Standing:
    """Closed at first; then by the last copy for so long as it counts; then as the site answers."""
    if now_s < since_s + row.closed_first_s:
        hours = row.closed_first_s / 3600
        first_end_s = since_s + row.closed_first_s
        return Closed(
            reason=f"{why}, and {row.name} stays away for the first {hours:.0f} hours",
            until_s=first_end_s if access.retry_at is None else min(first_end_s, access.retry_at),
        )
    if now_s < since_s + row.copy_max_s:
        if access.body is not None:
            return _rules(access, stale=True)
        return _door(access, row, row.unreachable, Aspect.UNREACHABLE, why, answered=False)
    days = row.copy_max_s / DAY_S
    if row.open_if_answering and access.status is not None:
        reason = f"{why} for {days:.0f} days, but the site answers: {row.name} takes it as open"
        return Open(reason=reason, answered=False)
    reason = f"{why} for {days:.0f} days, and the site does not answer: {row.name} stays away"
    return Closed(reason=reason, until_s=access.retry_at)


def _door(
    access: Access, row: Dialect, door: Door, aspect: Aspect, why: str, *, answered: bool
) -> Standing:
    note = f" ({row.ours[aspect]})" if aspect in row.ours else ""
    reason = f"{why}: {row.name} takes that as {door.value}{note}"
    if door is Door.OPEN:
        return Open(reason=reason, answered=answered)
    return Closed(reason=reason, until_s=next_due_at(access))


def _rules(access: Access, *, stale: bool) -> Rules:
    return Rules(
        body=access.body or b"",
        copy_at=access.copy_at or 0.0,
        stale=stale,
        truncated=access.truncated,
    )


def _age_s(access: Access, now_s: float) -> float:
    return now_s - access.copy_at if access.copy_at is not None else math.inf


def _copy_max_s(rules: RobotsRules) -> float:
    return min(row.copy_max_s for row in dialects(rules.dialect))

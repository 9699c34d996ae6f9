"""What is known of one origin's robots.txt over time, and when to fetch it again.

A state machine over plain values: `next_state` returns the state after one fetch, and `is_due`
whether another fetch is due. Only a 2xx answer brings a body.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Struct, field
from msgspec.structs import replace

from policies.config_key import Key, robots_token
from policies.retries import (
    RETRY_AFTER_S_MAX,
    FailureCode,
    http_date_s,
    retry_after_s,
    retry_delay_s,
)
from policies.robots.dialect import DAY_S, Dialect, Lifetime
from policies.robots.dialects import DIALECTS, dialects
from policies.robots.syntax import BYTES_MAX

GONE_AGAIN_S = 15 * 60.0
"""A 4xx answer replaces a copy only if another one follows at least this much later."""

QUARANTINE_S: Final = 7 * DAY_S
"""A quarantined file is fetched again automatically after this time."""

_HEADER_CHARS_MAX = 1_024  # longer validators are not kept
_ERROR_CHARS_MAX = 500


NO_SPACE = "the large robots.txt files of its domain take all the space there is for them"
"""The `error` of a file that was fetched and cannot be stored. Its origin is closed: the file must
not be obeyed unless it can be obeyed after a restart."""


class Unreachable(enum.StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class RobotsRules(Struct, frozen=True, kw_only=True):
    """The `[robots]` section: how robots.txt is interpreted and obeyed."""

    dialect: Annotated[
        tuple[str, ...],
        Key(
            "how robots.txt is read; with a list, the strictest verdict applies",
            choices=tuple(DIALECTS),
            minimum=1,
            or_single=True,
        ),
    ] = ("slurp",)
    token: Annotated[
        tuple[str, ...],
        Key(
            "product token, or a list; empty: from the user agent",
            parse=robots_token,
            or_single=True,
        ),
    ] = ()
    unreachable: Annotated[
        Unreachable | None,
        Key("whether to crawl while robots.txt cannot be fetched; empty: the dialect decides"),
    ] = None
    crawl_delay: Annotated[
        bool, Key("honour Crawl-delay; false only per site, for sites you own", own_sites_only=True)
    ] = True
    obey: Annotated[
        bool, Key("obey robots.txt; false only per site, for sites you own", own_sites_only=True)
    ] = True


class RobotsState(Struct, frozen=True, kw_only=True):
    """What is known of one origin's robots.txt; stored field by field. Times in Unix seconds."""

    status: int | None = None  # of the last fetch; None: it had no answer, or there was no fetch
    body: bytes | None = None  # the copy in force, at most 500 KiB; None: no copy
    copy_at: float | None = None  # when that copy was last fetched or confirmed (304)
    etag: str | None = None
    last_modified: str | None = None
    validators_url: str | None = None  # the URL that sent the validators; they go to it alone
    fetched_at: float | None = None  # the last fetch that had an answer
    expires_at: float | None = None  # when what is known is due for a refresh
    retry_at: float | None = None  # when to retry while it is unreachable
    failures: int = 0  # failed fetches in a row
    unreachable_since: float | None = None
    gone_since: float | None = None  # the first 4xx answer since there was a copy
    error: str | None = None  # the last failure, in words
    truncated: bool = False  # the body was cut at 500 KiB


UNKNOWN = RobotsState()


class RobotsFetch(Struct, frozen=True, kw_only=True):
    """The result of one attempt to fetch robots.txt, redirects followed."""

    status: int | None = None  # of the final answer; None: `failure` says why there is none
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    url: str = ""  # of the final answer
    failure: str | None = None  # in words
    truncated: bool = False  # the body was cut
    redirect_overflow: bool = False  # a sixth redirect: counts as absent
    broken_body: bool = False  # it ended early, or could not be decompressed
    retry_after_s_max: float = RETRY_AFTER_S_MAX  # the longest Retry-After that is obeyed


def is_due(state: RobotsState, now_s: float) -> bool:
    """Return whether robots.txt must be fetched before anything else of this origin."""
    at_s = next_due_at(state)
    if at_s is None or now_s >= at_s:
        return True
    # The wall clock was set back, by more than a day, to before the first of the failures or to
    # before the last of those without an answer: the stored times cannot be trusted.
    if state.unreachable_since is not None:
        if now_s < state.unreachable_since:
            return True
        if state.status is None and at_s - now_s > _unanswered_s_max(state):
            return True
    return state.fetched_at is not None and now_s < state.fetched_at - DAY_S


def _unanswered_s_max(state: RobotsState) -> float:
    """The longest wait after a fetch without an answer, which no Retry-After can lengthen."""
    quarantined = (state.error or "").startswith(f"{FailureCode.QUARANTINED}:")
    return QUARANTINE_S if quarantined else DAY_S


def next_due_at(state: RobotsState) -> float | None:
    """Return when robots.txt is due next, in Unix seconds; None: now, because nothing is known."""
    if state.unreachable_since is not None:
        return state.retry_at
    return state.expires_at


def copy_age_s(state: RobotsState, now_s: float) -> float:
    """Return the seconds since the copy was fetched or confirmed; infinite if there is none."""
    return now_s - state.copy_at if state.copy_at is not None else math.inf


class _Class(enum.Enum):
    """The kind of answer a fetch produced."""

    FOUND = enum.auto()
    UNCHANGED = enum.auto()
    ABSENT = enum.auto()
    UNREACHABLE = enum.auto()


def _classify(state: RobotsState, fetch: RobotsFetch) -> _Class:
    status = fetch.status
    if fetch.redirect_overflow:
        return _Class.ABSENT
    if status is None:
        return _Class.UNREACHABLE
    if 200 <= status < 300:
        return _Class.UNREACHABLE if fetch.broken_body or fetch.body is None else _Class.FOUND
    if status == 304:
        # Without a copy it confirms nothing.
        return _Class.UNCHANGED if state.body is not None else _Class.UNREACHABLE
    if status == 429:
        return _Class.UNREACHABLE
    # A redirect that leads nowhere (no Location, no valid URL) counts as a missing file.
    return _Class.ABSENT if 300 <= status < 500 else _Class.UNREACHABLE


def next_state(
    state: RobotsState, fetch: RobotsFetch, *, now_s: float, rules: RobotsRules
) -> RobotsState:
    """The state after one more fetch. `now_s` in Unix seconds."""
    match _classify(state, fetch):
        case _Class.FOUND:
            return _found(fetch, now_s=now_s, rules=rules)
        case _Class.UNCHANGED:
            return _confirmed(state, fetch, now_s=now_s, rules=rules)
        case _Class.ABSENT:
            return _absent(state, fetch, now_s=now_s, rules=rules)
        case _Class.UNREACHABLE:
            return _failed(state, fetch, now_s=now_s, rules=rules)


def _found(fetch: RobotsFetch, *, now_s: float, rules: RobotsRules) -> RobotsState:
    body = fetch.body or b""
    etag, last_modified = _validator(fetch, "etag"), _validator(fetch, "last-modified")
    return RobotsState(
        status=fetch.status,
        body=body[:BYTES_MAX],
        copy_at=now_s,
        etag=etag,
        last_modified=last_modified,
        validators_url=fetch.url if etag or last_modified else None,
        fetched_at=now_s,
        expires_at=now_s + _lifetime_s(fetch, now_s, rules),
        truncated=fetch.truncated or len(body) > BYTES_MAX,
    )


def _confirmed(
    state: RobotsState, fetch: RobotsFetch, *, now_s: float, rules: RobotsRules
) -> RobotsState:
    return RobotsState(
        status=fetch.status,
        body=state.body,
        copy_at=now_s,
        etag=_validator(fetch, "etag") or state.etag,
        last_modified=_validator(fetch, "last-modified") or state.last_modified,
        validators_url=state.validators_url,
        fetched_at=now_s,
        expires_at=now_s + _lifetime_s(fetch, now_s, rules),
        truncated=state.truncated,
    )


def _absent(
    state: RobotsState, fetch: RobotsFetch, *, now_s: float, rules: RobotsRules
) -> RobotsState:
    usable = state.body is not None and copy_age_s(state, now_s) <= min(
        dialect.copy_max_s for dialect in dialects(rules.dialect)
    )
    since = state.gone_since
    if since is None or since > now_s:
        since = now_s
    if usable and now_s - since < GONE_AGAIN_S:
        # One bad answer does not replace a copy: the site may be in the middle of a deployment.
        return replace(
            state,
            status=fetch.status,
            fetched_at=now_s,
            expires_at=since + GONE_AGAIN_S,
            retry_at=None,
            failures=0,
            unreachable_since=None,
            gone_since=since,
            error=None,
        )
    return RobotsState(
        status=fetch.status,
        fetched_at=now_s,
        expires_at=now_s + _lifetime_s(fetch, now_s, rules),
        error="redirected more than five times" if fetch.redirect_overflow else None,
    )


def _failed(
    state: RobotsState, fetch: RobotsFetch, *, now_s: float, rules: RobotsRules
) -> RobotsState:
    failures = state.failures + 1
    wait_s = min(
        retry_delay_s(failures) if dialect.keeps_trying else dialect.lifetime_s
        for dialect in dialects(rules.dialect)
    )
    headers = fetch.headers
    requested_s = retry_after_s(
        headers.get("retry-after"),
        now_s=now_s,
        date=headers.get("date"),
        max_s=fetch.retry_after_s_max,
    )
    fetched_at = state.fetched_at
    if fetch.status is not None:
        fetched_at = now_s
    elif fetched_at is not None:
        fetched_at = min(fetched_at, now_s)  # it lies ahead if the wall clock was set back
    since = state.unreachable_since
    error = _failure_in_words(fetch)
    return replace(
        state,
        status=fetch.status,
        fetched_at=fetched_at,
        retry_at=now_s + max(wait_s, requested_s or 0.0),
        failures=failures,
        unreachable_since=now_s if since is None else min(since, now_s),
        error=error if len(error) <= _ERROR_CHARS_MAX else error[: _ERROR_CHARS_MAX - 1] + "…",
    )


def _failure_in_words(fetch: RobotsFetch) -> str:
    if fetch.failure:
        return fetch.failure
    if fetch.status is None:
        return "no answer"
    if fetch.broken_body:
        return f"the body of a {fetch.status} answer was broken"
    if fetch.status == 304:
        return "answered 304 (not modified), but no copy is stored"
    return f"answered {fetch.status}"


def _validator(fetch: RobotsFetch, name: str) -> str | None:
    value = fetch.headers.get(name)
    return value if value and len(value) <= _HEADER_CHARS_MAX else None


def _lifetime_s(fetch: RobotsFetch, now_s: float, rules: RobotsRules) -> float:
    """How long an answer counts as fresh: the shortest lifetime of all dialects."""
    return min(_lifetime_of(dialect, fetch, now_s) for dialect in dialects(rules.dialect))


def _lifetime_of(dialect: Dialect, fetch: RobotsFetch, now_s: float) -> float:
    given_s: float | None = None
    if dialect.lifetime is Lifetime.CACHE_CONTROL:
        given_s = _max_age_s(fetch.headers.get("cache-control", ""))
    elif dialect.lifetime is Lifetime.EXPIRES and "expires" in fetch.headers:
        # An invalid date in Expires means that the answer has expired (RFC 9111, 5.3).
        expires_s = http_date_s(fetch.headers["expires"])
        date_s = http_date_s(fetch.headers.get("date", ""))
        given_s = 0.0 if expires_s is None else expires_s - (now_s if date_s is None else date_s)
    if given_s is None:
        return dialect.lifetime_s
    return min(max(given_s, dialect.lifetime_min_s), dialect.lifetime_max_s)


def _max_age_s(cache_control: str) -> float | None:
    for directive in cache_control[:_HEADER_CHARS_MAX].lower().split(","):
        name, _, value = directive.strip().partition("=")
        value = value.strip().strip('"')
        if name.strip() in ("no-cache", "no-store"):
            return 0.0
        if name.strip() == "max-age" and value.isascii() and value.isdigit():
            return float(value)
    return None

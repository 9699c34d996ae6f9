"""What is known of one origin's robots.txt, as values: the state, the news, when to ask again."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct, field

from policies.config_key import Key, robots_token
from policies.robots.dialect import DIALECTS
from policies.robots.row import DAY_S


class Unreachable(enum.StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class RobotsRules(Struct, frozen=True, kw_only=True):
    """The `[robots]` section: how robots.txt is read and obeyed."""

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
        Key("crawl while robots.txt cannot be fetched, or not; empty: as the dialect does"),
    ] = None
    crawl_delay: Annotated[
        bool, Key("honour Crawl-delay; false only per site, for sites you own", own_sites_only=True)
    ] = True
    obey: Annotated[
        bool, Key("obey robots.txt; false only per site, for sites you own", own_sites_only=True)
    ] = True


class Access(Struct, frozen=True, kw_only=True):
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


class News(Struct, frozen=True, kw_only=True):
    """What one try at robots.txt brought, its redirects followed."""

    status: int | None = None  # of the answer at the end of the redirects; None: `failure` says why
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    url: str = ""  # that answered
    failure: str | None = None  # in words
    truncated: bool = False  # the body was cut
    redirect_overflow: bool = False  # a sixth redirect: counts as absent
    broken_body: bool = False  # it ended early, or could not be decompressed


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


def copy_age_s(access: Access, now_s: float) -> float:
    """Seconds since the copy was fetched or confirmed; infinite where there is none."""
    return now_s - access.copy_at if access.copy_at is not None else math.inf

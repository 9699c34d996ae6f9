"""What is known of one origin's robots.txt over time, and when to ask again."""

from __future__ import annotations

import enum
from dataclasses import dataclass


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

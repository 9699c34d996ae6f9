"""The JSON about robots.txt files and what they block, as `crawler.daemon.responses`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class BlockedRow(Struct, frozen=True, kw_only=True):
    """A row of the view `blocked`."""

    url: str
    reason: str
    dialect: str
    rule: str | None
    line: int | None
    robots_url: str
    blocked_at: float
    withdrawn: bool
    anchor: str | None
    referrer: str | None


class BlockedPage(Struct, frozen=True, kw_only=True):
    """GET /api/blocked. `after` requests the next page; null on the last."""

    blocked: list[BlockedRow]
    after: str | None


class BlockedRule(Struct, frozen=True, kw_only=True):
    """Blocked URLs of one host, by one rule and for one reason: how many (`urls`), and when the
    last of them was blocked (Unix seconds). `rule` is null where the state of robots.txt decided;
    `line` and `robots_url` are, too, where there are several."""

    host: str
    reason: str
    rule: str | None
    line: int | None
    robots_url: str | None
    urls: int
    last_at: float


class BlockedRules(Struct, frozen=True, kw_only=True):
    """GET /api/blocked/rules: the most URLs first. `more`: there are further rows than `limit`.
    `complete`: false if there are so many blocked URLs that only 200,000 of them were counted."""

    rules: Sequence[BlockedRule]
    more: bool
    complete: bool


class RobotsLine(Struct, frozen=True, kw_only=True):
    """A line of a stored robots.txt, and how many URLs of its origin it blocked."""

    line: int
    text: str
    blocked: int


class RobotsCopy(Struct, frozen=True, kw_only=True):
    """GET /api/robots: the copy stored for an origin, with the number of URLs each line blocked."""

    origin: str
    state: str
    status: int | None
    lines: list[RobotsLine]
    fetched_at: float | None
    truncated: bool

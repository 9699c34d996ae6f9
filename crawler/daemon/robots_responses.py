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
    """A line of a stored robots.txt: how many URLs of its origin it blocked, and how many of
    `sampled` ones it allowed."""

    line: int
    text: str
    blocked: int
    allowed: int = 0


class RobotsChange(Struct, frozen=True, kw_only=True):
    """What changed in a robots.txt at `changed_at`: a unified `diff` to the copy before, which was
    last fetched or confirmed at `copy_at` (null: not known), and how many lines were `added` and
    `removed`. `ordered`: false if the versions were too different to be compared line by line: the
    diff then has the lines that only one of them has. `cut`: the diff has further lines. Times are
    Unix seconds."""

    changed_at: float
    copy_at: float | None
    diff: str
    added: int
    removed: int
    ordered: bool
    cut: bool


class RobotsCopy(Struct, frozen=True, kw_only=True):
    """GET /api/robots: the copy stored for an origin, with the number of URLs each line blocked.
    `sampled`: how many of its queued and visited URLs were judged again to find out which lines
    allow URLs. `change`: what is different from the copy before; null if there was none."""

    origin: str
    state: str
    status: int | None
    lines: list[RobotsLine]
    fetched_at: float | None
    truncated: bool
    sampled: int = 0
    change: RobotsChange | None = None

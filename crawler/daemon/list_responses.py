"""The JSON of lists of URLs and of seeds, as `crawler.daemon.responses`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from crawler.operator_commands import Json


class UrlsPage(Struct, frozen=True, kw_only=True):
    """GET /api/urls: rows of the view `queued`, `failed` or `visited`, with all its columns, those
    found last first. `after` requests the next page; null on the last. A page may have fewer rows
    than `limit`, even none, although another follows."""

    urls: Sequence[Mapping[str, Json]]
    after: str | None


class FailureCount(Struct, frozen=True, kw_only=True):
    """The number of URLs that have failed with a code."""

    code: str
    urls: int


class Failures(Struct, frozen=True, kw_only=True):
    """GET /api/failures: the failed URLs by failure code, the most frequent first; if there are
    more than 200,000, those of them that were found last."""

    codes: Sequence[FailureCount]


class SkippedRow(Struct, frozen=True, kw_only=True):
    """A row of the view `skipped`, with the reason in words."""

    reason: str
    words: str
    count: int


class SkippedLinks(Struct, frozen=True, kw_only=True):
    """GET /api/skipped: how many links were left out, by reason, the most frequent first."""

    skipped: Sequence[SkippedRow]


class SeedRow(Struct, frozen=True, kw_only=True):
    """A seed. `state`: `queued`, `visited`, `blocked`, `failed`, `sitemap` (it was read as one) or
    `skipped` (scope excludes it, or an operator dropped it). `error`: why it failed, or the last
    attempt at it did."""

    url: str
    state: str
    status: int | None
    error: str | None
    depth: int
    priority: float


class SeedsPage(Struct, frozen=True, kw_only=True):
    """GET /api/seeds: seeds, those added last first; otherwise as GET /api/urls."""

    seeds: Sequence[SeedRow]
    after: str | None


class LogRow(Struct, frozen=True, kw_only=True):
    """A line of the log. `number`: in the order of lines since the start; `at`: Unix seconds;
    `values`: the event's own fields."""

    number: int
    at: float
    level: str
    event: str
    values: Mapping[str, Json]


class LogPage(Struct, frozen=True, kw_only=True):
    """GET /api/log: lines of the log that the daemon has in memory, the newest first. `after`
    requests the next page; null on the last. `kept`: how many lines it has; `written`: how many
    were logged since its start."""

    lines: Sequence[LogRow]
    after: str | None
    kept: int
    written: int

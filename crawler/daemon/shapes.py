"""The JSON that the daemon answers with, as types: what mypy holds the code to, what the OpenAPI
description is made from. More keys may come; those there stay."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

Json = Annotated[object, Meta(extra_json_schema={"description": "Any JSON value."})]
State = Literal["running", "paused", "held", "idle", "stopping"]


class Held(TypedDict):
    """Trouble of the crawler's own machine or network, for which no request begins. `since` is in
    Unix seconds, `sentence` for people."""

    reason: str
    sentence: str
    since: float


class Fetching(TypedDict):
    """A request on the wire, and for how long."""

    url: str
    since_s: float


class Status(TypedDict):
    """GET /api/status. Counts are the views' row counts; `fetching` has a few of the URLs on the
    wire; `hosts_by_state` counts the hosts held in memory; `held` says why the whole
    crawl holds."""

    state: State
    held: list[Held]
    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    bytes: int
    in_flight: int
    pages_per_s: float
    bytes_per_s: float
    uptime_s: float
    memory_bytes: int | None
    hosts_held: int
    hosts_by_state: dict[str, int]
    fetching: list[Fetching]
    uncommitted: int
    version: str


class HostNow(TypedDict):
    """A host that the crawl holds in memory, at this moment. `next_at`: null until somebody acts,
    or while it is in contact."""

    state: str
    next_at: float | None
    reason: str
    in_flight: int
    in_hand: int
    delay_s: float
    delay_source: str


class HostRow(TypedDict):
    """A row of the view `hosts`, as committed, and what the host waits for in words. Times are Unix
    seconds; `paused` is true or false. `now` is null for a host that is not held."""

    host: str
    queued: int
    visited: int
    blocked: int
    failed: int
    body_bytes: int
    delay_s: float
    delay_source: str
    next_at: float | None
    paused: bool
    backoff_until: float | None
    contacts: int
    smallest_rest_s: float | None
    peak_concurrency: int
    breaches: int
    slow_s: float | None
    latency_s: float | None
    connect_failures: int
    wait_reason: str
    now: HostNow | None


class Hosts(TypedDict):
    """GET /api/hosts. `after` is what asks for the next page; null at the last."""

    hosts: list[HostRow]
    after: str | None


class ContactRow(TypedDict):
    """One contact; times are Unix seconds, `status` null where there was no answer."""

    start_at: float
    end_at: float
    kind: str
    status: int | None


class RobotsRow(TypedDict):
    """A row of the view `robots`."""

    origin: str
    host: str
    state: str
    status: int | None
    fetched_at: float | None
    expires_at: float | None
    retry_at: float | None
    body_bytes: int | None
    failures: int
    error: str | None
    truncated: bool


class Host(HostRow):
    """GET /api/host. `recent_contacts` are the latest, oldest first; `contacts` is their number
    ever. `why` are sentences."""

    robots: list[RobotsRow]
    recent_contacts: list[ContactRow]
    why: list[str]


class Controlled(TypedDict):
    """POST /api/hosts/pause, resume and slow: what now holds for the host."""

    host: str
    paused: bool
    slow_s: float | None


class UrlAnswer(TypedDict):
    """GET /api/url: what `courtly why` says. `state` is visited, blocked, failed, queued, skipped
    or unknown; `row` has the columns of the view of that name, and how the URL was found; `why`
    are sentences."""

    url: str
    state: str
    host: str
    origin: str
    why: list[str]
    row: dict[str, Json]


class FailedRow(TypedDict):
    """A row of the view `failed`."""

    url: str
    error: str
    attempts: int
    last_at: float


class BlockedRow(TypedDict):
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


class BlockedPage(TypedDict):
    """GET /api/blocked."""

    blocked: list[BlockedRow]
    after: str | None


class RefusedSeed(TypedDict):
    url: str
    reason: str


class SeedsAnswer(TypedDict):
    """POST /api/seeds: how many URLs were new, how many known, and which were no seeds."""

    added: int
    known: int
    refused: list[RefusedSeed]


class Retried(TypedDict):
    """POST /api/retry: how many failed URLs are queued again."""

    retried: int


class StateAnswer(TypedDict):
    """POST /api/pause and resume."""

    state: State


class Reloaded(TypedDict):
    """POST /api/reload: what changed, or would change, in sentences. `restart`: what stands in the
    file but counts only after a restart."""

    changes: list[str]
    restart: list[str]
    warnings: list[str]
    dry_run: bool


class CheckedUrl(TypedDict):
    """One verdict. `rule` and `line` are null where no line decided; `reason` is a sentence."""

    url: str
    dialect: str
    allowed: bool
    rule: str | None
    line: int | None
    reason: str


class Checked(TypedDict):
    """POST /api/robots/check. `robots` is the file that judged (null: there is none to go by),
    `robots_url` where it came from (null: it was given)."""

    verdicts: list[CheckedUrl]
    robots: str | None
    robots_url: str | None


class RobotsLine(TypedDict):
    """A line of a kept robots.txt, and how many URLs of its origin it blocked (of those looked
    at)."""

    line: int
    text: str
    blocked: int


class RobotsCopy(TypedDict):
    """GET /api/robots: the copy kept for an origin, with the lines that decided anything marked."""

    origin: str
    state: str
    status: int | None
    lines: list[RobotsLine]
    fetched_at: float | None
    truncated: bool


class Setting(TypedDict):
    """One key of the config as it now holds. `source` says where it was set; "default" if not."""

    key: str
    value: Json
    source: str


class Settings(TypedDict):
    """GET /api/config: effective settings, of one host where one is named; secrets are left out."""

    host: str | None
    settings: list[Setting]


class Health(TypedDict):
    """GET /healthz."""

    status: Literal["ok"]

"""The JSON of the HTTP API, as structs: the API answers with them, and the OpenAPI description is
made from them. Fields may be added, and none is renamed or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from crawler.daemon.health import Health
from crawler.operator_commands import Json
from crawler.steering.live_state import ActiveHold, Activity, HostNow
from crawler.steering.queue_waits import QueueWait
from storage.store import Row

T = TypeVar("T")
SILENT_S = 5.0  # a worker renews its session once a second
_FLAGS = frozenset({"paused", "withdrawn", "truncated", "indexable", "followable", "archivable"})


class Worker(Struct, frozen=True, kw_only=True):
    """A live worker of a crawl that several share, as it last reported. `id` is the number of its
    session, `host` the name of its machine; `seen_s` seconds have passed since its last renewal.
    `here`: it is the process that answers. `pages` were visited in its session, `hosts` are held.
    `idle`: nothing it holds can make progress."""

    id: int
    name: str
    host: str
    pid: int
    began_at: float
    seen_s: float
    here: bool
    idle: bool
    hosts: int
    in_flight: int
    pages: int
    pages_per_s: float
    uncommitted: int
    held: tuple[ActiveHold, ...] = ()

    @property
    def silent(self) -> bool:
        """Whether it may be dead: it does not renew its session."""
        return self.seen_s >= SILENT_S


class PageReader(Struct, frozen=True, kw_only=True):
    """What reads pages in this process. `name`: "native" or "pure". `native`: the pages read in
    native code; `declined`: those that it left to the reader in Python."""

    name: str = "pure"
    native: int = 0
    declined: int = 0


class Status(Activity, frozen=True, kw_only=True):
    """GET /api/status. Counts are the row counts of the database's views; `fetching` has some of
    the requests in flight; `hosts_by_state` counts the hosts in memory; `held` says what stops the
    whole crawl. `at`: when this was so (Unix seconds). `name`: of the daemon. `health`: judged by
    the last five minutes. `queue`: what the queued URLs wait for, as of `queue_at`.
    `database_returns`: how often the database went back in time (a failover, a restored backup),
    the last time at `database_returned_at` (Unix seconds; null: never).

    `page_reader`: what reads pages, and how many it has read in native code.

    `workers` share the crawl, if its database is on a server. `state`, the rates, the requests in
    flight, the hosts in memory and the memory are then those of the worker that answers."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    bytes: int
    version: str
    health: Health
    queue: tuple[QueueWait, ...]
    queue_at: float | None
    at: float
    name: str
    page_reader: PageReader = PageReader()
    database_returns: int = 0
    database_returned_at: float | None = None
    workers: tuple[Worker, ...] = ()

    def of_all_workers(self) -> AllWorkers:
        """Return what this worker does now, and what the others last reported."""
        others = others_in(self.workers)
        return AllWorkers(
            pages_per_s=self.pages_per_s + sum(one.pages_per_s for one in others),
            in_flight=self.in_flight + sum(one.in_flight for one in others),
        )


def others_in(workers: Sequence[Worker]) -> list[Worker]:
    """The workers in other processes, without those that may be dead."""
    return [worker for worker in workers if not (worker.here or worker.silent)]


class AllWorkers(Struct, frozen=True, kw_only=True):
    """The activity of all workers that share a crawl."""

    pages_per_s: float
    in_flight: int


class HostRow(Struct, frozen=True, kw_only=True):
    """A row of the view `hosts`, as committed, and what the host waits for in words. Times are Unix
    seconds. `now` is null for a host that is not in memory. `breaches`: contacts that began too
    early. `unproven`: contacts of which nobody measured how long the host had rested."""

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
    unproven: int
    slow_s: float | None
    latency_s: float | None
    connect_failures: int
    backoff_status: int | None
    wait_reason: str
    now: HostNow | None


class Hosts(Struct, frozen=True, kw_only=True):
    """GET /api/hosts. `after` requests the next page; null on the last."""

    hosts: list[HostRow]
    after: str | None


class ContactRow(Struct, frozen=True, kw_only=True):
    """One contact; times are Unix seconds, `status` is null where there was no response."""

    start_at: float
    end_at: float
    kind: str
    status: int | None


class RobotsRow(Struct, frozen=True, kw_only=True):
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


class NextUrl(Struct, frozen=True, kw_only=True):
    """A queued URL. `at`: when it can be requested at the earliest, at the present delay of its
    host (Unix seconds; null: unknown, or when an operator acts). `waits_for`: `retry` (until
    `due_at`), `robots.txt`, or "" for its turn alone. `attempts` were made so far; the last ended
    with `error`. `sitemap`: it is read as a sitemap."""

    url: str
    priority: float
    depth: int
    at: float | None
    due_at: float | None
    attempts: int
    error: str | None
    sitemap: bool
    waits_for: str


class HostDetail(HostRow, frozen=True, kw_only=True):
    """GET /api/host. `recent_contacts` are the latest, oldest first; `contacts` counts all of them.
    `why` explains the state of the host in sentences. `next_urls`: the first of the queued ones, in
    the order in which they are requested."""

    robots: list[RobotsRow]
    recent_contacts: list[ContactRow]
    why: list[str]
    next_urls: Sequence[NextUrl] = ()


class UrlAnswer(Struct, frozen=True, kw_only=True):
    """GET /api/url: what `courtly why` prints. `state` is visited, blocked, failed, queued, skipped
    or unknown; `row` has the columns of the view of that name, and how the URL was found; `why`
    explains the state in sentences."""

    url: str
    state: str
    host: str
    origin: str
    why: list[str]
    row: dict[str, Json]


class FailedRow(Struct, frozen=True, kw_only=True):
    """A row of the view `failed`."""

    url: str
    error: str
    attempts: int
    last_at: float


class CheckedUrl(Struct, frozen=True, kw_only=True):
    """One verdict. `rule` and `line` are null where no line decided; `reason` is a sentence.
    `governed`: false for a URL of another origin than that of the robots.txt, which says nothing
    about it; `allowed` is false then, too."""

    url: str
    dialect: str
    allowed: bool
    rule: str | None
    line: int | None
    reason: str
    governed: bool = True


class Checked(Struct, frozen=True, kw_only=True):
    """POST /api/robots/check. `robots` is the file that decided (null: there is none), `robots_url`
    its source (null: it was part of the request)."""

    verdicts: list[CheckedUrl]
    robots: str | None
    robots_url: str | None


class Setting(Struct, frozen=True, kw_only=True):
    """One key of the effective config. `source` says where it was set; "default" if nowhere."""

    key: str
    value: Json
    source: str


class Settings(Struct, frozen=True, kw_only=True):
    """GET /api/config: the effective settings, of one host if one is named; without secrets."""

    host: str | None
    settings: list[Setting]


class MayFetch(Struct, frozen=True, kw_only=True):
    """POST /api/may-fetch: whether robots.txt allows the URL now."""

    allowed: bool


class NextTurn(Struct, frozen=True, kw_only=True):
    """POST /api/next-turn: in how many seconds the host may be contacted (0: now), what it waits
    for, and how many callers are ahead in its line."""

    in_s: float
    reason: str
    ahead: int


class RobotsKnown(Struct, frozen=True, kw_only=True):
    """POST /api/robots/state: what is known of the robots.txt of an origin. `body` is in base64,
    null without a copy; times are Unix seconds."""

    status: int | None
    body: str | None
    copy_at: float | None
    etag: str | None
    last_modified: str | None
    validators_url: str | None
    fetched_at: float | None
    expires_at: float | None
    retry_at: float | None
    failures: int
    unreachable_since: float | None
    gone_since: float | None
    error: str | None
    truncated: bool


class LentPermit(Struct, frozen=True, kw_only=True):
    """POST /api/permit: permission to send one request to `url` now. It ends with DELETE
    /api/permit/ID, or after `expires_in_s`, as a contact without an answer."""

    id: str
    url: str
    method: str
    expires_in_s: float


class PermitEnded(Struct, frozen=True, kw_only=True):
    """DELETE /api/permit/ID: the contact has ended."""

    id: str


class Liveness(Struct, frozen=True, kw_only=True):
    """GET /healthz."""

    status: Literal["ok"]


class Readiness(Struct, frozen=True, kw_only=True):
    """GET /readyz: 200 with "ready", or 503 with "not ready" and the names of what prevents it."""

    status: Literal["ready", "not ready"]
    failing: tuple[str, ...] = ()


def from_row(kind: type[T], row: Row, **more: object) -> T:
    """A row of the store as one of these structs; SQLite's 0 and 1 become booleans, and other
    columns are left out. `more`: fields that are no columns."""
    return msgspec.convert({**row, **more}, kind, strict=False)


def from_rows(kind: type[T], rows: object) -> list[T]:
    """The rows nested in one of `Reader.host`."""
    return [from_row(kind, row) for row in rows] if isinstance(rows, list | tuple) else []


def flag(column: str, value: object) -> object:
    """A value of a view; SQLite's 0 and 1 become booleans in the columns that are flags."""
    return bool(value) if column in _FLAGS and value is not None else value

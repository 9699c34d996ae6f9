"""What the queued URLs of a crawl wait for: hosts in memory by their exact reasons, the others by
their rows in the store."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from msgspec import Struct

from crawler.frontier.reasons import Wait
from storage.read_records import HostsWaiting, Row, StoredReason
from storage.row_values import number


class QueueReason(enum.StrEnum):
    """What queued URLs wait for, in the order it is shown in."""

    READY = "ready"
    IN_FLIGHT = "in-flight"
    DELAY = "delay"
    BACKOFF = "backoff"
    ROBOTS = "robots"
    CLOSED = "closed"
    UNREACHABLE = "unreachable"
    RETRY = "retry"
    VISIT_WINDOW = "visit-window"
    ADDRESS = "address"
    ELSEWHERE = "elsewhere"
    LIMITED = "limit"
    PAUSED = "paused"
    CRAWL_PAUSED = "crawl-paused"
    CRAWL_HELD = "crawl-held"


PHRASES: Final[Mapping[QueueReason, str]] = {
    QueueReason.READY: "ready to be requested",
    QueueReason.IN_FLIGHT: "a request to their host is in flight",
    QueueReason.DELAY: "waiting for the politeness delay",
    QueueReason.BACKOFF: "their host is backing off",
    QueueReason.ROBOTS: "robots.txt is needed first",
    QueueReason.CLOSED: "robots.txt is unreachable",
    QueueReason.UNREACHABLE: "their host cannot be connected to",
    QueueReason.RETRY: "a retry that is not due yet",
    QueueReason.VISIT_WINDOW: "outside the visit window",
    QueueReason.ADDRESS: "waiting for their address (per = ip)",
    QueueReason.ELSEWHERE: "another worker or session contacts their host",
    QueueReason.LIMITED: "a limit of pages, bytes or time is reached",
    QueueReason.PAUSED: "their host is paused by an operator",
    QueueReason.CRAWL_PAUSED: "the whole crawl is paused by an operator",
    QueueReason.CRAWL_HELD: "the whole crawl is on hold",
}
_OF_ROWS: Final[Mapping[StoredReason, QueueReason]] = {
    StoredReason.READY: QueueReason.READY,
    StoredReason.DELAY: QueueReason.DELAY,
    StoredReason.BACKOFF: QueueReason.BACKOFF,
    StoredReason.PAUSED: QueueReason.PAUSED,
    StoredReason.UNREACHABLE: QueueReason.UNREACHABLE,
    StoredReason.LATER: QueueReason.RETRY,
}
# Reasons that end only when an operator acts, or when nobody can say.
_ENDLESS: Final = frozenset(
    (
        QueueReason.PAUSED, QueueReason.CRAWL_PAUSED, QueueReason.CRAWL_HELD, QueueReason.LIMITED,
        QueueReason.CLOSED, QueueReason.ROBOTS, QueueReason.UNREACHABLE, QueueReason.ELSEWHERE,
    )
)  # fmt: skip


class QueueWait(Struct, frozen=True, kw_only=True):
    """Queued URLs that wait for the same. Times are Unix seconds.

    first_at, last_at: when the first and the last of their hosts may be contacted; null: unknown,
    or when an operator acts. through_at: the earliest time at which all of them can be done: when
    the slowest host is, at its present delay, or at the present rate of the crawl if that is later.
    visited_hosts: how many of the hosts have visited URLs. gone_hosts: how many of those could not
    be connected to at last.
    """

    reason: QueueReason
    sentence: str
    urls: int
    hosts: int
    first_at: float | None
    last_at: float | None
    through_at: float | None
    visited_hosts: int = 0
    gone_hosts: int = 0


class LiveWait(Struct, frozen=True):
    """What a host in memory waits for, and until when (Unix seconds; None: unknown)."""

    reason: QueueReason
    until: float | None


def reason_of(wait: Wait) -> QueueReason:
    """The reason of a queue for one of a host."""
    match wait:
        case Wait.READY | Wait.IDLE:
            return QueueReason.READY
        case Wait.IN_FLIGHT:
            return QueueReason.IN_FLIGHT
        case Wait.DELAY | Wait.STORED | Wait.RESTARTED:
            return QueueReason.DELAY
        case Wait.BACKOFF:
            return QueueReason.BACKOFF
        case Wait.ROBOTS_NEEDED | Wait.ROBOTS_FETCHED | Wait.ROBOTS_ELSEWHERE:
            return QueueReason.ROBOTS
        case Wait.ROBOTS_PAUSED | Wait.ROBOTS_HOST_LEASED | Wait.ROBOTS_ROOM:
            return QueueReason.ROBOTS
        case Wait.CLOSED:
            return QueueReason.CLOSED
        case Wait.RECONNECT | Wait.GIVEN_UP | Wait.FORBIDDEN:
            return QueueReason.UNREACHABLE
        case Wait.RETRY:
            return QueueReason.RETRY
        case Wait.VISIT_WINDOW:
            return QueueReason.VISIT_WINDOW
        case Wait.ADDRESS_DELAY | Wait.ADDRESS_ELSEWHERE:
            return QueueReason.ADDRESS
        case Wait.SAME_PROCESS | Wait.LEASED_ELSEWHERE:
            return QueueReason.ELSEWHERE
        case Wait.HOST_FULL | Wait.RUN_LIMITED:
            return QueueReason.LIMITED
        case Wait.PAUSED:
            return QueueReason.PAUSED
        case Wait.CRAWL_PAUSED:
            return QueueReason.CRAWL_PAUSED
        case Wait.CRAWL_HELD:
            return QueueReason.CRAWL_HELD
        case _:
            assert_never(wait)


def hosts_waiting(
    reason: QueueReason, live: Mapping[str, LiveWait], *, overall: QueueReason | None
) -> HostsWaiting:
    """Return which hosts `queue_waits` counts under a reason, for `Reader.hosts_page`. live,
    overall: as there, but while the whole crawl stands still, its hosts can still be found by their
    own reasons."""
    if reason is overall:
        return HostsWaiting(stored=tuple(StoredReason))
    return HostsWaiting(
        stored=[stored for stored, each in _OF_ROWS.items() if each is reason],
        named=[host for host, wait in live.items() if wait.reason is reason],
        others=[host for host, wait in live.items() if wait.reason is not reason],
    )


class _Sum:
    """The rows of one reason."""

    def __init__(self) -> None:
        self.urls = self.hosts = self.visited_hosts = self.gone_hosts = 0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.through_at = 0.0

    def add(self, row: Row, until: float | None, last: float | None) -> None:
        self.urls += int(number(row["urls"]))
        self.hosts += int(number(row["hosts"]))
        self.visited_hosts += int(number(row["visited_hosts"]))
        self.gone_hosts += int(number(row["gone_hosts"]))
        if until is not None:
            self.first_at = until if self.first_at is None else min(self.first_at, until)
        if last is not None:
            self.last_at = last if self.last_at is None else max(self.last_at, last)
        self.through_at = max(self.through_at, number(row["through_at"]))


def queue_waits(
    rows: Sequence[Row],
    live: Mapping[str, LiveWait],
    *,
    overall: QueueReason | None,
    pages_per_s: float,
    now_s: float,
) -> tuple[QueueWait, ...]:
    """Sum up the rows of `Reader.queue_waits`, the largest first.

    live: the hosts in memory. overall: the reason of all hosts, if the whole crawl stands still.
    """
    sums: dict[QueueReason, _Sum] = {}
    for row in rows:
        seen = live.get(str(row["host"])) if row["host"] else None
        if overall is not None:
            sums.setdefault(overall, _Sum()).add(row, None, None)
        elif seen is not None:
            sums.setdefault(seen.reason, _Sum()).add(row, seen.until, seen.until)
        else:
            reason = _OF_ROWS[StoredReason(str(row["reason"]))]
            first, last = number(row["first_at"]), number(row["last_at"])
            sums.setdefault(reason, _Sum()).add(row, first, last)
    found = [_queue_wait(reason, one, pages_per_s, now_s) for reason, one in sums.items()]
    return tuple(sorted(found, key=lambda one: -one.urls))


def _queue_wait(reason: QueueReason, found: _Sum, pages_per_s: float, now_s: float) -> QueueWait:
    through_at: float | None = found.through_at
    if reason in _ENDLESS:
        through_at = None
    elif pages_per_s > 0:
        through_at = max(found.through_at, now_s + found.urls / pages_per_s)
    timed = reason not in (QueueReason.READY, QueueReason.PAUSED, QueueReason.IN_FLIGHT)
    return QueueWait(
        reason=reason,
        sentence=PHRASES[reason],
        urls=found.urls,
        hosts=found.hosts,
        first_at=found.first_at if timed else None,
        last_at=found.last_at if timed else None,
        through_at=through_at,
        visited_hosts=found.visited_hosts,
        gone_hosts=found.gone_hosts,
    )

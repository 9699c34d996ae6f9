"""The state of a running crawl and of its hosts, as values.

The HTTP API answers with these structs, so their fields are public: fields may be added, and none
is renamed or removed.
"""

from __future__ import annotations

import enum
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from crawler.frontier.reasons import IDLE, Reason, Wait, limit_reached
from crawler.operator_commands import CrawlState
from policies.retries import FailureCode
from storage.store import Queued

if TYPE_CHECKING:
    from crawler.frontier.host_queue import HostQueue


class HostState(enum.StrEnum):
    """The state of a host in memory."""

    IN_FLIGHT = "in flight"
    READY = "ready"  # it may be contacted, and waits for a slot of `crawl.concurrency`
    WAITING = "waiting"  # it has URLs, and waits for its politeness delay
    ROBOTS = "robots"  # its URLs wait for a robots.txt
    CLOSED = "closed"  # its URLs are of origins that are unreachable or closed by robots.txt
    PAUSED = "paused"  # by an operator
    IDLE = "idle"  # it has nothing to do now


HOST_WORDS: Final[Mapping[HostState, str]] = {
    HostState.IN_FLIGHT: "request in flight",
    HostState.READY: "ready",
    HostState.WAITING: "waiting for their delay",
    HostState.ROBOTS: "waiting for robots.txt",
    HostState.CLOSED: "closed or unreachable",
    HostState.PAUSED: "paused",
    HostState.IDLE: "idle",
}


class ActiveHold(Struct, frozen=True, kw_only=True):
    """A problem of the crawler's own machine or network, during which no requests start. `since` is
    in Unix seconds, `sentence` for people."""

    reason: str
    sentence: str
    since: float


class Fetching(Struct, frozen=True, kw_only=True):
    """A request in flight, and for how long."""

    url: str
    since_s: float


class Activity(Struct, frozen=True, kw_only=True):
    """The activity of a crawl at this moment. Rates are over the last few seconds."""

    state: CrawlState
    held: tuple[ActiveHold, ...]
    in_flight: int  # requests, robots.txt included
    pages_per_s: float
    bytes_per_s: float  # of bodies
    uptime_s: float
    memory_bytes: int | None  # resident; None where the system does not report it
    hosts_held: int  # in memory
    hosts_by_state: Mapping[HostState, int]  # of those in memory; only states that occur
    fetching: tuple[Fetching, ...]  # the longest in flight first, at most FETCHING_SHOWN
    uncommitted: int  # outcomes recorded and not committed yet


class HostNow(Struct, frozen=True, kw_only=True):
    """A host in memory, at this moment. `next_at` (Unix seconds) is null while the host is in
    contact, or until an operator acts. `reason` says why it waits, in words; "ready" if it does
    not. `prefetched` counts its URLs in memory."""

    state: HostState
    next_at: float | None
    reason: str
    in_flight: int
    prefetched: int
    delay_s: float
    delay_source: str


class HostUrls(Struct, frozen=True):
    """The URLs of a host in memory: the `next` ones in their order, those that wait for a
    robots.txt (`parked`), and the ids of all that are `held`, requests in flight included."""

    next: Sequence[Queued]
    parked: Sequence[Queued]
    held: frozenset[int]


def host_state(host: HostQueue, wait_s: float) -> HostState:
    """Return the state of a host in memory. wait_s: that of `Waiting.why`."""
    if host.busy:
        return HostState.IN_FLIGHT
    if host.paused:
        return HostState.PAUSED
    if host.tickets or host.parked:
        return HostState.ROBOTS
    if host.prefetched:
        return HostState.WAITING if wait_s else HostState.READY
    return HostState.CLOSED if host.closed else HostState.IDLE


def nothing_to_do(held: HostQueue) -> Reason:
    """Return why a host in memory has nothing to do."""
    if held.full:
        return limit_reached(held.full)
    lost = next((one for one in held.out_of_reach.values() if one.given_up), None)
    if lost is None:
        return IDLE
    forbidden = lost.failure.code is FailureCode.ADDRESS
    return Reason(Wait.FORBIDDEN if forbidden else Wait.GIVEN_UP, lost.failure.error)


def resident_bytes() -> int | None:
    """The resident memory of this process; None where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * mmap.PAGESIZE

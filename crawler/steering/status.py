"""What a running crawl says of itself and of its hosts, and answers to commands, as values."""

from __future__ import annotations

import enum
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from policies.holds import Hold

if TYPE_CHECKING:
    from crawler.politeness.host import Host


class State(enum.StrEnum):
    """What a crawl as a whole is doing."""

    RUNNING = "running"  # URLs move, or wait for their hosts
    PAUSED = "paused"  # by hand: no contact begins
    HELD = "held"  # trouble of our own machine or network: no contact begins but probes
    IDLE = "idle"  # nothing is queued that could move; it waits for seeds, retries, robots.txt
    STOPPING = "stopping"  # what is in flight ends, nothing begins


class HostState(enum.StrEnum):
    """What a held host is doing."""

    IN_FLIGHT = "in flight"
    READY = "ready"  # it may be contacted now, and waits for `crawl.concurrency`
    WAITING = "waiting"  # it rests; it has URLs in hand
    ROBOTS = "robots"  # its URLs wait for a robots.txt
    CLOSED = "closed"  # what it has is of origins closed or out of reach
    PAUSED = "paused"  # by hand
    IDLE = "idle"  # it has nothing to do now


class UnknownHost(LookupError):  # noqa: N818 - named for what happened, like the others
    """No URL of this host was ever met."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the crawl knows no host {host}: it has met no URL of it")
        self.host = host


class Fetching(NamedTuple):
    """A request on the wire."""

    url: str
    since_s: float  # how long it has been under way


class RefusedSeed(NamedTuple):
    """What was given as a seed and is none."""

    url: str  # as it was given
    reason: str  # one sentence


class SeedsAdded(Struct, frozen=True, kw_only=True):
    """What became of each URL given: `added` are queued now, `known` were met before, or earlier
    in the same list, and count as seeds. With `refused` they are as many as were given."""

    added: int
    known: int
    refused: tuple[RefusedSeed, ...] = ()


class Reloaded(Struct, frozen=True, kw_only=True):
    """What a new config changes, in words for an operator, one change each; empty: nothing.

    restart: what stands differently in the file but counts only after a restart.
    warnings: what is allowed, but probably not meant.
    """

    changes: tuple[str, ...]
    restart: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Status(Struct, frozen=True, kw_only=True):
    """A crawl at this moment. Rates are over the last few seconds; counts are of this run."""

    state: State
    held: tuple[Hold, ...]  # why the whole crawl holds
    uptime_s: float
    pages: int  # visited and committed
    body_bytes: int
    pages_per_s: float
    bytes_per_s: float  # of bodies
    in_flight: int  # requests on the wire, robots.txt included
    hosts_held: int
    hosts_by_state: Mapping[HostState, int]  # the held ones; a state nobody is in has no entry
    fetching: tuple[Fetching, ...]  # the longest under way first, at most FETCHING_SHOWN
    uncommitted: int  # outcomes recorded and not committed yet
    memory_bytes: int | None  # resident; None where the system does not say


class HostNow(Struct, frozen=True, kw_only=True):
    """A held host at this moment."""

    slot: str
    state: HostState
    # Unix seconds: when it may be contacted; None: until someone acts, or all its lanes are in use
    next_at: float | None
    reason: str  # in words, why it waits; "ready" if it does not
    in_flight: int
    in_hand: int  # URLs in memory that could be asked for
    delay_s: float
    delay_source: str
    paused: bool
    slow_s: float | None


def host_state(host: Host, wait_s: float) -> HostState:
    """`wait_s` as `Turns.why` gives it."""
    if host.busy:
        return HostState.IN_FLIGHT
    if host.paused:
        return HostState.PAUSED
    if host.waiters or host.parked:
        return HostState.ROBOTS
    if host.hand:
        return HostState.WAITING if wait_s else HostState.READY
    return HostState.CLOSED if host.closed else HostState.IDLE


def resident_bytes() -> int | None:
    """The memory this process has in use; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * mmap.PAGESIZE

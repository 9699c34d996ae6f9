"""Holds: problems of this machine or its network that pause the whole crawl."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# Hosts that have answered before rarely fail together: a few of them are enough.
REACHED_MIN: Final = 3
# Hosts that never answered may all be dead, and many are tried during one politeness delay. Enough
# of them must fail in a row to be unlikely, given the share of dead hosts so far, with no answer at
# all.
UNKNOWN_MIN: Final = 20
UNKNOWN_MAX: Final = 2_000
UNLIKELY: Final = 1e-6
SILENT_S_MIN: Final = 10.0


class HoldReason(enum.StrEnum):
    """The problem on our side."""

    NETWORK = "network"
    DESCRIPTORS = "descriptors"
    PORTS = "ports"
    FILES = "files"
    MEMORY = "memory"
    DISK_FULL = "disk-full"
    DISK_LOW = "disk-low"
    DISK_QUOTA = "disk-quota"
    DISK_ERROR = "disk-error"
    DATABASE_LOCKED = "database-locked"
    DATABASE_UNREACHABLE = "database-unreachable"
    DATABASE_ERROR = "database-error"
    LEASES_EXPIRED = "leases-expired"
    DATABASE_WENT_BACK = "database-went-back"


class FaultOwner(enum.Enum):
    """The party that handles faults of this machine and its network.

    CRAWL: one holds the crawl until it has passed; what it cost is repeated, and charged to nobody.
    CALLER: it is the result of the request that met it, which the caller handles.
    """

    CRAWL = enum.auto()
    CALLER = enum.auto()


SENTENCES: Final[Mapping[HoldReason, str]] = {
    HoldReason.NETWORK: "network outage: no host can be reached",
    HoldReason.DESCRIPTORS: "too many open files: no connection can be opened",
    HoldReason.PORTS: "no resources are left for new connections",
    HoldReason.FILES: "too many open files: a file cannot be opened",
    HoldReason.MEMORY: "out of memory",
    HoldReason.DISK_FULL: "no space left on device",
    HoldReason.DISK_LOW: "free disk space is below its minimum",
    HoldReason.DISK_QUOTA: "the crawl has used all the disk space it is allowed",
    HoldReason.DISK_ERROR: "reading or writing a file failed",
    HoldReason.DATABASE_LOCKED: "another program has locked the database",
    HoldReason.DATABASE_UNREACHABLE: "the database server cannot be reached",
    HoldReason.DATABASE_ERROR: "the database server reports an error that may pass",
    HoldReason.LEASES_EXPIRED: (
        "the database has not confirmed in time that this worker still holds its hosts"
    ),
    HoldReason.DATABASE_WENT_BACK: (
        "the database went back in time: other workers that do not know of it must stop first"
    ),
}

# Problems with connections. A successful request shows that they are over, so one is tried now and
# then; a crawl that need not run forever ends when its patience is exhausted. The other problems
# are ended by the component that reported them.
CONNECTING: Final = frozenset({HoldReason.NETWORK, HoldReason.DESCRIPTORS, HoldReason.PORTS})

_PROBE_FIRST_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
_PROBE_THEN_S: Final = 60.0


class Hold(Struct, frozen=True, kw_only=True):
    """One reason why no request begins. since: Unix seconds."""

    reason: HoldReason
    since: float
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The reason in words, with its detail."""
        sentence = SENTENCES[self.reason]
        return f"{sentence} ({self.detail})" if self.detail else sentence


def probe_delay_s(probes: int) -> float:
    """Return seconds until the next probe after `probes` failed ones in a row: from 1 to 60 s."""
    return _PROBE_FIRST_S[probes] if probes < len(_PROBE_FIRST_S) else _PROBE_THEN_S


class OutageEvidence(Struct, frozen=True):
    """Hosts whose last attempt failed without a byte of an answer, since any host last answered.

    reached: those that could not be connected to but had answered before; and, while no host has
    answered yet, those whose failure was reported by our own side (no route, no resolver).
    unknown: all others that could not be connected to.
    mute: those that had answered before and now accepted a connection without answering, as a
      firewall or a proxy without a network does; or that a proxy could not reach.
    """

    reached: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()

    @property
    def hosts(self) -> int:
        """The number of distinct hosts."""
        return len(self.reached | self.unknown | self.mute)


NONE: Final = OutageEvidence()


def after_failure(
    before: OutageEvidence, host: str, *, reached: bool, local: bool, connected: bool = False
) -> OutageEvidence:
    """The evidence after one more failed attempt; of an unknown host, only its first counts.

    reached: the host has answered before. local: the failure was reported by our own side.
    connected: a connection was made.
    """
    if connected:
        if not reached or host in before.mute or len(before.mute) >= UNKNOWN_MIN:
            return before
        return replace(before, mute=before.mute | {host})
    if reached or local:
        if host in before.reached:
            return before
        return replace(before, reached=before.reached | {host})
    if host in before.unknown or len(before.unknown) >= UNKNOWN_MAX:
        return before
    return replace(before, unknown=before.unknown | {host})


def unknown_min(hosts_reached: int, hosts_dead: int) -> int:
    """Return how many new hosts must fail in a row, given how many have answered or not."""
    if not hosts_reached:
        return UNKNOWN_MIN
    dead = (hosts_dead + 1) / (hosts_reached + hosts_dead + 2)
    return max(UNKNOWN_MIN, min(math.ceil(math.log(UNLIKELY) / math.log(dead)), UNKNOWN_MAX))


def is_outage(
    evidence: OutageEvidence, *, hosts_reached: int, hosts_dead: int, silent_s: float
) -> bool:
    """Return whether these failures show that our own network is down.

    hosts_reached: the number of distinct hosts that have answered. Of two, both must fail; one
    alone
      is not enough evidence, and is retried by itself.
    hosts_dead: the number that failed at their first attempt before this evidence.
    silent_s: seconds since any host last answered.
    """
    enough = min(REACHED_MIN, max(hosts_reached, 2))
    if len(evidence.reached) >= enough:
        return True
    # Hosts can accept connections and still fail, even a few at a time: all must, or many.
    failing = len(evidence.reached | evidence.mute)
    if failing >= min(UNKNOWN_MIN, max(hosts_reached, REACHED_MIN)):
        return True
    if silent_s < SILENT_S_MIN:
        return False
    if failing >= min(UNKNOWN_MIN, max(hosts_reached, 2)):
        return True
    return len(evidence.reached | evidence.unknown) >= unknown_min(hosts_reached, hosts_dead)

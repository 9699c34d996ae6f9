"""Holds: problems of this machine or its network that pause the whole crawl."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from msgspec import Struct


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
    """Who handles faults of this machine and its network.

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
    """Seconds until the next probe after `probes` failed ones in a row: from 1 s up to 60 s."""
    return _PROBE_FIRST_S[probes] if probes < len(_PROBE_FIRST_S) else _PROBE_THEN_S

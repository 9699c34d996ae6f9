"""Transient faults of this machine, such as a full disk, and how long to wait for them.

A store or sink that meets one keeps its data and repeats the call until it succeeds. The crawl
watches `TransientFaults` to explain why a call takes long.
"""

from __future__ import annotations

import asyncio
import enum
import errno
from collections.abc import Iterator
from math import inf
from typing import Final

from msgspec import Struct

# Delays between attempts, doubled from the first to the last. The last one bounds how long a crawl
# stays held after the fault is over.
RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 2.0
# A process that uses too much memory itself never gets it back, and should be restarted.
MEMORY_WAIT_S_MAX: Final = 60.0
# An error that nobody has foreseen may pass; one that is still raised after this time, by new
# connections, too, will not.
UNKNOWN_WAIT_S_MAX: Final = 600.0
# For any fault, until `Patience.set`: there is no crawl yet that could show it.
START_WAIT_S_MAX: Final = 30.0


class FaultKind(enum.StrEnum):
    """Causes that may end without intervention in the crawl."""

    LOCKED = "locked"  # another program holds a lock on the database
    UNREACHABLE = "unreachable"  # the server of the database, or the connection to it
    NO_SPACE = "no-space"  # the disk is full, or a quota or file size limit is reached
    IO = "io"  # the medium or its file system failed
    MEMORY = "memory"
    DESCRIPTORS = "descriptors"  # too many open files
    UNKNOWN = "unknown"  # an error of a database server, or of its driver, that has no other kind


class TransientFault(Struct, frozen=True, kw_only=True):
    """A fault that lasts."""

    kind: FaultKind
    what: str  # what is affected: "the database crawl.db"
    sentence: str  # for the operator
    since: float  # Unix seconds


class TransientFaults:
    """The present fault of a store or a group of sinks, if any."""

    def __init__(self) -> None:
        self._now: TransientFault | None = None
        self._changed = asyncio.Event()

    @property
    def now(self) -> TransientFault | None:
        return self._now

    def found(self, fault: TransientFault) -> None:
        """Set the fault, unless one of its kind is set: that one began earlier."""
        if self._now is None or self._now.kind is not fault.kind:
            self.set(fault)

    def set(self, fault: TransientFault | None) -> None:
        if fault != self._now:
            self._now = fault
            self._changed.set()
            self._changed = asyncio.Event()

    async def other_than(self, known: TransientFault | None) -> TransientFault | None:
        """Return the fault (None: there is none) as soon as it differs from `known`."""
        while self._now == known:
            await self._changed.wait()
        return self._now


class Patience:
    """The time that a fault may last: `seconds` from its beginning, or from the last `set` if that
    is later. Times are monotonic."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since_s = -inf
        self.shown = False  # the caller of `set` shows faults meanwhile

    def set(self, seconds: float, now_s: float) -> None:
        self._seconds, self._since_s = seconds, now_s
        self.shown = True

    def waiting(self, began_s: float) -> Waiting:
        """Wait for the faults of a call that began then."""
        return Waiting(self, began_s)

    def until_s(self, began_s: float) -> float:
        return max(began_s, self._since_s) + self._seconds


class Waiting:
    """Decides until when a call is repeated. Some kinds of faults have a limit of their own, which
    counts from the first fault of the kind in a row: one that follows a long outage is tried again.
    """

    def __init__(self, patience: Patience, began_s: float) -> None:
        self._patience = patience
        self._began_s = began_s
        self._kind: FaultKind | None = None
        self._since_s = began_s

    def until_s(self, kind: FaultKind, now_s: float) -> float:
        """Return until when to wait, after a fault of this kind at `now_s`."""
        if kind is not self._kind:
            self._kind, self._since_s = kind, now_s
        until_s = self._patience.until_s(self._began_s)
        return min(until_s, self._since_s + _LIMITS_S.get(kind, inf))


_LIMITS_S: Final = {
    FaultKind.MEMORY: MEMORY_WAIT_S_MAX,
    FaultKind.UNKNOWN: UNKNOWN_WAIT_S_MAX,
}


def retry_delays_s() -> Iterator[float]:
    """Yield the delay before each further attempt."""
    delay_s = RETRY_S_MIN
    while True:
        yield delay_s
        delay_s = min(RETRY_S_MAX, 2 * delay_s)


_KINDS: Final = {
    errno.ENOSPC: FaultKind.NO_SPACE,
    errno.EDQUOT: FaultKind.NO_SPACE,
    errno.EFBIG: FaultKind.NO_SPACE,  # RLIMIT_FSIZE, or the largest file of a file system
    errno.EMFILE: FaultKind.DESCRIPTORS,
    errno.ENFILE: FaultKind.DESCRIPTORS,
    errno.ENOMEM: FaultKind.MEMORY,
    errno.ENOBUFS: FaultKind.MEMORY,
    errno.EIO: FaultKind.IO,
    errno.EAGAIN: FaultKind.IO,
    errno.EBUSY: FaultKind.IO,
    errno.EINTR: FaultKind.IO,
    errno.ETIMEDOUT: FaultKind.IO,  # network file systems
    errno.ESTALE: FaultKind.IO,
    errno.EHOSTDOWN: FaultKind.IO,
    errno.ENOLCK: FaultKind.IO,
}


def kind_of(error: BaseException) -> FaultKind | None:
    """Return the kind of fault that made a system call fail; None if it is not transient."""
    if isinstance(error, MemoryError):
        return FaultKind.MEMORY
    if isinstance(error, OSError) and error.errno is not None:
        return _KINDS.get(error.errno)
    return None


def words_of(error: BaseException) -> str:
    """Describe the cause of a failed system call, for use after a colon."""
    kind = kind_of(error)
    if kind is FaultKind.MEMORY:
        detail = f" ({error})" if isinstance(error, MemoryError) and str(error) else ""
        return f"this machine is out of memory{detail}"
    if isinstance(error, OSError):
        if error.errno == errno.EFBIG:
            return "the file has reached the size limit of this process or its file system"
        if kind is FaultKind.NO_SPACE:
            return "no space left on device"
        if error.strerror:
            return error.strerror
    return str(error) or type(error).__name__

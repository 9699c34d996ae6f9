"""Trouble of this machine that passes: what it is, since when, and waiting for it to change.

A store or a sink that meets such trouble keeps what it was given and tries again until it
succeeds; whoever runs the crawl reads here why a call takes so long.
"""

from __future__ import annotations

import asyncio
import enum
import errno
from collections.abc import Iterator
from math import inf
from typing import Final

from msgspec import Struct

# Between two attempts: doubled from the first to the last. The last bounds how long a crawl stays
# held after the cause has gone.
RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 2.0
# How long exhausted memory is waited for: a process that holds too much itself never gets it back,
# and is better started anew.
MEMORY_WAIT_S_MAX: Final = 60.0
# How long any trouble is waited for as long as there is no crawl that could show why.
START_WAIT_S_MAX: Final = 30.0


class FaultKind(enum.StrEnum):
    """Causes that pass without anybody touching the crawl."""

    LOCKED = "locked"  # another program holds a lock on the database
    NO_SPACE = "no-space"  # the disk is full, or a quota or file size limit is reached
    IO = "io"  # the medium or its file system failed
    MEMORY = "memory"
    DESCRIPTORS = "descriptors"  # too many open files


class TransientFault(Struct, frozen=True, kw_only=True):
    """What is affected ("the database crawl.db"), and the whole sentence for the person who runs
    the crawl."""

    kind: FaultKind
    what: str
    sentence: str
    since: float  # Unix seconds


class TransientFaults:
    """The trouble of one store or one group of sinks now, if any."""

    def __init__(self) -> None:
        self._now: TransientFault | None = None
        self._changed = asyncio.Event()

    @property
    def now(self) -> TransientFault | None:
        return self._now

    def found(self, trouble: TransientFault) -> None:
        """Set it, unless it is known: then it has lasted since it was found first."""
        if self._now is None or self._now.kind is not trouble.kind:
            self.set(trouble)

    def set(self, trouble: TransientFault | None) -> None:
        if trouble != self._now:
            self._now = trouble
            self._changed.set()
            self._changed = asyncio.Event()

    async def other_than(self, known: TransientFault | None) -> TransientFault | None:
        """Return the trouble, or None, as soon as it is not `known`."""
        while self._now == known:
            await self._changed.wait()
        return self._now


class Patience:
    """How long trouble is waited for: `seconds` from its beginning, or from when this was set if
    that is later. Times are monotonic."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since_s = -inf
        self.shown = False  # does whoever set it show trouble meanwhile?

    def set(self, seconds: float, now_s: float) -> None:
        self._seconds, self._since_s = seconds, now_s
        self.shown = True

    def until_s(self, kind: FaultKind, began_s: float) -> float:
        """Until when trouble that began then is waited for."""
        until_s = max(began_s, self._since_s) + self._seconds
        if kind is FaultKind.MEMORY:
            until_s = min(until_s, began_s + MEMORY_WAIT_S_MAX)
        return until_s


def retry_delays_s() -> Iterator[float]:
    """How long to wait before each further attempt."""
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
    """What kind of passing trouble a failed system call met; None if it will not pass."""
    if isinstance(error, MemoryError):
        return FaultKind.MEMORY
    if isinstance(error, OSError) and error.errno is not None:
        return _KINDS.get(error.errno)
    return None


def words_of(error: BaseException) -> str:
    """The cause of a failed system call, to stand after a colon."""
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

"""The event loop's time, shared between the network and what is computed: the network goes first.

A page takes hundreds of microseconds to read. Were each read as soon as it is there, then of two
hundred that come at once the last would hold up its host's next request by all the others. So a
page waits here until everything that the network has brought is dealt with.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections import deque
from collections.abc import Callable
from types import TracebackType

PASS_S = 0.001  # what is computed in one pass of the loop: the network waits no longer
AT_ONCE_MAX = 16
# What may wait, so that a wave of hosts is contacted on time and read while they rest. Where it is
# reading that takes the time, so much waits always, and should still be in the processor's cache.
WAITING_BYTES_MAX = 4_000_000


class NetworkFirst:
    """`async with reading(size)` around what computes for long. Those who come go in order, each
    after a whole pass of the event loop, in which contacts that can begin do; in one pass as many
    as PASS_S is thought to be enough for, since looking at the network costs about 5 µs, too.

    `crowd(too_much)` is told when more than WAITING_BYTES_MAX are to be read, and when they are not
    any more: nothing more should be fetched meanwhile. Bytes count until they are read, because a
    large page may wait longer for others that are being read than for the network.
    """

    def __init__(self, crowd: Callable[[bool], None]) -> None:
        self._crowd = crowd
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Future[None]] = deque()
        self._at_once = 1
        self._passing = False
        self._passed_s = 0.0
        self._bytes = 0

    def reading(self, size_bytes: int) -> Reading:
        """`size_bytes`: of what is to be read."""
        return Reading(self, size_bytes)

    def count(self, size_bytes: int) -> None:
        """So much more is to be read; negative: has been."""
        before, self._bytes = self._bytes, self._bytes + size_bytes
        if (before > WAITING_BYTES_MAX) != (self._bytes > WAITING_BYTES_MAX):
            self._crowd(self._bytes > WAITING_BYTES_MAX)

    async def turn(self) -> None:
        mine: Future[None] = self._loop.create_future()
        self._waiting.append(mine)
        if not self._passing:
            self._passing = True
            self._passed_s = time.monotonic()
            self._loop.call_soon(self._next)
        await mine

    def _next(self) -> None:
        """Let the first few go. They run in the pass after this one, and so does this again."""
        now_s = time.monotonic()
        elapsed_s, self._passed_s = now_s - self._passed_s, now_s
        if elapsed_s > PASS_S:
            self._at_once = max(1, self._at_once // 2)
        elif elapsed_s < PASS_S / 2:
            self._at_once = min(2 * self._at_once, AT_ONCE_MAX)
        left = self._at_once
        while left and self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # else cancelled
                first.set_result(None)
                left -= 1
        self._passing = bool(self._waiting)
        if self._passing:
            self._loop.call_soon(self._next)


class Reading:
    """What `NetworkFirst.reading` gives: a class because contextlib's takes 3 µs a page more."""

    __slots__ = ("_first", "_size_bytes")

    def __init__(self, first: NetworkFirst, size_bytes: int) -> None:
        self._first = first
        self._size_bytes = size_bytes

    async def __aenter__(self) -> None:
        self._first.count(self._size_bytes)
        try:
            await self._first.turn()
        except BaseException:
            self._first.count(-self._size_bytes)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._first.count(-self._size_bytes)

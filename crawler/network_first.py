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

PASS_S = 0.001  # what is computed in one pass of the loop: the network waits no longer
AT_ONCE_MAX = 16
# What may wait, so that a wave of hosts is contacted on time and read while they rest. Where it is
# reading that takes the time, so much waits always, and should still be in the processor's cache.
WAITING_BYTES_MAX = 4_000_000


class NetworkFirst:
    """`await wait()` before computing for long. Those who wait go in order, each after a whole pass
    of the event loop, in which contacts that can begin do; in one pass as many as PASS_S is thought
    to be enough for, since looking at the network costs about 5 µs, too."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Future[None]] = deque()
        self._at_once = 1
        self._passing = False
        self._passed_s = 0.0
        self._bytes = 0
        self._outside: list[Future[None]] = []  # those that wait for room

    async def wait(self, size_bytes: int) -> None:
        """`size_bytes`: of what is to be read."""
        self._bytes += size_bytes
        try:
            await self._turn()
        finally:
            self._bytes -= size_bytes
            if self._outside and self._bytes <= WAITING_BYTES_MAX:
                outside, self._outside = self._outside, []
                for one in outside:
                    if not one.done():
                        one.set_result(None)

    async def room(self) -> None:
        """Wait while more than WAITING_BYTES_MAX wait: nothing more should be fetched."""
        while self._bytes > WAITING_BYTES_MAX:
            one: Future[None] = self._loop.create_future()
            self._outside.append(one)
            await one

    async def _turn(self) -> None:
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

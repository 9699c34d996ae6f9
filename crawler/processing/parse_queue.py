"""Shares the event loop's time between the network and parsing: the network goes first.

A page takes hundreds of microseconds to parse. Were each parsed as soon as it is there, then of two
hundred that come together the last would delay its host's next request by all the others. So a page
waits here until everything that the network has brought is dealt with.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections import deque
from typing import Final

from crawler.documents.page_parser import ParsingBrokenOffError

PASS_S: Final = 0.001  # what is parsed in one pass of the loop: the network waits no longer
AT_ONCE_MAX: Final = 16


class ParseQueue:
    """`await turn()` before parsing. Callers pass in order, each after a whole
    pass of the event loop, in which requests that may begin do; in one pass as many as PASS_S is
    probably enough for, because looking at the network costs about 5 µs, too.

    It raises ParsingBrokenOffError to those that wait when the run ends.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Future[None]] = deque()
        self._at_once = 1
        self._passing = False
        self._passed_s = 0.0

    async def turn(self) -> None:
        mine: Future[None] = self._loop.create_future()
        self._waiting.append(mine)
        if not self._passing:
            self._passing = True
            self._passed_s = time.monotonic()
            self._loop.call_soon(self._next)
        await mine

    def break_off(self) -> None:
        """End the wait of all that wait now."""
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # else cancelled
                first.set_exception(ParsingBrokenOffError)

    def _next(self) -> None:
        """Let the first few through. They run in the next pass of the loop, and so does this."""
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

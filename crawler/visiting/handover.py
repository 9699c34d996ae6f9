"""From the workers of a crawl to the one who reads its pages: one at a time, and none is committed
before the next is asked for."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct

from crawler.documents.crawled_page import CrawledPage


class _Waiting(Struct, eq=False):
    page: CrawledPage
    record: Callable[[], None]
    taken: Future[bool]


class Handover:
    """Workers `offer`, one consumer calls `next`. A worker waits until its page was read: that is
    the backpressure, and it bounds the pages in memory to `crawl.concurrency`."""

    def __init__(self) -> None:
        self._offered: deque[_Waiting] = deque()
        self._read: _Waiting | None = None  # in the consumer's hands
        self._wakes: Future[None] | None = None
        self._closed = False
        self.waiting: Counter[str] = Counter()  # workers, by the slot of their page

    async def offer(self, page: CrawledPage, slot: str, record: Callable[[], None]) -> bool:
        """True once the consumer has read the page and asks for the next: `record` was called.
        False: there is no consumer any more, nothing was recorded."""
        if self._closed:
            return False
        one = _Waiting(page, record, asyncio.get_running_loop().create_future())
        self._offered.append(one)
        self._wake()
        self.waiting[slot] += 1
        try:
            return await one.taken
        finally:
            self.waiting[slot] -= 1
            if not self.waiting[slot]:
                del self.waiting[slot]

    def settle(self) -> bool:
        """Record the page in the consumer's hands; False if there was none."""
        one, self._read = self._read, None
        if one is None or one.taken.done():
            return False
        try:
            one.record()
        except Exception as error:  # noqa: BLE001 - it is the worker's to deal with
            one.taken.set_exception(error)
        else:
            one.taken.set_result(True)
        return True

    async def next(self) -> CrawledPage | None:
        """The next page; None when there will be no more."""
        while not self._offered and not self._closed:
            self._wakes = asyncio.get_running_loop().create_future()
            await self._wakes
        if self._closed:
            return None
        self._read = self._offered.popleft()
        return self._read.page

    def close(self) -> None:
        """No more pages: workers go on without them."""
        self._closed = True
        for one in (*self._offered, *([self._read] if self._read else ())):
            if not one.taken.done():
                one.taken.set_result(False)
        self._offered.clear()
        self._read = None
        self._wake()

    def _wake(self) -> None:
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)

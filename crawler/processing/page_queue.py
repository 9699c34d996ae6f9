"""Passes pages to the iterating caller, one at a time; each is committed when the next is
requested."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import Counter, deque

from msgspec import Struct

from crawler.documents.crawled_page import CrawledPage
from crawler.frontier.commit_buffer import CommitBuffer
from crawler.frontier.host_queue import HostQueue
from storage.store import Visited


class _Offer(Struct, eq=False):
    page: CrawledPage
    outcome: Visited
    host: HostQueue
    for_sinks: bool
    taken: Future[bool]


class PageQueue:
    """Workers `offer`, one consumer calls `next`. A worker waits until its page has been read: that
    is the backpressure, and it bounds the pages in memory to `crawl.concurrency`."""

    def __init__(self) -> None:
        self._offered: deque[_Offer] = deque()
        self._read: _Offer | None = None  # the page that the consumer has
        self._wakes: Future[None] | None = None
        self._closed = False
        self.waiting: Counter[str] = Counter()  # workers, by the slot of their page

    async def offer(
        self, page: CrawledPage, outcome: Visited, host: HostQueue, *, for_sinks: bool
    ) -> bool:
        """True once the consumer has read the page and asks for the next: the outcome is recorded
        then. False: there is no consumer any more, and nothing was recorded. for_sinks: sinks get
        the page, too."""
        if self._closed:
            return False
        future: Future[bool] = asyncio.get_running_loop().create_future()
        one = _Offer(page, outcome, host, for_sinks, future)
        self._offered.append(one)
        self._wake()
        self.waiting[host.slot] += 1
        try:
            return await one.taken
        finally:
            self.waiting[host.slot] -= 1
            if not self.waiting[host.slot]:
                del self.waiting[host.slot]

    def settle(self, buffer: CommitBuffer) -> bool:
        """Record the page that the consumer has; False if it has none."""
        one, self._read = self._read, None
        if one is None or one.taken.done():
            return False
        try:
            kept = one.page if one.for_sinks else None
            buffer.record(one.outcome, one.host, one.page.url, kept)
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
        """End the queue: no more pages are read, and workers no longer wait."""
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

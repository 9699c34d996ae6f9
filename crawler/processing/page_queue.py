"""Passes pages to the iterating caller, one at a time; each is committed when the next is
requested."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import Counter, deque
from typing import Final

from msgspec import Struct

from crawler.documents.crawled_page import BlockedPage, CrawledPage, FailedPage
from crawler.frontier.commit_buffer import CommitBuffer
from crawler.frontier.host_queue import HostQueue
from policies.robots import Verdict
from storage.store import Visited

# Outcomes without a page that were not read yet: beyond these, workers wait.
UNVISITED_MAX: Final = 1_000


class FailedOrigin(Struct, frozen=True, kw_only=True):
    """The queued URLs of an origin that could not be connected to, which failed together."""

    slot: str
    origin: str
    error: str  # "CODE: sentence"
    failed_at: float  # Unix seconds


class WithdrawnPage(Struct, frozen=True, kw_only=True):
    """A page that was visited before its robots.txt was known, which forbids it."""

    url: str
    verdict: Verdict
    blocked_at: float  # Unix seconds


Unvisited = FailedPage | BlockedPage | FailedOrigin | WithdrawnPage


class _Offer(Struct, eq=False):
    page: CrawledPage
    outcome: Visited
    host: HostQueue
    for_sinks: bool
    taken: Future[bool]


class PageQueue:
    """Workers `offer`, one consumer calls `next`. A worker waits until its page has been read: that
    is the backpressure, and it bounds the pages in memory to `crawl.concurrency`.

    A consumer that reads all outcomes also gets those of URLs without a page, once they are
    committed."""

    def __init__(self) -> None:
        self._offered: deque[_Offer] = deque()
        self._read: _Offer | None = None  # the page that the consumer has
        self._wakes: Future[None] | None = None
        self._closed = False
        self.waiting: Counter[str] = Counter()  # workers, by the slot of their page
        self.reads_unvisited = True
        """Whether the consumer reads outcomes of URLs without a page, too, or has not begun."""
        self._unvisited: deque[Unvisited] = deque()
        self._caught_up = asyncio.Event()
        self._caught_up.set()

    async def offer(
        self, page: CrawledPage, outcome: Visited, host: HostQueue, *, for_sinks: bool
    ) -> bool:
        """Return True once the consumer has read the page and asks for the next: the outcome is
        recorded then. False: there is no consumer any more, and nothing was recorded. for_sinks:
        sinks get the page, too."""
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
            buffer.record(one.outcome, one.host, one.page.url, kept, about=one.page)
        except Exception as error:  # noqa: BLE001 - it is the worker's to deal with
            one.taken.set_exception(error)
        else:
            one.taken.set_result(True)
        return True

    def put_unvisited(self, outcome: Unvisited) -> None:
        """Add an outcome without a page, which is committed. Ignored if nobody reads those."""
        if not self.reads_unvisited or self._closed:
            return
        self._unvisited.append(outcome)
        if len(self._unvisited) >= UNVISITED_MAX:
            self._caught_up.clear()
        self._wake()

    @property
    def behind(self) -> bool:
        """Whether the consumer has many outcomes to read."""
        return not self._caught_up.is_set()

    async def room(self) -> None:
        """Backpressure: wait while the consumer is behind."""
        await self._caught_up.wait()

    @property
    def is_read(self) -> bool:
        """Whether the consumer has a page that is not settled."""
        return self._read is not None

    def read_unvisited(self, *, wanted: bool) -> None:
        """Give out or leave out outcomes of URLs without a page from now on."""
        self.reads_unvisited = wanted
        if not wanted:
            self._unvisited.clear()
            self._caught_up.set()

    async def next(self) -> CrawledPage | Unvisited | None:
        """The next page or outcome; None when there will be no more."""
        while not (self._offered or self._unvisited or self._closed):
            self._wakes = asyncio.get_running_loop().create_future()
            await self._wakes
        if self._unvisited:
            if len(self._unvisited) <= UNVISITED_MAX // 2:
                self._caught_up.set()
            return self._unvisited.popleft()
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
        self._caught_up.set()
        self._wake()

    def _wake(self) -> None:
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)

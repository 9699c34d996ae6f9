"""Makes the commits: one transaction at a time; what comes meanwhile gathers for the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from crawler.clock import Clock
from crawler.documents.crawled_page import (
    BlockedPage,
    CrawledPage,
    FailedPage,
    code_and_sentence,
    value_of,
)
from crawler.frontier.commit_buffer import About, CommitBatch
from crawler.frontier.frontier import Frontier
from crawler.observer import Observer
from crawler.processing.attempts import unkept
from crawler.processing.page_queue import PageQueue
from crawler.processing.run_limits import RunLimits
from crawler.processing.seen_links import SeenLinks
from storage.store import Blocked, Completed, Failed, Outcome, Revisited, Store, Visited

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

OVER_S: Final = 10.0  # long enough for commits ten times a second, short enough to see a change
BUCKET_S: Final = 1.0


class Committer:
    """Takes what the commit buffer holds, has sinks write its pages, gives it to the store, and
    reports to the frontier what is durable."""

    def __init__(
        self,
        frontier: Frontier,
        store: Store,
        session: int,
        clock: Clock,
        *,
        observer: Observer | None = None,
        sinks: Sinks | None = None,
        page_queue: PageQueue | None = None,
        limits: RunLimits | None = None,
        seen: SeenLinks | None = None,
    ) -> None:
        self._frontier = frontier
        self._buffer = frontier.buffer
        self._store = store
        self._session = session
        self._clock = clock
        self._observer = observer
        self._sinks = sinks
        self._page_queue = page_queue
        self._limits = limits
        self._seen = seen
        self.rates = Rates(clock.monotonic())
        self._taken: CommitBatch | None = None  # and not yet given to the store
        self._faults: dict[int, str] = {}  # by URL: why a sink could not take its page
        self._wanted = asyncio.Event()
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []

    def begin(self) -> None:
        """Commit, as soon as the commit under way is over."""
        self._wanted.set()

    async def run(self) -> None:
        """Commit until cancelled. Raises StoreError."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.commit()

    async def flush(self) -> None:
        """Return when everything recorded before this call is committed."""
        upto = self._buffer.recorded
        if self._buffer.durable >= upto:
            return
        self._buffer.include_contacted()
        self.begin()
        durable = asyncio.get_running_loop().create_future()
        self._flushes.append((upto, durable))
        await durable

    async def room(self) -> None:
        """Backpressure: wait while far more is recorded than the store has taken."""
        if self._buffer.full:
            await self.flush()

    async def commit(self) -> None:
        """Commit everything gathered, once sinks have written its pages. Cancelled while they
        write, it is finished by the next."""
        if self._taken is not None:
            await self._complete(self._taken)
        self._taken = self._buffer.take()
        if self._taken is not None:
            await self._complete(self._taken)

    async def _complete(self, taken: CommitBatch) -> None:
        if self._sinks is not None:
            await self._sinks.flush()
            self._faults |= self._sinks.take_faults()
            if self._faults:
                self._fail_those(taken.outcomes)
        self._taken = None  # the store takes it whole, also when this is cancelled
        began_s = self._clock.monotonic()
        completed = await self._store.complete(self._session, taken.batch)
        elapsed_s = self._clock.monotonic() - began_s
        self._frontier.permits.limits.load.committed(elapsed_s)
        self._buffer.committed(taken.upto)
        self.rates.add(self._clock.monotonic(), taken.outcomes)
        self._frontier.committed(taken, completed)
        if self._observer is not None:
            links = sum([len(one.links) for one in taken.outcomes if isinstance(one, Visited)])
            self._observer.committed(elapsed_s, len(taken.outcomes), links)
        self._report_unvisited(taken, completed)
        waiting, self._flushes = self._flushes, []
        for upto, durable in waiting:
            if upto > taken.upto:
                self._flushes.append((upto, durable))
            elif not durable.done():
                durable.set_result(None)

    def _report_unvisited(self, taken: CommitBatch, completed: Completed) -> None:
        """Pass outcomes without a page to a consumer who reads them."""
        queue = self._page_queue
        if queue is None or not queue.reads_unvisited:
            return
        for outcome in taken.outcomes:
            about = taken.about.get(outcome.id)
            if about is None or outcome.slot in completed.stale:
                continue
            if (found := unvisited_page(outcome, about)) is not None:
                queue.put_unvisited(found)

    def _fail_those(self, outcomes: list[Outcome]) -> None:
        """Mark pages that a sink could not take as failed; those visited before stay as they
        were."""
        for place, outcome in enumerate(outcomes):
            if not isinstance(outcome, Visited):
                continue
            if (fault := self._faults.pop(outcome.id, None)) is not None:
                outcomes[place] = unkept(outcome, fault)
                if self._seen is not None:
                    self._seen.clear()  # other pages may have the links that are lost with it
                if self._limits is not None:
                    self._limits.count_errors(isinstance(outcomes[place], Failed))


class Rates:
    """Pages and bytes as they are committed, gathered by the second; a dozen numbers at most."""

    def __init__(self, now_s: float) -> None:
        self.pages = 0
        self.bytes = 0
        self._began_s = now_s
        self._buckets: deque[tuple[float, int, int]] = deque()

    def add(self, now_s: float, outcomes: Iterable[Outcome]) -> None:
        """Count outcomes that were committed. A page that was revisited and had not changed counts
        as a page, of no bytes."""
        pages, body_bytes = 0, 0
        for outcome in outcomes:
            if isinstance(outcome, Visited):
                pages += 1
                body_bytes += outcome.body_bytes
            elif isinstance(outcome, Revisited) and outcome.plan and not outcome.plan.failures:
                pages += 1
        if not pages:
            return
        self.pages += pages
        self.bytes += body_bytes
        if self._buckets and now_s - self._buckets[-1][0] < BUCKET_S:
            began_s, had_pages, had_bytes = self._buckets.pop()
            self._buckets.append((began_s, had_pages + pages, had_bytes + body_bytes))
        else:
            self._forget(now_s)
            self._buckets.append((now_s, pages, body_bytes))

    def per_s(self, now_s: float) -> tuple[float, float]:
        """Pages and bytes per second."""
        self._forget(now_s)
        over_s = max(min(OVER_S, now_s - self._began_s), BUCKET_S)
        pages = sum(bucket[1] for bucket in self._buckets)
        body_bytes = sum(bucket[2] for bucket in self._buckets)
        return pages / over_s, body_bytes / over_s

    def _forget(self, now_s: float) -> None:
        while self._buckets and self._buckets[0][0] <= now_s - OVER_S:
            self._buckets.popleft()


def unvisited_page(outcome: Outcome, about: About) -> FailedPage | BlockedPage | None:
    """Return the event of an outcome without a page; None: it has one, or is none yet."""
    source, verdict = about
    data = source.data if isinstance(source, CrawledPage) else value_of(source.data)
    if isinstance(outcome, Failed):
        code, sentence = code_and_sentence(outcome.error)
        return FailedPage(
            url=source.url,
            code=code,
            sentence=sentence,
            attempts=outcome.attempts,
            failed_at=outcome.last_at,
            data=data,
            referrer=source.referrer,
        )
    if isinstance(outcome, Blocked) and verdict is not None:
        return BlockedPage(
            url=source.url,
            verdict=verdict,
            blocked_at=outcome.blocked_at,
            data=data,
            referrer=source.referrer,
        )
    return None

"""A crawl whose caller iterates over its pages: the scheduler runs in a task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from crawler.app import plainest
from crawler.clock import Clock, RealClock
from crawler.config import Config, ConfigError
from crawler.contact_deadline import ContactDeadline
from crawler.documents.crawled_page import CrawledPage
from crawler.embedding.embed import OpenStore, network, open_store_of
from crawler.events import Summary
from crawler.fetching.fetcher import Fetcher
from crawler.processing.context import crawl_context
from crawler.processing.page_queue import PageQueue
from crawler.scheduling.scheduler import Scheduler
from crawler.scheduling.seeding import check_roots
from crawler.sinks.build import build_sinks
from crawler.sinks.dispatch import PageCallback, Sinks
from crawler.steering.summary import summarise
from storage.store import Link


class Running:
    """A crawl whose caller iterates over its pages. Seeds added after its end restart it."""

    def __init__(
        self,
        config: Config,
        kept: OpenStore,
        clock: Clock,
        fetcher: Fetcher,
        sinks: Sinks,
        *,
        deadline: ContactDeadline,
    ) -> None:
        self.sinks = sinks
        self.store = kept.store
        self._config = config
        self._kept = kept
        self._clock = clock
        self._fetcher = fetcher
        self._deadline = deadline
        self._began_s = clock.monotonic()
        self._begin()

    def _begin(self) -> None:
        self._page_queue = PageQueue()
        context = crawl_context(
            self._config,
            store=self._kept.store,
            session=self._kept.session,
            clock=self._clock,
            sinks=self.sinks,
            page_queue=self._page_queue,
            deadline=self._deadline,
        )
        self._scheduler = Scheduler(context, self._fetcher)
        self._task: asyncio.Task[None] | None = None

    async def next(self) -> CrawledPage | None:
        """The next page; None at the end. Raises what ended the crawl."""
        if self._task is None:
            if not await check_roots(self._config, self._kept.store):
                raise ConfigError(
                    "there is nothing to crawl: give a seed URL, or set crawl.seeds in the config"
                )
            page_queue = self._page_queue
            self._task = asyncio.create_task(self._scheduler.run())
            self._task.add_done_callback(lambda _: page_queue.close())
        page = await self._page_queue.next()
        if page is None:
            await self._result(self._task)
        return page

    async def commit(self) -> None:
        """Commit the page that the caller is processing, if any."""
        if self._task is None or not self._page_queue.settle(self._scheduler.frontier.buffer):
            return
        flush = asyncio.ensure_future(self._scheduler.committer.flush())
        try:
            await asyncio.wait({flush, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flush.cancel()

    async def add(self, seeds: Sequence[Link]) -> int:
        if self._task is not None and self._task.done():
            self._begin()
        return await self._scheduler.add(seeds)

    async def stop(self, *, at_once: bool) -> None:
        """Stop the crawl; unread pages stay queued. at_once: abort the requests in flight."""
        task, self._task = self._task, None
        self._page_queue.close()
        if task is None:
            return
        self._scheduler.stop()
        if at_once:
            task.cancel()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()  # the caller or the crawl was cancelled
            await asyncio.wait([task])
            if not at_once:
                raise
        except BaseExceptionGroup as group:
            raise plainest(group) from group

    async def _result(self, task: asyncio.Task[None]) -> None:
        try:
            await task
        except BaseExceptionGroup as group:
            raise plainest(group) from group

    async def summary(self) -> Summary:
        elapsed_s = self._clock.monotonic() - self._began_s
        async with self._kept.reader() as reader:
            return await summarise(
                reader, self._scheduler, self._clock, elapsed_s=elapsed_s, interrupted=False
            )


@contextlib.asynccontextmanager
async def running(
    config: Config,
    *,
    db: str | Path | None,
    clock: Clock | None,
    fetcher: Fetcher | None,
    called: Sequence[PageCallback] = (),
) -> AsyncIterator[Running]:
    """Open a crawl that starts with the request for its first page, and stop it when the block
    ends. called: functions that receive its pages, in addition to the config's sinks."""
    clock = clock or RealClock()
    deadline = ContactDeadline(clock)
    sinks = build_sinks(config, called, clock=clock)
    async with (
        open_store_of(config, db=db, clock=clock, name="crawl") as kept,
        network(config, clock=clock, fetcher=fetcher, deadline=deadline) as wire,
        sinks,
    ):
        crawl = Running(config, kept, clock, wire, sinks, deadline=deadline)
        try:
            yield crawl
        except asyncio.CancelledError:
            await crawl.stop(at_once=True)
            raise
        except BaseException:
            with contextlib.suppress(Exception):  # the caller's error is the one to report
                await crawl.stop(at_once=False)
            raise
        await crawl.stop(at_once=False)

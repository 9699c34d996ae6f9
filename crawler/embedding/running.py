"""A crawl whose caller iterates over its pages: the scheduler runs in a task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any

from crawler.app import plainest
from crawler.clock import Clock, ContactDeadline, RealClock
from crawler.config import Config, ConfigError
from crawler.documents.crawled_page import (
    BlockedPage,
    CrawledPage,
    FailedPage,
    code_and_sentence,
    value_of,
)
from crawler.embedding.caller_gate import CallerGate, gate_of
from crawler.embedding.embed import OpenStore, network, open_store_of
from crawler.embedding.settings import Setup, in_database
from crawler.errors import SecondReader, SessionClosed
from crawler.events import Summary
from crawler.fetching.fetcher import Fetcher
from crawler.observer import Observer
from crawler.operator_commands import RetryFailed
from crawler.processing.context import crawl_context
from crawler.processing.link_filter import LinkFilter
from crawler.processing.page_queue import FailedOrigin, PageQueue, Unvisited, WithdrawnPage
from crawler.scheduling.scheduler import Scheduler
from crawler.scheduling.seeding import check_roots
from crawler.sinks.build import build_sinks
from crawler.sinks.dispatch import PageCallback, Sinks
from crawler.steering.control import Control
from crawler.steering.summary import summarise
from policies.url import origin_of
from storage.store import Link, Row, StoreError

PageOutcome = CrawledPage | FailedPage | BlockedPage


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
        link_filter: LinkFilter | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.sinks = sinks
        self.store = kept.store
        self._config = config
        self._kept = kept
        self._clock = clock
        self._fetcher = fetcher
        self._deadline = deadline
        self._link_filter = link_filter
        self._observer = observer
        self._began_s = clock.monotonic()
        self._ended_s: float | None = None
        self._reader: asyncio.Task[object] | None = None  # the task that asked for a page last
        self._asking = False  # it is waiting for one
        self._rows: AsyncGenerator[Row, None] | None = None  # of an origin that failed
        self._interrupted = False
        self._summary: Summary | None = None
        self._begin()

    def _begin(self, *, pages: bool = True) -> None:
        """pages: False to serve callers alone, once the crawl has ended."""
        config = self._config if pages else self._config.override({"crawl": {"max_pages": 0}})
        self._page_queue = PageQueue()
        context = crawl_context(
            config,
            store=self._kept.store,
            session=self._kept.session,
            clock=self._clock,
            sinks=self.sinks,
            page_queue=self._page_queue,
            link_filter=self._link_filter,
            deadline=self._deadline,
            observer=self._observer,
        )
        self._scheduler = Scheduler(context, self._fetcher)
        self._gives_pages = pages
        if pages:
            self._summarised = self._scheduler
        self._task: asyncio.Task[None] | None = None

    async def next_page(self) -> CrawledPage | None:
        """Commit the page before, and return the next one; None at the end. Raises SecondReader,
        and what ended the crawl."""
        with self._reading():
            self._page_queue.read_unvisited(wanted=False)
            await self._close_rows()
            await self._commit()
            page = await self._next()
        assert page is None or isinstance(page, CrawledPage)
        return page

    async def next_outcome(self) -> PageOutcome | None:
        """Return what `next_page` does, with the outcomes of URLs that gave no page."""
        with self._reading():
            self._page_queue.read_unvisited(wanted=True)
            await self._commit()
            while True:
                if (failed := await self._next_failed()) is not None:
                    return failed
                match await self._next():
                    case FailedOrigin() as origin:
                        self._rows = self._failed_rows(origin)
                    case WithdrawnPage() as page:
                        return await self._blocked(page)
                    case outcome:
                        return outcome

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Refuse a second reader: asking for a page commits the one before, which a task that is
        still processing it would not expect."""
        task = asyncio.current_task()
        other = self._reader
        if (
            other not in (None, task)
            and not other.done()
            and (self._asking or self._page_queue.is_read or self._rows is not None)
        ):
            raise SecondReader(
                "another task iterates over this crawl: iterate in one task, and pass the pages "
                "to others"
            )
        self._reader, self._asking = task, True
        try:
            yield
        finally:
            self._asking = False

    async def _next(self) -> CrawledPage | Unvisited | None:
        if self._task is None:
            if not await check_roots(self._config, self._kept.store):
                raise ConfigError(
                    "there is nothing to crawl: give a seed URL, or set crawl.seeds in the config"
                )
            self._start()
        page = await self._page_queue.next()
        if page is None and self._task is not None:
            await self._result(self._task)
        return page

    async def _failed_rows(self, origin: FailedOrigin) -> AsyncGenerator[Row, None]:
        """The URLs that failed together, from the database."""
        async with (
            self._kept.reader() as reader,
            contextlib.aclosing(reader.iterate("failed", host=origin.slot)) as rows,
        ):
            async for row in rows:
                url = str(row["url"])
                if row["last_at"] == origin.failed_at and origin_of(url) == origin.origin:
                    about = await reader.url(url) or {}
                    yield {**row, "referrer": about.get("referrer"), "data": about.get("data")}

    async def _close_rows(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            await rows.aclose()

    async def _next_failed(self) -> FailedPage | None:
        if self._rows is None:
            return None
        async for row in self._rows:
            code, sentence = code_and_sentence(str(row["error"]))
            return FailedPage(
                url=str(row["url"]),
                code=code,
                sentence=sentence,
                attempts=int(str(row["attempts"])),
                failed_at=float(str(row["last_at"])),
                data=_data_of(row),
                referrer=_referrer_of(row),
            )
        self._rows = None
        return None

    async def _blocked(self, page: WithdrawnPage) -> BlockedPage:
        async with self._kept.reader() as reader:
            row = await reader.url(page.url) or {}
        return BlockedPage(
            url=page.url,
            verdict=page.verdict,
            blocked_at=page.blocked_at,
            data=_data_of(row),
            referrer=_referrer_of(row),
        )

    async def _commit(self) -> None:
        """Commit the page that the caller is processing, if any."""
        if self._task is None or not self._page_queue.settle(self._scheduler.frontier.buffer):
            return
        flush = asyncio.ensure_future(self._scheduler.committer.flush())
        try:
            await asyncio.wait({flush, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flush.cancel()

    def _start(self) -> None:
        page_queue = self._page_queue
        self._task = asyncio.create_task(self._scheduler.run())
        self._task.add_done_callback(lambda _: page_queue.close())

    def gate(self) -> CallerGate:
        """The gate of the crawl, which starts if it does not run; after its end, it visits no more
        pages. Raises SessionClosed if it ended because of an error."""
        task = self._task
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                raise SessionClosed("the crawl ended because of an error")
            self._begin(pages=False)
        if self._task is None:
            self._start()
        return gate_of(self._scheduler.loop)

    async def add(self, seeds: Sequence[Link]) -> int:
        self._give_pages()
        return await self._scheduler.add(seeds)

    async def retry_failed(self, code: str | None) -> int:
        """Queue failed URLs again, of one failure code or of all; return how many."""
        self._give_pages()
        async with self._kept.reader() as reader:
            control = Control(
                self._scheduler,
                config=self._config,
                store=self.store,
                reader=reader,
                clock=self._clock,
            )
            return (await control.execute(RetryFailed(code=code))).retried

    def _give_pages(self) -> None:
        """Crawl again if the crawl has ended, or serves callers alone."""
        if self._task is not None and self._task.done():
            self._begin()
        elif not self._gives_pages:
            self._gives_pages = True
            self._summarised = self._scheduler
            self._scheduler.steering.apply(self._config)

    async def stop(self, *, at_once: bool) -> None:
        """Stop the crawl; unread pages stay queued. at_once: abort the requests in flight."""
        task, self._task = self._task, None
        await self._close_rows()
        self._page_queue.close()
        if task is None:
            return
        self._interrupted = not task.done()
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
        """Summarise the crawl, also after its end."""
        if self._summary is not None:
            return self._summary
        ended_s = self._clock.monotonic() if self._ended_s is None else self._ended_s
        async with self._kept.reader() as reader:
            return await summarise(
                reader,
                self._summarised,
                self._clock,
                elapsed_s=ended_s - self._began_s,
                interrupted=self._interrupted,
            )

    async def end(self) -> None:
        """Prepare for the summary after the end. A database in memory is about to be lost."""
        self._ended_s = self._clock.monotonic()
        if self._kept.location is None:
            with contextlib.suppress(StoreError):
                self._summary = await self.summary()


@contextlib.asynccontextmanager
async def running(
    setup: Setup,
    *,
    called: Sequence[PageCallback] = (),
    link_filter: LinkFilter | None = None,
) -> AsyncIterator[Running]:
    """Open a crawl that starts with the request for its first page, and stop it when the block
    ends. called: functions that receive its pages, in addition to the config's sinks. link_filter:
    chooses among the links of pages."""
    config = in_database(setup.config, setup.db)
    clock = setup.clock or RealClock()
    deadline = ContactDeadline(clock)
    sinks = build_sinks(config, called, clock=clock)
    async with (
        open_store_of(config, clock=clock, name="crawl") as kept,
        network(config, clock=clock, fetcher=setup.fetcher, deadline=deadline) as wire,
        sinks,
    ):
        crawl = Running(
            config,
            kept,
            clock,
            wire,
            sinks,
            deadline=deadline,
            link_filter=link_filter,
            observer=setup.observer,
        )
        try:
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
        finally:
            await crawl.end()


def _data_of(row: Row) -> Any:
    data = row.get("data")
    return value_of(data) if isinstance(data, str) else None


def _referrer_of(row: Row) -> str | None:
    referrer = row.get("referrer")
    return referrer if isinstance(referrer, str) else None

"""A crawl without pages: it contacts hosts only for callers, who bring their own URLs."""

from __future__ import annotations

import asyncio
import contextlib

from crawler import threads
from crawler.fetching.request import Fetcher
from crawler.operator_commands import HostCommand, InvalidOrderError, decode
from crawler.periodic import PeriodicSteps
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.scheduling.contact_loop import ContactLoop
from crawler.scheduling.fair_share import OtherWorkers
from crawler.scheduling.shared_crawl import Renewal
from storage.store import WorkerStatus


class CallerSession:
    """Runs a loop for callers alone. An async context manager.

    Nothing that is queued in the store is fetched, and nothing stored is judged again. Of the
    orders of a shared crawl, those about hosts apply; whether the crawl is paused does not.
    """

    def __init__(self, crawl: CrawlContext, fetcher: Fetcher) -> None:
        committer = Committer(
            crawl.frontier, crawl.store, crawl.session, crawl.clock, observer=crawl.observer
        )
        self._frontier = crawl.frontier
        self._shared = crawl.store.shared
        others = OtherWorkers(shared=self._shared, session=crawl.session)
        self._loop = ContactLoop(crawl, fetcher, committer, others)
        self._renewal = Renewal(crawl.frontier, crawl.store, crawl.session, crawl.clock)
        self._background: asyncio.Task[None] | None = None
        threads.start()

    async def __aenter__(self) -> ContactLoop:
        if self._shared:
            await self._renew()
        self._loop.begin()
        self._background = asyncio.get_running_loop().create_task(self._run())
        return self._loop

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Fail waiting callers, cancel requests in flight, and commit the hosts' clocks."""
        loop, background = self._loop, self._background
        self._close()
        assert background is not None
        try:
            await loop.tasks.cancel()
            if not background.done():
                released = asyncio.ensure_future(loop.leases.release_all())
                try:
                    await asyncio.wait({released, background}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    released.cancel()
        finally:
            background.cancel()
            await asyncio.gather(background, return_exceptions=True)
        if kind is None and loop.error is not None:
            raise loop.error

    async def _run(self) -> None:
        """Run the loop until cancelled or broken."""
        loop = self._loop
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(loop.committer.run())
                if self._shared:
                    group.create_task(self._keep_renewed())
                async with contextlib.aclosing(loop.commands()) as commands:
                    async for _ in commands:
                        pass  # they concern the pages of a crawl
        except BaseExceptionGroup as problems:
            loop.error = problems.exceptions[0]
        finally:
            self._close()

    def _close(self) -> None:
        self._loop.running = False
        self._loop.close()

    # ------------------------------------------------------------ a shared store

    async def _keep_renewed(self) -> None:
        renewals = PeriodicSteps("the renewal of this session")
        while True:
            await self._renewal.sleep_until_due()
            await renewals.take(self._renew)
            self._loop.leases.release_unused()

    async def _renew(self) -> None:
        """The session counts as idle: a crawl need not wait for its end."""
        in_flight = len(self._loop.downloader.urls)
        status = WorkerStatus(idle=True, hosts=len(self._frontier.permits), in_flight=in_flight)
        pulse = await self._renewal.renew(status)
        for order in () if pulse is None else pulse.orders:
            with contextlib.suppress(InvalidOrderError):
                command = decode(order)
                if isinstance(command, HostCommand):
                    self._frontier.steer(command)

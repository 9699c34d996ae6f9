"""The scheduler: runs a crawl to its end, with workers that fetch its pages."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, assert_never

from crawler import threads
from crawler.config import ConfigError
from crawler.fetching.fetcher import Fetcher
from crawler.frontier.commands import (
    AddWorkers,
    ConfigApplied,
    FailOrigin,
    LookForWork,
    Rejudge,
    RejudgeMarked,
    WorkCommand,
)
from crawler.frontier.reasons import Reason
from crawler.frontier.tickets import FrontierClosedError
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.processing.page_queue import FailedOrigin
from crawler.processing.recrawl_planner import RecrawlPlanner
from crawler.processing.run_limits import FINISH_S, RunLimits
from crawler.processing.seen_links import seen_links
from crawler.processing.sitemaps import Sitemaps
from crawler.processing.worker import Worker
from crawler.scheduling.contact_loop import ContactLoop
from crawler.scheduling.disk_space import DiskSpace
from crawler.scheduling.due_work import DuePages
from crawler.scheduling.fair_share import OtherWorkers
from crawler.scheduling.host_supply import HostSupply
from crawler.scheduling.rejudging import MarkedOrigins, Rejudging
from crawler.scheduling.shared_crawl import SharedCrawl
from crawler.scheduling.steering import Steering
from crawler.scheduling.storage_holds import StorageHolds
from crawler.scheduling.task_set import until_memory_is_lost
from policies.robots_state import RobotsState
from policies.scope import Scope, Skip
from storage.store import Link

_T = TypeVar("_T")

WAITING_PAGES_MAX: Final = 2_048  # pages that wait to be parsed while others are fetched
SPARE_WORKERS: Final = 256  # kept for the next pages that wait, so that they do not come and go
LEAVE_S: Final = 2.0  # for the last commit on an immediate exit
CALLERS_LEAVE_S: Final = 30.0  # for the requests of callers that are in flight at the end
STOP_PATIENCE_S: Final = 5.0  # for a storage fault, such as a full disk, during a stop


class Scheduler:
    """One crawl over one store.

    `run` returns when no URL can make progress within the patience, when a limit of the run is
    reached, or when `stop` is called; if it runs forever, only for the last of these. All hosts are
    released and everything is committed then.
    """

    def __init__(
        self, crawl: CrawlContext, fetcher: Fetcher, *, runs_forever: bool = False
    ) -> None:
        self.crawl = crawl
        self.frontier = frontier = crawl.frontier
        config = crawl.config.config
        self._seen = seen_links()
        self._limits = RunLimits(config.crawl, frontier, crawl.clock, self._break_off)
        self.committer = Committer(
            frontier,
            crawl.store,
            crawl.session,
            crawl.clock,
            observer=crawl.observer,
            sinks=crawl.sinks,
            page_queue=crawl.page_queue,
            limits=self._limits,
            seen=self._seen,
        )
        others = OtherWorkers(shared=crawl.store.shared, session=crawl.session)
        sitemaps = Sitemaps(crawl)
        self.loop = ContactLoop(
            crawl, fetcher, self.committer, others, sitemaps=sitemaps, runs_forever=runs_forever
        )
        self._tasks = self.loop.tasks
        self.downloader = self.loop.downloader
        self.leases = self.loop.leases
        self._rejudging = Rejudging(crawl, self.committer, self.loop.parser)
        schedule = RecrawlPlanner(crawl.config, crawl.clock, frontier.robots)
        self._worker = Worker(
            crawl, self.downloader, self.committer, self._limits, schedule, sitemaps, self._seen
        )
        self._workers: set[asyncio.Task[None]] = set()
        self._spare = 0  # those beside the ones that the permits need
        self._due_pages = DuePages(crawl, self.leases, schedule)
        self._marked = MarkedOrigins(
            crawl, self.committer, self.leases, self._rejudging, self.loop.parser
        )
        self.supply = HostSupply(
            crawl,
            self.leases,
            self.loop.due_robots,
            self._due_pages,
            self._tasks,
            self._worker,
            others,
            runs_forever=runs_forever,
        )
        self.steering = Steering(
            crawl, self.leases, self.supply, self._rejudging, self._limits, self._seen, self
        )
        self._shared_crawl = SharedCrawl(
            crawl,
            self.leases,
            self.supply,
            self.committer,
            self.downloader,
            self.steering,
            self._tasks,
            others,
        )
        sources = [crawl.store.faults]
        if crawl.sinks is not None:
            sources.append(crawl.sinks.troubles)
        self._storage_holds = StorageHolds(frontier.holds, sources)
        self._disk_space = DiskSpace(crawl.config, crawl.clock, frontier.holds)

    # ------------------------------------------------------------ state

    @property
    def scope(self) -> Scope:
        return self.crawl.scope

    @property
    def bounds_pages(self) -> bool:
        """Whether any host may have more URLs than pages that may be visited."""
        config = self.crawl.config.config
        return config.scope.bounds_hosts or bool(config.sites)

    def host_limit(self, host: str, *, pages: int, body_bytes: int) -> Skip | None:
        """The limit that a host has reached with this many pages and bytes, if any."""
        return self.crawl.config.scope_of(host).host_limit(pages, body_bytes)

    @property
    def waiting(self) -> Mapping[str, tuple[float | None, Reason]]:
        """The hosts that still have URLs at the end -> until (Unix seconds, or None), and why."""
        return self.leases.waiting

    # ------------------------------------------------------------ a run

    async def run(self) -> None:
        """Crawl to the end. Cancelled, it exits immediately; what is recorded is committed."""
        threads.start()
        try:
            await self._run()
        except asyncio.CancelledError:
            if self.crawl.sinks is not None:
                self.crawl.sinks.hurry()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.committer.commit()
            raise

    async def _run(self) -> None:
        self._set_patience(math.inf)
        await self._shared_crawl.join()
        async for urls in self.crawl.store.seeds():
            for url in urls:
                self.add_root(url)
        self.loop.begin()
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(work)
                    for work in (
                        self._drive(group),
                        self.committer.run(),
                        self._storage_holds.run(),
                        until_memory_is_lost(),
                        self._disk_space.run(),
                        self._shared_crawl.run(),
                    )
                ]
                try:
                    await self._crawl(group)
                finally:
                    self.loop.close()
                for task in background:
                    task.cancel()
        finally:
            self.loop.running = False
            self._limits.end()
            await self._tasks.cancel()

    async def _crawl(self, group: asyncio.TaskGroup) -> None:
        self._add_workers(group)
        self._limits.begin()
        self.frontier.commands.put(RejudgeMarked())
        self._plan_revisits()
        await self.supply.run()
        self.supply.note_waiting()
        self.loop.close()
        clock = self.crawl.clock
        late = clock.call_at(clock.monotonic() + FINISH_S, self._break_off)
        try:
            await asyncio.gather(*self._workers)
            while self.frontier.commands.has_tasks or len(self._tasks):
                await asyncio.sleep(0)
                await self._tasks.ended()
        finally:
            late.cancel()
        await self.supply.emptied(CALLERS_LEAVE_S)
        self.supply.note_waiting()
        await self.leases.release_all()

    def _break_off(self) -> None:
        """End the requests in flight, and let pages that are not parsed yet stay queued."""
        self.downloader.break_off(stopping=True)
        self._worker.break_off()

    def add_root(self, url: str) -> None:
        """Add a URL that scope is relative to, and maybe the config's headers."""
        self.crawl.scope.add_root(url)
        self.downloader.restrict_headers(url)

    def _plan_revisits(self) -> None:
        """Plan revisits of the pages visited before the config asked for any."""
        if self._due_pages.on and self.loop.under_way:
            self._tasks.spawn(self._due_pages.plan())

    def stop(self) -> None:
        """Finish what is in flight, commit, release; `run` returns."""
        if self.crawl.sinks is not None and not self.frontier.stopping:
            self.crawl.sinks.stop()
        self.frontier.stopping = True
        self.loop.begun.set()
        self._set_patience(STOP_PATIENCE_S)
        self.supply.wake()

    def _set_patience(self, seconds: float) -> None:
        self.crawl.store.set_patience(seconds)
        if self.crawl.sinks is not None:
            self.crawl.sinks.set_patience(seconds)

    # ------------------------------------------------------------ the loop

    async def _drive(self, group: asyncio.TaskGroup) -> None:
        async with contextlib.aclosing(self.loop.commands()) as commands:
            async for command in commands:
                self._carry_out(command, group)

    def _carry_out(self, command: WorkCommand, group: asyncio.TaskGroup) -> None:
        match command:
            case LookForWork():
                self.supply.wake()
            case AddWorkers():
                self._add_workers(group)
            case Rejudge(name):
                self._tasks.spawn(self._rejudging.all(name))
            case RejudgeMarked():
                self._tasks.spawn(self._marked.judge())
            case FailOrigin():
                self._tasks.spawn(self._fail_origin(command))
            case ConfigApplied():
                self._add_workers(group)
                self._plan_revisits()
                self._disk_space.again()
            case _:
                assert_never(command)

    def _add_workers(self, group: asyncio.TaskGroup) -> None:
        """Add workers up to the number of permits that may be open, beside those whose page waits
        to be parsed. Superfluous workers end after their next page."""
        if not self.loop.under_way:
            return
        for _ in range(self._workers_wanted - len(self._workers)):
            worker = group.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._worker_ended)
        self._count_spare()

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._count_spare()

    def _count_spare(self) -> None:
        """More workers are asked for when more pages than this wait to be parsed."""
        self._spare = len(self._workers) - self.crawl.config.config.crawl.concurrency
        if self.crawl.page_queue is None:
            self._worker.spare_tasks = self._spare

    @property
    def _workers_wanted(self) -> int:
        """A caller that iterates over pages is promised at most `concurrency` of them in memory."""
        beside_max = 0 if self.crawl.page_queue else WAITING_PAGES_MAX
        beside = min(self._worker.unread, beside_max)
        return self.crawl.config.config.crawl.concurrency + beside

    async def _work(self) -> None:
        while self._spare <= self._worker.unread + SPARE_WORKERS:
            try:
                permit = await self.downloader.next_permit()
            except FrontierClosedError:
                return
            host = permit.host
            await self._worker.use(permit)
            if self.loop.callers is not None:
                self.loop.callers.contact_ended(host.slot)
            if host.full and not (host.busy or host.unread) and self._puts_away:
                self.leases.put_away(host)
            if not (self.frontier.permits.in_flight or self._worker.unread):
                self.frontier.look_for_work()

    @property
    def _puts_away(self) -> bool:
        """Callers may want a full host, also within a sink, for which the commit waits that would
        bring it back."""
        return not self.leases.keeps_full and self.loop.callers is None

    async def _fail_origin(self, lost: FailOrigin) -> None:
        """Its queued URLs fail in bulk; new ones will have it tried again later."""
        await self.committer.flush()
        host = lost.host
        host.let_go(lost.origin)
        if host.gone:
            return
        now_s = self.crawl.clock.wall()
        count = await self.crawl.store.fail_host(
            self.crawl.session,
            host.update(self.crawl.clock.monotonic()),
            error=lost.error,
            attempts=lost.attempts,
            last_at=now_s,
            origin=lost.origin,
        )
        self._limits.count_errors(count)
        if count and self.crawl.page_queue is not None:
            failed = FailedOrigin(
                slot=host.slot, origin=lost.origin, error=lost.error, failed_at=now_s
            )
            self.crawl.page_queue.put_unvisited(failed)
        if self.crawl.observer is not None:
            self.crawl.observer.gave_up(host.slot, lost.origin, lost.error, count)
        host.next_due_s = None
        self.frontier.want(host)

    # ------------------------------------------------------------ from outside

    async def add(self, seeds: Sequence[Link]) -> int:
        """Queue seeds, also while it runs; returns how many URLs were new."""
        for link in seeds:  # before they are there to be claimed, and judged
            self.add_root(link.url)
        completed = await self.crawl.store.add(seeds)
        self.frontier.links_added(completed)
        self.steering.seeds_added()
        return sum(completed.added.values())

    async def fetch_robots(self, name: str) -> RobotsState | None:
        """Fetch a robots.txt as `ContactLoop.robots_of` does, to its end, also when the caller is
        cancelled."""
        return await self.whole(lambda: self.loop.robots_of(name))

    async def whole(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run `work` to completion even if the caller is cancelled, so that the store and the rules
        in force agree. ConfigError and LookupError are raised to the caller; any other exception
        ends the crawl."""
        if not self.loop.under_way:
            return await work()

        async def refused() -> _T | ConfigError | LookupError:
            try:
                return await work()
            except (ConfigError, LookupError) as refusal:
                return refusal

        result = await asyncio.shield(self._tasks.spawn(refused()))
        if isinstance(result, ConfigError | LookupError):
            raise result
        return result

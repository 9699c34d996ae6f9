"""Changes a crawl while it runs: pauses, delays, failures to retry, another config."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Protocol

from crawler.config import Config, ConfigError
from crawler.frontier.commands import CONFIG_APPLIED, RejudgeMarked
from crawler.frontier.stops import BY_OPERATOR
from crawler.operator_commands import (
    HostCommand,
    OperatorCommand,
    OrderedCommand,
    PauseCrawl,
    PauseHosts,
    Reload,
    ResumeCrawl,
    RetryFailed,
    WidenScope,
)
from crawler.processing.context import CrawlContext
from crawler.processing.run_limits import RunLimits
from crawler.processing.seen_links import SeenLinks
from crawler.scheduling.host_leases import HostLeases
from crawler.scheduling.host_supply import HostSupply
from crawler.scheduling.rejudging import Rejudging
from crawler.scheduling.robots_identity import session_name
from policies.retries import FailureCode

_log = logging.getLogger("courtly.workers")


class Roots(Protocol):
    """The rules that are relative to the seeds."""

    def add_root(self, url: str) -> None: ...


class Reloader(Protocol):
    """Reads the config again."""

    async def reload_here(self) -> None:
        """Read the config again in this worker alone. Raises ConfigError."""
        ...


class Steering:
    """Applies operators' commands to what a crawl has in memory: those executed here, and those
    that other workers have executed."""

    def __init__(
        self,
        crawl: CrawlContext,
        leases: HostLeases,
        supply: HostSupply,
        rejudging: Rejudging,
        limits: RunLimits,
        seen: SeenLinks,
        roots: Roots,
    ) -> None:
        self._crawl = crawl
        self._roots = roots
        self._frontier = crawl.frontier
        self._permits = crawl.frontier.permits
        self._leases = leases
        self._supply = supply
        self._rejudging = rejudging
        self._limits = limits
        self._seen = seen
        self.reloader: Reloader | None = None  # for orders to reload
        self._pauses = 0  # commands to pause or resume,
        self._pauses_stored = 0  # and of them, those that are stored

    # ------------------------------------------------------------ commands

    def prepare(self, command: OperatorCommand[Any]) -> None:
        """Begin to obey a command that is about to be executed here: no request begins for what it
        pauses, and the whole crawl resumes."""
        match command:
            case PauseCrawl():
                self._pauses += 1
                self._pause()
            case ResumeCrawl():
                self._pauses += 1
                self._resume()
            case PauseHosts(hosts=slots):
                for slot in slots:
                    if (host := self._permits.hosts.get(slot)) is not None:
                        host.steer(paused=True)
                        self._permits.consider(host)

    @contextlib.asynccontextmanager
    async def obeying(self, command: OperatorCommand[Any]) -> AsyncIterator[None]:
        """Apply a command to what this crawl has in memory, once the block has changed the store.
        A command that other crawls obey names hosts as the store does."""
        match command:
            case PauseCrawl() | ResumeCrawl():
                yield
                self._pauses_stored += 1
            case HostCommand():
                async with self._leases.leasing:  # a claim under way may have read the old value
                    yield
                    self._frontier.steer(command)
                self._frontier.may_claim()
            case RetryFailed(host=host, code=code):
                yield
                self._retry_leased(host, code)
            case _:
                yield

    async def obey(self, order: OrderedCommand) -> None:
        """Apply a command that another worker has executed to what this one has in memory."""
        match order:
            case WidenScope(urls=None):
                async with aclosing(self._crawl.store.seeds()) as pieces:
                    async for urls in pieces:
                        self._add_roots(urls)
                self.seeds_added()
            case WidenScope(urls=tuple(urls)):
                self._add_roots(urls)
                self.seeds_added()
            case Reload():
                await self._reload()
            case HostCommand() | RetryFailed():
                async with self.obeying(order):
                    pass

    @property
    def pauses_settled(self) -> int | None:
        """How often it was paused or resumed here; None while that is not stored yet."""
        return self._pauses if self._pauses == self._pauses_stored else None

    def follow_pause(self, *, paused: bool) -> None:
        """Follow the store: another worker may have paused or resumed the crawl."""
        if paused and not self._permits.stops.paused:
            self._pause()
        elif not paused and self._permits.stops.paused:
            self._resume()

    def _pause(self) -> None:
        self._permits.stop(BY_OPERATOR)
        self._frontier.look_for_work()

    def _resume(self) -> None:
        self._frontier.progress_s = self._crawl.clock.monotonic()  # the patience counts from here
        self._permits.go(BY_OPERATOR)
        self._frontier.may_claim()

    def forget_links(self) -> None:
        """Forget which links were seen: the store may not have them any more."""
        self._seen.clear()

    def _retry_leased(self, host: str | None, code: str | None) -> None:
        """Try origins again that were given up, and do not end for lack of progress before."""
        for leased in [one for one in self._permits if host in (None, one.slot)]:
            for origin, lost in list(leased.out_of_reach.items()):
                if lost.given_up:
                    del leased.out_of_reach[origin]
                    self._frontier.reopen(leased, origin)
            self._frontier.want(leased)
        if code in (None, FailureCode.QUARANTINED):
            self._frontier.robots.release(host)
        self._work_added()

    def _add_roots(self, urls: Iterable[str]) -> None:
        for url in urls:
            self._roots.add_root(url)

    def seeds_added(self) -> None:
        """Judge links again and look for hosts: what was out of scope may now be in it."""
        self._seen.clear()
        self._work_added()

    def _work_added(self) -> None:
        """The crawl has progress to wait for, and there may be hosts to be claimed."""
        self._frontier.progress_s = self._crawl.clock.monotonic()
        self._supply.idle = False
        self._frontier.may_claim()

    async def _reload(self) -> None:
        if self.reloader is None:
            return  # without a config file
        try:
            await self.reloader.reload_here()
        except ConfigError as error:
            _log.warning("another worker has reloaded its config; here it is refused: %s", error)

    # ------------------------------------------------------------ another config

    def apply(self, config: Config) -> None:
        """Put a new config into force, also for waiting hosts: their delays count from the end of
        their last contact. Requests in flight end as they began."""
        frontier, permits = self._frontier, self._permits
        before, self._crawl.config.config = self._crawl.config.config, config
        self._crawl.scope.judge_by(
            lambda host: config.site(host).scope, max_depth=config.crawl.max_depth
        )
        self._seen.clear()  # what was out of scope may now be in it
        for host in permits:
            host.rule(config.site(host.slot).politeness)
        for origin in frontier.robots.reread():
            if not origin.busy:
                frontier.robots_settled(origin)
            self._rejudging.repeat(origin.name)
        permits.recompute_addresses()
        for host in permits:
            permits.consider(host)
            frontier.buffer.touch(host)  # views show its delay, and its source
        self._leases.bring_back(before, config)
        self._limits.apply(config.crawl)
        permits.set_limit(config.crawl.concurrency)
        frontier.commands.put_once(CONFIG_APPLIED)
        self._supply.idle = False
        frontier.may_claim()

    async def recheck_delays(self) -> None:
        """Let hosts in the store, after a change of delays, no longer wait for the delay they were
        released with."""
        await self._crawl.store.recheck_delays(self._crawl.session)
        self._frontier.may_claim()

    async def read_robots_anew(self) -> None:
        """Judge URLs again because the new config reads robots.txt differently."""
        name = session_name(self._crawl.config.config)
        await self._crawl.store.name_session(self._crawl.session, name)
        await self._crawl.store.rejudge_all(self._crawl.session)
        self._frontier.commands.put(RejudgeMarked())

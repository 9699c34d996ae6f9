"""Changes a crawl while it runs: pauses, delays, failures to retry, another config."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Protocol

from crawler.config import Config, ConfigError
from crawler.frontier.commands import CONFIG_APPLIED, RejudgeMarked
from crawler.frontier.stops import BY_OPERATOR
from crawler.orders import AddSeeds, Command, Reload, RetryFailed, SteerHosts
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
    """What is relative to the seeds."""

    def add_root(self, url: str) -> None: ...


class Reloader(Protocol):
    """Reads the config again."""

    async def reload_here(self) -> None:
        """In this worker alone. Raises ConfigError."""
        ...


class Steering:
    """Carries out the commands of `Control` on the parts of a crawl, and orders of other workers,
    who have changed the store already."""

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

    # ------------------------------------------------------------ by the operator

    def pause(self) -> None:
        """No request begins, for pages or robots.txt, until `resume`; those in flight end. To be
        followed by `remember_pause`."""
        self._pauses += 1
        self._pause()

    def resume(self) -> None:
        self._pauses += 1
        self._resume()

    async def remember_pause(self) -> None:
        """Store whether the crawl is paused."""
        pauses = self._pauses
        await self._crawl.store.set_paused(self._permits.stops.paused)
        self._pauses_stored = pauses

    @property
    def pauses_settled(self) -> int | None:
        """How often it was paused or resumed here; None while that is not stored yet."""
        return self._pauses if self._pauses == self._pauses_stored else None

    def follow_pause(self, *, paused: bool) -> None:
        """Do as the store says: another worker may have paused or resumed the crawl."""
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
        """The store may not have them any more."""
        self._seen.clear()

    def hold_off(self, slots: Iterable[str]) -> None:
        """Pause held hosts immediately; `steer` makes it durable."""
        for slot in slots:
            if (host := self._permits.get(slot)) is not None:
                host.steer(paused=True)
                self._permits.consider(host)

    async def steer(
        self,
        slots: Sequence[str],
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> int:
        """Pause, slow or resume at most HOSTS_AT_ONCE hosts: durable, and obeyed immediately where
        they are held. Return how many are known."""
        async with self._leases.leasing:  # none is held by what an earlier lease said
            known = await self._crawl.store.set_controls(
                slots, paused=paused, slow_s=slow_s, clear_slow=clear_slow
            )
            self._frontier.steer(
                SteerHosts(slots=tuple(slots), paused=paused, slow_s=slow_s, clear_slow=clear_slow)
            )
        self._frontier.may_claim()
        return known

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Queue failed URLs again, of one host or of all, and try origins that were given up."""
        count = await self._crawl.store.retry_failed(host, code)
        self._retry_held(host, code)
        return count

    async def drop_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Take failed URLs out of view, of one host or of all."""
        return await self._crawl.store.drop_failed(host, code)

    def _retry_held(self, host: str | None, code: str | None) -> None:
        for held in [one for one in self._permits if host in (None, one.slot)]:
            for origin, lost in list(held.out_of_reach.items()):
                if lost.given_up:
                    del held.out_of_reach[origin]
                    self._frontier.reopen(held, origin)
            self._frontier.want(held)
        if code in (None, FailureCode.QUARANTINED):
            self._frontier.robots.release(host)
        self._frontier.may_claim()

    # ------------------------------------------------------------ by another worker

    async def obey(self, order: Command) -> None:
        """Carry out an order of another worker on what this one holds."""
        match order:
            case SteerHosts():
                async with self._leases.leasing:  # a claim under way may have read the old value
                    self._frontier.steer(order)
                self._frontier.may_claim()
            case AddSeeds(urls=urls):
                if urls is None:
                    await self._add_all_roots()
                else:
                    self._add_roots(urls)
                self.seeds_added()
            case RetryFailed(host=host, code=code):
                self._retry_held(host, code)
            case Reload():
                await self._reload()

    async def _add_all_roots(self) -> None:
        async with aclosing(self._crawl.store.seeds()) as pieces:
            async for urls in pieces:
                self._add_roots(urls)

    def _add_roots(self, urls: Iterable[str]) -> None:
        for url in urls:
            self._roots.add_root(url)

    def seeds_added(self) -> None:
        """What was out of scope may now be in it, and there may be hosts to be claimed."""
        self._seen.clear()
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
        permits.reckon_addresses()
        for host in permits:
            permits.consider(host)
            frontier.buffer.touch(host)  # views show its delay, and its source
        self._leases.bring_back(before, config)
        self._limits.apply(config.crawl)
        permits.set_limit(config.crawl.concurrency)
        frontier.commands.put_once(CONFIG_APPLIED)
        self._supply.idle = False
        frontier.may_claim()

    async def rouse(self) -> None:
        """Delays have changed: hosts in the store need not wait for the delay they were released
        with."""
        await self._crawl.store.recheck_delays(self._crawl.session)
        self._frontier.may_claim()

    async def read_robots_anew(self) -> None:
        """Judge URLs again because the new config reads robots.txt differently."""
        name = session_name(self._crawl.config.config)
        await self._crawl.store.name_session(self._crawl.session, name)
        await self._crawl.store.rejudge_all(self._crawl.session)
        self._frontier.commands.put(RejudgeMarked())

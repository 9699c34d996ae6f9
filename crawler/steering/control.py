"""Inspect and control a running crawl: status, pauses, delays, seeds, another config.

For the daemon and for programs that embed a crawl. Everything runs in the crawl's event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from crawler.clock import Clock
from crawler.config import Config, ConfigError, check_identity, seeds_of
from crawler.frontier.reasons import (
    CRAWL_HELD,
    CRAWL_PAUSED,
    READY,
    Reason,
    Wait,
    limit_reached,
)
from crawler.operator_commands import (
    CrawlState,
    OperatorCommand,
    OrderedCommand,
    Reload,
    Reloaded,
    Result,
    encode,
    scope_of_seeds,
)
from crawler.scheduling.seeding import seed_link
from crawler.steering.execution import Announcer, execute
from crawler.steering.live_state import (
    ActiveHold,
    Activity,
    Fetching,
    HostNow,
    HostState,
    HostUrls,
    host_state,
    nothing_to_do,
    resident_bytes,
)
from crawler.steering.queue_waits import LiveWait, QueueReason, hosts_waiting, reason_of
from crawler.steering.summary import stored_wait
from policies.holds import Hold
from policies.robots import RuleSet
from policies.scope import Scope
from storage.history import HistoryCounts, Mark
from storage.read_records import HostsWaiting
from storage.reader import Reader
from storage.store import Row, Stats, Store
from storage.transient_faults import TransientFault

if TYPE_CHECKING:
    from crawler.fetching.fetcher import AiohttpFetcher
    from crawler.fetching.reloadable import ReloadableFetcher
    from crawler.frontier.host_queue import HostQueue
    from crawler.scheduling.scheduler import Scheduler


FETCHING_SHOWN = 50  # URLs in a status


_T = TypeVar("_T")


class ReloadSource(Protocol):
    """The source of a crawl's config."""

    def reload(self) -> Config:
        """Read the config again, with the options of the command line. Raises ConfigError."""
        ...


class AlsoReloaded(Protocol):
    """Objects that a reload of the config renews as well."""

    def problems(self) -> Sequence[str]:
        """Return why it cannot be renewed: then nothing is."""
        ...

    def reload(self, done: Reloaded) -> Reloaded:
        """Renew it, unless that was a dry run; return the result with its own changes."""
        ...


class Control:
    """Inspects and controls a running crawl. Build it with `crawler.app.open_crawl`.

    reader: of its database. source: where a reload reads the config; None: it fails. fetcher: the
    crawl's own, which a reload reconfigures; None: it never changes. announce: called for each
    command that has changed the crawl.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        config: Config,
        store: Store,
        reader: Reader,
        clock: Clock,
        source: ReloadSource | None = None,
        fetcher: ReloadableFetcher | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._frontier = scheduler.frontier
        self.config = config  # the effective one
        self._fetcher = fetcher
        self.store = store
        self.reader = reader
        self.announce: Announcer = lambda *_: None
        self.also_reloaded: AlsoReloaded | None = None
        self.clock = clock
        self._source = source
        self._began_s = clock.monotonic()
        self.add = scheduler.add
        self._steering = asyncio.Lock()  # commands run one at a time, in their order
        if source is not None:
            scheduler.steering.reloader = self

    # ------------------------------------------------------------ status

    @property
    def scope(self) -> Scope:
        """The scope of the crawl; read only."""
        return self._scheduler.scope

    @property
    def session(self) -> int:
        """The session of this process in its database."""
        return self._scheduler.crawl.session

    async def put_history(self, counts: Sequence[HistoryCounts], marks: Sequence[Mark]) -> None:
        """Write steps and marks of the history to the database; see `Store.put_history`."""
        await self.store.put_history(self.session, counts, marks)

    @property
    def held(self) -> tuple[Hold, ...]:
        """Holds on the whole crawl: problems of its own machine or network."""
        return self._frontier.holds.current

    @property
    def store_trouble(self) -> TransientFault | None:
        """Why commands wait for the database; None if they do not."""
        return self.store.faults.now

    @property
    def state(self) -> CrawlState:
        permits = self._frontier.permits
        if self._frontier.stopping:
            return CrawlState.STOPPING
        if permits.stops.paused:
            return CrawlState.PAUSED
        if permits.stops.reasons:
            return CrawlState.HELD
        idle = self._scheduler.supply.idle and not permits.in_flight
        return CrawlState.IDLE if idle else CrawlState.RUNNING

    def status(self) -> Activity:
        """The activity of the crawl. Looks at every host in memory (some thousands): call it
        about once a second."""
        permits, now_s = self._frontier.permits, self.clock.monotonic()
        states = Counter(host_state(host, self._frontier.waiting.why(host)[0]) for host in permits)
        pages_per_s, bytes_per_s = self._scheduler.committer.rates.per_s(now_s)
        urls = self._scheduler.downloader.urls
        under_way = itertools.islice(urls.items(), FETCHING_SHOWN)
        return Activity(
            state=self.state,
            held=tuple(
                ActiveHold(reason=hold.reason.value, sentence=hold.sentence, since=hold.since)
                for hold in self.held
            ),
            uptime_s=now_s - self._began_s,
            pages_per_s=pages_per_s,
            bytes_per_s=bytes_per_s,
            in_flight=len(urls),
            hosts_held=len(permits),
            hosts_by_state=states,
            fetching=tuple(Fetching(url=url, since_s=now_s - at_s) for url, at_s in under_way),
            uncommitted=self._frontier.buffer.uncommitted,
            memory_bytes=resident_bytes(),
        )

    async def stats(self) -> Stats:
        """Row counts of the views, as committed."""
        return await self.store.stats()

    def host_now(self, host: str) -> HostNow | None:
        """A host in memory; None for others, of which the store's row says everything."""
        if (held := self._frontier.permits.hosts.get(host)) is None:
            return None
        state, wait_s, reason = self._wait_of(held)
        return HostNow(
            state=state,
            next_at=_wall(self.clock, wait_s, held),
            reason=self._sentence(reason),
            in_flight=held.busy,
            prefetched=len(held.prefetched),
            delay_s=held.pace.delay.delay_s,
            delay_source=held.pace.delay.source,
        )

    def host_urls(self, host: str) -> HostUrls | None:
        """The URLs of a host in memory; None for others."""
        if (held := self._frontier.permits.hosts.get(host)) is None:
            return None
        parked = tuple(itertools.chain.from_iterable(held.parked.values()))
        return HostUrls(tuple(held.prefetched), parked, frozenset(held.in_memory))

    def rules_of(self, origin: str) -> RuleSet | None:
        """The parsed robots.txt that governs an origin in memory; None for others."""
        held = self._frontier.robots.get(origin)
        return None if held is None else held.policy

    def _wait_of(self, held: HostQueue) -> tuple[HostState, float, Reason]:
        """The state of a host in memory, for how many seconds it waits, and why."""
        frontier = self._frontier
        wait_s, reason = frontier.waiting.why(held)
        state = host_state(held, wait_s)
        if state in (HostState.CLOSED, HostState.ROBOTS, HostState.IDLE):
            move = frontier.waiting.next_move(held)
            if move is not None:
                at_s, reason = move.at_s, move.reason
                wait_s = math.inf if at_s is None else max(0.0, at_s - self.clock.monotonic())
            elif state is HostState.IDLE:
                reason = nothing_to_do(held)
        return state, wait_s, reason

    def live_waits(self) -> dict[str, LiveWait]:
        """Return what hosts in memory wait for. Looks at all of them: call it every few seconds."""
        found = {}
        for held in self._frontier.permits:
            _, wait_s, reason = self._wait_of(held)
            until = _wall(self.clock, wait_s, held)
            found[held.slot] = LiveWait(reason_of(reason.wait), until)
        return found

    def hosts_waiting(self, reason: QueueReason) -> HostsWaiting:
        """Return which hosts have queued URLs that wait for this, for `Reader.hosts_page`."""
        return hosts_waiting(reason, self.live_waits(), overall=self.overall_reason)

    @property
    def overall_reason(self) -> QueueReason | None:
        """Why no host at all is contacted; None if some may be."""
        stops = self._frontier.permits.stops
        if stops.reasons:
            return QueueReason.CRAWL_PAUSED if stops.paused else QueueReason.CRAWL_HELD
        return None

    @property
    def pages_per_s(self) -> float:
        """The recent rate of pages."""
        return self._scheduler.committer.rates.per_s(self.clock.monotonic())[0]

    def wait_reason(self, host: str, row: Row | None = None) -> str:
        """Return why this host is not being contacted now, in words; "" if it waits for nothing.

        `row`: its row of the `hosts` view, for a host that is not in memory."""
        now = self.host_now(host)
        if now is not None:
            return "" if now.reason == READY.sentence else now.reason
        if (limit := self._scheduler.leases.put_away_for(host)) is not None:
            return limit_reached(limit).sentence
        if row is None or not (row["queued"] or row["paused"]):
            return ""
        wait = stored_wait(row, self.clock.wall(), limit=self._frontier.permits.pages_closed_by)
        if wait.until is None and wait.reason.wait is not Wait.RUN_LIMITED:
            return wait.reason.sentence  # a pause
        return self._all_paused or wait.reason.sentence

    def _sentence(self, reason: Reason) -> str:
        return self._all_paused if reason is CRAWL_HELD else reason.sentence

    @property
    def _all_paused(self) -> str:
        if self._frontier.permits.stops.paused:
            return CRAWL_PAUSED.sentence
        return "; ".join(hold.sentence for hold in self.held)

    # ------------------------------------------------------------ commands

    async def execute(self, command: OperatorCommand[Result]) -> Result:
        """Execute a command. It takes effect immediately, and is durable when this returns. Raises
        InvalidCommandError, UnknownHost, StoreError and, for `Reload`, ConfigError with all
        problems: nothing has changed then."""
        return await execute(command, self)

    def stop(self) -> None:
        """End after the requests in flight: their outcomes are committed, hosts are released, and
        the crawl's `run` returns."""
        self._scheduler.stop()

    async def step(
        self,
        command: OperatorCommand[Any],
        change: Callable[[], Awaitable[_T]],
        *,
        order: OrderedCommand | None = None,
        announced: bool = True,
    ) -> _T:
        """Carry out a step of a command, one at a time, in their order, and each to its end."""

        async def in_order() -> _T:
            async with self._steering:
                async with self._scheduler.steering.obeying(command):
                    result = await change()
                if order is not None and self.store.shared:
                    await self.store.publish(self._scheduler.crawl.session, encode(order))
                if announced:
                    self.announce(command, result, True)
                return result

        self._scheduler.steering.prepare(command)
        return await self._scheduler.whole(in_order)

    async def reload_here(self) -> None:
        """Read the config again in this worker alone, as another one has."""
        again = Reload()
        await self.step(again, partial(self.reload, again), announced=False)

    async def reload(self, command: Reload) -> Reloaded:
        """Read the config, check all of it, and apply it unless it is a dry run."""
        if self._source is None:
            raise ConfigError(
                "this crawl was not started from a config file, so there is none to reload"
            )
        from crawler.config.reload import (  # most crawls never reload
            check_rereadable,
            defer_restarts,
            describe_changes,
            referenced_files,
        )

        old = self.config
        new, restart = defer_restarts(self._source.reload(), old)
        check_rereadable(referenced_files(new))
        problems = [] if self.also_reloaded is None else list(self.also_reloaded.problems())
        fresh: set[str] = set()
        prepared: AiohttpFetcher | None = None
        try:
            fresh.update(seeds_of(new))
            check_identity(new, [*fresh])
            async with aclosing(self.store.seeds()) as pieces:
                async for known in pieces:
                    check_identity(new, known)
                    fresh.difference_update(known)
        except ConfigError as error:
            problems += error.problems
        try:
            prepared = self._fetcher.prepare(new) if self._fetcher else None
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(*problems)
        found = [*describe_changes(old, new, [host.slot for host in self._frontier.permits])]
        if fresh:
            found.append(f"[crawl] seeds: {len(fresh):,} new")
        if not command.dry_run:
            await self._apply(new, sorted(fresh), prepared)
        answer = Reloaded(
            changes=tuple(found), restart=restart, warnings=new.warnings, dry_run=command.dry_run
        )
        return answer if self.also_reloaded is None else self.also_reloaded.reload(answer)

    async def _apply(
        self,
        new: Config,
        seeds: Sequence[str],
        prepared: AiohttpFetcher | None,
    ) -> None:
        from crawler.config.reload import same_pacing, same_robots_rules

        old = self.config

        replacing = self._fetcher.replacing(new, prepared) if self._fetcher else nullcontext()
        async with replacing:
            self._scheduler.steering.apply(new)
            self.config = new
        if not same_pacing(old, new):
            await self._scheduler.steering.recheck_delays()
        if not same_robots_rules(old, new):
            await self._scheduler.steering.read_robots_anew()
        if seeds:
            await self.add([seed_link(new, url) for url in seeds])
            if self.store.shared:
                order = encode(scope_of_seeds(list(seeds)))
                await self.store.publish(self._scheduler.crawl.session, order)


def _wall(clock: Clock, wait_s: float, host: HostQueue) -> float | None:
    if host.paused or host.busy or math.isinf(wait_s):
        return None
    return clock.wall() + wait_s

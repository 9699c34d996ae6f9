"""Inspect and control a running crawl: status, pauses, delays, seeds, another config.

For the daemon and for programs that embed a crawl. Everything runs in the crawl's event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import structs

from crawler.clock import Clock
from crawler.config import Config, ConfigError, check_identity, seeds_of
from crawler.frontier.reasons import (
    CRAWL_HELD,
    CRAWL_PAUSED,
    IDLE,
    READY,
    Reason,
    Wait,
    limit_reached,
)
from crawler.orders import (
    HOSTS_AT_ONCE,
    SLOW_S_MAX,
    Command,
    Reload,
    RetryFailed,
    SteerHosts,
    encode,
    seeds_added,
)
from crawler.scheduling.seeding import seed_link
from crawler.steering.host_selection import RESUMED, HostSetting
from crawler.steering.live_state import (
    ActiveHold,
    Activity,
    CrawlState,
    Fetching,
    HostNow,
    HostState,
    HostUrls,
    RefusedSeed,
    Reloaded,
    SeedsAdded,
    UnknownHost,
    host_state,
    resident_bytes,
)
from crawler.steering.queue_holds import LiveWait, QueueReason, hosts_held, reason_of
from crawler.steering.waits import stored_wait
from policies.holds import Hold
from policies.retries import FailureCode
from policies.robots import RuleSet
from policies.scope import Scope
from policies.url import SeedError, parse_seed, without_userinfo
from storage.history import HistoryCounts, Mark
from storage.read_records import HostsHeld
from storage.store import Link, Row, Stats, Store
from storage.transient_faults import TransientFault

if TYPE_CHECKING:
    from crawler.fetching.fetcher import AiohttpFetcher
    from crawler.fetching.reloadable import ReloadableFetcher
    from crawler.frontier.host_queue import HostQueue
    from crawler.scheduling.scheduler import Scheduler


FETCHING_SHOWN = 50  # URLs in a status


_T = TypeVar("_T")


class ReloadSource(Protocol):
    """Where a crawl's config comes from."""

    def reload(self) -> Config:
        """Read the config again, with the options of the command line. Raises ConfigError."""
        ...


class Control:
    """Inspects and controls a running crawl. Build it with `crawler.app.open_crawl`.

    source: where a reload reads the config; None: `reload` fails. fetcher: the crawl's own, which a
    reload reconfigures; None: it never changes.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        config: Config,
        store: Store,
        clock: Clock,
        source: ReloadSource | None = None,
        fetcher: ReloadableFetcher | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._frontier = scheduler.frontier
        self._config = config
        self._fetcher = fetcher
        self._store = store
        self._clock = clock
        self._source = source
        self._began_s = clock.monotonic()
        self._steering = asyncio.Lock()  # commands run one at a time, in their order
        if source is not None:
            scheduler.steering.reloader = self

    # ------------------------------------------------------------ status

    @property
    def config(self) -> Config:
        """The effective config."""
        return self._config

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
        await self._store.put_history(self.session, counts, marks)

    @property
    def held(self) -> tuple[Hold, ...]:
        """Holds on the whole crawl: problems of its own machine or network."""
        return self._frontier.holds.current

    @property
    def store_trouble(self) -> TransientFault | None:
        """Why commands wait for the database; None if they do not."""
        return self._store.faults.now

    @property
    def state(self) -> CrawlState:
        permits = self._frontier.permits
        if self._frontier.stopping:
            return CrawlState.STOPPING
        if permits.stops.paused:
            return CrawlState.PAUSED
        if permits.stops:
            return CrawlState.HELD
        idle = self._scheduler.supply.idle and not permits.in_flight
        return CrawlState.IDLE if idle else CrawlState.RUNNING

    def status(self) -> Activity:
        """The activity of the crawl. Looks at every host in memory (some thousands): call it
        about once a second."""
        permits, now_s = self._frontier.permits, self._clock.monotonic()
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
        return await self._store.stats()

    def host_now(self, host: str) -> HostNow | None:
        """A host in memory; None for others, of which the store's row says everything."""
        if (held := self._frontier.permits.get(host)) is None:
            return None
        state, wait_s, reason = self._wait_of(held)
        return HostNow(
            state=state,
            next_at=_wall(self._clock, wait_s, held),
            reason=self._sentence(reason),
            in_flight=held.busy,
            in_hand=len(held.prefetched),
            delay_s=held.pace.rest.delay_s,
            delay_source=held.pace.rest.source,
        )

    def host_urls(self, host: str) -> HostUrls | None:
        """The URLs of a host in memory; None for others."""
        if (held := self._frontier.permits.get(host)) is None:
            return None
        parked = tuple(itertools.chain.from_iterable(held.parked.values()))
        return HostUrls(tuple(held.prefetched), parked, frozenset(held.held))

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
                wait_s = math.inf if at_s is None else max(0.0, at_s - self._clock.monotonic())
            elif state is HostState.IDLE:
                reason = _nothing_to_do(held)
        return state, wait_s, reason

    def live_waits(self) -> dict[str, LiveWait]:
        """What each host in memory waits for. Looks at all of them: call it every few seconds."""
        found = {}
        for held in self._frontier.permits:
            _, wait_s, reason = self._wait_of(held)
            until = _wall(self._clock, wait_s, held)
            found[held.slot] = LiveWait(reason_of(reason.wait), until)
        return found

    def hosts_held(self, reason: QueueReason) -> HostsHeld:
        """Which hosts have queued URLs that wait for this, for `Reader.hosts_page`."""
        return hosts_held(reason, self.live_waits(), overall=self.stands_still)

    @property
    def stands_still(self) -> QueueReason | None:
        """Why no host at all is contacted; None if some may be."""
        if stops := self._frontier.permits.stops:
            return QueueReason.CRAWL_PAUSED if stops.paused else QueueReason.CRAWL_HELD
        return None

    @property
    def pages_per_s(self) -> float:
        """The recent rate of pages."""
        return self._scheduler.committer.rates.per_s(self._clock.monotonic())[0]

    def wait_reason(self, host: str, row: Row | None = None) -> str:
        """Why this host is not being contacted now, in words; "" if it waits for nothing.

        `row`: its row of the `hosts` view, for a host that is not in memory."""
        now = self.host_now(host)
        if now is not None:
            return "" if now.reason == READY.sentence else now.reason
        if (limit := self._scheduler.leases.put_away_for(host)) is not None:
            return limit_reached(limit).sentence
        if row is None or not (row["queued"] or row["paused"]):
            return ""
        wait = stored_wait(row, self._clock.wall(), limit=self._frontier.permits.pages_closed_by)
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

    # ------------------------------------------------------------ the whole crawl

    async def pause(self) -> None:
        """Stop sending requests, robots.txt included; requests in flight end. Durable: a
        daemon started on this database stays paused until it is resumed, or until `courtly crawl`
        runs there. Pausing a paused crawl does nothing."""
        self._scheduler.steering.pause()
        await self._do(self._scheduler.steering.remember_pause)

    async def resume(self) -> None:
        """Send requests again. Hosts that were paused individually stay paused."""
        self._scheduler.steering.resume()
        await self._do(self._scheduler.steering.remember_pause)

    async def _do(self, work: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """Run commands one at a time, in their order, and each to its end."""

        async def in_turn() -> _T:
            async with self._steering:
                return await work()

        return await self._scheduler.whole(in_turn)

    def stop(self) -> None:
        """End after the requests in flight: their outcomes are committed, hosts are released, and
        the crawl's `run` returns."""
        self._scheduler.stop()

    # ------------------------------------------------------------ one host

    async def pause_host(self, host: str) -> None:
        """Stop sending requests to this host (`host` of the hosts view), robots.txt and redirects
        included. Takes effect immediately, and is durable when it returns. Raises UnknownHost,
        StoreError."""
        await self._steer_one(host, HostSetting(paused=True))

    async def slow_host(self, host: str, delay_s: float) -> None:
        """Wait at least `delay_s` between requests to this host, counted from the end of the last
        one. A longer delay from another source stands. Takes effect immediately; durable.
        Raises UnknownHost, StoreError, and ValueError for a delay that is negative, not finite or
        longer than SLOW_S_MAX."""
        await self._steer_one(host, HostSetting(slow_s=checked_delay_s(delay_s)))

    async def resume_host(self, host: str) -> None:
        """Undo both `pause_host` and `slow_host`. Takes effect immediately; durable. Raises
        UnknownHost."""
        await self._steer_one(host, RESUMED)

    async def _steer_one(self, host: str, setting: HostSetting) -> None:
        if not await self.steer_hosts([host], setting):
            raise UnknownHost(host)

    async def steer_hosts(self, hosts: Sequence[str], setting: HostSetting) -> int:
        """Pause, slow or resume hosts; return how many are known. Takes effect immediately; durable
        when it returns. Between batches of them, the crawl commits. Raises StoreError."""
        if setting.paused:
            self._scheduler.steering.hold_off(hosts)
        known = 0
        for at in range(0, len(hosts), HOSTS_AT_ONCE):
            known += await self._do(partial(self._steer, hosts[at : at + HOSTS_AT_ONCE], setting))
        return known

    async def _steer(self, hosts: Sequence[str], setting: HostSetting) -> int:
        values = structs.asdict(setting)
        known = await self._scheduler.steering.steer(hosts, **values)
        if known:
            await self._publish(SteerHosts(slots=tuple(hosts), **values))
        return known

    async def _publish(self, order: Command) -> None:
        """Pass a command on to the other workers that share the crawl."""
        if self._store.shared:
            await self._store.publish(self._scheduler.crawl.session, encode(order))

    # ------------------------------------------------------------ seeds, config

    async def add_seeds(self, urls: Sequence[str], priority: float = 0.0) -> SeedsAdded:
        """Queue seeds; they widen the scope. Invalid URLs are refused individually, and so are
        seeds beyond loopback without a contact in the user agent; the others are queued and
        committed when this returns. Raises ValueError for a priority that is not finite."""
        if not math.isfinite(priority):
            raise ValueError("the priority must be a finite number")
        links: dict[str, Link] = {}
        refused: list[RefusedSeed] = []
        for text in urls:
            try:
                url = parse_seed(text)
                check_identity(self._config, [url])
            except (SeedError, ConfigError) as error:
                refused.append(RefusedSeed(url=without_userinfo(text), reason=str(error)))
                continue
            links[url] = seed_link(self._config, url, priority=priority)
        added = await self._do(partial(self._add, list(links.values()))) if links else 0
        known = len(urls) - len(refused) - added
        return SeedsAdded(added=added, known=known, refused=tuple(refused))

    async def _add(self, links: Sequence[Link]) -> int:
        added = await self._scheduler.add(links)
        await self._publish(seeds_added([link.url for link in links]))
        return added

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Queue failed URLs again, of one host or error code, or all; return their number. Their
        attempts count from zero."""

        async def retry() -> int:
            count = await self._scheduler.steering.retry_failed(host, code)
            await self._publish(RetryFailed(host=host, code=code))
            return count

        return await self._do(retry)

    async def drop_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Take failed URLs out of view, of one host or error code, or all; return their number."""
        return await self._do(partial(self._scheduler.steering.drop_failed, host, code))

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Read the config again and apply it immediately, to waiting hosts as well; return what
        changes. `dry_run`: change nothing. Raises ConfigError with all problems, and changes
        nothing then. Other workers that share the crawl read their own files again."""

        async def reload() -> Reloaded:
            answer = await self._reload(dry_run=dry_run)
            if not dry_run:
                await self._publish(Reload())
            return answer

        return await self._do(reload)

    async def reload_here(self) -> None:
        """As `reload`, in this worker alone."""
        await self._do(partial(self._reload, dry_run=False))

    async def _reload(self, *, dry_run: bool) -> Reloaded:
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

        old = self._config
        new, restart = defer_restarts(self._source.reload(), old)
        check_rereadable(referenced_files(new))
        problems: list[str] = []
        fresh: set[str] = set()
        prepared: AiohttpFetcher | None = None
        try:
            fresh.update(seeds_of(new))
            check_identity(new, [*fresh])
            async with aclosing(self._store.seeds()) as pieces:
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
        answer = Reloaded(
            changes=tuple(found), restart=restart, warnings=new.warnings, dry_run=dry_run
        )
        if not dry_run:
            await self._apply(new, sorted(fresh), prepared)
        return answer

    async def _apply(
        self,
        new: Config,
        seeds: Sequence[str],
        prepared: AiohttpFetcher | None,
    ) -> None:
        from crawler.config.reload import same_pacing, same_robots_rules

        old = self._config

        replacing = self._fetcher.replacing(new, prepared) if self._fetcher else nullcontext()
        async with replacing:
            self._scheduler.steering.apply(new)
            self._config = new
        if not same_pacing(old, new):
            await self._scheduler.steering.rouse()
        if not same_robots_rules(old, new):
            await self._scheduler.steering.read_robots_anew()
        if seeds:
            await self._add([seed_link(new, url) for url in seeds])


def _nothing_to_do(held: HostQueue) -> Reason:
    """Why a host in memory has nothing to do."""
    if held.full:
        return limit_reached(held.full)
    lost = next((one for one in held.out_of_reach.values() if one.given_up), None)
    if lost is None:
        return IDLE
    forbidden = lost.failure.code is FailureCode.ADDRESS
    return Reason(Wait.FORBIDDEN if forbidden else Wait.GIVEN_UP, lost.failure.error)


def checked_delay_s(delay_s: float) -> float:
    """The delay, if an operator may set it. Raises ValueError."""
    if not 0 <= delay_s <= SLOW_S_MAX:  # false for NaN, too
        raise ValueError(f"the delay must be 0 to {SLOW_S_MAX:,.0f} seconds, not {delay_s:g}")
    return delay_s


def _wall(clock: Clock, wait_s: float, host: HostQueue) -> float | None:
    if host.paused or host.busy or math.isinf(wait_s):
        return None
    return clock.wall() + wait_s

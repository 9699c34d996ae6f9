"""What may be asked of a running crawl: look at it, hold it, slow it, give it seeds, a new config.

Used by the daemon's HTTP routes, its page and its socket, and by who embeds a crawl. All of it runs
in the crawl's own event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from crawler.clock import Clock
from crawler.config import Config, ConfigError, check_identity, seeds_of
from crawler.engine.roots import seed_link
from crawler.politeness.ending import SPENT, limit_reached
from crawler.politeness.turns import HELD
from crawler.steering import waits
from crawler.steering.status import (
    Fetching,
    HostNow,
    HostState,
    RefusedSeed,
    Reloaded,
    SeedsAdded,
    State,
    Status,
    UnknownHost,
    host_state,
    resident_bytes,
)
from policies.holds import Hold
from policies.scope import Scope
from policies.url import SeedError, parse_seed, without_userinfo
from storage.store import Link, Row, Stats, Store
from storage.transient_faults import TransientFault

if TYPE_CHECKING:
    from crawler.engine.engine import Engine
    from crawler.fetching.fetcher import AiohttpFetcher
    from crawler.fetching.reloadable import ReloadableFetcher
    from crawler.politeness.host import Host


FETCHING_SHOWN = 50  # URLs; a page shows some, not thousands
SLOW_S_MAX = 30 * 86_400.0  # a delay set by hand; longer is a pause


_T = TypeVar("_T")


class Control:
    """The hand on a running crawl. Build it with `crawler.app.living`.

    reread: gives the config as the file says now, command line on top (raises ConfigError); None:
    the crawl was not started from a file, and `reload` says so. fetcher: the crawl's own, which a
    reloaded config replaces; None: it stays as it is.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        config: Config,
        store: Store,
        clock: Clock,
        reread: Callable[[], Config] | None = None,
        fetcher: ReloadableFetcher | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._fetcher = fetcher
        self._store = store
        self._clock = clock
        self._reread = reread
        self._began_s = clock.monotonic()
        self._steering = asyncio.Lock()  # what is asked for first is done first

    # ------------------------------------------------------------ looking

    @property
    def config(self) -> Config:
        """The config that counts now."""
        return self._config

    @property
    def scope(self) -> Scope:
        """Which URLs the crawl wants; to be asked, not to be changed."""
        return self._engine.scope

    @property
    def held(self) -> tuple[Hold, ...]:
        """Why the whole crawl holds: trouble of our own machine or network."""
        return self._engine.holds.current

    @property
    def store_trouble(self) -> TransientFault | None:
        """Why what is asked of the crawl waits for its database."""
        return self._store.troubles.now

    @property
    def state(self) -> State:
        course, turns = self._engine.course, self._engine.turns
        if course.stopping:
            return State.STOPPING
        if turns.paused:
            return State.PAUSED
        if turns.stopped:
            return State.HELD
        return State.IDLE if course.idle and not turns.in_flight else State.RUNNING

    def status(self) -> Status:
        """The crawl now. Costs a look at every held host (some thousand): about once a second."""
        engine, now_s = self._engine, self._clock.monotonic()
        states = Counter(host_state(host, engine.turns.why(host)[0]) for host in engine.turns)
        pages_per_s, bytes_per_s = engine.rates.per_s(now_s)
        under_way = itertools.islice(engine.contacts.urls.items(), FETCHING_SHOWN)
        return Status(
            state=self.state,
            held=self.held,
            uptime_s=now_s - self._began_s,
            pages=engine.pages,
            body_bytes=engine.bytes,
            pages_per_s=pages_per_s,
            bytes_per_s=bytes_per_s,
            in_flight=len(engine.contacts.urls),
            hosts_held=len(engine.turns),
            hosts_by_state=states,
            fetching=tuple(Fetching(url, now_s - since_s) for url, since_s in under_way),
            uncommitted=engine.ledger.uncommitted,
            memory_bytes=resident_bytes(),
        )

    async def stats(self) -> Stats:
        """Row counts of the store's views, as committed."""
        return await self._store.stats()

    def host_now(self, host: str) -> HostNow | None:
        """A held host, live; None if it is not held (its row in the store says all there is)."""
        engine = self._engine
        if (held := engine.turns.get(host)) is None:
            return None
        wait_s, why = engine.turns.why(held)
        if why == HELD:
            why = self._all_paused
        state = host_state(held, wait_s)
        if state in (HostState.CLOSED, HostState.ROBOTS, HostState.IDLE):
            move = engine.ending.next_move(held, asked=engine.course.asked)
            if move is not None:
                at_s, why = move.at_s, move.why
                wait_s = math.inf if at_s is None else max(0.0, at_s - self._clock.monotonic())
            elif state is HostState.IDLE:
                why = limit_reached(held.full) if held.full else "it has nothing to do"
        return HostNow(
            slot=held.slot,
            state=state,
            next_at=_wall(self._clock, wait_s, held),
            reason=why,
            in_flight=held.busy,
            in_hand=len(held.hand),
            delay_s=held.pace.rest.delay_s,
            delay_source=held.pace.rest.source,
            paused=held.paused,
            slow_s=held.pace.slow_s,
        )

    def wait_reason(self, host: str, row: Row | None = None) -> str:
        """Why this host is not being contacted now, in words; for one that is not held from its
        row of the `hosts` view ("" if there is nothing it waits for, or no row)."""
        now = self.host_now(host)
        if now is not None:
            return "" if now.reason == "ready" else now.reason
        if (limit := self._engine.holdings.put_away_for(host)) is not None:
            return limit_reached(limit)
        if row is None or not (row["queued"] or row["paused"]):
            return ""
        wait = waits.of_row(row, self._clock.wall(), spent=not self._engine.turns.pages_open)
        if wait.until is None and wait.reason != SPENT:
            return wait.reason  # a pause
        return self._all_paused or wait.reason

    @property
    def _all_paused(self) -> str:
        if self._engine.turns.paused:
            return "the whole crawl is paused by hand"
        return "; ".join(hold.sentence for hold in self.held)

    # ------------------------------------------------------------ the whole crawl

    async def pause(self) -> None:
        """No contact begins from now on, robots.txt included; what is in flight ends. Durable: a
        daemon restarted on this database is paused, until it is resumed or `courtly crawl` is
        started there. Pausing twice is no error."""
        self._engine.steering.pause()
        await self._do(self._remember_pause)

    async def resume(self) -> None:
        """Contacts begin again. Hosts paused one by one stay so."""
        self._engine.steering.resume()
        await self._do(self._remember_pause)

    async def _remember_pause(self) -> None:
        await self._store.set_paused(self._engine.turns.paused)

    async def _do(self, work: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """One thing after the other, in the order they were asked for, and each to its end."""

        async def in_turn() -> _T:
            async with self._steering:
                return await work()

        return await self._engine.tasks.whole(in_turn)

    def stop(self) -> None:
        """What is in flight ends, is committed, hosts are released; the crawl's `run` returns."""
        self._engine.stop()

    # ------------------------------------------------------------ one host

    async def pause_host(self, host: str) -> None:
        """No new contact with this host (`host` of the hosts view), robots.txt and redirect hops
        included. Durable when it returns; obeyed at once. Raises UnknownHost, StoreError."""
        self._engine.steering.hold_off(host)
        await self._steer(host, paused=True)

    async def slow_host(self, host: str, delay_s: float) -> None:
        """Rest at least `delay_s` after each contact with this host, counted from the last one's
        end. A floor like `politeness.delay`: a longer rest from elsewhere stands. Durable, at once.
        Raises UnknownHost, StoreError, and ValueError for a delay that is none (negative, NaN,
        infinite, over SLOW_S_MAX)."""
        await self._steer(host, slow_s=checked_delay_s(delay_s))

    async def resume_host(self, host: str) -> None:
        """Undo `pause_host` and `slow_host` both. Durable, at once. Raises UnknownHost."""
        await self._steer(host, paused=False, clear_slow=True)

    async def _steer(
        self,
        host: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> None:
        steer = partial(
            self._engine.steering.steer, host, paused=paused, slow_s=slow_s, clear_slow=clear_slow
        )
        if not await self._do(steer):
            raise UnknownHost(host)

    # ------------------------------------------------------------ seeds, config

    async def add_seeds(self, urls: Sequence[str], priority: float = 0.0) -> SeedsAdded:
        """Queue seeds; scope is relative to them, too. Those that are no seeds, or that law 10
        forbids, are refused one by one; the others are queued and committed when this returns.
        Raises ValueError for a priority that is no finite number."""
        if not math.isfinite(priority):
            raise ValueError("a priority is a finite number")
        links: dict[str, Link] = {}
        refused: list[RefusedSeed] = []
        for text in urls:
            try:
                url = parse_seed(text)
                check_identity(self._config, [url])
            except (SeedError, ConfigError) as error:
                refused.append(RefusedSeed(without_userinfo(text), str(error)))
                continue
            links[url] = seed_link(self._config, url, priority=priority)
        added = await self._do(partial(self._engine.add, list(links.values()))) if links else 0
        known = len(urls) - len(refused) - added
        return SeedsAdded(added=added, known=known, refused=tuple(refused))

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Queue failed URLs again, of one host or of all, with no attempts spent; give how many."""
        return await self._do(partial(self._engine.steering.retry_failed, host, code))

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Read the config again and let it count at once, also for hosts that rest now; say what
        changes. `dry_run`: only say. Raises ConfigError with all its problems; nothing changed
        then."""
        return await self._do(partial(self._reload, dry_run=dry_run))

    async def _reload(self, *, dry_run: bool) -> Reloaded:
        if self._reread is None:
            raise ConfigError(
                "this crawl was not started from a config file: there is none to read again"
            )
        from crawler.config.reload import (  # most crawls never reload
            check_rereadable,
            defer_restarts,
            describe_changes,
            referenced_files,
        )

        old = self._config
        new, restart = defer_restarts(self._reread(), old)
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
        said = [*describe_changes(old, new, [host.slot for host in self._engine.turns])]
        if fresh:
            said.append(f"[crawl] seeds: {len(fresh):,} new")
        answer = Reloaded(changes=tuple(said), restart=restart, warnings=new.warnings)
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
            self._engine.steering.apply(new)
            self._config = new
        if not same_pacing(old, new):
            await self._engine.steering.rouse()
        if not same_robots_rules(old, new):
            await self._engine.steering.read_robots_anew()
        if seeds:
            await self._engine.add([seed_link(new, url) for url in seeds])


def checked_delay_s(delay_s: float) -> float:
    """A delay set by hand. Raises ValueError for one that is none."""
    if not 0 <= delay_s <= SLOW_S_MAX:  # false for NaN, too
        raise ValueError(f"a delay is from 0 to {SLOW_S_MAX:,.0f} seconds, not {delay_s:g}")
    return delay_s


def _wall(clock: Clock, wait_s: float, host: Host) -> float | None:
    if host.paused or host.busy or math.isinf(wait_s):
        return None
    return clock.wall() + wait_s

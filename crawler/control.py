"""What may be asked of a running crawl: look at it, hold it, slow it, give it seeds, a new config.

Used by the daemon's HTTP routes, its page and its socket, and by who embeds a crawl. All of it runs
in the crawl's own event loop.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crawler.clock import Clock
from crawler.config import Config
from storage.base import Row, Stats, Store

if TYPE_CHECKING:
    from crawler.engine import Engine


class State(enum.StrEnum):
    """What a crawl as a whole is doing."""

    RUNNING = "running"  # URLs move, or wait for their hosts
    PAUSED = "paused"  # by hand: no contact begins
    IDLE = "idle"  # nothing is queued that could move; it waits for seeds, retries, robots.txt
    STOPPING = "stopping"  # what is in flight ends, nothing begins


class HostState(enum.StrEnum):
    """What a held host is doing."""

    IN_FLIGHT = "in flight"
    READY = "ready"  # it may be contacted now, and waits for `crawl.concurrency`
    WAITING = "waiting"  # it rests; it has URLs in hand
    ROBOTS = "robots"  # its URLs wait for a robots.txt
    CLOSED = "closed"  # what it has is of origins closed or out of reach
    PAUSED = "paused"  # by hand
    IDLE = "idle"  # it has nothing to do now


class UnknownHost(LookupError):  # noqa: N818 - named for what happened, like the others
    """No URL of this host was ever met."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the crawl knows no host {host}: it has met no URL of it")
        self.host = host


class Fetching(NamedTuple):
    """A request on the wire."""

    url: str
    since_s: float  # how long it has been under way


class RefusedSeed(NamedTuple):
    """What was given as a seed and is none."""

    url: str  # as it was given
    reason: str  # one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsAdded:
    """What became of seeds: `added` are queued now, `known` were met before, and count as seeds."""

    added: int
    known: int
    refused: tuple[RefusedSeed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a new config changes, in words for an operator, one change each; empty: nothing.

    restart: what stands differently in the file but counts only after a restart.
    warnings: what is allowed, but probably not meant.
    """

    changes: tuple[str, ...]
    restart: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A crawl at this moment. Rates are over the last few seconds; counts are of this run."""

    state: State
    uptime_s: float
    pages: int  # visited and committed
    body_bytes: int
    pages_per_s: float
    bytes_per_s: float  # of bodies
    in_flight: int  # requests on the wire, robots.txt included
    hosts_held: int
    hosts_by_state: Mapping[HostState, int]  # the held ones; a state nobody is in has no entry
    fetching: tuple[Fetching, ...]  # the longest under way first, at most FETCHING_SHOWN
    uncommitted: int  # outcomes recorded and not committed yet
    memory_bytes: int | None  # resident; None where the system does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNow:
    """A held host at this moment."""

    slot: str
    state: HostState
    next_at: (
        float | None
    )  # Unix seconds: when it may be contacted; None: until someone acts, or all
    # its lanes are in use
    reason: str  # in words, why it waits; "ready" if it does not
    in_flight: int
    in_hand: int  # URLs in memory that could be asked for
    delay_s: float
    delay_source: str
    paused: bool
    slow_s: float | None


FETCHING_SHOWN = 50  # URLs; a page shows some, not thousands
SLOW_S_MAX = 30 * 86_400.0  # a delay set by hand; longer is a pause


class Control:
    """The hand on a running crawl. Build it with `crawler.app.living`.

    reread: gives the config as the file says now, command line on top (raises ConfigError); None:
    the crawl was not started from a file, and `reload` says so.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        config: Config,
        store: Store,
        clock: Clock,
        reread: Callable[[], Config] | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._store = store
        self._clock = clock
        self._reread = reread

    # ------------------------------------------------------------ looking

    @property
    def config(self) -> Config:
        """The config that counts now."""
        return self._config

    @property
    def state(self) -> State:
        raise NotImplementedError

    def status(self) -> Status:
        """The crawl now. Costs a look at every held host (some thousand): about once a second."""
        raise NotImplementedError

    async def stats(self) -> Stats:
        """Row counts of the store's views, as committed."""
        return await self._store.stats()

    def host_now(self, host: str) -> HostNow | None:
        """A held host, live; None if it is not held (its row in the store says all there is)."""
        raise NotImplementedError

    def wait_reason(self, host: str, row: Row | None = None) -> str:
        """Why this host is not being contacted now, in words; for one that is not held from its
        row of the `hosts` view ("" if there is nothing it waits for, or no row)."""
        raise NotImplementedError

    # ------------------------------------------------------------ the whole crawl

    async def pause(self) -> None:
        """No contact begins from now on, robots.txt included; what is in flight ends. Durable: a
        crawl restarted on this database is paused. Pausing twice is no error."""
        raise NotImplementedError

    async def resume(self) -> None:
        """Contacts begin again. Hosts paused one by one stay so."""
        raise NotImplementedError

    def stop(self) -> None:
        """What is in flight ends, is committed, hosts are released; the crawl's `run` returns."""
        raise NotImplementedError

    # ------------------------------------------------------------ one host

    async def pause_host(self, host: str) -> None:
        """No new contact with this host (`host` of the hosts view), robots.txt and redirect hops
        included. Durable when it returns; obeyed at once. Raises UnknownHost, StoreError."""
        raise NotImplementedError

    async def slow_host(self, host: str, delay_s: float) -> None:
        """Rest at least `delay_s` after each contact with this host, counted from the last one's
        end. A floor like `politeness.delay`: a longer rest from elsewhere stands. Durable, at once.
        Raises UnknownHost, StoreError, and ValueError for a delay that is none (negative, NaN,
        infinite, over SLOW_S_MAX)."""
        raise NotImplementedError

    async def resume_host(self, host: str) -> None:
        """Undo `pause_host` and `slow_host` both. Durable, at once. Raises UnknownHost."""
        raise NotImplementedError

    # ------------------------------------------------------------ seeds, config

    async def add_seeds(self, urls: Sequence[str], priority: float = 0.0) -> SeedsAdded:
        """Queue seeds; scope is relative to them, too. Those that are no seeds, or that law 10
        forbids, are refused one by one; the others are queued and committed when this returns.
        Raises ValueError for a priority that is no finite number."""
        raise NotImplementedError

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Read the config again and let it count at once, also for hosts that rest now; say what
        changes. `dry_run`: only say. Raises ConfigError with all its problems; nothing changed
        then."""
        raise NotImplementedError

"""Commands on a database, past the crawl. (A crawl with a local socket takes them through that.)

In a file, no crawl may have it open. On a server, workers may: they obey the order that each
command publishes, with their next renewal.

All functions raise StoreRefused (the database is in use, or not one of ours) and StoreError.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct, structs

from crawler.clock import RealClock
from crawler.config import Config
from crawler.databases import open_store
from crawler.orders import (
    HOSTS_AT_ONCE,
    Command,
    Reload,
    RetryFailed,
    SteerHosts,
    encode,
    seeds_added,
)
from crawler.scheduling.seeding import queue_seeds
from crawler.steering.control import checked_delay_s
from crawler.steering.host_selection import HostSetting
from storage.location import Location
from storage.store import Store


async def steer_hosts(location: Location, hosts: Sequence[str], setting: HostSetting) -> int:
    """Pause, resume or slow hosts; return how many are known. Raises ValueError for an invalid
    delay."""
    if setting.slow_s is not None:
        checked_delay_s(setting.slow_s)
    values = structs.asdict(setting)
    known = 0
    async with _held(open_store(location, RealClock()), "host") as held:
        for at in range(0, len(hosts), HOSTS_AT_ONCE):
            batch = tuple(hosts[at : at + HOSTS_AT_ONCE])
            if found := await held.store.set_controls(batch, **values):
                await held.publish(SteerHosts(slots=batch, **values))
            known += found
    return known


async def set_paused(location: Location, *, paused: bool) -> bool:
    """Pause or resume the whole crawl; return whether that changed anything. Workers that share the
    database obey with their next renewal; a daemon that is started later, from its start."""
    async with _held(open_store(location, RealClock()), "pause") as held:
        before = await held.store.paused()
        await held.store.set_paused(paused)
        return before is not paused


async def reload_workers(location: Location) -> None:
    """Have the workers that share a database read their config files again, each its own."""
    async with _held(open_store(location, RealClock()), "reload") as held:
        await held.publish(Reload())


async def add_seeds(config: Config, urls: Sequence[str], priority: float = 0.0) -> int:
    """Queue seeds (canonical URLs) and return how many were new. The crawl that visits them decides
    whether they may be contacted."""
    limit = config.scope.max_queries_per_path
    clock = RealClock()
    mode = config.storage.mode
    store = open_store(config.storage.location, clock, queries_per_path_max=limit, file_mode=mode)
    async with _held(store, "seeds") as held:
        added = await queue_seeds(config, store, urls, now_s=clock.wall(), priority=priority)
        await held.publish(seeds_added(list(urls)))
        return added


async def retry_failed(location: Location, host: str | None = None, code: str | None = None) -> int:
    """Queue failed URLs again, of one host and with one code if given; return how many."""
    async with _held(open_store(location, RealClock()), "retry failed") as held:
        count = await held.store.retry_failed(host, code)
        await held.publish(RetryFailed(host=host, code=code))
        return count


async def drop_failed(location: Location, host: str | None = None, code: str | None = None) -> int:
    """Drop failed URLs, of one host and with one code if given; return how many."""
    async with _held(open_store(location, RealClock()), "drop failed") as held:
        return await held.store.drop_failed(host, code)


class _Held(Struct, frozen=True):
    """A store with a session of this command."""

    store: Store
    session: int

    async def publish(self, command: Command) -> None:
        """Let workers that share the database apply what was changed in it."""
        if self.store.shared:
            await self.store.publish(self.session, encode(command))


@contextlib.asynccontextmanager
async def _held(store: Store, name: str) -> AsyncIterator[_Held]:
    session = await store.open_session(name)
    try:
        yield _Held(store, session)
    finally:
        await store.close(session)

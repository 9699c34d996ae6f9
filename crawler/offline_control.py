"""Commands on a database, past the crawl. (A crawl with a local socket takes them through that.)

In a file, no crawl may have it open. On a server, workers may: they obey the order that each
command publishes, with their next renewal.

All functions raise StoreRefused (the database is in use, or not one of ours) and StoreError.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from crawler.clock import RealClock
from crawler.config import Config
from crawler.databases import open_store
from crawler.orders import Command, RetryFailed, SteerHost, encode, seeds_added
from crawler.scheduling.seeding import queue_seeds
from crawler.steering.control import checked_delay_s
from crawler.steering.live_state import UnknownHost
from storage.location import Location
from storage.store import Store


async def steer_host(
    location: Location, host: str, *, pause: bool | None = None, slow_s: float | None = None
) -> None:
    """Pause a host (True), resume it at its usual pace (False), or slow it. Raises UnknownHost, and
    ValueError for an invalid delay."""
    if slow_s is not None:
        checked_delay_s(slow_s)
    async with _held(open_store(location, RealClock()), "host") as held:
        store = held.store
        resumes = pause is False
        if not await store.set_control(host, paused=pause, slow_s=slow_s, clear_slow=resumes):
            raise UnknownHost(host)
        await held.publish(SteerHost(slot=host, paused=pause, slow_s=slow_s, clear_slow=resumes))


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

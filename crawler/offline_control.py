"""Commands on a database that no crawl has open. (A running crawl takes them through its API.)

All functions raise StoreRefused (the database is in use, or not one of ours) and StoreError.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from crawler.app import open_store
from crawler.clock import RealClock
from crawler.config import Config
from crawler.scheduling.seeding import queue_seeds
from crawler.steering.control import checked_delay_s
from crawler.steering.live_state import UnknownHost
from storage.store import Store


async def steer_host(
    path: Path, host: str, *, pause: bool | None = None, slow_s: float | None = None
) -> None:
    """Pause a host (True), resume it at its usual pace (False), or slow it. Raises UnknownHost, and
    ValueError for an invalid delay."""
    if slow_s is not None:
        checked_delay_s(slow_s)
    async with _held(open_store(path, RealClock()), "host") as store:
        if not await store.set_control(
            host, paused=pause, slow_s=slow_s, clear_slow=pause is False
        ):
            raise UnknownHost(host)


async def add_seeds(config: Config, urls: Sequence[str], priority: float = 0.0) -> int:
    """Queue seeds (canonical URLs) and return how many were new. The crawl that visits them decides
    whether they may be contacted."""
    limit = config.scope.max_queries_per_path
    clock = RealClock()
    mode = config.storage.mode
    store = open_store(config.storage.path, clock, queries_per_path_max=limit, file_mode=mode)
    async with _held(store, "seeds"):
        return await queue_seeds(config, store, urls, now_s=clock.wall(), priority=priority)


async def retry_failed(path: Path, host: str | None = None, code: str | None = None) -> int:
    """Queue failed URLs again, of one host and with one code if given; return how many."""
    async with _held(open_store(path, RealClock()), "retry failed") as store:
        return await store.retry_failed(host, code)


@contextlib.asynccontextmanager
async def _held(store: Store, name: str) -> AsyncIterator[Store]:
    session = await store.open_session(name)
    try:
        yield store
    finally:
        await store.close(session)

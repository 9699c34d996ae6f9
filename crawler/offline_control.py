"""What is done by hand to a database that nobody holds; a crawl that holds it is asked instead.

All of it raises StoreRefused (somebody holds it, or it is not ours) and StoreError.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from crawler.app import open_store
from crawler.clock import RealClock
from crawler.config import Config
from crawler.engine.roots import queue_seeds
from crawler.steering.control import checked_delay_s
from crawler.steering.live_state import UnknownHost
from storage.store import Store


async def steer_host(
    path: Path, host: str, *, pause: bool | None = None, slow_s: float | None = None
) -> None:
    """Pause (True), let go on (False, which undoes both) or slow a host. Raises UnknownHost, and
    ValueError for a delay that is none."""
    if slow_s is not None:
        checked_delay_s(slow_s)
    async with _held(open_store(path, RealClock()), "host") as store:
        if not await store.set_control(
            host, paused=pause, slow_s=slow_s, clear_slow=pause is False
        ):
            raise UnknownHost(host)


async def add_seeds(config: Config, urls: Sequence[str], priority: float = 0.0) -> int:
    """Queue seeds, canonical URLs; give how many were new. Whether they may be contacted is judged
    by the crawl that will."""
    limit = config.scope.max_queries_per_path
    clock = RealClock()
    mode = config.storage.mode
    store = open_store(config.storage.path, clock, queries_per_path_max=limit, file_mode=mode)
    async with _held(store, "seeds"):
        return await queue_seeds(config, store, urls, now_s=clock.wall(), priority=priority)


async def retry_failed(path: Path, host: str | None = None, code: str | None = None) -> int:
    """Queue failed URLs again, of one host or of all, those of one code or all; give how many."""
    async with _held(open_store(path, RealClock()), "retry failed") as store:
        return await store.retry_failed(host, code)


@contextlib.asynccontextmanager
async def _held(store: Store, name: str) -> AsyncIterator[Store]:
    session = await store.open_session(name)
    try:
        yield store
    finally:
        await store.close(session)

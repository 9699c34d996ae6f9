"""The seeds of a store: scope is relative to them, and those beyond loopback need a contact."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from crawler.config import Config, check_identity
from crawler.processing.sitemaps import READ_AGAIN_S
from policies.url import host_of
from storage.store import SEEDS_AT_ONCE, Link, Store


async def check_roots(config: Config, store: Store) -> bool:
    """Check that seeds beyond loopback have a contact; return whether there is any seed. Raises
    ConfigError."""
    found = False
    async with aclosing(store.seeds()) as pieces:
        async for urls in pieces:
            found = True
            check_identity(config, urls)
            if config.has_contact:
                break  # then it applies to all
    return found


def seed_link(
    config: Config,
    url: str,
    *,
    priority: float = 0.0,
    depth: int = 0,
    data: str | None = None,
    again_before: float | None = None,
) -> Link:
    """A seed (canonical) as it is queued. `data`, `again_before`: see `Link`."""
    host = host_of(url)
    return Link(
        url=url,
        slot=config.slot_of(host),
        host=host,
        depth=depth,
        priority=priority,
        seed=True,
        data=data,
        again_before=again_before,
    )


async def queue_seeds(
    config: Config, store: Store, urls: Sequence[str], *, now_s: float, priority: float = 0.0
) -> int:
    """Queue canonical URLs as seeds; return how many were new. now_s: Unix seconds."""
    again_before = now_s - READ_AGAIN_S
    added = 0
    for start in range(0, len(urls), SEEDS_AT_ONCE):
        some = urls[start : start + SEEDS_AT_ONCE]
        links = [
            seed_link(config, url, priority=priority, again_before=again_before) for url in some
        ]
        added += sum((await store.add(links)).added.values())
    return added

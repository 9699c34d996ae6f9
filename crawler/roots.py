"""The seeds that a store has: scope is relative to them, and law 10 holds for them."""

from __future__ import annotations

from contextlib import aclosing

from crawler.config import Config, check_identity
from storage.base import Store


async def check_roots(config: Config, store: Store) -> bool:
    """Law 10 for every seed there is; give whether there is one. Raises ConfigError."""
    found = False
    async with aclosing(store.seeds()) as pieces:
        async for urls in pieces:
            found = True
            check_identity(config, urls)
            if config.has_contact:
                break  # then it holds for all
    return found

"""Assembles embedded objects from the given store, fetcher and clock, or the real ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from crawler.clock import Clock, ContactDeadline, RealClock
from crawler.config import Config
from crawler.databases import looking_into, open_memory_store, open_store
from crawler.embedding.caller_gate import CallerGate, gate_of
from crawler.embedding.settings import Setup, in_database
from crawler.fetching.fetcher import AiohttpFetcher, Fetcher
from crawler.processing.context import crawl_context
from crawler.scheduling.caller_session import CallerSession
from policies.holds import FaultOwner
from storage.location import Location
from storage.reader import Reader
from storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """An open store and its session. location: None for a database in memory."""

    store: Store
    session: int
    location: Location | None = None

    @contextlib.asynccontextmanager
    async def reader(self) -> AsyncIterator[Reader]:
        """A reader of its database."""
        if self.location is None:
            yield self.store.reader
            return
        async with looking_into(self.location) as reader:
            yield reader


@contextlib.asynccontextmanager
async def open_store_of(config: Config, *, clock: Clock, name: str) -> AsyncIterator[OpenStore]:
    """Open the database of `storage.url`, or without it, one in memory. Raises StoreRefused."""
    queries_max = config.scope.max_queries_per_path
    location: Location | None = None
    if not config.names_database:
        store = open_memory_store(clock, queries_per_path_max=queries_max)
    else:
        storage = config.storage
        location = storage.location
        store = open_store(
            location,
            clock,
            queries_per_path_max=queries_max,
            file_mode=storage.mode,
            lease_s=storage.lease_s,
            start_wait_s=storage.start_wait_s,
        )
    session = await store.open_session(name)
    try:
        yield OpenStore(store=store, session=session, location=location)
    finally:
        await store.close(session)


@contextlib.asynccontextmanager
async def network(
    config: Config, *, clock: Clock, fetcher: Fetcher | None, deadline: ContactDeadline
) -> AsyncIterator[Fetcher]:
    """Yield the given fetcher, or one that is open until the block ends."""
    if fetcher is not None:
        yield fetcher
        return
    async with AiohttpFetcher(config, clock, deadline=deadline) as own:
        yield own


@contextlib.asynccontextmanager
async def caller_gate(setup: Setup, *, name: str = "session") -> AsyncIterator[CallerGate]:
    """Open a gate for callers alone. `name`: of its session in the database. Raises ConfigError and
    StoreRefused."""
    config = in_database(setup.config, setup.db)
    clock = setup.clock or RealClock()
    deadline = ContactDeadline(clock)
    async with (
        open_store_of(config, clock=clock, name=name) as kept,
        network(config, clock=clock, fetcher=setup.fetcher, deadline=deadline) as wire,
    ):
        context = crawl_context(
            config,
            store=kept.store,
            session=kept.session,
            clock=clock,
            observer=setup.observer,
            deadline=deadline,
            faults=FaultOwner.CALLER,
        )
        async with CallerSession(context, wire) as loop:
            yield gate_of(loop)

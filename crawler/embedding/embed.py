"""Assembles embedded objects from the given store, fetcher and clock, or the real ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from crawler.app import looking_into, open_memory_store, open_store
from crawler.clock import Clock, RealClock
from crawler.config import Config
from crawler.embedding.polite_client import PoliteClient
from crawler.fetching.fetcher import AiohttpFetcher, Fetcher
from storage.store import Reader, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """An open store and its session. path: of its database; memory: the reader of one in memory."""

    store: Store
    session: int
    path: Path | None = None
    memory: Reader | None = None

    @contextlib.asynccontextmanager
    async def reader(self) -> AsyncIterator[Reader]:
        """A reader of its database."""
        if self.path is None:
            assert self.memory is not None
            yield self.memory
            return
        async with looking_into(self.path) as reader:
            yield reader


@contextlib.asynccontextmanager
async def open_store_of(
    config: Config, *, db: str | Path | None, clock: Clock, name: str
) -> AsyncIterator[OpenStore]:
    """Open the database `db` (a path or `sqlite:PATH`), or a memory store. Raises StoreRefused."""
    queries_max = config.scope.max_queries_per_path
    store: Store
    path: Path | None = None
    memory: Reader | None = None
    if db is None:
        in_memory = open_memory_store(clock, queries_per_path_max=queries_max)
        store, memory = in_memory, in_memory.reader
    else:
        url = str(db) if str(db).lower().startswith("sqlite:") else f"sqlite:{db}"
        path = config.override({"storage": {"url": url}}, where="db").storage.path
        mode = config.storage.mode
        store = open_store(path, clock, queries_per_path_max=queries_max, file_mode=mode)
    session = await store.open_session(name)
    try:
        yield OpenStore(store=store, session=session, path=path, memory=memory)
    finally:
        await store.close(session)


@contextlib.asynccontextmanager
async def network(
    config: Config, *, clock: Clock, fetcher: Fetcher | None
) -> AsyncIterator[Fetcher]:
    """Yield the given fetcher, or one that is open until the block ends."""
    if fetcher is not None:
        yield fetcher
        return
    async with AiohttpFetcher(config, clock) as own:
        yield own


@contextlib.asynccontextmanager
async def polite_client(
    config: Config,
    *,
    db: str | Path | None,
    clock: Clock | None,
    fetcher: Fetcher | None,
    name: str,
) -> AsyncIterator[PoliteClient]:
    """Open a client. `name`: of its session in the database."""
    clock = clock or RealClock()
    async with (
        open_store_of(config, db=db, clock=clock, name=name) as kept,
        network(config, clock=clock, fetcher=fetcher) as wire,
        PoliteClient(
            config,
            store=kept.store,
            session=kept.session,
            clock=clock,
            fetcher=wire,
        ) as opened,
    ):
        yield opened

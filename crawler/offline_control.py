"""Commands on a database, past the crawl. (A crawl with a local socket takes them through that.)

In a file, no crawl may have it open. On a server, workers may: they obey the order that each
command publishes, with their next renewal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from msgspec import Struct

from crawler.clock import Clock, RealClock
from crawler.command_table import row_of
from crawler.config import Config, ConfigError
from crawler.databases import looking_into, open_store
from crawler.operator_commands import (
    CrawlState,
    InvalidCommandError,
    OperatorCommand,
    OrderedCommand,
    Reload,
    Reloaded,
    Result,
    encode,
)
from crawler.steering.execution import Announcer, execute
from crawler.steering.queue_waits import QueueReason
from storage.read_records import HostsWaiting
from storage.reader import Reader
from storage.store import Link, Store

_T = TypeVar("_T")

_NO_ANSWER: Final = (
    "the workers of a shared database do not answer; use the page, or POST /api/reload?dry_run=1"
)


async def execute_in_database(
    config: Config, command: OperatorCommand[Result]
) -> tuple[Result, int]:
    """Execute a command in the database of a config; return its result, and how many workers share
    the database, and obey.

    Seeds are queued as the config says; the crawl that visits them decides whether they may be
    contacted. Raises StoreRefused (the database is in use, or not one of ours), StoreError and, as
    `execute`, InvalidCommandError, UnknownHost and ConfigError.
    """
    location = config.storage.location
    clock = RealClock()
    store = open_store(
        location,
        clock,
        queries_per_path_max=config.scope.max_queries_per_path,
        file_mode=config.storage.mode,
    )
    async with AsyncExitStack() as stack:
        session = 0
        if not getattr(command, "dry_run", False):  # which only reads
            session = await store.open_session(row_of(command).name.replace("_", " "))
            stack.push_async_callback(store.close, session)
        reader = await stack.enter_async_context(looking_into(location))
        place = _Database(config, clock, store, reader, session, lambda *_: None)
        return await execute(command, place), await place.workers()


class _Database(Struct):
    """A database, as a place to execute commands."""

    config: Config
    clock: Clock
    store: Store
    reader: Reader
    session: int
    announce: Announcer

    @property
    def state(self) -> CrawlState | None:
        return None

    async def workers(self) -> int:
        """How many workers share it."""
        if not self.store.shared:
            return 0
        return sum(row["id"] != self.session for row in await self.reader.workers())

    async def step(
        self,
        command: OperatorCommand[Any],
        change: Callable[[], Awaitable[_T]],
        *,
        order: OrderedCommand | None = None,
        announced: bool = True,
    ) -> _T:
        result = await change()
        if order is not None and self.store.shared:
            await self.store.publish(self.session, encode(order))
        return result

    async def add(self, links: Sequence[Link]) -> int:
        return sum((await self.store.add(links)).added.values())

    async def reload(self, command: Reload) -> Reloaded:
        """The workers read their files, each its own."""
        if not await self.workers():
            where = f"{self.config.storage.location}, or it has no socket"
            raise ConfigError(f"no crawl is running on {where}: there is nothing to reload")
        if command.dry_run:
            raise ConfigError(_NO_ANSWER)
        return Reloaded(changes=(), restart=(), warnings=(), dry_run=False)

    def hosts_waiting(self, reason: QueueReason) -> HostsWaiting:
        raise InvalidCommandError("reason", "is known only while a crawl runs")

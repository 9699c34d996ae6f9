"""Connections that run the statements of the PostgreSQL engine by name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from storage.postgres.schema import new_schema
from storage.postgres.statements import SCRIPTS, arguments, statements


class Worker:
    """A connection, used as the engine uses its own."""

    def __init__(self, db: asyncpg.Connection[Any]) -> None:
        self.db = db

    async def run(self, name: str, *values: object) -> int:
        """Return how many rows changed."""
        status = await self.db.execute(statements()[name], *values)
        return int(status.rpartition(" ")[2])

    async def row(self, name: str, *values: object) -> tuple[Any, ...] | None:
        found = await self.db.fetchrow(statements()[name], *values)
        return None if found is None else tuple(found)

    async def read(self, name: str, *values: object) -> Any:
        """Return the JSON value of a query."""
        return json.loads(await self.db.fetchval(statements()[name], *values))

    async def many(self, name: str, rows: Sequence[Sequence[object]], *values: object) -> None:
        await self.db.execute(statements()[name], *arguments(name, rows), *values)

    async def read_many(self, name: str, rows: Sequence[Sequence[object]], *values: object) -> Any:
        return await self.read(name, *arguments(name, rows), *values)


NewWorker = Callable[[], Awaitable[Worker]]


@pytest.fixture
async def new_worker(postgres_url: str) -> AsyncIterator[NewWorker]:
    """Connects to one new database, as often as it is called."""
    connections: list[asyncpg.Connection[Any]] = []

    async def connect() -> Worker:
        db = await asyncpg.connect(postgres_url)
        if not connections:
            await db.execute(read_script("schema"))
        await db.execute(read_script("settings"))
        connections.append(db)
        return Worker(db)

    yield connect
    for db in connections:
        db.terminate()


def read_script(name: str) -> str:
    return new_schema() if name == "schema" else (SCRIPTS / f"{name}.sql").read_text("utf-8")

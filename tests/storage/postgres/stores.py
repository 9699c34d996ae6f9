"""Stores on one database, as workers open them, and what must be true of it afterwards."""

from __future__ import annotations

import time
from typing import Any

import asyncpg

from storage.location import ServerLocation, parse_location
from storage.postgres import server_store
from storage.postgres.statements import statements
from storage.store import Link, Store


def store_at(url: str, **options: Any) -> Store:
    location = parse_location(url)
    assert isinstance(location, ServerLocation)
    return server_store(location, wall=time.time, monotonic=time.monotonic, **options)


def link(url: str, **values: Any) -> Link:
    host = url.split("/")[2]
    return Link(url=url, slot=host, host=host, **({"depth": 0} | values))


async def one(url: str, sql: str) -> Any:
    """The first value of a query."""
    db = await asyncpg.connect(url)
    try:
        return await db.fetchval(sql)
    finally:
        await db.close()


async def assert_sound(url: str) -> None:
    """Every URL has one state, and the counters count."""
    db = await asyncpg.connect(url)
    try:
        for name, sql in statements("checks").items():
            rows = [tuple(row) for row in await db.fetch(sql)]
            if name in ("recounted", "summed"):
                for _, *counts in rows:
                    half = len(counts) // 2
                    assert counts[:half] == counts[half:], name
            else:
                assert rows[0][0] == 0, rows
    finally:
        await db.close()

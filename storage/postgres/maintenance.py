"""Maintenance of a database on a PostgreSQL server: information, consistency check, vacuum.

The functions wait for a connection of their own, and must not be called in an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from storage.copying import TABLES
from storage.database_info import (
    RECOUNTED,
    SESSIONS_SHOWN,
    SUMMED,
    TABLES_SHOWN,
    DatabaseInfo,
    Server,
    Session,
    Table,
    wrong_hosts,
    wrong_origins,
)
from storage.location import ServerLocation
from storage.postgres.errors import FAILURES, described
from storage.postgres.schema import check_readable
from storage.postgres.server_connection import connect
from storage.postgres.statements import statements
from storage.store_errors import StoreRefused

T = TypeVar("T")

_ALIVE_S: Final = 30.0  # since a worker was heard of last
# References to rows by their ids, which the schema does not enforce: table, column, table.
REFERENCES: Final = (
    ("origins", "slot", "slots"),
    ("tries", "error", "texts"),
    ("failures", "error", "texts"),
    ("readings", "error", "texts"),
    ("kinds", "content_type", "texts"),
    ("kinds", "usage", "texts"),
    ("kinds", "cut", "texts"),
    ("pages", "kind", "kinds"),
    ("blocks", "verdict", "verdicts"),
    ("verdicts", "body", "bodies"),
    ("copies", "body", "bodies"),
    ("earlier_copies", "body", "bodies"),
)
_SIZE: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
)


def info(location: ServerLocation) -> DatabaseInfo:
    """Read facts about a database, beside a crawl too. Raises StoreRefused and StoreError."""
    return asyncio.run(_info(location))


async def _info(location: ServerLocation) -> DatabaseInfo:
    async with _connected(location) as db, db.transaction(isolation="repeatable_read"):
        named = statements()
        visited, blocked, failed, queued, hosts, *_ = await _row(db, named["totals"])
        urls, origins, copies = await _row(db, named["sizes"])
        _, last_s, shift_s = await _row(db, named["crawl"])
        sessions = await db.fetch(named["last_sessions"], SESSIONS_SHOWN)
        return DatabaseInfo(
            database=str(location),
            schema=await db.fetchval("SELECT version FROM crawl"),
            bytes=await db.fetchval(_SIZE),
            free_bytes=0,
            urls=urls,
            visited=visited,
            blocked=blocked,
            failed=failed,
            queued=queued,
            hosts=hosts,
            origins=origins,
            robots_copies=copies,
            sessions=[
                Session(id=key, name=name, began_at=began, ended_at=ended)
                for key, name, began, ended in sessions
            ],
            last_at=last_s - shift_s if sessions else None,
            shared=True,
            server=await _server(db),
        )


async def _server(db: asyncpg.Connection[Any]) -> Server:
    return Server(
        version=str(await db.fetchval("SHOW server_version")).split()[0],
        replica=await db.fetchval("SELECT pg_is_in_recovery()"),
        workers=len(await _alive(db)),
        # Of other users it is only shown to members of pg_read_all_stats.
        transaction_s=await db.fetchval(
            "SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::double precision"
            " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ),
        tables=[
            Table(name=name, bytes=size, rows=rows, dead_rows=dead)
            for name, size, rows, dead in await db.fetch(statements()["table_sizes"], TABLES_SHOWN)
        ],
    )


async def _alive(db: asyncpg.Connection[Any]) -> Sequence[asyncpg.Record]:
    """The workers that were heard of lately."""
    return await db.fetch(
        "SELECT name, machine, pid FROM sessions WHERE ended_at IS NULL"
        " AND beat_at > extract(epoch FROM clock_timestamp()) - $1::double precision",
        _ALIVE_S,
    )


# ---------------------------------------------------------------- consistency


def check(location: ServerLocation) -> list[str]:
    """Return all inconsistencies as sentences; none for a sound database.

    Reads all tables; works beside a crawl, on one moment's state. Raises StoreRefused and
    StoreError.
    """
    return asyncio.run(_check(location))


async def _check(location: ServerLocation) -> list[str]:
    async with (
        _connected(location) as db,
        db.transaction(isolation="repeatable_read", readonly=True),
    ):
        found = [text for reference in REFERENCES if (text := await _dangling(db, *reference))]
        queries = dict(statements("checks"))
        recounted, summed = queries.pop("recounted"), queries.pop("summed")
        for sql in queries.values():
            row = await _row(db, sql)
            if row[0]:
                found.append(f"{row[0]:,} {row[1]}")
        found += wrong_origins(await _differing(db, recounted, len(RECOUNTED)))
        found += wrong_hosts(await _differing(db, summed, len(SUMMED)))
        return found


async def _dangling(db: asyncpg.Connection[Any], table: str, column: str, parent: str) -> str:
    count = await db.fetchval(
        f"SELECT count(*) FROM {table} AS t LEFT JOIN {parent} AS p ON p.id = t.{column}"  # noqa: S608
        f" WHERE t.{column} IS NOT NULL AND p.id IS NULL"
    )
    if not count:
        return ""
    return f"table {table}: {count:,} rows refer by {column} to rows of {parent} that do not exist"


async def _differing(
    db: asyncpg.Connection[Any], sql: str, counters: int
) -> Sequence[Sequence[object]]:
    """Return some rows of a check whose counters are not as they should be."""
    kept = [f"k{n}" for n in range(counters)]
    right = [f"r{n}" for n in range(counters)]
    return await db.fetch(
        f"SELECT * FROM ({sql}) AS c (name, {', '.join(kept + right)})"  # noqa: S608
        f" WHERE ({', '.join(kept)}) IS DISTINCT FROM ({', '.join(right)}) LIMIT 100"
    )


# ---------------------------------------------------------------- vacuum


def vacuum(location: ServerLocation) -> tuple[int, int]:
    """Rewrite all tables without their free space; return their size before and after.

    Takes as much room again while it runs. Raises StoreRefused if a worker is alive, and
    StoreError.
    """
    return asyncio.run(_vacuum(location))


async def _vacuum(location: ServerLocation) -> tuple[int, int]:
    async with _connected(location) as db:
        for worker in await _alive(db):
            raise StoreRefused(
                f"{location} is in use by process {worker['pid']} on {worker['machine']}"
                f" ({worker['name']})"
            )
        before = await db.fetchval(_SIZE)
        for table in TABLES:
            await db.execute(f"VACUUM (FULL, ANALYZE) {table.name}")
        return before, await db.fetchval(_SIZE)


# ---------------------------------------------------------------- connections


@contextlib.asynccontextmanager
async def _connected(location: ServerLocation) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection to a crawl. Raises StoreRefused and StoreError, also for what fails within."""
    with described(location, opening=True):
        db = await connect(location)
        try:
            await check_readable(db, location)
            yield db
        finally:
            with contextlib.suppress(*FAILURES):
                await db.close(timeout=5.0)


async def _row(db: asyncpg.Connection[Any], sql: str) -> Sequence[Any]:
    row = await db.fetchrow(sql)
    assert row is not None
    return tuple(row)

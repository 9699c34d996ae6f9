"""Finds out whether a connection is one to a pooler that cannot be used."""

from __future__ import annotations

import secrets
from typing import Any, Final

import asyncpg

from storage.location import ServerLocation
from storage.postgres import errors
from storage.postgres.server_connection import connect

_WAIT_S: Final = 3.0  # a pool of one connection has none left while a transaction is open
_TRIES: Final = 3
# Of a statement that was prepared, or a session that was set up, on another connection.
_LOST: Final = (
    asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError,
    asyncpg.UndefinedObjectError, TimeoutError,
)  # fmt: skip


async def check_pooler(db: asyncpg.Connection[Any], location: ServerLocation) -> None:
    """Raise StoreRefused if each transaction may have another connection to the server: prepared
    statements, locks and settings of a session would be lost, or be those of another session.

    A server names the process of a connection when it begins. If that is not the one that answers,
    a pooler is in between; then a second connection shows whether the first keeps its own process
    while others work."""
    try:
        if await db.fetchval("SELECT pg_backend_pid()") == db.get_server_pid():
            return
        kept = await _keeps_its_session(db, location)
    except _LOST:
        kept = False
    if not kept:
        raise errors.pools_transactions(location)


async def _keeps_its_session(db: asyncpg.Connection[Any], location: ServerLocation) -> bool:
    mark = secrets.token_hex(8)
    pid = await db.fetchval(
        "SELECT pg_backend_pid() FROM set_config('courtly.session', $1, false)", mark
    )
    other = await connect(location)
    try:
        for _ in range(_TRIES):
            async with other.transaction():
                await other.fetchval("SELECT pg_backend_pid()", timeout=_WAIT_S)
                found = await db.fetchrow(
                    "SELECT pg_backend_pid(), current_setting('courtly.session', true)",
                    timeout=_WAIT_S,
                )
            if found is None or tuple(found) != (pid, mark):
                return False
    finally:
        other.terminate()
    return True

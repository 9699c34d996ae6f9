"""Creates the schema in an empty database, brings that of an older version up to date, and refuses
databases of other kinds and newer versions."""

from __future__ import annotations

import re
import secrets
from functools import cache
from hashlib import blake2b
from typing import Any, Final

import asyncpg

from storage import sql_source
from storage.location import ServerLocation
from storage.postgres import dialect, errors
from storage.postgres.server_connection import connect
from storage.postgres.statements import SCRIPTS
from storage.sql_source import read_script, shared_script

# Versions before the first were never released.
FIRST_VERSION: Final = 4
SCHEMA_VERSION: Final = 4
# crawl.application: whose tables these are.
APPLICATION: Final = "courtly"
COPY: Final = "courtly copy"  # while `courtly db copy` is incomplete
_LOCK: Final = (
    "pg_advisory_xact_lock"
    "(1668248947, (current_schema()::regnamespace::oid::bigint % 2147483647)::integer)"
)


def new_schema() -> str:
    """Return the script that makes a new database."""
    return "\n".join((
        read_script(SCRIPTS / "schema.sql"), shared_script("views", dialect), *row_types()
    ))  # fmt: skip


def row_types() -> list[str]:
    """Return what makes the types of rows that shared statements take."""
    made = []
    for name, rows in sql_source.row_types("statements", dialect).items():
        kinds = ['text COLLATE "C"' if kind == "text" else kind for kind in rows.types]
        columns = ", ".join(map(" ".join, zip(rows.names, kinds, strict=True)))
        made.append(f"CREATE TYPE {name} AS ({columns});")
    return made


@cache
def fingerprint() -> str:
    """Return what `crawl.fingerprint` is in a database with our schema: a hash of its definition,
    without comments. Versions are only unique once they are released."""
    plain = " ".join(re.sub(r"--[^\n]*", "", new_schema()).split())
    return blake2b(plain.encode(), digest_size=8).hexdigest()


def check_version(location: ServerLocation, version: object, found: object) -> None:
    """Raise StoreRefused unless a database has our schema. found: its fingerprint."""
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise errors.newer_schema(location, version, SCHEMA_VERSION)
    if found != fingerprint():
        raise errors.other_commit(location, SCHEMA_VERSION)


async def check_server(db: asyncpg.Connection[Any], location: ServerLocation) -> None:
    """Raise StoreRefused for a server or a database that cannot be used."""
    await check_pooler(db, location)
    if db.get_server_version().major < errors.VERSION_MIN:
        raise errors.too_old(location, await db.fetchval("SHOW server_version"))
    encoding = await db.fetchval("SHOW server_encoding")
    if encoding != "UTF8":
        raise errors.not_utf8(location, encoding)
    if await db.fetchval("SELECT current_schema()") is None:
        raise errors.no_schema(location)


async def create_or_check(
    db: asyncpg.Connection[Any], location: ServerLocation, *, copies: bool = False
) -> None:
    """Create the schema in an empty database, or bring it up to date; check that any other one is a
    crawl that this version can write to. copies: or an incomplete copy. Raises StoreRefused.

    `new_schema` makes the newest version; `sql/0005.sql` would bring version 4 to version 5, and so
    on. Workers of the older version may be running meanwhile."""
    await check_server(db, location)
    if await db.fetchval("SELECT pg_is_in_recovery()"):
        raise errors.read_only(location, replica=True)
    if await db.fetchval("SHOW transaction_read_only") == "on":
        raise errors.read_only(location, replica=False)
    if await _version(db, location, copies=copies) == SCHEMA_VERSION:
        return
    async with db.transaction():
        await db.execute(f"SELECT {_LOCK}")  # another worker may be doing the same
        version = await _version(db, location, copies=copies)
        if version is None:
            await db.execute(new_schema())
        else:
            for number in range(version + 1, SCHEMA_VERSION + 1):
                await db.execute(read_script(SCRIPTS / f"{number:04}.sql"))
        await db.execute("UPDATE crawl SET fingerprint = $1", fingerprint())


async def check_readable(db: asyncpg.Connection[Any], location: ServerLocation) -> None:
    """Raise StoreRefused unless the database is a crawl that this version can read."""
    await check_server(db, location)
    version = await _version(db, location)
    if version is None:
        raise errors.no_crawl(location)
    if version < SCHEMA_VERSION:
        raise errors.older_schema(location, version, SCHEMA_VERSION)


async def _version(
    db: asyncpg.Connection[Any], location: ServerLocation, *, copies: bool = False
) -> int | None:
    """Return the version of the schema; None if there is nothing in it. Raises StoreRefused."""
    tables = await db.fetchval(
        "SELECT count(*) FROM pg_class AS c WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS (SELECT FROM pg_depend"
        "  WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')"  # extensions'
    )
    if not tables:
        return None
    columns = await db.fetchval(
        "SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema()"
        " AND table_name = 'crawl' AND column_name IN ('application', 'version')"
    )
    row = (
        await db.fetchrow(
            "SELECT application, version, to_jsonb(crawl) ->> 'fingerprint' AS fingerprint"
            " FROM crawl"
        )
        if columns == 2
        else None
    )
    if row is None or row["application"] not in (APPLICATION, COPY):
        raise errors.not_ours(location, tables)
    if row["application"] == COPY and not copies:
        raise errors.unfinished_copy(location)
    version = int(row["version"])
    if version < FIRST_VERSION:
        raise errors.development_schema(location, version)
    if version >= SCHEMA_VERSION:
        check_version(location, version, row["fingerprint"])
    return version


_POOLER_WAIT_S: Final = 3.0  # a pool of one connection has none left while a transaction is open
_POOLER_TRIES: Final = 3
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
        for _ in range(_POOLER_TRIES):
            async with other.transaction():
                await other.fetchval("SELECT pg_backend_pid()", timeout=_POOLER_WAIT_S)
                found = await db.fetchrow(
                    "SELECT pg_backend_pid(), current_setting('courtly.session', true)",
                    timeout=_POOLER_WAIT_S,
                )
            if found is None or tuple(found) != (pid, mark):
                return False
    finally:
        other.terminate()
    return True

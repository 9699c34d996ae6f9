"""Both ends of a copy, on PostgreSQL servers; see `storage.copying`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg

from storage.copying import FORGET_STAMPS, SESSION_NAME, TABLES, CrawlState, Table, Values
from storage.engine.connection_thread import ConnectionThread, open_thread
from storage.location import ServerLocation
from storage.postgres.errors import described
from storage.postgres.schema import APPLICATION, COPY, check_readable, create_or_check
from storage.postgres.server_connection import ServerConnection
from storage.store_errors import StoreRefused

T = TypeVar("T")
_Work = Callable[["asyncpg.Connection[Any]"], Coroutine[Any, Any, T]]

_SHARD_BITS: Final = 8
_SLACK_S: Final = 1.0  # between the clocks of this machine and the server
# Sequences, by the table whose ids they are part of. Others are identities.
_SEQUENCES: Final = {
    "slots": ("slot_numbers", _SHARD_BITS),
    "origins": ("origin_numbers", _SHARD_BITS),
    "urls": ("url_numbers", _SHARD_BITS),
    "texts": ("text_numbers", 0),
}
_IDENTITIES: Final = ("bodies", "verdicts", "kinds")
# `known` is a view of columns of urls. In a copy it is a table, until the URLs are copied.
_KNOWN: Final = "copied_known"
_OF_KNOWN: Final = ("fingerprint", "hidden")
_TURN_MAX: Final = 2**31 - 1


@contextlib.asynccontextmanager
async def open_source(location: ServerLocation) -> AsyncIterator[PostgresSource]:
    """Open a database to copy from."""

    async def check(db: asyncpg.Connection[Any]) -> None:
        await check_readable(db, location)

    async with _opened(location, check) as end:
        yield PostgresSource(end)


@contextlib.asynccontextmanager
async def open_target(location: ServerLocation) -> AsyncIterator[PostgresTarget]:
    """Open a database to copy to."""

    async def create(db: asyncpg.Connection[Any]) -> None:
        await create_or_check(db, location, copies=True)
        if not await db.fetchval(
            "SELECT pg_try_advisory_lock(1668248948, hashtext(current_schema()))"
        ):
            raise StoreRefused(f"{location} is being copied to by another process")

    async with _opened(location, create) as end:
        yield PostgresTarget(end)


@contextlib.asynccontextmanager
async def _opened(location: ServerLocation, prepare: _Work[None]) -> AsyncIterator[_End]:
    connect = partial(ServerConnection.opened, location, prepare)
    with described(location, opening=True):
        thread = await open_thread(f"the database {location}", connect)
    try:
        yield _End(location, thread)
    finally:
        await thread.close()


class _End:
    """One end of a copy, with a connection of its own. It is opened once: what was begun by one
    cannot be continued by another."""

    def __init__(
        self, location: ServerLocation, thread: ConnectionThread[ServerConnection]
    ) -> None:
        self.name = str(location)
        self._location = location
        self._thread = thread

    async def run(self, work: _Work[T]) -> T:
        """Run a coroutine function of the connection, after all earlier ones. Raises StoreError."""
        with described(self._location):
            return await self._thread.run(lambda connection: connection.call(work))

    async def fetch(self, sql: str, *values: object) -> Sequence[asyncpg.Record]:
        return await self.run(lambda db: db.fetch(sql, *values))

    async def columns(self, table: str) -> Sequence[str]:
        rows = await self.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_name = $1"
            " AND table_schema = current_schema() AND is_generated = 'NEVER'"
            " ORDER BY ordinal_position",
            table,
        )
        return [name for (name,) in rows if table != "urls" or name not in _OF_KNOWN]


class PostgresSource:
    """A database in which the caller has a session, and nobody else."""

    def __init__(self, end: _End) -> None:
        self._fetch = end.fetch
        self.name = end.name
        self.columns = end.columns

    async def others(self, session: int) -> Mapping[str, int]:
        """Return the beats of other live sessions by their descriptions."""
        rows = await self._fetch(
            "SELECT id, name, machine, pid, beat FROM sessions WHERE ended_at IS NULL AND id <> $1",
            session,
        )
        return {
            f"session {row['id']} ({row['name']}) of process {row['pid']} on {row['machine']}": row[
                "beat"
            ]
            for row in rows
        }

    async def state(self) -> CrawlState:
        (row,) = await self._fetch(
            "SELECT s.bytes, c.session, c.paused, c.shift_s + extract(epoch FROM clock_timestamp())"
            " ::double precision AS now_s, (SELECT coalesce(max(id), 0) FROM sessions"
            " WHERE name <> $1) AS writer, c.distrusted FROM secret AS s, crawl AS c",
            SESSION_NAME,
        )
        skips = await self._fetch("SELECT reason, sum(count)::bigint FROM skips GROUP BY reason")
        return CrawlState(
            secret=row["bytes"],
            session=row["session"],
            writer=row["writer"],
            paused=bool(row["paused"]),
            now_s=row["now_s"],
            distrusted=row["distrusted"],
            skips=dict(map(tuple, skips)),
        )

    async def rows(
        self, table: Table, columns: Sequence[str], after: Values | None
    ) -> Sequence[Values]:
        key = ", ".join(table.key)
        marks = ", ".join(f"${n}" for n in range(1, 1 + len(table.key)))
        where = "" if after is None else f"WHERE ({key}) > ({marks})"
        rows = await self._fetch(
            f"SELECT {', '.join(columns)} FROM {table.name} {where}"  # noqa: S608
            f" ORDER BY {key} LIMIT {table.rows_at_once}",
            *(after or ()),
        )
        return [tuple(row) for row in rows]


class PostgresTarget:
    """A database, whose schema is created if it is empty."""

    def __init__(self, end: _End) -> None:
        self._run, self._fetch = end.run, end.fetch
        self.name = end.name
        self.columns = end.columns

    async def copied_from(self) -> tuple[bytes, int] | None:
        ((application, session, secret, used),) = await self._fetch(
            "SELECT c.application, c.session, s.bytes,"
            " EXISTS (SELECT FROM slots) OR EXISTS (SELECT FROM sessions)"
            " FROM crawl AS c, secret AS s"
        )
        if application == COPY:
            return secret, session
        if used or session:
            raise StoreRefused(f"{self.name} holds a crawl: copy to a database that is empty")
        return None

    async def begin(self, state: CrawlState) -> None:
        await self._run(partial(_begin, state))

    async def last_key(self, table: Table) -> Values | None:
        order = ", ".join(f"{name} DESC" for name in table.key)
        rows = await self._fetch(
            f"SELECT {', '.join(table.key)} FROM {_name(table)} ORDER BY {order} LIMIT 1"  # noqa: S608
        )
        return tuple(rows[0]) if rows else None

    async def write(self, table: Table, columns: Sequence[str], rows: Sequence[Values]) -> None:
        await self._run(partial(_write, table, columns, rows))

    async def finish(self, state: CrawlState) -> None:
        await self._run(partial(_finish, state))


async def _begin(state: CrawlState, db: asyncpg.Connection[Any]) -> None:
    async with db.transaction():
        await db.execute("UPDATE secret SET bytes = $1", state.secret)
        await db.execute("UPDATE crawl SET application = $1, session = $2", COPY, state.writer)
        # Unlogged: if the server crashes, it is empty, and copied again.
        await db.execute(
            f"CREATE UNLOGGED TABLE IF NOT EXISTS {_KNOWN}"
            " (origin bigint, fingerprint bigint, id bigint, depth bigint)"
        )


async def _write(
    table: Table, columns: Sequence[str], rows: Sequence[Values], db: asyncpg.Connection[Any]
) -> None:
    if table.name == "urls":
        rows = [_with_short_number(row, columns.index("turn")) for row in rows]
        rows = await _with_fingerprints(rows, columns.index("id"), db)
        columns = [*columns, *_OF_KNOWN]
    try:
        await db.copy_records_to_table(_name(table), records=rows, columns=columns)
    except asyncpg.CharacterNotInRepertoireError:  # a NUL, which SQLite can hold
        rows = [_without_nul(row) for row in rows]
        await db.copy_records_to_table(_name(table), records=rows, columns=columns)


def _name(table: Table) -> str:
    return _KNOWN if table.name == "known" else table.name


async def _with_fingerprints(
    rows: Sequence[Values], place: int, db: asyncpg.Connection[Any]
) -> Sequence[Values]:
    """Append the fingerprint of each URL, None in a damaged source, and whether it is hidden."""
    await db.execute(f"CREATE INDEX IF NOT EXISTS {_KNOWN}_by_id ON {_KNOWN} (abs(id))")
    found = await db.fetch(
        f"SELECT abs(id), fingerprint, id < 0 FROM {_KNOWN} WHERE abs(id) = ANY ($1)",  # noqa: S608
        [row[place] for row in rows],
    )
    known = {key: (fingerprint, hidden) for key, fingerprint, hidden in found}
    return [(*row, *known.get(row[place], (None, False))) for row in rows]


async def _finish(state: CrawlState, db: asyncpg.Connection[Any]) -> None:
    async with db.transaction():
        await _write_state(state, db)
    await db.execute(f"ANALYZE {', '.join(one.name for one in TABLES if one.name != 'known')}")


async def _write_state(state: CrawlState, db: asyncpg.Connection[Any]) -> None:
    await db.execute(f"DROP TABLE {_KNOWN}")
    server_s = await db.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    shift_s = state.now_s - server_s
    await db.execute(
        "UPDATE crawl SET session = $1, paused = $2, last_at = $3, shift_s = $4, application = $5",
        state.session,
        int(state.paused),
        state.now_s,
        shift_s if abs(shift_s) > _SLACK_S else 0.0,
        APPLICATION,
    )
    for sql in FORGET_STAMPS:
        await db.execute(sql.format(state.distrusted))
    # Nobody is live here: without an end, a session would be waited for.
    await db.execute("UPDATE sessions SET ended_at = began_at WHERE ended_at IS NULL")
    await db.execute("DELETE FROM skips")
    await db.executemany(
        "INSERT INTO skips (reason, session, count) VALUES ($1, 0, $2)",
        list(state.skips.items()),
    )
    await db.execute("DELETE FROM totals")
    await db.execute(
        "INSERT INTO totals (session, queued, visited, blocked, failed, hosts, body_bytes)"
        " SELECT 0, coalesce(sum(queued), 0), coalesce(sum(visited), 0),"
        " coalesce(sum(blocked), 0), coalesce(sum(failed), 0), count(*),"
        " coalesce(sum(body_bytes), 0) FROM slots"
    )
    for table, (sequence, bits) in _SEQUENCES.items():
        await db.execute(
            f"SELECT setval('{sequence}', coalesce(max(id) >> {bits}, 0) + 1) FROM {table}"  # noqa: S608
        )
    await db.execute("SELECT setval('turn_numbers', coalesce(max(turn), 0) + 1) FROM urls")
    for table in _IDENTITIES:
        await db.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'),"  # noqa: S608
            f" coalesce(max(id), 0) + 1) FROM {table}"
        )


def _with_short_number(row: Values, place: int) -> Values:
    """Shorten the turn of a URL of a file, microseconds of the store's time, to seconds."""
    turn: Any = row[place]
    if turn <= _TURN_MAX:
        return row
    return (*row[:place], min(turn // 1_000_000, _TURN_MAX), *row[place + 1 :])


def _without_nul(row: Values) -> tuple[Any, ...]:
    return tuple(one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in row)

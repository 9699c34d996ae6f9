"""Copy a crawl from one database to another, row by row, between engines or within one.

Rows are read in the order of their keys and written in chunks, one transaction each. So an
interrupted copy resumes behind the largest key of each table in the target. Until the copy is
complete, the target bears a mark, and every other command refuses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from storage.store_errors import StoreRefused

Values = Sequence[object]  # of one row


SESSION_NAME: Final = "db copy"  # of the session that a copy has in the source


class Table(Struct, frozen=True):
    """A table that every engine has. Its rows are unique by `key`."""

    name: str
    key: tuple[str, ...] = ("id",)
    rows_at_once: int = 20_000  # about a second of writing


# In this order: bodies before what refers to them, and fingerprints before URLs, since a server
# stores both in one row.
TABLES: Final = (
    Table("sessions"),
    Table("slots"),
    Table("origins"),
    Table("texts"),
    Table("bodies", rows_at_once=200),  # of up to 500 KB
    Table("verdicts"),
    Table("kinds"),
    Table("known", ("origin", "fingerprint")),
    Table("urls"),
    Table("queries", ("origin", "path")),
    Table("seeds"),
    Table("tries"),
    Table("ungoverned", ("origin", "id")),
    Table("redirects"),
    Table("failures"),
    Table("blocks", ("origin", "id")),
    Table("copies", ("origin",)),
    Table("earlier_copies", ("origin",)),
    Table("readings"),
    Table("hints"),
    Table("data"),
    Table("edges", ("source", "target")),
    Table("plans"),
    Table("pages"),
    Table("chains", ("root",)),
    Table("hrefs", ("source", "place")),
    Table("pointers", ("source", "place")),
    Table("elements", ("page", "name")),
    Table("contacts", ("slot", "place")),
    Table("history", ("step_s", "at", "session")),
    Table("marks", ("session", "number")),
)


class CrawlState(Struct, frozen=True, kw_only=True):
    """The values that a database has once."""

    secret: bytes  # the key of the fingerprints of URLs; no two crawls have the same
    session: int  # the newest
    writer: int  # the newest that is not one of a copy
    paused: bool
    now_s: float  # the store's time
    distrusted: int  # stamps of hosts up to this one prove nothing
    skips: Mapping[str, int]  # URLs left out, by reason


# Stamps of one database mean nothing in another. Statements of every engine; the number is that of
# `CrawlState.distrusted`.
FORGET_STAMPS: Final = (
    "UPDATE slots SET clean = 0 WHERE contacts > 0 AND stamp <= {}",
    "UPDATE slots SET stamp = 0",
)


class CopySource(Protocol):
    """A database that nobody writes to meanwhile."""

    name: str  # for messages

    async def others(self, session: int) -> Mapping[str, int]:
        """Return a number that live sessions increase, by a description of each but this one."""

    async def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a table that hold data of their own."""

    async def state(self) -> CrawlState: ...

    async def rows(
        self, table: Table, columns: Sequence[str], after: Values | None
    ) -> Sequence[Values]:
        """Return up to `table.rows_at_once` rows with keys above `after`, ascending."""


class CopyTarget(Protocol):
    """A database that is being made. A method that writes is one transaction."""

    name: str  # for messages

    async def columns(self, table: str) -> Sequence[str]: ...

    async def copied_from(self) -> tuple[bytes, int] | None:
        """Return `secret` and `writer` of the crawl of which this is an incomplete copy; None for
        an empty database. Raises StoreRefused for any other."""

    async def begin(self, state: CrawlState) -> None:
        """Mark the database as an incomplete copy of this crawl."""

    async def last_key(self, table: Table) -> Values | None:
        """Return the largest key of a table; None if it is empty."""

    async def write(self, table: Table, columns: Sequence[str], rows: Sequence[Values]) -> None: ...

    async def finish(self, state: CrawlState) -> None:
        """Write the state, make room above the copied ids, and remove the mark."""


class CopyProgress(Struct, frozen=True):
    """The part of a table that was copied by now, without what an earlier attempt copied."""

    table: str
    rows: int


async def copy(
    source: CopySource, target: CopyTarget, *, session: int
) -> AsyncGenerator[CopyProgress, None]:
    """Copy everything but the row of one session, that of the copy itself.

    Yields after every chunk and at the end of each table. Raises StoreRefused if the target holds
    something else, or the source was changed since an interrupted attempt, and StoreError.
    """
    state = await source.state()
    await _check_resumable(source, target, state)
    await target.begin(state)
    for table in TABLES:
        columns = await _columns(source, target, table)
        places = [columns.index(name) for name in table.key]
        after, copied = await target.last_key(table), 0
        while rows := await source.rows(table, columns, after):
            after = [rows[-1][place] for place in places]
            if table.name == "sessions":
                rows = [row for row in rows if row[places[0]] != session]
            if table.name == "slots":
                rows = _without_lease(rows, columns.index("lease"))
            await target.write(table, columns, rows)
            copied += len(rows)
            yield CopyProgress(table.name, copied)
            await asyncio.sleep(0)  # neither end need wait for anything: Ctrl-C takes effect here
        yield CopyProgress(table.name, copied)
    if (now := await source.state()).session != state.session:
        raise StoreRefused(
            f"{source.name} was used by another process during the copy: stop it, and copy again to"
            " an empty database"
        )
    await target.finish(now)


async def _check_resumable(source: CopySource, target: CopyTarget, state: CrawlState) -> None:
    copied = await target.copied_from()
    if copied is None:
        return
    secret, writer = copied
    if secret != state.secret:
        raise StoreRefused(f"{target.name} is an incomplete copy of another crawl")
    if writer != state.writer:
        raise StoreRefused(
            f"{source.name} was changed since the copy to {target.name} was interrupted: delete the"
            " copy, and start again"
        )


def _without_lease(rows: Sequence[Values], place: int) -> Sequence[Values]:
    """Nobody holds a host of a copy. One that was not released stays not clean."""
    return [row if row[place] is None else (*row[:place], None, *row[place + 1 :]) for row in rows]


async def _columns(source: CopySource, target: CopyTarget, table: Table) -> Sequence[str]:
    """Return the columns that both have. Others are of one engine alone, and have defaults."""
    known = {*await source.columns(table.name)}
    return [name for name in await target.columns(table.name) if name in known]

"""Facts about a database at rest, and the words for what is wrong with one; for every engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

SESSIONS_SHOWN: Final = 5
TABLES_SHOWN: Final = 5
FINDINGS_MAX: Final = 20  # of one kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: int
    name: str
    began_at: float  # Unix seconds
    ended_at: float | None  # None: it is running, or its process died


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    name: str
    bytes: int  # with its indexes
    rows: int  # as the server estimates it
    dead_rows: int  # likewise; their space is reused once the table is vacuumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Facts about a PostgreSQL server, as far as they concern one database."""

    version: str
    replica: bool
    workers: int  # heard of in the last half minute
    transaction_s: float | None  # since when the oldest one is open: it keeps dead rows
    tables: Sequence[Table]  # the largest first


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInfo:
    """Facts about a database that need no scan of its tables."""

    database: str  # its name for people
    schema: int  # its version
    bytes: int  # SQLite: with its WAL; PostgreSQL: tables and indexes
    free_bytes: int  # what `vacuum` would free; 0 for PostgreSQL, which does not say
    urls: int  # ever inserted, including those left out since; estimated by PostgreSQL
    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    origins: int
    robots_copies: int
    sessions: Sequence[Session]  # the newest first
    last_at: float | None  # the store's time when something was last written
    shared: bool = False  # several sessions may be live
    server: Server | None = None

    @property
    def bytes_per_url(self) -> float | None:
        return self.bytes / self.urls if self.urls else None


# The columns of the checks `recounted` and `summed`: after a name come the counters as they are
# stored, and then as they should be.
RECOUNTED: Final = ("queued", "visited", "blocked", "failed", "body_bytes", "judged", "ungoverned")
SUMMED: Final = RECOUNTED[:5]


def wrong_origins(rows: Iterable[Sequence[object]]) -> list[str]:
    """Describe origins whose counters differ, from rows of `recounted`."""
    return list(islice(_differences(rows, RECOUNTED, "origin", "counted"), FINDINGS_MAX))


def wrong_hosts(rows: Iterable[Sequence[object]]) -> list[str]:
    """Describe hosts whose counters differ, from rows of `summed`."""
    return list(islice(_differences(rows, SUMMED, "host", "its origins say"), FINDINGS_MAX))


def _differences(
    rows: Iterable[Sequence[object]], names: Sequence[str], what: str, how: str
) -> Iterator[str]:
    size = len(names)
    for name, *figures in rows:
        for column, kept, counted in zip(names, figures[:size], figures[size:], strict=True):
            if kept != counted:
                yield f"{what} {name}: {column} is {kept:,}, but {how} {counted:,}"

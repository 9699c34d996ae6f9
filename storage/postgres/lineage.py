"""Finds out that a database has gone back in time: a replica took over that had not received all, a
backup was restored, or files were copied back.

What a worker remembers is then no longer true: leases, which URLs are known, ids, when a host was
contacted. A database is recognised by the server's system identifier and timeline, the database
and its tables; and a worker's own session in it never loses a renewal or a commit that was
acknowledged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import asyncpg

# Numbers that were given to rows in the history that is lost are not given to others again.
NUMBERS_SKIPPED: Final = 1 << 32
SESSIONS_SKIPPED: Final = 1_000
_SEQUENCES: Final = ("slot_numbers", "origin_numbers", "url_numbers", "text_numbers")
_IDENTITIES: Final = ("bodies", "verdicts", "kinds", "orders")

_OTHER_SERVER: Final = "it is another server, a promoted replica or a restored copy"
_OLDER_LOG: Final = "the write-ahead log of the server ends before what it had written already"
_OLDER_SESSION: Final = "what this worker stored, and was acknowledged, is missing"
_FOUND_BY_OTHER: Final = "another worker found it"


class Place(NamedTuple):
    """The point at which a history of a database continues."""

    server: str  # system identifier, timeline, database and table
    flushed: int | None  # how far the write-ahead log was written; None: the server does not tell


class SessionState(NamedTuple):
    """The numbers of renewals and of committed transactions of a session."""

    beat: int = 0
    commits: int = 0

    @classmethod
    def found(cls, beat: object, commits: object) -> SessionState | None:
        """Return the state of a session as it was read from the database; None if there is no such
        session."""
        if beat is None:
            return None
        assert isinstance(beat, int)
        assert isinstance(commits, int | None)
        return cls(beat, commits or 0)

    def is_older_than(self, other: SessionState) -> bool:
        return self.beat < other.beat or self.commits < other.commits


class Lineage:
    """What one worker knows of the history of its database. For any thread.

    elapsed: seconds of a clock that nobody can set.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._place: Place | None = None  # as of the newest connection of the writer
        self._returns: int | None = None  # how often it had gone back when this worker began
        self._session = 0
        self._known = SessionState()  # the newest that was acknowledged
        self._unsettled: tuple[int, float] | None = None  # a return, and since when it is known
        self.reason: str | None = None
        """Why the database must have gone back, until this worker has begun anew."""

    @property
    def server(self) -> str | None:
        return self._place and self._place.server

    @property
    def session(self) -> int:
        return self._session

    @property
    def known(self) -> SessionState:
        """What was acknowledged to this worker's session."""
        return self._known

    @property
    def settling(self) -> bool:
        """Whether no host may be leased yet: a worker that does not know of the return might still
        contact it."""
        return self._unsettled is not None

    def enrolled(self, session: int) -> None:
        """Learn the number of this worker's session."""
        if session == self._session:
            return
        with self._lock:
            self._session, self._known = session, SessionState()

    def begin_anew(self) -> None:
        """Forget what this worker knew."""
        with self._lock:
            self._returns, self._session, self.reason = None, 0, None
            self._known = SessionState()

    # ------------------------------------------------------------ evidence

    def connected(self, place: Place) -> None:
        """Compare a new connection with what was known."""
        with self._lock:
            before = self._place
            if before is None:
                return
            if place.server != before.server:
                self._found(_OTHER_SERVER)
            elif None not in (place.flushed, before.flushed) and (
                (place.flushed or 0) < (before.flushed or 0)
            ):
                self._found(_OLDER_LOG)

    def follow(self, place: Place, returns: int) -> None:
        """The writer works with this from now on; the database has gone back that often."""
        with self._lock:
            self._place = place
            self._count(returns)

    def read(
        self, returns: int, settled: int, found: SessionState | None, known: SessionState
    ) -> None:
        """Return what a transaction or a renewal found. found: of this worker's session; None:
        there is no such session. known: acknowledged before the question was sent."""
        with self._lock:
            self._count(returns)
            if self._session and (found is None or found.is_older_than(known)):
                self._found(_OLDER_SESSION)
            if returns <= settled:
                self._unsettled = None
            elif self._unsettled is None or self._unsettled[0] != returns:
                self._unsettled = (returns, self._elapsed())

    def acknowledged(self, session: int, state: SessionState) -> None:
        with self._lock:
            if session == self._session:
                self._known = SessionState(*map(max, self._known, state))

    def has_settled(self, after_s: float) -> int | None:
        """The number of the return if it has been known for so long; None if not."""
        with self._lock:
            if self._unsettled is None or self._elapsed() - self._unsettled[1] < after_s:
                return None
            return self._unsettled[0]

    def _count(self, returns: int) -> None:
        if self._returns is None:
            self._returns = returns
        elif returns != self._returns:
            self._found(_FOUND_BY_OTHER)

    def _found(self, reason: str) -> None:
        self.reason = self.reason or reason


async def place_of(db: asyncpg.Connection[Any]) -> Place:
    """Return the place of a connection. What the server does not tell is left out."""
    system = await _told(db, "SELECT system_identifier::text FROM pg_control_system()")
    timeline = await _told(db, "SELECT substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8)")
    flushed = await _told(db, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint")
    ids = await db.fetchval(
        "SELECT oid::text || '/' || 'crawl'::regclass::oid::text FROM pg_database"
        " WHERE datname = current_database()"
    )
    return Place(f"{system}/{timeline}/{ids}", flushed)


async def _told(db: asyncpg.Connection[Any], sql: str) -> Any:
    try:
        return await db.fetchval(sql)
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.FeatureNotSupportedError,
        asyncpg.UndefinedFunctionError,
        asyncpg.ObjectNotInPrerequisiteStateError,
    ):
        return None


async def register(db: asyncpg.Connection[Any], lineage: Lineage, place: Place) -> int:
    """Record in the database that it has gone back, unless another worker has; return how often it
    had.

    Nothing that it says of rests is believed from then on, and no number that was given in the lost
    history is given again."""
    async with db.transaction():
        server, returns = await db.fetchrow("SELECT server, returns FROM crawl FOR UPDATE") or (
            None,
            0,
        )
        if server is None:
            await db.execute("UPDATE crawl SET server = $1", place.server)
        known = lineage.reason is not None and returns == lineage._returns  # noqa: SLF001
        if not (known or server not in (None, place.server)):
            return int(returns)
        await db.execute(
            "UPDATE crawl SET server = $1, returns = returns + 1, generation = generation + 1,"
            " returned_at = extract(epoch FROM clock_timestamp()), distrusted = nextval('ticks'),"
            " session = session + $2",
            place.server,
            SESSIONS_SKIPPED,
        )
        names = [f"'{name}'" for name in _SEQUENCES]
        names += [f"pg_get_serial_sequence('{table}', 'id')" for table in _IDENTITIES]
        for name in names:
            await db.execute(f"SELECT setval({name}, nextval({name}) + {NUMBERS_SKIPPED})")
        return int(returns) + 1

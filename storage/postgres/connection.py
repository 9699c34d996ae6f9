"""The connection by which a worker writes to a PostgreSQL database."""

from __future__ import annotations

import time
from typing import Any, Final

import asyncpg

from storage.engine.statements import CommitUnknown, WentBack
from storage.location import ServerLocation
from storage.postgres.errors import ends_connection
from storage.postgres.lineage import Lineage, SessionState, place_of, register
from storage.postgres.schema import check_version, create_or_check
from storage.postgres.server_connection import ServerConnection, UnderWay
from storage.postgres.server_time import ServerTime
from storage.postgres.statements import SCRIPTS, SequenceIds, learn_types, statements
from storage.timekeeper import StoreTime

SETTINGS: Final = SCRIPTS / "settings.sql"
_STATUS_WAIT_S: Final = 2.0  # for the server to notice that a connection has ended
_STATUS_POLL_S: Final = 0.05


class PostgresConnection:
    """`storage.engine.statements.Connection`. A lost connection is replaced when the next
    transaction begins."""

    def __init__(self, location: ServerLocation, time: StoreTime, lineage: Lineage) -> None:
        self._location = location
        self.server = ServerConnection(location, self._prepare)
        self.sql = self.server.sql
        self._time = time
        self.under_way: UnderWay | None = None  # for other threads to read
        self._lineage = lineage
        self._recorded = False  # in the database: why it must have gone back

    async def _prepare(self, db: asyncpg.Connection[Any]) -> None:
        """Create the schema in an empty database; find out whether another one is the one that this
        worker knows."""
        await create_or_check(db, self._location)
        await learn_types(db)  # by the driver's queries, which these settings would make slow
        await db.execute(SETTINGS.read_text(encoding="utf-8"))
        if self._time.ticks is not None:
            self._time.ticks.forget()
        place = await place_of(db)
        self._lineage.connected(place)
        self._recorded = self._lineage.reason is not None
        self._lineage.follow(place, await register(db, self._lineage, place))

    def check(self, now_s: float) -> None:
        """Nothing: a database of a server is not replaced without ending its connections."""

    def begin(self, now_s: float, *, alone: bool) -> None:
        self.server.ensure_open()
        self._check_lineage()
        if self.sql.opened.is_in_transaction():  # it could not be rolled back before
            self.sql.wait(self.sql.opened.execute("ROLLBACK"))
        self.under_way = UnderWay(self.sql.opened.get_server_pid(), time.monotonic())
        enter = statements()["enter_alone" if alone else "enter"]
        self.sql.wait(self.sql.opened.execute(f"BEGIN; {enter}"))
        self.sql.alone = alone
        self._read_clock()

    def begin_anew(self) -> None:
        self._recorded = False
        self.sql.ids = SequenceIds(self.sql)
        self._lineage.begin_anew()

    def enrolled(self, session: int) -> None:
        self._lineage.enrolled(session)

    def _check_lineage(self) -> None:
        """Raise WentBack if it is known to have gone back; a new connection records that."""
        if self._lineage.reason is None:
            return
        if not self._recorded:
            self.sql.drop()
            self.server.ensure_open()
        raise WentBack(self._lineage.reason)

    def _read_clock(self) -> None:
        server_time = self._time if isinstance(self._time, ServerTime) else None
        sent_s = server_time.elapsed() if server_time else 0.0
        lineage, known = self._lineage, self._lineage.known
        row = self.sql.row("begin", lineage.session)
        assert row is not None
        server_s, shift_s, steps, generation, tick, returns, settled, *schema, beat, commits = row
        check_version(self._location, *schema)
        lineage.read(_whole(returns), _whole(settled), SessionState.found(beat, commits), known)
        self._check_lineage()
        self.sql.settling = lineage.settling
        assert isinstance(tick, int)
        assert isinstance(server_s, float)
        assert isinstance(shift_s, float)
        self.sql.generation = int(generation or 0)
        if server_time is None:
            return
        server_time.ticks.saw(tick, server_time.elapsed())
        step_s = server_time.step_s(server_s, shift_s, sent_s)
        if step_s:
            if self.sql.row("correct_shift", -step_s, steps) is None:  # another was faster
                self._read_clock()
                return
            shift_s -= step_s
        server_time.observe(server_s, shift_s, sent_s)

    def commit(self) -> None:
        db = self.sql.opened
        session = self._lineage.session
        found = self.sql.row("count_commit", session) if session else self.sql.row("transaction_id")
        written, *number = found or (None,)
        try:
            self.sql.wait(db.execute("COMMIT"))
        except Exception as error:
            if written is not None and ends_connection(error):
                raise CommitUnknown(str(written), error) from error
            raise
        self.under_way = None
        for commits in number:
            self._lineage.acknowledged(session, SessionState(commits=_whole(commits)))

    def was_committed(self, transaction: str) -> bool:
        self.server.ensure_open()
        if self._lineage.reason is not None:
            return False  # the number may be that of another transaction
        until_s = time.monotonic() + _STATUS_WAIT_S
        while True:
            (status,) = self.sql.row("transaction_status", transaction) or (None,)
            if status != "in progress":
                return bool(status == "committed")
            if time.monotonic() > until_s:
                raise ConnectionResetError("the server has not noticed yet that a connection ended")
            time.sleep(_STATUS_POLL_S)

    def roll_back(self, error: BaseException) -> None:
        self.under_way = None
        db = self.sql.db
        if db is None or db.is_closed() or not db.is_in_transaction():
            return
        try:
            self.sql.complete(db.execute("ROLLBACK"))
        except Exception:  # noqa: BLE001 - the server does it when the connection ends
            self.sql.drop()

    def close(self) -> None:
        self.server.close()


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value

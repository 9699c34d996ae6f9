"""The connection by which a worker writes to a PostgreSQL database."""

from __future__ import annotations

import time
from typing import Any, Final

import asyncpg

from storage.engine.statements import CommitUnknown
from storage.location import ServerLocation
from storage.postgres.errors import ends_connection
from storage.postgres.schema import create_or_check
from storage.postgres.server_connection import ServerConnection, UnderWay
from storage.postgres.server_time import ServerTime
from storage.postgres.statements import SCRIPTS, statements
from storage.timekeeper import StoreTime

SETTINGS: Final = SCRIPTS / "settings.sql"
_STATUS_WAIT_S: Final = 2.0  # for the server to notice that a connection has ended
_STATUS_POLL_S: Final = 0.05


class PostgresConnection(ServerConnection):
    """`storage.engine.statements.Connection`. A lost connection is replaced when the next
    transaction begins."""

    def __init__(self, location: ServerLocation, time: StoreTime) -> None:
        super().__init__(location)
        self._time = time
        self.under_way: UnderWay | None = None  # for other threads to read

    async def _prepare(self, db: asyncpg.Connection[Any]) -> None:
        """Create the schema in an empty database."""
        await create_or_check(db, self._location)
        await db.execute(SETTINGS.read_text(encoding="utf-8"))

    def check(self, now_s: float) -> None:
        """Nothing: a database of a server is not replaced without ending its connections."""

    def begin(self, now_s: float, *, alone: bool) -> None:
        self.ensure_open()
        if self.sql.opened.is_in_transaction():  # it could not be rolled back before
            self.sql.wait(self.sql.opened.execute("ROLLBACK"))
        self.under_way = UnderWay(self.sql.opened.get_server_pid(), time.monotonic())
        enter = statements()["enter_alone" if alone else "enter"]
        self.sql.wait(self.sql.opened.execute(f"BEGIN; {enter}"))
        self.sql.alone = alone
        self._read_clock()

    def _read_clock(self) -> None:
        server_time = self._time if isinstance(self._time, ServerTime) else None
        sent_s = server_time.elapsed() if server_time else 0.0
        row = self.sql.row("begin")
        assert row is not None
        server_s, shift_s, steps, generation = row
        assert isinstance(server_s, float)
        assert isinstance(shift_s, float)
        self.sql.generation = int(generation or 0)
        if server_time is None:
            return
        step_s = server_time.step_s(server_s, shift_s, sent_s)
        if step_s:
            if self.sql.row("correct_shift", -step_s, steps) is None:  # another was faster
                self._read_clock()
                return
            shift_s -= step_s
        server_time.observe(server_s, shift_s, sent_s)

    def commit(self) -> None:
        db = self.sql.opened
        (written,) = self.sql.row("transaction_id") or (None,)
        try:
            self.sql.wait(db.execute("COMMIT"))
        except Exception as error:
            if written is not None and ends_connection(error):
                raise CommitUnknown(str(written), error) from error
            raise
        self.under_way = None

    def was_committed(self, transaction: str) -> bool:
        self.ensure_open()
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

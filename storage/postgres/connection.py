"""The connection by which a worker writes to a PostgreSQL database."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Any, Final

import asyncpg

from storage.engine.statements import CommitUnknown
from storage.location import ServerLocation
from storage.postgres.errors import fault_kind_of
from storage.postgres.schema import create_or_check
from storage.postgres.server_time import ServerTime
from storage.postgres.statements import SCRIPTS, PostgresStatements, statements
from storage.timekeeper import StoreTime
from storage.transient_faults import FaultKind

SETTINGS: Final = SCRIPTS / "settings.sql"
# A lease that a crash of the server undoes would be granted to another worker as well. And a worker
# that is stopped, or whose machine is cut off, must not keep others from the rows that it has
# locked: the server undoes its transaction then.
_SESSION_SETTINGS: Final = {
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "10s",
    "idle_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}
STATEMENTS_KEPT: Final = 512  # more than there are names
# How long a server's machine may be silent: after 15 s the system asks every 5 s, and after 30 s it
# gives up. Options of TCP.
_SILENCE: Final = {
    "TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000,
}  # fmt: skip
_STATUS_WAIT_S: Final = 2.0  # for the server to notice that a connection has ended
_STATUS_POLL_S: Final = 0.05


class PostgresConnection:
    """`storage.engine.statements.Connection`. It has an event loop of its own, which runs only
    while a statement does; a lost connection is replaced when the next transaction begins."""

    def __init__(self, location: ServerLocation, time: StoreTime) -> None:
        self._location = location
        self._time = time
        self._loop = asyncio.new_event_loop()
        self.sql = PostgresStatements(self._loop)
        self.times_opened = 0

    def open(self) -> None:
        """Connect; create the schema in an empty one. Raises StoreRefused and what asyncpg does."""
        db = self._loop.run_until_complete(connect(self._location))
        self.sql.db = db
        try:
            self._loop.run_until_complete(create_or_check(db, self._location))
            self._loop.run_until_complete(db.execute(SETTINGS.read_text(encoding="utf-8")))
        except BaseException:
            self.sql.drop()
            raise
        self.times_opened += 1

    def check(self, now_s: float) -> None:
        """Nothing: a database of a server is not replaced without ending its connections."""

    def begin(self, now_s: float, *, alone: bool) -> None:
        if self.sql.db is None or self.sql.db.is_closed():
            self.open()
        elif self.sql.db.is_in_transaction():  # it could not be rolled back before
            self.sql.wait(self.sql.db.execute("ROLLBACK"))
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
            if written is not None and fault_kind_of(error) is FaultKind.UNREACHABLE:
                self.sql.drop()
                raise CommitUnknown(str(written), error) from error
            raise

    def was_committed(self, transaction: str) -> bool:
        if self.sql.db is None or self.sql.db.is_closed():
            self.open()
        until_s = time.monotonic() + _STATUS_WAIT_S
        while True:
            (status,) = self.sql.row("transaction_status", transaction) or (None,)
            if status != "in progress":
                return bool(status == "committed")
            if time.monotonic() > until_s:
                raise ConnectionResetError("the server has not noticed yet that a connection ended")
            time.sleep(_STATUS_POLL_S)

    def roll_back(self, error: BaseException) -> None:
        if fault_kind_of(error) is FaultKind.UNREACHABLE:
            self.sql.drop()
        db = self.sql.db
        if db is None or db.is_closed() or not db.is_in_transaction():
            return
        with contextlib.suppress(Exception):
            self._loop.run_until_complete(db.execute("ROLLBACK"))

    def close(self) -> None:
        self.sql.close()
        self._loop.close()


async def connect(location: ServerLocation) -> asyncpg.Connection[Any]:
    """Connect to a server. Raises SecretError, and what asyncpg raises."""
    db: asyncpg.Connection[Any] = await asyncpg.connect(
        **location.connect_arguments(),
        statement_cache_size=STATEMENTS_KEPT,
        server_settings=_SESSION_SETTINGS,
    )
    end_when_silent(db)
    return db


def end_when_silent(db: asyncpg.Connection[Any]) -> None:
    """Have the system end a connection when the server's machine is gone: no statement has a time
    limit, and an answer that cannot come would be awaited forever."""
    # asyncpg has no parameter for this.
    transport = db._transport  # type: ignore[attr-defined]  # noqa: SLF001
    used = transport.get_extra_info("socket")
    if used is None or used.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with socket.fromfd(used.fileno(), used.family, used.type) as tcp:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SILENCE.items():
            if hasattr(socket, name):  # not on every system
                tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

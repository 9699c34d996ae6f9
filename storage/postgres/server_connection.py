"""Connections to a PostgreSQL server, each with one owner."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

import asyncpg

from storage.location import ServerLocation
from storage.postgres.statements import OF_DRIVER, PostgresStatements
from storage.secret_sources import SecretError
from storage.store_errors import StoreError

T = TypeVar("T")
_Prepare: TypeAlias = "Callable[[asyncpg.Connection[Any]], Coroutine[Any, Any, None]]"

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


class UnderWay(NamedTuple):
    """A transaction: the process of the server that runs it, and since when (`time.monotonic`)."""

    pid: int
    since_s: float


class ServerConnection:
    """One connection, which belongs to the thread that made this object, and is made anew when it
    was lost.

    A connection of asyncpg fails if a second operation begins before the first has ended. This one
    has an event loop of its own, which runs only while its owner waits for an operation, and the
    owner is a `ConnectionThread`, which runs one function after the other. So however many tasks
    call at once, their operations cannot meet.
    """

    def __init__(self, location: ServerLocation, prepare: _Prepare) -> None:
        """prepare: checks and sets up a new connection."""
        self._location = location
        self._prepare = prepare
        self._loop = asyncio.new_event_loop()
        self.sql = PostgresStatements(self._loop)
        self.times_opened = 0

    @classmethod
    def opened(cls, location: ServerLocation, prepare: _Prepare) -> Self:
        """Return a new connection, once it is open. Raises as `open` does."""
        connection = cls(location, prepare)
        try:
            connection.open()
        except BaseException:
            connection.close()
            raise
        return connection

    def open(self) -> None:
        """Connect. Raises StoreRefused, SecretError and what asyncpg does, in place of any other
        exception, too; there is no connection then."""
        try:
            self.sql.db = self.sql.complete(connect(self._location))
            self.sql.complete(self._prepare(self.sql.opened))
        except (*OF_DRIVER, StoreError, SecretError):
            self.sql.drop()
            raise
        except Exception as error:
            self.sql.drop()
            raise asyncpg.InterfaceError(f"asyncpg failed: {error!r}") from error
        except BaseException:
            self.sql.drop()
            raise
        self.times_opened += 1

    def ensure_open(self) -> None:
        """Open the connection as `open` does, if it was lost."""
        if self.sql.db is None or self.sql.db.is_closed():
            self.open()

    def call(self, work: Callable[[asyncpg.Connection[Any]], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function of the connection to its end. Raises what it raises."""
        return self.sql.complete(work(self.sql.opened))

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
    await db.set_type_codec(
        "numeric", schema="pg_catalog", encoder=_no_numeric, decoder=_no_numeric
    )
    return db


def _no_numeric(value: object) -> str:
    """A sum of bigint is numeric, and read as a Decimal, which is neither an int nor a float."""
    raise TypeError(f"a statement must cast its numeric values: {value!r}")


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

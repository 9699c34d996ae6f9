"""The PostgreSQL database of a store."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Final

import asyncpg

from storage import process_locks
from storage.engine.connection_thread import ConnectionThread
from storage.engine.in_flight import InFlight
from storage.location import ServerLocation
from storage.postgres.connection import PostgresConnection
from storage.postgres.errors import FAILURES, failure_of, fault_kind_of, refusal_of
from storage.postgres.lineage import Lineage
from storage.postgres.server_connection import UnderWay
from storage.postgres.server_time import ServerTime, elapsed_s
from storage.store_errors import StoreError
from storage.timekeeper import StoreTime
from storage.transient_faults import FaultKind

# Errors about a value; all other errors are about the database.
_OF_VALUES = (
    asyncpg.CardinalityViolationError,
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)


class PostgresDatabase:
    """`storage.engine.databases.Database`."""

    failures: tuple[type[Exception], ...] = FAILURES
    shared = True
    forgets = False

    def __init__(self, location: ServerLocation, time: StoreTime, *, waits: bool = False) -> None:
        """waits: opening it does not refuse a server that cannot be reached."""
        self._waits = waits
        self.location = location
        self.name = f"the database {location}"
        self._time = time
        self.elapsed = time.elapsed if isinstance(time, ServerTime) else elapsed_s
        self.lineage = Lineage(self.elapsed)
        self._file = WorkerFile(location.key)
        self.in_flight = InFlight(None)
        self._runner: ConnectionThread[PostgresConnection] | None = None
        self._connection: PostgresConnection | None = None

    async def open(self) -> ConnectionThread[PostgresConnection]:
        self._runner = await ConnectionThread.open(self._connect)
        self.in_flight.use(self._file.take())
        return self._runner

    @property
    def reconnections(self) -> int:
        """How often the connection was lost and made again."""
        return (
            max(0, self._connection.server.times_opened - 1) if self._connection is not None else 0
        )

    def under_way(self) -> UnderWay | None:
        """The transaction that runs at present."""
        return None if self._connection is None else self._connection.under_way

    def _connect(self) -> PostgresConnection:
        self._connection = connection = PostgresConnection(self.location, self._time, self.lineage)
        try:
            connection.server.open()
        except BaseException as error:
            connection.close()
            if refusal := refusal_of(error, self.location, waits=self._waits):
                raise refusal from error
            raise
        return connection

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            with contextlib.suppress(*FAILURES):
                await runner.close()
        finally:
            self.in_flight.close()
            self._file.release()

    def kind_of(self, error: BaseException) -> FaultKind | None:
        return fault_kind_of(error)

    def is_of_value(self, error: BaseException) -> bool:
        if isinstance(error, _OF_VALUES):
            return True
        if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
            return True  # an argument that asyncpg cannot encode
        return isinstance(error, Exception) and not isinstance(error, (*FAILURES, StoreError))

    def translate(self, error: Exception) -> StoreError:
        return failure_of(error, self.location)


_WORKERS_MAX: Final = 256  # of one crawl, on one machine
_log = logging.getLogger("courtly.store")


class WorkerFile:
    """A path in the directory for temporary files, which no other process of this machine uses.

    Each worker of a crawl locks the first free number, so a worker that starts after one has died
    finds the file that was left.
    """

    def __init__(self, crawl: str) -> None:
        """crawl: the same string for all workers of a crawl."""
        self._name = blake2b(crawl.encode("utf-8", "replace"), digest_size=8).hexdigest()
        self._fd = -1

    def take(self) -> Path | None:
        """Lock a number and return its path. None if that is impossible, which is logged."""
        try:
            directory = _directory()
            for number in range(_WORKERS_MAX):
                path = directory / f"{self._name}-{number}"
                fd = os.open(
                    path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
                )
                try:
                    process_locks.lock(fd)
                except OSError:
                    os.close(fd)
                    continue
                self._fd = fd
                return path.with_suffix(".inflight")
        except OSError as error:
            _log.warning("a page that kills the process twice will not be recognised: %s", error)
        return None

    def release(self) -> None:
        """Unlock it. The lock's file stays, because another worker may be about to lock it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _directory() -> Path:
    """The directory of this user's workers. Raises OSError if it belongs to someone else."""
    path = Path(tempfile.gettempdir()) / f"courtly-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if found.st_uid != os.getuid() or not path.is_dir() or path.is_symlink():
        raise PermissionError(f"{path} belongs to another user")
    return path

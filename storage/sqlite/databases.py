"""Databases of stores: in a file, or in memory."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from storage.safe_files import check_owner, real_path
from storage.sqlite import fault_kinds
from storage.sqlite.connection_thread import ConnectionThread
from storage.sqlite.file_guard import FileGuard
from storage.sqlite.file_lock import FileLock
from storage.sqlite.in_flight import InFlight
from storage.sqlite.schema import check_file, connect_memory, connect_writer
from storage.store import StoreRefused

T = TypeVar("T")


class Runner(Protocol):
    """An open connection that runs functions, one at a time and in the order of the calls."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return `work(connection)`. A cancelled call may leave the function running."""
        ...

    async def run_whole(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `run`, but a cancellation takes effect only after the function has returned."""
        ...


class Database(Protocol):
    """A database that one store writes to."""

    name: str  # for messages: "the database crawl.db"
    guard: FileGuard | None
    in_flight: InFlight

    async def open(self) -> Runner:
        """Open for writing. Raises StoreRefused, and the errors of `schema.FAILURES`, OSError and
        MemoryError; nothing is held then."""
        ...

    async def close(self) -> None:
        """Release the database. Does nothing if it is not open."""
        ...


class FileDatabase:
    """A file, locked against other processes while it is open. Its connection has a thread."""

    def __init__(self, path: Path, *, mode: int) -> None:
        self._given = path
        self._mode = mode  # of the files created here
        self.path = real_path(path)
        self.name = f"the database {self.path}"
        self._lock = FileLock(self.path, mode=mode)
        self._runner: ConnectionThread | None = None
        self.guard: FileGuard | None = None
        self.in_flight = InFlight(self.path, mode=mode)

    async def open(self) -> Runner:
        try:
            self._runner = await ConnectionThread.open(self._connect)
        except BaseException:
            self._lock.release()
            raise
        return self._runner

    def _connect(self) -> sqlite3.Connection:
        for path in (self._given, self.path):
            try:
                check_owner(path)
            except FileNotFoundError:  # `check_file` reports it
                continue
            except OSError as error:
                if fault_kinds.kind_of(error) is not None:
                    raise
                raise StoreRefused(f"{path} cannot be opened: {error.strerror}") from error
        check_file(self.path)  # before locking: nothing is created beside a foreign file
        self._lock.acquire()
        db = connect_writer(self.path, mode=self._mode)
        db.hold()
        self.guard = FileGuard(self.path, self._lock, db)
        return db

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            with contextlib.suppress(sqlite3.Error):  # commits are in the WAL: opening reads them
                await runner.close()
        finally:
            try:
                self.in_flight.close()
            finally:
                self._lock.release()


class MemoryDatabase:
    """A database in memory. Functions run on the event loop itself, and never wait.

    It keeps its content when the store is closed and opened again, and ends with this object.
    """

    def __init__(self) -> None:
        self.name = "the database in memory"
        self.guard: FileGuard | None = None
        self.in_flight = InFlight(None)
        self.db = connect_memory()

    def __del__(self) -> None:
        self.db.close()

    async def open(self) -> Runner:
        return self

    async def close(self) -> None:
        pass

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return work(self.db)

    run_whole = run

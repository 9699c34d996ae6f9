"""Databases of stores: in a file, or in memory."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final, TypeVar

from storage.engine.connection_thread import ConnectionThread
from storage.engine.in_flight import InFlight
from storage.engine.statements import Statements, Values
from storage.safe_files import check_owner, real_path
from storage.sqlite import fault_kinds, report_queries
from storage.sqlite.file_guard import FileGuard
from storage.sqlite.file_lock import FileLock
from storage.sqlite.schema import (
    FAILURES,
    check_file,
    connect_memory,
    connect_writer,
    translate,
)
from storage.sqlite.sqlite_connection import SqliteConnection
from storage.store import StoreError, StoreRefused
from storage.transient_faults import FaultKind

T = TypeVar("T")


# Errors about a value; all other errors of the sqlite3 module are about the file.
_OF_VALUES: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)


class _Failures:
    """What SQLite may raise, and what it means."""

    name: str
    failures: tuple[type[Exception], ...] = FAILURES

    def kind_of(self, error: BaseException) -> FaultKind | None:
        return fault_kinds.kind_of(error)

    def is_of_value(self, error: BaseException) -> bool:
        if isinstance(error, sqlite3.Error):
            return isinstance(error, _OF_VALUES) or str(error) == "integer overflow"
        return isinstance(error, Exception) and not isinstance(error, (*FAILURES, StoreError))

    def translate(self, error: Exception) -> StoreError:
        return translate(error, self.name)


class FileDatabase(_Failures):
    """A file, locked against other processes while it is open. Its connection has a thread."""

    def __init__(self, path: Path, *, mode: int) -> None:
        self._given = path
        self._mode = mode  # of the files created here
        self.path = real_path(path)
        self.name = f"the database {self.path}"
        self._lock = FileLock(self.path, mode=mode)
        self._runner: ConnectionThread[SqliteConnection] | None = None
        self.in_flight = InFlight(self.path, mode=mode)

    async def open(self) -> ConnectionThread[SqliteConnection]:
        try:
            self._runner = await ConnectionThread.open(self._connect)
        except BaseException:
            self._lock.release()
            raise
        return self._runner

    def _connect(self) -> SqliteConnection:
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
        return SqliteConnection(db, FileGuard(self.path, self._lock, db))

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


class MemoryDatabase(_Failures):
    """A database in memory, for a store and its readers. Functions run on the event loop itself,
    and never wait.

    It keeps its content when the store is closed and opened again, and ends with this object.
    """

    def __init__(self) -> None:
        self.name = "the database in memory"
        self.in_flight = InFlight(None)
        self.db = connect_memory()
        self._connection = SqliteConnection(self.db)

    def __del__(self) -> None:
        self.db.close()

    async def open(self) -> MemoryDatabase:
        return self

    async def close(self) -> None:
        pass

    async def run(self, work: Callable[[SqliteConnection], T]) -> T:
        return work(self._connection)

    run_whole = run

    async def read(self, work: Callable[[Statements], T]) -> T:
        try:
            return work(self._connection.sql)
        except FAILURES as error:
            raise self.translate(error) from error

    async def report(self, kind: str) -> AsyncGenerator[Values, None]:
        for row in report_queries.rows(self.db, kind):
            yield row

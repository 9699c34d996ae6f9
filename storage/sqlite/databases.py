"""SQLite databases of stores and of readers: in a file, or in memory."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.columns import REPORTS
from storage.engine.connection_thread import ConnectionThread, ThreadedReads
from storage.engine.in_flight import InFlight
from storage.engine.statements import Statements, Values
from storage.engine.transactions import Transactions
from storage.reader import Reader
from storage.safe_files import FILE_MODE, check_owner, real_path
from storage.sqlite import fault_kinds
from storage.sqlite.file_guard import FileGuard
from storage.sqlite.file_lock import FileLock
from storage.sqlite.schema import (
    FAILURES,
    check_file,
    connect_memory,
    connect_reader,
    connect_writer,
    described,
    translate,
)
from storage.sqlite.statements import SqliteStatements, statements
from storage.store import Store
from storage.store_errors import StoreError, StoreRefused
from storage.timekeeper import Timekeeper, Uptime
from storage.transient_faults import FaultKind


class SqliteConnection:
    """`storage.engine.statements.Connection`. guard: of a database in a file."""

    def __init__(self, db: sqlite3.Connection, guard: FileGuard | None = None) -> None:
        self._db = db
        self._guard = guard
        self.sql = SqliteStatements(db)

    def check(self, now_s: float) -> None:
        if self._guard is not None:
            self._guard.check(now_s)

    def begin(self, now_s: float, *, alone: bool) -> None:
        if self._db.in_transaction:  # it could not be rolled back before
            self._db.execute("ROLLBACK")
        if self._guard is not None:
            self._guard.check_sizes()
        self._db.execute("BEGIN IMMEDIATE")

    def begin_anew(self) -> None:
        raise AssertionError("a file that was copied back is noticed by its guard")

    def enrolled(self, session: int) -> None:
        """Nothing: there are no other workers."""

    def commit(self) -> None:
        self._db.execute("COMMIT")
        if self._guard is not None:
            self._guard.note_sizes()

    def was_committed(self, transaction: str) -> bool:
        raise AssertionError("SQLite always answers a commit")

    def roll_back(self, error: BaseException) -> None:
        with contextlib.suppress(sqlite3.Error, MemoryError):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if fault_kinds.kind_of(error) is FaultKind.MEMORY:
                self._db.execute("PRAGMA shrink_memory").fetchall()

    def close(self) -> None:
        self._db.close()


T = TypeVar("T")


_ROWS_AT_ONCE: Final = 500
# Errors about a value; all other errors of the sqlite3 module are about the file.
_OF_VALUES: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)


def _is_of_value(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return isinstance(error, _OF_VALUES) or str(error) == "integer overflow"
    return isinstance(error, Exception) and not isinstance(error, (*FAILURES, StoreError))


class FileDatabase:
    """A file, locked against other processes while it is open. Its connection has a thread."""

    failures: tuple[type[Exception], ...] = FAILURES
    shared = False
    forgets = False
    kind_of = staticmethod(fault_kinds.kind_of)
    is_of_value = staticmethod(_is_of_value)

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
        db.lock_files()
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

    def translate(self, error: Exception) -> StoreError:
        return translate(error, self.name)


class MemoryDatabase:
    """A database in memory, for a store and its readers. Functions run on the event loop itself,
    and never wait.

    It keeps its content when the store is closed and opened again, and ends with this object.
    """

    failures: tuple[type[Exception], ...] = FAILURES
    shared = False
    forgets = True
    kind_of = staticmethod(fault_kinds.kind_of)
    is_of_value = staticmethod(_is_of_value)

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
        with described(self.name):
            return work(self._connection.sql)

    async def report(self, kind: str) -> AsyncGenerator[Values, None]:
        for row in self.db.execute(statements("reports")[kind]).fetchall():
            yield row

    def translate(self, error: Exception) -> StoreError:
        return translate(error, self.name)


def file_reader(path: Path | str) -> Reader:
    """Return the reader of a file. It opens the file at the first call, which may raise
    StoreRefused."""
    path = Path(path)
    name = f"the database {path}"
    connect, report = partial(_FileReads, path, name), partial(_FileReport, path, name)
    return Reader(ThreadedReads(name, connect, report))


class _FileReads:
    """`storage.engine.connection_thread.ReadConnection`."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        with described(name):
            self._sql = SqliteStatements(connect_reader(path))

    def read(self, work: Callable[[Statements], T]) -> T:
        with described(self._name):
            return work(self._sql)

    def close(self) -> None:
        self._sql.db.close()


class _FileReport:
    """`storage.engine.connection_thread.ReportRows`."""

    def __init__(self, path: Path, name: str, kind: str) -> None:
        self._name = name
        self._last = 0  # row that was read
        columns = ", ".join(REPORTS[kind])
        with described(name), contextlib.ExitStack() as opened:
            self._db = opened.enter_context(contextlib.closing(connect_reader(path)))
            self._db.execute("PRAGMA query_only = OFF")  # it forbids temporary files too
            self._db.execute(f"CREATE TEMP TABLE report ({columns})")
            self._db.execute(f"INSERT INTO temp.report ({columns}) {statements('reports')[kind]}")
            self._db.execute("PRAGMA query_only = ON")
            opened.pop_all()

    def read(self) -> Sequence[Values]:
        sql = "SELECT rowid, * FROM temp.report WHERE rowid > ? ORDER BY rowid LIMIT ?"
        with described(self._name):
            rows = self._db.execute(sql, (self._last, _ROWS_AT_ONCE)).fetchall()
        self._last = rows[-1][0] if rows else self._last
        return [row[1:] for row in rows]

    def close(self) -> None:
        self._db.close()


def file_store(
    path: Path | str,
    *,
    wall: Callable[[], float],
    monotonic: Callable[[], float] | None = None,
    sleep_until: Callable[[float], Awaitable[None]] | None = None,
    uptime: Callable[[], Uptime | None] | None = None,
    queries_per_path_max: float = 1000,
    file_mode: int = FILE_MODE,
) -> Store:
    """Return the store in a file, which `open_session` opens and locks, and `close` releases.

    `wall` gives Unix seconds. With `monotonic` (seconds from any moment), setting the wall clock
    during a session moves no host's clock; with `uptime`, neither does setting it between two
    sessions. `sleep_until` waits for a `monotonic` time.
    """
    calls = Transactions(
        FileDatabase(Path(path), mode=file_mode),
        Timekeeper(wall, monotonic, uptime),
        monotonic=monotonic,
        sleep_until=sleep_until,
        queries_per_path_max=queries_per_path_max,
    )
    return Store(calls, file_reader(path))


def memory_store(
    *,
    wall: Callable[[], float],
    monotonic: Callable[[], float] | None = None,
    queries_per_path_max: float = 1000,
) -> Store:
    """Return a store in memory, for crawls without a database. No call waits, so none can be
    interrupted.

    It keeps its content when it is closed and opened again, and ends with this object.
    """
    database = MemoryDatabase()
    calls = Transactions(
        database,
        Timekeeper(wall, monotonic),
        monotonic=monotonic,
        queries_per_path_max=queries_per_path_max,
    )
    return Store(calls, Reader(database))

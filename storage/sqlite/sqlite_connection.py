"""The connection by which a store writes to an SQLite database."""

from __future__ import annotations

import contextlib
import sqlite3

from storage.sqlite import fault_kinds
from storage.sqlite.file_guard import FileGuard
from storage.sqlite.statements import SqliteStatements
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

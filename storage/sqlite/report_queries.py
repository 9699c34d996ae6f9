"""Reports. They read whole tables beside a crawl: rows go to a temporary file first, so that
no transaction is open while a caller reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from storage.columns import REPORTS
from storage.sqlite.sqlite_connection import SqliteConnection
from storage.sqlite.statements import statements

_ROWS_AT_ONCE: Final = 500


def rows(db: sqlite3.Connection, kind: str) -> Sequence[tuple[Any, ...]]:
    """All rows of a report."""
    return db.execute(statements("reports")[kind]).fetchall()


def spool(db: sqlite3.Connection, kind: str) -> None:
    """Write the rows of a report to a temporary file, for `spooled`."""
    db.execute("PRAGMA query_only = OFF")  # it forbids temporary files too
    names = ", ".join(REPORTS[kind])
    db.execute(f"CREATE TEMP TABLE report ({names})")
    db.execute(f"INSERT INTO temp.report ({names}) {statements('reports')[kind]}")
    db.execute("PRAGMA query_only = ON")


def spooled(connection: SqliteConnection, *, after: int) -> Sequence[tuple[Any, ...]]:
    """Return the next rows, each behind its number, which the next call takes as `after`."""
    sql = "SELECT rowid, * FROM temp.report WHERE rowid > ? ORDER BY rowid LIMIT ?"
    return connection.sql.db.execute(sql, (after, _ROWS_AT_ONCE)).fetchall()

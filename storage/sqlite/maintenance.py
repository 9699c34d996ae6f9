"""Offline maintenance of a database: information, consistency check, vacuum."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Final

from storage.database_info import (
    FINDINGS_MAX,
    SESSIONS_SHOWN,
    DatabaseInfo,
    Session,
    wrong_hosts,
    wrong_origins,
)
from storage.safe_files import real_path
from storage.sqlite import fault_kinds
from storage.sqlite.file_lock import FileLock
from storage.sqlite.schema import FAILURES, check_file, connect_reader, connect_writer, translate
from storage.sqlite.statements import statements
from storage.store_errors import StoreError
from storage.transient_faults import RETRY_S_MIN, FaultKind, words_of

_log = logging.getLogger("courtly.store")

LOCK_WAIT_S_MAX: Final = 30.0  # for another program that writes or reads


def info(path: Path) -> DatabaseInfo:
    """Read facts about a database, beside a crawl too. Raises StoreRefused and StoreError."""
    try:
        with closing(connect_reader(path, older=True)) as db, db:
            db.execute("BEGIN")
            (schema,) = db.execute("PRAGMA user_version").fetchone()
            (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
            (free_pages,) = db.execute("PRAGMA freelist_count").fetchone()
            visited, blocked, failed, queued, hosts, *_ = db.execute(
                statements()["totals"]
            ).fetchone()
            urls, origins, copies = db.execute(statements()["sizes"]).fetchone()
            last = db.execute(statements()["crawl"]).fetchone()
            sessions = db.execute(statements()["last_sessions"], (SESSIONS_SHOWN,)).fetchall()
    except FAILURES as error:
        raise translate(error, f"the database {path}") from error
    return DatabaseInfo(
        database=str(path),
        schema=schema,
        bytes=_bytes_of(real_path(path)),
        free_bytes=free_pages * page_bytes,
        urls=urls,
        visited=visited,
        blocked=blocked,
        failed=failed,
        queued=queued,
        hosts=hosts,
        origins=origins,
        robots_copies=copies,
        sessions=[
            Session(id=key, name=name, began_at=began, ended_at=ended)
            for key, name, began, ended in sessions
        ],
        last_at=None if last is None or not last[0] else last[1] - last[2],
    )


def _bytes_of(file: Path) -> int:
    """Return the size of a database and its WAL."""
    parts = (file, file.with_name(file.name + "-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


# ---------------------------------------------------------------- consistency


def check(path: Path) -> list[str]:
    """Return all inconsistencies as sentences; none for a sound database.

    Reads the whole file; works beside a crawl, on one moment's state. Raises StoreRefused if the
    file is not ours, and StoreError if it cannot be read.
    """
    try:
        with closing(connect_reader(path)) as db:
            db.execute("BEGIN")
            found = [f"SQLite: {text}" for text in _integrity(db)]
            found += _damaged_texts(db)
            if found:
                return found  # counts of a damaged file mean nothing
            found += [
                f"table {table}: row {row} refers to a row of {parent} that does not exist"
                for table, row, parent, _ in _first(db, "PRAGMA foreign_key_check")
            ]
            queries = dict(statements("checks"))
            recounted, summed = queries.pop("recounted"), queries.pop("summed")
            for sql in queries.values():
                count, sentence = db.execute(sql).fetchone()
                if count:
                    found.append(f"{count:,} {sentence}")
            found += wrong_origins(db.execute(recounted))
            found += wrong_hosts(db.execute(summed))
            return found
    except FAILURES as error:
        failure = translate(error, f"the database {path}")
        if "damaged" in str(failure):
            return [f"{failure}"]
        raise failure from error


def _integrity(db: sqlite3.Connection) -> Iterator[str]:
    for (text,) in db.execute(f"PRAGMA integrity_check({FINDINGS_MAX})"):
        if text != "ok":
            yield str(text)


# Tables whose rows belong to URLs, and the column with the id.
_OF_URLS: Final = {
    "urls": "id", "pages": "id", "tries": "id", "failures": "id", "readings": "id", "hints": "id",
    "data": "id",
    "plans": "id", "edges": "source", "hrefs": "source", "pointers": "source", "elements": "page",
}  # fmt: skip


def _damaged_texts(db: sqlite3.Connection) -> list[str]:
    """Find strings that are not UTF-8, which SQLite does not check."""
    found: list[str] = []
    tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        columns = db.execute(f"PRAGMA table_info({table})").fetchall()
        keys = [name for _, name, *_, place in sorted(columns, key=itemgetter(5)) if place]
        for _, column, kind, *_ in columns:
            if kind == "TEXT" and len(found) < FINDINGS_MAX:
                found += _damaged_in(db, table, column, keys or ["rowid"])
    return found[:FINDINGS_MAX]


def _damaged_in(
    db: sqlite3.Connection, table: str, column: str, keys: Sequence[str]
) -> Iterator[str]:
    shown = [f"CAST({key} AS BLOB)" if key == column else key for key in keys]
    rows = db.execute(
        f"SELECT {', '.join(shown)}, CAST({column} AS BLOB) FROM {table}"  # noqa: S608
        f" WHERE {column} GLOB '*[^ -~]*'"  # everything else is ASCII
    )
    for *key, text in rows:
        if _is_utf8(text):
            continue
        words = ", ".join(_readable(value) for value in key)
        url = _url_of(db, key[keys.index(_OF_URLS[table])]) if table in _OF_URLS else ""
        yield (
            f"table {table}, row {words}{url}: {column} is damaged, it is not UTF-8:"
            f' "{_readable(text)}"'
        )


def _is_utf8(text: object) -> bool:
    try:
        if isinstance(text, bytes):
            text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _readable(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _url_of(db: sqlite3.Connection, key: object) -> str:
    row = db.execute(
        "SELECT o.name || u.path FROM urls AS u JOIN origins AS o ON o.id = u.origin"
        " WHERE u.id = ?",
        (key,),
    ).fetchone()
    return "" if row is None else f" ({row[0]})"


def _first(db: sqlite3.Connection, sql: str) -> list[tuple[object, ...]]:
    return db.execute(sql).fetchmany(FINDINGS_MAX)


# ---------------------------------------------------------------- vacuum


def vacuum(path: Path) -> tuple[int, int]:
    """Rewrite the file without its free pages; return its size before and after.

    Takes as much room again while it runs, beside it and where temporary files go. Raises
    StoreRefused if a crawl holds the database, and StoreError if the disk is full, which changes
    nothing.
    """
    path = real_path(path)
    lock = FileLock(path)
    try:
        check_file(path, must_exist=True)  # no lock file beside a foreign file
        lock.acquire()
        return _vacuum_when_free(path)
    except FAILURES as error:
        raise translate(error, f"the database {path}") from error
    except OSError as error:
        raise StoreError(f"the database {path} cannot be used: {words_of(error)}") from error
    finally:
        lock.release()


def _vacuum_when_free(path: Path) -> tuple[int, int]:
    """Repeat until no other program uses the database. SQLite waits a second at a time, and signals
    are handled in between."""
    until_s = time.monotonic() + LOCK_WAIT_S_MAX
    told = False
    while True:
        try:
            return _vacuum_once(path)
        except (_InUseError, *FAILURES) as error:
            name = f"the database {path}"
            found = error if isinstance(error, StoreError) else translate(error, name)
            passes = found is error or fault_kinds.kind_of(error) is FaultKind.LOCKED
            if not passes or time.monotonic() >= until_s:
                raise
            if not told:
                _log.warning("%s; trying again for %.0f s", found, LOCK_WAIT_S_MAX)
                told = True
        time.sleep(RETRY_S_MIN)


def _vacuum_once(path: Path) -> tuple[int, int]:
    with closing(connect_writer(path)) as db:
        _truncate_wal(db, path)
        before = path.stat().st_size
        db.execute("PRAGMA temp_store = FILE")  # otherwise the copy is made in memory
        db.execute("VACUUM")
        _truncate_wal(db, path)
    return before, path.stat().st_size


class _InUseError(StoreError):
    """Another program is using the database."""


def _truncate_wal(db: sqlite3.Connection, path: Path) -> None:
    (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise _InUseError(f"the database {path} is in use by another program: try again later")

"""What makes a file a database of ours: its marks, its migrations, and the refusal of others."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from storage.base import StoreError, StoreRefused
from storage.sqlite.fingerprint import fingerprint
from storage.sqlite.statements import SCRIPTS

APPLICATION_ID: Final = int.from_bytes(b"Crtl")
_LIBRARY_MIN: Final = (3, 37, 0)  # STRICT tables
_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_BUSY_TIMEOUT_S: Final = 5.0
_CACHE_KIB: Final = 65_536  # the most the writer keeps in memory, whatever the file's size
_READER_CACHE_KIB: Final = 16_384
_WAL_BYTES_KEPT: Final = 64_000_000
# 48 MB: a page that is written again and again goes to its place once. At ten million URLs that
# takes a fifteenth less CPU than with 16 MB. Each time the disk is waited for, some 0.2 s.
_CHECKPOINT_PAGES: Final = 12_000
_STATEMENTS_KEPT: Final = 512  # some 70 names, those run for many rows in up to 20 sizes

_CAUSES: Final = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "reading or writing it failed",
    "SQLITE_BUSY": "another program holds a lock on it",
    "SQLITE_LOCKED": "another program holds a lock on it",
    "SQLITE_READONLY": "it, or its directory, cannot be written",
    "SQLITE_PERM": "it may not be accessed",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_NOTADB": "it is damaged",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_TOOBIG": "a value is too large for it",
}


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that make the schema; the first makes version 1 of nothing."""
    found = sorted(
        (entry.name, entry)
        for entry in SCRIPTS.iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", entry.name)
    )
    return tuple(entry.read_text(encoding="utf-8") for _, entry in found)


def whole() -> str:
    """The script that makes of nothing at once what the migrations make one after the other."""
    return (SCRIPTS / "schema.sql").read_text(encoding="utf-8")


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """A failure of the medium as one sentence that names the file and the cause."""
    name = getattr(error, "sqlite_errorname", None) or ""
    cause = next((text for code, text in _CAUSES.items() if name.startswith(code)), None)
    detail = f" ({error})" if cause is None or name.startswith("SQLITE_IOERR") else ""
    return StoreError(f"the database {path} cannot be used: {cause or 'SQLite failed'}{detail}")


def check_file(path: Path, *, must_exist: bool = False) -> bool:
    """Judge a file without touching it; give whether there is one. Raises StoreRefused."""
    if sqlite3.sqlite_version_info < _LIBRARY_MIN:
        raise StoreRefused(
            f"SQLite {sqlite3.sqlite_version} is too old; courtly needs 3.37 or newer"
        )
    try:
        if not path.parent.is_dir():
            raise StoreRefused(f"{path} cannot be opened: there is no directory {path.parent}")
        if not path.exists():
            if must_exist:
                raise StoreRefused(f"there is no database {path}")
            return False
        if not path.is_file():
            raise StoreRefused(f"{path} is not a file")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            size = path.stat().st_size
    except OSError as error:
        raise StoreRefused(f"{path} cannot be read: {error.strerror}") from error
    if not header and not must_exist:
        return False
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreRefused(f"{path} is not an SQLite database")
    _check_marks(path, int.from_bytes(header[68:72]), int.from_bytes(header[60:64]))
    page_bytes = int.from_bytes(header[16:18])
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    wal = path.with_name(path.name + "-wal")
    # What a crash left in the WAL may belong beyond the end; without one the file must be whole.
    if size < page_bytes * int.from_bytes(header[28:32]) and not _has_bytes(wal):
        raise StoreRefused(f"{path} is damaged: it is shorter than it says")
    return True


def _has_bytes(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _check_marks(path: Path, application_id: int, version: int) -> None:
    if application_id != APPLICATION_ID:
        raise StoreRefused(f"{path} is an SQLite database, but not one of courtly's")
    if version > len(migrations()):
        raise StoreRefused(
            f"{path} was made by a newer courtly (its schema is {version},"
            f" this one knows {len(migrations())})"
        )


def _check_age(path: Path, version: int) -> None:
    if version < len(migrations()):
        raise StoreRefused(
            f"{path} was made by an older courtly (its schema is {version}, this one reads"
            f" {len(migrations())}): `courtly db vacuum` or a crawl brings it up to date"
        )


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open for writing, made or brought up to date if need be. The caller holds the lock."""
    exists = check_file(path)
    db = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        cached_statements=_STATEMENTS_KEPT,
        check_same_thread=False,
    )
    try:
        db.execute(
            "PRAGMA foreign_keys = OFF"
        )  # ids are ours; checking them twice costs a lookup each
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if exists:
            _check_marks(path, _pragma(db, "application_id"), _pragma(db, "user_version"))
        migrate(db)
        # Not before: what a migration drops is noted for its undoing, a table's worth of it.
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA journal_mode = WAL").fetchall()
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}").fetchall()
        db.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(path: Path, *, older: bool = False) -> sqlite3.Connection:
    """Open for reading, beside a crawl that writes or after it.

    Raises StoreRefused; also for a schema before ours, unless `older` ones are understood."""
    check_file(path, must_exist=True)
    uri = path.absolute().as_uri()
    # With no writer about and a directory that cannot be written, SQLite could not make its index
    # of the WAL; but then there is no WAL either.
    modes = ("mode=ro", "mode=ro&immutable=1")
    for mode in modes[: 1 if _has_bytes(path.with_name(path.name + "-wal")) else 2]:
        db = sqlite3.connect(
            f"{uri}?{mode}",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            db.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
            db.execute("PRAGMA query_only = ON")
            version = _pragma(db, "user_version")
            _check_marks(path, _pragma(db, "application_id"), version)
            if not older:
                _check_age(path, version)
        except sqlite3.OperationalError:
            db.close()
            if mode == modes[-1]:
                raise
        except BaseException:
            db.close()
            raise
        else:
            return db
    raise StoreRefused(f"{path} cannot be opened for reading")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def migrate(db: sqlite3.Connection) -> None:
    """Bring the schema up to date, in one transaction. Ten million URLs take a minute."""
    version = _pragma(db, "user_version")
    if version == len(migrations()):
        return
    db.create_function("fingerprint", 2, fingerprint, deterministic=True)
    db.execute("BEGIN IMMEDIATE")
    try:
        for script in migrations()[version:] if version else (whole(),):
            for statement in _statements_of(script):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(migrations())}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _statements_of(script: str) -> Iterator[str]:
    """Split a script where statements end: `executescript` would commit before it runs."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement
            statement = ""

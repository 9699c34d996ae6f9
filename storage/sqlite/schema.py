"""The schema, its versions, and the connections; files of other kinds and versions are refused."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from storage.safe_files import FILE_MODE, open_exclusive, real_path
from storage.sql_source import read_script, shared_script
from storage.sqlite import dialect
from storage.sqlite.connection_locks import LockedConnection
from storage.sqlite.file_lock import is_locked_here
from storage.sqlite.statements import SCRIPTS
from storage.store_errors import StoreError, StoreRefused
from storage.transient_faults import kind_of, words_of

APPLICATION_ID: Final = int.from_bytes(b"Crtl")
COPY_ID: Final = int.from_bytes(b"Crtc")  # while `courtly db copy` is incomplete
# Versions of the schema, in PRAGMA user_version. Those before the first were never released.
FIRST_VERSION: Final = 15
SCHEMA_VERSION: Final = 15
_LIBRARY_MIN: Final = (3, 37, 0)  # STRICT tables
_BUSY_TIMEOUT_S: Final = 5.0
# Of the writer: short, because the store repeats the call, and answers others in between.
_WRITER_BUSY_TIMEOUT_S: Final = 0.25
# The system caches the file as well; a larger cache saves no CPU time, even with a million URLs.
_CACHE_KIB: Final = 16_384
_READER_CACHE_KIB: Final = 4_096
_WAL_BYTES_KEPT: Final = 64_000_000
# 48 MB of log: a page that is written repeatedly is copied once. Each checkpoint waits for the
# disk, some 0.2 s.
_CHECKPOINT_PAGES: Final = 12_000
# Errors of SQLite where it cannot create the index of a WAL.
_NO_INDEX: Final = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR")
_STATEMENTS_KEPT: Final = 512  # some 140 names, some of them in up to 20 sizes

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


# What reading a damaged file may raise: SQLite's errors, those of strings that are not UTF-8 (also
# where an error message quotes one), and those of values that no store writes.
FAILURES: Final = (sqlite3.Error, UnicodeDecodeError, zlib.error, msgspec.DecodeError)


def translate(error: Exception, name: str) -> StoreError:
    """Describe a failure of the medium (one of FAILURES) in one sentence. `name`: of the database,
    such as "the database crawl.db"."""
    code = getattr(error, "sqlite_errorname", None) or ""
    cause = next((text for start, text in _CAUSES.items() if code.startswith(start)), None)
    if not isinstance(error, sqlite3.Error) or "decode to UTF-8" in str(error):
        cause = _CAUSES["SQLITE_CORRUPT"]
    detail = f" ({error})" if cause is None or code.startswith("SQLITE_IOERR") else ""
    return StoreError(f"{name} cannot be used: {cause or 'SQLite failed'}{detail}")


@contextlib.contextmanager
def described(name: str) -> Iterator[None]:
    """Raise StoreError for failures of the medium in the block."""
    try:
        yield
    except FAILURES as error:
        raise translate(error, name) from error


def check_file(path: Path, *, must_exist: bool = False, copies: bool = False) -> bool:
    """Check a file without changing it; return whether it contains a database.

    copies: an incomplete copy will do.

    It is read by SQLite alone: closing a descriptor of our own would release all locks that this
    process holds on the file, those of a crawl among them (POSIX locks are the process's), and the
    next program to close the database would then remove the write-ahead log under that crawl.
    Raises StoreRefused, and sqlite3.Error or OSError where reading fails.
    """
    if not check_place(path, must_exist=must_exist):
        return False
    _connect_to_look(path, blank_ok=not must_exist, copies=copies).close()
    return True


def check_place(path: Path, *, must_exist: bool = False) -> bool:
    """Return whether there is a non-empty file. Raises StoreRefused if the path cannot be a
    database, and OSError for a transient fault (`storage.transient_faults`)."""
    if sqlite3.sqlite_version_info < _LIBRARY_MIN:
        raise StoreRefused(
            f"SQLite {sqlite3.sqlite_version} is too old; courtly needs 3.37 or newer"
        )
    try:
        if not path.parent.is_dir():
            raise StoreRefused(f"{path} cannot be opened: there is no directory {path.parent}")
        _check_beside(path)
        found = path.stat()
    except FileNotFoundError:
        if must_exist:
            raise StoreRefused(f"there is no database {path}") from None
        return False
    except OSError as error:
        if kind_of(error) is not None:
            raise
        raise StoreRefused(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreRefused(f"{path} is not a file")
    if not found.st_size and must_exist:
        raise StoreRefused(f"{path} is not an SQLite database")
    return found.st_size > 0


def _check_beside(path: Path) -> None:
    """Refuse hard links among the files beside the database: readers write to them too, and would
    overwrite them under all their names. Raises StoreRefused, OSError."""
    file = real_path(path)
    for end in ("-wal", "-shm", "-journal"):
        beside = file.with_name(file.name + end)
        with contextlib.suppress(FileNotFoundError):
            found = beside.stat()
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                raise StoreRefused(
                    f"{path} cannot be used: {beside} has {found.st_nlink} names (hard links), and "
                    "would be overwritten under every name: move it away"
                )


def _connect_to_look(path: Path, **accepted: bool) -> sqlite3.Connection:
    """Open a database of courtly for reading. Raises StoreRefused, sqlite3.Error."""
    file = real_path(path)
    uri = file.absolute().as_uri()
    try:
        return _connect_checked(path, f"{uri}?mode=ro", **accepted)
    except sqlite3.OperationalError as error:
        # Without a writer and in a directory that is not writable, SQLite cannot create the index
        # of the WAL; but then there is no WAL either. Not beside our own writer: an immutable
        # connection ignores the locks of the others, and closing it would release them.
        name = getattr(error, "sqlite_errorname", None) or ""
        wal = file.with_name(file.name + "-wal")
        if not name.startswith(_NO_INDEX) or is_locked_here(file) or _has_bytes(wal):
            raise
        return _connect_checked(path, f"{uri}?mode=ro&immutable=1", **accepted)


def _connect_checked(path: Path, uri: str, **accepted: bool) -> sqlite3.Connection:
    db = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        _check_marks(path, db, **accepted)
    except BaseException:
        db.close()
        raise
    return db


def _has_bytes(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _check_marks(
    path: Path, db: sqlite3.Connection, *, blank_ok: bool = False, copies: bool = False
) -> int:
    """Return the version of the schema. Raises StoreRefused for another kind of file, or version.

    blank_ok: one that has nothing in it will do. Another program makes that of an empty file by
    beginning to write before we do. copies: an incomplete copy will do."""
    try:
        application_id, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        if name == "SQLITE_NOTADB":
            raise StoreRefused(f"{path} is not an SQLite database") from error
        if name == "SQLITE_CORRUPT" and _is_cut(path, db):
            raise StoreRefused(f"{path} is damaged: it is shorter than its header says") from error
        raise
    if blank_ok and application_id == version == 0 and _is_blank(db):
        return 0
    if application_id == COPY_ID and not (copies and version == SCHEMA_VERSION):
        raise StoreRefused(
            f"{path} is an incomplete copy: run the same `courtly db copy` again to complete it"
        )
    if application_id not in (APPLICATION_ID, COPY_ID):
        raise StoreRefused(f"{path} is an SQLite database, but not one of courtly's")
    if version > SCHEMA_VERSION:
        raise StoreRefused(
            f"{path} was made by a newer courtly (its schema is {version},"
            f" this one knows {SCHEMA_VERSION})"
        )
    if version < FIRST_VERSION:
        raise StoreRefused(
            f"{path} was made by a development version of courtly (its schema is {version}), and"
            " cannot be brought up to date: start a new database, or use the version that made it"
        )
    return version


def _check_shape(path: Path, db: sqlite3.Connection) -> None:
    """Refuse a database with our version whose tables are others. Versions are only unique once
    they are released."""
    if _shape(db) != _own_shape():
        raise StoreRefused(
            f"{path} was made by another commit of courtly, whose schema has the same number"
            f" ({SCHEMA_VERSION}) and other tables: start a new database, or use the commit that"
            " made it"
        )


def _shape(db: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    """All tables with their columns, and the definitions of views, indexes and triggers, in any
    order. (The text of a table differs once a migration has added a column to it.)"""
    found = db.execute(
        """
        SELECT one.type, one.name, iif(one.type = 'table', NULL, one.sql),
          its.name, its.type, its."notnull", its.pk
        FROM sqlite_schema AS one
        LEFT JOIN pragma_table_info(one.name) AS its ON one.type = 'table'
        WHERE one.name NOT LIKE 'sqlite!_%' ESCAPE '!'
        """
    )
    return frozenset(found)


@cache
def _own_shape() -> frozenset[tuple[object, ...]]:
    with contextlib.closing(connect_memory()) as db:
        return _shape(db)


def _is_blank(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def _is_cut(path: Path, db: sqlite3.Connection) -> bool:
    """Whether a file is shorter than its header says."""
    db.execute("PRAGMA writable_schema = ON")  # else SQLite reads no further than the header
    size = _pragma(db, "page_count") * _pragma(db, "page_size")
    return path.stat().st_size < size


def _check_age(path: Path, version: int) -> None:
    if version < SCHEMA_VERSION:
        raise StoreRefused(
            f"{path} was made by an older courtly (its schema is {version}, this one reads"
            f" {SCHEMA_VERSION}): `courtly db vacuum` or a crawl brings it up to date"
        )


def connect_writer(path: Path, *, mode: int = FILE_MODE, copies: bool = False) -> LockedConnection:
    """Open for writing; create the database, or bring it up to date, if needed. The caller holds
    the lock.

    mode: of a new file; SQLite gives the files beside it the same. copies: see `check_file`."""
    exists = check_place(path)
    if not exists and not path.exists():
        _make_empty(path, mode)
    db = LockedConnection(
        path.absolute(),  # some builds of SQLite take "file:x" for a URI
        timeout=_WRITER_BUSY_TIMEOUT_S,
        isolation_level=None,
        cached_statements=_STATEMENTS_KEPT,
        check_same_thread=False,
    )
    try:
        db.claim()
        db.execute("PRAGMA foreign_keys = OFF")  # checking them would cost a lookup each
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if exists and _check_marks(path, db, blank_ok=True, copies=copies) == SCHEMA_VERSION:
            _check_shape(path, db)
        migrate(db)
        # Not before: the journal of a migration may be as large as a table.
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA journal_mode = WAL").fetchall()
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}").fetchall()
        db.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    except BaseException:
        db.close()
        raise
    return db


def connect_memory() -> sqlite3.Connection:
    """Create a database in memory."""
    db = sqlite3.connect(
        ":memory:",
        isolation_level=None,
        cached_statements=_STATEMENTS_KEPT,
        check_same_thread=False,  # it may be closed by the garbage collector, in any thread
    )
    db.execute("PRAGMA temp_store = MEMORY")
    migrate(db)
    return db


def _make_empty(path: Path, mode: int) -> None:
    """Create an empty file. Nobody has it open, so closing the descriptor releases no locks."""
    try:
        os.close(open_exclusive(path, mode))
    except FileExistsError:
        pass
    except OSError as error:
        if kind_of(error) is not None:
            raise  # the store repeats the call
        raise StoreRefused(f"{path} cannot be created: {error.strerror}") from error


def connect_reader(path: Path, *, older: bool = False) -> sqlite3.Connection:
    """Open for reading, beside a crawl that writes or after it.

    Raises StoreRefused; also for a schema before ours, unless `older` ones are understood.
    Raises StoreError for faults of this machine, sqlite3.Error for those of the file."""
    try:
        check_place(path, must_exist=True)
        db = _connect_to_look(path)
    except (OSError, MemoryError) as error:
        raise StoreError(f"the database {path} cannot be used: {words_of(error)}") from error
    try:
        db.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
        db.execute("PRAGMA query_only = ON")
        version = _pragma(db, "user_version")
        if not older:
            _check_age(path, version)
        if version == SCHEMA_VERSION:
            _check_shape(path, db)
        db.text_factory = _readable  # from here on: it is called for each text
    except BaseException:
        db.close()
        raise
    return db


def _readable(text: bytes) -> str:
    """Decode damaged strings too, so that their rows can be shown; `check` reports them."""
    return text.decode("utf-8", "replace")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def new_schema() -> str:
    """Return the script that makes a new database."""
    return read_script(SCRIPTS / "schema.sql") + shared_script("views", dialect)


def migrate(db: sqlite3.Connection) -> None:
    """Create the schema, or bring it up to date, in one transaction.

    `new_schema` makes the newest version of a new database; `sql/0016.sql` would bring version
    15 to version 16, and so on."""
    version = _pragma(db, "user_version")
    if version == SCHEMA_VERSION:
        return
    numbers = range(version + 1, SCHEMA_VERSION + 1)
    scripts = [read_script(SCRIPTS / f"{n:04}.sql") for n in numbers] if version else [new_schema()]
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in chain.from_iterable(map(_statements_of, scripts)):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _statements_of(script: str) -> Iterator[str]:
    """Split a script into statements, because `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement
            statement = ""

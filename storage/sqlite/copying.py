"""Both ends of a copy, in SQLite files; see `storage.copying`."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from storage.copying import FORGET_STAMPS, SESSION_NAME, CrawlState, Table, Values
from storage.safe_files import FILE_MODE, real_path
from storage.sqlite.file_lock import FileLock
from storage.sqlite.schema import (
    APPLICATION_ID,
    COPY_ID,
    check_file,
    connect_reader,
    connect_writer,
    described,
)
from storage.store_errors import StoreRefused
from storage.timekeeper import Timekeeper, machine_uptime

# Columns that repeat what others say, for indexes.
_DERIVED: Final = {
    "slots": {"pending": "queued > 0"},
    "origins": {"pending": "queued > 0", "governs": "queued + judged + ungoverned > 0"},
}


class SqliteSource:
    """A file that the caller holds by a session."""

    def __init__(self, path: Path) -> None:
        """Raises StoreRefused and StoreError."""
        self.name = str(path)
        with described(f"the database {self.name}"):
            self._db = connect_reader(path)
        self._db.text_factory = str  # damaged strings are an error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._db.close()

    async def others(self, session: int) -> Mapping[str, int]:
        return {}  # the lock prevents them

    async def columns(self, table: str) -> Sequence[str]:
        with described(f"the database {self.name}"):
            return _columns(self._db, table)

    async def state(self) -> CrawlState:
        with described(f"the database {self.name}"):
            (secret,) = self._db.execute("SELECT bytes FROM secret").fetchone()
            session, paused, last_s, shift_s, boot, uptime_s, distrusted = self._db.execute(
                "SELECT session, paused, last_at, shift_s, boot, uptime_s, distrusted FROM crawl"
            ).fetchone()
            skips = dict(self._db.execute("SELECT reason, count FROM skips"))
            (writer,) = self._db.execute(
                "SELECT coalesce(max(id), 0) FROM sessions WHERE name <> ?", (SESSION_NAME,)
            ).fetchone()
        up = machine_uptime()
        clock = Timekeeper(time.time)
        clock.resume(last_s, shift_s, None if up is None else up.since(boot, uptime_s))
        return CrawlState(
            secret=secret,
            session=session,
            writer=writer,
            paused=bool(paused),
            now_s=clock.now_s(),
            distrusted=distrusted,
            skips=skips,
        )

    async def rows(
        self, table: Table, columns: Sequence[str], after: Values | None
    ) -> Sequence[Values]:
        key = ", ".join(table.key)
        where = "" if after is None else f"WHERE ({key}) > ({_marks(table.key)})"
        sql = f"SELECT {', '.join(columns)} FROM {table.name} {where} ORDER BY {key} LIMIT ?"  # noqa: S608
        with described(f"the database {self.name}"):
            return self._db.execute(sql, (*(after or ()), table.rows_at_once)).fetchall()


class SqliteTarget:
    """A file, locked while this is open. It is created if there is none."""

    def __init__(self, path: Path, *, mode: int = FILE_MODE) -> None:
        """Raises StoreRefused and StoreError; nothing is held then."""
        self.name = str(path)
        path = real_path(path)
        self._lock = FileLock(path, mode=mode)
        with described(f"the database {self.name}"), contextlib.ExitStack() as opened:
            check_file(path, copies=True)  # no lock file beside a foreign file
            opened.callback(self._lock.release)
            self._lock.acquire()
            self._db = connect_writer(path, mode=mode, copies=True)
            self._db.lock_files()
            opened.pop_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            self._db.close()
        finally:
            self._lock.release()

    async def columns(self, table: str) -> Sequence[str]:
        with described(f"the database {self.name}"):
            return _columns(self._db, table)

    async def copied_from(self) -> tuple[bytes, int] | None:
        with described(f"the database {self.name}"):
            mark = self._db.execute("PRAGMA application_id").fetchone()
            row = self._db.execute("SELECT s.bytes, c.session FROM secret AS s, crawl AS c")
            found: tuple[bytes, int] | None = row.fetchone()
        if mark == (COPY_ID,):
            return found
        if found is not None:
            raise StoreRefused(f"{self.name} holds a crawl: copy to a database that does not exist")
        return None

    async def begin(self, state: CrawlState) -> None:
        with self._transaction():
            self._db.execute(f"PRAGMA application_id = {COPY_ID}")
            self._db.execute("UPDATE secret SET bytes = ?", (state.secret,))
            self._db.execute(
                "INSERT OR REPLACE INTO crawl (id, session, last_at, shift_s) VALUES (1, ?, 0, 0)",
                (state.writer,),
            )

    async def last_key(self, table: Table) -> Values | None:
        order = ", ".join(f"{name} DESC" for name in table.key)
        sql = f"SELECT {', '.join(table.key)} FROM {table.name} ORDER BY {order} LIMIT 1"  # noqa: S608
        with described(f"the database {self.name}"):
            row: Values | None = self._db.execute(sql).fetchone()
            return row

    async def write(self, table: Table, columns: Sequence[str], rows: Sequence[Values]) -> None:
        derived = _DERIVED.get(table.name, {})
        named = ", ".join(f"? AS {name}" for name in columns)
        names, values = ", ".join([*columns, *derived]), ", ".join([*columns, *derived.values()])
        with self._transaction():
            self._db.executemany(
                f"INSERT INTO {table.name} ({names}) SELECT {values} FROM (SELECT {named})",  # noqa: S608
                rows,
            )

    async def finish(self, state: CrawlState) -> None:
        up = machine_uptime()
        clock = Timekeeper(time.time)
        clock.resume(state.now_s, 0.0, 0.0)
        with self._transaction():
            self._db.execute(
                "UPDATE crawl SET session = ?, paused = ?, last_at = ?, shift_s = ?, boot = ?,"
                " uptime_s = ?",
                (
                    state.session, state.paused, state.now_s, clock.shift_s(),
                    up and up.boot, up and up.uptime_s,
                ),
            )  # fmt: skip
            for sql in FORGET_STAMPS:
                self._db.execute(sql.format(state.distrusted))
            self._db.execute("DELETE FROM skips")
            self._db.executemany("INSERT INTO skips VALUES (?, ?)", state.skips.items())
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with described(f"the database {self.name}"):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _columns(db: sqlite3.Connection, table: str) -> Sequence[str]:
    derived = _DERIVED.get(table, {})
    names = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    return [name for name in names if name not in derived]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))

"""The named SQL statements, each of which can run for many rows in one execution.

Every statement and every fetched row releases the interpreter's lock, and getting it back from the
event loop of a busy crawl takes milliseconds. So rows are passed in as long VALUES lists and
returned as one JSON value: a commit of 20 pages is a dozen statements.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from storage.engine.statements import Parameter, Value, Values
from storage.sql_source import statements_of
from storage.sqlite import dialect

T = TypeVar("T")

SCRIPTS: Final = Path(__file__).parent / "sql"

_ROW: Final = re.compile(r"VALUES (\([?, ]+\))")
_ROWS_MAX: Final = 64  # longer statements take more time to prepare than to run


@cache
def statements(file: str = "statements") -> dict[str, str]:
    """The statements of `FILE.sql` by name."""
    return statements_of(file, dialect)


@cache
def for_rows(name: str, rows: int) -> str:
    """Return a statement with its row of VALUES repeated."""
    return _ROW.sub(lambda found: "VALUES " + ", ".join([found[1]] * rows), statements()[name], 1)


class SqliteIds:
    """Ids without gaps: an SQLite database has one writer."""

    def __init__(self, sql: SqliteStatements) -> None:
        self._sql = sql
        self._url = self._slot = self._origin = self._text = 0

    def start(self) -> None:
        newest = self._sql.row("newest_ids") or ()
        self._url, self._slot, self._origin, self._text = (int(key or 0) for key in newest)

    def slot(self, name: str) -> int:
        self._slot += 1
        return self._slot

    def origin(self, name: str, slot: int | None) -> int:
        self._origin += 1
        return self._origin

    def url(self, origin: int) -> int:
        self._url += 1
        return self._url

    def text(self) -> int:
        self._text += 1
        return self._text


class SqliteStatements:
    """`Statements` of a connection."""

    shared = False
    generation = 0
    alone = True
    settling = False

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.ids = SqliteIds(self)

    def run(self, name: str, *values: Value) -> int:
        """Execute a statement; return how many rows changed."""
        return self.db.execute(statements()[name], values).rowcount

    def row(self, name: str, *values: Value) -> Values | None:
        """Return the first row of a query."""
        rows: list[Values] = self.db.execute(statements()[name], values).fetchall()
        return rows[0] if rows else None

    def secret(self) -> bytes:
        """Return the key of this database's fingerprints."""
        (secret,) = self.row("secret") or (None,)
        assert isinstance(secret, bytes)
        return secret

    def rows(self, name: str, *values: Value) -> Iterable[Values]:
        """Return the rows of a query one by one, for queries of which few rows are read."""
        return self.db.execute(statements()[name], values)

    def read(self, shape: type[list[T]], name: str, *values: Value) -> list[T]:
        """Return the decoded JSON value of a query."""
        return self._decode(shape, statements()[name], values)

    def many(self, name: str, rows: Sequence[Values], *values: Value) -> None:
        """Execute a statement for many rows (or none)."""
        if not rows:
            return
        for sql, flat in _chunks(name, rows, values):
            self.db.execute(sql, flat)

    def read_many(
        self, shape: type[list[T]], name: str, rows: Sequence[Values], *values: Value
    ) -> list[T]:
        """Return the decoded JSON values of a query for many rows, joined."""
        found: list[T] = []
        for sql, flat in _chunks(name, rows, values):
            found += self._decode(shape, sql, flat)
        return found

    def rows_many(self, name: str, rows: Sequence[Values], *values: Value) -> Iterable[Values]:
        """Return the rows of a query for many rows."""
        for sql, flat in _chunks(name, rows, values):
            yield from self.db.execute(sql, flat)

    def select(self, sql: str, values: Mapping[str, Parameter]) -> Sequence[Values]:
        bound: dict[str, Value] = {}
        for name, value in values.items():
            if value is None or isinstance(value, str | bytes | int | float):
                bound[name] = value
            else:
                bound[name] = json.dumps(list(value))
                sql = sql.replace(f"IN :{name}", f"IN (SELECT value FROM json_each(:{name}))")  # noqa: S608
        return self.db.execute(sql, bound).fetchall()

    def exact(self, column: str) -> str:
        return f"CAST({column} AS BLOB)"

    def _decode(self, shape: type[list[T]], sql: str, values: Sequence[Value]) -> list[T]:
        (text,) = self.db.execute(sql, values).fetchone()
        return _decoder(shape).decode(text)


@cache
def _decoder(shape: type[list[T]]) -> msgspec.json.Decoder[list[T]]:
    return msgspec.json.Decoder(shape, strict=False)  # a bool is stored as 0 or 1


def _chunks(name: str, rows: Sequence[Values], values: Values) -> Iterable[tuple[str, list[Value]]]:
    """Split rows into chunks of a few sizes, padded, so that few statements need to be prepared."""
    for start in range(0, len(rows), _ROWS_MAX):
        part = rows[start : start + _ROWS_MAX]
        size = _size(len(part))
        flat: list[Value] = list(chain.from_iterable(part))
        flat += [None] * ((size - len(part)) * len(part[0]))
        flat += values
        yield for_rows(name, size), flat


def _size(rows: int) -> int:
    """Round up to 1 to 8, 10, 12, 14, 16, 20, 24, …, 56 or 64. A padding row costs half as much as
    a real one, so powers of two would waste more."""
    step = max(1, 1 << (rows - 1).bit_length() >> 3)
    return -(-rows // step) * step

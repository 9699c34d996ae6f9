"""The named SQL statements of a PostgreSQL connection, for code that does not wait.

A statement for many rows takes one array per column, or one of rows. Much is returned as one JSON
value, as by the statements of SQLite: it is decoded faster than rows are.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import zlib
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import asyncpg
import msgspec

from storage.engine.statements import Parameter, TransactionConflict, Value, Values
from storage.postgres import dialect
from storage.postgres.dialect import with_numbers
from storage.postgres.errors import ends_connection
from storage.sql_source import statements_of

T = TypeVar("T")

SCRIPTS: Final = Path(__file__).parent / "sql"
SHARDS: Final = 256
_ROW_TYPE: Final = re.compile(r"unnest\(\$1::(\w+_row)\[\]\)")
_NUMBERS_AT_ONCE: Final = 512  # of a sequence
# Foreign keys are violated only where another session deletes a robots.txt body that this one is
# about to refer to.
_CONFLICTS: Final = (
    asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.ForeignKeyViolationError,
)  # fmt: skip
OF_DRIVER: Final = (  # errors; any other one that comes from it is a bug in it
    asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError,
    MemoryError,
)  # fmt: skip
_Sequence = Literal["slot", "origin", "url", "text"]


@cache
def statements(file: str = "statements") -> dict[str, str]:
    """The statements of `FILE.sql` by name."""
    return statements_of(file, dialect)


@cache
def _row_type(name: str) -> str | None:
    """Return the type of the rows of a statement that takes them as one array."""
    found = _ROW_TYPE.search(statements()[name])
    return None if found is None else found[1]


async def learn_types(db: asyncpg.Connection[Any]) -> None:
    """Have the driver look up all types of rows at once, and not one by one when they are used."""
    types = {_row_type(name) for name in statements()} - {None}
    names = ", ".join(f"${n}::{name}[]" for n, name in enumerate(types, start=1))
    await db.prepare(f"SELECT {names}")


def arguments(name: str, rows: Sequence[Sequence[object]]) -> Iterable[Sequence[object]]:
    """Return rows as a statement takes them."""
    return map(list, zip(*rows, strict=True)) if _row_type(name) is None else [rows]


@cache
def _decoder(shape: type[list[T]]) -> msgspec.json.Decoder[list[T]]:
    return msgspec.json.Decoder(shape, strict=False)  # a bool is stored as 0 or 1


class SequenceIds:
    """Ids from sequences, taken in blocks: unique among all sessions, but with gaps.

    Those of hosts, origins and URLs have the shard in their low 8 bits: a hash of the name of the
    host by which the origin was first found. It never changes, so that rows can be spread by it.
    """

    def __init__(self, sql: PostgresStatements) -> None:
        self._sql = sql
        self._blocks: dict[_Sequence, list[int]] = {}

    def start(self) -> None:
        """Nothing: a number is taken once, whatever becomes of the transaction."""

    def slot(self, name: str) -> int:
        return self._number("slot") * SHARDS + shard_of(name)

    def origin(self, name: str, slot: int | None) -> int:
        shard = shard_of(name) if slot is None else slot % SHARDS
        return self._number("origin") * SHARDS + shard

    def url(self, origin: int) -> int:
        return self._number("url") * SHARDS + origin % SHARDS

    def text(self) -> int:
        return self._number("text")

    def _number(self, kind: _Sequence) -> int:
        block = self._blocks.get(kind)
        if not block:
            rows = self._sql.read(list[int], f"next_{kind}s", _NUMBERS_AT_ONCE)
            block = self._blocks[kind] = rows[::-1]
        return block.pop()


def shard_of(name: str) -> int:
    """The shard of a host. Stored in ids, so it must never change."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % SHARDS


class PostgresStatements:
    """`storage.engine.statements.Statements` of a connection, which runs in `loop`."""

    shared = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until_s: float | None = None  # of the loop's clock
        self.db: asyncpg.Connection[Any] | None = None
        self.generation = 0
        self.alone = False
        self.settling = False
        self.ids = SequenceIds(self)

    def limit(self, seconds: float | None) -> None:
        """Have everything end within this time from now, with a TimeoutError; None: no limit."""
        self._until_s = None if seconds is None else self._loop.time() + seconds

    def complete(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. Raises what it raises."""
        if self._until_s is not None:
            call = self._in_time(call, self._until_s)
        try:
            return self._loop.run_until_complete(call)
        except asyncio.CancelledError as error:  # by asyncpg: nobody else can
            raise ConnectionResetError("the connection was lost") from error

    async def _in_time(self, call: Coroutine[Any, Any, T], until_s: float) -> T:
        async with asyncio.timeout_at(until_s):
            return await call

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call of the connection to its end. Raises TransactionConflict, OSError, MemoryError
        and errors of asyncpg. The connection is ended after one that may have left it unusable."""
        try:
            return self.complete(call)
        except _CONFLICTS as error:
            raise TransactionConflict from error
        except Exception as error:
            lost = self.db is None or self.db.is_closed()
            known = isinstance(error, OF_DRIVER)
            if lost or not known or ends_connection(error):
                self.drop()
            if isinstance(error, asyncpg.PostgresError) or (known and not lost):
                raise
            if lost:  # meanwhile, asyncpg raises errors of many kinds
                raise ConnectionResetError("the connection was lost") from error
            raise asyncpg.InterfaceError(f"asyncpg failed: {error!r}") from error

    def drop(self) -> None:
        """End the connection without a word to the server, which may not answer."""
        db, self.db = self.db, None
        if db is not None:
            db.terminate()
            self._loop.run_until_complete(asyncio.sleep(0))  # its callbacks

    def close(self) -> None:
        """End the connection, if there is one."""
        db, self.db = self.db, None
        if db is not None and not db.is_closed():
            with contextlib.suppress(Exception):
                self.complete(db.close(timeout=5.0))

    @property
    def opened(self) -> asyncpg.Connection[Any]:
        """The connection. Raises ConnectionError if there is none at present."""
        if self.db is None or self.db.is_closed():
            raise ConnectionResetError("the connection was lost")
        return self.db

    def run(self, name: str, *values: Value) -> int:
        status: str = self.wait(self.opened.execute(statements()[name], *values))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0

    def row(self, name: str, *values: Value) -> Values | None:
        found = self.wait(self.opened.fetchrow(statements()[name], *values))
        return None if found is None else tuple(found)

    def rows(self, name: str, *values: Value) -> Iterable[Values]:
        return map(tuple, self.wait(self.opened.fetch(statements()[name], *values)))

    def read(self, shape: type[list[T]], name: str, *values: Value) -> list[T]:
        text = self.wait(self.opened.fetchval(statements()[name], *values))
        return _decoder(shape).decode(text)

    def many(self, name: str, rows: Sequence[Values], *values: Value) -> None:
        if rows:
            self.wait(self.opened.fetch(statements()[name], *arguments(name, rows), *values))

    def read_many(
        self, shape: type[list[T]], name: str, rows: Sequence[Values], *values: Value
    ) -> list[T]:
        if not rows:
            return []
        given = arguments(name, rows)
        text = self.wait(self.opened.fetchval(statements()[name], *given, *values))
        return _decoder(shape).decode(text)

    def rows_many(self, name: str, rows: Sequence[Values], *values: Value) -> Iterable[Values]:
        if not rows:
            return []
        given = arguments(name, rows)
        return map(tuple, self.wait(self.opened.fetch(statements()[name], *given, *values)))

    def select(self, sql: str, values: Mapping[str, Parameter]) -> Sequence[Values]:
        text, arguments = with_numbers(sql, values)
        return [tuple(row) for row in self.wait(self.opened.fetch(text, *arguments))]

    def exact(self, column: str) -> str:
        return column

    def secret(self) -> bytes:
        (secret,) = self.row("secret") or (None,)
        assert isinstance(secret, bytes)
        return secret

"""What the engine asks of a database: named statements, and ids for new rows.

Each engine has a statement of every name; `storage.sql_source` describes where. One that
begins with a row of VALUES (SQLite), or takes one array per column (PostgreSQL), runs for many rows
in one execution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")
R = TypeVar("R", bound=Struct)
Value = str | bytes | int | float | None
Values = tuple[Value, ...]
Parameter = Value | Sequence[int]


def record(kind: type[R], row: Sequence[object]) -> R:
    """Return the record whose fields are the columns of a row, in their order. Raises
    msgspec.ValidationError for a value of another type."""
    fields = dict(zip(kind.__struct_fields__, row, strict=True))
    return msgspec.convert(fields, kind, strict=False)


class Ids(Protocol):
    """Ids of new rows."""

    def start(self) -> None:
        """Begin above the ids in use. Call it at the start of each session, and after a transaction
        was undone."""

    def slot(self, name: str) -> int: ...

    def origin(self, name: str, slot: int | None) -> int: ...

    def url(self, origin: int) -> int: ...

    def text(self) -> int: ...


class Statements(Protocol):
    """A connection that runs statements by name. For the store's thread only."""

    @property
    def shared(self) -> bool:
        """Whether other sessions write to the database as well: a new row may exist by the time it
        is inserted, and what was read may have changed unless its row is locked."""

    @property
    def generation(self) -> int:
        """Changes when another session has moved an origin to another host, or taken URLs out of
        view; as of the begin of the transaction."""

    @property
    def alone(self) -> bool:
        """Whether no other session is in a transaction."""

    @property
    def settling(self) -> bool:
        """Whether no host may be leased at present: the database went back in time a moment ago."""

    @property
    def ids(self) -> Ids: ...

    def run(self, name: str, *values: Value) -> int:
        """Execute a statement; return how many rows changed."""

    def row(self, name: str, *values: Value) -> Values | None:
        """Return the first row of a query."""

    def rows(self, name: str, *values: Value) -> Iterable[Values]:
        """Return the rows of a query, of which few may be read."""

    def read(self, shape: type[list[T]], name: str, *values: Value) -> list[T]:
        """Return the decoded JSON value of a query."""

    def many(self, name: str, rows: Sequence[Values], *values: Value) -> None:
        """Execute a statement for many rows (or none)."""

    def read_many(
        self, shape: type[list[T]], name: str, rows: Sequence[Values], *values: Value
    ) -> list[T]:
        """Return the decoded JSON values of a query for many rows, joined."""

    def rows_many(self, name: str, rows: Sequence[Values], *values: Value) -> Iterable[Values]:
        """Return the rows of a query for many rows."""

    def select(self, sql: str, values: Mapping[str, Parameter]) -> Sequence[Values]:
        """Return the rows of a query in words that every engine understands, put together from
        constants.

        A value is written `:name`, and several integers `IN :name`. Values that the query does not
        name are ignored.
        """

    def exact(self, column: str) -> str:
        """Return an expression for a column of text. Its value, as `CAST(:name AS TEXT)`, equals
        what is stored, even if that is damaged."""

    def secret(self) -> bytes:
        """Return the key of this database's fingerprints."""


class Connection(Protocol):
    """An open database, used in a thread of its own."""

    @property
    def sql(self) -> Statements: ...

    def check(self, now_s: float) -> None:
        """Raise StoreError if this is no longer the database that was opened."""

    def begin(self, now_s: float, *, alone: bool) -> None:
        """Begin a transaction, after undoing one that was left open. now_s: the store's time.
        alone: wait until no other session is in a transaction, and keep new ones waiting.

        Raises `StoreError` if this is no longer the database that was opened, and WentBack if it
        is, but as it was some time ago: until `begin_anew`."""

    def begin_anew(self) -> None:
        """Forget what was known of the database."""

    def enrolled(self, session: int) -> None:
        """Learn the number of this worker's session."""

    def commit(self) -> None:
        """Raises CommitUnknown if the connection ended before the answer came."""

    def was_committed(self, transaction: str) -> bool:
        """Return whether a transaction took effect for which `commit` raised CommitUnknown."""

    def roll_back(self, error: BaseException) -> None:
        """Undo everything because of `error`. Where even that fails, closing or the next `begin`
        does it."""

    def close(self) -> None: ...


class TransactionConflict(Exception):  # noqa: N818 - an expected outcome
    """A transaction was undone because of another one. It may succeed if it is repeated."""


class AloneNeeded(Exception):  # noqa: N818 - an expected outcome
    """A transaction must be repeated while no other session is in one."""


class WentBack(Exception):  # noqa: N818 - it is not this transaction's fault
    """The database is as it was some time ago: what this worker remembers of it is not true."""


class CommitUnknown(Exception):  # noqa: N818 - neither a success nor an error yet
    """The connection ended during a commit."""

    def __init__(self, transaction: str, cause: BaseException) -> None:
        super().__init__(transaction)
        self.transaction = transaction
        self.cause = cause

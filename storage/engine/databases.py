"""The databases of a store and of a reader, as the engine uses them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, TypeVar

from storage.engine.in_flight import InFlight
from storage.engine.statements import Connection, Statements, Values
from storage.records import Pulse, StoreTelemetry, WorkerStatus
from storage.store_errors import StoreError
from storage.transient_faults import FaultKind

T = TypeVar("T")


class Runner(Protocol):
    """An open connection that runs functions, one at a time and in the order of the calls."""

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return `work(connection)`. A cancelled call may leave the function running."""

    async def run_whole(self, work: Callable[[Connection], T]) -> T:
        """Run a function as `run` does, but let a cancellation take effect only after it has
        returned."""


class Database(Protocol):
    """A database that one store writes to."""

    name: str  # for messages: "the database crawl.db"
    in_flight: InFlight
    shared: bool  # whether several sessions may write at a time
    forgets: bool  # whether hosts that callers have released are deleted
    failures: tuple[type[Exception], ...]  # what the medium, or a damaged database, may raise

    async def open(self) -> Runner:
        """Open for writing. Raises StoreRefused, `failures`, OSError and MemoryError; nothing is
        held then."""

    async def close(self) -> None:
        """Release the database. Does nothing if it is not open."""

    def kind_of(self, error: BaseException) -> FaultKind | None:
        """The kind of a transient fault; None for a lasting failure."""

    def is_of_value(self, error: BaseException) -> bool:
        """Return whether an error is about a value, not about the database or a transient fault."""

    def translate(self, error: Exception) -> StoreError:
        """Describe one of `failures` in a sentence."""


class WorkerSession(Protocol):
    """The session of a worker that shares the database of a store with others."""

    async def begin(self) -> None:
        """Begin to renew it. Raises StoreRefused and StoreError."""

    async def end(self) -> None:
        """Stop renewing it, before it ends."""

    async def free(self) -> None:
        """Free its hosts, after it has ended. Raises StoreError."""

    async def pulse(self, status: WorkerStatus) -> Pulse | None:
        """Renew it as `Store.pulse` does."""

    def telemetry(self, counted: StoreTelemetry) -> StoreTelemetry:
        """Add what it has counted to what the store has."""


class ReadDatabase(Protocol):
    """A database that readers read. Its methods raise StoreRefused and StoreError."""

    name: str  # for messages: "the database crawl.db"

    async def open(self) -> object:
        """Open it, unless it is open. The other methods do so as well."""

    async def read(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`, run in the database's thread, maybe twice."""

    def report(self, kind: str) -> AsyncGenerator[Values, None]:
        """Yield the rows of a report. No transaction is open in between."""

    async def close(self) -> None:
        """Release the database. Does nothing if it is not open."""

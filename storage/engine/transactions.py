"""Runs functions as transactions of one database; repeats them while a transient fault lasts."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic as monotonic_s
from typing import Any, Final, NamedTuple, TypeVar, cast

from storage.engine import refused_values
from storage.engine.counters import Totals
from storage.engine.databases import Database, Runner
from storage.engine.in_flight import LeftInFlight
from storage.engine.refused_values import RefusedError
from storage.engine.statements import (
    AloneNeeded,
    CommitUnknown,
    Connection,
    TransactionConflict,
    WentBack,
)
from storage.engine.writer import Writer
from storage.read_records import Stats
from storage.store_errors import StoreError, StoreRefused
from storage.thread_work import finish
from storage.timekeeper import Moment, StoreTime
from storage.transient_faults import (
    START_WAIT_S_MAX,
    FaultKind,
    Patience,
    TransientFault,
    TransientFaults,
    retry_delays_s,
    words_of,
)
from storage.url_records import Link

T = TypeVar("T")
Item = TypeVar("Item")
Work = Callable[[Writer], T]

SEEDS_KEPT: Final = 10_000  # some 5 MB
CONFLICTS_MAX: Final = 50  # of one transaction with others, in a row

_log = logging.getLogger("courtly.store")


class _LaterError(Exception):
    """The attempt met a transient fault, or an earlier call is still waiting for one to pass."""

    def __init__(
        self, fault: TransientFault | None = None, *, cause: BaseException | None = None
    ) -> None:
        super().__init__()
        self.fault = fault
        self.cause = cause


class _UnknownCommit(NamedTuple):
    """A transaction of which it is not known whether it was committed."""

    work: Work[Any]
    transaction: str
    result: object


class Transactions:
    """The transactions of one store.

    After a lasting failure the store is broken: every further call raises StoreError.

    time: the store's clock. monotonic: seconds from any moment, for the waits between attempts;
    `sleep_until` waits for such a time. start_wait_s: for how long transient faults are waited out
    until `set_patience` is called; None: START_WAIT_S_MAX.
    """

    def __init__(
        self,
        database: Database,
        time: StoreTime,
        *,
        monotonic: Callable[[], float] | None = None,
        sleep_until: Callable[[float], Awaitable[None]] | None = None,
        queries_per_path_max: float = 1000,
        start_wait_s: float | None = None,
    ) -> None:
        self.faults = TransientFaults()
        self.time = time
        self.session = 0  # the one that is open, as its owner knows it; 0 before the first
        self.number = 0  # of the session in the database: another one since that went back in time
        self.returns = 0  # how often it did
        # Those added last. Nothing in a server's database leads to them, should it forget them.
        self.seeds_added = deque[Link](maxlen=SEEDS_KEPT if database.shared else 0)
        self._name = ""
        self._anew = False  # a new session must begin before anything else
        self.conflicts = 0  # transactions repeated because of others
        self.commits_settled = 0  # without an answer, until the server was asked
        self.database = database
        self._monotonic = monotonic or monotonic_s
        self._sleep_until = sleep_until or _sleep_until
        self._queries_per_path_max = queries_per_path_max
        self._runner: Runner | None = None
        self._writer: Writer | None = None
        self._broken: StoreError | None = None
        self._line = asyncio.Lock()  # held by the call that is being repeated
        self._waiting = 0  # calls that hold the line or wait for it
        self._failing = False  # until the first of the line succeeds, no other call is tried
        self._given_wait_s = start_wait_s
        self._patience = Patience(self._start_wait_s)
        self._closing = False
        self._unknown: _UnknownCommit | None = None
        self._stats: Stats | None = None  # the last that were read

    # ------------------------------------------------------------ opening and closing

    @property
    def _start_wait_s(self) -> float:
        return START_WAIT_S_MAX if self._given_wait_s is None else self._given_wait_s

    @property
    def is_open(self) -> bool:
        return self._runner is not None

    async def open(self) -> None:
        """Open the database; wait some time for a transient fault to pass. Raises StoreError."""
        self.session = self.number = 0
        self._closing, self._broken, self._anew = False, None, False
        self._patience = Patience(self._start_wait_s)
        waiting = self._patience.waiting(self._monotonic())
        others = (StoreRefused, OSError, MemoryError)
        failures: tuple[type[Exception], ...] = (*self.database.failures, *others)
        try:
            for delay_s in retry_delays_s():
                try:
                    await finish(asyncio.ensure_future(self._open_once()))
                    return
                except failures as error:
                    kind = self.database.kind_of(error)
                    if kind is None:
                        raise
                    fault = self._fault(kind, error)
                    now_s = self._monotonic()
                    until_s = waiting.until_s(kind, now_s)
                    if now_s >= until_s:
                        raise StoreError(fault.sentence) from error
                    self._report(fault)
                await self._sleep_until(min(now_s + delay_s, until_s))
        except self.database.failures as error:
            raise self.database.translate(error) from error
        finally:
            self.faults.set(None)

    async def _open_once(self) -> None:
        self._runner = await self.database.open()

    def begin_closing(self) -> None:
        """Give up waiting for transient faults: each call gets one more attempt."""
        self._closing = True

    async def close(self) -> None:
        self._runner = self._writer = None
        await self.database.close()

    def set_patience(self, seconds: float) -> None:
        self._patience.set(seconds, self._monotonic())

    def check_session(self, session: int) -> None:
        """Raise StoreError unless this session is the open one."""
        if self._runner is not None and session != self.session:
            raise StoreError(f"session {session} is over; session {self.session} has begun")

    async def begin(self, name: str, left: LeftInFlight) -> None:
        """Begin a session. left: as of `Writer.start`."""
        self._name = name
        self.number = await self.must_run(lambda writer: writer.start(name, left))
        self.session = self.number

    # ------------------------------------------------------------ one transaction

    async def run(self, work: Work[T]) -> T:
        """Run `work` as one transaction, which no cancellation can interrupt.

        Transient faults are waited out between attempts; a cancellation does take effect there.
        Durations in the call count from now, however long it takes. Raises RefusedError where the
        database refuses a value (the transaction is undone then), and StoreError.
        """
        at = self._moment()
        if not self._line.locked():
            try:
                return await self._attempt(work, at)
            except _LaterError as error:
                self._report(error.fault)
        self._waiting += 1
        try:
            async with self._line:
                result = await self._persist(work, at)
                self._failing = False
                self.faults.set(None)
                return result
        finally:
            self._waiting -= 1
            if not self._waiting:  # nobody repeats anything now, whether the fault is over or not
                self._failing = False
                self.faults.set(None)

    async def must_run(self, work: Work[T]) -> T:
        """Run a transaction as `run` does, but let a refused value break the store: there is
        nothing to store instead."""
        try:
            return await self.run(work)
        except RefusedError as error:
            self._broken = self._failure(error.cause)
            if isinstance(error.cause, self.database.failures):
                raise self._broken from error.cause
            raise error.cause from None

    async def run_or(self, work: Work[T], otherwise: T) -> T:
        """Run a transaction as `run` does, but log a refused value and return `otherwise`."""
        try:
            return await self.run(work)
        except RefusedError as error:
            refused_values.log("the requested database change", error)
            return otherwise

    async def run_first(
        self, candidates: Sequence[Item], work: Callable[[Item], Work[T]], *, what: str
    ) -> tuple[T, Item]:
        """Run `work` of the first candidate whose values are all accepted; return its result and
        the candidate. Refusals are logged as being of `what`; that of the last candidate breaks
        the store."""
        *others, last = candidates
        for candidate in others:
            try:
                return await self.run(work(candidate)), candidate
            except RefusedError as error:
                refused_values.log(what, error)
        return await self.must_run(work(last)), last

    async def run_each(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Work[T]],
        instead: Callable[[Item, RefusedError], Item | None],
    ) -> list[T]:
        """Store items in one transaction or, where a value is refused, in as many as it takes.

        Return the results. An item that cannot be stored is replaced by what `instead` returns for
        it; None leaves it out."""
        results: list[T] = []
        parts = [items]
        while parts:
            some = parts.pop()
            try:
                results.append(await self.run(work(some)))
            except RefusedError as error:
                if not some:
                    raise error.cause from None
                if len(some) > 1:
                    half = len(some) // 2
                    parts += [some[half:], some[:half]]
                elif (replacement := instead(some[0], error)) is not None:
                    results.append(await self.must_run(work([replacement])))
        return results

    async def stats(self) -> Stats:
        """Count without a transaction: this waits for no lock, and answers while others wait. While
        a fault lasts that may pass, the last counts are returned."""
        runner = self._opened()
        try:
            self._stats = await runner.run_whole(partial(self._read_stats, self.time.now_s()))
        except self.database.failures as error:
            if self.database.kind_of(error) is None:
                raise self.database.translate(error) from error
            if self._stats is None:  # there are none before the first
                self._stats = await self.must_run(lambda writer: writer.totals.stats())
        return self._stats

    def _read_stats(self, now_s: float, db: Connection) -> Stats:
        try:
            db.check(now_s)  # an idle crawl makes no other call
        except StoreError as error:
            self._broken = error
            raise
        writer = self._writer
        return Totals(db.sql).stats() if writer is None else writer.totals.stats()

    # ------------------------------------------------------------ attempts

    async def _persist(self, work: Work[T], at: Moment) -> T:
        """Repeat until it succeeds or patience ends."""
        began_s = self._monotonic()
        waiting = self._patience.waiting(began_s)
        for delay_s in retry_delays_s():
            try:
                return await self._attempt(work, at, first=True)
            except _LaterError as error:
                self._report(error.fault)
                now_s = self._monotonic()
                until_s = began_s
                if not self._closing:
                    kind = FaultKind.LOCKED if error.fault is None else error.fault.kind
                    until_s = waiting.until_s(kind, now_s)
                if now_s >= until_s:
                    self._broken = StoreError(
                        f"{self.database.name} cannot be used"
                        if error.fault is None
                        else error.fault.sentence
                    )
                    raise self._broken from error.cause
                await self._sleep_until(min(now_s + delay_s, until_s))
        raise AssertionError("the delays never end")

    async def _attempt(self, work: Work[T], at: Moment, *, first: bool = False) -> T:
        """One attempt, whole or undone. Raises _LaterError if another one may succeed."""
        runner = self._opened()
        return await runner.run_whole(partial(self._transact, work, at, first, self.time.now_s()))

    def _opened(self) -> Runner:
        self._check_unbroken()
        if self._runner is None:
            raise StoreError(f"{self.database.name} is not open")
        return self._runner

    def _check_unbroken(self) -> None:
        if self._broken is not None:
            raise StoreError(str(self._broken)) from self._broken

    def _transact(self, work: Work[T], at: Moment, first: bool, now_s: float, db: Connection) -> T:
        """Runs in the connection's thread."""
        self._check_unbroken()  # an earlier call may have failed since this one was queued
        if self._failing and not first:
            raise _LaterError
        try:
            if (known := self._outcome_of(work, db)) is not None:
                return cast("T", known.result)
            return self._transact_repeatedly(work, at, now_s, db)
        except CommitUnknown as error:
            self._failing = True
            kind = self.database.kind_of(error.cause) or FaultKind.UNREACHABLE
            raise _LaterError(self._fault(kind, error.cause), cause=error.cause) from error
        except BaseException as error:
            if (kind_found := self._kind_of(error)) is not None:
                self._failing = True
                raise _LaterError(self._fault(kind_found, error), cause=error) from error
            if isinstance(error, Exception) and self.database.is_of_value(error):
                raise RefusedError(error) from error
            self._broken = self._failure(error)
            if isinstance(error, self.database.failures):
                raise self._broken from error
            raise

    def _transact_repeatedly(self, work: Work[T], at: Moment, now_s: float, db: Connection) -> T:
        alone, conflicts = False, 0
        while True:
            try:
                if self._anew:
                    self._begin_anew(at, now_s, db)
                return self._transact_once(work, at, now_s, db, alone=alone)
            except AloneNeeded:
                alone = True
            except WentBack as error:
                self._went_back(error, db)
            except TransactionConflict:
                self.conflicts += 1
                conflicts += 1
                if conflicts == CONFLICTS_MAX:
                    raise  # it may succeed after a while

    def _kind_of(self, error: BaseException) -> FaultKind | None:
        return (
            FaultKind.LOCKED
            if isinstance(error, TransactionConflict)
            else self.database.kind_of(error)
        )

    def _went_back(self, error: WentBack, db: Connection) -> None:
        """Forget all that this worker knows of the database."""
        _log.warning(
            "%s went back in time (%s). What was stored since then is lost, and is fetched again:"
            " this worker begins anew, and every host rests in full first",
            self.database.name,
            error,
        )
        self._unknown = self._writer = None
        self._anew = bool(self.number)
        db.begin_anew()

    def _begin_anew(self, at: Moment, now_s: float, db: Connection) -> None:
        """Begin a session in place of one that the database does not know any more, and that holds
        nothing."""
        self.number = self._transact_once(
            lambda writer: writer.start(self._name), at, now_s, db, alone=False
        )
        self._anew = False
        self.returns += 1

    def _transact_once(
        self, work: Work[T], at: Moment, now_s: float, db: Connection, *, alone: bool
    ) -> T:
        began = False
        try:
            db.check(now_s)
            db.begin(now_s, alone=alone)
            began = True
            writer = self._writer_of(db)
            writer.at = at
            result = work(writer)
            writer.sessions.put_time(at)
            try:
                db.commit()
                db.enrolled(writer.session)
            except CommitUnknown as error:
                self._unknown = _UnknownCommit(work, error.transaction, result)
                raise
        except BaseException as error:
            if began:
                self._writer = None  # its caches may hold what was undone
            db.roll_back(error)
            raise
        return result

    def _outcome_of(self, work: Work[T], db: Connection) -> _UnknownCommit | None:
        """What the last attempt came to, if it was committed without an answer."""
        unknown = self._unknown
        if unknown is None or unknown.work is not work:
            return None
        committed = db.was_committed(unknown.transaction)
        self._unknown = None
        self.commits_settled += 1
        return unknown if committed else None

    def _writer_of(self, db: Connection) -> Writer:
        writer = self._writer  # `close` may reset it meanwhile
        if writer is None:
            writer = Writer(db.sql, queries_per_path_max=self._queries_per_path_max)
            if self.number and not self._anew:
                writer.resume(self.number)
            self._writer = writer
        writer.forget_if(db.sql.generation)
        return writer

    def _moment(self) -> Moment:
        time = self.time
        return Moment(
            time.now_s(),
            time.wall_s(),
            time.shift_s(),
            time.uptime(),
            late_s=time.late_s(),
            ticks=time.ticks,
        )

    # ------------------------------------------------------------ failures

    def _report(self, fault: TransientFault | None) -> None:
        if fault is None:
            return
        if self.faults.now is None and not self._patience.shown:
            _log.warning("%s; trying again for %.0f s", fault.sentence, self._start_wait_s)
        self.faults.found(fault)

    def _failure(self, error: BaseException) -> StoreError:
        if isinstance(error, StoreError):
            return error
        if isinstance(error, self.database.failures):
            return self.database.translate(error)
        return StoreError(f"{self.database.name} was given up after an error: {error!r}")

    def _fault(self, kind: FaultKind, error: BaseException) -> TransientFault:
        name = self.database.name
        if isinstance(error, TransactionConflict):
            error = error.__cause__ or error
        sentence = (
            str(self.database.translate(error))
            if isinstance(error, self.database.failures)
            else str(error)
            if isinstance(error, StoreError)
            else f"{name} cannot be used: {words_of(error)}"
        )
        return TransientFault(kind=kind, what=name, sentence=sentence, since=self.time.wall_s())


async def _sleep_until(when_s: float) -> None:
    await asyncio.sleep(max(0.0, when_s - monotonic_s()))

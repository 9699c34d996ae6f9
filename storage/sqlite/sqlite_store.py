"""The store in an SQLite file: each call is one transaction (what is done in bulk, a few), run
whole in one thread."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from policies.retries import FailureCode
from policies.robots_state import RobotsState
from storage.safe_files import FILE_MODE, check_owner, real_path
from storage.sqlite import fault_kinds, refused_values
from storage.sqlite.connection_thread import Wire, finish
from storage.sqlite.counters import Totals
from storage.sqlite.file_guard import Identity
from storage.sqlite.file_lock import FileLock
from storage.sqlite.in_flight import NOTHING_LEFT, InFlight
from storage.sqlite.refused_values import RefusedError
from storage.sqlite.schema import FAILURES, check_file, connect_writer, translate
from storage.sqlite.statements import Statements
from storage.sqlite.writer import Writer
from storage.store import (
    Batch,
    Blocked,
    Completed,
    HostUpdate,
    Judged,
    Lease,
    Link,
    Outlook,
    Plan,
    Prefetched,
    RobotsDue,
    Stats,
    StoreError,
    StoreRefused,
    Unplanned,
)
from storage.timekeeper import Moment, Timekeeper, Uptime
from storage.transient_faults import (
    START_WAIT_S_MAX,
    FaultKind,
    Patience,
    TransientFault,
    TransientFaults,
    retry_delays_s,
    words_of,
)

T = TypeVar("T")
Item = TypeVar("Item")

_log = logging.getLogger("courtly.store")  # for as long as nothing else shows trouble


_Verdict = tuple[str, int | Blocked]  # what becomes of a URL that is judged again
BULK_URLS = 2_000  # at a time: the store's other callers wait some 20 ms at most


class _Ends(enum.Enum):
    STORE = enum.auto()


class _LaterError(Exception):
    """Not now: something passing is wrong, or a call before this one still waits for that."""

    def __init__(
        self, trouble: TransientFault | None = None, *, cause: BaseException | None = None
    ):
        super().__init__()
        self.trouble = trouble
        self.cause = cause


class SqliteStore:
    """`Store` in one file. It is opened and locked by `open_session`, let go of by `close`.

    `wall` tells Unix seconds; with `monotonic` (seconds from anywhere) as well, setting the wall
    clock while a session lasts moves no host's clock, and with `uptime` neither does setting it
    between two sessions. `sleep_until`: waits for a `monotonic` time.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        wall: Callable[[], float],
        monotonic: Callable[[], float] | None = None,
        sleep_until: Callable[[float], Awaitable[None]] | None = None,
        uptime: Callable[[], Uptime | None] | None = None,
        queries_per_path_max: float = 1000,
        file_mode: int = FILE_MODE,
    ) -> None:
        self._given = Path(path)
        self.path = real_path(self._given)
        self.troubles = TransientFaults()
        self._monotonic = monotonic or time.monotonic
        self._sleep_until = sleep_until or _sleep_until
        self._time = Timekeeper(wall, monotonic, uptime)
        self._queries_per_path_max = queries_per_path_max
        self._file_mode = file_mode
        self._lock = FileLock(self.path, mode=file_mode)
        self._wire: Wire | None = None
        self._writer: Writer | None = None
        self._in_flight = InFlight(self.path, mode=file_mode)
        self._identity = Identity(self.path, self._lock)
        self._session = 0
        self._broken: StoreError | None = None
        self._line = asyncio.Lock()  # of calls that could not be done at once
        self._waiting = 0  # in that line
        self._failing = False  # until the first of that line succeeds, no other is tried
        self._patience = Patience(START_WAIT_S_MAX)
        self._closing = False

    # ------------------------------------------------------------ how a call is made

    def _moment(self) -> Moment:
        time = self._time
        return Moment(time.now_s(), time.wall_s(), time.shift_s(), time.uptime())

    async def _transact(
        self, work: Callable[[Writer, Moment], T], *, otherwise: T | _Ends = _Ends.STORE
    ) -> T:
        """As `_try`. Where a value is refused: log it, and give `otherwise`; without that the store
        has ended, because nobody would know what to do."""
        try:
            return await self._try(work)
        except RefusedError as error:
            if not isinstance(otherwise, _Ends):
                refused_values.log("what was asked of the database", error)
                return otherwise
            self._broken = self._failure(error.cause)
            if isinstance(error.cause, FAILURES):
                raise self._broken from error.cause
            raise error.cause from None

    async def _try(self, work: Callable[[Writer, Moment], T]) -> T:
        """Run `work` in a transaction of its own, out of reach of cancellation. Raises RefusedError
        where a value cannot be stored: all of it is undone.

        What passes by itself (a lock of another program, a full disk) is waited out between two
        attempts, each of them whole or undone; there a cancellation does reach it."""
        at = self._moment()  # durations of the call count from here, however long it takes
        if not self._line.locked():
            try:
                return await self._attempt(work, at)
            except _LaterError as error:
                self._tell(error)
        self._waiting += 1
        try:
            async with self._line:
                result = await self._persist(work, at)
                self._failing = False
                self.troubles.set(None)
                return result
        finally:
            self._waiting -= 1
            if not self._waiting:  # nobody tries any longer, whether it has passed or not
                self._failing = False
                self.troubles.set(None)

    async def _persist(self, work: Callable[[Writer, Moment], T], at: Moment) -> T:
        """Try until it succeeds, or until the crawl is to end."""
        began_s = self._monotonic()
        for delay_s in retry_delays_s():
            try:
                return await self._attempt(work, at, first=True)
            except _LaterError as error:
                self._tell(error)
                now_s = self._monotonic()
                until_s = self._until_s(error, began_s)
                if now_s >= until_s:
                    self._broken = self._given_up(error)
                    raise self._broken from error.cause
                await self._sleep_until(min(now_s + delay_s, until_s))
        raise AssertionError("the delays never end")

    def _until_s(self, error: _LaterError, began_s: float) -> float:
        """Until when the call is tried; monotonic."""
        if self._closing:
            return began_s
        kind = FaultKind.LOCKED if error.trouble is None else error.trouble.kind
        return self._patience.until_s(kind, began_s)

    def _given_up(self, error: _LaterError) -> StoreError:
        if error.trouble is not None:
            return StoreError(error.trouble.sentence)
        return StoreError(f"the database {self.path} cannot be used")

    def _tell(self, error: _LaterError) -> None:
        if error.trouble is not None:
            self._found(error.trouble)

    def _found(self, trouble: TransientFault) -> None:
        if self.troubles.now is None and not self._patience.shown:
            _log.warning("%s; trying again for %.0f s", trouble.sentence, START_WAIT_S_MAX)
        self.troubles.found(trouble)

    async def _attempt(
        self, work: Callable[[Writer, Moment], T], at: Moment, *, first: bool = False
    ) -> T:
        """One attempt, whole or undone. Raises _LaterError if another one may succeed."""
        if self._broken is not None:
            raise StoreError(str(self._broken)) from self._broken
        if self._wire is None:
            raise StoreError(f"the database {self.path} is not open")
        run = partial(self._in_thread, work, at, first, self._time.now_s())
        return await finish(asyncio.ensure_future(self._wire.run(run)))

    def _in_thread(
        self,
        work: Callable[[Writer, Moment], T],
        at: Moment,
        first: bool,
        now_s: float,
        db: sqlite3.Connection,
    ) -> T:
        if self._broken is not None:  # by a call that was made before this one, and ran meanwhile
            raise StoreError(str(self._broken)) from self._broken
        if self._failing and not first:
            raise _LaterError
        began = False
        try:
            self._identity.check(now_s)
            if db.in_transaction:  # which could not be rolled back before
                db.execute("ROLLBACK")
            self._identity.check_sizes()
            db.execute("BEGIN IMMEDIATE")
            began = True
            writer = self._writer  # it may be let go of meanwhile
            if writer is None:
                writer = Writer(db, queries_per_path_max=self._queries_per_path_max)
                if self._session:
                    writer.resume(self._session)
                self._writer = writer
            result = work(writer, at)
            writer.tell_time(at)
            db.execute("COMMIT")
            self._identity.note_sizes()
        except BaseException as error:
            if began:
                self._writer = None  # it may believe what was undone
            _roll_back(db)
            if (kind := fault_kinds.kind_of(error)) is not None:
                self._failing = True
                if kind is FaultKind.MEMORY:
                    _shed_memory(db)
                raise _LaterError(self._trouble(kind, error), cause=error) from error
            if isinstance(error, Exception) and refused_values.is_of_value(error):
                raise RefusedError(error) from error
            self._broken = self._failure(error)
            if isinstance(error, FAILURES):
                raise self._broken from error
            raise
        return result

    def _failure(self, error: BaseException) -> StoreError:
        if isinstance(error, StoreError):
            return error
        if isinstance(error, FAILURES):
            return translate(error, self.path)
        return StoreError(f"the database {self.path} was given up after an error: {error!r}")

    def _trouble(self, kind: FaultKind, error: BaseException) -> TransientFault:
        sentence = (
            str(translate(error, self.path))
            if isinstance(error, FAILURES)
            else f"the database {self.path} cannot be used: {words_of(error)}"
        )
        what = f"the database {self.path}"
        return TransientFault(kind=kind, what=what, sentence=sentence, since=self._time.wall_s())

    def set_patience(self, seconds: float) -> None:
        self._patience.set(seconds, self._monotonic())

    async def _transact_as(
        self,
        session: int,
        work: Callable[[Writer, Moment], T],
        *,
        otherwise: T | _Ends = _Ends.STORE,
    ) -> T:
        self._check_session(session)
        return await self._transact(work, otherwise=otherwise)

    def _check_session(self, session: int) -> None:
        if self._wire is not None and session != self._session:
            raise StoreError(f"session {session} is over; session {self._session} has begun")

    # ------------------------------------------------------------ sessions

    async def open_session(self, name: str) -> int:
        if self._wire is not None:
            return await self._begin(name)
        self._session, self._closing, self._broken = 0, False, None
        self._patience = Patience(START_WAIT_S_MAX)
        try:
            await self._open()
            return await self._begin(name)
        except BaseException:
            await self.close()
            raise

    async def _begin(self, name: str) -> int:
        last = await self._transact(lambda writer, at: writer.last_time(at))
        if last is not None:
            self._time.resume(*last)
        left = self._in_flight.left() if not self._session else NOTHING_LEFT
        self._session = await self._transact(
            lambda writer, at: writer.start(_shown(name), at, left)
        )
        self._in_flight.begin(self._session)
        return self._session

    def in_flight(self, id_: int) -> None:
        self._in_flight.add(id_)

    def not_in_flight(self, id_: int) -> None:
        self._in_flight.remove(id_)

    def robots_in_flight(self, slot: str, origin: str) -> None:
        self._in_flight.add((slot, origin))

    def robots_not_in_flight(self, slot: str, origin: str) -> None:
        self._in_flight.remove((slot, origin))

    async def _open(self) -> None:
        until_s = self._monotonic() + START_WAIT_S_MAX
        try:
            for delay_s in retry_delays_s():
                try:
                    await finish(asyncio.ensure_future(self._open_once()))
                    return
                except (*FAILURES, OSError, MemoryError) as error:
                    kind = fault_kinds.kind_of(error)
                    if kind is None:
                        raise
                    trouble = self._trouble(kind, error)
                    now_s = self._monotonic()
                    if now_s >= until_s:
                        raise StoreError(trouble.sentence) from error
                    self._found(trouble)
                await self._sleep_until(min(now_s + delay_s, until_s))
        except FAILURES as error:
            raise translate(error, self.path) from error
        finally:
            self.troubles.set(None)

    async def _open_once(self) -> None:
        try:
            self._wire = await Wire.open(self._connect)
        except BaseException:
            self._lock.release()
            raise

    def _connect(self) -> sqlite3.Connection:
        for path in (self._given, self.path):
            try:
                check_owner(path)
            except FileNotFoundError:  # `check_file` says so
                continue
            except OSError as error:
                if fault_kinds.kind_of(error) is not None:
                    raise  # `_open` tries again
                raise StoreRefused(f"{path} cannot be opened: {error.strerror}") from error
        check_file(self.path)  # before the lock: what is not ours gets no file beside it
        self._lock.acquire()
        db = connect_writer(self.path, mode=self._file_mode)
        db.hold()
        self._identity = Identity(self.path, self._lock, db)
        return db

    async def close(self, session: int | None = None) -> None:
        self._closing = True
        if self._wire is not None:
            await finish(asyncio.ensure_future(self._end(self._wire)))

    async def _end(self, wire: Wire) -> None:
        """Whatever the diary says, the file is let go of."""
        with contextlib.suppress(StoreError):
            if self._session and self._wire is wire:
                await self._transact(lambda writer, at: writer.end(self._session, at))
        if self._wire is wire:  # and not closed by another call meanwhile
            await self._close(wire)

    async def _close(self, wire: Wire) -> None:
        self._wire = self._writer = None
        try:
            await wire.close()
        except sqlite3.Error:
            pass  # nothing is lost: what was committed is in the WAL, and the next opening reads it
        finally:
            try:
                self._in_flight.close()
            finally:
                self._lock.release()

    # ------------------------------------------------------------ links and outcomes

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        def insert(some: Sequence[Link]) -> Callable[[Writer, Moment], Completed]:
            return lambda writer, at: writer.add(some, revive=revive, referrer=referrer, at=at)

        added, left = await self._halve(links, insert)
        for link, error in left:
            refused_values.log_link(link, error)
        return _together(added)

    async def _halve(
        self, items: Sequence[Item], work: Callable[[Sequence[Item]], Callable[[Writer, Moment], T]]
    ) -> tuple[list[T], list[tuple[Item, RefusedError]]]:
        """Store items in one transaction; where a value is refused, in as many as it takes. Give
        what came of them, and the items that cannot be stored."""
        done: list[T] = []
        left: list[tuple[Item, RefusedError]] = []
        parts = [items]
        while parts:
            some = parts.pop()
            try:
                done.append(await self._try(work(some)))
            except RefusedError as error:
                half = len(some) // 2
                if len(some) > 1:
                    parts += [some[half:], some[:half]]
                elif some:
                    left.append((some[0], error))
                else:
                    raise error.cause from None
        return done, left

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        after = 0
        while some := await self._transact(_without_time(partial(Writer.seeds, after=after))):
            yield [url for _, url in some]
            after = some[-1][0]

    async def complete(self, session: int, batch: Batch) -> Completed:
        def commit(some: Batch) -> Callable[[Writer, Moment], tuple[Completed, bool]]:
            return lambda writer, at: (writer.complete(session, some, at), writer.chains_left)

        try:
            done, more = await self._try(commit(batch))
        except RefusedError:
            done, more = await self._complete_in_parts(batch, commit)
        for outcome in batch.outcomes:
            self._in_flight.remove(outcome.id)
        return await self._settle_chains(done) if more else done

    async def _complete_in_parts(
        self,
        batch: Batch,
        commit: Callable[[Batch], Callable[[Writer, Moment], tuple[Completed, bool]]],
    ) -> tuple[Completed, bool]:
        """Commit a batch with a value that was refused: what has it is replaced, all else is
        stored. What a crash meanwhile leaves out is not lost: it is still queued."""
        try:
            first = await self._try(commit(refused_values.begun(batch)))
        except RefusedError as refusal:
            refused_values.log("what a commit says of its hosts", refusal)
            batch = refused_values.plain(batch)
            first = await self._transact(commit(refused_values.begun(batch)))
        parts, left = await self._halve(
            batch.outcomes, lambda some: commit(refused_values.part(batch, some))
        )
        for outcome, error in left:
            instead = refused_values.instead_of(outcome, error, self._time.wall_s())
            # If this is refused as well, it is not the outcome that is at fault.
            parts.append(await self._transact(commit(refused_values.part(batch, [instead]))))
        try:
            last = await self._try(commit(refused_values.ended(batch)))
        except RefusedError as refusal:
            refused_values.log("what a commit asks for", refusal)
            last = await self._transact(commit(refused_values.ended(refused_values.plain(batch))))
        every = [first, *parts, last]
        return _together([done for done, _ in every]), any(more for _, more in every)

    async def _settle_chains(self, done: Completed) -> Completed:
        """Have redirects follow what became of the URLs they lead to, in pieces."""
        added, more = Counter(done.added), True
        while more:
            some, more = await self._transact(
                lambda writer, at: (writer.settle_chains(at), writer.chains_left)
            )
            added.update(some)
        return structs.replace(done, added=dict(added))

    # ------------------------------------------------------------ leases

    async def claim(self, session: int, *, hosts: int, urls_per_host: int) -> Sequence[Lease]:
        return await self._transact_as(
            session,
            lambda writer, at: writer.claim(hosts=hosts, urls_per_host=urls_per_host, at=at),
        )

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        self._check_session(session)
        parts, left = await self._halve(
            slots, lambda some: lambda writer, at: writer.acquire(some, at)
        )
        for slot, error in left:
            refused_values.log(f"the host {slot[:2_000]!a}", error)
        return {slot: lease for part in parts for slot, lease in part.items()}

    async def outlook(self, session: int) -> Outlook:
        return await self._transact_as(session, lambda writer, at: writer.outlook(at))

    # ------------------------------------------------------------ robots

    async def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: RobotsState,
        *,
        also: HostUpdate | None = None,
        rejudge: bool = False,
        links: Sequence[Link] = (),
    ) -> Completed:
        def put(
            links: Sequence[Link],
            copy: RobotsState | None = copy,
            also: HostUpdate | None = also,
        ) -> Callable[[Writer, Moment], Completed]:
            return lambda writer, at: writer.robots_put(
                session, slot, origin, copy, also, at, rejudge=rejudge, links=links
            )

        try:
            return await self._try(put(links))
        except RefusedError:
            added = await self.add(links)
        try:
            done = await self._try(put(()))
        except RefusedError as error:
            name = refused_values.log(f"the robots.txt of {origin[:2_000]!a}", error)
            plain = None if also is None else refused_values.plain_update(also)
            done = await self._transact(put((), None, plain))
            done = structs.replace(done, refused=name)
        return structs.replace(done, added=added.added)

    async def robots_get(self, origin: str) -> RobotsState | None:
        return await self._transact(lambda writer, _: writer.robots_get(origin), otherwise=None)

    async def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        return await self._transact_as(session, lambda writer, at: writer.robots_due(limit, at))

    async def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        return await self._transact_as(session, lambda writer, at: writer.revisits_due(limit, at))

    async def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        return await self._transact_as(session, lambda writer, _: writer.unplanned(after, limit))

    async def plan(self, session: int, plans: Mapping[int, Plan]) -> None:
        self._check_session(session)
        _, left = await self._halve(
            [*plans.items()], lambda some: lambda writer, at: writer.plan(dict(some), at)
        )
        for (id_, _), error in left:
            refused_values.log(f"the plan of URL {id_}", error)

    async def rejudge_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        return await self._transact_as(session, lambda writer, _: writer.rejudge_due(limit))

    async def rejudge_all(self, session: int) -> None:
        await self._transact_as(session, lambda writer, at: writer.rejudge_all(at))

    async def rejudge_done(self, session: int, origin: str) -> None:
        await self._transact_as(
            session, lambda writer, _: writer.rejudge_done(origin), otherwise=None
        )

    async def ungoverned(self, origin: str, *, limit: int) -> Sequence[Judged]:
        return await self._transact(
            lambda writer, _: writer.ungoverned(origin, limit), otherwise=[]
        )

    async def blocked_by_robots(self, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
        return await self._transact(
            lambda writer, _: writer.blocked_by_robots(origin, after, limit), otherwise=[]
        )

    async def rejudge(
        self,
        session: int,
        *,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
    ) -> Completed:
        self._check_session(session)

        def judge(
            some: Sequence[_Verdict],
        ) -> Callable[[Writer, Moment], tuple[Completed, bool]]:
            kept = [one for kind, one in some if kind == "kept" and isinstance(one, int)]
            freed = [one for kind, one in some if kind == "freed" and isinstance(one, int)]
            blocks = [one for _, one in some if isinstance(one, Blocked)]
            return lambda writer, at: (
                writer.rejudge(kept=kept, withdrawn=blocks, freed=freed, at=at),
                writer.chains_left,
            )

        verdicts: list[_Verdict] = [
            *(("kept", id_) for id_ in kept),
            *(("withdrawn", block) for block in withdrawn),
            *(("freed", id_) for id_ in freed),
        ]
        parts, left = await self._halve(verdicts, judge)
        for (kind, one), error in left:
            if not isinstance(one, Blocked):
                refused_values.log(f"the verdict on URL {one}", error)
                continue
            instead = refused_values.blocked_instead(one, error, self._time.wall_s())
            done_instead, gone = await self._halve([(kind, instead)], judge)
            parts += done_instead
            for _, again in gone:
                refused_values.log("a block without its words", again)
        every = [done for done, _ in parts]
        done = _together(every) if every else Completed(stale=frozenset(), added={}, prefetched={})
        return await self._settle_chains(done) if any(more for _, more in parts) else done

    # ------------------------------------------------------------ by hand

    async def fail_host(
        self,
        session: int,
        update: HostUpdate,
        *,
        error: str,
        attempts: int,
        last_at: float,
        origin: str | None = None,
    ) -> int:
        fail = partial(self._fail_host, session, origin=origin)
        given = partial(fail, error=error, attempts=attempts, last_at=last_at)
        try:
            return await given(update)
        except RefusedError:
            update = refused_values.plain_update(update)
        try:
            return await given(update)
        except RefusedError as refusal:
            instead = refused_values.failed_instead(refusal)
            now_s = self._time.wall_s()
        try:
            return await fail(update, error=instead, attempts=1, last_at=now_s)
        except RefusedError as refusal:  # there is no such origin
            refused_values.log("an origin", refusal)
            return 0

    async def _fail_host(
        self,
        session: int,
        update: HostUpdate,
        *,
        error: str,
        attempts: int,
        last_at: float,
        origin: str | None,
    ) -> int:
        """As `fail_host`. Raises RefusedError before any URL has failed."""
        fail = partial(
            Writer.fail_some,
            session=session,
            error=error,
            attempts=attempts,
            last_at=last_at,
            origin=origin,
            limit=BULK_URLS,
        )
        held = structs.replace(update, release=False)  # until all have failed
        failed = some = await self._try(
            lambda writer, at: fail(writer, update=held, wind=True, at=at)
        )
        while some == BULK_URLS:
            some = await self._try(lambda writer, at: fail(writer, update=held, wind=False, at=at))
            failed += some
        if update.release:
            last = structs.replace(update, contacts=())
            failed += await self._try(
                lambda writer, at: fail(writer, update=last, wind=True, at=at)
            )
        return failed

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        await self._transact(lambda writer, at: writer.forgive(host, at), otherwise=None)
        queued, last, some = 0, 0, BULK_URLS
        while some == BULK_URLS:
            retry = partial(Writer.retry_some, host=host, code=code, after=last, limit=BULK_URLS)
            some, last = await self._transact(_without_time(retry), otherwise=(0, last))
            queued += some
        if code in (None, FailureCode.QUARANTINED):
            queued += await self._transact(
                lambda writer, at: writer.release_robots(host, at), otherwise=0
            )
        return queued

    async def set_control(
        self,
        slot: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> bool:
        return await self._transact(
            lambda writer, at: writer.set_control(slot, paused, slow_s, at, clear_slow=clear_slow),
            otherwise=False,
        )

    async def rouse(self, session: int) -> None:
        await self._transact_as(session, lambda writer, at: writer.rouse(at))

    async def set_paused(self, paused: bool) -> None:
        await self._transact(lambda writer, _: writer.set_paused(paused=paused))

    async def paused(self) -> bool:
        return await self._transact(lambda writer, _: writer.paused())

    async def name_session(self, session: int, name: str) -> None:
        await self._transact_as(
            session, lambda writer, _: writer.rename(session, _shown(name)), otherwise=None
        )

    async def stats(self) -> Stats:
        """Not a transaction: it waits for no lock, and answers while others are tried again."""
        if self._broken is not None:
            raise StoreError(str(self._broken)) from self._broken
        if self._wire is None:
            raise StoreError(f"the database {self.path} is not open")
        try:
            run = partial(self._stats_in_thread, self._time.now_s())
            return await finish(asyncio.ensure_future(self._wire.run(run)))
        except FAILURES as error:
            raise translate(error, self.path) from error

    def _stats_in_thread(self, now_s: float, db: sqlite3.Connection) -> Stats:
        try:
            self._identity.check(now_s)  # an idle crawl asks for nothing else
        except StoreError as error:
            self._broken = error
            raise
        writer = self._writer
        return Totals(Statements(db)).stats() if writer is None else writer.stats()


def _shown(name: str) -> str:
    """The name of a session, which is only shown."""
    return name.encode("utf-8", "replace").decode()


async def _sleep_until(when_s: float) -> None:
    await asyncio.sleep(max(0.0, when_s - time.monotonic()))


def _together(parts: Sequence[Completed]) -> Completed:
    """What came of one call that took several transactions."""
    if len(parts) == 1:
        return parts[0]
    added = Counter[str]()
    hands: dict[str, Prefetched] = {}
    for part in parts:
        added.update(part.added)
        hands.update(part.prefetched)
    return Completed(
        stale=frozenset().union(*(part.stale for part in parts)), added=added, prefetched=hands
    )


def _without_time(work: Callable[[Writer], T]) -> Callable[[Writer, Moment], T]:
    return lambda writer, _: work(writer)


def _shed_memory(db: sqlite3.Connection) -> None:
    """Drop the pages SQLite has in memory."""
    with contextlib.suppress(sqlite3.Error, MemoryError):
        db.execute("PRAGMA shrink_memory").fetchall()


def _roll_back(db: sqlite3.Connection) -> None:
    """Whatever is wrong with the medium, nothing half done may stay."""
    with contextlib.suppress(sqlite3.Error):  # else closing, or the next opening, rolls it back
        if db.in_transaction:
            db.execute("ROLLBACK")

"""`Store` on a database with named statements."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from msgspec import structs

from policies.retries import FailureCode
from policies.robots_state import RobotsState
from storage.engine import history_table, operator_work, refused_values
from storage.engine.connection_thread import finish
from storage.engine.databases import Database
from storage.engine.in_flight import NOTHING_LEFT
from storage.engine.operator_work import HostFailure
from storage.engine.refused_values import RefusedError
from storage.engine.transactions import Transactions, Work
from storage.engine.writer import Committed, Writer
from storage.store import (
    Batch,
    Blocked,
    Completed,
    HostUpdate,
    Lease,
    Link,
    Outcome,
    Plan,
    Prefetched,
    SitemapRead,
    Stats,
    StoreError,
    StoreTelemetry,
    Visited,
)
from storage.timekeeper import StoreTime
from storage.transient_faults import TransientFaults

P = ParamSpec("P")
T = TypeVar("T")

BULK_URLS: Final = 2_000  # in one transaction: other callers wait some 20 ms for it
BULK_SLOTS: Final = 500
_BREAKS: Final = object()
_RobotsCopy = tuple[RobotsState | None, HostUpdate | None]
_Verdict = tuple[str, int | Blocked]  # an argument of `rejudge`, and one of its items


def transaction(
    work: Callable[Concatenate[Writer, P], T], *, session: bool = False, refused: object = _BREAKS
) -> Callable[Concatenate[SqlStore, P], Coroutine[Any, Any, T]]:
    """A method of `Store` that is one transaction.

    session: its first argument is a session, and must be the open one.
    refused: what it returns where the database refuses a value; without it the store is broken.
    """

    async def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if session:
            self._calls.check_session(cast("int", args[0]))

        def run(writer: Writer) -> T:
            return work(writer, *args, **kwargs)

        if refused is _BREAKS:
            return await self._calls.must_run(run)
        return await self._calls.run_or(run, cast("T", refused))

    update_wrapper(method, work)
    return method


class SqlStore:
    """`Store` on a database, which `open_session` opens, and `close` releases.

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
        self._in_flight = database.in_flight
        self._calls = Transactions(
            database,
            time,
            monotonic=monotonic,
            sleep_until=sleep_until,
            queries_per_path_max=queries_per_path_max,
            start_wait_s=start_wait_s,
        )

    @property
    def shared(self) -> bool:
        return False

    @property
    def faults(self) -> TransientFaults:
        return self._calls.faults

    def set_patience(self, seconds: float) -> None:
        self._calls.set_patience(seconds)

    # ------------------------------------------------------------ sessions

    async def open_session(self, name: str) -> int:
        calls = self._calls
        if calls.is_open:
            return await self._begin(name)
        try:
            await calls.open()
            return await self._begin(name)
        except BaseException:
            await self.close()
            raise

    async def _begin(self, name: str) -> int:
        calls = self._calls
        last = await calls.must_run(Writer.last_time)
        if last is not None:
            calls.time.resume(*last)
        left = self._in_flight.left() if not calls.session else NOTHING_LEFT
        await calls.begin(_shown(name), left)
        self._in_flight.begin(calls.session)
        return calls.session

    async def close(self, session: int | None = None) -> None:
        self._calls.begin_closing()
        if self._calls.is_open:
            await finish(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        """Release the database, whether or not the end of the session can be recorded."""
        with contextlib.suppress(StoreError):
            if session := self._calls.session:
                await self._end_session(session)
        await self._calls.close()

    async def _end_session(self, session: int) -> None:
        await self._calls.must_run(lambda writer: writer.end(self._calls.number))

    async def name_session(self, session: int, name: str) -> None:
        self._calls.check_session(session)
        await self._calls.run_or(
            lambda writer: writer.name_session(self._calls.number, _shown(name)), None
        )

    def in_flight(self, id_: int) -> None:
        self._in_flight.add(id_)

    def not_in_flight(self, id_: int) -> None:
        self._in_flight.remove(id_)

    def robots_in_flight(self, slot: str, origin: str) -> None:
        self._in_flight.add((slot, origin))

    def robots_not_in_flight(self, slot: str, origin: str) -> None:
        self._in_flight.remove((slot, origin))

    # ------------------------------------------------------------ one transaction each

    claim = transaction(Writer.claim, session=True)
    outlook = transaction(Writer.outlook, session=True)
    glance = transaction(Writer.glance, session=True)
    robots_get = transaction(Writer.robots_get, refused=None)
    robots_due = transaction(Writer.robots_due, session=True)
    revisits_due = transaction(Writer.revisits_due, session=True)
    unplanned = transaction(Writer.unplanned, session=True)
    rejudge_due = transaction(Writer.rejudge_due, session=True)
    rejudge_all = transaction(Writer.rejudge_all, session=True)
    rejudge_done = transaction(Writer.rejudge_done, session=True, refused=None)
    ungoverned = transaction(Writer.ungoverned, refused=())
    blocked_by_robots = transaction(Writer.blocked_by_robots, refused=())
    set_controls = transaction(operator_work.set_controls, refused=0)
    recheck_delays = transaction(operator_work.recheck_delays, session=True)
    set_paused = transaction(operator_work.set_paused)
    paused = transaction(operator_work.paused)
    put_history = transaction(history_table.put_history, session=True, refused=None)

    async def stats(self) -> Stats:
        return await self._calls.stats()

    def telemetry(self) -> StoreTelemetry:
        calls = self._calls
        return StoreTelemetry(conflicts=calls.conflicts, commits_settled=calls.commits_settled)

    # ------------------------------------------------------------ links and outcomes

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        def insert(some: Sequence[Link]) -> Work[Completed]:
            return lambda writer: writer.add(some, revive=revive, referrer=referrer)

        return _together(await self._calls.run_each(links, insert, refused_values.without_link))

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        after = 0
        while some := await self._calls.must_run(partial(Writer.seeds, after=after)):
            yield [url for _, url in some]
            after = some[-1][0]

    async def complete(self, session: int, batch: Batch) -> Completed:
        def commit(some: Batch) -> Work[Committed]:
            return lambda writer: writer.complete(session, some)

        linked: Mapping[str, int] = {}
        if self.shared:
            batch, linked = await self._link(batch)
        try:
            parts = [await self._calls.run(commit(batch))]
        except RefusedError:
            parts = await self._complete_in_parts(batch, commit)
        for outcome in batch.outcomes:
            self._in_flight.remove(outcome.id)
        done = await self._settle_chains(parts)
        if not linked:
            return done
        return structs.replace(done, added=dict(Counter(done.added) + Counter(linked)))

    async def _link(self, batch: Batch) -> tuple[Batch, Mapping[str, int]]:
        """Insert the links of a commit in a transaction of its own. Return the batch, with
        outcomes replaced that have a refused value, and the number of URLs queued by slot."""
        answers = [one for one in batch.outcomes if isinstance(one, Visited | SitemapRead)]
        replaced: dict[int, Outcome] = {}

        def replace(outcome: Outcome, error: RefusedError) -> None:
            replaced[id(outcome)] = refused_values.instead_of(
                outcome, error, now_s=self._calls.time.wall_s()
            )

        parts = await self._calls.run_each(
            answers,
            lambda some: partial(Writer.link, outcomes=some, hosts=batch.hosts),
            replace,
        )
        if replaced:
            outcomes = [replaced.get(id(one), one) for one in batch.outcomes]
            batch = structs.replace(batch, outcomes=outcomes)
        linked = Counter[str]()
        for part in parts:
            linked.update(part)
        return batch, linked

    async def _complete_in_parts(
        self, batch: Batch, commit: Callable[[Batch], Work[Committed]]
    ) -> list[Committed]:
        """Commit a batch with a refused value: the outcome that has it is replaced, all else is
        stored. Outcomes missing after a crash in between are still queued."""
        calls, begun = self._calls, refused_values.begun
        first, batch = await calls.run_first(
            (batch, refused_values.plain(batch)),
            lambda some: commit(begun(some)),
            what="what a commit says of its hosts",
        )

        def put(some: Sequence[Outcome]) -> Work[Committed]:
            return commit(refused_values.part(batch, some))

        instead = partial(refused_values.instead_of, now_s=calls.time.wall_s())
        parts = await calls.run_each(batch.outcomes, put, instead)
        last, _ = await calls.run_first(
            (batch, refused_values.plain(batch)),
            lambda some: commit(refused_values.ended(some)),
            what="what a commit asks for",
        )
        return [first, *parts, last]

    async def _settle_chains(self, parts: Sequence[Committed]) -> Completed:
        """Have redirects follow what became of the URLs they lead to, some at a time."""
        done = _together([completed for completed, _ in parts])
        more = any(more for _, more in parts)
        if not more:
            return done
        added = Counter(done.added)
        while more:
            some, more = await self._calls.must_run(Writer.settle_chains)
            added.update(some)
        return structs.replace(done, added=dict(added))

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        self._calls.check_session(session)
        parts = await self._calls.run_each(
            slots, lambda some: partial(Writer.acquire, slots=some), refused_values.without_host
        )
        return {slot: lease for part in parts for slot, lease in part.items()}

    async def plan(self, session: int, plans: Mapping[int, Plan]) -> None:
        self._calls.check_session(session)
        await self._calls.run_each(
            [*plans.items()],
            lambda some: partial(Writer.plan, plans=dict(some)),
            refused_values.without_plan,
        )

    # ------------------------------------------------------------ robots.txt

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
        def put(given: _RobotsCopy, links: Sequence[Link] = ()) -> Work[Completed]:
            return lambda writer: writer.robots_put(
                session, slot, origin, *given, rejudge=rejudge, links=links
            )

        whole: _RobotsCopy = (copy, also)
        try:
            return await self._calls.run(put(whole, links))
        except RefusedError:
            added = await self.add(links)
        try:
            done = await self._calls.run(put(whole))
        except RefusedError as error:
            name = refused_values.log(f"the robots.txt of {origin[:2_000]!a}", error)
            plain = None if also is None else refused_values.plain_update(also)
            done = await self._calls.must_run(put((None, plain)))
            done = structs.replace(done, refused=name)
        return structs.replace(done, added=added.added)

    async def rejudge(
        self,
        session: int,
        *,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
    ) -> Completed:
        self._calls.check_session(session)

        def judge(some: Sequence[_Verdict]) -> Work[Committed]:
            return lambda writer: writer.rejudge(
                kept=[one for kind, one in some if kind == "kept" and isinstance(one, int)],
                withdrawn=[one for _, one in some if isinstance(one, Blocked)],
                freed=[one for kind, one in some if kind == "freed" and isinstance(one, int)],
            )

        verdicts: list[_Verdict] = [
            *(("kept", id_) for id_ in kept),
            *(("withdrawn", block) for block in withdrawn),
            *(("freed", id_) for id_ in freed),
        ]
        instead = partial(refused_values.verdict_instead, now_s=self._calls.time.wall_s())
        return await self._settle_chains(await self._calls.run_each(verdicts, judge, instead))

    # ------------------------------------------------------------ commands

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
        failure = HostFailure(error=error, attempts=attempts, last_at=last_at, origin=origin)
        plain = refused_values.plain_update(update)
        try:
            return await self._fail_host(session, update, failure)
        except RefusedError:
            pass
        try:
            return await self._fail_host(session, plain, failure)
        except RefusedError as refusal:
            failure = HostFailure(
                error=refused_values.error_instead("the error message for failed URLs", refusal),
                attempts=1,
                last_at=self._calls.time.wall_s(),
                origin=origin,
            )
        try:
            return await self._fail_host(session, plain, failure)
        except RefusedError as refusal:  # there is no such origin
            refused_values.log("an origin", refusal)
            return 0

    async def _fail_host(self, session: int, update: HostUpdate, failure: HostFailure) -> int:
        """Fail the URLs of a host as `fail_host` does. Raises RefusedError before any URL has
        failed."""

        def fail(update: HostUpdate, *, with_clock: bool) -> Work[int]:
            return lambda writer: operator_work.fail_some(
                writer, session, update, failure, limit=BULK_URLS, with_clock=with_clock
            )

        held = structs.replace(update, release=False)  # until all have failed
        failed = some = await self._calls.run(fail(held, with_clock=True))
        while some == BULK_URLS:
            some = await self._calls.run(fail(held, with_clock=False))
            failed += some
        if update.release:
            failed += await self._calls.run(
                fail(structs.replace(update, contacts=()), with_clock=True)
            )
        return failed

    async def drop_failed(self, host: str | None = None, code: str | None = None) -> int:
        return await self._failed_in_bulk(partial(operator_work.drop_some, host=host, code=code))

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        calls = self._calls
        await calls.run_or(lambda writer: operator_work.forgive(writer, host), None)
        retry = partial(operator_work.retry_some, host=host, code=code)
        queued = await self._failed_in_bulk(retry)
        if code in (None, FailureCode.QUARANTINED):
            queued += await calls.run_or(
                lambda writer: operator_work.release_robots(writer, host), 0
            )
        return queued

    async def _failed_in_bulk(self, work: Callable[..., tuple[int, int]]) -> int:
        """Do something to failed URLs, some thousands in a transaction; return to how many. work:
        with a writer and the arguments `after` and `limit`, returns how many, and the last id."""
        done, last, some = 0, 0, BULK_URLS
        while some == BULK_URLS:
            piece = partial(work, after=last, limit=BULK_URLS)
            some, last = await self._calls.run_or(piece, (0, last))
            done += some
        return done


def _shown(name: str) -> str:
    """The name of a session, which is only displayed."""
    return name.encode("utf-8", "replace").decode()


def _together(parts: Sequence[Completed]) -> Completed:
    """The result of one call that took several transactions."""
    if len(parts) == 1:
        return parts[0]
    added = Counter[str]()
    prefetched: dict[str, Prefetched] = {}
    for part in parts:
        added.update(part.added)
        prefetched.update(part.prefetched)
    stale = frozenset[str]().union(*(part.stale for part in parts))
    return Completed(stale=stale, added=added, prefetched=prefetched)

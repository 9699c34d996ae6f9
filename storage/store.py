"""The durable state of one crawl: `Store`, on the database of any storage engine.

The docstrings of its methods are the contract, here and in `storage.engine`;
`tests/storage/contract` holds every engine to it. The values that cross it (`storage.url_records`,
`storage.records`, `storage.read_records`) and the errors can be imported from here.

Two kinds of time cross this seam:

- Times of a host's clock, and times at which URLs fall due, are *durations* in seconds from now
  (`..._in_s`, `..._s`), because the crawler counts on a monotonic clock of its own, and the store
  on one clock that all workers share. The store's clock never runs backwards.
- Times of events that have happened (`fetched_at`, `blocked_at`) are Unix seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from math import inf
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

from storage.engine import commits, history_table, operator_work, robots_work
from storage.engine.databases import WorkerSession
from storage.engine.in_flight import NOTHING_LEFT
from storage.engine.transactions import Transactions
from storage.engine.writer import Writer
from storage.read_records import Row, RowPage, Stats
from storage.records import (
    Batch,
    Completed,
    Contact,
    Glance,
    HostClock,
    HostUpdate,
    Lease,
    LeasedAddress,
    Order,
    Outlook,
    Prefetch,
    Prefetched,
    Pulse,
    RobotsDue,
    StoreTelemetry,
    WorkerStatus,
)
from storage.store_errors import SEEDS_AT_ONCE, SUSPECT_REST_S, StoreError, StoreRefused
from storage.thread_work import finish
from storage.transient_faults import TransientFaults
from storage.url_records import (
    Before,
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    Judged,
    Link,
    Looked,
    Malformed,
    Moved,
    Outcome,
    Outlink,
    Plan,
    Pointer,
    Queued,
    Rel,
    Retry,
    Revisited,
    SitemapRead,
    Unplanned,
    UrlState,
    Visited,
)

if TYPE_CHECKING:
    from storage.reader import Reader

__all__ = [
    "SEEDS_AT_ONCE", "SUSPECT_REST_S", "Batch", "Before", "BlockReason", "Blocked", "Completed",
    "Contact", "Dropped", "Failed", "Glance", "HostClock", "HostUpdate", "Judged", "Lease",
    "LeasedAddress", "Link", "Looked", "Malformed", "Moved", "Order", "Outcome", "Outlink",
    "Outlook", "Plan", "Pointer", "Prefetch", "Prefetched", "Pulse", "Queued", "Rel", "Retry",
    "Revisited", "RobotsDue", "Row", "RowPage", "SitemapRead", "Stats", "Store", "StoreError",
    "StoreRefused", "StoreTelemetry", "Unplanned", "UrlState", "Visited", "WorkerStatus",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")

_BREAKS: Final = object()


def transaction(
    work: Callable[Concatenate[Writer, P], T], *, session: bool = False, refused: object = _BREAKS
) -> Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]:
    """A method of `Store` that is one transaction.

    session: its first argument is a session, and must be the open one.
    refused: what it returns where the database refuses a value; without it the store is broken.
    """

    async def method(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if session:
            self._calls.check_session(cast("int", args[0]))

        def run(writer: Writer) -> T:
            return work(writer, *args, **kwargs)

        if refused is _BREAKS:
            return await self._calls.must_run(run)
        return await self._calls.run_or(run, cast("T", refused))

    return update_wrapper(method, work)


def transactions(
    work: Callable[Concatenate[Transactions, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """A method of `Store` that chooses its transactions."""

    def method(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return work(self._calls, *args, **kwargs)

    return update_wrapper(method, work)


class Store:
    """The durable state of one crawl. One session writes at a time; in a store that is `shared`,
    any number of them do, one per worker. The calls of a session may be concurrent.

    **Atomicity.** Every method is one transaction, except where it says otherwise. A cancelled
    call has happened entirely or not at all.

    **Durability.** What a call has committed when it returns survives the death of the process. A
    power cut may lose the last commits, but never part of one.

    **Failures.** While a transient fault lasts (another program's lock, a full disk, too many open
    files), a call is repeated until it succeeds, and `faults` names the cause; see `set_patience`.
    Any other failure of the medium raises StoreError, and so does every call after it.

    **Repetition.** A caller that does not learn whether `complete` was committed (StoreError, or
    the death of the process) may repeat its outcomes in a later session: an outcome that no longer
    applies to its URL changes nothing.

    **Refused values.** A value that the engine cannot store (a number that is too large, a string
    that is not valid Unicode) affects only the item that contains it, takes further transactions,
    and is logged. What is stored instead:

    - `complete`: a Failed with the code `internal`, without the links; for a URL that was visited
      before, a Revisited without a plan.
    - `add` and `acquire`: nothing; the link, or the host, is left out.
    - `robots_put`: everything but the copy; `Completed.refused` names the error.
    - `plan`: nothing; the page has no plan.
    - `put_history`: nothing.
    - `rejudge` and `fail_host`: the block, or the failures, without the strings.
    - A HostUpdate: the default of the field, and WAIT_INSTEAD_S as the wait.
    - A lookup by such a name finds nothing.
    """

    def __init__(
        self, calls: Transactions, reader: Reader, worker: WorkerSession | None = None
    ) -> None:
        """reader: of the same database. worker: where several sessions write at a time."""
        self._calls = calls
        self.reader = reader
        self._worker = worker

    @property
    def faults(self) -> TransientFaults:
        """The transient fault that calls are waiting for, if any."""
        return self._calls.faults

    def set_patience(self, seconds: float) -> None:
        """Set how long a transient fault may last before it counts as a failure: this long from
        its beginning, or from now if it has begun. 30 s until this is called."""
        self._calls.set_patience(seconds)

    # ------------------------------------------------------------ sessions

    async def open_session(self, name: str) -> int:
        """Open the store for writing and begin a session; return its number, above all before.

        Leases of earlier sessions become void: their hosts can be claimed immediately, as not
        `clean`. In a shared store, this happens to the leases of a session only when it has ended,
        or was not renewed in time (see `pulse`). Opening does not read the frontier, so it takes
        well under a second at any size. Raises StoreRefused if another process has the store open
        that cannot share it.
        """
        was_open = self._calls.is_open
        try:
            if not was_open:
                await self._calls.open()
            session = await self._begin(name)
        except BaseException:
            if not was_open:
                await self.close()
            raise
        if self._worker is not None:
            try:
                await self._worker.begin()
            except BaseException:
                await self.close(session)
                raise
        return session

    async def _begin(self, name: str) -> int:
        calls, in_flight = self._calls, self._calls.database.in_flight
        last = await calls.must_run(Writer.last_time)
        if last is not None:
            calls.time.resume(*last)
        left = in_flight.left() if not calls.session else NOTHING_LEFT
        await calls.begin(_shown(name), left)
        in_flight.begin(calls.session)
        return calls.session

    async def name_session(self, session: int, name: str) -> None:
        """Give the session another name."""
        calls = self._calls
        calls.check_session(session)
        await calls.run_or(lambda writer: writer.name_session(calls.number, _shown(name)), None)

    async def close(self, session: int | None = None) -> None:
        """End the session and release the store. Hosts that were not released stay not `clean`."""
        self._calls.begin_closing()
        if self._calls.is_open:
            await finish(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        """Release the database, whether or not the end of the session can be recorded."""
        calls, worker = self._calls, self._worker
        if worker is not None:
            await worker.end()
        with contextlib.suppress(StoreError):
            if calls.session:
                await calls.must_run(lambda writer: writer.end(calls.number))
                if worker is not None:
                    await worker.free()
        await calls.close()

    def in_flight(self, id_: int) -> None:
        """Record that a request for this URL is about to be sent. Returns immediately and never
        raises.

        The URL is in flight until an outcome of it is committed. If the process dies before that
        (without `close`), the next `open_session` marks the URL as a suspect, due after
        SUSPECT_REST_S (a sitemap: immediately, so that runs that visit few pages read it at all).
        A URL that is a suspect already fails as `quarantined` instead.
        """
        self._calls.database.in_flight.add(id_)

    def not_in_flight(self, id_: int) -> None:
        """Record that this URL will have no outcome after all."""
        self._calls.database.in_flight.remove(id_)

    def robots_in_flight(self, slot: str, origin: str) -> None:
        """Record, as `in_flight` does, that the robots.txt of an origin is fetched, parsed and
        stored, until `robots_not_in_flight`; see `policies.quarantine`."""
        self._calls.database.in_flight.add((slot, origin))

    def robots_not_in_flight(self, slot: str, origin: str) -> None:
        """Record that this robots.txt is stored, or not fetched after all."""
        self._calls.database.in_flight.remove((slot, origin))

    # ------------------------------------------------------------ workers of a shared store

    @property
    def shared(self) -> bool:
        """Whether several sessions may write at a time. If not, `pulse` is never needed."""
        return self._calls.database.shared

    async def pulse(self, session: int, status: WorkerStatus) -> Pulse | None:
        """Renew the session, and report what this worker does; to be called about once a second,
        one call at a time.

        The worker may contact its hosts until `Pulse.lease_s` after it *made* the latest call that
        was answered, by a clock that also counts while the machine sleeps; before the first
        answer, none. A session that others have not seen renewed for that long, and some seconds
        more, by their own clocks, loses its leases. If it is still alive, the next answer is
        `lost`: it can claim hosts again, but holds none.

        The worker may contact the addresses that it reports and is answered with, until the
        answer to a call that does not report them, or without them. One that it did not hold before
        may have been contacted by others until now.

        None: the database cannot be reached at present. That is answered within a third of the
        lease, without waiting for calls that are being repeated (see `faults`). Raises StoreError
        if the failure will not pass.
        """
        self._calls.check_session(session)
        if self._worker is None:
            return Pulse(lease_s=inf, paused=await self.paused())
        return await self._worker.pulse(status)

    publish = transaction(Writer.publish, session=True)

    # ------------------------------------------------------------ links and outcomes

    add = transactions(commits.add)
    seeds = transactions(commits.seeds)
    complete = transactions(commits.complete)

    # ------------------------------------------------------------ leases

    claim = transaction(Writer.claim, session=True)
    acquire = transactions(commits.acquire)
    glance = transaction(Writer.glance, session=True, refused=None)
    address_delay_s = transaction(Writer.address_delay_s, refused=0.0)
    outlook = transaction(Writer.outlook, session=True)
    forget = transactions(commits.forget)

    # ------------------------------------------------------------ recrawls

    revisits_due = transaction(Writer.revisits_due, session=True)
    unplanned = transaction(Writer.unplanned, session=True)
    plan = transactions(commits.plan)

    # ------------------------------------------------------------ robots.txt

    robots_put = transactions(robots_work.robots_put)
    robots_get = transaction(robots_work.robots_get, refused=None)
    robots_due = transaction(robots_work.robots_due, session=True)
    rejudge_due = transaction(robots_work.rejudge_due, session=True)
    rejudge_all = transaction(robots_work.rejudge_all, session=True)
    rejudge_done = transaction(robots_work.rejudge_done, session=True, refused=None)
    ungoverned = transaction(robots_work.ungoverned, refused=())
    blocked_by_robots = transaction(robots_work.blocked_by_robots, refused=())
    rejudge = transactions(robots_work.rejudge)

    # ------------------------------------------------------------ commands

    fail_host = transactions(operator_work.fail_host)
    retry_failed = transactions(operator_work.retry_failed)
    drop_failed = transactions(operator_work.drop_failed)
    set_controls = transaction(operator_work.set_controls, refused=0)
    recheck_delays = transaction(operator_work.recheck_delays, session=True)
    set_paused = transaction(operator_work.set_paused)
    paused = transaction(operator_work.paused)
    put_history = transaction(history_table.put_history, session=True, refused=None)

    async def stats(self) -> Stats:
        """Return the counts. Answers without waiting, even while other calls are repeated."""
        return await self._calls.stats()

    def telemetry(self) -> StoreTelemetry:
        """Return what was counted of renewals and of faults, for monitoring."""
        calls = self._calls
        counted = StoreTelemetry(conflicts=calls.conflicts, commits_settled=calls.commits_settled)
        return counted if self._worker is None else self._worker.telemetry(counted)


def _shown(name: str) -> str:
    """The name of a session, which is only displayed."""
    return name.encode("utf-8", "replace").decode()

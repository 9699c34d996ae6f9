"""The session of a worker that shares a PostgreSQL database, and its store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from storage.engine import commits
from storage.engine.transactions import Transactions
from storage.engine.writer import Writer
from storage.location import LEASE_S, ServerLocation
from storage.postgres.database import PostgresDatabase
from storage.postgres.errors import described
from storage.postgres.postgres_reader import server_reader
from storage.postgres.pulses import Pulses
from storage.postgres.server_time import ServerTime
from storage.records import Pulse, StoreTelemetry, WorkerStatus
from storage.store import Store
from storage.store_errors import StoreError
from storage.timekeeper import StoreTime
from storage.transient_faults import FaultKind, TransientFault

SILENT_AT_ONCE: Final = 4  # sessions reaped with one pulse
BULK_SLOTS: Final = 500


def server_store(
    location: ServerLocation,
    *,
    wall: Callable[[], float],
    monotonic: Callable[[], float] | None = None,
    sleep_until: Callable[[float], Awaitable[None]] | None = None,
    queries_per_path_max: float = 1000,
    lease_s: float = LEASE_S,
    start_wait_s: float | None = None,
    time: StoreTime | None = None,
) -> Store:
    """Return the store on a server, shared with any number of other workers.

    `wall` gives Unix seconds, until the server's clock is known; `sleep_until` waits for a
    `monotonic` time. lease_s: how long a worker may contact its hosts without renewing its session.
    start_wait_s: how long `open_session` waits for a server that cannot be reached; None: it raises
    StoreRefused.
    time: for tests, in place of the server's clock.
    """
    time = time or ServerTime(wall)
    database = PostgresDatabase(location, time, waits=start_wait_s is not None)
    calls = Transactions(
        database,
        time,
        monotonic=monotonic,
        sleep_until=sleep_until,
        queries_per_path_max=queries_per_path_max,
        start_wait_s=start_wait_s,
    )
    return Store(calls, server_reader(location), ServerSession(calls, database, lease_s=lease_s))


class ServerSession:
    """`storage.engine.databases.WorkerSession`; it frees the hosts of other sessions, too, if those
    are no longer renewed."""

    def __init__(self, calls: Transactions, database: PostgresDatabase, *, lease_s: float) -> None:
        self._calls = calls
        self._database = database
        self._location = database.location
        self._pulses = Pulses(
            database.location,
            database.lineage,
            lease_s=lease_s,
            elapsed=database.elapsed,
            now=calls.time.now_s,
            writing=database.under_way,
        )
        self._blocked: TransientFault | None = None  # as it is shown
        self._returns_told = 0
        self._seeds_owed = False  # the database may have forgotten them
        self._lease_s = lease_s
        self._task: asyncio.Task[None] | None = None  # ends or continues sessions
        self._reviving: asyncio.Task[None] | None = None  # as long as `lost` was not returned
        self._leases_lost = 0
        self._reaped = 0

    async def begin(self) -> None:
        newest_order = await self._calls.must_run(Writer.newest_order)
        with described(self._location, opening=True):
            await self._pulses.begin(newest_order)

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._pulses.close()

    async def free(self) -> None:
        await self._free(self._calls.number)

    async def pulse(self, status: WorkerStatus) -> Pulse | None:
        with described(self._location):
            pulse = await self._pulses.pulse(self._calls.number, status)
        if pulse is None:
            return None
        self._show_blockers()
        if pulse.lost and self._reviving is None:
            # In a task of its own, like the rest: it may take longer than a pulse.
            self._reviving = self._start(self._revive())
        if self._reviving is not None:
            if not await self._ended(self._reviving):
                return None  # the caller is still to learn that its leases are lost
            self._reviving = None
            self._leases_lost += status.hosts
            pulse = structs.replace(pulse, lost=True)
        elif self._returns_told != self._calls.returns:  # a transaction found it first
            self._leases_lost += status.hosts
            pulse = structs.replace(pulse, lost=True)
        elif self._pulses.silent:
            self._start(self._reap(self._pulses.silent[:SILENT_AT_ONCE]))
        if pulse.lost and self._returns_told != self._calls.returns:
            self._returns_told = self._calls.returns
            self._seeds_owed = True
        if self._seeds_owed:  # until it succeeds: something else may be under way
            self._start(self._add_seeds())
        return structs.replace(pulse, settling=self._database.lineage.settling)

    def _show_blockers(self) -> None:
        """Hold the crawl while somebody else's transaction keeps one of this worker waiting: no
        fault tells of it, because the server answers as soon as the other one ends."""
        faults, blockers = self._calls.faults, self._pulses.blockers
        if blockers and faults.now is None:
            what = f"{blockers} has locked what this worker waits for in {self._database.name}"
            self._blocked = TransientFault(
                kind=FaultKind.LOCKED, what=what, sentence=what, since=self._calls.time.wall_s()
            )
            faults.set(self._blocked)
        elif not blockers and self._blocked is not None:
            if faults.now == self._blocked:
                faults.set(None)
            self._blocked = None

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start `work`, unless something is under way; return what is."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(work)
        else:
            work.close()
        return self._task

    async def _ended(self, task: asyncio.Task[None]) -> bool:
        """Whether a task ends before the next pulse is due. Raises what it raises."""
        await asyncio.wait([task], timeout=self._lease_s / 3)
        if task.done():
            task.result()
        return task.done()

    async def _revive(self) -> None:
        number = self._calls.number
        await self._free(number)
        if number == self._calls.number:  # else the database went back, and this began anew
            await self._calls.must_run(partial(Writer.revive, session=number))

    async def _add_seeds(self) -> None:
        """Add what this worker was given once more."""
        returns = self._calls.returns
        with contextlib.suppress(StoreError):  # which the next call raises, too
            await commits.insert(self._calls, list(self._calls.seeds_added))
            self._seeds_owed = returns != self._calls.returns

    async def _reap(self, silent: Sequence[tuple[int, int]]) -> None:
        with contextlib.suppress(StoreError):  # which the next call raises, too
            for session, beat in silent:
                if await self._calls.must_run(partial(Writer.reap, session=session, beat=beat)):
                    self._reaped += 1
                    await self._free(session)

    async def _free(self, session: int) -> None:
        """Free the hosts of a session that has ended, some at a time."""
        some = partial(Writer.void_some, session=session, limit=BULK_SLOTS)
        while await self._calls.must_run(some):
            pass

    def telemetry(self, counted: StoreTelemetry) -> StoreTelemetry:
        pulses = self._pulses
        return structs.replace(
            counted,
            renewals=pulses.renewals,
            renewals_s=pulses.renewals_s,
            renewals_failed=pulses.renewals_failed,
            leases_lost=self._leases_lost,
            sessions_reaped=self._reaped,
            reconnections=pulses.reconnections + self._database.reconnections,
        )

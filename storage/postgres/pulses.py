"""A worker's session: its renewals, and what it learns of other workers with each."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar, cast

import asyncpg
import msgspec

from storage.engine.connection_thread import ConnectionThread, open_thread
from storage.engine.statements import TransactionConflict
from storage.location import ServerLocation
from storage.postgres.errors import fault_kind_of
from storage.postgres.lineage import Lineage, SessionState, place_of
from storage.postgres.schema import check_readable
from storage.postgres.server_connection import ServerConnection, UnderWay
from storage.postgres.statements import PostgresStatements
from storage.records import LeasedAddress, Order, Pulse, WorkerStatus

T = TypeVar("T")

GRACE_S: Final = 5.0  # beyond its lease, before a session is reaped
UNHEARD_S: Final = 2.5  # without a renewal, an idle session counts as active
ACTIVE_S: Final = 4.0  # for so long, a session counts as active that was
BLOCKED_S: Final = 3.0  # a transaction that has not ended for so long may wait for a lock
_ORDERS_DROPPED_EVERY: Final = 600  # pulses
_CLOSE_S: Final = 1.0  # for the server to see the connection end
_OthersShape = list[tuple[int, int, float, int, int | None]]  # id, beat, lease_s, idle, sharing
_LeasedShape = list[tuple[str, float, int]]
_OrdersShape = list[tuple[int, str, dict[str, object]]]


class Silence:
    """Finds out which sessions are no longer renewed, by this worker's own clock: no clock of
    another machine is read, so none can be wrong.

    If nothing was observed for half a session's limit (the server was down, this worker was
    stopped), its observation begins anew: it may have been unable to renew itself, too.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}  # session -> its beat, and since when
        self._observed_s = -math.inf

    def silent(
        self, beats: Mapping[int, int], limits_s: Mapping[int, float], now_s: float
    ) -> list[tuple[int, int]]:
        """Return the sessions, with their beats, whose beat has not changed for their limit.

        beats: of all live sessions but this one. now_s: this worker's clock."""
        unobserved_s = now_s - self._observed_s
        self._observed_s = now_s
        self._seen = {
            session: seen
            if (seen := self._seen.get(session)) is not None
            and seen[0] == beat
            and unobserved_s <= limits_s[session] / 2
            else (beat, now_s)
            for session, beat in beats.items()
        }
        return [
            (session, beat)
            for session, (beat, since_s) in self._seen.items()
            if now_s - since_s > limits_s[session]
        ]


class SessionActivity:
    """Counts the other sessions that may have work, or may have had some a moment ago.

    A session counts as active while it is not idle, and while it is not heard of: it may have begun
    to work since it said that it was idle. It is counted for some seconds more. So when none is
    counted, the hosts that any of them released, or lost, were there to be claimed meanwhile.
    """

    def __init__(self) -> None:
        self._silence = Silence()
        self._active_s: dict[int, float] = {}  # session -> when it was last active

    def count(self, idle: Mapping[int, bool], beats: Mapping[int, int], now_s: float) -> int:
        """Return how many are active. idle, beats: of all live sessions but this one. now_s: this
        worker's clock."""
        limits_s = dict.fromkeys(beats, UNHEARD_S)
        unheard = {session for session, _ in self._silence.silent(beats, limits_s, now_s)}
        for session in beats:
            if not idle[session] or session in unheard:
                self._active_s[session] = now_s
        self._active_s = {
            session: at_s for session, at_s in self._active_s.items() if now_s - at_s < ACTIVE_S
        }
        return len(self._active_s)


class PulseConnection:
    """The connection that renews a session; made when it is first needed, and again after any
    failure."""

    def __init__(self, location: ServerLocation, lineage: Lineage) -> None:
        self._location = location
        self.server = ServerConnection(location, self._prepare)
        self.sql = self.server.sql
        self._lineage = lineage
        self._identity = ""  # of the server

    async def _prepare(self, db: asyncpg.Connection[Any]) -> None:
        await check_readable(db, self._location)
        place = await place_of(db)
        self._lineage.connected(place)
        self._identity = place.server

    def within(self, until_s: float, work: Callable[[PostgresStatements], T]) -> T:
        """Return `work(statements)`, which has until then (`time.monotonic`). Raises what it
        raises."""
        self.sql.limit(until_s - time.monotonic())
        if self._lineage.server not in (None, self._identity):
            self.sql.drop()  # a server that was replaced may still answer
        try:
            self.server.ensure_open()
            return work(self.sql)
        except TransactionConflict as error:
            self.sql.drop()
            raise error.__cause__ or error from None
        except BaseException:
            self.sql.drop()
            raise

    def close(self) -> None:
        self.sql.limit(_CLOSE_S)
        self.server.close()


class Pulses:
    """Renews one session, by a connection of its own: a commit that takes long delays no renewal.

    Raises nothing for a database that cannot be reached: the connection is made again with the next
    call.
    """

    def __init__(
        self,
        location: ServerLocation,
        lineage: Lineage,
        *,
        lease_s: float,
        elapsed: Callable[[], float],
        now: Callable[[], float],
        writing: Callable[[], UnderWay | None] = lambda: None,
    ) -> None:
        """now: the store's time. writing: the transaction of this worker that is under way."""
        self._writing = writing
        self._location = location
        self._lineage = lineage
        self._now = now
        self._lease_s = lease_s
        self._elapsed = elapsed
        self._thread: ConnectionThread[PulseConnection] | None = None
        self._order = 0  # the newest that was received
        # What follows is changed by the thread only, and read by others.
        self._silence = Silence()
        self._activity = SessionActivity()
        self._count = 0
        self._times_opened = 0
        self._has_addresses = False
        self.renewals = 0  # that were answered
        self.renewals_s = 0.0  # the round trips of all of them
        self.renewals_failed = 0
        self.silent: list[tuple[int, int]] = []
        """Sessions to be reaped, each with its last beat."""
        self.blockers = ""
        """Who keeps the transaction under way waiting for a lock, in words."""

    @property
    def reconnections(self) -> int:
        """How often the connection was lost and made again."""
        return max(0, self._times_opened - 1)

    async def begin(self, newest_order: int) -> None:
        """Connect, unless that is impossible at present. Pulses bring the orders after this one:
        what was ordered before is in the database."""
        self._order = newest_order
        self._thread = await open_thread(
            f"the database {self._location}",
            partial(PulseConnection, self._location, self._lineage),
        )
        await self._run(lambda sql: None)

    async def close(self) -> None:
        """Nobody needs the answer of a server, so this waits a moment for it at most."""
        thread, self._thread = self._thread, None
        if thread is not None and (stopped := thread.stop()) is not None:
            await asyncio.wait([stopped], timeout=_CLOSE_S)

    async def pulse(self, session: int, status: WorkerStatus) -> Pulse | None:
        """Renew the session as `Store.pulse` does; `lost` if it had been ended."""
        done = await self._run(partial(self._renew, session, status))
        if done is None:
            return None
        pulse, self._order = done  # here: a caller that was cancelled has not received the orders
        return pulse

    async def _run(self, work: Callable[[PostgresStatements], T]) -> T | None:
        """Return what `work` does within a third of the lease from now, however much is ahead of
        it; None if the server cannot be used at present. A caller that is cancelled leaves it to
        end by itself."""
        assert self._thread is not None
        until_s = time.monotonic() + self._lease_s / 3
        return await self._thread.run(partial(self._attempt, work, until_s))

    # ------------------------------------------------------------ in the thread

    def _attempt(
        self,
        work: Callable[[PostgresStatements], T],
        until_s: float,
        connection: PulseConnection,
    ) -> T | None:
        try:
            return connection.within(until_s, work)
        except Exception as error:
            self.renewals_failed += 1
            if fault_kind_of(error) is None:
                raise
            return None
        finally:
            self._times_opened = connection.server.times_opened

    def _renew(
        self, session: int, status: WorkerStatus, sql: PostgresStatements
    ) -> tuple[Pulse, int]:
        """Return the pulse, and the number of the newest order that it knows of."""
        began_s = self._elapsed()
        done = self._pulse(session, status, sql)
        self.renewals += 1
        self.renewals_s += self._elapsed() - began_s
        return done

    def _pulse(
        self, session: int, status: WorkerStatus, sql: PostgresStatements
    ) -> tuple[Pulse, int]:
        self._count += 1
        known = self._lineage.known if session == self._lineage.session else SessionState()
        beat = sql.row(
            "beat", session, status.idle, status.sharing, status.hosts, status.in_flight,
            status.pages, status.pages_per_s, status.uncommitted, self._lease_s,
            msgspec.json.encode(status.held).decode(),
            self._now(),
        )  # fmt: skip
        self.blockers = self._blocked_by(sql)
        others = sql.read(_OthersShape, "others", session)
        now_s = self._elapsed()
        beats = {key: beat for key, beat, *_ in others}
        limits_s = {key: max(lease_s, self._lease_s) + GRACE_S for key, _, lease_s, *_ in others}
        self.silent = self._silence.silent(beats, limits_s, now_s)
        dead = {key for key, _ in self.silent}
        idle = {key: bool(is_idle) for key, *_, is_idle, _ in others}
        orders = sql.read(_OrdersShape, "orders_after", session, self._order)
        addresses = self._lease_addresses(session, status.addresses, sql)
        if self._count % _ORDERS_DROPPED_EVERY == 0:
            sql.run("drop_orders")
        paused = self._read_state(session, known, max(limits_s.values(), default=0.0), sql)
        pulse = Pulse(
            lease_s=self._lease_s,
            lost=beat is None or self._lineage.reason is not None,
            others_active=self._activity.count(idle, beats, now_s),
            others_sharing={
                key: sharing
                for key, *_, sharing in others
                if sharing is not None and key not in dead
            },
            paused=paused,
            orders=[Order(verb=verb, body=body) for _, verb, body in orders],
            addresses=addresses,
        )
        return pulse, orders[-1][0] if orders else self._order

    def _blocked_by(self, sql: PostgresStatements) -> str:
        writing = self._writing()
        if writing is None or time.monotonic() - writing.since_s < BLOCKED_S:
            return ""
        return " and ".join(
            f"process {pid:d} ({application or 'unnamed'} of user {user})"
            if pid
            else "a prepared transaction"
            for pid, user, application in cast(
                "Iterable[tuple[int, str, str]]", sql.rows("blockers", writing.pid)
            )
        )

    def _read_state(
        self, session: int, known: SessionState, others_limit_s: float, sql: PostgresStatements
    ) -> bool:
        """Return whether the crawl is paused. If the database went back in time, find that out, and
        let hosts be leased again when every worker that does not know of it must have stopped."""
        row = sql.row("pulse_state", session)
        assert row is not None
        found = SessionState.found(*row[3:])
        paused, returns, settled = (int(value or 0) for value in row[:3])
        if session == self._lineage.session:
            self._lineage.read(returns, settled, found, known)
            self._lineage.acknowledged(session, found or SessionState())
        after_s = max(self._lease_s + GRACE_S, others_limit_s)
        if (settled_return := self._lineage.has_settled(after_s)) is not None:
            sql.run("settle_return", settled_return)
        return bool(paused)

    def _lease_addresses(
        self, session: int, wanted: Mapping[str, float], sql: PostgresStatements
    ) -> Mapping[str, LeasedAddress]:
        """Lease these addresses, with their delays in seconds, and no others."""
        if not wanted and not self._has_addresses:
            return {}
        asked = msgspec.json.encode(wanted).decode()
        leased = sql.read(_LeasedShape, "lease_addresses", session, asked)
        self._has_addresses = bool(leased)
        return {name: LeasedAddress(delay_s, bool(wanted)) for name, delay_s, wanted in leased}

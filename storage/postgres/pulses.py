"""A worker's session: its renewals, and what it learns of other workers with each."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

from storage.location import ServerLocation
from storage.postgres.connection import connect
from storage.postgres.errors import fault_kind_of
from storage.postgres.schema import check_readable
from storage.postgres.statements import statements
from storage.records import HeldAddress, Order, Pulse, WorkerStatus

T = TypeVar("T")

GRACE_S: Final = 5.0  # beyond its lease, before a session is reaped
UNHEARD_S: Final = 2.5  # without a renewal, an idle session counts as active
ACTIVE_S: Final = 4.0  # for so long, a session counts as active that was
_ORDERS_DROPPED_EVERY: Final = 600  # pulses
_OthersShape = list[tuple[int, int, float, int, int]]  # id, beat, lease_s, idle, hungry
_HeldShape = list[tuple[str, float, int]]
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


class Activity:
    """Counts the other sessions that may have work, or may have had some a moment ago.

    A session counts as active while it is not idle, and while it is not heard of: it may have begun
    to work since it said that it was idle. It is counted for some seconds more. So when none is
    counted, the hosts that any of them released, or lost, were there to be claimed meanwhile.
    """

    def __init__(self) -> None:
        self._silence = Silence()
        self._active_s: dict[int, float] = {}  # session -> when it was last active

    def count(self, idle: Mapping[int, bool], beats: Mapping[int, int], now_s: float) -> int:
        """idle, beats: of all live sessions but this one. now_s: this worker's clock."""
        limits_s = dict.fromkeys(beats, UNHEARD_S)
        unheard = {session for session, _ in self._silence.silent(beats, limits_s, now_s)}
        for session in beats:
            if not idle[session] or session in unheard:
                self._active_s[session] = now_s
        self._active_s = {
            session: at_s for session, at_s in self._active_s.items() if now_s - at_s < ACTIVE_S
        }
        return len(self._active_s)


class Pulses:
    """Renews one session, by a connection of its own on the event loop of the crawl: a commit that
    takes long delays no renewal.

    Raises nothing for a database that cannot be reached: the connection is made again with the next
    call.
    """

    def __init__(
        self, location: ServerLocation, *, lease_s: float, elapsed: Callable[[], float]
    ) -> None:
        self._location = location
        self._lease_s = lease_s
        self._elapsed = elapsed
        self._silence = Silence()
        self._activity = Activity()
        self._db: asyncpg.Connection[Any] | None = None
        self._order = 0  # the newest that was received
        self._count = 0
        self._connected_before = False
        self.renewals = 0  # that were answered
        self.renewals_s = 0.0  # the round trips of all of them
        self.renewals_failed = 0
        self.reconnections = 0
        self._holds_addresses = False
        self.silent: list[tuple[int, int]] = []
        """Sessions to be reaped, each with its last beat."""

    async def begin(self, newest_order: int) -> None:
        """Connect, unless that is impossible at present. Pulses bring the orders after this one:
        what was ordered before is in the database."""
        self._order = newest_order
        try:
            await self._connected()
        except Exception as error:
            if fault_kind_of(error) is None:
                raise

    async def close(self) -> None:
        db, self._db = self._db, None
        if db is not None and not db.is_closed():
            try:
                async with asyncio.timeout(1.0):
                    await db.close()
            except Exception:  # noqa: BLE001 - nobody needs its answer
                db.terminate()

    async def pulse(self, session: int, status: WorkerStatus) -> Pulse | None:
        """As `Store.pulse`; `lost` if the session had been ended."""
        began_s = self._elapsed()
        try:
            async with asyncio.timeout(self._lease_s / 3):
                pulse = await self._pulse(await self._connected(), session, status)
        except Exception as error:
            self.renewals_failed += 1
            lost = self._db is not None and self._db.is_closed()
            self._drop()
            if not lost and fault_kind_of(error) is None:
                raise
            return None
        except BaseException:  # cancelled
            self._drop()
            raise
        self.renewals += 1
        self.renewals_s += self._elapsed() - began_s
        return pulse

    async def publish(self, session: int, order: Order) -> None:
        """As `Store.publish`. Raises what asyncpg raises."""
        db = await self._connected()
        body = msgspec.json.encode(order.body).decode()
        await db.execute(statements()["publish"], session, order.verb, body)

    async def _pulse(
        self, db: asyncpg.Connection[Any], session: int, status: WorkerStatus
    ) -> Pulse:
        self._count += 1
        done = await db.execute(
            statements()["beat"], session, status.idle, status.hungry, status.hosts,
            status.in_flight, status.pages, status.pages_per_s, status.uncommitted, self._lease_s,
        )  # fmt: skip
        others = _decode(_OthersShape, await db.fetchval(statements()["others"], session))
        now_s = self._elapsed()
        beats = {key: beat for key, beat, *_ in others}
        limits_s = {key: max(lease_s, self._lease_s) + GRACE_S for key, _, lease_s, *_ in others}
        self.silent = self._silence.silent(beats, limits_s, now_s)
        dead = {key for key, _ in self.silent}
        idle = {key: bool(is_idle) for key, *_, is_idle, _ in others}
        orders = _decode(
            _OrdersShape, await db.fetchval(statements()["orders_after"], session, self._order)
        )
        addresses = await self._hold(db, session, status.addresses)
        if orders:
            self._order = orders[-1][0]
        if self._count % _ORDERS_DROPPED_EVERY == 0:
            await db.execute(statements()["drop_orders"])
        return Pulse(
            lease_s=self._lease_s,
            lost=done == "UPDATE 0",
            others_active=self._activity.count(idle, beats, now_s),
            others_hungry=sum(hungry for key, *_, hungry in others if key not in dead),
            paused=bool(await db.fetchval(statements()["paused"])),
            orders=[Order(verb=verb, body=body) for _, verb, body in orders],
            addresses=addresses,
        )

    async def _hold(
        self, db: asyncpg.Connection[Any], session: int, wanted: Mapping[str, float]
    ) -> Mapping[str, HeldAddress]:
        """Hold these addresses, with their delays in seconds, and no others."""
        if not wanted and not self._holds_addresses:
            return {}
        asked = msgspec.json.encode(wanted).decode()
        held = _decode(
            _HeldShape, await db.fetchval(statements()["hold_addresses"], session, asked)
        )
        self._holds_addresses = bool(held)
        return {name: HeldAddress(rest_s, bool(wanted)) for name, rest_s, wanted in held}

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._db is None or self._db.is_closed():
            db = await connect(self._location)
            try:
                await check_readable(db, self._location)
            except BaseException:
                db.terminate()
                raise
            self._db = db
            self.reconnections += self._connected_before
            self._connected_before = True
        return self._db

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(Exception):
                db.terminate()


def _decode(shape: type[T], text: str) -> T:
    return msgspec.json.decode(text, type=shape)

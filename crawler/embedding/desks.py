"""The hosts that callers use now, each with the line of those who wait for it; those not used for
long are forgotten, so that a program that runs for ever stays small."""

from __future__ import annotations

import asyncio
import itertools
import math
from asyncio import Future
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from crawler.clock import Clock
from crawler.config import Config
from crawler.embedding.jobs import Jobs
from crawler.errors import CourtlyError
from crawler.politeness.gate import Gate
from crawler.politeness.host import Host
from crawler.politeness.turns import Turns
from crawler.visiting.ledger import Ledger
from storage.store import Store

# Hosts in memory (law 7), about 3 KB each. Beyond it those used longest ago are forgotten, once
# they have rested: without a database nothing is known of them then, and robots.txt is asked first.
HOSTS_KEPT_MAX: Final = 4_096
# Their robots.txt copies, which may have 500 KiB each; a usual one has 2 KB.
ROBOTS_BYTES_KEPT_MAX: Final = 64_000_000
FORGET_DOWN_TO: Final = 7 / 8  # of the two above
# Hosts looked at, at most, to find some to forget, and how soon again when they all were in use.
LOOKED_AT_MAX: Final = 1_024
LOOK_EVERY_S: Final = 1.0


@dataclass(slots=True, eq=False)
class Place:
    """One caller's place in the line of a host."""

    url: str
    called: Future[None]
    problem: CourtlyError | None = None  # why it need not wait any longer

    def call(self, problem: CourtlyError | None = None) -> None:
        if not self.called.done():
            self.problem = problem
            self.called.set_result(None)


@dataclass(slots=True, eq=False)
class Desk:
    """A held host and those who wait for it, in order. Only the first stands for a turn: so a
    robots.txt that falls due is fetched before the next page, and order is kept across it."""

    host: Host
    line: deque[Place] = field(default_factory=deque)
    users: int = 0  # callers that have it in hand: it must not be forgotten under them


class Desks:
    """Leases hosts for callers and gives back the ones nobody uses."""

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        turns: Turns,
        gate: Gate,
        ledger: Ledger,
        jobs: Jobs,
    ) -> None:
        self._config = config
        self._store = store
        self._session = session
        self._clock = clock
        self._turns = turns
        self._gate = gate
        self._ledger = ledger
        self._jobs = jobs
        self._desks: OrderedDict[str, Desk] = OrderedDict()  # the one used longest ago first
        self._holding: dict[str, asyncio.Task[None]] = {}
        self._wanted: Counter[str] = Counter()  # slots that somebody waits to have held
        self._pruner: asyncio.Task[None] | None = None
        self._look_s = -math.inf  # not before, for hosts to forget
        self.robots_bytes = 0

    def __len__(self) -> int:
        return len(self._desks)

    def __iter__(self) -> Iterator[Desk]:
        return iter(self._desks.values())

    def get(self, slot: str) -> Desk | None:
        return self._desks.get(slot)

    def use(self, slot: str) -> Desk | None:
        """The desk of a held host, counted as used now."""
        desk = self._desks.get(slot)
        if desk is not None:
            self._desks.move_to_end(slot)
            desk.users += 1
        return desk

    async def hold(self, slot: str) -> Host | None:
        """The held host of a slot; None if it cannot be had. Leased in a task of its own: no
        caller's cancellation can cut that in two."""
        if (desk := self._desks.get(slot)) is None:
            job = self._holding.get(slot)
            if job is None:
                job = self._holding[slot] = self._jobs.spawn(self._lease(slot))
                job.add_done_callback(lambda _: self._holding.pop(slot, None))
            self._wanted[slot] += 1
            try:
                await asyncio.wait([job])
            finally:
                self._wanted[slot] -= 1
                if not self._wanted[slot]:
                    del self._wanted[slot]
            desk = self._desks.get(slot)
        return None if desk is None else desk.host

    async def _lease(self, slot: str) -> None:
        if self._ledger.releasing(slot):
            await self._ledger.flush()
        lease = (await self._store.acquire(self._session, [slot])).get(slot)
        if lease is None:
            return
        now_s = self._clock.monotonic()
        host = Host(lease, self._config.site(slot).politeness, now_s=now_s)
        self._gate.adopt(host, dict(lease.robots))
        self.robots_bytes += sum(len(copy.body or b"") for copy in lease.robots.values())
        self._turns.hold(host)
        self._desks[slot] = Desk(host)
        if self._pruner is None and self._is_crowded(1.0) and now_s >= self._look_s:
            self._pruner = self._jobs.spawn(self._prune())

    def _is_crowded(self, share: float) -> bool:
        return (
            len(self._desks) > share * HOSTS_KEPT_MAX
            or self.robots_bytes > share * ROBOTS_BYTES_KEPT_MAX
        )

    async def _prune(self) -> None:
        """Forget hosts that have rested and that nobody waits for."""
        try:
            slots = self._drop_spare()
            if not slots:
                self._look_s = self._clock.monotonic() + LOOK_EVERY_S
                return
            await self._ledger.flush()
            for slot in slots:
                if slot not in self._holding:
                    await self._store.forget(slot)
        finally:
            self._pruner = None

    def _drop_spare(self) -> list[str]:
        """Let go of hosts, those used longest ago first, until there is room."""
        slots: list[str] = []
        for slot, desk in list(itertools.islice(self._desks.items(), LOOKED_AT_MAX)):
            if not self._is_crowded(FORGET_DOWN_TO):
                break
            self._desks.move_to_end(slot)  # looked at: the others come first the next time
            if slot in self._wanted or self._in_use(desk):
                continue
            slots.append(slot)
            del self._desks[slot]
            self.robots_bytes -= sum(
                len(origin.access.body or b"") for origin in self._gate.origins_of(desk.host)
            )
            self._turns.drop(desk.host)
            self._gate.forget(desk.host)
            self._ledger.release(desk.host)
        return slots

    def _in_use(self, desk: Desk) -> bool:
        host = desk.host
        if desk.users or host.busy or host.waiters or host.paused:
            return True
        now_s = self._clock.monotonic()
        if self._turns.why(host)[0] > 0 or any(
            lost.until_s > now_s for lost in host.out_of_reach.values()
        ):
            return True  # it rests
        return any(origin.in_use for origin in self._gate.origins_of(host))

    def release_all(self) -> None:
        """At the end. A host in contact is not: it rests in full when it is next held (law 6)."""
        for desk in self._desks.values():
            if not desk.host.busy:
                self._turns.drop(desk.host)
                self._ledger.release(desk.host)

"""The hosts in use by callers, each with its line of waiting callers. Hosts that have not been used
for a long time are released, to bound the memory of long-running programs."""

from __future__ import annotations

import asyncio
import itertools
import math
from asyncio import Future
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from crawler.clock import Clock
from crawler.errors import CourtlyError
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.processing.committer import Committer
from crawler.scheduling.task_set import TaskSet
from storage.store import Store

# Hosts in memory, about 3 KB each. Beyond it, the least recently used are released once their delay
# is over. Without a database their robots.txt is then fetched again first.
HOSTS_KEPT_MAX: Final = 4_096
# Their robots.txt files: up to 500 KiB each, usually 2 KB.
FORGET_DOWN_TO: Final = 7 / 8  # of the two above
# Hosts examined, at most, to find some to release, and the interval if all were in use.
LOOKED_AT_MAX: Final = 1_024
LOOK_EVERY_S: Final = 1.0
UNUSED_S: Final = 5.0  # after that, a host that other workers may want is released
CALLERS_KEPT: Final = 64  # of one line; beyond it, those without a place are forgotten


@dataclass(slots=True, eq=False)
class Place:
    """One caller's place in the line of a host."""

    url: str
    called: Future[None]
    caller: str = ""
    round: int = 0  # each caller has one place in each round
    problem: CourtlyError | None = None  # why it stops waiting
    reported: bool = False  # its wait has been logged

    def call(self, problem: CourtlyError | None = None) -> None:
        if not self.called.done():
            self.problem = problem
            self.called.set_result(None)


@dataclass(slots=True, eq=False)
class HostLine:
    """A held host and the callers that wait for it, in order. Only the first asks for a permit: so
    a robots.txt that falls due is fetched before the next page, and order is kept across it."""

    host: HostQueue
    places: deque[Place] = field(default_factory=deque)
    users: int = 0  # callers using it now: it must not be released
    used_s: float = 0.0  # when it was last used
    lent_to: list[asyncio.Task[Any] | None] = field(default_factory=list)  # tasks with a permit
    _rounds: dict[str, int] = field(default_factory=dict)  # the last one of each caller

    def join(self, place: Place) -> int:
        """Add a place; return how many are before it. Callers take turns: in each round each of
        them has one place, so that one with many places delays another by one at a time. The first
        in line keeps its place."""
        places = self.places
        now = places[0].round if places else 0
        if not places:
            self._rounds.clear()
        elif len(self._rounds) > CALLERS_KEPT:
            self._rounds = {name: last for name, last in self._rounds.items() if last > now}
        place.round = self._rounds[place.caller] = max(self._rounds.get(place.caller, 0), now) + 1
        at = len(places)
        while at > 1 and places[at - 1].round > place.round:
            at -= 1
        places.insert(at, place)
        return at


class CallerLines:
    """Leases hosts for callers, and releases unused ones."""

    def __init__(
        self,
        frontier: Frontier,
        committer: Committer,
        tasks: TaskSet,
        store: Store,
        session: int,
        clock: Clock,
    ) -> None:
        self._frontier = frontier
        self._committer = committer
        self._tasks = tasks
        self._store = store
        self._session = session
        self._clock = clock
        self._lines: OrderedDict[str, HostLine] = OrderedDict()  # least recently used first
        self._holding: dict[str, asyncio.Task[None]] = {}
        self._wanted: Counter[str] = Counter()  # slots whose lease callers wait for
        self._pruner: asyncio.Task[None] | None = None
        self._look_s = -math.inf  # the next search for hosts to release

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[HostLine]:
        return iter(self._lines.values())

    def get(self, slot: str) -> HostLine | None:
        line = self._lines.get(slot)
        if line is not None and line.host.gone:  # its lease was lost
            del self._lines[slot]
            return None
        return line

    def use(self, slot: str) -> HostLine | None:
        """The line of a held host, counted as used now."""
        line = self.get(slot)
        if line is not None:
            self._lines.move_to_end(slot)
            line.users += 1
            line.used_s = self._clock.monotonic()
        return line

    async def hold(self, slot: str) -> HostQueue | None:
        """The held host of a slot; None if another worker holds it. The lease is taken in a
        separate task, which a caller's cancellation does not interrupt."""
        if (line := self.get(slot)) is None:
            task = self._holding.get(slot)
            if task is None:
                task = self._holding[slot] = self._tasks.spawn(self._lease(slot))
                task.add_done_callback(lambda _: self._holding.pop(slot, None))
            self._wanted[slot] += 1
            try:
                await asyncio.wait([task])
            finally:
                self._wanted[slot] -= 1
                if not self._wanted[slot]:
                    del self._wanted[slot]
            line = self.get(slot)
        return None if line is None else line.host

    async def _lease(self, slot: str) -> None:
        if self._frontier.buffer.releasing(slot):
            await self._committer.flush()
        losses = self._frontier.losses
        lease = (await self._store.acquire(self._session, [slot])).get(slot)
        if lease is None:
            return
        if losses != self._frontier.losses:
            self._frontier.give_back([lease])
            return
        self._lines[slot] = HostLine(self._frontier.host_leased(lease))
        crowded = self._is_crowded(1.0) and self._clock.monotonic() >= self._look_s
        if self._pruner is None and crowded:
            self._pruner = self._tasks.spawn(self._prune())

    def _is_crowded(self, share: float) -> bool:
        return len(self._lines) > share * HOSTS_KEPT_MAX

    async def _prune(self) -> None:
        """Release hosts whose delay is over and that no caller waits for."""
        try:
            slots = self._drop_spare()
            if not slots:
                self._look_s = self._clock.monotonic() + LOOK_EVERY_S
                return
            await self._committer.flush()
            for slot in slots:
                if slot not in self._holding:
                    await self._store.forget(slot)
        finally:
            self._pruner = None

    def _drop_spare(self) -> list[str]:
        """Release hosts, the least recently used first, until there is room."""
        slots: list[str] = []
        for slot, line in list(itertools.islice(self._lines.items(), LOOKED_AT_MAX)):
            if not self._is_crowded(FORGET_DOWN_TO):
                break
            self._lines.move_to_end(slot)  # examined: the others come first next time
            if slot in self._wanted or self._in_use(line):
                continue
            slots.append(slot)
            del self._lines[slot]
            self._frontier.drop(line.host)
            self._frontier.buffer.release(line.host)
        return slots

    def release_unused(self) -> None:
        """Where others share the store: release hosts that no caller has used lately."""
        before_s = self._clock.monotonic() - UNUSED_S
        for slot, line in list(itertools.islice(self._lines.items(), LOOKED_AT_MAX)):
            if line.host.gone:
                del self._lines[slot]
            elif line.used_s <= before_s and slot not in self._wanted and not self._in_use(line):
                del self._lines[slot]
                self._frontier.drop(line.host)
                self._frontier.buffer.release(line.host)

    def _in_use(self, line: HostLine) -> bool:
        host = line.host
        if line.users or host.busy or host.tickets or host.paused:
            return True
        now_s = self._clock.monotonic()
        if self._frontier.waiting.why(host)[0] > 0 or any(
            lost.until_s > now_s for lost in host.out_of_reach.values()
        ):
            return True  # its delay is running
        return any(origin.in_use for origin in self._frontier.robots.of(host))

    def release_all(self) -> None:
        """Release all hosts at the end. A host with an open request is not released: its next
        holder first waits the full delay, as after a crash."""
        for line in self._lines.values():
            if not (line.host.busy or line.host.gone):
                self._frontier.permits.drop(line.host)
                self._frontier.buffer.release(line.host)

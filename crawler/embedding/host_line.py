"""Callers, and those of them that wait for one host, in order."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from crawler.errors import CourtlyError
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.large_bodies import LargeBodies, LargeBodyPlace

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


class CallerBodies:
    """The bodies that a call has in memory, those of its redirects among them.

    client: whose they are; clients take turns at the memory.
    """

    def __init__(self, bodies: LargeBodies, client: str) -> None:
        self._bodies = bodies
        self._client = client
        self._places: list[LargeBodyPlace] = []

    def place(self) -> LargeBodyPlace:
        """Return the place of one more body."""
        self._places.append(LargeBodyPlace(self._bodies, self._client))
        return self._places[-1]

    def leave(self) -> None:
        """Leave the memory of all of them, which are no longer in it."""
        for place in self._places:
            place.leave()


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of requests.

    name: callers of different names take turns at a host. own: whether it is the program that the
    config belongs to, and whose URLs the configured headers are for. Another program uses none of
    the configured credentials unless `fetch.lend_credentials` allows it. wait_s: how long its
    requests wait if they set no limit; None: as long as politeness requires. bodies: bounds the
    memory of its bodies; None: no bound.
    """

    name: str = ""
    own: bool = True
    wait_s: float | None = None
    bodies: CallerBodies | None = None


OWN: Final = Caller()

"""What the large bodies of pages may take of the memory, received or waiting to be parsed.

Small bodies are many and short-lived. A large one may have 10 MB, any host may send it at any pace,
and it waits for the one thread that parses such pages. So a body that becomes large while it is
received needs a *place*, and keeps it until its page is parsed and recorded. Without one it is not
read on: its connection waits, and so does the rest of its domain.

The size of most bodies is not known before their end, so a place grows with its body, in steps. It
grows only while there is room for all bodies as they are and for the largest of them to become as
large as any of them may. Then that one can always be received to its end, and the next one after
it, so no bodies wait for each other. (Dijkstra's banker, 1965, with one loan that is always kept
ready.)
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Final

from crawler.clock import Clock
from crawler.fetching.request import LARGE_BYTES, NoPlaceError
from crawler.frontier.fair_queue import FairQueue
from crawler.frontier.tickets import FrontierClosedError, Ticket

# In total, and of one registrable domain.
BYTES_MAX: Final = 50_331_648
DOMAIN_BYTES_MAX: Final = 12_582_912
_WAITED: Final = "no memory for a large body for too long"


class LargeBodyPlace:
    """The place of one body. See `crawler.fetching.request.BodyPlace`.

    size_bytes: what the body may have now. most_bytes: what it may become. has_room: it has that
    memory.
    """

    __slots__ = ("_bodies", "domain", "has_room", "most_bytes", "size_bytes", "wanted_bytes")

    def __init__(self, bodies: LargeBodies, domain: str) -> None:
        self._bodies = bodies
        self.domain = domain
        self.has_room = False
        self.size_bytes = self.wanted_bytes = self.most_bytes = LARGE_BYTES

    async def grow(self, size_bytes: int, *, most_bytes: int, wait_s: float) -> None:
        """Wait until the body may have this many bytes. Raises NoPlaceError."""
        self.most_bytes = max(size_bytes, most_bytes)
        self.wanted_bytes = min(max(size_bytes, 2 * self.size_bytes), self.most_bytes)
        await self._bodies.find_room(self, wait_s)

    def settle(self, size_bytes: int) -> None:
        """The body is complete and has this size."""
        self.size_bytes = self.wanted_bytes = self.most_bytes = size_bytes
        self._bodies.settle(self)

    def leave(self) -> None:
        """The body is in memory no longer."""
        if self.has_room:
            self._bodies.leave(self)


class _SharedMemory:
    """The places that share an amount of memory."""

    def __init__(self, bytes_max: int) -> None:
        self.places: set[LargeBodyPlace] = set()
        self._bytes_max = bytes_max

    @property
    def size_bytes(self) -> int:
        return sum(place.size_bytes for place in self.places)

    def fits(self, place: LargeBodyPlace) -> bool:
        """Whether the place may have what it wants: then there is still room for all, and for the
        largest to become as large as any of them may."""
        sizes = [one.size_bytes for one in self.places if one is not place]
        sizes.append(place.wanted_bytes)
        most = max(place.most_bytes, *(one.most_bytes for one in self.places), 0)
        return sum(sizes) - max(sizes) + min(most, self._bytes_max) <= self._bytes_max


class LargeBodies:
    """Gives places to large bodies, registrable domains in turn.

    waiting: counts the bodies that wait, by domain. bytes_max, domain_bytes_max: what all places
    may have, and those of a domain.
    """

    def __init__(
        self,
        clock: Clock,
        waiting: Counter[str],
        *,
        bytes_max: int = BYTES_MAX,
        domain_bytes_max: int = DOMAIN_BYTES_MAX,
    ) -> None:
        self._clock = clock
        self._waiting = waiting
        self._domain_bytes_max = domain_bytes_max
        self._all = _SharedMemory(bytes_max)
        self._pools: dict[str, _SharedMemory] = {}  # by domain
        self._newcomers: FairQueue[LargeBodyPlace] = FairQueue()
        self._growing: dict[LargeBodyPlace, Ticket[LargeBodyPlace]] = {}

    @property
    def size_bytes(self) -> int:
        """The memory of all places together."""
        return self._all.size_bytes

    async def find_room(self, place: LargeBodyPlace, wait_s: float) -> None:
        """Wait until the place may have what it wants."""
        if place.has_room:
            ticket = self._growing[place] = Ticket[LargeBodyPlace]()
        else:
            ticket = self._newcomers.put(place.domain, place, float(place.wanted_bytes))
        self._serve()
        if ticket.done:
            return
        domain = place.domain
        self._waiting[domain] += 1
        end = self._clock.call_at(
            self._clock.monotonic() + wait_s, functools.partial(_refuse, ticket)
        )
        try:
            await ticket.wait()
        except FrontierClosedError:
            raise NoPlaceError from None
        except BaseException:
            ticket.withdraw()  # if it was served, its owner leaves it
            raise
        finally:
            end.cancel()
            self._growing.pop(place, None)
            self._waiting[domain] -= 1
            if not self._waiting[domain]:
                del self._waiting[domain]

    def settle(self, place: LargeBodyPlace) -> None:
        """The size of the place is final. It is counted even if there was no room for it: its body
        is in memory already."""
        if not place.has_room:
            self._add(place)
        self._serve()

    def leave(self, place: LargeBodyPlace) -> None:
        """Leave the memory of the place to others."""
        place.has_room = False
        self._all.places.remove(place)
        pool = self._pools[place.domain]
        pool.places.remove(place)
        if not pool.places:
            del self._pools[place.domain]
        self._serve()

    def _add(self, place: LargeBodyPlace) -> None:
        place.has_room = True
        self._all.places.add(place)
        pool = self._pools.get(place.domain)
        if pool is None:
            pool = self._pools[place.domain] = _SharedMemory(self._domain_bytes_max)
        pool.places.add(place)

    def _fits(self, place: LargeBodyPlace) -> bool:
        pool = self._pools.get(place.domain)
        return (pool is None or pool.fits(place)) and self._all.fits(place)

    def _fits_first(self, domain: str) -> bool:
        return self._fits(self._newcomers.first(domain))

    def _serve(self) -> None:
        """Let places grow, those that have waited longest first, then admit others."""
        for place, ticket in list(self._growing.items()):
            if ticket.done:
                del self._growing[place]
            elif self._fits(place):
                del self._growing[place]
                place.size_bytes = place.wanted_bytes
                ticket.serve(place)
        while self._newcomers and (entry := self._newcomers.take(self._fits_first)) is not None:
            place = entry.asker
            place.size_bytes = place.wanted_bytes
            self._add(place)
            entry.ticket.serve(place)


def _refuse(ticket: Ticket[LargeBodyPlace]) -> None:
    if not ticket.done:
        ticket.refuse(_WAITED)

"""What robots.txt files may cost together: memory, and the time of the thread that parses them.

Small files cost little, but any host may serve 500 KiB (RFC 9309, 2.5), which take up to 20 times
that when they are parsed, and anyone who has a domain has any number of hosts. Large files are
therefore admitted: to one of few *places* while they are received or wait to be parsed, to the
*parse queue* of the thread that parses them, one at a time, and to a share of the memory for parsed
ones. Of each a registrable domain has its share, so that it takes nothing from others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.frontier.commands import CommandQueue
from crawler.frontier.crowd_pace import LoopLoad, SpacedStarts
from crawler.frontier.fair_queue import FairQueue
from crawler.frontier.pace import NEVER
from crawler.frontier.tickets import FrontierClosedError, Ticket
from policies.robots.syntax import BYTES_MAX
from policies.url import host_of, registrable_domain

if TYPE_CHECKING:
    from crawler.frontier.origin import Origin

# Requests for robots.txt in flight, as a share of the permits of a crawl: slow answers must not use
# all of them. And of one domain.
FETCHES_SHARE: Final = 0.25
FETCHES_OF_DOMAIN_MAX: Final = 16
FETCH_AGAIN_S: Final = 1.0  # one more of those that wait may try, if others do not begin
# Large files in memory that are not parsed, or not yet: 16 of 500 KiB, 4 of them of one domain.
UNPARSED_BYTES_MAX: Final = 16 * BYTES_MAX
UNPARSED_BYTES_OF_DOMAIN_MAX: Final = 4 * BYTES_MAX
PLACE_KEPT_S: Final = 30.0  # for one whose host grants no permit meanwhile
# Parsed files in memory, in bytes as estimated. A file that exceeds it alone is there alone.
LARGE_BYTES_MAX: Final = 16_777_216
LARGE_BYTES_OF_DOMAIN_MAX: Final = 8_388_608
SMALL_BYTES_MAX: Final = 67_108_864  # 16 KB for each of 4,096 hosts in memory
SMALL_BYTES_OF_DOMAIN_MAX: Final = 8_388_608
# Shares of a processor that parsing large files may take, for one domain and for all. Parsing
# competes with the event loop for the interpreter lock.
SHARE_OF_DOMAIN: Final = 0.05
SHARE_OF_ALL: Final = 0.1
AHEAD_S: Final = 5.0  # the shares of this long may be used at once

DOMAINS_MAX: Final = 1_024  # of which it is known what they used lately; then only of those over it

_CLOSED: Final = "the crawl is ending"


class _Place(Struct, frozen=True):
    size_bytes: int
    until_s: float  # kept until then for one that does not use it yet; NEVER: it is used


class _Pool:
    """Files in memory, the oldest first, and their bytes by domain."""

    def __init__(self) -> None:
        self.files: dict[Origin, int] = {}
        self.of_domain: Counter[str] = Counter()
        self.size_bytes = 0

    def add(self, origin: Origin, size_bytes: int) -> None:
        self.files[origin] = size_bytes
        self.of_domain[domain_of(origin)] += size_bytes
        self.size_bytes += size_bytes

    def discard(self, origin: Origin) -> None:
        if (size_bytes := self.files.pop(origin, None)) is not None:
            domain = domain_of(origin)
            self.size_bytes -= size_bytes
            self.of_domain[domain] -= size_bytes
            if not self.of_domain[domain]:
                del self.of_domain[domain]

    def oldest(self, domain: str | None) -> list[Origin]:
        """The files of a domain, or all (None), without the newest."""
        return [one for one in self.files if domain is None or domain_of(one) == domain][:-1]


class RobotsBudget:
    """Admits robots.txt files. An origin whose file must leave memory is stripped of it
    (`Origin.strip`); the store has it, and is asked when one of its URLs comes up."""

    def __init__(
        self, config: CurrentConfig, clock: Clock, commands: CommandQueue, load: LoopLoad
    ) -> None:
        self._config = config
        self._clock = clock
        self._commands = commands
        self._closed = False
        self.idle: Callable[[], bool] = _never
        """Whether no page is requested any more, so that no file is needed."""
        self.waiting = 0
        """How many tasks wait here."""
        self._fetched: set[Origin] = set()  # they are in flight
        self._fetched_of: Counter[str] = Counter()  # by domain
        self._crowd: FairQueue[Origin] = FairQueue()
        self._starts = SpacedStarts(load)
        self._places: dict[Origin, _Place] = {}
        self._seekers: FairQueue[Origin] = FairQueue()
        self._parse_queue: FairQueue[Origin] = FairQueue()
        self._parsing: Origin | None = None
        self._free_s = NEVER  # from when on the next file may be parsed,
        self._domain_free_s: dict[str, float] = {}  # and the next one of a domain
        self._wake_s: float | None = None
        self._large = _Pool()
        self._small = _Pool()

    # ------------------------------------------------------------ fetches

    def may_ask(self, origin: Origin) -> bool:
        """Return whether to ask for a permit to request the origin's file now. If not, `find_fetch`
        first."""
        domain = domain_of(origin)
        if not self._may_ask(domain):
            return False
        self._starts.began(domain, self._clock.monotonic())
        return True

    def _may_ask(self, domain: str) -> bool:
        return self._may_fetch(domain) and self._starts.allow(domain, self._clock.monotonic())

    def begin_fetch(self, origin: Origin) -> bool:
        """Begin a request for the origin's file, unless too many are in flight. None begins
        while no page is requested: what was broken off at the end of a run is not done again."""
        domain = domain_of(origin)
        if self.idle() or not self._may_fetch(domain):
            return False
        if origin not in self._fetched:
            self._fetched.add(origin)
            self._fetched_of[domain] += 1
        return True

    def _may_fetch(self, domain: str) -> bool:
        most = max(FETCHES_OF_DOMAIN_MAX, FETCHES_SHARE * self._config.config.crawl.concurrency)
        return len(self._fetched) < most and self._fetched_of[domain] < FETCHES_OF_DOMAIN_MAX

    def end_fetch(self, origin: Origin) -> None:
        """The request has ended, if one was begun."""
        if origin not in self._fetched:
            return
        self._fetched.remove(origin)
        domain = domain_of(origin)
        self._fetched_of[domain] -= 1
        if not self._fetched_of[domain]:
            del self._fetched_of[domain]
        self._next_fetch()

    @property
    def _frozen(self) -> bool:
        """Whether nobody who waits is served: they have nothing to wait for. Looked up again."""
        if not (self._crowd or self._seekers or self._parse_queue) or not self.idle():
            return False
        self._wake_by(self._clock.monotonic() + FETCH_AGAIN_S)
        return True

    def _next_fetch(self) -> None:
        self._starts.look()
        if self._frozen:
            return
        if self._crowd and (entry := self._crowd.take(self._may_ask)) is not None:
            self._starts.began(entry.party, self._clock.monotonic())
            entry.ticket.serve(entry.asker)
        if self._crowd:  # the one that was served may not begin: another may, then
            again_s = self._clock.monotonic() + FETCH_AGAIN_S
            self._wake_by(min(again_s, self._starts.refused_until_s))

    async def find_fetch(self, origin: Origin) -> None:
        """Wait until another request has ended. Raises FrontierClosedError."""
        ticket = self._crowd.put(domain_of(origin), origin, 1.0)
        again_s = self._clock.monotonic() + FETCH_AGAIN_S
        self._wake_by(min(again_s, self._starts.refused_until_s))
        try:
            await self._wait(ticket)
        except BaseException:
            if ticket.withdraw() is not None:
                self._next_fetch()
            raise

    async def _wait(self, ticket: Ticket[Origin]) -> None:
        self._check_open()
        self.waiting += 1
        try:
            await ticket.wait()
        finally:
            self.waiting -= 1

    # ------------------------------------------------------------ places

    @property
    def unparsed_bytes(self) -> int:
        """The size of large files that are received or wait to be parsed."""
        return sum(place.size_bytes for place in self._places.values())

    def take_place(self, origin: Origin, size_bytes: int, *, beyond: bool = False) -> bool:
        """Take a place for a file of the origin that has at most this many bytes, if there is one
        now, or one is kept for it. beyond: also if there is none, because the file is in memory
        already."""
        size_bytes = min(size_bytes, BYTES_MAX)
        kept = self._places.pop(origin, None)
        if not (beyond or self._has_room(domain_of(origin), size_bytes)):
            if kept is not None:
                self._places[origin] = kept
            return False
        self._places[origin] = _Place(size_bytes, NEVER)
        self._seat()
        return True

    async def find_place(self, origin: Origin) -> None:
        """Wait for a place for a file of any size, which is kept for PLACE_KEPT_S until
        `take_place`. Raises FrontierClosedError."""
        if origin in self._places:
            return
        ticket = self._seekers.put(domain_of(origin), origin, 1.0)
        self._seat()
        try:
            await self._wait(ticket)
        except BaseException:
            if ticket.withdraw() is not None:
                self.leave_place(origin)
            raise

    def leave_place(self, origin: Origin) -> None:
        """Leave the place of an origin whose file is parsed, or in memory no longer."""
        if self._places.pop(origin, None) is not None:
            self._seat()

    def _has_room(self, domain: str, size_bytes: int) -> bool:
        if self.unparsed_bytes + size_bytes > UNPARSED_BYTES_MAX:
            now_s = self._clock.monotonic()
            for origin, place in list(self._places.items()):
                if NEVER < place.until_s <= now_s:
                    del self._places[origin]
        room = UNPARSED_BYTES_MAX - self.unparsed_bytes
        of_domain = UNPARSED_BYTES_OF_DOMAIN_MAX - sum(
            place.size_bytes for one, place in self._places.items() if domain_of(one) == domain
        )
        return size_bytes <= min(room, of_domain)

    def _has_room_for_any(self, domain: str) -> bool:
        return self._has_room(domain, BYTES_MAX)

    def _seat(self) -> None:
        if self._frozen:
            return
        until_s = self._clock.monotonic() + PLACE_KEPT_S
        while (entry := self._seekers.take(self._has_room_for_any)) is not None:
            self._places[entry.asker] = _Place(BYTES_MAX, until_s)
            self._wake_by(until_s)
            entry.ticket.serve(entry.asker)

    # ------------------------------------------------------------ the parse queue

    async def wait_for_parse_place(self, origin: Origin, cost_s: float) -> None:
        """Wait until the origin's file may be parsed, which takes some `cost_s`; then call
        `end_parse`. Raises FrontierClosedError."""
        ticket = self._parse_queue.put(domain_of(origin), origin, cost_s)
        self._serve_parse_queue()
        try:
            await self._wait(ticket)
        except BaseException:
            if ticket.withdraw() is not None:
                self.end_parse(origin, 0.0)
            raise

    def end_parse(self, origin: Origin, cost_s: float) -> None:
        """The origin's file has been parsed, which cost this much."""
        earliest_s = self._clock.monotonic() - AHEAD_S
        domain, free_s = domain_of(origin), self._domain_free_s
        free_s[domain] = max(free_s.get(domain, NEVER), earliest_s) + cost_s / SHARE_OF_DOMAIN
        self._free_s = max(self._free_s, earliest_s) + cost_s / SHARE_OF_ALL
        if len(free_s) > DOMAINS_MAX:
            self._domain_free_s = {name: at for name, at in free_s.items() if at > earliest_s}
        self._parsing = None
        self._serve_parse_queue()

    def _serve_parse_queue(self) -> None:
        now_s = self._clock.monotonic()
        if self._parsing is not None or self._closed or self._frozen:
            return
        if now_s < self._free_s:
            if self._parse_queue:
                self._wake_by(self._free_s)
            return
        free_s = self._domain_free_s
        entry = self._parse_queue.take(lambda domain: free_s.get(domain, NEVER) <= now_s)
        if entry is not None:
            self._parsing = entry.asker
            entry.ticket.serve(entry.asker)
        elif waits_s := [free_s[domain] for domain in self._parse_queue.parties]:
            self._wake_by(min(waits_s))

    # ------------------------------------------------------------ parsed files

    @property
    def large_bytes(self) -> int:
        """The estimated size of parsed large files in memory."""
        return self._large.size_bytes

    @property
    def small_bytes(self) -> int:
        return self._small.size_bytes

    def keep(self, origin: Origin, size_bytes: int, *, large: bool) -> None:
        """The origin's file is in memory, with all that was made of it; others may have to go."""
        self.forget(origin)
        (self._large if large else self._small).add(origin, size_bytes)
        self.settled(origin)

    def settled(self, origin: Origin) -> None:
        """Learn that nothing is done with the origin's file any more: it may have to go."""
        if origin in self._large.files:
            self._make_room(self._large, origin, LARGE_BYTES_MAX, LARGE_BYTES_OF_DOMAIN_MAX)
        elif origin in self._small.files:
            self._make_room(self._small, origin, SMALL_BYTES_MAX, SMALL_BYTES_OF_DOMAIN_MAX)

    def _make_room(
        self, pool: _Pool, origin: Origin, bytes_max: int, of_domain_bytes_max: int
    ) -> None:
        """Strip origins of their files, the oldest first, but never the newest: it would have to be
        parsed again before it was used."""
        domain = domain_of(origin)
        while pool.of_domain[domain] > of_domain_bytes_max and self._strip_oldest(pool, domain):
            pass
        while pool.size_bytes > bytes_max:
            largest = max(pool.of_domain, key=pool.of_domain.__getitem__)
            if not (self._strip_oldest(pool, largest) or self._strip_oldest(pool, None)):
                break

    def _strip_oldest(self, pool: _Pool, domain: str | None) -> bool:
        """Of this domain, or of all. False: none can go."""
        return any(self._strip(one) for one in pool.oldest(domain))

    def _strip(self, origin: Origin) -> bool:
        used = origin.pinned or origin.unread or origin.parsing.locked()
        if used or origin in self._places or (origin.busy and not origin.large):
            return False
        if not origin.strip():
            return False
        self.forget(origin)
        return True

    def forget(self, origin: Origin) -> None:
        """The origin's file is in memory no longer."""
        self._large.discard(origin)
        self._small.discard(origin)

    # ------------------------------------------------------------ time

    def wake_at(self) -> float | None:
        """The time when `advance` must be called (monotonic seconds)."""
        return self._wake_s

    def advance(self, now_s: float) -> None:
        """Time has passed."""
        if self._wake_s is not None and self._wake_s <= now_s:
            self._wake_s = None
            self._next_fetch()
            self._seat()
            self._serve_parse_queue()

    def close(self) -> None:
        """Admit no more; what is being parsed is parsed to its end."""
        self._closed = True
        self._crowd.close(_CLOSED)
        self._seekers.close(_CLOSED)
        self._parse_queue.close(_CLOSED)

    def _check_open(self) -> None:
        if self._closed:
            raise FrontierClosedError(_CLOSED)

    def _wake_by(self, at_s: float) -> None:
        self._wake_s = at_s if self._wake_s is None else min(self._wake_s, at_s)
        self._commands.wake_by(at_s)


def _never() -> bool:
    return False


def domain_of(origin: Origin) -> str:
    """The registrable domain of an origin, whose hosts share what it may use."""
    if not origin.domain:
        origin.domain = registrable_domain(host_of(origin.name + "/"))
    return origin.domain

"""When a host can be worked on next, and what it waits for. Used to detect the end of a crawl, to
make room in memory, and to explain waits."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.origin import Origin
from crawler.frontier.pace import NEVER
from crawler.frontier.permits import Permits
from crawler.frontier.reasons import (
    CRAWL_HELD,
    CRAWL_PAUSED,
    IN_FLIGHT,
    PAUSED,
    READY,
    RETRY,
    ROBOTS_FETCHED,
    ROBOTS_NEEDED,
    ROBOTS_ROOM,
    SAME_PROCESS,
    Reason,
    Wait,
)
from crawler.frontier.robots_cache import RobotsCache
from policies.robots_policy import Closed

ELSEWHERE_AGAIN_S: Final = 1.0  # until a host that another worker leases is asked for again
ADDRESS_LOOK_S: Final = 1.0  # how often an address is asked for that another worker contacts


class NextMove(Struct, frozen=True):
    """The next thing that may happen at a host. at_s: monotonic; None: when the operator acts."""

    at_s: float | None
    reason: Reason


class Waiting:
    """Read-only view of leased hosts and their waits."""

    def __init__(self, clock: Clock, permits: Permits, robots: RobotsCache) -> None:
        self._clock = clock
        self._permits = permits
        self._robots = robots

    def next_move(
        self, host: HostQueue, *, first_tries: bool = False, due_robots: bool = True
    ) -> NextMove | None:
        """The earliest that work of this host may proceed; None if it has none.

        Work is a URL that is prefetched, waits for robots.txt, falls due later, or is of an origin
        that is closed or out of reach; and a robots.txt that is fetched though no URL waits for it
        (unless `due_robots` is false). first_tries: leave out URLs that failed and are tried again.
        """
        if not self.has_work(host, due_robots=due_robots):
            return None
        if host.paused:
            return NextMove(None, PAUSED)
        now_s = self._clock.monotonic()
        moves: list[NextMove] = []
        own_s, own_reason = self._own(host, now_s)
        if host.prefetched and not (
            first_tries and all(queued.attempts or queued.refusals for queued in host.prefetched)
        ):
            moves.append(NextMove(own_s, own_reason))
        if host.next_due_s is not None and not first_tries:
            if host.next_due_s > own_s:
                moves.append(NextMove(host.next_due_s, RETRY))
            else:
                moves.append(NextMove(own_s, own_reason))
        for origin in self._robots.of(host):
            if origin.name in host.closed:
                if not first_tries and (move := self._reopens(host, origin, now_s)) is not None:
                    moves.append(NextMove(max(move.at_s or NEVER, own_s), move.reason))
            elif origin.name in host.parked or (due_robots and origin.wanted):
                moves.append(self.robots_fetch(origin, now_s))
        timed = [move for move in moves if move.at_s is not None]
        if timed:
            return min(timed, key=lambda move: move.at_s or NEVER)
        return moves[0] if moves else None

    def has_work(self, host: HostQueue, *, due_robots: bool = True) -> bool:
        return bool(
            host.prefetched
            or host.parked
            or host.closed
            or host.next_due_s is not None
            or (due_robots and any(origin.wanted for origin in self._robots.of(host)))
        )

    def only_closed(self, host: HostQueue) -> float | None:
        """Return when the first of its closed origins reopens, if those are all it has; else None.
        If its visit windows never open, None as well: the next config may have others."""
        if host.prefetched or host.parked or host.next_due_s is not None or not host.closed:
            return None
        if not host.pace.ever_open:
            return None
        move = self.next_move(host, due_robots=False)
        return move.at_s if move else None

    def why(self, host: HostQueue) -> tuple[float, Reason]:
        """Return for how many seconds a permit of the host is not granted yet (0.0: it is not a
        matter of time), and why."""
        if host.paused:
            return 0.0, PAUSED
        stops = self._permits.stops
        if stops.reasons:
            return 0.0, CRAWL_PAUSED if stops.paused else CRAWL_HELD
        now_s = self._clock.monotonic()
        waits = host.pace.wait(now_s, self._clock.wall())
        if waits is None:
            return 0.0, IN_FLIGHT
        at_s, reason = waits
        if (clock := host.address_clock) is not None:
            if not clock.leased:
                at_s = max(at_s, now_s + ADDRESS_LOOK_S)
                reason = Reason(Wait.ADDRESS_ELSEWHERE, host.address or "")
            elif clock.ready_s > at_s:
                at_s = clock.ready_s
                reason = Reason(Wait.ADDRESS_DELAY, host.address or "")
        if (others_s := self._permits.others_leave_s(host, now_s)) > at_s:
            at_s, reason = others_s, SAME_PROCESS
        return (at_s - now_s, reason) if at_s > now_s else (0.0, READY)

    def _own(self, host: HostQueue, now_s: float) -> tuple[float, Reason]:
        wait_s, reason = self.why(host)
        return now_s + wait_s, reason

    def _reopens(self, host: HostQueue, origin: Origin, now_s: float) -> NextMove | None:
        """Return when URLs of an origin that is closed, or out of reach, may be requested."""
        if lost := host.out_of_reach.get(origin.name):
            if lost.given_up:
                return None  # its URLs have failed; new ones do not keep the crawl running
            return NextMove(lost.until_s, Reason(Wait.RECONNECT, lost.failure.error))
        if isinstance(origin.standing, Closed):
            if origin.busy:
                return self.robots_fetch(origin, now_s)
            until = origin.access.retry_at
            if until is None:
                until = origin.access.expires_at
            if until is not None:
                in_s = max(0.0, until - self._clock.wall())
                return NextMove(now_s + in_s, Reason(Wait.CLOSED, origin.standing.reason))
        return NextMove(now_s, ROBOTS_NEEDED)

    def robots_fetch(self, origin: Origin, now_s: float) -> NextMove:
        """Return when its robots.txt, whose fetch is under way, can be requested from its host."""
        at = origin.waits_at
        if origin.waits_for_room:
            return NextMove(now_s, ROBOTS_ROOM)
        if at is None and origin.waits_elsewhere:
            return NextMove(now_s, Reason(Wait.ROBOTS_HOST_LEASED, origin.waits_elsewhere))
        if at is None:
            return NextMove(now_s, ROBOTS_FETCHED)
        if at.paused:
            return NextMove(None, Reason(Wait.ROBOTS_PAUSED, at.slot))
        at_s, reason = self._own(at, now_s)
        return NextMove(at_s, Reason(Wait.ROBOTS_ELSEWHERE, at.slot, because=reason))

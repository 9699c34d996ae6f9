"""When can a host move, and on what does it wait? One answer for the end of a crawl, for making
room, and for those who ask why."""

from __future__ import annotations

from msgspec import Struct

from crawler.clock import Clock
from crawler.politeness.gate import Gate
from crawler.politeness.host import Host
from crawler.politeness.origin import Origin
from crawler.politeness.pace import NEVER
from crawler.politeness.turns import Turns
from policies.robots_policy import Closed
from policies.scope import SKIP_KEYS, Skip

SPENT = "crawl.max_pages is reached"
PAUSED = "paused by hand"


def limit_reached(limit: Skip) -> str:
    """Why a host's further URLs stay queued."""
    return f"{SKIP_KEYS[limit]} is reached"


class Move(Struct, frozen=True):
    """The next thing that may happen at a host; monotonic seconds, None: when somebody acts."""

    at_s: float | None
    why: str


class Ending:
    """Looks at held hosts; changes nothing."""

    def __init__(self, clock: Clock, turns: Turns, gate: Gate) -> None:
        self._clock = clock
        self._turns = turns
        self._gate = gate

    def next_move(self, host: Host, *, asked: set[str], first_tries: bool = False) -> Move | None:
        """The soonest that work of this host may move; None if it has none. `first_tries`: only
        what has not been tried yet, and not what failed and is tried again.

        Work is a URL in hand, waiting for its robots.txt, due later, or of an origin that is closed
        or out of reach; and a robots.txt that is being asked for at the end (`asked`).
        """
        if not self.has_work(host, asked):
            return None
        if host.paused:
            return Move(None, PAUSED)
        now_s = self._clock.monotonic()
        moves: list[Move] = []
        own_s, own_why = self._own(host, now_s)
        if host.hand and not (
            first_tries and all(queued.attempts or queued.refusals for queued in host.hand)
        ):
            moves.append(Move(own_s, own_why))
        if host.next_due_s is not None and not first_tries:
            if host.next_due_s > own_s:
                moves.append(Move(host.next_due_s, "another try after a failure"))
            else:
                moves.append(Move(own_s, own_why))
        for origin in self._gate.origins_of(host):
            if origin.name in host.closed:
                if not first_tries and (move := self._reopens(host, origin, now_s)) is not None:
                    moves.append(Move(max(move.at_s or NEVER, own_s), move.why))
            elif origin.name in host.parked or origin.name in asked:
                moves.append(self._asks(origin, now_s))
        open_moves = [move for move in moves if move.at_s is not None]
        if open_moves:
            return min(open_moves, key=lambda move: move.at_s or NEVER)
        return moves[0] if moves else None

    def has_work(self, host: Host, asked: set[str]) -> bool:
        return bool(
            host.hand
            or host.parked
            or host.closed
            or host.next_due_s is not None
            or (asked and any(name in asked for name in host.pace.asks))
        )

    def only_closed(self, host: Host) -> float | None:
        """When the first of its closed origins reopens, if those are all it has; else None."""
        if host.hand or host.parked or host.next_due_s is not None or not host.closed:
            return None
        move = self.next_move(host, asked=set())
        return move.at_s if move else None

    def _own(self, host: Host, now_s: float) -> tuple[float, str]:
        wait_s, why = self._turns.why(host)
        return now_s + wait_s, why

    def _reopens(self, host: Host, origin: Origin, now_s: float) -> Move | None:
        """When URLs of an origin that is closed, or out of reach, may move."""
        if lost := host.out_of_reach.get(origin.name):
            if lost.given_up:
                return None  # its queue has failed; new URLs do not hold the crawl
            return Move(lost.until_s, f"another try to connect ({lost.failure.error})")
        if isinstance(origin.standing, Closed):
            if origin.task is not None:
                return self._asks(origin, now_s)
            until = origin.access.retry_at
            if until is None:
                until = origin.access.expires_at
            if until is not None:
                in_s = max(0.0, until - self._clock.wall())
                return Move(now_s + in_s, origin.standing.reason)
        return Move(now_s, "its robots.txt")

    def _asks(self, origin: Origin, now_s: float) -> Move:
        """Its robots.txt is being asked for: it waits for the host whose turn that takes."""
        at = origin.waits_at
        if at is None:
            return Move(now_s, "its robots.txt is being asked for")
        if at.paused:
            return Move(None, f"its robots.txt leads to {at.slot}, which is paused by hand")
        at_s, why = self._own(at, now_s)
        return Move(at_s, f"its robots.txt, which waits for {at.slot}: {why}")

"""robots.txt of any site, asked for by the crawl itself: at the host's turn, on the crawl's own
connections, to addresses that it may connect to, once, and kept like any other."""

from __future__ import annotations

import asyncio

from crawler.clock import Clock
from crawler.daemon.problem import Problem
from crawler.engine.engine import Engine
from crawler.politeness.host import Host
from crawler.politeness.origin import Origin
from crawler.steering.control import Control
from policies.robots_state import RobotsState, is_due
from policies.url import host_of
from storage.store import Reader

ASKED_AT_ONCE = 16  # somebody waits for each; more would be a crawl of their own


class RobotsAsker:
    """Gives what is known of an origin's robots.txt, after asking for it if that is due; None where
    its host could not be connected to, or the crawl ends."""

    def __init__(self, engine: Engine, control: Control, reader: Reader, clock: Clock) -> None:
        self._engine = engine
        self._control = control
        self._reader = reader
        self._clock = clock
        self._asking = 0

    async def __call__(self, origin: str) -> RobotsState | None:
        known = await self._reader.robots_copy(origin)
        if known is not None and not is_due(known, self._clock.wall()):
            return known
        if not self._engine.tasks.under_way:
            raise Problem(503, "the crawl begins, or ends, at this moment", retry_after_s=1.0)
        if self._asking >= ASKED_AT_ONCE:
            raise Problem(503, "too many robots.txt are being asked for", retry_after_s=5.0)
        self._asking += 1
        try:
            return await self._ask(origin)
        finally:
            self._asking -= 1

    async def _ask(self, origin: str) -> RobotsState | None:
        found = await self._engine.tasks.whole(lambda: self._begin(origin))
        if found is None:
            return None
        host, held = found
        if held.task is not None:
            await asyncio.wait([held.task])  # goes on where nobody waits any more
        if host.beyond_reach(origin, self._clock.monotonic()) is not None:
            return held.access if held.access.body is not None else None
        return held.access

    async def _begin(self, origin: str) -> tuple[Host, Origin] | None:
        """Have the host held and its robots.txt asked for: to its end, also when who asked has
        gone, since a host that is leased and not held would wait for the end of the crawl."""
        slot = self._control.config.slot_of(host_of(f"{origin}/"))
        host = await self._engine.holdings.hold(slot)
        if host is None:
            return None
        held = await self._engine.gate.load(origin, host)
        if is_due(held.access, self._clock.wall()):
            self._engine.gate.ask(held)
        return host, held

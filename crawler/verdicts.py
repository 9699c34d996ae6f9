"""What callers at the door are told: yes, not yet, or why not."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable

from crawler.clock import Clock
from crawler.desks import Desk
from crawler.errors import CourtlyError, FetchFailed, RobotsDisallowed, RobotsUnreachable
from crawler.gate import ASKING, Gate, Shut
from policies.access import Closed
from policies.robots import Verdict
from policies.url import host_of, origin_of


class Verdicts:
    """The gate's answers as return values and exceptions. `check_open()` raises at the end."""

    def __init__(self, clock: Clock, gate: Gate, *, check_open: Callable[[], None]) -> None:
        self._clock = clock
        self._gate = gate
        self._check_open = check_open
        self._settling: dict[str, list[Future[None]]] = {}  # by origin

    def passes(self, desk: Desk, url: str) -> bool:
        """True: it may be asked for now. False: robots.txt is being asked. Else raises
        RobotsDisallowed, RobotsUnreachable or FetchFailed."""
        self.check_reachable(desk, url)
        passed = self._gate.check(desk.host, url)
        if passed is ASKING:
            return False
        if isinstance(passed, Verdict):
            raise RobotsDisallowed(url, passed)
        if isinstance(passed, Shut):
            origin = self._gate.origin(origin_of(url))
            standing = origin.standing if origin else None
            until = standing.until_s if isinstance(standing, Closed) else None
            raise RobotsUnreachable(url, passed.reason, until)
        return True

    def check_reachable(self, desk: Desk, url: str) -> None:
        """Raises FetchFailed while its host is given up: no connection could be made."""
        self._check_open()
        if not desk.lost:
            return
        host = desk.host
        wait_s = host.not_before_s - self._clock.monotonic()
        if not host.connect_failures or wait_s <= 0:
            desk.lost.clear()
        elif failure := desk.lost.get(origin_of(url)) or desk.lost.get(host_of(url)):
            raise FetchFailed(url, failure, until=self._clock.wall() + wait_s)

    def turn_away(self, desk: Desk) -> None:
        """Who waits in vain need not wait for a turn to be told so. The first finds out itself."""
        for place in list(desk.line)[1:]:
            origin = self._gate.origin(origin_of(place.url))
            if origin is None or origin.task is not None:
                continue
            try:
                self.passes(desk, place.url)
            except CourtlyError as problem:
                place.call(problem)

    async def settled(self, name: str) -> None:
        """Wait until a robots fetch of this origin has ended."""
        settled: Future[None] = asyncio.get_running_loop().create_future()
        self._settling.setdefault(name, []).append(settled)
        await settled

    def wake(self, name: str) -> None:
        for settled in self._settling.pop(name, ()):
            if not settled.done():
                settled.set_result(None)

    def wake_all(self) -> None:
        for name in list(self._settling):
            self.wake(name)

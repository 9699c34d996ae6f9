"""What callers at the door are told: yes, not yet, or why not."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass

from crawler.clock import Clock
from crawler.embedding.desks import Desk
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
)
from crawler.faults import contained
from crawler.fetching.request import Failure
from crawler.politeness.gate import ASKING, Gate, Shut
from policies.retries import FailureCode
from policies.robots import Verdict
from policies.robots_policy import Closed
from policies.url import canonical, origin_of, unparsed_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """When a host may be contacted next: in so many seconds (0.0: now), why not before, and how
    many others wait in line for it already."""

    in_s: float
    reason: str
    ahead: int


class Verdicts:
    """The gate's answers as return values and exceptions. `check_open()` raises at the end."""

    def __init__(self, clock: Clock, gate: Gate, *, check_open: Callable[[], None]) -> None:
        self._clock = clock
        self._gate = gate
        self._check_open = check_open
        self._settling: dict[str, list[Future[None]]] = {}  # by origin

    def passes(self, desk: Desk, url: str) -> bool:
        """True: it may be asked for now. False: after the next `change`, perhaps. Else raises
        RobotsDisallowed, RobotsUnreachable or FetchFailed."""
        if not self.is_reachable(desk, url):
            return False
        try:
            passed = self._gate.check(desk.host, url)
        except Exception as error:
            now_s = self._clock.monotonic()
            raise FetchFailed(
                url,
                Failure(
                    url=url,
                    code=FailureCode.INTERNAL,
                    sentence=contained(f"judging {url}", error),
                    connected=True,
                    permanent=True,
                    started_s=now_s,
                    ended_s=now_s,
                ),
            ) from error
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

    def is_reachable(self, desk: Desk, url: str) -> bool:
        """False while its origin could not be connected to and is tried again later. Raises
        FetchFailed while it is given up."""
        self._check_open()
        now_s, name = self._clock.monotonic(), origin_of(url)
        lost = desk.host.beyond_reach(name, now_s) if desk.host.out_of_reach else None
        if lost is None:
            return True
        if lost.given_up:
            raise FetchFailed(url, lost.failure, until=self._clock.wall() + lost.until_s - now_s)
        return False

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

    async def change(self, desk: Desk, url: str) -> None:
        """Wait until a robots fetch of its origin has ended, or it may be connected to again."""
        name = origin_of(url)
        changed: Future[None] = asyncio.get_running_loop().create_future()
        self._settling.setdefault(name, []).append(changed)
        timer = None
        origin = self._gate.origin(name)
        if origin is None or origin.task is None:
            lost = desk.host.out_of_reach.get(name)
            at_s = lost.until_s if lost else self._clock.monotonic()
            timer = self._clock.call_at(at_s, lambda: self.wake(name))
        try:
            await changed
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self, name: str) -> None:
        for settled in self._settling.pop(name, ()):
            if not settled.done():
                settled.set_result(None)

    def wake_all(self) -> None:
        for name in list(self._settling):
            self.wake(name)


def canonical_url(text: str) -> str:
    """Raises InvalidURL."""
    url = canonical(text.strip())
    if url is None:
        raise InvalidURL(f"{unparsed_shown(text)} is not an absolute http or https URL")
    return url

"""Decisions for callers before a request: allowed, not yet, or refused."""

from __future__ import annotations

import asyncio
from asyncio import Future
from dataclasses import dataclass

from yarl import URL

from crawler.clock import Clock
from crawler.embedding.host_line import HostLine
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
)
from crawler.faults import contained
from crawler.fetching.request import Failure
from crawler.frontier.frontier import Frontier
from crawler.frontier.robots_cache import ASKING, Shut
from policies.retries import FailureCode
from policies.robots import Verdict
from policies.robots_policy import Closed
from policies.url import canonical, origin_of, unparsed_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """The time when a host may be contacted next.

    in_s: seconds from now (0.0: now). reason: what it waits for. ahead: callers already in line.
    """

    in_s: float
    reason: str
    ahead: int


class CallerVerdicts:
    """Turns the frontier's verdicts into return values and exceptions, and waits for new ones."""

    def __init__(self, clock: Clock, frontier: Frontier) -> None:
        self._clock = clock
        self._frontier = frontier
        self._waiting: dict[str, list[Future[None]]] = {}  # by origin

    def passes(self, line: HostLine, url: str) -> bool:
        """Return whether the URL may be requested now; if not, ask again after `change`. Raises
        RobotsDisallowed, RobotsUnreachable and FetchFailed."""
        if not self.is_reachable(line, url):
            return False
        robots = self._frontier.robots
        try:
            verdict = robots.check(line.host, url)
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
        if verdict is ASKING:
            return False
        if isinstance(verdict, Verdict):
            raise RobotsDisallowed(url, verdict)
        if isinstance(verdict, Shut):
            origin = robots.get(origin_of(url))
            standing = origin.standing if origin else None
            until = standing.until_s if isinstance(standing, Closed) else None
            raise RobotsUnreachable(url, verdict.reason, until)
        return True

    def is_reachable(self, line: HostLine, url: str) -> bool:
        """Return False while its origin is unreachable and will be tried again. Raises FetchFailed
        while the origin is given up."""
        now_s, name = self._clock.monotonic(), origin_of(url)
        lost = line.host.beyond_reach(name, now_s) if line.host.out_of_reach else None
        if lost is None:
            return True
        if lost.given_up:
            raise FetchFailed(url, lost.failure, until=self._clock.wall() + lost.until_s - now_s)
        return False

    def refuse(self, line: HostLine) -> None:
        """Fail waiting callers whose URLs are refused now, instead of when they reach the head of
        the line. The first in line checks for itself."""
        for place in list(line.places)[1:]:
            origin = self._frontier.robots.get(origin_of(place.url))
            if origin is None or origin.busy:
                continue
            try:
                self.passes(line, place.url)
            except CourtlyError as problem:
                place.call(problem)

    async def change(self, line: HostLine, url: str) -> None:
        """Wait until a robots.txt fetch of the origin ends, or until the next attempt to
        connect."""
        name = origin_of(url)
        changed: Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(changed)
        timer = None
        origin = self._frontier.robots.get(name)
        if origin is None or not origin.busy:
            lost = line.host.out_of_reach.get(name)
            at_s = lost.until_s if lost else self._clock.monotonic()
            timer = self._clock.call_at(at_s, lambda: self.wake(name))
        try:
            await changed
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self, name: str) -> None:
        """Wake the callers that wait for a change of this origin."""
        for changed in self._waiting.pop(name, ()):
            if not changed.done():
                changed.set_result(None)

    def wake_all(self) -> None:
        for name in list(self._waiting):
            self.wake(name)


def canonical_url(given: object) -> str:
    """Return the canonical form of a URL, a string or a yarl.URL. Raises InvalidURL."""
    if not isinstance(given, str | URL):
        shown = "None" if given is None else f"a value of type {type(given).__name__}"
        raise InvalidURL(f"{shown} is not a URL: expected a string or a yarl.URL")
    text = str(given)
    url = canonical(text.strip())
    if url is None:
        raise InvalidURL(f"{unparsed_shown(text)} is not an absolute http or https URL")
    return url

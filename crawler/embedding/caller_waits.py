"""How long callers wait: what is known of it in advance, the limits they set, and the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from crawler.clock import Clock, Timer
from crawler.config.units import format_duration
from crawler.embedding.caller_verdicts import NextTurn
from crawler.embedding.host_line import OWN, Caller, HostLine, Place
from crawler.errors import WaitTooLong, said
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.reasons import IN_FLIGHT, LEASED_ELSEWHERE, PAUSED, READY, RETRY, Reason, Wait
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from crawler.observer import Observer, Waited
from policies.robots_policy import Closed
from policies.url import origin_of

# A wait that is known to last at least this long is logged: longer than usual delays.
LOGGED_S: Final = 10.0

_log = logging.getLogger("courtly.fetch")


class Forecast(NamedTuple):
    """What is known of a wait. at_s: the request cannot begin before (monotonic). endless: until an
    operator acts."""

    at_s: float
    reason: str
    endless: bool = False


class WaitLimit:
    """Limits all waits of one call together: for robots.txt, for hosts, and before retries.

    max_wait_s: None: the call waits for as long as is usual for the caller.
    """

    def __init__(self, clock: Clock, max_wait_s: float | None = None, caller: Caller = OWN) -> None:
        self.clock = clock
        self.caller = caller.name
        self.chosen = max_wait_s is not None  # else the caller has not thought about waits
        if max_wait_s is None:
            max_wait_s = caller.wait_s
        self.left_s = math.inf if max_wait_s is None else max_wait_s

    @property
    def exists(self) -> bool:
        return self.left_s < math.inf

    def charge(self, since_s: float) -> None:
        """The call has waited since then (monotonic)."""
        self.left_s = max(0.0, self.left_s - (self.clock.monotonic() - since_s))


class LimitedWait:
    """The wait for one permit under a limit: an async context manager that charges the limit, and
    raises WaitTooLong after `give_up`."""

    def __init__(self, url: str, limit: WaitLimit, waits: CallerWaits) -> None:
        self.url = url
        self.line: HostLine | None = None
        self.place: Place | None = None
        self._limit = limit
        self._waits = waits
        self._began_s = limit.clock.monotonic()
        self.until_s = self._began_s + limit.left_s
        self._timeout = asyncio.timeout(None)
        self._timer: Timer | None = None
        self._problem: WaitTooLong | None = None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._timer = self._limit.clock.call_at(self.until_s, lambda: self._waits.expire(self))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._limit.charge(self._began_s)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            if self._problem is None:
                raise
            raise self._problem from None

    def give_up(self, problem: WaitTooLong) -> None:
        if self._problem is None:
            self._problem = problem
            self._timeout.reschedule(asyncio.get_running_loop().time())


class CallerWaits:
    """Knows what callers wait for, ends waits that exceed their limits, and logs long ones."""

    def __init__(self, clock: Clock, frontier: Frontier, observer: Observer | None) -> None:
        self._clock = clock
        self._frontier = frontier
        self._observer = observer
        self._limited: dict[Place, LimitedWait] = {}
        self._pauses: dict[str, Counter[float]] = {}  # by URL: when it is requested again

    # ------------------------------------------------------------ what is known

    def forecast(self, line: HostLine, url: str, ahead: int = 0) -> Forecast:
        """The wait of a caller with `ahead` others before it in line.

        A robots.txt that is still to be fetched is not counted: else a short limit would keep it
        from ever being fetched. Once it is known, so is the delay after it.
        """
        host, now_s = line.host, self._clock.monotonic()
        in_s, why = self._frontier.waiting.why(host)
        at_s, reason = now_s + in_s, why.sentence
        delay = host.pace.delay
        if why is IN_FLIGHT and delay.delay_s > 0:  # it follows the request
            at_s = now_s + delay.delay_s
            reason = Reason(Wait.DELAY, delay.source, delay.delay_s).sentence
        elif why is READY and not self._frontier.permits.limits.allow:
            reason = "as many requests are in flight as crawl.concurrency allows"
        lost = host.beyond_reach(origin_of(url), now_s)
        if lost is not None and not lost.given_up and lost.until_s > at_s:
            at_s = lost.until_s
            reason = Reason(Wait.RECONNECT, lost.failure.error).sentence
        origin = self._frontier.robots.get(origin_of(url))
        if origin is not None and origin.busy:
            move = self._frontier.waiting.robots_fetch(origin, now_s)
            move_s = now_s if move.at_s is None else move.at_s
            if move_s > at_s or why in (READY, IN_FLIGHT):
                at_s, reason = max(at_s, move_s), move.reason.sentence
        return _behind(Forecast(at_s, reason, endless=why is PAUSED), line, ahead)

    def next_turn(self, line: HostLine, url: str) -> NextTurn:
        """Return when the host may be contacted for this URL."""
        now_s = self._clock.monotonic()
        in_s, why = self._frontier.waiting.why(line.host)
        at_s, reason = now_s + in_s, why.sentence
        for other_s, because in self._obstacles(line, url, now_s):
            if other_s > at_s:
                at_s, reason = other_s, because.sentence
        return NextTurn(in_s=at_s - now_s, reason=reason, ahead=len(line.places))

    def _obstacles(self, line: HostLine, url: str, now_s: float) -> Iterator[tuple[float, Reason]]:
        """What keeps this URL waiting, and not its host."""
        name = origin_of(url)
        if lost := line.host.beyond_reach(name, now_s):
            yield lost.until_s, Reason(Wait.RECONNECT, lost.failure.error)
        origin = self._frontier.robots.get(name)
        standing = None if origin is None or origin.busy else origin.standing
        if isinstance(standing, Closed) and standing.until_s is not None:
            until_s = now_s + standing.until_s - self._clock.wall()
            yield until_s, Reason(Wait.CLOSED, standing.reason)
        if pauses := self._pauses.get(url):
            yield min(pauses), RETRY

    # ------------------------------------------------------------ waiting in line

    def limited(self, url: str, limit: WaitLimit) -> LimitedWait:
        return LimitedWait(url, limit, self)

    def joined(
        self, line: HostLine, place: Place, limited: LimitedWait | None, *, ahead: int
    ) -> None:
        """A caller has joined a line, with `ahead` others before it. Raises WaitTooLong; `left`
        follows in any case."""
        if limited is None:
            return
        limited.line, limited.place = line, place
        self._limited[place] = limited
        if ahead > 0:
            self._raise_if_late(self.forecast(line, place.url, ahead), limited)

    def left(self, place: Place, limited: LimitedWait | None) -> None:
        if limited is not None:
            limited.line = limited.place = None
            self._limited.pop(place, None)

    def waits_at_head(self, line: HostLine, place: Place) -> None:
        """The first in line begins to wait. Raises WaitTooLong."""
        limited = self._limited.get(place)
        if limited is None and self._is_ready(line.host):
            return  # the usual case costs little
        forecast = self.forecast(line, place.url)
        if limited is not None:
            self._raise_if_late(forecast, limited)
        self._report(line, place, forecast)

    def _is_ready(self, host: HostQueue) -> bool:
        if host.paused or self._frontier.permits.stops.reasons:
            return False
        now_s = self._clock.monotonic()
        at_s = host.pace.ready_s(now_s, self._clock.wall)
        return at_s is not None and at_s <= now_s

    def look(self, line: HostLine) -> None:
        """Something has changed at this host: end the waits that are too long now."""
        if not line.places:
            return
        first = line.places[0]
        forecast, limited = self.forecast(line, first.url), self._limited.get(first)
        if limited is None or forecast.at_s <= limited.until_s:  # else it does not wait
            self._report(line, first, forecast)
        if not self._limited:
            return
        known: dict[str, Forecast] = {}
        for ahead, place in enumerate(line.places):
            if (limited := self._limited.get(place)) is None:
                continue
            name = origin_of(place.url)
            if name not in known:
                known[name] = self.forecast(line, place.url)
            forecast = _behind(known[name], line, ahead)
            if forecast.at_s > limited.until_s:
                limited.give_up(self._too_long(place.url, forecast))

    def expire(self, limited: LimitedWait) -> None:
        """The time of a limited wait has passed."""
        now_s = self._clock.monotonic()
        forecast = Forecast(now_s, LEASED_ELSEWHERE.sentence)
        if not self._frontier.deadline.exists:
            forecast = Forecast(now_s, "its state is being read from the database")
        if (line := limited.line) is not None and limited.place is not None:
            forecast = self.forecast(line, limited.url, line.places.index(limited.place))
        limited.give_up(self._too_long(limited.url, forecast))

    def _raise_if_late(self, forecast: Forecast, limited: LimitedWait) -> None:
        if forecast.at_s > limited.until_s:
            raise self._too_long(limited.url, forecast)

    def _too_long(self, url: str, forecast: Forecast) -> WaitTooLong:
        now_s = self._clock.monotonic()
        until = None if forecast.at_s <= now_s else self._clock.wall() + forecast.at_s - now_s
        return WaitTooLong(url, forecast.reason, until)

    @contextlib.contextmanager
    def observed(self, url: str, slot: str) -> Iterator[None]:
        """Report the wait for a permit to the observer when it has ended."""
        if self._observer is None:
            yield
            return
        began_s, problem = self._clock.monotonic(), None
        try:
            yield
        except BaseException as error:
            problem = error
            raise
        finally:
            elapsed_s = self._clock.monotonic() - began_s
            self._observer.waited(
                Waited(
                    url=url,
                    slot=slot,
                    started_at=self._clock.wall() - elapsed_s,
                    elapsed_s=elapsed_s,
                    error=problem,
                )
            )
            problem = None  # its traceback refers to this frame

    # ------------------------------------------------------------ retries

    async def pause(self, url: str, in_s: float, cause: str, limit: WaitLimit) -> None:
        """Wait before a retry of the URL. cause: what failed. Raises WaitTooLong."""
        now_s = self._clock.monotonic()
        forecast = Forecast(now_s + in_s, f"{RETRY.sentence} ({cause})")
        if in_s > limit.left_s:
            raise self._too_long(url, forecast)
        pauses = self._pauses.setdefault(url, Counter())
        pauses[forecast.at_s] += 1
        self.report(url, forecast)
        try:
            await self._clock.sleep_until(forecast.at_s)
        finally:
            limit.charge(now_s)
            pauses -= Counter({forecast.at_s: 1})
            if not pauses:
                self._pauses.pop(url, None)

    # ------------------------------------------------------------ the log

    def _report(self, line: HostLine, place: Place, forecast: Forecast) -> None:
        """Log the wait of the first in line, once; those behind it wait for longer anyway."""
        if not place.reported:
            place.reported = self.report(place.url, forecast, others=len(line.places) - 1)

    def report(self, what: str, forecast: Forecast, *, others: int = 0) -> bool:
        """Log a wait if it is long; return whether it is. what: a URL or a host."""
        now_s = self._clock.monotonic()
        in_s = forecast.at_s - now_s
        if in_s < LOGGED_S and not forecast.endless:
            return False
        until = f"{format_duration(in_s)}, until {said(self._clock.wall() + in_s)}"
        more = f" (and {others} more for its host)" if others else ""
        _log.info(
            "%s waits%s %s: %s",
            what,
            more,
            "for an operator" if forecast.endless else until,
            forecast.reason,
        )
        return True

    def report_leased_elsewhere(self, slot: str, since_s: float) -> None:
        """Log that a caller has waited since then (monotonic) for a host of another worker: once,
        if it is called every ELSEWHERE_AGAIN_S."""
        waited_s = self._clock.monotonic() - since_s
        if LOGGED_S <= waited_s < LOGGED_S + ELSEWHERE_AGAIN_S:
            _log.info("callers wait for %s: %s", slot, LEASED_ELSEWHERE.sentence)


def _behind(first: Forecast, line: HostLine, ahead: int) -> Forecast:
    """The forecast of one with others ahead, from that of the first in line."""
    if not ahead:
        return first
    pace = line.host.pace
    after_s = ahead // pace.lanes * pace.delay.delay_s
    return Forecast(first.at_s + after_s, f"{first.reason}, with {ahead} ahead in line")

"""robots.txt that could not be had: asked for again, each at its time, with one timer for all."""

from __future__ import annotations

from collections.abc import Callable

from crawler.clock import Clock, Timer
from crawler.politeness.bench import Bench
from crawler.politeness.origin import Origin


class Retries:
    """Calls `ask(origin)` when another try is due. Without `keep_trying` it never does: a file is
    asked for again only when somebody wants in."""

    def __init__(
        self, clock: Clock, *, ask: Callable[[Origin], None], keep_trying: bool = True
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._keep_trying = keep_trying
        self._bench: Bench[Origin] = Bench()
        self._timer: Timer | None = None
        self._closed = False

    def schedule(self, origin: Origin) -> None:
        """Wait for the retry clock of this one, if its robots.txt could not be had."""
        retry_at = origin.access.retry_at
        if retry_at is None or not self._keep_trying or self._closed or origin.host.gone:
            self._bench.remove(origin)
            return
        now_s = self._clock.monotonic()
        at_s = now_s + max(0.0, retry_at - self._clock.wall())
        if lost := origin.host.beyond_reach(origin.name, now_s):
            at_s = max(at_s, lost.until_s)
        self._bench.put(origin, at_s)
        self._arm()

    def remove(self, origin: Origin) -> None:
        self._bench.remove(origin)

    def close(self) -> None:
        """No more tries."""
        self._closed = True
        self._arm()

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        at_s = self._bench.next_at()
        if at_s is not None and not self._closed:
            self._timer = self._clock.call_at(at_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_s = self._clock.monotonic()
        while origin := self._bench.take(now_s):
            if not origin.host.gone:
                self._ask(origin)
        self._arm()

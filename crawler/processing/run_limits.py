"""The limits of one run: pages, time, bytes and errors. Reaching one ends the run cleanly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from crawler.clock import Clock, Timer
from crawler.config.sections import CrawlConfig
from crawler.frontier.frontier import Frontier
from policies.scope import Skip

# For the requests in flight when the time is up or the crawl is stopped: less than a service
# manager or a container waits.
FINISH_S: Final = 5.0


class RunLimits:
    """Counts what this run has done, and stops permits for pages when a limit is reached. Requests
    in flight finish, and URLs stay queued.

    break_off: ends those that are still in flight FINISH_S after the time was up.
    """

    def __init__(
        self,
        config: CrawlConfig,
        frontier: Frontier,
        clock: Clock,
        break_off: Callable[[], None],
    ) -> None:
        self._break_off = break_off
        self._config = config
        self._frontier = frontier
        self._clock = clock
        self._began_s = math.inf
        self._ends_s = math.inf
        self._timer: Timer | None = None
        self._pages = 0  # visited, or requested at present
        self._bytes = 0
        self._errors = 0

    def _reached(self) -> Skip | None:
        """The limit that has been reached, if any."""
        config = self._config
        if self._clock.monotonic() >= self._ends_s:
            return Skip.MAX_TIME
        if self._errors >= config.max_errors:
            return Skip.MAX_ERRORS
        if self._bytes >= config.max_bytes:
            return Skip.MAX_BYTES
        return Skip.MAX_PAGES if self._pages + 1 > config.max_pages else None

    # ------------------------------------------------------------ time

    def begin(self) -> None:
        """The run begins."""
        self._began_s = self._clock.monotonic()
        self.apply(self._config)

    def apply(self, config: CrawlConfig) -> None:
        """Use the limits of this config from now on."""
        self._config = config
        self._ends_s = self._began_s + config.max_time_s
        self.end()
        if self._ends_s < math.inf:
            self._timer = self._clock.call_at(self._ends_s, self._time_is_up)
        self._check()

    def end(self) -> None:
        """The run is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        self._timer = self._clock.call_at(self._ends_s + FINISH_S, self._break_off)
        self._check()
        self._frontier.look_for_work()

    # ------------------------------------------------------------ counting

    def take_page(self) -> bool:
        """Reserve a page before it is requested; False: a limit has been reached."""
        closed = self._frontier.permits.pages_closed_by is not None
        if closed or self._clock.monotonic() >= self._ends_s:
            return False
        self._pages += 1
        if self._pages >= self._config.max_pages:
            self._check()  # until one in flight fails
        return True

    def return_page(self) -> None:
        """A reserved page was not visited."""
        self._pages -= 1
        self._check()

    def count_bytes(self, body_bytes: int) -> None:
        """Count the body of a page, as decoded."""
        self._bytes += body_bytes
        if self._bytes >= self._config.max_bytes:
            self._check()

    def count_errors(self, urls: int) -> None:
        """Count URLs that failed."""
        if urls:
            self._errors += urls
            self._check()
            self._frontier.look_for_work()

    def _check(self) -> None:
        self._frontier.permits.close_pages(self._reached())

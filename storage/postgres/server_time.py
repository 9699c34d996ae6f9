"""The clock of a crawl on a PostgreSQL server: the server's, without its steps."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from storage.timekeeper import Ticks, Uptime, machine_uptime

_SLACK_S: Final = 1.0  # a clock that differs by less was slewed, not set


def elapsed_s() -> float:
    """Return seconds of this machine's clock that nobody can set, and that counts sleep, too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class _Anchor(NamedTuple):
    """The store's time at a moment of `elapsed_s`."""

    store_s: float
    elapsed_s: float
    shift_s: float
    late_s: float


class ServerTime:
    """`storage.timekeeper.StoreTime`, by the clock of a server.

    All workers use the server's clock plus a shift that is stored in the database. Between two
    transactions, each continues with its own `elapsed_s`. Where the two differ, the server's
    clock was set; the worker that notices it first corrects the shift for all. So setting the clock
    of any machine neither lengthens nor shortens a delay.

    Times count from the moment the server's answer arrived, so they are never ahead of the
    server; `late_s` is by how much they may be behind.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float] = elapsed_s) -> None:
        self.elapsed = elapsed
        self.ticks = Ticks()
        up = machine_uptime() if elapsed is elapsed_s else None
        self._boot = up.boot if up else f"process {secrets.token_hex(8)}"
        self._anchor = _Anchor(wall(), elapsed(), 0.0, 0.0)
        self._known = False  # whether a server's clock was read

    def resume(self, last_s: float, shift_s: float, passed_s: float | None = None) -> None:
        """Nothing: the server's clock runs between sessions."""

    def now_s(self) -> float:
        anchor = self._anchor
        return anchor.store_s + self.elapsed() - anchor.elapsed_s

    def late_s(self) -> float:
        return self._anchor.late_s

    def shift_s(self) -> float:
        return self._anchor.shift_s

    def uptime(self) -> Uptime:
        return Uptime(self._boot, self.elapsed())

    def wall_s(self) -> float:
        """The time of the server, for dates that all workers compare."""
        return self.now_s() - self._anchor.shift_s

    def step_s(self, server_s: float, shift_s: float, sent_s: float) -> float:
        """Return how far the server's clock was set since the last `observe`; 0.0: it was not.

        server_s: the server's clock, in an answer to a request sent at `sent_s` of `elapsed`."""
        if not self._known:
            return 0.0
        now_s = self.elapsed()
        anchor = self._anchor
        expected_s = anchor.store_s + now_s - anchor.elapsed_s
        ahead_s = server_s + shift_s - expected_s
        slack_s = _SLACK_S + now_s - sent_s + anchor.late_s
        return 0.0 if abs(ahead_s) <= slack_s else ahead_s

    def observe(self, server_s: float, shift_s: float, sent_s: float) -> None:
        """Continue from the server's clock, never backwards."""
        arrived_s = self.elapsed()
        store_s = server_s + shift_s
        if self._known:
            store_s = max(store_s, self.now_s())
        self._anchor = _Anchor(store_s, arrived_s, shift_s, max(0.0, arrived_s - sent_s))
        self._known = True

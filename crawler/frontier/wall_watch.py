"""Detects that the wall clock was set. Only visit windows depend on it: all other waits use the
monotonic clock."""

from __future__ import annotations

from typing import Final

from crawler.clock import Clock
from crawler.frontier.pace import NEVER

LOOK_S: Final = 30.0  # how often the wall clock is read while hosts wait for a visit window
STEP_S: Final = 1.0  # a larger jump against the monotonic clock: it was set, or we slept


class WallWatch:
    """Compares both clocks while `on`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = 0.0  # the wall clock, when windows were last computed
        self.on = False
        self.look_s = NEVER
        """When the clocks are compared again (monotonic)."""

    def begin(self) -> None:
        """A host waits for its visit window."""
        if not self.on:
            self.on = True
            self._ahead_s = self._clock.wall() - self._clock.monotonic()
            self.looked()

    def looked(self) -> None:
        self.look_s = self._clock.monotonic() + LOOK_S

    def stepped(self) -> bool:
        """Whether the wall clock was set since windows were computed. True once."""
        ahead_s = self._clock.wall() - self._clock.monotonic()
        if abs(ahead_s - self._ahead_s) <= STEP_S:
            return False
        self._ahead_s = ahead_s
        return True

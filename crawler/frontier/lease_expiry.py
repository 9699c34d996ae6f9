"""Holds the crawl when its deadline for contacts has passed, until its leases are renewed."""

from __future__ import annotations

from crawler.clock import Clock
from crawler.contact_deadline import ContactDeadline
from crawler.frontier.commands import BREAK_OFF, CommandQueue
from crawler.frontier.system_holds import SystemHolds
from policies.holds import HoldReason


class LeaseExpiry:
    """The deadline until which a worker of a shared store may contact its hosts. In a store that is
    not shared there is none.

    The hold keeps permits from being granted. Beside it, `may_contact` must be checked in the same
    step of the event loop in which a request is begun: when a stopped process continues, other
    tasks may run before the timer that begins the hold.
    """

    def __init__(
        self, clock: Clock, deadline: ContactDeadline, holds: SystemHolds, commands: CommandQueue
    ) -> None:
        self._clock = clock
        self._deadline = deadline
        self._holds = holds
        self._commands = commands
        self._wake_s: float | None = None

    def may_contact(self, *, for_s: float = 0.0) -> bool:
        """Whether a request may be sent now, and for how many seconds more."""
        if not self._deadline.exists or self._deadline.left_s > for_s:
            return True
        if self._deadline.passed:
            self._expire()
        return False

    def renewed(self, until_s: float) -> None:
        """The leases last until then (`Clock.boottime`)."""
        self._deadline.until_s = max(until_s, self._deadline.until_s)
        self._plan()
        if not self._deadline.passed:
            self._holds.end(HoldReason.LEASES_EXPIRED)

    def _plan(self) -> None:
        self._wake_s = self._clock.monotonic() + max(0.0, self._deadline.left_s)
        self._commands.wake_by(self._wake_s)

    def wake_at(self) -> float | None:
        """The time when `advance` must be called (monotonic seconds)."""
        return self._wake_s

    def advance(self, now_s: float) -> None:
        """Time has passed."""
        if self._wake_s is not None and self._wake_s <= now_s:
            if self._deadline.passed:
                self._expire()
            else:
                self._plan()

    def _expire(self) -> None:
        """Requests in flight are broken off: another worker may be about to contact their hosts."""
        if self._wake_s is not None:
            self._wake_s = None
            self._commands.put(BREAK_OFF)
        self._holds.begin(HoldReason.LEASES_EXPIRED)

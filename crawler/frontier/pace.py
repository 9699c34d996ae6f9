"""When one host may be contacted next, and why not before. No I/O.

All times are monotonic seconds unless a name says otherwise.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from crawler.frontier.reasons import RESTARTED, VISIT_WINDOW, Reason, Wait
from policies.pacing import (
    DELAY_S_MAX,
    NO_ROBOTS_PACING,
    PacingRules,
    PolitenessDelay,
    RobotsPacing,
    lanes,
    politeness_delay,
    smoothed_latency_s,
    window_wait_s,
)
from policies.retries import DENIALS_MAX, backoff_s
from storage.columns import CLOCKS_APART_S
from storage.store import HostClock, Lease

FORGOTTEN: Final = ""  # stands for the origins that are no longer in memory
NEVER: Final = -math.inf  # the end of a contact that has not been


class Pace:
    """Computes a host's delays from its rules, its robots.txt files and its past contacts, and
    audits that they were kept.

    Invariants: `busy` contacts are open, never more than `lanes()` allowed when each began; `ends`
    holds, in ascending order, the ends of the last contacts: with those that are open, at most one
    for each lane there could be.
    """

    __slots__ = (
        "ask",
        "asks",
        "backoff_level",
        "backoff_status",
        "backoff_until_s",
        "breaches",
        "busy",
        "contacts",
        "contacts_open",
        "delay",
        "delay_at_restart",
        "denials",
        "ends",
        "lanes",
        "latency_s",
        "not_before_reason",
        "not_before_s",
        "peak_concurrency",
        "revision",
        "rules",
        "slow_s",
        "smallest_rest_s",
        "unmeasured",
        "unproven",
        "unread",
    )

    def __init__(
        self,
        lease: Lease,
        rules: PacingRules,
        *,
        now_s: float,
        restart_s: float | None = None,
    ) -> None:
        clock = lease.clock
        self.rules = rules
        # Permits granted before the pace became stricter, which happens beside them where there are
        # several lanes, are void.
        self.revision = 0
        self.busy = 0
        # The end of its last contact, by whomever, counts for every lane.
        self.ends: list[float] = []
        if clock.rested_s is not None:
            self.ends = [now_s - clock.rested_s] * rules.concurrency_per_host
        self.asks: dict[str, RobotsPacing] = {}  # by origin
        self.unread: set[str] = set()  # origins of which a file may ask more, once it is read
        self.ask = NO_ROBOTS_PACING
        self.latency_s = clock.latency_s
        self.slow_s = lease.slow_s  # a delay set by an operator
        self.delay: PolitenessDelay = politeness_delay(
            rules, NO_ROBOTS_PACING, latency_s=self.latency_s, slow_s=self.slow_s
        )
        self.backoff_level = clock.backoff_level
        self._count_lanes()
        self.backoff_until_s = now_s + clock.backoff_in_s if clock.backoff_in_s else NEVER
        self.backoff_status = clock.backoff_status  # that of the response which caused it
        self.not_before_s = now_s + clock.next_in_s
        self.not_before_reason = Reason(
            Wait.STORED, clock.delay_source or "delay after its last contact"
        )
        # The delay after its last contact is recomputed by the current rules. A longer one (after a
        # crash) stands, and so does one that files not in memory may have asked for.
        rested_s = clock.rested_s if lease.robots_all else None
        if rested_s is not None and clock.next_in_s <= clock.delay_s - rested_s + CLOCKS_APART_S:
            self.not_before_s = now_s
        # A worker that died may have contacted it until the restart: law 6 (docs/laws.md).
        self.delay_at_restart: float | None = None
        if not lease.clean:
            self.delay_at_restart = now_s if restart_s is None else restart_s
        self.denials = clock.denials
        self.contacts = clock.contacts
        self.smallest_rest_s = clock.smallest_rest_s
        self.peak_concurrency = clock.peak_concurrency
        self.contacts_open = 0
        self.breaches = clock.breaches
        self.unproven = clock.unproven
        # Contacts of the next lanes follow some whose end nobody has measured.
        self.unmeasured = 0 if lease.clean else rules.concurrency_per_host
        self._delay_after_crash(clock.delay_s)

    # ------------------------------------------------------------ inputs

    def _delay_after_crash(self, delay_s: float) -> None:
        """A host not released cleanly waits its full delay from the restart (law 6,
        docs/laws.md)."""
        if self.delay_at_restart is not None:
            at_s = self.delay_at_restart + max(delay_s, self.delay.delay_s)
            if at_s > self.not_before_s:
                self.not_before_s = at_s
                self.not_before_reason = RESTARTED

    @property
    def _restarted_s(self) -> float:
        """The same by the current rules, which may differ from those at the time of the lease."""
        restart_s = self.delay_at_restart
        return NEVER if restart_s is None else restart_s + self.delay.delay_s

    @property
    def windowed(self) -> bool:
        """Whether it has a visit window."""
        return self.rules.visit_window is not None or bool(self.ask.windows)

    @property
    def ever_open(self) -> bool:
        """Whether its visit windows have an hour in common."""
        return window_wait_s(self.rules, self.ask, 0.0) < DELAY_S_MAX

    def recompute(self) -> None:
        """Recompute lanes and delay after a change of rules, robots.txt, latency or controls."""
        self._count_lanes()
        before_s = self.delay.delay_s
        self.delay = politeness_delay(
            self.rules, self.ask, latency_s=self.latency_s, slow_s=self.slow_s
        )
        if self.delay.delay_s > before_s:
            self.revision += 1

    def set_ask(self, origin: str, ask: RobotsPacing) -> None:
        """Set the pace that an origin's robots.txt requests for the whole host."""
        self.asks[origin] = ask
        strictest = NO_ROBOTS_PACING
        for one in self.asks.values():
            strictest = strictest.strictest(one)
        if strictest != self.ask:
            self.ask = strictest
            self.revision += 1  # of the lanes and the visit windows, too
            self.recompute()
            self._delay_after_crash(self.delay.delay_s)

    def forget_asks(self, origins: Iterable[str]) -> None:
        """Forget origins that leave memory. The pace they requested stays in force, except for a
        doubling."""
        forgotten = self.asks.get(FORGOTTEN, NO_ROBOTS_PACING)
        for origin in origins:
            forgotten = forgotten.strictest(
                replace(self.asks.pop(origin, NO_ROBOTS_PACING), missing=False)
            )
        self.asks[FORGOTTEN] = forgotten

    # ------------------------------------------------------------ waiting

    def _count_lanes(self) -> None:
        self.lanes = lanes(self.rules, self.ask, backing_off=self.backoff_level > 0)

    def _lane(self) -> int:
        """Index in `ends` of the contact the next one follows; negative: a lane never used."""
        return len(self.ends) + self.busy - self.lanes

    def ready_s(self, now_s: float, wall: Callable[[], float]) -> float | None:
        """Return when a contact may begin; None: all lanes are in use. Called several times per
        contact, so it builds no reasons."""
        if self.busy >= self.lanes:
            return None
        at_s = self.not_before_s
        lane = len(self.ends) + self.busy - self.lanes
        if lane >= 0 and (lane_s := self.ends[lane] + self.delay.delay_s) > at_s:
            at_s = lane_s
        if self.backoff_until_s > at_s:
            at_s = self.backoff_until_s
        if self.delay_at_restart is not None:
            at_s = max(at_s, self._restarted_s)
        if self.rules.visit_window or self.ask.windows:
            start_s = max(at_s, now_s)
            closed_s = window_wait_s(self.rules, self.ask, wall() + start_s - now_s)
            if closed_s:
                at_s = start_s + closed_s
        return at_s

    def wait(self, now_s: float, wall_s: float) -> tuple[float, Reason] | None:
        """Return the time of `ready_s`, with the reason for the wait."""
        if self.busy >= self.lanes:
            return None
        at_s, reason = max(self._waits(), key=lambda wait: wait[0])  # the first of equals
        start_s = max(at_s, now_s)
        closed_s = window_wait_s(self.rules, self.ask, wall_s + start_s - now_s)
        return (start_s + closed_s, VISIT_WINDOW) if closed_s else (at_s, reason)

    def _waits(self) -> Iterator[tuple[float, Reason]]:
        """Yield everything that keeps it from being contacted now, visit windows aside."""
        yield self.not_before_s, self.not_before_reason
        lane = self._lane()
        if lane >= 0:
            delay_s, source = self.delay.delay_s, self.delay.source
            yield self.ends[lane] + delay_s, Reason(Wait.DELAY, source, delay_s)
        yield self.backoff_until_s, Reason(Wait.BACKOFF, status=self.backoff_status)
        if self.delay_at_restart is not None:
            yield self._restarted_s, RESTARTED

    def next_contact(self, now_s: float, wall_s: float) -> tuple[float, str]:
        """Return, after a contact, seconds until the next one may begin, and the source of that
        delay."""
        delay = self.delay
        at_s = self.ready_s(now_s, lambda: wall_s)
        if at_s is None or at_s <= now_s + delay.delay_s:
            return delay.delay_s, delay.source
        waits = self.wait(now_s, wall_s)
        return at_s - now_s, delay.source if waits is None else waits[1].sentence

    # ------------------------------------------------------------ a contact

    def begin(self) -> float:
        """Open a contact; return the end of the contact it follows (NEVER: none)."""
        lane = self._lane()
        follows_s = NEVER if lane < 0 else self.ends[lane]
        # Where only one lane is open for now, the ends that count for the others are kept.
        most = self.rules.concurrency_per_host
        del self.ends[: max(0, len(self.ends) + self.busy + 1 - most)]
        self.busy += 1
        return follows_s

    def on_wire(self) -> None:
        """A contact is being made now; `end` says when it is over."""
        self.contacts_open += 1
        self.peak_concurrency = max(self.peak_concurrency, self.contacts_open)

    def not_sent(self) -> None:
        """The contact announced by `on_wire` was not made after all; `undo` follows."""
        self.contacts_open -= 1

    def undo(self, follows_s: float) -> None:
        """The permit was not used: no contact was made."""
        self.busy -= 1
        if follows_s != NEVER:
            bisect.insort(self.ends, follows_s)

    def end(self, follows_s: float, allowed_s: float, started_s: float, ended_s: float) -> bool:
        """Close a contact and verify that its delay was kept: law 1 (docs/laws.md). Return whether
        nobody measured that delay."""
        self.busy -= 1
        self.contacts_open -= 1
        bisect.insort(self.ends, ended_s)
        self.contacts += 1
        if started_s < allowed_s:
            self.breaches += 1
        unproven = self.unmeasured > 0
        if unproven:
            self.unmeasured -= 1
            self.unproven += 1
        elif follows_s != NEVER:
            gap_s = started_s - follows_s
            if self.smallest_rest_s is None or gap_s < self.smallest_rest_s:
                self.smallest_rest_s = gap_s
        self.latency_s = smoothed_latency_s(self.latency_s, ended_s - started_s)
        if self.rules.latency_factor:  # else it has no say
            self.recompute()
        return unproven

    def answered(self, status: int, *, refusal: bool, asked_s: float | None, now_s: float) -> bool:
        """Learn from an answer; return whether the host now backs off, to be committed immediately.

        `refusal`: a 429 or 503 to a page. `asked_s`: the Retry-After of an answer of any status, if
        it gave one.
        """
        self.denials = self.denials + 1 if status in (401, 403) else 0
        denied = self.denials >= DENIALS_MAX
        if not (asked_s or refusal or denied):  # a Retry-After of 0 says nothing about our pace
            if self.backoff_level and status < 500 and status not in (401, 403, 429):
                self.backoff_level -= 1  # forgiven by a success, which halves the next backoff
                self._count_lanes()
            return False
        self.revision += 1
        until_s = NEVER if asked_s is None else now_s + asked_s
        if refusal or denied:
            self.backoff_level += 1
            self._count_lanes()
        if denied or asked_s is None:
            self.denials = 0
            until_s = max(until_s, now_s + backoff_s(self.backoff_level))
        if until_s >= self.backoff_until_s:
            self.backoff_until_s = until_s
            # Of a single denial, its Retry-After is the reason.
            self.backoff_status = status if denied or status not in (401, 403) else None
        return refusal or denied or until_s > now_s + self.delay.delay_s

    # ------------------------------------------------------------ for the store

    def clock(self, now_s: float, *, put_off_s: float, connect_failures: int) -> HostClock:
        """The clock in its stored form. The next lease has one lane only, so the last end counts
        for all. put_off_s: the host has no work until then."""
        last_s = self.ends[-1] if self.ends else NEVER
        next_s = max(
            self.not_before_s, self.backoff_until_s, last_s + self.delay.delay_s, put_off_s
        )
        if self.delay_at_restart is not None:
            next_s = max(next_s, self._restarted_s)
        return HostClock(
            next_in_s=max(0.0, next_s - now_s),
            rested_s=now_s - last_s if self.ends else None,
            delay_s=self.delay.delay_s,
            delay_source=self.delay.source,
            latency_s=self.latency_s,
            backoff_level=self.backoff_level,
            backoff_in_s=max(0.0, self.backoff_until_s - now_s),
            denials=self.denials,
            connect_failures=connect_failures,
            contacts=self.contacts,
            smallest_rest_s=self.smallest_rest_s,
            peak_concurrency=self.peak_concurrency,
            breaches=self.breaches,
            unproven=self.unproven,
            backoff_status=self.backoff_status if self.backoff_until_s > now_s else None,
        )

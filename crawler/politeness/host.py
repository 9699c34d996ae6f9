"""The live state of one held host: its hand of URLs, its clock, and why it waits. No I/O.

All times are seconds on the crawl's monotonic clock unless a name says otherwise.
"""

from __future__ import annotations

import bisect
import math
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from crawler.telling import backoff
from policies.pacing import (
    NO_ASK,
    Ask,
    PacingRules,
    Rest,
    lanes,
    rest,
    smoothed,
    window_wait_s,
)
from policies.retry import DENIALS_MAX, backoff_s, retry_delay_s
from policies.url import origin_of
from storage.base import Contact, HostClock, HostUpdate, Lease, Queued
from storage.rows import CLOCKS_APART_S

if TYPE_CHECKING:
    from crawler.clock import Timer
    from crawler.fetching.request import Failure

PREFETCH = 16  # URLs taken from the store at once: memory is hosts held times this
LOW_WATER = (
    4  # URLs left in the hand when more are asked for: a commit is over before they are used
)
APPETITE_MAX = 256  # while a host's URLs cost no contact (all blocked): 10 ms of the loop's time
BACKING_OFF = "it asked us to come back later, or refused us"
RESTARTED = "a full rest, because the last crawl ended without a farewell"
FORGOTTEN = ""  # stands for the origins that are no longer in memory
NEVER = -math.inf  # the end of a contact that has not been


@dataclass(slots=True, eq=False)
class OutOfReach:
    """An origin no connection could be made to. A host may have a dead port beside a healthy one,
    so this is kept for each origin."""

    failures: int  # in a row
    until_s: float  # of the retry clock
    failure: Failure
    since_s: float  # when the last of them was known
    given_up: bool = False  # its queue has been failed; it is tried again for new URLs only


class Host:
    """One held host. Changed only by `Turns` and by the visit that holds one of its turns.

    Invariants: `busy` contacts are open, never more than `lanes()` were allowed when each began;
    `ends` are the ends, ascending, of the contacts whose lanes are free again; `held` are the ids
    of URLs taken from the store whose outcome is not committed yet.
    """

    __slots__ = (
        "address",
        "address_clock",
        "all_known",
        "appetite",
        "ask",
        "asks",
        "backoff_level",
        "backoff_until_s",
        "backoff_why",
        "breaches",
        "busy",
        "closed",
        "contacts",
        "contacts_new",
        "contacts_open",
        "delay_at_restart",
        "denials",
        "dirty",
        "ends",
        "epoch",
        "full",
        "gone",
        "hand",
        "held",
        "in_line",
        "latency_s",
        "next_due_s",
        "not_before_s",
        "not_before_why",
        "out_of_reach",
        "parked",
        "paused",
        "peak_concurrency",
        "rest",
        "rules",
        "seat",
        "slot",
        "slow_s",
        "smallest_rest_s",
        "steered",
        "timers",
        "unread",
        "visited",
        "waiters",
        "wanted_s",
        "wanting",
    )

    def __init__(self, lease: Lease, rules: PacingRules, *, now_s: float) -> None:
        clock = lease.clock
        self.slot = lease.slot
        self.epoch = lease.epoch
        self.rules = rules
        self.seat = 0  # the bench's mark
        self.in_line = False  # stands in line for a worker
        self.gone = False  # no longer held
        self.steered = 0  # turns given before a change by hand, or of rules, are void
        self.full = False  # reached max_pages_per_host
        self.appetite = PREFETCH
        self.wanting = False  # more URLs have been asked for
        self.wanted_s: float | None = None  # since when it has wanted a turn
        self.dirty = False  # its clock moved since the last commit
        self.hand: deque[Queued] = deque(lease.hand.urls)
        self.held: set[int] = {queued.id for queued in lease.hand.urls}
        self.parked: dict[str, list[Queued]] = {}  # by origin: waiting for its robots.txt
        self.closed: set[str] = set()  # origins whose URLs cannot move now
        self.next_due_s: float | None = None  # when its next URL falls due
        self.timers: dict[str, Timer] = {}  # by what they wait for: each holds this object
        self.waiters: deque[Future[Turn]] = deque()  # directed turns: robots hops, embedders
        self.busy = 0
        self.unread = 0  # pages fetched whose outcome is not recorded yet
        # The end of its last contact, by whomever, counts for every lane.
        self.ends: list[float] = []
        if clock.rested_s is not None:
            self.ends = [now_s - clock.rested_s] * rules.concurrency_per_host
        self.asks: dict[str, Ask] = {}
        self.all_known = lease.robots_all  # every origin it has is in memory, or new
        self.ask = NO_ASK
        self.latency_s = clock.latency_s
        self.slow_s = lease.slow_s
        self.rest: Rest = rest(rules, NO_ASK, latency_s=self.latency_s, slow_s=self.slow_s)
        self.paused = lease.paused
        self.backoff_level = clock.backoff_level
        self.backoff_until_s = now_s + clock.backoff_in_s if clock.backoff_in_s else NEVER
        self.backoff_why = BACKING_OFF
        self.not_before_s = now_s + clock.next_in_s
        self.not_before_why = clock.delay_source or "its last contact"
        # What its last contact has it rest is reckoned anew, by the rules of now. Anything longer
        # (a rest after a crash) stands; so does what files that are not here may have asked for.
        rested_s = clock.rested_s if lease.robots_all else None
        if rested_s is not None and clock.next_in_s <= clock.delay_s - rested_s + CLOCKS_APART_S:
            self.not_before_s = now_s
        # Law 6: who died holding it may have been in contact a moment ago.
        self.delay_at_restart = now_s if not lease.clean else None
        self.denials = clock.denials
        self.out_of_reach: dict[str, OutOfReach] = {}  # by origin
        self.contacts = clock.contacts
        self.smallest_rest_s = clock.smallest_rest_s
        self.peak_concurrency = clock.peak_concurrency
        self.contacts_open = 0
        self.breaches = clock.breaches
        self.contacts_new: list[Contact] = []
        self.visited = lease.visited
        self.address: str | None = None
        self.address_clock: AddressClock | None = None
        self._rested_after_crash(clock.delay_s)

    # ------------------------------------------------------------ what it waits for

    def _rested_after_crash(self, delay_s: float) -> None:
        """Hosts not released cleanly wait their full delay from the restart (law 6)."""
        if self.delay_at_restart is not None:
            at_s = self.delay_at_restart + max(delay_s, self.rest.delay_s)
            if at_s > self.not_before_s:
                self.not_before_s = at_s
                self.not_before_why = RESTARTED

    @property
    def _restarted_s(self) -> float:
        """The same by the rules of now, which may be others than those it was leased under."""
        restart_s = self.delay_at_restart
        return NEVER if restart_s is None else restart_s + self.rest.delay_s

    def reckon(self) -> None:
        """Take a changed ask, latency or control into account."""
        self.rest = rest(self.rules, self.ask, latency_s=self.latency_s, slow_s=self.slow_s)

    def set_ask(self, origin: str, ask: Ask) -> None:
        """What an origin's robots.txt asks of the pace of the whole host."""
        self.asks[origin] = ask
        strictest = NO_ASK
        for one in self.asks.values():
            strictest = strictest.strictest(one)
        if strictest != self.ask:
            self.ask = strictest
            self.reckon()
            self._rested_after_crash(self.rest.delay_s)

    def forget_asks(self, origins: Iterable[str]) -> None:
        """They leave memory. What they ask of the pace counts on, but for a doubling."""
        forgotten = self.asks.get(FORGOTTEN, NO_ASK)
        for origin in origins:
            forgotten = forgotten.strictest(replace(self.asks.pop(origin, NO_ASK), missing=False))
        self.asks[FORGOTTEN] = forgotten
        self.all_known = False

    @property
    def wants_turn(self) -> bool:
        return bool(self.waiters or self.hand) and not self.paused

    def lanes(self) -> int:
        most = self.rules.concurrency_per_host
        if most == 1:
            return 1
        return lanes(self.rules, self.ask, backing_off=self.backoff_level > 0)

    def _lane(self) -> int:
        """Index in `ends` of the contact the next one follows; negative: a lane never used."""
        return len(self.ends) + self.busy - self.lanes()

    def ready_s(self, now_s: float, wall: Callable[[], float]) -> float | None:
        """When a contact may begin; None: all lanes are in use. Asked several times a contact:
        0.5 µs, for which it makes no words."""
        lanes = self.lanes()
        if self.busy >= lanes:
            return None
        at_s = self.not_before_s
        lane = len(self.ends) + self.busy - lanes
        if lane >= 0:
            rested_s = self.ends[lane] + self.rest.delay_s
            at_s = max(at_s, rested_s)
        at_s = max(at_s, self.backoff_until_s)
        if self.delay_at_restart is not None:
            at_s = max(at_s, self._restarted_s)
        if self.rules.visit_window or self.ask.windows:
            start_s = max(at_s, now_s)
            closed_s = window_wait_s(self.rules, self.ask, wall() + start_s - now_s)
            if closed_s:
                at_s = start_s + closed_s
        return at_s

    def wait(self, now_s: float, wall_s: float) -> tuple[float, str] | None:
        """`ready_s`, and in words what it waits for."""
        at_s = self.ready_s(now_s, lambda: wall_s)
        if at_s is None:
            return None
        if at_s == self.not_before_s:
            return at_s, self.not_before_why
        lane = self._lane()
        if lane >= 0 and at_s == self.ends[lane] + self.rest.delay_s:
            return at_s, f"a rest of {self.rest.delay_s:.3g} s ({self.rest.source})"
        if at_s == self.backoff_until_s:
            return at_s, self.backoff_why
        if at_s == self._restarted_s:
            return at_s, RESTARTED
        return at_s, "its visit window"

    def next_turn(self, now_s: float, wall_s: float) -> tuple[float, str]:
        """After a contact: how long until the next one may begin, and what that comes from."""
        rest = self.rest
        at_s = self.ready_s(now_s, lambda: wall_s)
        if at_s is None or at_s <= now_s + rest.delay_s:
            return rest.delay_s, rest.source
        waits = self.wait(now_s, wall_s)
        return at_s - now_s, rest.source if waits is None else waits[1]

    # ------------------------------------------------------------ waking it

    def set_timer(self, name: str, timer: Timer | None) -> None:
        """In the place of the one of this name. A timer keeps the host in memory: those of one that
        is no longer held are cancelled."""
        before = self.timers.pop(name, None)
        if before is not None:
            before.cancel()
        if timer is not None:
            self.timers[name] = timer

    def cancel_timers(self) -> None:
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()

    # ------------------------------------------------------------ steered by hand

    def steer(
        self, *, paused: bool | None = None, slow_s: float | None = None, clear_slow: bool = False
    ) -> None:
        """As `Store.set_control`. A changed rest counts from the end of the contact before."""
        if paused is not None:
            self.paused = paused
        if slow_s is not None or clear_slow:
            self.slow_s = slow_s
        self.steered += 1
        self.reckon()

    def rule(self, rules: PacingRules) -> None:
        """From now on by these rules, also for the rest that is under way."""
        self.rules = rules
        self.steered += 1
        self.reckon()

    # ------------------------------------------------------------ a contact

    def begin(self) -> float:
        """Open a contact; give the end of the contact it follows (NEVER: none)."""
        lane = self._lane()
        follows_s = NEVER
        if lane >= 0:
            follows_s = self.ends[lane]
            del self.ends[: lane + 1]
        self.busy += 1
        return follows_s

    def on_wire(self) -> None:
        """The contact of an open turn is being made now; `end` says when it is over."""
        self.contacts_open += 1
        self.peak_concurrency = max(self.peak_concurrency, self.contacts_open)

    def undo(self, follows_s: float) -> None:
        """The turn was not used: no contact was made."""
        self.busy -= 1
        if follows_s != NEVER:
            bisect.insort(self.ends, follows_s)

    def end(self, follows_s: float, allowed_s: float, started_s: float, ended_s: float) -> None:
        """Close a contact and audit it: law 1 in figures."""
        self.busy -= 1
        self.contacts_open -= 1
        bisect.insort(self.ends, ended_s)
        self.contacts += 1
        self.dirty = True
        if started_s < allowed_s:
            self.breaches += 1
        if follows_s != NEVER:
            rested_s = started_s - follows_s
            if self.smallest_rest_s is None or rested_s < self.smallest_rest_s:
                self.smallest_rest_s = rested_s
        self.latency_s = smoothed(self.latency_s, ended_s - started_s)
        if self.rules.latency_factor:  # else it has no say
            self.reckon()

    def answered(self, status: int, *, refusal: bool, rest_s: float | None, now_s: float) -> bool:
        """Learn from an answer; True if the host now backs off (to be committed at once).

        `refusal`: a 429 or 503 to a page. `rest_s`: its Retry-After, if it gave one.
        """
        if status in (401, 403):
            self.denials += 1
        else:
            self.denials = 0
        if rest_s is not None or refusal or self.denials >= DENIALS_MAX:
            self.backoff_why = backoff.of_status(status)
        if rest_s is not None:
            self.backoff_until_s = max(self.backoff_until_s, now_s + rest_s)
            if refusal:
                self.backoff_level += 1
            return True
        if refusal or self.denials >= DENIALS_MAX:
            self.backoff_level += 1
            self.denials = 0
            self.backoff_until_s = max(self.backoff_until_s, now_s + backoff_s(self.backoff_level))
            return True
        if self.backoff_level and status < 500 and status not in (401, 403, 429):
            self.backoff_level -= 1  # forgiven by a success, which halves the next rest
        return False

    def lost(
        self, origin: str, failure: Failure, *, now_s: float, failures: int | None = None
    ) -> OutOfReach:
        """No connection to the origin could be made: it is left alone on the retry clock.

        `failures` in a row, this one included, if they are counted elsewhere (a robots hop). One
        that was under way on another lane when that became known is no further try: nothing
        changes, and what was known is given.
        """
        known = self.out_of_reach.get(origin)
        if failures is None:
            if known and failure.started_s < known.since_s and not failure.permanent:
                return known
            failures = known.failures + 1 if known else 1
        lost = OutOfReach(failures, now_s + retry_delay_s(failures), failure, now_s)
        self.out_of_reach[origin] = lost
        self.dirty = True
        return lost

    def beyond_reach(self, origin: str, now_s: float) -> OutOfReach | None:
        """Why the origin may not be tried yet; None if it may."""
        lost = self.out_of_reach.get(origin)
        return lost if lost and lost.until_s > now_s else None

    @property
    def connect_failures(self) -> int:
        return max((lost.failures for lost in self.out_of_reach.values()), default=0)

    # ------------------------------------------------------------ for the store

    def update(
        self, now_s: float, *, release: bool = False, put_off_s: float = NEVER
    ) -> HostUpdate:
        """What a commit says of it; takes the new contacts along.

        The lease that follows knows of one lane only, so the last end counts for all. `put_off_s`:
        until then there is nothing to do at this host.
        """
        last_s = self.ends[-1] if self.ends else NEVER
        next_s = max(self.not_before_s, self.backoff_until_s, last_s + self.rest.delay_s, put_off_s)
        next_s = max(next_s, self._restarted_s)
        contacts, self.contacts_new = self.contacts_new, []
        self.dirty = False
        return HostUpdate(
            slot=self.slot,
            epoch=self.epoch,
            clock=HostClock(
                next_in_s=max(0.0, next_s - now_s),
                rested_s=now_s - last_s if self.ends else None,
                delay_s=self.rest.delay_s,
                delay_source=self.rest.source,
                latency_s=self.latency_s,
                backoff_level=self.backoff_level,
                backoff_in_s=max(0.0, self.backoff_until_s - now_s),
                denials=self.denials,
                connect_failures=self.connect_failures,
                contacts=self.contacts,
                smallest_rest_s=self.smallest_rest_s,
                peak_concurrency=self.peak_concurrency,
                breaches=self.breaches,
            ),
            contacts=contacts,
            release=release,
        )

    def empty_hand(self) -> None:
        """Let go of the hand and of what is parked: those URLs stay queued in the store."""
        for dropped in (self.hand, *self.parked.values()):
            self.held.difference_update(queued.id for queued in dropped)
        self.hand.clear()
        self.parked.clear()

    def let_go(self, origin: str) -> None:
        """Let go of the URLs of one origin that cannot move now."""
        gone = [queued for queued in self.hand if origin_of(queued.url) == origin]
        gone += self.parked.pop(origin, [])
        if gone:
            self.held.difference_update(queued.id for queued in gone)
            self.hand = deque(q for q in self.hand if q.id in self.held)


@dataclass(slots=True, eq=False, weakref_slot=True)
class AddressClock:
    """The clock of one address, with `per = "ip"`: one contact at a time, each rested."""

    ready_s: float
    ended_s: float = NEVER  # its last contact
    busy: bool = False
    queue: dict[str, Host] = field(default_factory=dict)  # hosts that wait for it to be free


@dataclass(slots=True, eq=False)
class Turn:
    """The right to make one contact with one host now; `Turns.end` or `Turns.give_back` ends it."""

    host: Host
    follows_s: float  # end of the contact it follows
    allowed_s: float  # when it was first allowed to begin
    address_clock: AddressClock | None = None  # of the address it may contact, with `per = "ip"`
    over: bool = False
    could_s: float = NEVER  # when it could have begun: allowed, and wanted
    steered: int = 0  # as the host had it when the turn was given

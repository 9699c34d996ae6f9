"""The live state of one held host: its hand of URLs, its pace, and who waits for it. No I/O.

All times are seconds on the crawl's monotonic clock unless a name says otherwise.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from crawler.politeness.pace import NEVER, Pace
from policies.holds import HoldReason
from policies.pacing import PacingRules
from policies.retries import retry_delay_s
from policies.scope import Skip
from policies.url import host_of, origin_of
from storage.store import Contact, HostUpdate, Lease, Queued

if TYPE_CHECKING:
    from crawler.clock import Timer
    from crawler.fetching.request import Failure

PREFETCH = 16  # URLs taken from the store at once: memory is hosts held times this
LOW_WATER = (
    4  # URLs left in the hand when more are asked for: a commit is over before they are used
)
APPETITE_MAX = 256  # while a host's URLs cost no contact (all blocked): 10 ms of the loop's time

EXCUSES_MAX = 3  # of one URL, for silence that an outage was blamed for


class OutOfReach(Struct, eq=False):
    """An origin no connection could be made to. A host may have a dead port beside a healthy one,
    so this is kept for each origin."""

    failures: int  # in a row
    until_s: float  # of the retry clock
    failure: Failure
    since_s: float  # when the last of them was known
    given_up: bool = False  # its queue has been failed; it is tried again for new URLs only


class Host:
    """One held host. Changed only by `Turns` and by the visit that holds one of its turns.

    `held` are the ids of URLs taken from the store whose outcome is not committed yet.
    """

    __slots__ = (
        "address",
        "address_clock",
        "all_known",
        "appetite",
        "body_bytes",
        "closed",
        "contacts_new",
        "epoch",
        "excused",
        "failed_in_row",
        "full",
        "gone",
        "hand",
        "held",
        "in_line",
        "next_due_s",
        "ours",
        "out_of_reach",
        "outages",
        "pace",
        "pages_in_flight",
        "parked",
        "paused",
        "reached",
        "seat",
        "slot",
        "steered",
        "timers",
        "tried_before",
        "unread",
        "visited",
        "waiters",
        "wanted_s",
        "wanting",
    )

    def __init__(self, lease: Lease, rules: PacingRules, *, now_s: float) -> None:
        self.slot = lease.slot
        self.epoch = lease.epoch
        self.pace = Pace(lease, rules, now_s=now_s)
        self.seat = 0  # the bench's mark
        self.in_line = False  # stands in line for a worker
        self.gone = False  # no longer held
        self.steered = 0  # turns given before a change by hand, or of rules, are void
        self.full: Skip | None = None  # the limit on its pages or their bytes that it has reached
        self.appetite = PREFETCH
        self.wanting = False  # more URLs have been asked for
        self.wanted_s: float | None = None  # since when it has wanted a turn
        self.hand: deque[Queued] = deque(lease.prefetched.urls)
        self.excused: dict[
            int, int
        ] = {}  # URLs -> how often an outage was blamed for their silence
        self.held: set[int] = {queued.id for queued in lease.prefetched.urls}
        self.parked: dict[str, list[Queued]] = {}  # by origin: waiting for its robots.txt
        self.closed: set[str] = set()  # origins whose URLs cannot move now
        self.next_due_s: float | None = None  # when its next URL falls due
        self.timers: dict[str, Timer] = {}  # by what they wait for: each holds this object
        self.waiters: deque[Future[Turn]] = deque()  # directed turns: robots hops, embedders
        self.pages_in_flight = 0  # new ones: requested and not answered yet
        self.unread = 0  # pages fetched whose outcome is not recorded yet
        self.all_known = lease.robots_all  # every origin it has is in memory, or new
        self.paused = lease.paused
        self.out_of_reach: dict[str, OutOfReach] = {}  # by origin
        # It ever answered. Its latency does not say so: that of failures counts as well.
        self.reached = bool(lease.visited)
        self.ours = 0  # failures in a row that were trouble of our own
        self.outages = 0  # in a row that it seemed to be in and did not answer after
        self.failed_in_row = 0  # tries of URLs since one was done with
        # Connections in a row that could not be made, as stored: some origin's, which is not known.
        self.tried_before = lease.clock.connect_failures
        self.contacts_new: list[Contact] = []
        self.visited = lease.visited
        self.body_bytes = lease.body_bytes  # of the pages visited
        self.address: str | None = None
        self.address_clock: AddressClock | None = None

    @property
    def busy(self) -> int:
        """Turns at it that are not over."""
        return self.pace.busy

    @property
    def wants_turn(self) -> bool:
        return bool(self.waiters or self.hand) and not self.paused

    @property
    def costs_none(self) -> bool:
        """Did its URLs cost no contact when they were last judged? All were blocked."""
        return self.appetite > PREFETCH

    def name_of(self, url: str) -> str:
        """The host of a URL of its own: mostly the slot itself, by which others find quickly (a
        dict need not work out the hash of that string again, nor compare it)."""
        name = host_of(url)
        return self.slot if name == self.slot else name

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
            self.pace.slow_s = slow_s
        self.steered += 1
        self.pace.reckon()

    def rule(self, rules: PacingRules) -> None:
        """From now on by these rules, also for the rest that is under way."""
        self.pace.rules = rules
        self.steered += 1
        self.pace.reckon()

    # ------------------------------------------------------------ out of reach

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
            failures = known.failures + 1 if known else self.tried_before + 1
            self.tried_before = 0
        lost = OutOfReach(failures, now_s + retry_delay_s(failures), failure, now_s)
        self.out_of_reach[origin] = lost
        return lost

    def beyond_reach(self, origin: str, now_s: float) -> OutOfReach | None:
        """Why the origin may not be tried yet; None if it may."""
        lost = self.out_of_reach.get(origin)
        return lost if lost and lost.until_s > now_s else None

    # ------------------------------------------------------------ for the store

    def update(
        self, now_s: float, *, release: bool = False, put_off_s: float = NEVER
    ) -> HostUpdate:
        """What a commit says of it; takes the new contacts along. `put_off_s`: until then there is
        nothing to do at this host.
        """
        contacts, self.contacts_new = self.contacts_new, []
        failures = self.tried_before
        if self.out_of_reach:
            failures = max(lost.failures for lost in self.out_of_reach.values())
        return HostUpdate(
            slot=self.slot,
            epoch=self.epoch,
            clock=self.pace.clock(now_s, put_off_s=put_off_s, connect_failures=failures),
            contacts=contacts,
            release=release,
        )

    # ------------------------------------------------------------ its URLs

    def empty_hand(self) -> None:
        """Let go of the hand and of what is parked: those URLs stay queued in the store."""
        for dropped in (self.hand, *self.parked.values()):
            self.held.difference_update(queued.id for queued in dropped)
        self.hand.clear()
        self.parked.clear()

    def excuse(self, queued: Queued, failure: Failure) -> bool:
        """Take a URL back that was asked for in vain, for which neither it nor the host is charged.

        Where the host took a connection, the others of the hand are asked for first, and it is
        excused EXCUSES_MAX times at most (then False): a page that the host itself never answers
        is no outage, though it may look like one."""
        if not failure.connected or failure.stale or failure.ours is not HoldReason.NETWORK:
            self.hand.appendleft(queued)
            return True
        excused = self.excused.pop(queued.id, 0) + 1
        if excused > EXCUSES_MAX:
            return False
        self.excused = {id_: times for id_, times in self.excused.items() if id_ in self.held}
        self.excused[queued.id] = excused
        self.hand.append(queued)
        return True

    def let_go(self, origin: str) -> None:
        """Let go of the URLs of one origin that cannot move now."""
        gone = [queued for queued in self.hand if origin_of(queued.url) == origin]
        gone += self.parked.pop(origin, [])
        if gone:
            self.held.difference_update(queued.id for queued in gone)
            self.hand = deque(q for q in self.hand if q.id in self.held)


class AddressClock(Struct, eq=False, weakref=True):
    """The clock of one address, with `per = "ip"`: one contact at a time, each rested."""

    ready_s: float
    ended_s: float = NEVER  # its last contact
    busy: bool = False
    queue: dict[str, Host] = field(default_factory=dict)  # hosts that wait for it to be free


class Turn(Struct, eq=False):
    """The right to make one contact with one host now; `Turns.end` or `Turns.give_back` ends it."""

    host: Host
    follows_s: float  # end of the contact it follows
    allowed_s: float  # when it was first allowed to begin
    address_clock: AddressClock | None = None  # of the address it may contact, with `per = "ip"`
    over: bool = False
    could_s: float = NEVER  # when it could have begun: allowed, and wanted
    steered: int = 0  # as the host had it when the turn was given
    probe: bool = False  # given although the whole crawl is held, to see whether it still must be

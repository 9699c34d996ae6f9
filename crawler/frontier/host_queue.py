"""One leased host: its prefetched URLs, its pace, and the tickets waiting for a permit. No I/O.

All times are monotonic seconds unless a name says otherwise.
"""

from __future__ import annotations

import ipaddress
import logging
import math
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from crawler.config.units import format_duration
from crawler.fetching.request import Failure, Headers
from crawler.frontier.pace import NEVER, Pace
from policies.holds import HoldReason
from policies.pacing import PacingRules, address_delay_s
from policies.retries import FailureCode, retry_after_s, retry_delay_s
from policies.scope import Skip
from policies.url import host_of, origin_of, registrable_domain
from storage.store import Contact, HostUpdate, Lease, Outcome, Queued, Retry, Revisited, SitemapRead

if TYPE_CHECKING:
    from crawler.frontier.tickets import Ticket

PREFETCH = 16  # URLs prefetched for a host: memory is the number of leased hosts times this
LOW_WATER = 4  # prefetched URLs left when more are asked for: a commit is over before they are used
PREFETCH_MAX = 256  # while a host's URLs cost no request (all blocked): 10 ms of the loop's time

EXCUSES_MAX = 3  # per URL, for a missing answer that an outage was blamed for

_log = logging.getLogger("courtly.fetch")


class OutOfReach(Struct, eq=False):
    """An origin that could not be connected to. Kept per origin: a host may have a dead port beside
    a healthy one."""

    failures: int  # in a row
    until_s: float  # when it is tried again
    failure: Failure
    since_s: float  # when the last failure was known
    given_up: bool = False  # its queued URLs have failed; it is tried again for new URLs only


class HostQueue:
    """One leased host. Changed by the frontier, and by the worker that has one of its permits.

    `in_memory` are the ids of URLs taken from the store whose outcome is not committed yet.
    """

    __slots__ = (
        "address",
        "address_clock",
        "alarms",
        "all_known",
        "body_bytes",
        "callers",
        "closed",
        "contacts_new",
        "domain",
        "epoch",
        "excused",
        "failed_in_row",
        "full",
        "gone",
        "in_line",
        "in_memory",
        "lease_lost",
        "leased_s",
        "next_due_s",
        "ours",
        "out_of_reach",
        "outages",
        "pace",
        "pages_in_flight",
        "parked",
        "paused",
        "prefetch",
        "prefetched",
        "reached",
        "seat",
        "slot",
        "tickets",
        "tried_before",
        "unread",
        "used_s",
        "visited",
        "wanted_s",
        "wanting",
        "yields",
    )

    def __init__(
        self, lease: Lease, rules: PacingRules, *, now_s: float, restart_s: float | None = None
    ) -> None:
        self.slot = lease.slot
        self.epoch = lease.epoch
        self.pace = Pace(lease, rules, now_s=now_s, restart_s=restart_s)
        self.seat = 0  # the workbench's mark
        self.domain = registrable_domain(lease.slot)  # whose hosts share what it may use
        self.in_line = False  # ready, and waiting for a worker
        self.gone = False  # no longer leased
        self.lease_lost = False  # another worker may have leased it: nothing more is recorded of it
        self.leased_s = now_s
        self.full: Skip | None = None  # the limit on its pages or their bytes that it has reached
        self.prefetch = PREFETCH  # URLs to ask for the next time
        self.wanting = False  # more URLs have been asked for
        self.wanted_s: float | None = None  # since when it has wanted a permit
        self.prefetched: deque[Queued] = deque(lease.prefetched.urls)
        self.excused: dict[int, int] = {}  # URLs -> how often an outage was blamed for them
        self.in_memory: set[int] = {queued.id for queued in lease.prefetched.urls}
        self.parked: dict[str, list[Queued]] = {}  # by origin: waiting for its robots.txt
        self.closed: set[str] = set()  # origins whose URLs cannot be requested now
        self.next_due_s: float | None = None  # when its next URL falls due
        self.alarms: dict[str, int] = {}  # those set, by name; see `alarms.Alarms`
        self.tickets: deque[Ticket[Permit]] = deque()  # for this host alone: robots.txt, embedders
        self.callers = 0  # that use it, beside a crawl or alone: it is not released
        self.used_s = now_s  # when a caller last used it, or it was leased
        self.yields = False  # a caller had the last permit: prefetched URLs come next
        self.pages_in_flight = 0  # new ones: requested and not answered yet
        self.unread = 0  # pages fetched whose outcome is not recorded yet
        self.all_known = lease.robots_all  # every origin it has is in memory, or new
        self.paused = lease.paused
        self.out_of_reach: dict[str, OutOfReach] = {}  # by origin
        # It ever answered. Its latency does not say so: that of failures counts as well.
        self.reached = bool(lease.visited)
        self.ours = 0  # failures in a row that this machine caused
        self.outages = 0  # in a row, after whose end it did not answer either
        self.failed_in_row = 0  # tries of URLs since one was finished
        # Failed connections in a row, as stored: of some origin, which is not known.
        self.tried_before = lease.clock.connect_failures
        self.contacts_new: list[Contact] = []
        self.visited = lease.visited
        self.body_bytes = lease.body_bytes  # of the pages visited
        self.address: str | None = None  # that of `plain_address`, with `per = "ip"`
        self.address_clock: AddressClock | None = None

    @property
    def busy(self) -> int:
        """Open permits."""
        return self.pace.busy

    @property
    def wants_permit(self) -> bool:
        return bool(self.tickets or self.prefetched) and not self.paused

    @property
    def costs_nothing(self) -> bool:
        """Whether its URLs cost no request when they were last judged, because all were blocked."""
        return self.prefetch > PREFETCH

    def name_of(self, url: str) -> str:
        """The host of one of its URLs: the slot's own string where they are equal, whose hash is
        known already."""
        name = host_of(url)
        return self.slot if name == self.slot else name

    # ------------------------------------------------------------ steering

    def steer(
        self, *, paused: bool | None = None, slow_s: float | None = None, clear_slow: bool = False
    ) -> None:
        """Set the controls of `Store.set_controls`. A changed delay counts from the end of the last
        contact."""
        if paused is not None:
            self.paused = paused
        if slow_s is not None or clear_slow:
            self.pace.slow_s = slow_s
        self.pace.revision += 1
        self.pace.recompute()

    def rule(self, rules: PacingRules) -> None:
        """Apply other rules, also to the delay that is running."""
        self.pace.rules = rules
        self.pace.revision += 1
        self.pace.recompute()

    # ------------------------------------------------------------ out of reach

    def lost(
        self, origin: str, failure: Failure, *, now_s: float, failures: int | None = None
    ) -> OutOfReach:
        """No connection to the origin could be made: it is tried again later.

        `failures` in a row, this one included, if they are counted elsewhere (a redirect of
        robots.txt). A request that was already under way on another lane does not count as a
        further try: the existing record is returned unchanged.
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
        """Return why the origin may not be connected to yet; None if it may."""
        lost = self.out_of_reach.get(origin)
        return lost if lost and lost.until_s > now_s else None

    # ------------------------------------------------------------ for the store

    def update(
        self, now_s: float, *, release: bool = False, put_off_s: float = NEVER
    ) -> HostUpdate:
        """Return its row for the next commit, with the new contacts, which are then forgotten here.
        put_off_s: there is nothing to do at this host before."""
        contacts, self.contacts_new = self.contacts_new, []
        failures = self.tried_before
        if self.out_of_reach:
            # An address that the config forbids was never tried: that is no fault of the host.
            failures = max(
                0 if lost.failure.code is FailureCode.ADDRESS else lost.failures
                for lost in self.out_of_reach.values()
            )
        clock = self.pace.clock(now_s, put_off_s=put_off_s, connect_failures=failures)
        if self.address is not None:
            clock = structs.replace(
                clock,
                address=self.address,
                address_delay_s=address_delay_s(self.pace.rules, self.pace.ask),
            )
        return HostUpdate(
            slot=self.slot,
            epoch=self.epoch,
            clock=clock,
            contacts=contacts,
            release=release,
        )

    # ------------------------------------------------------------ its URLs

    def drop_prefetched(self) -> None:
        """Drop all URLs in memory; they stay queued in the store."""
        for dropped in (self.prefetched, *self.parked.values()):
            self.in_memory.difference_update(queued.id for queued in dropped)
        self.prefetched.clear()
        self.parked.clear()

    def excuse(self, queued: Queued, failure: Failure) -> bool:
        """Take a URL back whose request failed for a reason that is not charged to it or its host.

        Where the host took the connection, its other URLs are requested first, and the URL is
        excused at most EXCUSES_MAX times (then False): a page that the host never answers looks
        like an outage but is not one."""
        if not failure.connected or failure.stale or failure.ours is not HoldReason.NETWORK:
            self.prefetched.appendleft(queued)
            return True
        excused = self.excused.pop(queued.id, 0) + 1
        if excused > EXCUSES_MAX:
            return False
        self.excused = {id_: times for id_, times in self.excused.items() if id_ in self.in_memory}
        self.excused[queued.id] = excused
        self.prefetched.append(queued)
        return True

    def let_go(self, origin: str) -> None:
        """Drop the URLs of one origin, which cannot be requested now."""
        gone = [queued for queued in self.prefetched if origin_of(queued.url) == origin]
        gone += self.parked.pop(origin, [])
        if gone:
            self.in_memory.difference_update(queued.id for queued in gone)
            self.prefetched = deque(q for q in self.prefetched if q.id in self.in_memory)


def plain_address(address: str) -> str:
    """Return an address in its usual form, and an IPv4 address that is written as an IPv6 one
    (`::ffff:192.0.2.1`) as the former: it is the same machine."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


class AddressClock(Struct, eq=False, weakref=True):
    """The clock of one address, with `per = "ip"`: one contact at a time, a delay after each."""

    ready_s: float
    ended_s: float = NEVER  # its last contact
    busy: bool = False
    leased: bool = True  # by this worker; False: others may contact it
    leased_s: float = NEVER  # since when it is leased
    ask_s: float = NEVER  # when it is to be leased again, after other workers had it
    queue: dict[str, HostQueue] = field(default_factory=dict)  # hosts that wait until it is free


class Permit(Struct, eq=False):
    """Permission to send one request to one host now; `Permits.end` or `give_back` ends it."""

    host: HostQueue
    follows_s: float  # end of the contact it follows
    allowed_s: float  # from when on the request may begin
    address_clock: AddressClock | None = None  # of the address it is for, with `per = "ip"`
    over: bool = False
    unproven: bool = False  # once it is over: whether nobody measured the delay before it
    could_s: float = NEVER  # when it could have begun: allowed, and wanted
    revision: int = 0  # of the host's pace when the permit was granted
    probe: bool = False  # granted during a system hold, to find out whether it is over


def progresses(outcome: Outcome, host: HostQueue | None) -> bool:
    """Return whether a URL is finished, or was tried for the first time at a host that did not just
    fail.

    Another failure, of the same URL or the next one, is not progress: it must not keep a crawl from
    ending. Nor is a sitemap, which is read again each day; the pages that it lists are.
    """
    if isinstance(outcome, Retry):
        if host is None:
            return outcome.attempts + outcome.refusals <= 1
        host.failed_in_row += 1
        return host.failed_in_row == 1 and outcome.attempts + outcome.refusals <= 1
    if isinstance(outcome, Revisited) and outcome.plan and outcome.plan.failures:
        return False
    if host is not None:
        host.failed_in_row = 0
    return not isinstance(outcome, SitemapRead)


def requested_delay_s(host: HostQueue, headers: Headers, *, wall_s: float) -> float | None:
    """The longest Retry-After (RFC 9110, 10.2.3) of an answer, at most
    `politeness.max_retry_after`; None if it has no readable one. A longer one is logged. wall_s:
    now, in Unix seconds."""
    date = headers.get("Date")
    asked = [
        wait_s
        for value in headers.getall("Retry-After")
        if (wait_s := retry_after_s(value, now_s=wall_s, date=date, max_s=math.inf)) is not None
    ]
    if not asked:
        return None
    longest_s, most_s = max(asked), host.pace.rules.max_retry_after_s
    if longest_s > most_s:
        _log.warning(
            "%s asks for a pause of %s (Retry-After); politeness.max_retry_after allows %s",
            host.slot,
            format_duration(longest_s),
            format_duration(most_s),
        )
    return min(longest_s, most_s)

"""The frontier: receives events and decides what may happen next."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from crawler.clock import Clock, ContactDeadline
from crawler.config.model import CurrentConfig
from crawler.fetching.request import Answer, Failure
from crawler.frontier.alarms import Alarms
from crawler.frontier.commands import (
    ADD_WORKERS,
    BREAK_OFF,
    LOOK_FOR_WORK,
    CommandQueue,
    FailOrigin,
    Rejudge,
)
from crawler.frontier.commit_buffer import CommitBatch, CommitBuffer
from crawler.frontier.host_queue import HostQueue, Permit, progresses, requested_delay_s
from crawler.frontier.origin import Origin, RobotsInFlight, changes
from crawler.frontier.pace import NEVER
from crawler.frontier.permits import Permits
from crawler.frontier.robots_budget import RobotsBudget
from crawler.frontier.robots_cache import RobotsCache
from crawler.frontier.system_holds import LeaseExpiry, SystemHolds
from crawler.frontier.waiting import Waiting
from crawler.observer import Observer
from crawler.operator_commands import HostCommand, ResumeHosts
from policies.holds import FaultOwner, HoldReason
from policies.pacing import Per
from policies.retries import FailureCode, GiveUp, RetryRules, after_no_connection
from policies.robots_policy import Closed
from policies.robots_state import RobotsState
from policies.url import origin_of
from storage.store import (
    Completed,
    Glance,
    HostClock,
    HostUpdate,
    Lease,
    Outcome,
    Prefetched,
    Retry,
    Revisited,
    SitemapRead,
    Store,
    Visited,
)

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

PAGE: Final = "page"
ROBOTS: Final = "robots"
SITEMAP: Final = "sitemap"
REFUSALS: Final = frozenset({429, 503})

# The next commit is over by then: a host with a longer delay need not ask for URLs by itself.
COMMITTED_S: Final = 0.25
FEW_HOSTS: Final = 16  # they make few commits in any case, and the end of a crawl is seen sooner

DUE: Final = "its next URL falls due"  # names of alarms; the others are named by their origins
REVISIT: Final = "its next page is due again"

_ID: Final = operator.attrgetter("id")


class Frontier:
    """All live state of the leased hosts: their queues, permits, robots.txt, and why each waits.

    Crawls and sessions of callers drive it alike: they report events (a lease granted, a request
    ended, a commit made, robots.txt learned, time passed), ask for permits, and carry out the
    commands it puts in `commands`. Nothing here waits, and nothing outside changes a leased host's
    pace. Invariants:

    - A request needs a permit, and a permit is granted only when its host may be contacted.
    - A URL is requested only after `robots.check` passed it while its permit was open.
    - Each leased host is in `permits`; its origins in memory are in `robots`; both end together.
    - Whatever must survive a crash is in `buffer` or in the store.

    faults: who handles faults of this machine. With FaultOwner.CALLER, URLs come from callers as
    well, so none are prefetched.
    """

    def __init__(
        self,
        config: CurrentConfig,
        clock: Clock,
        store: Store,
        *,
        observer: Observer | None = None,
        sinks: Sinks | None = None,
        deadline: ContactDeadline | None = None,
        faults: FaultOwner = FaultOwner.CRAWL,
        referrers: bool = False,
    ) -> None:
        self._config = config
        self._clock = clock
        self._alarms = Alarms()
        self.faults = faults
        self.commands = CommandQueue()
        self.buffer = CommitBuffer(
            config, clock, self.commands, observer=observer, sinks=sinks, referrers=referrers
        )
        self.permits = Permits(
            clock,
            self.buffer,
            self.commands,
            limit=config.config.crawl.concurrency,
            shared=store.shared,
        )
        self.in_flight = RobotsInFlight(store)
        self.budget = RobotsBudget(config, clock, self.commands, self.permits.limits.load)
        self.robots = RobotsCache(
            config,
            clock,
            self.commands,
            self.in_flight,
            self.budget,
            keep_trying=faults is FaultOwner.CRAWL,
        )
        self.holds = SystemHolds(
            clock, self.permits, self.robots, self.commands, faults, observer=observer
        )
        self.deadline = deadline or ContactDeadline(clock)
        self.expiry = LeaseExpiry(clock, self.deadline, self.holds, self.commands)
        self.waiting = Waiting(clock, self.permits, self.robots)
        self.progress_s = clock.monotonic()  # when something was last committed
        self.claimable = True  # there may be hosts in the store to be claimed now
        self.stopping = False  # nothing new begins
        self.budget.idle = lambda: not (self.permits.pages_open or self.callers)
        self.callers = 0  # that fetch through a crawl now; it continues until they have left
        self.losses = 0  # how often all leases were lost
        # Nobody has contacted a host since then whose last worker did not release it; None: of a
        # shared store, whose workers may die at any time.
        self._restart_s = None if store.shared else clock.monotonic()
        # Orders that other workers gave before this have been carried out (monotonic).
        self.informed_s = math.inf
        if store.shared:
            self.deadline.begin()
            self.informed_s = NEVER

    # ------------------------------------------------------------ hosts

    def slot_of(self, host: str) -> str:
        """The slot whose queue a host's URLs are in."""
        return self._config.slot_of(host)

    def host_leased(self, lease: Lease) -> HostQueue:
        """Begin with a host that has just been leased."""
        politeness = self._config.config.site(lease.slot).politeness
        now_s = self._clock.monotonic()
        host = HostQueue(lease, politeness, now_s=now_s, restart_s=self._restart_s)
        self.robots.adopt(host, lease.robots, lease.robots_large)
        for origin in self.robots.of(host):
            if isinstance(origin.standing, Closed):
                host.closed.add(origin.name)
        self._plan_due(host, lease.prefetched)
        self.permits.register(host)
        if not host.prefetched and lease.prefetched.next_due_in_s is not None:
            self.want(host)
        return host

    def seen(self, slot: str, found: Glance | None) -> HostQueue:
        """Return a host that is not leased, as it is stored, to answer questions by. found: None
        for one that is unknown."""
        glance = found or Glance(clock=None)
        lease = Lease(
            slot=slot,
            epoch=0,
            clean=True,
            clock=glance.clock or HostClock(),
            paused=glance.paused,
            slow_s=glance.slow_s,
            visited=0,
            body_bytes=0,
            robots={},
            prefetched=Prefetched(urls=(), next_due_in_s=None),
            robots_all=False,  # the stored delay stands, whatever has asked for it
        )
        politeness = self._config.config.site(slot).politeness
        return HostQueue(lease, politeness, now_s=self._clock.monotonic())

    def drop(self, host: HostQueue) -> None:
        """The host is no longer leased."""
        host.drop_prefetched()
        self.permits.drop(host)
        self.robots.forget(host)

    def lose(self, host: HostQueue) -> None:
        """The lease of a host was lost: another worker may have it. What is in flight there is not
        recorded; its URLs are still queued."""
        host.lease_lost = True
        self.drop(host)

    def renewed(self, until_s: float, *, lost: bool = False) -> None:
        """The session was renewed: hosts may be contacted until then (`Clock.boottime`). lost: it
        had expired, and all leases with it."""
        if lost:
            self.losses += 1
            self.permits.lose_addresses()
            for host in list(self.permits):
                self.lose(host)
            self.commands.put(BREAK_OFF)
            self.may_claim()
        self.expiry.renewed(until_s)

    def return_leases(self, leases: Iterable[Lease]) -> None:
        """Return hosts that were leased while `renewed` reported a loss: they may be another
        worker's by now, or may have been leased after that."""
        now_s = self._clock.monotonic()
        for lease in leases:
            politeness = self._config.config.site(lease.slot).politeness
            self.buffer.return_lease(HostQueue(lease, politeness, now_s=now_s).update(now_s))

    def want(self, host: HostQueue) -> None:
        """Ask the store for more URLs of a host: soon if it would have to wait for them, else with
        the next commit."""
        revisits = self._config.config.revisits
        if self.stopping or host.gone or (host.full and not revisits):
            return
        if self.faults is FaultOwner.CRAWL:
            pressed = not host.prefetched and self._is_pressed(host)
            self.buffer.want(host, pressed=pressed)

    def ask_later(self, host: HostQueue, in_s: float) -> None:
        """Leave a host's URLs to the store, and ask for them again after `in_s`."""
        host.drop_prefetched()
        host.next_due_s = self._clock.monotonic() + in_s
        self._set_alarm(host, DUE, host.next_due_s)

    def _is_pressed(self, host: HostQueue) -> bool:
        """Whether a host without work now could be contacted before the next commit ends."""
        if len(self.permits) <= FEW_HOSTS:
            return True
        now_s = self._clock.monotonic()
        ready_s = host.pace.ready_s(now_s, self._clock.wall)
        if ready_s is None:  # a contact is open, and a delay follows it
            ready_s = now_s + host.pace.delay.delay_s
        return ready_s < now_s + COMMITTED_S

    def _plan_due(self, host: HostQueue, prefetched: Prefetched) -> None:
        """Set alarms for its next URL that falls due (a retry) and its next page to revisit, in
        case it has nothing else by then. A revisit does not keep a crawl running."""
        now_s = self._clock.monotonic()
        due_in_s, revisit_in_s = prefetched.next_due_in_s, prefetched.next_revisit_in_s
        host.next_due_s = now_s + due_in_s if due_in_s else None
        if host.next_due_s is not None or DUE in host.alarms:
            self._set_alarm(host, DUE, host.next_due_s)
        if revisit_in_s is not None or REVISIT in host.alarms:
            self._set_alarm(host, REVISIT, None if revisit_in_s is None else now_s + revisit_in_s)

    def _set_alarm(self, host: HostQueue, name: str, at_s: float | None) -> None:
        self._alarms.set(host.slot, host.alarms, name, at_s)
        if at_s is not None:
            self.commands.wake_by(at_s)

    def _on_alarm(self, host: HostQueue, name: str) -> None:
        if name == DUE and not host.prefetched:
            host.next_due_s = None
            self.want(host)
        elif name == REVISIT and not host.prefetched:
            self.want(host)
        elif name in host.out_of_reach:
            self.reopen(host, name)

    def steer(self, command: HostCommand) -> None:
        """Pause, slow or resume the leased hosts that the command names."""
        for slot in command.hosts:
            if (host := self.permits.hosts.get(slot)) is not None:
                host.steer(**command.setting)
                if isinstance(command, ResumeHosts):
                    self.try_again(host)
                self.permits.consider(host)
                self.buffer.touch(host)  # views show its delay, and its source

    # ------------------------------------------------------------ commits

    def committed(self, taken: CommitBatch, completed: Completed) -> None:
        """Apply a commit: outcomes are stored, and requested URLs have arrived."""
        unasked: dict[HostQueue, None] = {}
        progress = False
        hosts = self.permits.hosts
        for outcome in taken.outcomes:
            host = hosts.get(outcome.slot)
            if host is not None:
                host.in_memory.discard(outcome.id)
                again = isinstance(outcome, Retry) or (
                    outcome.slot not in completed.prefetched and _is_planned(outcome)
                )
                if again and not host.prefetched:
                    unasked[host] = None
            progress = progresses(outcome, host) or progress
        if completed.stale:
            self._lose_stale(taken.batch.hosts, completed.stale)
        for slot, hand in completed.prefetched.items():
            if (host := self.permits.hosts.get(slot)) is not None:
                host.wanting = False
                host.prefetched.extend(hand.urls)
                host.in_memory.update(map(_ID, hand.urls))
                self._plan_due(host, hand)
                if not host.in_line:
                    self.permits.consider(host)
        for host in unasked:
            if not host.prefetched:  # what it wanted before did not include the retry or revisit
                self.want(host)
        if progress:
            self.progress_s = self._clock.monotonic()
        self.links_added(completed)
        self.permits.advance()  # the buffer has room again
        if not self.permits.in_flight:
            self.look_for_work()

    def _lose_stale(self, updates: Iterable[HostUpdate], stale: Collection[str]) -> None:
        """These updates were refused. A host may have been leased again since they were taken."""
        for update in updates:
            host = self.permits.hosts.get(update.slot) if update.slot in stale else None
            if host is not None and host.epoch == update.epoch:
                self.lose(host)

    def links_added(self, completed: Completed) -> None:
        """Learn that URLs were queued, of leased hosts that may have been idle, or of others."""
        for slot in completed.added:
            host = self.permits.hosts.get(slot)
            if host is None:
                self.may_claim()
            elif not host.prefetched and not host.wanting:
                self.want(host)

    def may_claim(self) -> None:
        """Ask the scheduler to look for hosts in the store to be claimed."""
        self.claimable = True
        self.look_for_work()

    def look_for_work(self) -> None:
        """Have the scheduler look for hosts to claim, or for the end of the crawl. Where callers
        bring the URLs, there is nothing to look for."""
        if self.faults is FaultOwner.CRAWL:
            self.commands.put_once(LOOK_FOR_WORK)

    # ------------------------------------------------------------ requests

    def needs_address(self, permit: Permit) -> bool:
        """Return whether the address must be known first: its clock counts too, with
        `per = "ip"`."""
        return permit.host.pace.rules.per is Per.IP and permit.address_clock is None

    def learn(self, permit: Permit, result: Answer | Failure, *, kind: str) -> None:
        """Adapt the host's pace and reachability to the result of a request."""
        host = permit.host
        if isinstance(result, Failure) and not (result.connected and result.ours is None):
            self.connection_failed(host, origin_of(result.url), result)
        elif host.out_of_reach:
            host.out_of_reach.pop(origin_of(result.url), None)
        if host.address_clock and isinstance(result, Answer) and result.address:
            self.permits.set_address(host, result.address)  # the name may have moved
        status, headers = result.status, result.headers
        if status is None or headers is None:
            return
        # A 5xx for robots.txt without Retry-After does not make the host back off; 429 always does.
        refusal = status == 429 or (status in REFUSALS and kind != ROBOTS)
        asked_s = None
        if "Retry-After" in headers:
            asked_s = requested_delay_s(host, headers, wall_s=self._clock.wall())
        if asked_s is None and not refusal and isinstance(result, Failure):
            return  # its body did not arrive: it forgives nothing
        now_s = self._clock.monotonic()
        if refusal and kind == ROBOTS:
            host.failed_in_row += 1  # no try of a URL follows: it must not keep a crawl from ending
        if host.pace.answered(status, refusal=refusal, asked_s=asked_s, now_s=now_s):
            self.buffer.urgent(host)

    def request_ended(self, permit: Permit) -> None:
        """End the permit after its contact. If it shows that an origin can be reached after
        all (while a request on another lane could not connect), its URLs may be requested again."""
        host = permit.host
        self.buffer.contacted(host)
        if host.closed:
            for origin in host.closed - host.out_of_reach.keys():
                self.reopen(host, origin)

    def not_sent(self, host: HostQueue, failure: Failure, *, kind: str) -> None:
        """Learn that nothing was sent to the host, because of this machine or of our own rules."""
        if failure.ours is None or kind == ROBOTS or self.faults is FaultOwner.CRAWL:
            self.connection_failed(host, origin_of(failure.url), failure)

    def connection_failed(
        self, host: HostQueue, origin: str, failure: Failure, failures: int | None = None
    ) -> None:
        """No connection to an origin could be made: its URLs wait for the next try, and finally
        fail in bulk. failures: consecutive failures, if counted elsewhere."""
        if failure.ours is HoldReason.LEASES_EXPIRED:
            return
        if self.faults is FaultOwner.CALLER:
            self._fail_callers(host, origin, failure, failures)
            return
        if failure.ours is not None:
            if failure.ours is HoldReason.NETWORK:
                self._excuse_suspects()
            return
        known = host.out_of_reach.get(origin)
        lost = host.lost(origin, failure, now_s=self._clock.monotonic(), failures=failures)
        if lost is known:
            return
        host.closed.add(origin)
        self.holds.suspect(host, origin)
        self.buffer.urgent(host)
        fetch = self._config.config.site(host.slot).fetch
        rules = RetryRules(
            max_attempts=fetch.max_attempts, unreachable_for_s=fetch.unreachable_for_s
        )
        permanent = failure.permanent
        if permanent and failure.code is FailureCode.DNS:
            # A name that answered before may be back; a new one is looked up twice, because some
            # resolvers deny all names while the network is down.
            asked = self.robots.get(origin)
            answered = asked is not None and asked.access.fetched_at is not None
            permanent = known is not None and not answered
        fate = after_no_connection(lost.failures - 1, rules, permanent=permanent)
        since_s = lost.since_s if known is None else known.since_s
        certain = failure.code is FailureCode.ADDRESS or self.holds.may_give_up(since_s)
        # The last page of a link check may link to several dead hosts, after which nobody answers.
        # Without an outage, they are its result.
        if self._config.config.site(host.slot).scope.check_external and not self.holds.connecting:
            certain = True
        self._set_alarm(host, origin, lost.until_s)
        if isinstance(fate, GiveUp) and certain:
            lost.given_up = True
            self.commands.put(FailOrigin(host, origin, failure.error, fate.attempts))

    def _fail_callers(
        self, host: HostQueue, origin: str, failure: Failure, failures: int | None
    ) -> None:
        """Give the origin up for now after `max_attempts` failures, and immediately when no other
        try can help or the fault is this machine's, which is not charged to the host."""
        lost = host.lost(origin, failure, now_s=self._clock.monotonic(), failures=failures)
        rules = RetryRules(max_attempts=self._config.config.site(host.slot).fetch.max_attempts)
        permanent = failure.permanent or failure.ours is not None
        fate = after_no_connection(lost.failures - 1, rules, permanent=permanent)
        if failure.ours is not None:
            lost.failures -= 1
        self.buffer.urgent(host)
        if isinstance(fate, GiveUp):
            lost.given_up = True
            self.commands.put(FailOrigin(host, origin, failure.error, fate.attempts))

    def _excuse_suspects(self) -> None:
        """Origins that could not be connected to since a host last answered are tried again when
        the network is back, and this try does not count."""
        suspects, self.holds.suspects = self.holds.suspects, []
        for slot, origin in suspects:
            host = self.permits.hosts.get(slot)
            lost = None if host is None else host.out_of_reach.get(origin)
            if host is None or lost is None or lost.given_up:
                continue
            lost.failures -= 1
            if lost.failures > 0:
                lost.until_s = self._clock.monotonic()
            else:
                del host.out_of_reach[origin]
            self._set_alarm(host, origin, None)
            self.reopen(host, origin)

    def try_again(self, host: HostQueue) -> None:
        """Origins that could not be connected to need not wait for their next attempt."""
        for origin, lost in host.out_of_reach.items():
            if not lost.given_up:
                lost.until_s = self._clock.monotonic()
                self._set_alarm(host, origin, None)
                self.reopen(host, origin)

    def reopen(self, host: HostQueue, origin: str) -> None:
        """Let the URLs of an origin be requested again, unless its robots.txt closes it."""
        known = self.robots.get(origin)
        if not host.gone and (known is None or not isinstance(known.standing, Closed)):
            host.closed.discard(origin)
            self.want(host)

    def page_waits(self) -> None:
        """A worker is about to wait with the page that it fetched."""
        self.commands.put_once(ADD_WORKERS)

    # ------------------------------------------------------------ robots.txt

    def robots_settled(self, origin: Origin) -> None:
        """A robots.txt was fetched or parsed: URLs that waited for it may be requested, or wait for
        the origin to reopen."""
        self.robots.settled(origin)
        host = origin.host
        lost = host.beyond_reach(origin.name, self._clock.monotonic())
        if lost is not None or isinstance(origin.standing, Closed):
            host.closed.add(origin.name)
            host.let_go(origin.name)
        else:
            host.closed.discard(origin.name)
            host.prefetched.extendleft(reversed(host.parked.pop(origin.name, [])))
        if not host.prefetched:
            self.want(host)
        self.permits.consider(host)
        self.look_for_work()

    def robots_learned(self, origin: Origin, previous: RobotsState) -> None:
        """Apply a new state of an origin's robots.txt after its commit."""
        if changes(previous, origin.access):
            self.commands.put(Rejudge(origin.name))

    def page_came_late(self, name: str) -> None:
        """Handle a page fetched while robots.txt was unavailable: it may have arrived since."""
        origin = self.robots.get(name)
        if origin is not None and origin.answered and not origin.busy:
            self.commands.put(Rejudge(name))

    # ------------------------------------------------------------ time

    def advance(self) -> None:
        """Time has passed: do what is due."""
        now_s = self._clock.monotonic()
        for slot, name in self._alarms.take_due(now_s):
            if (host := self.permits.hosts.get(slot)) is not None:
                self._on_alarm(host, name)
        self.buffer.advance(now_s)
        self.robots.advance(now_s)
        self.budget.advance(now_s)
        self.holds.advance(now_s)
        self.expiry.advance(now_s)
        at_s = self.permits.wake_at()
        if at_s is not None and at_s <= now_s:
            self.permits.advance()

    def next_wake_s(self) -> float | None:
        """Return when `advance` must be called (monotonic); None: not before something happens."""
        parts = (
            self._alarms, self.buffer, self.robots, self.budget, self.holds, self.expiry,
            self.permits,
        )  # fmt: skip
        return min((at_s for part in parts if (at_s := part.wake_at()) is not None), default=None)

    def next_pass(self) -> None:
        """The event loop has run once since the command NextPass."""
        self.holds.next_pass()
        self.permits.next_pass()

    def close(self) -> None:
        """Begin nothing new; work under way continues."""
        self.stopping = True
        self.permits.close()
        self.holds.close()
        self.robots.close()


def _is_planned(outcome: Outcome) -> bool:
    """Whether its URL will be visited again."""
    return isinstance(outcome, Visited | Revisited | SitemapRead) and outcome.plan is not None

"""What commits, contacts and robots.txt bring moves the hosts of a crawl on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.engine.course import Course
from crawler.engine.due import Due
from crawler.engine.holdings import Holdings
from crawler.engine.rates import Rates
from crawler.engine.rejudge import Rejudge
from crawler.fetching.request import Failure
from crawler.observer import Observer
from crawler.politeness.gate import Gate
from crawler.politeness.holds import Holds
from crawler.politeness.host import Host
from crawler.politeness.origin import Origin, changes
from crawler.politeness.turns import Turns
from crawler.visiting.ledger import Ledger
from policies.holds import HoldReason
from policies.retries import FailureCode, GiveUp, RetryRules, after_no_connection
from policies.robots_policy import Closed
from policies.robots_state import RobotsState
from storage.store import Completed, Outcome, Retry, Revisited, Store, Visited


class Moves:
    """Is told what happened, by the parts of a crawl that do not know each other. Those that are
    made with its methods are given to it by `join`, before anything runs."""

    _ledger: Ledger
    _gate: Gate
    _holdings: Holdings
    _due: Due
    _rejudge: Rejudge

    def __init__(
        self,
        effective: CurrentConfig,
        *,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        turns: Turns,
        holds: Holds,
        rates: Rates,
        observer: Observer | None,
        spawn: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self._effective = effective
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._turns = turns
        self._holds = holds
        self._rates = rates
        self._observer = observer
        self._spawn = spawn

    def join(
        self, *, ledger: Ledger, gate: Gate, holdings: Holdings, due: Due, rejudge: Rejudge
    ) -> None:
        self._ledger = ledger
        self._gate = gate
        self._holdings = holdings
        self._due = due
        self._rejudge = rejudge

    def committed(self, outcomes: list[Outcome], completed: Completed) -> None:
        """What was recorded is in the store; hands that were asked for have come."""
        retried: set[Host] = set()
        pages, body_bytes = 0, 0
        progress = False
        for outcome in outcomes:
            host = self._turns.get(outcome.slot)
            if host is not None:
                host.held.discard(outcome.id)
                if isinstance(outcome, Retry) and not host.hand:
                    retried.add(host)
            progress = progresses(outcome, host) or progress
            if isinstance(outcome, Visited):
                pages += 1
                body_bytes += outcome.body_bytes
            elif isinstance(outcome, Revisited) and outcome.plan and not outcome.plan.failures:
                pages += 1  # it was answered, and said nothing new: what it cost counts as well
        if pages:
            self._rates.add(self._clock.monotonic(), pages, body_bytes)
        for slot in completed.stale:
            if (host := self._turns.get(slot)) is not None:
                host.empty_hand()
                self._turns.drop(host)
                self._gate.forget(host)
        for slot, hand in completed.prefetched.items():
            if (host := self._turns.get(slot)) is not None:
                host.wanting = False
                host.hand.extend(hand.urls)
                host.held.update(queued.id for queued in hand.urls)
                self._holdings.plan_due(host, hand)
                self._turns.consider(host)
        for host in retried:
            if not host.hand:  # what it wanted before did not know of the retry yet
                self._ledger.want(host)
        if progress:
            self._course.moved_s = self._clock.monotonic()
        self.added(completed)
        if not self._turns.in_flight:
            self._course.stir.set()

    def added(self, completed: Completed) -> None:
        """URLs were queued: of held hosts, which may have been idle, or of hosts to be claimed."""
        for slot in completed.added:
            host = self._turns.get(slot)
            if host is None:
                self._course.may_claim = True
                self._course.stir.set()
            elif not host.hand and not host.wanting:
                self._ledger.want(host)

    def not_connected(
        self, host: Host, origin: str, failure: Failure, failures: int | None = None
    ) -> None:
        """An origin is out of reach: its URLs wait on the retry clock, and fail in bulk at last.
        Where that is trouble of our own, it is not; nor are those met since a host answered."""
        if failure.ours is not None:
            if failure.ours is HoldReason.NETWORK:
                self._excuse_suspects()
            return
        known = host.out_of_reach.get(origin)
        lost = host.lost(origin, failure, now_s=self._clock.monotonic(), failures=failures)
        if lost is known:
            return
        host.closed.add(origin)
        self._holds.suspect(host, origin)
        self._ledger.urgent(host)
        fetch = self._effective.config.site(host.slot).fetch
        rules = RetryRules(
            max_attempts=fetch.max_attempts, unreachable_for_s=fetch.unreachable_for_s
        )
        permanent = failure.permanent
        if permanent and failure.code is FailureCode.DNS:
            # A name that answered before may be back; a new one is looked up twice, for some
            # resolvers deny all names while the network is out.
            asked = self._gate.origin(origin)
            answered = asked is not None and asked.access.fetched_at is not None
            permanent = known is not None and not answered
        fate = after_no_connection(lost.failures - 1, rules, permanent=permanent)
        since_s = lost.since_s if known is None else known.since_s
        certain = failure.code is FailureCode.ADDRESS or self._holds.may_give_up(since_s)

        def reopen() -> None:
            if host.out_of_reach.get(origin) is lost:
                self.reopen(host, origin)

        host.set_timer(origin, self._clock.call_at(lost.until_s, reopen))
        if isinstance(fate, GiveUp) and certain:
            lost.given_up = True
            self._spawn(self._fail_origin(host, origin, failure.error, fate.attempts))

    def _excuse_suspects(self) -> None:
        """What could not be connected to since a host answered is tried again when the network is
        back, and counts for nothing."""
        suspects, self._holds.suspects = self._holds.suspects, []
        for slot, origin in suspects:
            host = self._turns.get(slot)
            lost = None if host is None else host.out_of_reach.get(origin)
            if host is None or lost is None or lost.given_up:
                continue
            lost.failures -= 1
            if lost.failures > 0:
                lost.until_s = self._clock.monotonic()
            else:
                del host.out_of_reach[origin]
            host.set_timer(origin, None)
            self.reopen(host, origin)

    def contacted(self, host: Host) -> None:
        """A contact is over. If it shows an origin to be in reach after all (on several lanes, one
        that was under way when another could not connect), that one's URLs move again."""
        self._ledger.contacted(host)
        if host.closed:
            for origin in host.closed - host.out_of_reach.keys():
                self.reopen(host, origin)

    def reopen(self, host: Host, origin: str) -> None:
        known = self._gate.origin(origin)
        if not host.gone and (known is None or not isinstance(known.standing, Closed)):
            host.closed.discard(origin)
            self._ledger.want(host)

    async def _fail_origin(self, host: Host, origin: str, error: str, attempts: int) -> None:
        """Its queued URLs fail in bulk; new ones will have it tried again, on the retry clock."""
        await self._ledger.flush()
        host.let_go(origin)
        if not host.gone:
            count = await self._store.fail_host(
                self._session,
                host.update(self._clock.monotonic()),
                error=error,
                attempts=attempts,
                last_at=self._clock.wall(),
                origin=origin,
            )
            if self._observer is not None:
                self._observer.gave_up(host.slot, origin, error, count)
            host.next_due_s = None
            self._ledger.want(host)

    def settled(self, origin: Origin) -> None:
        """A robots fetch has ended: what waited for it moves, or is closed."""
        host = origin.host
        self._due.settled(origin)
        lost = host.beyond_reach(origin.name, self._clock.monotonic())
        if lost is not None or isinstance(origin.standing, Closed):
            host.closed.add(origin.name)
            host.let_go(origin.name)
        else:
            host.closed.discard(origin.name)
            host.hand.extendleft(reversed(host.parked.pop(origin.name, [])))
        if not host.gone and not host.hand and not self._course.stopping:
            self._ledger.want(host)
        self._turns.consider(host)
        self._course.stir.set()

    def reread(self, origin: Origin) -> None:
        """The config reads an origin's robots.txt otherwise: its URLs may move, or may not."""
        if origin.task is None:
            self.settled(origin)
        if self._rejudge.runs(origin.name):
            self._spawn(self._rejudge.all(origin.name))

    def robots_changed(self, origin: Origin, previous: RobotsState) -> None:
        """What is known of an origin's robots.txt is new."""
        if changes(previous, origin.access):
            self._spawn(self._rejudge.all(origin.name))

    def came_late(self, name: str) -> None:
        """A page was fetched for lack of an answer. Has one come meanwhile?"""
        origin = self._gate.origin(name)
        if origin is not None and origin.answered and origin.task is None:
            self._spawn(self._rejudge.all(name))


def progresses(outcome: Outcome, host: Host | None) -> bool:
    """Whether a URL is done with, or was tried for the first time at a host that did not just fail.

    Failing once more is no progress, with the same URL or with the next one: neither keeps a crawl
    from its end.
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
    return True

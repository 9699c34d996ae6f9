"""One crawl, put together: workers spend turns; what commits, contacts and robots.txt bring moves
the hosts on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from crawler.clock import Clock
from crawler.config import Config, ConfigError
from crawler.contact import Contacts
from crawler.course import Course
from crawler.due import Due
from crawler.effective import Effective
from crawler.ending import Ending
from crawler.fetcher import Failure, Fetcher
from crawler.gate import Gate
from crawler.handover import Handover
from crawler.holdings import Holdings
from crawler.host import Host
from crawler.keeper import Keeper
from crawler.known import Known
from crawler.ledger import Ledger
from crawler.marked import Marked
from crawler.observer import Observer
from crawler.origin import Origin, changes
from crawler.plans import Planner
from crawler.rates import Rates
from crawler.rejudge import Rejudge
from crawler.revisits import Revisits
from crawler.sitemaps import Sitemaps
from crawler.steering import Steering
from crawler.turns import Turns
from crawler.visit import Budget, Visitor
from policies.access import Access, Closed, RobotsRules
from policies.retry import GiveUp, RetryRules, after_no_connection
from policies.scope import Scope, ScopeRules
from storage.base import Completed, Link, Outcome, Retry, Revisited, Store, Visited

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

WAITING_PAGES_MAX = 2_048  # pages that wait to be read while others are fetched
LEAVE_S = 2.0  # for the last commit when told to leave at once

_T = TypeVar("_T")


class Engine:
    """One crawl over one store. `run` returns when no URL can move within the patience, when the
    page budget is spent, or when `stop` is called; with `forever` only for the last of these. All
    hosts are then released and committed."""

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        fetcher: Fetcher,
        handover: Handover | None = None,
        forever: bool = False,
        observer: Observer | None = None,
        sinks: Sinks | None = None,
    ) -> None:
        self.effective = Effective(config)
        self._observer = observer
        self._sinks = sinks
        self._store = store
        self._session = session
        self._clock = clock
        self.course = Course(moved_s=clock.monotonic())
        self.scope = Scope(self._scope_rules, max_depth=config.crawl.max_depth)
        self.turns = Turns(clock, limit=config.crawl.concurrency)
        self.ledger = Ledger(
            store,
            session,
            clock,
            self.turns,
            committed=self._on_commit,
            observer=observer,
            sinks=sinks,
            revisits=lambda: self.effective.config.revisits,
        )
        self.contacts = Contacts(
            clock,
            self.turns,
            fetcher,
            not_connected=self._on_no_connection,
            backed_off=self.ledger.urgent,
            contacted=self._on_contact,
            observer=observer,
        )
        self._sitemaps = Sitemaps(
            self.effective,
            clock=clock,
            scope=self.scope,
            skip=self.ledger.skip,
            add=self._add_listed,
        )
        self.gate = Gate(
            clock=clock,
            turns=self.turns,
            contacts=self.contacts,
            store=store,
            session=session,
            spawn=self._spawn,
            hold=self._hold,
            rules_of=self._robots_rules,
            slot_of=self._slot_of,
            lost=self._on_no_connection,
            changed=self._on_robots,
            settled=self._on_settled,
            sitemaps=self._sitemaps.named,
            added=self._on_added,
        )
        self._rejudge = Rejudge(
            store=store,
            session=session,
            clock=clock,
            ledger=self.ledger,
            gate=self.gate,
            added=self._on_added,
            sinks=sinks,
        )
        self.ending = Ending(clock, self.turns, self.gate)
        self.holdings = Holdings(
            self.effective,
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            turns=self.turns,
            gate=self.gate,
            ledger=self.ledger,
            rejudge=self._rejudge,
            ending=self.ending,
            handover=handover,
        )
        self._due = Due(
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            turns=self.turns,
            gate=self.gate,
            holdings=self.holdings,
            ending=self.ending,
        )
        self._planner = Planner(self.effective, clock)
        self._revisits = Revisits(
            self.effective,
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            holdings=self.holdings,
            ledger=self.ledger,
            planner=self._planner,
        )
        self._keeper = Keeper(
            patience_s=config.crawl.patience_s,
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            turns=self.turns,
            ledger=self.ledger,
            holdings=self.holdings,
            due=self._due,
            revisits=self._revisits,
            ending=self.ending,
            handover=handover,
            jobs=lambda: len(self._jobs) + self._visitor.unread,
            forever=forever,
        )
        self._budget = Budget(limit=config.crawl.max_pages)
        self._known = Known()
        self._visitor = Visitor(
            effective=self.effective,
            clock=clock,
            turns=self.turns,
            contacts=self.contacts,
            gate=self.gate,
            ledger=self.ledger,
            scope=self.scope,
            budget=self._budget,
            known=self._known,
            sitemaps=self._sitemaps,
            planner=self._planner,
            late=self._on_ungoverned,
            waits=self._staff,
            handover=handover,
            sinks=sinks,
        )
        self._marked = Marked(
            store=store,
            session=session,
            course=self.course,
            gate=self.gate,
            ledger=self.ledger,
            holdings=self.holdings,
            rejudge=self._rejudge,
            spawn=self._spawn,
        )
        self.steering = Steering(
            self.effective,
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            turns=self.turns,
            gate=self.gate,
            ledger=self.ledger,
            holdings=self.holdings,
            keeper=self._keeper,
            scope=self.scope,
            budget=self._budget,
            known=self._known,
            marked=self._marked,
            reopen=self._reopen,
            reread=self._on_reread,
            staff=self._reloaded,
        )
        self._beside_max = 0 if handover else WAITING_PAGES_MAX
        self._group: asyncio.TaskGroup | None = None
        self._jobs: set[asyncio.Task[Any]] = set()
        self._workers: list[asyncio.Task[None]] = []
        self.pages = 0  # visited in this run
        self.bytes = 0
        self.rates = Rates(clock.monotonic())

    def pages_max(self, host: str) -> float:
        """How many pages of this host may be visited."""
        return self.effective.config.site(host).scope.max_pages_per_host

    @property
    def waiting(self) -> Mapping[str, tuple[float | None, str]]:
        """At the end: hosts that still have URLs -> until (Unix seconds, or None), and why."""
        return self.course.waiting

    def _robots_rules(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        config = self.effective.config
        return config.site(host).robots, config.token(host)

    def _scope_rules(self, host: str) -> ScopeRules:
        return self.effective.config.site(host).scope

    def _slot_of(self, host: str) -> str:
        return self.effective.config.slot_of(host)

    async def _hold(self, slot: str) -> Host | None:
        return await self.holdings.hold(slot)

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """To the end. Cancelled, it leaves at once; what is recorded is committed all the same."""
        try:
            await self._run()
        except asyncio.CancelledError:
            if self._sinks is not None:
                self._sinks.hurry()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.ledger.commit()
            raise

    async def _run(self) -> None:
        async for urls in self._store.seeds():
            for url in urls:
                self.scope.add_root(url)
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await self._crawl(group)
            finally:
                self._close()  # before the group waits for its tasks: no timer may add another

    async def _crawl(self, group: asyncio.TaskGroup) -> None:
        committer = group.create_task(self.ledger.run())
        self._staff()
        if self._budget.left < 1:  # max_pages = 0
            self.turns.open_pages(open_=False)
        self._marked.start()
        self._plan_late()
        await self._keeper.keep()
        self._keeper.note_waiting()
        self._close()
        await asyncio.gather(*self._workers)
        while self._jobs:
            await asyncio.wait(self._jobs)
        self._keeper.note_waiting()
        await self.holdings.release_all()
        committer.cancel()

    def _plan_late(self) -> None:
        """Plan for the pages visited before anybody wanted to come back."""
        if self._revisits.on and self._group is not None and not self.course.stopping:
            self._spawn(self._revisits.plan())

    def _reloaded(self) -> None:
        self._staff()
        self._plan_late()

    def _staff(self) -> None:
        """Workers for as many turns as may be in flight, beside those whose page waits to be read;
        those too many find no turns. Who reads the pages of a handover is promised `concurrency` of
        them in memory at most.
        """
        beside = min(self._visitor.unread, self._beside_max)
        wanted = self.effective.config.crawl.concurrency + beside
        if len(self._workers) >= wanted or self._group is None or self.course.stopping:
            return
        for _ in range(wanted - len(self._workers)):
            self._workers.append(self._group.create_task(self._work()))

    def _close(self) -> None:
        """Nothing begins any more; what is in flight runs on."""
        self.course.stopping = True
        self.turns.close()
        self.gate.close()
        self._keeper.close()

    @property
    def under_way(self) -> bool:
        """Whether something may be begun: it runs, and has not been told to stop."""
        return self._group is not None and not self.course.stopping

    def stop(self) -> None:
        """Finish what is in flight, commit, release; `run` returns."""
        self.course.stopping = True
        self.course.stir.set()

    async def whole(self, work: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """Do it to its end, also when who asked for it is cancelled: what is in the store and what
        is obeyed must not part. ConfigError and LookupError are the asker's; any other ends the
        crawl."""
        if self._group is None or self.course.stopping:
            return await work()

        async def told() -> _T | ConfigError | LookupError:
            try:
                return await work()
            except (ConfigError, LookupError) as refusal:
                return refusal

        task = self._group.create_task(told())
        self._jobs.add(task)
        task.add_done_callback(self._on_job)
        result = await asyncio.shield(task)
        if isinstance(result, ConfigError | LookupError):
            raise result
        return result

    async def add(self, seeds: Sequence[Link]) -> int:
        """Queue seeds, also while it runs; give how many URLs were new."""
        completed = await self._store.add(seeds)
        for link in seeds:
            self.scope.add_root(link.url)
        self._known.clear()  # what was out of scope may now be in it
        self._on_added(completed)
        self.course.moved_s = self._clock.monotonic()
        self.course.idle = False
        return sum(completed.added.values())

    async def _add_listed(self, links: Sequence[Link], referrer: int) -> Completed:
        """Queue what a sitemap lists; committed when this returns."""
        completed = await self._store.add(links, referrer=referrer)
        self._on_added(completed)
        return completed

    async def _work(self) -> None:
        while turn := await self.turns.next():
            await self._visitor.spend(turn)
            full = turn.host.full and not (turn.host.busy or turn.host.unread)
            if full and not self.effective.config.revisits:
                self.holdings.put_away(turn.host)
            if not self.turns.in_flight:
                self.course.stir.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._group is not None
        task = self._group.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._on_job)
        return task

    def _on_job(self, task: asyncio.Task[Any]) -> None:
        self._jobs.discard(task)
        self.course.stir.set()

    # ------------------------------------------------------------ what happens

    def _on_commit(self, outcomes: list[Outcome], completed: Completed) -> None:
        retried: set[Host] = set()
        pages, body_bytes = 0, 0
        for outcome in outcomes:
            host = self.turns.get(outcome.slot)
            if host is not None:
                host.held.discard(outcome.id)
                if isinstance(outcome, Retry) and not host.hand:
                    retried.add(host)
            if isinstance(outcome, Visited):
                pages += 1
                body_bytes += outcome.body_bytes
            elif isinstance(outcome, Revisited) and outcome.plan and not outcome.plan.failures:
                pages += 1  # it was answered, and said nothing new: what it cost counts as well
        if pages:
            self.pages += pages
            self.bytes += body_bytes
            self.rates.add(self._clock.monotonic(), pages, body_bytes)
        for slot in completed.stale:
            if (host := self.turns.get(slot)) is not None:
                host.empty_hand()
                self.turns.drop(host)
                self.gate.forget(host)
        for slot, hand in completed.hands.items():
            if (host := self.turns.get(slot)) is not None:
                host.wanting = False
                host.hand.extend(hand.urls)
                host.held.update(queued.id for queued in hand.urls)
                self.holdings.plan_due(host, hand)
                self.turns.consider(host)
        for host in retried:
            if not host.hand:  # what it wanted before did not know of the retry yet
                self.ledger.want(host)
        if outcomes:
            self.course.moved_s = self._clock.monotonic()
        self._on_added(completed)
        if not self.turns.in_flight:
            self.course.stir.set()

    def _on_added(self, completed: Completed) -> None:
        """URLs were queued: of held hosts, which may have been idle, or of hosts to be claimed."""
        for slot in completed.added:
            host = self.turns.get(slot)
            if host is None:
                self.course.may_claim = True
                self.course.stir.set()
            elif not host.hand and not host.wanting:
                self.ledger.want(host)

    def _on_no_connection(
        self, host: Host, origin: str, failure: Failure, failures: int | None = None
    ) -> None:
        """An origin is out of reach: its URLs wait on the retry clock, and fail in bulk at last."""
        known = host.out_of_reach.get(origin)
        lost = host.lost(origin, failure, now_s=self._clock.monotonic(), failures=failures)
        if lost is known:
            return
        host.closed.add(origin)
        self.ledger.urgent(host)
        rules = RetryRules(max_attempts=self.effective.config.site(host.slot).fetch.max_attempts)
        fate = after_no_connection(lost.failures - 1, rules, permanent=failure.permanent)

        def reopen() -> None:
            if host.out_of_reach.get(origin) is lost:
                self._reopen(host, origin)

        host.set_timer(origin, self._clock.call_at(lost.until_s, reopen))
        if isinstance(fate, GiveUp):
            lost.given_up = True
            self._spawn(self._fail_origin(host, origin, failure.error, fate.attempts))

    def _on_contact(self, host: Host) -> None:
        """A contact is over. If it shows an origin to be in reach after all (on several lanes, one
        that was under way when another could not connect), that one's URLs move again."""
        self.ledger.touch(host)
        if host.closed:
            for origin in host.closed - host.out_of_reach.keys():
                self._reopen(host, origin)

    def _reopen(self, host: Host, origin: str) -> None:
        known = self.gate.origin(origin)
        if not host.gone and (known is None or not isinstance(known.standing, Closed)):
            host.closed.discard(origin)
            self.ledger.want(host)

    async def _fail_origin(self, host: Host, origin: str, error: str, attempts: int) -> None:
        """Its queued URLs fail in bulk; new ones will have it tried again, on the retry clock."""
        await self.ledger.flush()
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
            self.ledger.want(host)

    def _on_settled(self, origin: Origin) -> None:
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
        if not host.gone and not host.hand and not self.course.stopping:
            self.ledger.want(host)
        self.turns.consider(host)
        self.course.stir.set()

    def _on_reread(self, origin: Origin) -> None:
        """The config reads an origin's robots.txt otherwise: its URLs may move, or may not."""
        if origin.task is None:
            self._on_settled(origin)
        if self._rejudge.runs(origin.name):
            self._spawn(self._rejudge.all(origin.name))

    def _on_robots(self, origin: Origin, previous: Access) -> None:
        """What is known of an origin's robots.txt is new."""
        if changes(previous, origin.access):
            self._spawn(self._rejudge.all(origin.name))

    def _on_ungoverned(self, name: str) -> None:
        """A page was fetched for lack of an answer. Has one come meanwhile?"""
        origin = self.gate.origin(name)
        if origin is not None and origin.answered and origin.task is None:
            self._spawn(self._rejudge.all(name))

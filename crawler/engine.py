"""The loop: claim hosts, let workers spend their turns, commit, and know when nothing can move."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Coroutine

from crawler.clock import Clock
from crawler.config import Config
from crawler.contact import Contacts
from crawler.fetcher import Failure, Fetcher
from crawler.gate import Gate, Origin
from crawler.host import PREFETCH, Host
from crawler.known import Known
from crawler.ledger import Ledger
from crawler.rejudge import Rejudge
from crawler.turns import Turns
from crawler.visit import Budget, Visitor
from policies.access import Access, Closed, RobotsRules
from policies.pacing import Per
from policies.retry import GiveUp, RetryRules, after_no_connection
from policies.scope import Scope
from policies.url import slot_of
from storage.base import Completed, Hand, Lease, Outcome, Retry, Store, Visited

HOSTS_HELD_MAX = 4_096  # hosts in memory; all others are on disk (law 7)
CLAIM_HOSTS = 256  # leased in one transaction
RELEASE_WAIT_S = 10.0  # when there is no room: hosts that wait longer make place for others
LOOK_EVERY_S = 0.25  # how often, at most, all held hosts are looked over
LEAVE_S = 2.0  # for the last commit when told to leave at once
DUE_ORIGINS_MAX = 256  # robots.txt that fell due without a URL, taken up at once


class Engine:
    """One crawl over one store. `run` returns when no URL can move within the patience, when the
    page budget is spent, or when `stop` is called; all hosts are then released and committed."""

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        fetcher: Fetcher,
    ) -> None:
        self._config = config
        self._store = store
        self._session = session
        self._clock = clock
        self.scope = Scope(lambda host: config.site(host).scope, max_depth=config.crawl.max_depth)
        self.turns = Turns(clock, limit=config.crawl.concurrency)
        self.ledger = Ledger(store, session, clock, self.turns, committed=self._on_commit)
        self.contacts = Contacts(
            clock,
            self.turns,
            fetcher,
            not_connected=self._on_no_connection,
            backed_off=self.ledger.urgent,
        )
        self.gate = Gate(
            clock=clock,
            turns=self.turns,
            contacts=self.contacts,
            store=store,
            session=session,
            spawn=self._spawn,
            hold=self.hold,
            rules_of=self._robots_rules,
            slot_of=self._slot_of,
            changed=self._on_robots,
            settled=self._on_settled,
        )
        self.rejudge = Rejudge(
            store=store,
            session=session,
            clock=clock,
            ledger=self.ledger,
            gate=self.gate,
            added=self._on_added,
        )
        self._budget = Budget(left=config.crawl.max_pages)
        self._visitor = Visitor(
            config=config,
            clock=clock,
            turns=self.turns,
            contacts=self.contacts,
            gate=self.gate,
            ledger=self.ledger,
            scope=self.scope,
            budget=self._budget,
            known=Known(),
            late=self._on_ungoverned,
        )
        self._group: asyncio.TaskGroup | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._stir = asyncio.Event()
        self._stopping = False
        self._may_claim = True
        self._asked_at_end: set[str] = set()
        self._moved_s = clock.monotonic()  # when something was last committed
        self.pages = 0  # visited in this run
        self.bytes = 0
        self.waiting: dict[str, tuple[float | None, str]] = {}  # at the end: host -> until, why

    def _robots_rules(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        return self._config.site(host).robots, self._config.token(host)

    def _slot_of(self, host: str) -> str:
        return slot_of(host, by_domain=self._config.site(host).politeness.per is Per.DOMAIN)

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """To the end. Cancelled, it leaves at once; what is recorded is committed all the same."""
        try:
            await self._run()
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.ledger.commit()
            raise

    async def _run(self) -> None:
        for url in await self._store.seeds():
            self.scope.add_root(url)
        async with asyncio.TaskGroup() as group:
            self._group = group
            committer = group.create_task(self.ledger.run())
            workers = [
                group.create_task(self._work()) for _ in range(self._config.crawl.concurrency)
            ]
            await self._keep()
            self._stopping = True
            self.turns.close()
            self.gate.close()
            await asyncio.gather(*workers)
            while self._jobs:
                await asyncio.wait(self._jobs)
            self._note_waiting()
            for host in list(self.turns):
                self._release(host)
            await self.ledger.flush()
            committer.cancel()

    def stop(self) -> None:
        """Finish what is in flight, commit, release; `run` returns."""
        self._stopping = True
        self._stir.set()

    async def _work(self) -> None:
        while turn := await self.turns.next():
            await self._visitor.spend(turn)
            self._stir_if_quiet()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._group is not None
        task = self._group.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._on_job)
        return task

    def _on_job(self, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        self._stir.set()

    # ------------------------------------------------------------ holding hosts

    async def hold(self, slot: str) -> Host | None:
        """The held host of a slot, leased if need be; None while another worker holds it."""
        if (host := self.turns.get(slot)) is not None:
            return host
        lease = (await self._store.acquire(self._session, [slot])).get(slot)
        if (host := self.turns.get(slot)) is not None:  # another task was faster
            return host
        return self._take_on(lease) if lease else None

    def _take_on(self, lease: Lease) -> Host:
        now_s = self._clock.monotonic()
        host = Host(lease, self._config.site(lease.slot).politeness, now_s=now_s)
        self.gate.adopt(host, dict(lease.robots))
        for origin in self.gate.origins_of(host):
            if isinstance(origin.standing, Closed):
                host.closed.add(origin.name)
            elif origin.answered:
                self._spawn(self.rejudge.pages(origin.name))
        self._plan_due(host, lease.hand)
        self.turns.hold(host)
        if not host.hand and lease.hand.next_due_in_s is not None:
            self.ledger.want(host)
        return host

    def _release(self, host: Host) -> None:
        host.take_hand()
        self.turns.drop(host)
        self.gate.forget(host)
        self.ledger.release(host)

    async def _claim(self) -> None:
        """Fill the bench from the store, as far as there is room."""
        while self._may_claim and not self._stopping and self.turns.pages_open:
            room = min(CLAIM_HOSTS, HOSTS_HELD_MAX - len(self.turns))
            if room <= 0:
                if not self._make_room():
                    return
                await self.ledger.flush()
                continue
            self._may_claim = False
            leases = await self._store.claim(self._session, hosts=room, urls_per_host=PREFETCH)
            for lease in leases:
                if self.turns.get(lease.slot) is None:
                    self._take_on(lease)
            if len(leases) == room:
                self._may_claim = True

    def _make_room(self) -> bool:
        """Give back hosts that do nothing, or that wait long; True if any were."""
        now_s = self._clock.monotonic()
        spare: list[Host] = []
        for host in self.turns:
            if host.busy or host.waiters or host.wanting or host.failing:
                continue
            if host.held and not host.hand:
                continue
            wait_s, _ = self.turns.why(host)
            if (not host.hand and not host.parked and not host.closed) or wait_s > RELEASE_WAIT_S:
                spare.append(host)
            if len(spare) == CLAIM_HOSTS:
                break
        for host in spare:
            self._release(host)
        self._moved_s = max(self._moved_s, now_s) if spare else self._moved_s
        return bool(spare)

    # ------------------------------------------------------------ what happens

    def _on_commit(self, outcomes: list[Outcome], completed: Completed) -> None:
        retried: set[Host] = set()
        for outcome in outcomes:
            host = self.turns.get(outcome.slot)
            if host is not None:
                host.held.discard(outcome.id)
                if isinstance(outcome, Retry) and not host.hand:
                    retried.add(host)
            if isinstance(outcome, Visited):
                self.pages += 1
                self.bytes += outcome.body_bytes
        for slot in completed.stale:
            if (host := self.turns.get(slot)) is not None:
                host.take_hand()
                self.turns.drop(host)
                self.gate.forget(host)
        for slot, hand in completed.hands.items():
            if (host := self.turns.get(slot)) is not None:
                host.wanting = False
                host.hand.extend(hand.urls)
                host.held.update(queued.id for queued in hand.urls)
                self._plan_due(host, hand)
                self.turns.consider(host)
        for host in retried:
            if not host.hand:  # what it wanted before did not know of the retry yet
                self.ledger.want(host)
        if outcomes:
            self._moved_s = self._clock.monotonic()
        self._on_added(completed)
        self._stir_if_quiet()

    def _on_added(self, completed: Completed) -> None:
        """URLs were queued: of held hosts, which may have been idle, or of hosts to be claimed."""
        for slot in completed.added:
            host = self.turns.get(slot)
            if host is None:
                self._may_claim = True
                self._stir.set()
            elif not host.hand and not host.wanting:
                self.ledger.want(host)

    def _plan_due(self, host: Host, hand: Hand) -> None:
        """Wake the host when its next URL falls due (a retry), if it has nothing else by then."""
        host.next_due_s = None
        if hand.next_due_in_s:
            at_s = self._clock.monotonic() + hand.next_due_in_s
            host.next_due_s = at_s

            def due() -> None:
                if host.next_due_s == at_s and not host.gone and not host.hand:
                    host.next_due_s = None
                    self.ledger.want(host)

            self._clock.call_at(at_s, due)

    def _on_no_connection(self, host: Host, failure: Failure) -> None:
        count = host.not_connected(failure.error, now_s=self._clock.monotonic())
        rules = RetryRules(max_attempts=self._config.site(host.slot).fetch.max_attempts)
        fate = after_no_connection(count - 1, rules, permanent=failure.permanent)
        self.ledger.urgent(host)
        if isinstance(fate, GiveUp) and not host.failing:
            host.failing = True
            self._spawn(self._fail_host(host, failure.error, fate.attempts))

    async def _fail_host(self, host: Host, error: str, attempts: int) -> None:
        """Its queued URLs fail in bulk; new ones will have it tried again, on the retry clock."""
        try:
            await self.ledger.flush()
            host.take_hand()
            await self._store.fail_host(
                self._session,
                host.update(self._clock.monotonic()),
                error=error,
                attempts=attempts,
                last_at=self._clock.wall(),
            )
            host.take_hand()
            host.next_due_s = None
            host.closed.clear()
        finally:
            host.failing = False

    def _on_settled(self, origin: Origin) -> None:
        """A robots fetch has ended: what waited for it moves, or is closed."""
        host = origin.host
        parked = host.parked.pop(origin.name, [])
        if isinstance(origin.standing, Closed) and origin.access.unreachable_since is not None:
            host.closed.add(origin.name)
            host.held.difference_update(queued.id for queued in parked)
        else:
            host.closed.discard(origin.name)
            host.hand.extendleft(reversed(parked))
        if host.gone:
            return
        if not host.hand and not self._stopping:
            self.ledger.want(host)
        self.turns.consider(host)
        self._stir.set()

    def _on_robots(self, origin: Origin, previous: Access) -> None:
        """What is known of an origin's robots.txt is new."""
        if self._stopping or not origin.answered:
            return
        if previous.unreachable_since is not None:
            self._spawn(self.rejudge.pages(origin.name))
        if previous.copy_at is not None and previous.body != origin.access.body:
            self._spawn(self.rejudge.blocked(origin.name))

    def _on_ungoverned(self, name: str) -> None:
        """A page was fetched for lack of an answer. Has one come meanwhile?"""
        origin = self.gate.origin(name)
        if origin is not None and origin.answered and origin.task is None:
            self._spawn(self.rejudge.pages(name))

    # ------------------------------------------------------------ the end

    def _stir_if_quiet(self) -> None:
        if not self.turns.in_flight:
            self._stir.set()

    async def _keep(self) -> None:
        """Claim what can be claimed, and return when nothing can move within the patience."""
        looked_s = -math.inf
        while not self._stopping:
            self._stir.clear()
            await self._claim()
            wake_s: float | None = None  # while something is under way, its end stirs us
            now_s = self._clock.monotonic()
            if self._may_claim or now_s < looked_s + LOOK_EVERY_S:
                wake_s = now_s + LOOK_EVERY_S
            elif not self._busy():
                looked_s = now_s
                wake_s = await self._next_move_s()
                if wake_s is None:
                    return
            timer = self._clock.call_at(wake_s, self._stir.set) if wake_s is not None else None
            try:
                await self._stir.wait()
            finally:
                if timer:
                    timer.cancel()

    def _busy(self) -> bool:
        """Is anything under way that may lead to more?"""
        if self.turns.in_flight or not self.ledger.empty:
            return True
        return self.gate.asking > self.turns.directed or len(self._jobs) > self.gate.asking

    async def _next_move_s(self) -> float | None:
        """When something may move; None if nothing will within the patience: the crawl is over."""
        if not self.turns.pages_open:
            return None  # max_pages: what is left stays queued
        now_s = self._clock.monotonic()
        patience_s = self._config.crawl.patience_s
        at_s, paused = self._held_move_s()
        if at_s <= now_s + patience_s:
            return at_s
        outlook = await self._store.outlook(self._session)
        if outlook.claimable_in_s is not None and outlook.claimable_in_s <= patience_s:
            self._claim_at(now_s + outlook.claimable_in_s)
            return now_s + max(outlook.claimable_in_s, LOOK_EVERY_S)
        if outlook.robots_in_s is not None and outlook.robots_in_s <= 0 and await self._ask_due():
            return now_s
        if paused and now_s < self._moved_s + patience_s:
            return self._moved_s + patience_s
        return None

    def _claim_at(self, when_s: float) -> None:
        def claim() -> None:
            self._may_claim = True
            self._stir.set()

        self._clock.call_at(when_s, claim)

    def _held_move_s(self) -> tuple[float, bool]:
        """When the first URL of a held host may move, and whether any is paused."""
        now_s = self._clock.monotonic()
        wall_s = self._clock.wall()
        first_s, paused = math.inf, False
        for host in self.turns:
            if host.paused:
                paused = paused or bool(host.hand or host.parked)
                continue
            waits = host.wait(now_s, wall_s)
            at_s = waits[0] if waits else now_s
            if host.hand or host.parked:
                first_s = min(first_s, at_s)
            if host.next_due_s is not None:
                first_s = min(first_s, max(at_s, host.next_due_s))
            for name in host.closed:
                origin = self.gate.origin(name)
                if origin and origin.access.retry_at is not None:
                    retry_s = now_s + origin.access.retry_at - wall_s
                    first_s = min(first_s, max(at_s, retry_s))
        return first_s, paused

    async def _ask_due(self) -> bool:
        """Ask, once, for each robots.txt that is due though no URL waits for it."""
        due = await self._store.robots_due(self._session, limit=DUE_ORIGINS_MAX)
        asked = False
        for one in due:
            if one.origin in self._asked_at_end:
                continue
            self._asked_at_end.add(one.origin)
            host = await self.hold(one.slot)
            if host is not None:
                self.gate.ask_by_name(one.origin, host)
                asked = True
        return asked

    def _note_waiting(self) -> None:
        """Why the hosts that still have URLs wait, while that is known."""
        for host in self.turns:
            if not (host.hand or host.parked or host.closed or host.full or host.next_due_s):
                continue
            self.waiting[host.slot] = self._waits(host)

    def _waits(self, host: Host) -> tuple[float | None, str]:
        shift_s = self._clock.wall() - self._clock.monotonic()
        if host.paused:
            return None, "paused by hand"
        if host.full:
            return None, "scope.max_pages_per_host is reached"
        if not self.turns.pages_open:
            return None, "crawl.max_pages is reached"
        for name in host.closed:
            origin = self.gate.origin(name)
            if origin and isinstance(origin.standing, Closed):
                return origin.access.retry_at, origin.standing.reason
        wait_s, why = self.turns.why(host)
        if host.hand or host.parked or host.next_due_s is None:
            return self._clock.wall() + wait_s, why
        return host.next_due_s + shift_s, "another try after a failure"

"""The loop: claim hosts, let workers spend their turns, commit, and know when nothing can move."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import replace

from crawler.clock import Clock, Timer
from crawler.config import Config
from crawler.contact import Contacts
from crawler.ending import FULL, PAUSED, SPENT, Ending
from crawler.fetcher import Failure, Fetcher
from crawler.gate import Gate
from crawler.handover import Handover
from crawler.host import NEVER, PREFETCH, Host
from crawler.known import Known
from crawler.ledger import Ledger
from crawler.origin import Origin, changes
from crawler.rejudge import Rejudge
from crawler.turns import Turns
from crawler.visit import Budget, Visitor
from policies.access import Access, Closed, RobotsRules
from policies.access import due as is_due
from policies.pacing import Per
from policies.retry import GiveUp, RetryRules, after_no_connection
from policies.scope import Scope
from policies.url import slot_of
from storage.base import Completed, Hand, HostUpdate, Lease, Link, Outcome, Retry, Store, Visited

HOSTS_HELD_MAX = 4_096  # hosts in memory; all others are on disk (law 7)
CLAIM_HOSTS = 256  # leased in one transaction
RELEASE_WAIT_S = 10.0  # when there is no room: hosts that wait longer make place for others
LOOK_EVERY_S = 0.25  # how often, at most, all held hosts are looked over
LEAVE_S = 2.0  # for the last commit when told to leave at once
DUE_ORIGINS_MAX = 256  # robots.txt that fell due without a URL, taken up at once
DUE_EVERY_S = 5.0  # how often, at most, while the crawl is busy
DUE_RARELY_S = 60.0  # where all that were due cannot be reached
VAIN_S = 6 * 3600.0  # one that could not be reached is left alone: the retry clock's longest wait
VAIN_MAX = 10_000  # of them remembered; beyond it they are asked once more


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
        handover: Handover | None = None,
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
            contacted=self._on_contact,
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
            lost=self._on_no_connection,
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
        self._ending = Ending(clock, self.turns, self.gate)
        self._budget = Budget(left=config.crawl.max_pages)
        self._known = Known()
        self._handover = handover
        self._visitor = Visitor(
            config=config,
            clock=clock,
            turns=self.turns,
            contacts=self.contacts,
            gate=self.gate,
            ledger=self.ledger,
            scope=self.scope,
            budget=self._budget,
            known=self._known,
            late=self._on_ungoverned,
            handover=handover,
        )
        self._group: asyncio.TaskGroup | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._stir = asyncio.Event()
        self._stopping = False
        self._may_claim = True
        self._claim_timer: Timer | None = None
        self._due_timer: Timer | None = None
        self._leasing = asyncio.Lock()  # what the store leases is held before more is asked for
        self._full: dict[str, HostUpdate] = {}  # leased to the end of the run, but no longer held
        self._asked: set[str] = set()  # origins whose robots.txt is being asked for as due
        self._vain: dict[str, float] = {}  # those of them that could not be reached, until when
        self._due_s = NEVER  # when due ones may be looked for again
        self._rested_s = NEVER  # when the last host let go for a due one may be asked
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
            try:
                await self._crawl(group)
            finally:
                self._close()  # before the group waits for its tasks: no timer may add another

    async def _crawl(self, group: asyncio.TaskGroup) -> None:
        committer = group.create_task(self.ledger.run())
        workers = [group.create_task(self._work()) for _ in range(self._config.crawl.concurrency)]
        if self._budget.left < 1:  # max_pages = 0
            self.turns.open_pages(open_=False)
        self._spawn(self._judge_again())
        await self._keep()
        self._note_waiting()
        self._close()
        await asyncio.gather(*workers)
        while self._jobs:
            await asyncio.wait(self._jobs)
        self._note_waiting()
        for host in list(self.turns):
            self._release(host)
        await self.ledger.flush()
        await self._release_full()
        committer.cancel()

    def _close(self) -> None:
        """Nothing begins any more; what is in flight runs on."""
        self._stopping = True
        self.turns.close()
        self.gate.close()
        self._set_claim_timer(None)
        self._set_due_timer(None)

    def stop(self) -> None:
        """Finish what is in flight, commit, release; `run` returns."""
        self._stopping = True
        self._stir.set()

    async def add(self, seeds: Sequence[Link]) -> int:
        """Queue seeds, also while it runs; give how many URLs were new."""
        completed = await self._store.add(seeds)
        for link in seeds:
            self.scope.add_root(link.url)
        self._known.clear()  # what was out of scope may now be in it
        self._on_added(completed)
        return sum(completed.added.values())

    async def _work(self) -> None:
        while turn := await self.turns.next():
            await self._visitor.spend(turn)
            if turn.host.full and not turn.host.busy:
                self._put_away(turn.host)
            if not self.turns.in_flight:
                self._stir.set()

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
        if (update := self._full.pop(slot, None)) is not None:
            self.ledger.give_back(update)
            await self.ledger.flush()
        elif self.ledger.releasing(slot):
            await self.ledger.flush()
        async with self._leasing:
            if (host := self.turns.get(slot)) is not None:  # another task was faster
                return host
            lease = (await self._store.acquire(self._session, [slot])).get(slot)
            if lease is None:
                return None
            host = self._take_on(lease)
        if not self._stopping:
            self.ledger.want(host)  # it was leased with empty hands, but may have URLs
        return host

    def _take_on(self, lease: Lease) -> Host:
        now_s = self._clock.monotonic()
        host = Host(lease, self._config.site(lease.slot).politeness, now_s=now_s)
        self.gate.adopt(host, dict(lease.robots))
        for origin in self.gate.origins_of(host):
            if isinstance(origin.standing, Closed):
                host.closed.add(origin.name)
        self._plan_due(host, lease.hand)
        self.turns.hold(host)
        if not host.hand and lease.hand.next_due_in_s is not None:
            self.ledger.want(host)
        return host

    def _release(self, host: Host) -> None:
        put_off_s = self._ending.only_closed(host)
        host.empty_hand()
        self.turns.drop(host)
        self.gate.forget(host)
        self.ledger.release(host, put_off_s=NEVER if put_off_s is None else put_off_s)

    def _put_away(self, host: Host) -> None:
        """It has had its pages: the lease is kept, so that nobody claims it, and nothing else."""
        if host.gone or host.waiters or self._is_judged(host):
            return
        host.empty_hand()
        self.turns.drop(host)
        self.gate.forget(host)
        update = host.update(self._clock.monotonic())
        host.contacts_new += update.contacts  # for the commit of its last outcome
        self.ledger.touch(host)
        self._full[host.slot] = replace(update, contacts=())
        self.waiting[host.slot] = (None, FULL)

    async def _release_full(self) -> None:
        for update in self._full.values():
            self.ledger.give_back(update)
        await self.ledger.flush()

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
            async with self._leasing:
                leases = await self._store.claim(self._session, hosts=room, urls_per_host=PREFETCH)
                for lease in leases:
                    if self.turns.get(lease.slot) is None:
                        self._take_on(lease)
            self._may_claim = self._may_claim or len(leases) == room

    def _make_room(self) -> bool:
        """Give back hosts that do nothing, or that wait long; True if any were."""
        now_s = self._clock.monotonic()
        spare: list[Host] = []
        for host in self.turns:
            if host.busy or host.waiters or host.wanting or self._is_judged(host):
                continue
            if self._handover is not None and host.slot in self._handover.waiting:
                continue  # its page would be given twice
            move = self._ending.next_move(host, asked=self._asked)
            if move is None:
                if host.held:
                    continue  # its last outcome is being committed
                spare.append(host)
            elif move.at_s is None or move.at_s > now_s + RELEASE_WAIT_S:
                spare.append(host)
            if len(spare) == CLAIM_HOSTS:
                break
        for host in spare:
            self._release(host)
        return bool(spare)

    def _is_judged(self, host: Host) -> bool:
        """Is one of its robots.txt being asked for, or its pages being judged again?"""
        return any(
            origin.task is not None or self.rejudge.runs(origin.name)
            for origin in self.gate.origins_of(host)
        )

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
                host.empty_hand()
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
        if not self.turns.in_flight:
            self._stir.set()

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
        rules = RetryRules(max_attempts=self._config.site(host.slot).fetch.max_attempts)
        fate = after_no_connection(lost.failures - 1, rules, permanent=failure.permanent)

        def reopen() -> None:
            if host.out_of_reach.get(origin) is lost:
                self._reopen(host, origin)

        self._clock.call_at(lost.until_s, reopen)
        if isinstance(fate, GiveUp):
            lost.given_up = True
            self._spawn(self._fail_origin(host, origin, failure.error, fate.attempts))

    def _on_contact(self, host: Host) -> None:
        """A contact is over. If it shows an origin to be in reach after all (on several lanes, one
        that was under way when another could not connect), that one's URLs move again."""
        self.ledger.touch(host)
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
            await self._store.fail_host(
                self._session,
                host.update(self._clock.monotonic()),
                error=error,
                attempts=attempts,
                last_at=self._clock.wall(),
                origin=origin,
            )
            host.next_due_s = None
            self.ledger.want(host)

    def _on_settled(self, origin: Origin) -> None:
        """A robots fetch has ended: what waited for it moves, or is closed."""
        host = origin.host
        if origin.name in self._asked:
            self._asked.discard(origin.name)
            if origin.name in host.out_of_reach:
                self._vain[origin.name] = self._clock.monotonic() + VAIN_S
        lost = host.beyond_reach(origin.name, self._clock.monotonic())
        if lost is not None or isinstance(origin.standing, Closed):
            host.closed.add(origin.name)
            host.let_go(origin.name)
        else:
            host.closed.discard(origin.name)
            host.hand.extendleft(reversed(host.parked.pop(origin.name, [])))
        if not host.gone and not host.hand and not self._stopping:
            self.ledger.want(host)
        self.turns.consider(host)
        self._stir.set()

    def _on_robots(self, origin: Origin, previous: Access) -> None:
        """What is known of an origin's robots.txt is new."""
        if changes(previous, origin.access):
            self._spawn(self.rejudge.all(origin.name))

    def _on_ungoverned(self, name: str) -> None:
        """A page was fetched for lack of an answer. Has one come meanwhile?"""
        origin = self.gate.origin(name)
        if origin is not None and origin.answered and origin.task is None:
            self._spawn(self.rejudge.all(name))

    async def _judge_again(self) -> None:
        """Finish what a run before had begun to judge again when it ended (law 4). Beside the
        crawl, whose first claim does not wait for it (law 5)."""
        for due in await self._store.rejudge_due(self._session, limit=DUE_ORIGINS_MAX):
            if self._stopping:
                return
            if (host := await self.hold(due.slot)) is not None:
                await self.gate.load(due.origin, host)
                await self.rejudge.all(due.origin)

    # ------------------------------------------------------------ the end

    async def _keep(self) -> None:
        """Claim what can be claimed, and return when nothing can move within the patience."""
        looked_s = NEVER
        while not self._stopping:
            self._stir.clear()
            await self._claim()
            now_s = self._clock.monotonic()
            wake_s: float | None = None  # while something is under way, its end stirs us
            if now_s < looked_s + LOOK_EVERY_S:
                wake_s = looked_s + LOOK_EVERY_S
            else:
                looked_s = now_s
                await self._look_ahead()
                if not self._busy():
                    wake_s = await self._next_move_s()
                    if wake_s is None:
                        return
                elif self._may_claim and self.turns.pages_open:
                    wake_s = now_s + LOOK_EVERY_S  # there was no room
            timer = self._clock.call_at(wake_s, self._stir.set) if wake_s is not None else None
            try:
                await self._stir.wait()
            finally:
                if timer:
                    timer.cancel()

    def _busy(self) -> bool:
        """Is anything under way that may lead to more, and that stirs us when it ends?"""
        if self.turns.in_flight or not self.ledger.empty:
            return True
        if self._handover is not None and self._handover.waiting:
            return True
        # A job that waits for a turn is not under way; all others are.
        return len(self._jobs) > self.turns.directed

    async def _look_ahead(self) -> None:
        """Be awake when the next host on disk may be claimed, or a robots.txt there falls due."""
        if not self.turns.pages_open:
            return
        self._let_due_go()
        outlook = await self._store.outlook(self._session)
        if not self._may_claim and (in_s := outlook.claimable_in_s) is not None:
            if in_s <= 0:
                self._may_claim = True
                self._stir.set()
            else:
                self._set_claim_timer(self._clock.monotonic() + in_s)
        if outlook.robots_in_s is not None:
            now_s = self._clock.monotonic()
            if outlook.robots_in_s <= 0 and now_s >= self._due_s:
                self._due_s = now_s + (DUE_EVERY_S if await self._ask_due() else DUE_RARELY_S)
            self._set_due_timer(max(now_s + outlook.robots_in_s, self._due_s))

    def _let_due_go(self) -> None:
        """Give back hosts with nothing to do of which a robots.txt has fallen due, or may have: the
        store knows, also whether it still governs anything, and if so has it asked for."""
        now_s, wall_s = self._clock.monotonic(), self._clock.wall()
        for host in list(self.turns):
            if (
                not (host.hand or host.busy or host.waiters or host.wanting or host.held)
                and (
                    not host.all_known
                    or any(is_due(one.access, wall_s) for one in self.gate.origins_of(host))
                )
                and not self._is_judged(host)
                and self._ending.next_move(host, asked=self._asked) is None
            ):
                self._rested_s = max(self._rested_s, now_s + self.turns.why(host)[0])
                self._release(host)

    def _set_due_timer(self, at_s: float | None) -> None:
        if self._due_timer:
            self._due_timer.cancel()
            self._due_timer = None
        if at_s is not None:
            self._due_timer = self._clock.call_at(at_s, self._stir.set)

    def _set_claim_timer(self, at_s: float | None) -> None:
        if self._claim_timer:
            self._claim_timer.cancel()
            self._claim_timer = None
        if at_s is not None:

            def claim() -> None:
                self._claim_timer = None
                self._may_claim = True
                self._stir.set()

            self._claim_timer = self._clock.call_at(at_s, claim)

    async def _next_move_s(self) -> float | None:
        """When something may move; None if nothing will within the patience: the crawl is over."""
        if not self.turns.pages_open:
            return None  # max_pages: what is left stays queued
        now_s = self._clock.monotonic()
        horizon_s = now_s + self._config.crawl.patience_s
        paused = False
        first_s = horizon_s + 1
        for host in self.turns:
            move = self._ending.next_move(host, asked=self._asked)
            if move is not None and move.at_s is None:
                paused = True
            elif move is not None and move.at_s is not None:
                first_s = min(first_s, move.at_s)
        outlook = await self._store.outlook(self._session)
        if outlook.claimable_in_s is not None:
            first_s = min(first_s, now_s + outlook.claimable_in_s)
        if first_s <= horizon_s:
            return max(first_s, now_s + LOOK_EVERY_S)
        if outlook.robots_in_s is not None and outlook.robots_in_s <= 0 and await self._ask_due():
            return now_s + LOOK_EVERY_S
        if outlook.robots_in_s is not None and now_s + outlook.robots_in_s <= self._rested_s:
            return max(now_s + outlook.robots_in_s, now_s + LOOK_EVERY_S)
        quiet_s = self._moved_s + self._config.crawl.patience_s
        return quiet_s if paused and now_s < quiet_s else None

    async def _ask_due(self) -> bool:
        """Ask, once, for each robots.txt that is due though no URL waits for it."""
        room = min(DUE_ORIGINS_MAX, HOSTS_HELD_MAX - len(self.turns))
        if room <= 0:
            return self._make_room()
        asked = False
        now_s = self._clock.monotonic()
        self._vain = {name: until_s for name, until_s in self._vain.items() if until_s > now_s}
        if len(self._vain) > VAIN_MAX:
            self._vain.clear()
        for one in await self._store.robots_due(self._session, limit=room + len(self._vain)):
            if one.origin in self._vain or one.origin in self._asked:
                continue
            host = await self.hold(one.slot)
            if host is not None and not self._stopping:
                self._asked.add(one.origin)
                self.gate.ask_by_name(one.origin, host)
                asked = True
        return asked

    def _note_waiting(self) -> None:
        """Why the hosts that still have URLs wait. Noted before the turns close, while it is known
        for what; and again when what was in flight has ended, for what has changed by that."""
        for host in self.turns:
            if not self._ending.has_work(host, set()):
                self.waiting.pop(host.slot, None)
                continue
            if host.busy or host.slot in self.waiting:
                continue
            if host.paused:
                self.waiting[host.slot] = (None, PAUSED)
            elif not self.turns.pages_open:
                self.waiting[host.slot] = (None, SPENT)
            elif (move := self._ending.next_move(host, asked=set())) is not None:
                shift_s = self._clock.wall() - self._clock.monotonic()
                until = None if move.at_s is None else move.at_s + shift_s
                self.waiting[host.slot] = (until, move.why)

"""Keeps a crawl supplied with hosts, and knows when nothing can move any more."""

from __future__ import annotations

from collections.abc import Callable

from crawler.clock import Clock, Timer
from crawler.engine.course import Course
from crawler.engine.due import Due
from crawler.engine.holdings import Holdings
from crawler.engine.revisits import Revisits
from crawler.politeness.ending import PAUSED, SPENT, Ending, limit_reached
from crawler.politeness.holds import Holds
from crawler.politeness.pace import NEVER
from crawler.politeness.turns import Turns
from crawler.visiting.handover import Handover
from crawler.visiting.ledger import Ledger
from storage.store import Store

LOOK_EVERY_S = 0.25  # how often, at most, all held hosts are looked over
LOOK_QUIET_S = 0.01  # the same when nothing is under way, which may be the end,
LOOK_SHARE = 0.05  # and then looking takes no larger share of the time
DUE_EVERY_S = 5.0  # how often, at most, due robots.txt are taken up while the crawl is busy
DUE_RARELY_S = 60.0  # where all that were due cannot be reached
HELD_LOOK_S = 10.0  # while trouble of our own holds it
IDLE_LOOK_S = 60.0  # a crawl that lives on looks at least so often whether something can move
IDLE_PATIENCE_S = 600.0  # with an endless patience: what is called idle all the same


class Keeper:
    """`keep` returns when the crawl is over; with `forever` that is when it is told to stop.
    `jobs()` counts the short tasks under way."""

    def __init__(
        self,
        *,
        patience_s: float,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        turns: Turns,
        holds: Holds,
        ledger: Ledger,
        holdings: Holdings,
        due: Due,
        revisits: Revisits,
        ending: Ending,
        handover: Handover | None,
        jobs: Callable[[], int],
        forever: bool = False,
    ) -> None:
        self.patience_s = patience_s
        self._forever = forever
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._turns = turns
        self._holds = holds
        self._ledger = ledger
        self._holdings = holdings
        self._due = due
        self._revisits = revisits
        self._ending = ending
        self._handover = handover
        self._jobs = jobs
        self._claim_timer: Timer | None = None
        self._due_timer: Timer | None = None
        self._due_s = NEVER  # when due ones may be looked for again

    def close(self) -> None:
        self._set_claim_timer(None)
        self._set_due_timer(None)
        self._revisits.close()

    async def keep(self) -> None:
        """Claim what can be claimed, and return when nothing can move within the patience."""
        looked_s, look_s = NEVER, 0.0  # when all hosts were last looked over, and how long it took
        while not self._course.stopping:
            self._course.stir.clear()
            await self._holdings.claim()
            now_s = self._clock.monotonic()
            if self._turns.in_flight:
                self._course.idle = False
            wake_s: float | None = None  # while something is under way, its end stirs us
            rest_s = LOOK_EVERY_S
            if not self._busy():  # it may be the end
                rest_s = min(rest_s, max(look_s / LOOK_SHARE, LOOK_QUIET_S))
            if now_s < looked_s + rest_s:
                wake_s = looked_s + rest_s
            else:
                looked_s = now_s
                await self._look_ahead()
                if self._turns.paused:
                    self._course.idle = False  # until it goes on, nothing is to be done
                elif self._turns.stopped:
                    self._course.idle = False
                    if self._holds.connecting and not self._forever:
                        wake_s = self._course.moved_s + self.patience_s
                        if now_s >= wake_s:
                            return  # what is queued stays so
                    else:
                        wake_s = now_s + HELD_LOOK_S  # its end may leave nothing to do
                    if not self._holds.connecting:
                        self._course.moved_s = now_s  # the patience counts from its end
                elif not self._busy():
                    wake_s = await self._next_move_s()
                    if wake_s is None:
                        if not self._forever:
                            return
                        wake_s = now_s + IDLE_LOOK_S  # seeds, clocks and people stir it sooner
                        self._course.idle = True
                    else:
                        self._course.idle = False
                elif self._course.may_claim and self._turns.pages_open:
                    wake_s = now_s + LOOK_EVERY_S  # there was no room
                look_s = self._clock.monotonic() - now_s
            timer = (
                self._clock.call_at(wake_s, self._course.stir.set) if wake_s is not None else None
            )
            try:
                await self._course.stir.wait()
            finally:
                if timer:
                    timer.cancel()

    def _busy(self) -> bool:
        """Is anything under way that may lead to more, and that stirs us when it ends?"""
        if self._turns.in_flight or not self._ledger.empty:
            return True
        if self._handover is not None and self._handover.waiting:
            return True
        # A job that waits for a turn is not under way; all others are.
        return self._jobs() > self._turns.directed

    async def _look_ahead(self) -> None:
        """Be awake when the next host on disk may be claimed, or a robots.txt there falls due."""
        if not self._turns.pages_open or self._turns.frozen:
            return
        self._due.let_go()
        outlook = await self._store.outlook(self._session)
        if not self._course.may_claim and (in_s := outlook.claimable_in_s) is not None:
            if in_s <= 0:
                self._course.may_claim = True
                self._course.stir.set()
            else:
                self._set_claim_timer(self._clock.monotonic() + in_s)
        await self._revisits.look(outlook.revisit_in_s)
        if outlook.robots_in_s is not None:
            now_s = self._clock.monotonic()
            if outlook.robots_in_s <= 0 and now_s >= self._due_s:
                self._due_s = now_s + (DUE_EVERY_S if await self._due.ask() else DUE_RARELY_S)
            self._set_due_timer(max(now_s + outlook.robots_in_s, self._due_s))

    async def _next_move_s(self) -> float | None:
        """When something may move; None if nothing will within the patience: the crawl is over.

        The patience of a first try counts from now; that of what failed and is tried again, and of
        all URLs of a host where only failures came lately, from the last progress: else each try in
        vain would extend it.
        """
        if not self._turns.pages_open:
            return None  # max_pages: what is left stays queued
        now_s = self._clock.monotonic()
        patience_s = self.patience_s
        if self._forever:
            patience_s = min(patience_s, IDLE_PATIENCE_S)
        horizon_s = now_s + patience_s
        again_s = horizon_s if self._forever else self._course.moved_s + patience_s
        rested_s = self._turns.next_at()
        if rested_s is not None and rested_s <= min(horizon_s, again_s):
            # The common case, without a look at each of thousands of hosts (10 µs each): what may
            # move sooner stirs us.
            return max(rested_s, now_s + LOOK_EVERY_S)
        paused = False
        first_s = horizon_s + 1
        for host in self._turns:
            move = self._ending.next_move(host, asked=self._course.asked)
            if move is not None and move.at_s is not None and move.at_s > again_s:
                if host.failed_in_row > 1:
                    continue  # what it has not been asked for yet is likely to fail as well
                move = self._ending.next_move(host, asked=self._course.asked, first_tries=True)
            if move is not None and move.at_s is None:
                paused = True
            elif move is not None and move.at_s is not None:
                first_s = min(first_s, move.at_s)
        outlook = await self._store.outlook(self._session)
        if outlook.claimable_in_s is not None:
            first_s = min(first_s, now_s + outlook.claimable_in_s)
        if first_s <= horizon_s:
            return max(first_s, now_s + LOOK_EVERY_S)
        if outlook.robots_in_s is not None and outlook.robots_in_s <= 0 and await self._due.ask():
            return now_s + LOOK_EVERY_S
        if outlook.robots_rest_s and now_s + outlook.robots_rest_s <= again_s:
            return max(now_s + outlook.robots_rest_s, now_s + LOOK_EVERY_S)
        if outlook.revisit_in_s == 0 and await self._revisits.ask():
            return now_s + LOOK_EVERY_S
        quiet_s = self._course.moved_s + patience_s
        return quiet_s if paused and now_s < quiet_s else None

    def _set_due_timer(self, at_s: float | None) -> None:
        if self._due_timer:
            self._due_timer.cancel()
            self._due_timer = None
        if at_s is not None:
            self._due_timer = self._clock.call_at(at_s, self._course.stir.set)

    def _set_claim_timer(self, at_s: float | None) -> None:
        if self._claim_timer:
            self._claim_timer.cancel()
            self._claim_timer = None
        if at_s is not None:

            def claim() -> None:
                self._claim_timer = None
                self._course.may_claim = True
                self._course.stir.set()

            self._claim_timer = self._clock.call_at(at_s, claim)

    def note_waiting(self) -> None:
        """Why the hosts that still have URLs wait. Noted before the turns close, while it is known
        for what; and again when what was in flight has ended, for what has changed by that."""
        for host in self._turns:
            if not self._ending.has_work(host, set()):
                self._course.waiting.pop(host.slot, None)
                if host.full:
                    self._course.waiting[host.slot] = (None, limit_reached(host.full))
                continue
            if host.busy or host.slot in self._course.waiting:
                continue
            if host.paused:
                self._course.waiting[host.slot] = (None, PAUSED)
            elif not self._turns.pages_open:
                self._course.waiting[host.slot] = (None, SPENT)
            elif holds := self._holds.current:
                self._course.waiting[host.slot] = (None, holds[0].sentence)
            elif (move := self._ending.next_move(host, asked=set())) is not None:
                shift_s = self._clock.wall() - self._clock.monotonic()
                until = None if move.at_s is None else move.at_s + shift_s
                self._course.waiting[host.slot] = (until, move.why)

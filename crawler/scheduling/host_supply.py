"""Keeps the frontier supplied with hosts, and finds out when no URL can make progress any more."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from crawler.clock import Timer
from crawler.frontier.pace import NEVER
from crawler.frontier.reasons import PAUSED, Reason, Wait, limit_reached, run_limit_reached
from crawler.processing.context import CrawlContext
from crawler.processing.worker import Worker
from crawler.scheduling.due_work import DuePages, DueRobots
from crawler.scheduling.fair_share import OtherWorkers
from crawler.scheduling.host_leases import HostLeases
from crawler.scheduling.task_set import TaskSet

LOOK_EVERY_S: Final = 0.25  # how often, at most, all leased hosts are looked over
LOOK_QUIET_S: Final = 0.01  # the same when nothing is under way, which may be the end,
LOOK_SHARE: Final = 0.05  # and then looking takes no larger share of the time
DUE_EVERY_S: Final = 5.0  # how often, at most, due robots.txt are taken up in a busy crawl
DUE_RARELY_S: Final = 60.0  # where all that were due cannot be reached
HELD_LOOK_S: Final = 10.0  # during a system hold
IDLE_LOOK_S: Final = 60.0  # a crawl that runs forever looks at least this often for work
SHARED_LOOK_S: Final = 1.0  # of a shared crawl: for work that other workers have found
IDLE_PATIENCE_S: Final = 600.0  # with an endless patience: what is called idle all the same


class HostSupply:
    """Leases hosts for a crawl that can use them. `run` returns when the crawl is over; if it runs
    forever, when it is stopped."""

    def __init__(
        self,
        crawl: CrawlContext,
        leases: HostLeases,
        due_robots: DueRobots,
        due_pages: DuePages,
        tasks: TaskSet,
        worker: Worker,
        others: OtherWorkers,
        *,
        runs_forever: bool,
    ) -> None:
        self._crawl = crawl
        self._clock = crawl.clock
        self._frontier = crawl.frontier
        self._permits = crawl.frontier.permits
        self._leases = leases
        self._due_robots = due_robots
        self._due_pages = due_pages
        self._tasks = tasks
        self._worker = worker
        self._others = others
        self._runs_forever = runs_forever
        self._shared_look_s = NEVER  # when the store was last looked at for what others found
        self._idle_s = math.inf  # since when it has been idle
        self._woken = asyncio.Event()
        self._claim_s: float | None = None  # when a host in the store may be claimed
        self._robots_s: float | None = None  # when a robots.txt there falls due
        self._robots_again_s = NEVER  # when due ones may be looked for again
        self.idle = False
        """Nothing can make progress soon; a crawl that runs forever waits."""

    def wake(self) -> None:
        """Wake up: there may be new hosts, or the crawl may be over."""
        self._woken.set()

    async def run(self) -> None:
        """Claim what can be claimed; return when nothing can make progress within the patience."""
        looked_s, look_s = NEVER, 0.0  # when all hosts were last looked over, and how long it took
        while not self._frontier.stopping:
            self._woken.clear()
            await self._leases.claim()
            now_s = self._clock.monotonic()
            if self._permits.in_flight:
                self.idle = False
            pause_s = LOOK_EVERY_S
            if not self._is_busy():  # it may be the end
                pause_s = min(pause_s, max(look_s / LOOK_SHARE, LOOK_QUIET_S))
            if now_s < looked_s + pause_s:
                wake_s: float | None = looked_s + pause_s
            else:
                looked_s = now_s
                wake_s = await self._look(now_s)
                if wake_s == math.inf:
                    return
                look_s = self._clock.monotonic() - now_s
            if self._others.shared:
                shared_s = max(self._shared_look_s + SHARED_LOOK_S, looked_s + pause_s)
                wake_s = shared_s if wake_s is None else min(wake_s, shared_s)
            await self._sleep(wake_s)

    async def emptied(self, limit_s: float) -> None:
        """Wait, after the end, until no permit is open, for `limit_s` at most. Only callers that
        fetch on the clocks of the crawl may still have some."""
        until_s = self._clock.monotonic() + limit_s
        while self._permits.in_flight and self._clock.monotonic() < until_s:
            self._woken.clear()
            await self._sleep(until_s)

    async def _sleep(self, wake_s: float | None) -> None:
        """Sleep until woken, or until `wake_s`, or until something in the store falls due."""
        times = (wake_s, self._claim_s, self._robots_s, self._due_pages.wake_s, self._room_s())
        wake_s = min((at_s for at_s in times if at_s is not None), default=None)
        timer: Timer | None = None
        if wake_s is not None:
            timer = self._clock.call_at(wake_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            if timer:
                timer.cancel()
        now_s = self._clock.monotonic()
        if self._claim_s is not None and self._claim_s <= now_s:
            self._claim_s = None
            self._frontier.claimable = True
        if self._robots_s is not None and self._robots_s <= now_s:
            self._robots_s = None
        if self._due_pages.wake_s is not None and self._due_pages.wake_s <= now_s:
            self._due_pages.wake_s = None

    def _room_s(self) -> float | None:
        """Return when room may be looked for again, if hosts wait for it."""
        full_until_s = self._leases.full_until_s
        waits = self._frontier.claimable and full_until_s > self._clock.monotonic()
        return full_until_s if waits else None

    def _is_busy(self) -> bool:
        """Whether anything is under way that may lead to more, and whose end wakes this."""
        if self._permits.in_flight or not self._frontier.buffer.empty:
            return True
        queue = self._crawl.page_queue
        if queue is not None and queue.waiting:
            return True
        if self._frontier.callers and not self._runs_forever:
            return True
        # A task that waits for a permit, or for other robots.txt, is not under way; all others are.
        waiting = self._permits.directed + self._frontier.budget.waiting
        return len(self._tasks) + self._worker.unread > waiting

    async def _look(self, now_s: float) -> float | None:
        """Look over all hosts. When to look again; infinity: never, the crawl is over; None: what
        is under way will wake this."""
        frontier, holds = self._frontier, self._frontier.holds
        unclaimed = False
        if not self._others.shared:
            await self._look_ahead()
        elif now_s >= self._shared_look_s + SHARED_LOOK_S:
            self._shared_look_s = now_s
            unclaimed = await self._look_ahead()
        busy = self._is_busy()
        if self._shared_look_s == now_s:
            # After that look: with a slow database, one of the questions that it asks each second
            # is always open, and the crawl would never end.
            self._leases.share(unclaimed=unclaimed)
        if self._permits.stops.paused:
            self.idle = False  # until the operator resumes, nothing is to be done
            return None
        if self._permits.stops.reasons:
            self.idle = False
            if holds.connecting and not self._runs_forever:
                if not (busy or self._permits.pages_open):
                    return math.inf  # a limit of the run is reached
                wake_s = frontier.progress_s + self._patience_s
                return math.inf if now_s >= wake_s else wake_s  # what is queued stays so
            if not holds.connecting:
                frontier.progress_s = now_s  # the patience counts from its end
            return now_s + HELD_LOOK_S  # there may be no work after it
        if not busy:
            next_s = await self._next_move_s()
            if next_s is None and not self._runs_forever and await self._may_end(now_s):
                return math.inf
            self.idle = next_s is None
            # Seeds, what falls due, and people wake it sooner.
            return now_s + IDLE_LOOK_S if next_s is None else next_s
        if frontier.claimable and self._permits.pages_open:
            return now_s + LOOK_EVERY_S  # there was no room
        return None

    async def _may_end(self, now_s: float) -> bool:
        """No URL of this worker can make progress. May others find more that it can help with?
        It ends when all were idle after it was, and it has looked once more."""
        others = self._others
        if not others.shared or not self._permits.pages_open:
            return True
        if not self.idle:
            self._idle_s = now_s
        if others.active or others.asked_s <= self._idle_s:
            return False
        return await self._next_move_s() is None

    @property
    def sharing(self) -> int | None:
        """How many hosts it has that workers divide among them; None: it takes none at present."""
        permits = self._permits
        takes = permits.pages_open and self._leases.room > 0
        if not takes or self._frontier.stopping or permits.stops.reasons:
            return None
        return self._leases.sharing

    @property
    def _patience_s(self) -> float:
        return self._crawl.config.config.crawl.patience_s

    async def _look_ahead(self) -> bool:
        """Be awake when the next host in the store may be claimed, or a robots.txt there is due.
        Return whether one may be claimed now, as far as is known."""
        if not self._permits.pages_open or self._permits.stops.frozen:
            return False
        self._due_robots.release_idle()
        outlook = await self._crawl.store.outlook(self._crawl.session)
        if not self._frontier.claimable and (in_s := outlook.claimable_in_s) is not None:
            if in_s <= 0:
                self._frontier.claimable = True
                self.wake()
            else:
                self._claim_s = self._clock.monotonic() + in_s
        await self._due_pages.look(outlook.revisit_in_s)
        if outlook.robots_in_s is not None:
            now_s = self._clock.monotonic()
            if outlook.robots_in_s <= 0 and now_s >= self._robots_again_s:
                fetched = await self._due_robots.fetch()
                self._robots_again_s = now_s + (DUE_EVERY_S if fetched else DUE_RARELY_S)
            self._robots_s = max(now_s + outlook.robots_in_s, self._robots_again_s)
        return outlook.claimable_in_s == 0

    async def _next_move_s(self) -> float | None:
        """Return when something may make progress; None if nothing will within the patience."""
        if not self._permits.pages_open:
            return None  # max_pages: what is left stays queued
        now_s = self._clock.monotonic()
        patience_s = self._patience_s
        if self._runs_forever:
            patience_s = min(patience_s, IDLE_PATIENCE_S)
        horizon_s = now_s + patience_s
        again_s = horizon_s if self._runs_forever else self._frontier.progress_s + patience_s
        ready_s = self._permits.next_at()
        if ready_s is not None and ready_s <= min(horizon_s, again_s):
            # The common case, without a look at each of thousands of hosts (10 µs each): what may
            # happen sooner wakes this.
            return max(ready_s, now_s + LOOK_EVERY_S)
        first_s, paused = self._first_move(horizon_s, again_s)
        outlook = await self._crawl.store.outlook(self._crawl.session)
        if outlook.claimable_in_s is not None:
            first_s = min(first_s, now_s + outlook.claimable_in_s)
        soon_s = now_s + LOOK_EVERY_S
        if first_s <= horizon_s:
            return max(first_s, soon_s)
        if (
            outlook.robots_in_s is not None
            and outlook.robots_in_s <= 0
            and await self._due_robots.fetch()
        ):
            return soon_s
        if outlook.robots_delay_s and now_s + outlook.robots_delay_s <= again_s:
            return max(now_s + outlook.robots_delay_s, soon_s)
        if outlook.revisit_in_s == 0 and await self._due_pages.take_up():
            return soon_s
        quiet_s = self._frontier.progress_s + patience_s
        return quiet_s if paused and now_s < quiet_s else None

    def _first_move(self, horizon_s: float, again_s: float) -> tuple[float, bool]:
        """When the first leased host may make progress (after the horizon: none may), and whether a
        host with work is paused."""
        waiting = self._frontier.waiting
        paused = False
        first_s = horizon_s + 1
        for host in self._permits:
            move = waiting.next_move(host)
            if move is not None and move.at_s is not None and move.at_s > again_s:
                if host.failed_in_row > 1:
                    continue  # its URLs that were not tried yet are likely to fail as well
                move = waiting.next_move(host, first_tries=True)
            if move is not None and move.at_s is None:
                paused = True
            elif move is not None and move.at_s is not None:
                first_s = min(first_s, move.at_s)
        return first_s, paused

    def note_waiting(self) -> None:
        """Note why the hosts that still have URLs wait: before the permits close, while the reason
        is known, and again when everything in flight has ended, for what that changed."""
        noted = self._leases.waiting
        waiting = self._frontier.waiting
        for host in self._permits:
            if not waiting.has_work(host, due_robots=False):
                noted.pop(host.slot, None)
                if host.full:
                    noted[host.slot] = (None, limit_reached(host.full))
                continue
            if host.busy or host.slot in noted:
                continue
            if host.paused:
                noted[host.slot] = (None, PAUSED)
            elif (limit := self._permits.pages_closed_by) is not None:
                noted[host.slot] = (None, run_limit_reached(limit))
            elif holds := self._frontier.holds.current:
                noted[host.slot] = (None, Reason(Wait.CLOSED, holds[0].sentence))
            elif (move := waiting.next_move(host, due_robots=False)) is not None:
                shift_s = self._clock.wall() - self._clock.monotonic()
                until = None if move.at_s is None else move.at_s + shift_s
                noted[host.slot] = (until, move.reason)

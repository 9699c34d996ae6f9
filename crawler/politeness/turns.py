"""The owner of live host state: who may contact which host now, and why the others wait.

Used by the crawl (`next`: any host that is ready and has URLs in hand) and by everything that needs
one host in particular (`acquire`: robots.txt and its redirect hops, sitemaps, embedded sessions).
One bench, one timer, no polling; waiting hosts cost one heap entry each.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Iterator

from crawler.clock import Clock, Timer
from crawler.politeness.addresses import Addresses
from crawler.politeness.bench import Bench
from crawler.politeness.host import AddressClock, Host, Turn
from crawler.politeness.pace import NEVER
from policies.holds import CONNECTING
from storage.store import Contact

# Turns given in one pass of the event loop, between two looks at the network, to hosts that rest.
# Else hosts that come at once are contacted all at once, then all their answers are read, and so
# on: each waits for all others at each of its steps, and so it does in the next wave. A few at a
# time go through all steps, and their rests end as far apart. 2,000 hosts with a delay of 2 s were
# 5.6 ms late (median; p99 36 ms), and are 1.4 (p99 7 to 12).
PASS_MAX = 8
# The same while hosts are late by more than BEHIND_S: there is more to do than time for it, of
# which small passes take more (at 8 a page 7 % more CPU, at 64 none).
PASS_BEHIND_MAX = 64
BEHIND_S = 0.02
WALL_LOOK_S = 30.0  # how often the wall clock is looked at while hosts wait for a visit window
WALL_STEP_S = 1.0  # apart from the other clock by more than before: it was set, or we slept


HELD = "the whole crawl is held"  # by trouble of our own, whose reason stands in the status
BY_HAND = "by hand"  # the whole crawl is paused; beside trouble of our own machine


class TurnsClosedError(Exception):
    """The crawl is ending: there are no more turns."""


class Turns:
    """Hands out turns, at most `limit` at once over all hosts.

    A host is in one of: on the bench (waiting, or ready and waiting for `limit`), in line for a
    worker, or away (nothing to do, paused, all lanes in use). `consider` moves it after any change.
    """

    def __init__(self, clock: Clock, *, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._limit_now = limit  # fewer for a while after sockets ran out
        self._hosts: dict[str, Host] = {}
        self._bench: Bench[Host] = Bench()
        # Of ready hosts: those whose URLs cost a contact when they were last judged, and those
        # whose URLs cost none (all blocked). Each line has every other turn, however long the other
        # is.
        self._line: deque[Host] = deque()
        self._judging_line: deque[Host] = deque()
        self._judging_next = False
        self._takers: deque[Future[Turn | None]] = deque()
        self._addresses = Addresses()
        self._timer: Timer | None = None
        self._timer_s = NEVER
        self._windows = False  # some host waits by the wall clock,
        self._wall_ahead_s = 0.0  # which was so far ahead when that was reckoned
        self._closed = False
        self._stops: set[object] = set()  # what keeps all hosts: BY_HAND, or trouble of our own
        self._stopped = False  # no turns: there are such, and no probe is due
        self._probes = 0  # turns that may be given all the same: one or none
        self._resumed_s = NEVER
        self.pages_open = True  # False while a budget is used up: no pages, but robots.txt
        self._crowded: set[object] = set()  # who has more than it can take: no pages, either
        self.in_flight = 0
        self._given = 0  # in this pass of the event loop,
        self._given_max = PASS_MAX  # and how many may be
        self.directed = 0  # those who wait for a turn at one host

    # ------------------------------------------------------------ hosts

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def get(self, slot: str) -> Host | None:
        return self._hosts.get(slot)

    def hold(self, host: Host) -> None:
        self._hosts[host.slot] = host
        self.consider(host)

    def drop(self, host: Host) -> None:
        """No longer ours (released, or its lease was lost)."""
        host.gone = True
        host.cancel_timers()
        self._bench.remove(host)
        self._hosts.pop(host.slot, None)
        _turn_away(host, f"{host.slot} is no longer held")

    # ------------------------------------------------------------ asking

    async def next(self) -> Turn | None:
        """A turn at any host that has URLs in hand; None when there will be no more."""
        if self._closed:
            return None
        if (self._line or self._judging_line) and (turn := self._from_line()):
            return turn
        taker: Future[Turn | None] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._pump()
        try:
            return await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled() and (turn := taker.result()):
                self.give_back(turn)
            raise

    async def acquire(self, host: Host) -> Turn:
        """A turn at this host, in order of asking and before its pages. Raises TurnsClosedError."""
        if self._closed or host.gone:
            raise TurnsClosedError("the crawl is ending")
        if not (host.wants_turn or host.paused) and self._may_give:
            now_s = self._clock.monotonic()  # nobody waits: it is spared the bench
            at_s = self._ready_s(host, now_s)
            if at_s is not None and at_s <= now_s:
                return self._grant(host, at_s, now_s)
        waiter: Future[Turn] = asyncio.get_running_loop().create_future()
        host.waiters.append(waiter)
        self.directed += 1
        self.consider(host)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back(waiter.result())
            raise
        finally:
            self.directed -= 1

    def pause(self) -> None:
        """No more turns, for pages or robots.txt, until `resume`; those spent already run on."""
        self.stop(BY_HAND)

    def resume(self) -> None:
        self.go(BY_HAND)

    @property
    def paused(self) -> bool:
        """Is the whole crawl paused by hand?"""
        return BY_HAND in self._stops

    @property
    def stopped(self) -> bool:
        """Is the whole crawl paused, or held by trouble of our own?"""
        return bool(self._stops)

    @property
    def frozen(self) -> bool:
        """Stopped by what no request can end: a pause, or trouble of disk or database."""
        return not self._stops <= CONNECTING

    def stop(self, why: object) -> None:
        """No more turns, for pages or robots.txt, until `go` with the same reason."""
        self._stops.add(why)
        self._let_probe(self._probes if why == BY_HAND else 0)

    def go(self, why: object) -> None:
        """This reason is gone; turns are given again when there is no other."""
        self._stops.discard(why)
        self._let_probe(self._probes if why == BY_HAND else 0)
        if not self._stops:
            self._resumed_s = self._clock.monotonic()
        self._pump()

    def probe(self, host: Host | None = None) -> None:
        """Give one turn although trouble of our own stops them: to this host if somebody waits for
        it or a page of it is ready, else to the next one that is. A turn given back unused is given
        again."""
        self._let_probe(1)
        if host is not None:
            self._put_first(host)
        self._pump()

    def _put_first(self, host: Host) -> None:
        """Served before all others, if it is ready."""
        now_s = self._clock.monotonic()
        if host.waiters:
            if self._may_give and (at_s := self._ready_since(host, now_s)) is not None:
                self._serve_waiter(host, at_s, now_s)
            return
        if host.in_line:
            self._line.remove(host)
        elif host.hand and self._ready_since(host, now_s) is not None:
            self._bench.remove(host)
            host.in_line = True
        else:
            return
        self._line.appendleft(host)

    def _let_probe(self, probes: int) -> None:
        self._probes = probes if self._stops else 0
        self._stopped = bool(self._stops) and (BY_HAND in self._stops or not self._probes)

    def stayed(self, turn: Turn) -> bool:
        """Was its host or the whole crawl paused, or held, since the turn was given, or are its
        rules others now? Then it is given back: no contact begins."""
        stopped = self._stops and not (turn.probe and BY_HAND not in self._stops)
        return turn.host.paused or bool(stopped) or turn.steered != turn.host.steered

    def reckon_addresses(self) -> None:
        """Rules are others now: the rests of addresses count anew from their last contact's end."""
        self._addresses.reckon(self._hosts.values())

    def set_limit(self, limit: int) -> None:
        """At most so many turns at once from now on; those given out run on."""
        self._limit = self._limit_now = limit
        self._pump()

    @property
    def squeezed(self) -> bool:
        """Are fewer turns given at once than the limit says?"""
        return self._limit_now < self._limit

    def squeeze(self, limit: int) -> None:
        """At most so many turns at once (one at least) until `ease`."""
        self._limit_now = max(1, min(self._limit_now, limit))

    def ease(self) -> bool:
        """Twice as many, up to the limit. True: still fewer than that."""
        self._limit_now = min(self._limit, 2 * self._limit_now)
        self._pump()
        return self.squeezed

    def close(self) -> None:
        """No more turns; those given out run on."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
        for host in self._hosts.values():
            _turn_away(host, "the crawl is ending")

    # ------------------------------------------------------------ ending

    def end(
        self, turn: Turn, *, started_s: float, ended_s: float, kind: str, status: int | None
    ) -> None:
        """The contact is over: its host rests, counted from `ended_s`."""
        turn.over = True
        host = turn.host
        host.pace.end(turn.follows_s, turn.allowed_s, started_s, ended_s)
        shift_s = self._clock.wall() - self._clock.monotonic()
        host.contacts_new.append(
            Contact(
                start_at=started_s + shift_s, end_at=ended_s + shift_s, kind=kind, status=status
            )
        )
        if turn.address_clock:
            self._addresses.ended(turn.address_clock, host, ended_s)
        self._over(turn)

    def give_back(self, turn: Turn) -> None:
        """The turn was not used: no contact was made, so nothing needs to rest."""
        if turn.over:
            return
        turn.over = True
        turn.host.pace.undo(turn.follows_s)
        if turn.probe:
            self._let_probe(1)
        self._over(turn)

    def _over(self, turn: Turn) -> None:
        self.in_flight -= 1
        if clock := turn.address_clock:
            clock.busy = False
            self._free(clock)
        self._seat(turn.host)
        self._pump()

    def _free(self, clock: AddressClock) -> None:
        """The address is free: seat those in its queue, up to the first that waits for it alone,
        or that takes it at once."""
        now_s, wall_s = self._clock.monotonic(), self._clock.wall()
        while clock.queue and not clock.busy:
            host = clock.queue.pop(next(iter(clock.queue)))
            self.consider(host)
            waits = host.pace.wait(now_s, wall_s)
            if host.wants_turn and waits and waits[0] <= clock.ready_s:
                return

    def set_address(self, host: Host, address: str) -> None:
        """With `per = "ip"`: the address this host is contacted at, whose clock counts too."""
        if host.address == address:
            return
        self._addresses.move(host, address, self._clock.monotonic())
        self.consider(host)

    # ------------------------------------------------------------ the mechanism

    def consider(self, host: Host) -> None:
        """Find the host's place after a change. Cheap; safe to call at any time."""
        ready = self._seat(host)
        if ready:
            self._pump()
        elif ready is False:
            self._arm()

    def _seat(self, host: Host) -> bool | None:
        """Is it ready? None: it has no place on the bench, or need not have another."""
        if host.gone or self._closed:
            return None
        if not host.wants_turn:
            self._bench.remove(host)
            host.wanted_s = None
            return None
        now_s = self._clock.monotonic()
        if host.wanted_s is None:
            host.wanted_s = now_s
        if host.in_line and not host.waiters:
            return None
        at_s = self._ready_s(host, now_s)
        if at_s is None:
            self._bench.remove(host)
            return None
        self._bench.put(host, at_s)
        return at_s <= now_s

    def _ready_s(self, host: Host, now_s: float) -> float | None:
        at_s = host.pace.ready_s(now_s, self._clock.wall)
        if at_s is None:
            return None
        if at_s > now_s and not self._windows and host.pace.windowed:
            self._windows = True
            self._wall_ahead_s = self._clock.wall() - now_s
        if (clock := host.address_clock) is not None:
            if clock.busy:
                clock.queue[host.slot] = host
                return None
            at_s = max(at_s, clock.ready_s)
        return at_s

    def _count(self, turn: Turn, now_s: float) -> None:
        """One more of this pass. The first, which has waited longest, tells whether we are behind;
        a host that has not been contacted yet is not."""
        if self._given == 0:
            asyncio.get_running_loop().call_soon(self._next_pass)
            if turn.follows_s != NEVER and now_s - turn.could_s > BEHIND_S:
                self._given_max = PASS_BEHIND_MAX
        self._given += 1

    @property
    def _may_give(self) -> bool:
        return (
            self.in_flight < self._limit_now and self._given < self._given_max and not self._stopped
        )

    def _next_pass(self) -> None:
        """The network has been looked at since the first turn of the last pass was given."""
        self._given, self._given_max = 0, PASS_MAX
        self._pump()

    def _grant(self, host: Host, at_s: float, now_s: float) -> Turn:
        self.in_flight += 1
        clock = host.address_clock
        if clock:
            clock.busy = True
        turn = Turn(host, host.pace.begin(), at_s, clock)
        if self._stops:
            turn.probe = True
            self._let_probe(0)
        wanted_s = now_s if host.wanted_s is None else host.wanted_s
        turn.steered = host.steered
        turn.could_s = max(turn.allowed_s, wanted_s, self._resumed_s)
        if host.pace.rest.delay_s:  # else nothing is ever late
            self._count(turn, now_s)
        return turn

    def _ready_since(self, host: Host, now_s: float) -> float | None:
        """Still ready, as the bench believed, and since when? If not, it is seated anew."""
        if host.gone or not host.wants_turn:
            return None
        at_s = self._ready_s(host, now_s)
        if at_s is None:
            return None
        if at_s > now_s:
            self._bench.put(host, at_s)
            return None
        return at_s

    def _from_line(self) -> Turn | None:
        now_s = self._clock.monotonic()
        if not self.pages_open or self._stopped or self._crowded:
            return None
        while (self._line or self._judging_line) and self._may_give:
            self._judging_next = not self._judging_next
            line = self._judging_line if self._judging_next else self._line
            host = (line or self._line or self._judging_line).popleft()
            host.in_line = False
            if host.hand and (at_s := self._ready_since(host, now_s)) is not None:
                turn = self._grant(host, at_s, now_s)
                self._reseat(host, now_s)
                return turn
            if not host.gone:
                self._reseat(host, now_s)
        return None

    def _pump(self) -> None:
        """Give turns to those who ask, as far as hosts are ready and the limit allows."""
        if self._closed or self._stopped:
            return
        while self._takers and (turn := self._from_line()):
            self._serve(turn)
        now_s = self._clock.monotonic()
        while self._may_give and (host := self._bench.take(now_s)):
            if (at_s := self._ready_since(host, now_s)) is None:
                continue
            if self._serve_waiter(host, at_s, now_s):
                continue
            if host.hand and not host.in_line:
                host.in_line = True
                (self._judging_line if host.costs_none else self._line).append(host)
                if self._takers and (turn := self._from_line()):
                    self._serve(turn)
        self._arm()

    def _serve_waiter(self, host: Host, at_s: float, now_s: float) -> bool:
        """Give the turn to the first who waits for this host, if anybody does."""
        while host.waiters:
            waiter = host.waiters.popleft()
            if not waiter.done():
                waiter.set_result(self._grant(host, at_s, now_s))
                self._reseat(host, now_s)
                return True
        return False

    def _reseat(self, host: Host, now_s: float) -> None:
        """After a grant: the next lane may be ready as well."""
        if host.wants_turn and (at_s := self._ready_s(host, now_s)) is not None:
            self._bench.put(host, at_s)

    def _serve(self, turn: Turn) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(turn)
                return
        self.give_back(turn)

    def open_pages(self, *, open_: bool) -> None:
        """Stop or resume giving turns for pages (a budget); robots.txt goes on."""
        self.pages_open = open_
        if open_:
            self._pump()

    def crowd(self, who: object, *, crowded: bool) -> None:
        """Give no turns for pages while somebody has more of them than it can take. It is for those
        who give turns to see to that: there may be far more workers than pages that fit."""
        if crowded:
            self._crowded.add(who)
        elif who in self._crowded:
            self._crowded.discard(who)
            self._pump()

    def _arm(self) -> None:
        at_s = self._bench.next_at()
        if at_s is None or not self._may_give:
            if at_s is None or not self._windows or self.paused:
                return  # the next turn to end pumps, the next pass, or the end of the pause
            at_s = self._clock.monotonic() + WALL_LOOK_S
        if self._windows:
            at_s = min(at_s, self._clock.monotonic() + WALL_LOOK_S)
        if self._timer is not None:
            if self._timer_s <= at_s:
                return
            self._timer.cancel()
        self._timer_s = at_s
        self._timer = self._clock.call_at(at_s, self._ring)

    def next_at(self) -> float | None:
        """When the first of the hosts that rest and have something to do may be contacted."""
        if self._windows and self._look_at_wall():
            self._pump()
        return self._bench.next_at()

    def _ring(self) -> None:
        self._timer = None
        if self._windows:
            self._look_at_wall()
        self._pump()

    def _look_at_wall(self) -> bool:
        """Seat those anew that wait for a visit window if the wall clock was set meanwhile, or went
        on while the machine slept. All other waits are counted by a clock that is never set.
        False: it was not."""
        ahead_s = self._clock.wall() - self._clock.monotonic()
        if abs(ahead_s - self._wall_ahead_s) <= WALL_STEP_S:
            return False
        self._wall_ahead_s = ahead_s
        windowed = [host for host in self._hosts.values() if host.pace.windowed]
        self._windows = bool(windowed)
        for host in windowed:
            self._seat(host)
        return True

    # ------------------------------------------------------------ for those who watch

    def why(self, host: Host) -> tuple[float, str]:
        """How long it still waits (0.0: not), and for what, in words."""
        if host.paused:
            return 0.0, "paused by hand"
        if self.paused:
            return 0.0, "the whole crawl is paused by hand"
        if self._stops:
            return 0.0, HELD
        now_s = self._clock.monotonic()
        waits = host.pace.wait(now_s, self._clock.wall())
        if waits is None:
            return 0.0, "being asked now"
        at_s, why = waits
        if host.address_clock and host.address_clock.ready_s > at_s:
            at_s, why = host.address_clock.ready_s, f"a rest of its address {host.address}"
        if at_s <= now_s:
            return 0.0, "ready"
        return at_s - now_s, why


def _turn_away(host: Host, why: str) -> None:
    """Those who wait for a turn at this host in particular get none."""
    while host.waiters:
        waiter = host.waiters.popleft()
        if not waiter.done():
            waiter.set_exception(TurnsClosedError(why))

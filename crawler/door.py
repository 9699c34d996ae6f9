"""Turns, contacts and gate over a store without a crawl: what sessions are made of.

The crawl brings hosts and lets workers take their turns; here callers bring URLs, and each waits
for its own. The mechanism is the same: `Turns`, `Contacts`, `Gate` and `Ledger`.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final, Self

from crawler.clock import Clock
from crawler.config import Config, check_identity
from crawler.contact import PAGE, Contacts
from crawler.errors import (
    CourtlyError,
    FetchFailed,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
)
from crawler.fetcher import Answer, Failure, Fetcher, Request
from crawler.gate import ASKING, Gate, Origin, Shut
from crawler.host import Host
from crawler.ledger import Ledger
from crawler.turns import Turn, Turns, TurnsClosedError
from policies.access import Access, Closed, RobotsRules, due
from policies.pacing import Per
from policies.retry import GiveUp, RetryRules, after_no_connection
from policies.robots import Verdict
from policies.url import canonical, host_of, origin_of, slot_of
from storage.base import Completed, Outcome, Store, StoreError

# Hosts in memory (law 7). Beyond it those used longest ago are forgotten, once they have rested: a
# memory store then knows nothing of them, a database all. A host takes about 3 KB.
HOSTS_KEPT_MAX: Final = 4_096
# Their robots.txt copies, which may have 500 KiB each; a usual one has 2 KB.
ROBOTS_BYTES_KEPT_MAX: Final = 64_000_000
# Hosts looked at, at most, to find some to forget: those that rest are passed over.
LOOKED_AT_MAX: Final = 512
FORGET_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """When a host may be contacted next: in so many seconds (0.0: now), why not before, and how
    many others wait in line for it already."""

    in_s: float
    reason: str
    ahead: int


@dataclass(slots=True, eq=False)
class _Place:
    """One caller's place in the line of a host."""

    url: str
    called: Future[None]
    problem: CourtlyError | None = None  # it need not wait any longer


@dataclass(slots=True, eq=False)
class _Desk:
    """A held host and those who wait for it, in order. Only the first stands for a turn: so a
    robots.txt that falls due is fetched before the next page, and order is kept across it."""

    host: Host
    line: deque[_Place] = field(default_factory=deque)
    users: int = 0  # callers that have it in hand: it must not be forgotten under them
    lost: Failure | None = None  # it was given up: no connection could be made


class Door:
    """`enter` gives a turn for one URL, `contact` spends it; an async context manager.

    `forget(slot)` is told of hosts that are not held any more. Its callers' cancellation leaves no
    trace. Raises CourtlyError, ConfigError (law 10) and StoreError.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        fetcher: Fetcher,
        forget: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self._store = store
        self._session = session
        self._forget = forget
        self._identified = config.has_contact
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
            hold=self._hold,
            rules_of=self._robots_rules,
            slot_of=self._slot_of,
            changed=self._on_robots,
            settled=self._on_settled,
            keep_trying=False,
        )
        self._desks: OrderedDict[str, _Desk] = OrderedDict()  # the one used longest ago first
        self._leaving: set[str] = set()  # released, and not committed yet
        self._holding: dict[str, asyncio.Task[None]] = {}
        self._settling: dict[str, list[Future[None]]] = {}  # by origin
        self._robots_bytes = 0
        self._jobs: set[asyncio.Task[None]] = set()
        self._committer: asyncio.Task[None] | None = None
        self._pruner: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
        self._closed = True

    # ------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        self._closed = False
        self._committer = self._spawn(self.ledger.run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Who waits is told; what is under way is broken off; clocks are committed."""
        committer, self._committer = self._committer, None
        self._close()
        rest = {job for job in self._jobs if job is not committer}
        for job in rest:
            job.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        if committer is None or self._broken is not None:
            if kind is None and self._broken is not None:
                raise self._broken
            return
        for desk in self._desks.values():
            if not desk.host.busy:  # else it rests in full when it is next held (law 6)
                self.turns.drop(desk.host)
                self.ledger.release(desk.host)
        flush = asyncio.ensure_future(self.ledger.flush())
        try:
            await asyncio.wait({flush, committer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (flush, committer):
                task.cancel()
            await asyncio.gather(flush, committer, return_exceptions=True)
        if not committer.cancelled() and (error := committer.exception()) is not None:
            raise error

    def _close(self) -> None:
        self._closed = True
        self.turns.close()
        self.gate.close()
        for name in list(self._settling):
            self._wake(name)
        for desk in self._desks.values():
            if desk.line and not desk.line[0].called.done():
                desk.line[0].called.set_result(None)  # leaving, it calls the next

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task of ours: awaited at the end, its failure told to all callers."""
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._on_job)
        return job

    def _on_job(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            self._broken = self._broken or error
            self._close()

    def _check_open(self) -> None:
        if self._broken is not None:
            if isinstance(self._broken, StoreError):
                raise StoreError(str(self._broken)) from self._broken
            raise SessionClosed("the session ended by an error of its own") from self._broken
        if self._closed:
            raise SessionClosed("the session is closed: it lasts as long as its `async with`")

    # ------------------------------------------------------------ asking

    async def enter(self, url: str) -> Turn:
        """A turn to ask for this canonical URL, in order of asking at its host, and under a verdict
        made when the turn came. Spend it with `contact`, or give it back to `turns`.

        Raises RobotsDisallowed and RobotsUnreachable as soon as that is known, FetchFailed when no
        connection can be made.
        """
        desk = await self._desk(url)
        try:
            self._passes(desk, url)
            return await self._in_line(desk, url)
        finally:
            desk.users -= 1

    async def _in_line(self, desk: _Desk, url: str) -> Turn:
        place = _Place(url, asyncio.get_running_loop().create_future())
        line = desk.line
        line.append(place)
        try:
            if line[0] is not place:
                await place.called
                if place.problem is not None:
                    raise place.problem
            return await self._at_the_head(desk, url)
        finally:
            if line[0] is place:
                line.popleft()
                if line and not line[0].called.done():
                    line[0].called.set_result(None)
            else:
                line.remove(place)

    async def _at_the_head(self, desk: _Desk, url: str) -> Turn:
        while True:
            if not self._passes(desk, url):
                await self._settled(origin_of(url))
                continue
            try:
                turn = await self.contacts.take(desk.host)
            except TurnsClosedError:
                self._check_open()
                raise
            if isinstance(turn, Failure):
                continue  # its host has been told: it waits, or is given up
            try:
                passed = self._passes(desk, url)  # what is known may have changed meanwhile
            except BaseException:
                self.turns.give_back(turn)
                raise
            if passed:
                return turn
            self.turns.give_back(turn)

    async def contact(self, turn: Turn, request: Request) -> Answer | Failure:
        """Spend the turn on one request. Nothing is retried here; the host has learned from it."""
        try:
            return await self.contacts.fetch(turn, request, kind=PAGE)
        finally:
            self.ledger.touch(turn.host)

    async def may_fetch(self, url: str) -> bool:
        """Would `enter` give a turn? Fetches robots.txt where that is due; waits for nothing
        else. Raises FetchFailed when its host cannot be reached."""
        desk = await self._desk(url)
        try:
            while not self._passes(desk, url):
                await self._settled(origin_of(url))
        except (RobotsDisallowed, RobotsUnreachable):
            return False
        else:
            return True
        finally:
            desk.users -= 1

    async def robots(self, url: str) -> Access:
        """What is known of the robots.txt of the URL's origin, fetched at its host's turn where it
        is due, `robots.obey` or not. Raises FetchFailed when its host cannot be reached."""
        desk = await self._desk(url)
        name = origin_of(url)
        try:
            while True:
                self._check_reachable(desk, url)
                origin = self.gate.origin(name)
                if origin is not None and origin.task is None:
                    if not due(origin.access, self.clock.wall()):
                        return origin.access
                    origin = None
                if origin is None:
                    self.gate.ask_by_name(name, desk.host)
                await self._settled(name)
        finally:
            desk.users -= 1

    async def next_turn(self, url: str) -> NextTurn:
        """When the URL's host may be contacted next. It makes no contact."""
        desk = await self._desk(url)
        desk.users -= 1
        in_s, reason = self.turns.why(desk.host)
        return NextTurn(in_s=in_s, reason=reason, ahead=len(desk.line))

    # ------------------------------------------------------------ judging

    def _passes(self, desk: _Desk, url: str) -> bool:
        """True: it may be asked for now. False: robots.txt is being asked. Else raises."""
        self._check_reachable(desk, url)
        passed = self.gate.check(desk.host, url)
        if passed is ASKING:
            return False
        if isinstance(passed, Verdict):
            raise RobotsDisallowed(url, passed)
        if isinstance(passed, Shut):
            origin = self.gate.origin(origin_of(url))
            standing = origin.standing if origin else None
            until = standing.until_s if isinstance(standing, Closed) else None
            raise RobotsUnreachable(url, passed.reason, until)
        return True

    def _check_reachable(self, desk: _Desk, url: str) -> None:
        self._check_open()
        failure, host = desk.lost, desk.host
        if failure is None:
            return
        wait_s = host.not_before_s - self.clock.monotonic()
        if not host.connect_failures or wait_s <= 0:
            desk.lost = None
            return
        raise FetchFailed(url, failure, until=self.clock.wall() + wait_s)

    def _robots_rules(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        return self.config.site(host).robots, self.config.token(host)

    def _slot_of(self, host: str) -> str:
        return slot_of(host, by_domain=self.config.site(host).politeness.per is Per.DOMAIN)

    # ------------------------------------------------------------ what happens

    def _on_no_connection(self, host: Host, failure: Failure) -> None:
        count = host.not_connected(failure.error, now_s=self.clock.monotonic())
        rules = RetryRules(max_attempts=self.config.site(host.slot).fetch.max_attempts)
        fate = after_no_connection(count - 1, rules, permanent=failure.permanent)
        self.ledger.urgent(host)
        desk = self._desks.get(host.slot)
        if isinstance(fate, GiveUp) and desk is not None:
            desk.lost = failure
            self._turn_away(desk, None)

    def _on_settled(self, origin: Origin) -> None:
        """A robots fetch has ended: who waited for it looks again, and who is forbidden need not
        wait for a turn to be told so."""
        self._wake(origin.name)
        desk = self._desks.get(origin.host.slot)
        if desk is not None:
            self._turn_away(desk, origin.name)

    def _turn_away(self, desk: _Desk, name: str | None) -> None:
        """Tell those in line who wait in vain, of one origin or of all. The first finds out."""
        for place in list(desk.line)[1:]:
            if place.called.done() or (name is not None and origin_of(place.url) != name):
                continue
            try:
                if not self._passes(desk, place.url):
                    return
            except CourtlyError as problem:
                place.problem = problem
                place.called.set_result(None)

    def _on_robots(self, origin: Origin, previous: Access) -> None:
        self._robots_bytes += len(origin.access.body or b"") - len(previous.body or b"")

    def _on_commit(self, _outcomes: list[Outcome], completed: Completed) -> None:
        if completed.stale:
            slot = next(iter(completed.stale))
            raise StoreError(f"another session has taken over the host {slot}")

    async def _settled(self, name: str) -> None:
        """Wait until a robots fetch of this origin has ended."""
        settled: Future[None] = asyncio.get_running_loop().create_future()
        self._settling.setdefault(name, []).append(settled)
        await settled

    def _wake(self, name: str) -> None:
        for settled in self._settling.pop(name, ()):
            if not settled.done():
                settled.set_result(None)

    # ------------------------------------------------------------ hosts

    async def _desk(self, url: str) -> _Desk:
        """The desk of the URL's host, with the caller counted among its users."""
        name = host_of(url)
        if not self._identified:
            check_identity(self.config, [url])
        self._check_open()
        slot = self._slot_of(name)
        while (desk := self._desks.get(slot)) is None:
            held = await self._hold(slot)
            self._check_open()
            if held is None:
                raise CourtlyError(f"the host {slot} is held by another worker")
        self._desks.move_to_end(slot)
        desk.users += 1
        return desk

    async def _hold(self, slot: str) -> Host | None:
        """The held host of a slot. Leased in a task of its own: no caller can cut it in two."""
        if (desk := self._desks.get(slot)) is None:
            job = self._holding.get(slot)
            if job is None:
                job = self._holding[slot] = self._spawn(self._lease(slot))
                job.add_done_callback(lambda _: self._holding.pop(slot, None))
            await asyncio.wait([job])
            desk = self._desks.get(slot)
        return None if desk is None else desk.host

    async def _lease(self, slot: str) -> None:
        if slot in self._leaving:
            await self.ledger.flush()
        lease = (await self._store.acquire(self._session, [slot])).get(slot)
        if lease is None:
            return
        now_s = self.clock.monotonic()
        host = Host(lease, self.config.site(slot).politeness, now_s=now_s)
        self.gate.adopt(host, dict(lease.robots))
        self._robots_bytes += sum(len(copy.body or b"") for copy in lease.robots.values())
        self.turns.hold(host)
        self._desks[slot] = _Desk(host)
        crowded = len(self._desks) > HOSTS_KEPT_MAX or self._robots_bytes > ROBOTS_BYTES_KEPT_MAX
        if crowded and self._pruner is None and not self._closed:
            self._pruner = self._spawn(self._prune())

    async def _prune(self) -> None:
        """Forget hosts that have rested and that nobody waits for."""
        try:
            for slot in self._spare():
                desk = self._desks.pop(slot)
                self._leaving.add(slot)
                self._robots_bytes -= sum(
                    len(origin.access.body or b"") for origin in self.gate.origins_of(desk.host)
                )
                self.turns.drop(desk.host)
                self.gate.forget(desk.host)
                self.ledger.release(desk.host)
            await self.ledger.flush()
            for slot in self._leaving:
                if self._forget is not None and slot not in self._holding:
                    self._forget(slot)
            self._leaving.clear()
        finally:
            self._pruner = None

    def _spare(self) -> list[str]:
        spare: list[str] = []
        for _ in range(min(LOOKED_AT_MAX, len(self._desks))):
            slot, desk = next(iter(self._desks.items()))
            host = desk.host
            in_use = desk.users or host.busy or host.waiters or host.paused
            if (
                in_use
                or self.turns.why(host)[0] > 0
                or any(origin.task for origin in self.gate.origins_of(host))
            ):
                self._desks.move_to_end(slot)
                continue
            self._desks.move_to_end(slot)
            spare.append(slot)
            if len(spare) == FORGET_AT_ONCE:
                break
        return spare


def canonical_url(text: str) -> str:
    """Raises InvalidURL."""
    url = canonical(text.strip())
    if url is None:
        raise InvalidURL(f"{text!r} is not an absolute http or https URL")
    return url

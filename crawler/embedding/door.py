"""Turns, contacts and gate over a store without a crawl: what sessions are made of.

The crawl brings hosts and lets workers take their turns; here callers bring URLs, and each waits
for its own. The mechanism is the same: `Turns`, `Contacts`, `Gate` and `Ledger`.
"""

from __future__ import annotations

import asyncio
from typing import Final, Self

from crawler import threads
from crawler.clock import Clock
from crawler.config import Config, check_identity
from crawler.embedding.desks import Desk, Desks, Place
from crawler.embedding.jobs import Jobs
from crawler.embedding.verdicts import NextTurn, Verdicts
from crawler.errors import (
    CourtlyError,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
)
from crawler.fetching.fetcher import Answer, Failure, Fetcher, Request
from crawler.politeness.contact import PAGE, Contacts
from crawler.politeness.gate import Gate
from crawler.politeness.host import Host, Turn
from crawler.politeness.origin import Origin
from crawler.politeness.turns import Turns, TurnsClosedError
from crawler.visiting.ledger import Ledger
from policies.retries import GiveUp, RetryRules, after_no_connection
from policies.robots_state import RobotsState, is_due
from policies.url import host_of, origin_of
from storage.store import Completed, Outcome, Store, StoreError

NEAR_MAX: Final = 10_000  # names remembered as loopback's


class Door:
    """`enter` gives a turn for one URL, `contact` spends it; an async context manager.

    Its callers' cancellation leaves no trace. Raises CourtlyError, ConfigError (law 10) and
    StoreError.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: Store,
        session: int,
        clock: Clock,
        fetcher: Fetcher,
    ) -> None:
        self.config = config
        self.clock = clock
        self._identified = config.has_contact
        self._near: set[str] = set()  # without a contact: hosts known to be on this machine
        self._jobs = Jobs(self._close)
        self.turns = Turns(clock, limit=config.crawl.concurrency)
        self.ledger = Ledger(store, session, clock, self.turns, committed=self._on_commit)
        self.contacts = Contacts(
            clock,
            self.turns,
            fetcher,
            not_connected=self._on_no_connection,
            backed_off=self.ledger.urgent,
            contacted=self.ledger.contacted,
        )
        threads.start()
        self.gate = Gate(
            clock=clock,
            turns=self.turns,
            contacts=self.contacts,
            store=store,
            session=session,
            spawn=self._jobs.spawn,
            hold=self._hold,
            rules_of=config.robots_of,
            slot_of=config.slot_of,
            lost=self._on_no_connection,
            changed=self._on_robots,
            settled=self._on_settled,
            keep_trying=False,
        )
        self._desks = Desks(
            config,
            store=store,
            session=session,
            clock=clock,
            turns=self.turns,
            gate=self.gate,
            ledger=self.ledger,
            jobs=self._jobs,
        )
        self._verdicts = Verdicts(clock, self.gate, check_open=self._check_open)
        self._committer: asyncio.Task[None] | None = None
        self._closed = True

    # ------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        self._closed = False
        self._committer = self._jobs.spawn(self.ledger.run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Who waits is told; what is under way is broken off; clocks are committed."""
        committer, self._committer = self._committer, None
        self._close()
        await self._jobs.cancel(but=committer)
        if committer is not None and not committer.done():
            self._desks.release_all()
            flush = asyncio.ensure_future(self.ledger.flush())
            try:
                await asyncio.wait({flush, committer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                flush.cancel()
                await asyncio.gather(flush, return_exceptions=True)
                await self._jobs.cancel()
        if kind is None and self._jobs.broken is not None:
            raise self._jobs.broken

    def _close(self) -> None:
        self._closed = True
        self.turns.close()
        self.gate.close()
        self._verdicts.wake_all()
        for desk in self._desks:
            if desk.line:
                desk.line[0].call()  # leaving, it calls the next

    def _check_open(self) -> None:
        broken = self._jobs.broken
        if isinstance(broken, StoreError):
            raise StoreError(str(broken)) from broken
        if broken is not None:
            raise SessionClosed("the session ended by an error of its own") from broken
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
            if desk.line:
                self._verdicts.passes(desk, url)  # who is forbidden need not stand in line
            return await self._in_line(desk, url)
        finally:
            desk.users -= 1

    async def _in_line(self, desk: Desk, url: str) -> Turn:
        place = Place(url, asyncio.get_running_loop().create_future())
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
                if line:
                    line[0].call()
            else:
                line.remove(place)

    async def _at_the_head(self, desk: Desk, url: str) -> Turn:
        while True:
            if not self._verdicts.passes(desk, url):
                await self._verdicts.change(desk, url)
                continue
            try:
                turn = await self.contacts.take(desk.host, origin_of(url))
            except TurnsClosedError:
                self._check_open()
                raise
            if isinstance(turn, Failure):
                continue  # its origin is out of reach: it waits, or is given up
            try:
                # What is known may have changed while the turn was waited for.
                passed = self._verdicts.passes(desk, url)
            except BaseException:
                self.turns.give_back(turn)
                raise
            if passed:
                return turn
            self.turns.give_back(turn)

    async def contact(self, turn: Turn, request: Request) -> Answer | Failure:
        """Spend the turn on one request. Nothing is retried here; the host has learned from it."""
        return await self.contacts.fetch(turn, request, kind=PAGE)

    def watch(self, turn: Turn, request: Request) -> asyncio.Task[None]:
        """The same in a task of the door's own, whoever asks being cancelled or not."""

        async def spend() -> None:
            await self.contact(turn, request)

        return self._jobs.spawn(spend())

    async def may_fetch(self, url: str) -> bool:
        """Would `enter` give a turn? Fetches robots.txt where that is due; waits for nothing
        else. Raises FetchFailed when its host cannot be reached."""
        desk = await self._desk(url)
        try:
            while not self._verdicts.passes(desk, url):
                await self._verdicts.change(desk, url)
        except (RobotsDisallowed, RobotsUnreachable):
            return False
        else:
            return True
        finally:
            desk.users -= 1

    async def robots(self, url: str) -> RobotsState:
        """What is known of the robots.txt of the URL's origin, fetched at its host's turn where it
        is due, `robots.obey` or not. Raises FetchFailed when its host cannot be reached."""
        desk = await self._desk(url)
        name = origin_of(url)
        try:
            while True:
                if self._verdicts.is_reachable(desk, url):
                    origin = self.gate.origin(name)
                    if origin is None or (
                        origin.task is None and is_due(origin.access, self.clock.wall())
                    ):
                        self.gate.ask_by_name(name, desk.host)
                    elif origin.task is None:
                        return origin.access
                await self._verdicts.change(desk, url)
        finally:
            desk.users -= 1

    async def next_turn(self, url: str) -> NextTurn:
        """When the URL's host may be contacted next. It makes no contact."""
        desk = await self._desk(url)
        desk.users -= 1
        in_s, reason = self.turns.why(desk.host)
        return NextTurn(in_s=in_s, reason=reason, ahead=len(desk.line))

    def slot_of(self, host: str) -> str:
        return self.config.slot_of(host)

    # ------------------------------------------------------------ what happens

    def _on_no_connection(
        self, host: Host, origin: str, failure: Failure, failures: int | None = None
    ) -> None:
        lost = host.lost(origin, failure, now_s=self.clock.monotonic(), failures=failures)
        rules = RetryRules(max_attempts=self.config.site(host.slot).fetch.max_attempts)
        fate = after_no_connection(
            lost.failures - 1, rules, permanent=failure.permanent or failure.ours is not None
        )
        if failure.ours is not None:
            lost.failures -= 1  # trouble of our own: who waits is told, the host is not charged
        self.ledger.urgent(host)
        desk = self._desks.get(host.slot)
        if desk is not None and isinstance(fate, GiveUp):
            lost.given_up = True
            self._verdicts.turn_away(desk)

    def _on_settled(self, origin: Origin) -> None:
        """A robots fetch has ended: who waited for it looks again."""
        self._verdicts.wake(origin.name)
        desk = self._desks.get(origin.host.slot)
        if desk is not None and not self._closed:
            self._verdicts.turn_away(desk)

    def _on_robots(self, origin: Origin, previous: RobotsState) -> None:
        self._desks.robots_bytes += len(origin.access.body or b"") - len(previous.body or b"")

    def _on_commit(self, _outcomes: list[Outcome], completed: Completed) -> None:
        if completed.stale:
            slot = next(iter(completed.stale))
            raise StoreError(f"another session has taken over the host {slot}")

    # ------------------------------------------------------------ hosts

    async def _desk(self, url: str) -> Desk:
        """The desk of the URL's host, with the caller counted among its users."""
        name = host_of(url)
        if not self._identified and name not in self._near:
            check_identity(self.config, [url])
            if len(self._near) < NEAR_MAX:
                self._near.add(name)
        self._check_open()
        slot = self.slot_of(name)
        while (desk := self._desks.use(slot)) is None:
            held = await self._desks.hold(slot)
            self._check_open()
            if held is None:
                raise CourtlyError(f"the host {slot} is held by another worker")
        return desk

    async def _hold(self, slot: str) -> Host | None:
        return await self._desks.hold(slot)

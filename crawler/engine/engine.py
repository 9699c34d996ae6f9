"""One crawl, put together, and its life: workers spend turns until nothing can move."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from crawler import threads
from crawler.clock import Clock
from crawler.config import Config
from crawler.config.model import CurrentConfig
from crawler.engine.course import Course
from crawler.engine.disk_space import DiskSpace
from crawler.engine.due import Due
from crawler.engine.holdings import Holdings
from crawler.engine.keeper import Keeper
from crawler.engine.lost_memory import until_memory_is_lost
from crawler.engine.marked import Marked
from crawler.engine.moves import Moves
from crawler.engine.rates import Rates
from crawler.engine.rejudge import Rejudge
from crawler.engine.revisits import Revisits
from crawler.engine.steering import Steering
from crawler.engine.storage_holds import StorageHolds
from crawler.engine.tasks import Tasks
from crawler.fetching.fetcher import Fetcher
from crawler.fetching.header_scope import HeaderScope
from crawler.observer import Observer, all_of
from crawler.politeness.contact import Contacts
from crawler.politeness.ending import Ending
from crawler.politeness.gate import Gate
from crawler.politeness.holds import Holds
from crawler.politeness.host import Host
from crawler.politeness.turns import Turns
from crawler.visiting.handover import Handover
from crawler.visiting.known import Known
from crawler.visiting.ledger import Ledger
from crawler.visiting.plans import Planner
from crawler.visiting.sitemaps import Sitemaps
from crawler.visiting.visit import Budget, Visitor
from policies.scope import Scope, Skip
from storage.store import Completed, Link, Store

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

WAITING_PAGES_MAX = 2_048  # pages that wait to be read while others are fetched
SPARE_WORKERS = 64  # kept for the next pages that wait, so that they do not come and go
LEAVE_S = 2.0  # for the last commit when told to leave at once
STOP_PATIENCE_S = 5.0  # for a full disk or the like, when told to stop meanwhile


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
        self.effective = CurrentConfig(config)
        observer = None if observer is None else all_of([observer])  # what it raises is contained
        self._sinks = sinks
        self._store = store
        self._session = session
        self._clock = clock
        self.course = Course(moved_s=clock.monotonic())
        self.tasks = Tasks(self.course)
        self.scope = Scope(self.effective.scope_of, max_depth=config.crawl.max_depth)
        self.turns = Turns(clock, limit=config.crawl.concurrency)
        self.holds = Holds(
            clock,
            self.turns,
            ask_again=self._ask_again,
            observer=observer,
        )
        sources = [store.faults] if sinks is None else [store.faults, sinks.troubles]
        self._storage_holds = StorageHolds(self.holds, sources)
        self.rates = Rates(clock.monotonic())
        moves = self._moves = Moves(
            self.effective,
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            turns=self.turns,
            holds=self.holds,
            rates=self.rates,
            observer=observer,
            spawn=self.tasks.spawn,
        )
        self.ledger = Ledger(
            store,
            session,
            clock,
            self.turns,
            committed=moves.committed,
            observer=observer,
            sinks=sinks,
            revisits=lambda: self.effective.config.revisits,
        )
        self.contacts = Contacts(
            clock,
            self.turns,
            fetcher,
            not_connected=moves.not_connected,
            backed_off=self.ledger.urgent,
            contacted=moves.contacted,
            holds=self.holds,
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
            spawn=self.tasks.spawn,
            hold=self._hold,
            rules_of=self.effective.robots_of,
            slot_of=self.effective.slot_of,
            lost=moves.not_connected,
            changed=moves.robots_changed,
            settled=moves.settled,
            sitemaps=self._sitemaps.of_origin,
            added=moves.added,
        )
        self._rejudge = Rejudge(
            store=store,
            session=session,
            clock=clock,
            course=self.course,
            ledger=self.ledger,
            gate=self.gate,
            added=moves.added,
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
            forever=forever,
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
        moves.join(
            ledger=self.ledger,
            gate=self.gate,
            holdings=self.holdings,
            due=self._due,
            rejudge=self._rejudge,
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
            holds=self.holds,
            ledger=self.ledger,
            holdings=self.holdings,
            due=self._due,
            revisits=self._revisits,
            ending=self.ending,
            handover=handover,
            jobs=lambda: len(self.tasks) + self._visitor.unread,
            forever=forever,
        )
        self._disk_space = DiskSpace(self.effective, clock, self.holds)
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
            late=moves.came_late,
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
            spawn=self.tasks.spawn,
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
            reopen=moves.reopen,
            reread=moves.reread,
            staff=self._reloaded,
        )
        self._beside_max = 0 if handover else WAITING_PAGES_MAX
        self._workers: set[asyncio.Task[None]] = set()

    @property
    def pages(self) -> int:
        """Visited in this run, and committed."""
        return self.rates.pages

    @property
    def bytes(self) -> int:
        """Of their bodies."""
        return self.rates.bytes

    @property
    def bounds_pages(self) -> bool:
        """May any host have more URLs than pages that may be visited?"""
        config = self.effective.config
        return config.scope.bounds_hosts or bool(config.sites)

    def host_limit(self, host: str, *, pages: int, body_bytes: int) -> Skip | None:
        """The limit that a host has reached with so many pages of so many bytes, if any."""
        return self.effective.scope_of(host).host_limit(pages, body_bytes)

    @property
    def waiting(self) -> Mapping[str, tuple[float | None, str]]:
        """At the end: hosts that still have URLs -> until (Unix seconds, or None), and why."""
        return self.course.waiting

    def _ask_again(self, host: Host) -> bool:
        return self.gate.ask_again(host)

    async def _hold(self, slot: str) -> Host | None:
        return await self.holdings.hold(slot)

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """To the end. Cancelled, it leaves at once; what is recorded is committed all the same."""
        threads.start()
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
        self._set_patience(inf)
        async for urls in self._store.seeds():
            for url in urls:
                self._root(url)
        async with asyncio.TaskGroup() as group:
            self.tasks.join(group)
            try:
                await self._crawl()
            finally:
                self._close()  # before the group waits for its tasks: no timer may add another

    def _root(self, url: str) -> None:
        """Scope is relative to it, and the config's headers for its host are meant for its scheme
        and port."""
        self.scope.add_root(url)
        self.contacts.meant = self.contacts.meant or HeaderScope()
        self.contacts.meant.add(url)

    async def _crawl(self) -> None:
        committer = self.tasks.begin(self.ledger.run())
        watching = [
            self.tasks.begin(self._storage_holds.run()),
            self.tasks.begin(until_memory_is_lost()),
            self.tasks.begin(self._disk_space.run()),
        ]
        self._staff()
        if self._budget.left < 1:  # max_pages = 0
            self.turns.open_pages(open_=False)
        self._marked.start()
        self._plan_late()
        await self._keeper.keep()
        self._keeper.note_waiting()
        self._close()
        await asyncio.gather(*self._workers)
        await self.tasks.done()
        self._keeper.note_waiting()
        await self.holdings.release_all()
        committer.cancel()
        for task in watching:
            task.cancel()

    def _plan_late(self) -> None:
        """Plan for the pages visited before anybody wanted to come back."""
        if self._revisits.on and self.tasks.under_way:
            self.tasks.spawn(self._revisits.plan())

    def _reloaded(self) -> None:
        self._staff()
        self._plan_late()
        self._disk_space.again()

    def _staff(self) -> None:
        """Workers for as many turns as may be in flight, beside those whose page waits to be read;
        those too many end after their turn. Who reads the pages of a handover is promised
        `concurrency` of them in memory at most.
        """
        if not self.tasks.under_way:
            return
        for _ in range(self._workers_wanted - len(self._workers)):
            worker = self.tasks.begin(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    @property
    def _workers_wanted(self) -> int:
        beside = min(self._visitor.unread, self._beside_max)
        return self.effective.config.crawl.concurrency + beside

    def _close(self) -> None:
        """Nothing begins any more; what is in flight runs on."""
        self.course.stopping = True
        self.turns.close()
        self.holds.close()
        self.gate.close()
        self._keeper.close()

    def stop(self) -> None:
        """Finish what is in flight, commit, release; `run` returns."""
        if self._sinks is not None and not self.course.stopping:
            self._sinks.stop()
        self.course.stopping = True
        self._set_patience(STOP_PATIENCE_S)
        self.course.stir.set()

    def _set_patience(self, seconds: float) -> None:
        self._store.set_patience(seconds)
        if self._sinks is not None:
            self._sinks.set_patience(seconds)

    async def add(self, seeds: Sequence[Link]) -> int:
        """Queue seeds, also while it runs; give how many URLs were new."""
        for link in seeds:  # before they are there to be claimed, and judged
            self._root(link.url)
        completed = await self._store.add(seeds)
        self._known.clear()  # what was out of scope may now be in it
        self._moves.added(completed)
        self.course.moved_s = self._clock.monotonic()
        self.course.idle = False
        return sum(completed.added.values())

    async def _add_listed(self, links: Sequence[Link], referrer: int) -> Completed:
        """Queue what a sitemap lists; committed when this returns."""
        completed = await self._store.add(links, referrer=referrer)
        self._moves.added(completed)
        return completed

    async def _work(self) -> None:
        while turn := await self.turns.next():
            await self._visitor.spend(turn)
            full = turn.host.full and not (turn.host.busy or turn.host.unread)
            if full and not self.holdings.keeps_full:
                self.holdings.put_away(turn.host)
            if not self.turns.in_flight:
                self.course.stir.set()
            if len(self._workers) > self._workers_wanted + SPARE_WORKERS:
                return

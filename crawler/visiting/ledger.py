"""Gathers outcomes, links and clocks, and decides when to commit them: few, large transactions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from crawler.clock import Clock, Timer
from crawler.observer import Observer
from crawler.politeness.host import Host
from crawler.politeness.pace import NEVER
from crawler.politeness.turns import Turns
from crawler.visiting.outcomes import unkept
from storage.store import Batch, Completed, HostUpdate, Outcome, Prefetch, Queued, Store, Visited

if TYPE_CHECKING:
    from crawler.documents.crawled_page import CrawledPage
    from crawler.sinks.dispatch import Sinks

LINKS_PER_COMMIT = 1_000
COMMIT_AFTER_S = 0.1  # the age at which the oldest entry is committed
# When that commit is over, surely. A host that rests for longer need not ask for URLs by itself: of
# 2,000 hosts with a delay of 2 s a commit had 4 pages, and a page cost an eighth more CPU.
COMMITTED_S = 0.25
FEW_HOSTS = 16  # they make few commits in any case, and the end of a crawl is seen sooner
LINKS_MAX = 20_000  # uncommitted; beyond it pages wait for the store (law 7),
OUTCOMES_MAX = 2_000  # or beyond these: where all is blocked, 150 hosts made 38,000 of one commit


class _Taken(Struct, frozen=True, kw_only=True):
    """One commit to be."""

    outcomes: list[Outcome]
    batch: Batch
    upto: int  # of what was recorded


class Ledger:
    """The outcomes not yet committed.

    One commit is under way at a time; what comes meanwhile gathers for the next. Commits start when
    a host waits for more URLs, when something must be durable at once, at LINKS_PER_COMMIT, or when
    the oldest entry is COMMIT_AFTER_S old.
    """

    def __init__(
        self,
        store: Store,
        session: int,
        clock: Clock,
        turns: Turns,
        *,
        committed: Callable[[list[Outcome], Completed], None],
        observer: Observer | None = None,
        sinks: Sinks | None = None,
        revisits: Callable[[], bool] | None = None,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._turns = turns
        self._committed = committed
        self._observer = observer
        self._sinks = sinks
        self._revisits = revisits  # are visited pages that are due asked for as well?
        self._taken: _Taken | None = None  # and not yet handed to the store
        self._faults: dict[int, str] = {}  # by URL: why a sink could not take its page
        self._outcomes: list[Outcome] = []
        self._skipped: Counter[str] = Counter()
        self._dirty: dict[str, Host] = {}
        self._contacted: dict[str, Host] = {}  # of which a contact has ended since the last commit
        self._wants: dict[str, tuple[Host, int]] = {}
        self._given_back: list[HostUpdate] = []
        self._releases: dict[str, tuple[Host, float]] = {}
        self._leaving: Collection[str] = ()  # hosts whose release is being committed
        self._links = 0
        self._start = asyncio.Event()  # something calls for a commit
        self._timer: Timer | None = None
        self._recorded = 0  # numbers what is recorded, so that `flush` knows what to wait for
        self._durable = 0
        self._progress = asyncio.Condition()

    # ------------------------------------------------------------ what is put in

    def record(
        self, outcome: Outcome, host: Host, url: str = "", page: CrawledPage | None = None
    ) -> None:
        """`url`: what the outcome is of, for who watches. `page`: what sinks are to have on disk
        before it is committed."""
        if page is not None and self._sinks is not None:
            self._sinks.put(page, outcome.id)
            if self._sinks.due:
                self._start.set()
        self._outcomes.append(outcome)
        if self._observer is not None:
            self._observer.settled(url, outcome)
        self._dirty[host.slot] = host
        if isinstance(outcome, Visited):
            self._links += len(outcome.links) + len(outcome.outlinks)
        self._touch()
        if self._links >= LINKS_PER_COMMIT:
            self._start.set()
        if self.full:
            self._turns.crowd(self, crowded=True)

    def asking(self, queued: Queued) -> None:
        """A request for it is about to be sent."""
        self._store.in_flight(queued.id)

    def not_asked(self, host: Host, queued: Queued) -> None:
        """There is no outcome: it stays queued."""
        host.held.discard(queued.id)
        self._store.not_in_flight(queued.id)

    def touch(self, host: Host) -> None:
        """The host's clock moved without an outcome."""
        self._dirty[host.slot] = host
        self._touch()

    def contacted(self, host: Host) -> None:
        """A contact ended. While what it brought is being read, its clock may wait for one commit:
        then both are written at once, as a rule. (Of a thousand hosts each was written twice.)"""
        self._contacted[host.slot] = host
        self._touch()

    def skip(self, reason: str, count: int = 1) -> None:
        self._skipped[reason] += count
        self._touch()

    def want(self, host: Host) -> None:
        """Ask for more URLs of a host: at once if it would have to wait for them, else with what is
        committed next."""
        if host.gone or (host.full and not self._wants_revisits()):
            return
        if host.wanting:
            if host.slot in self._wants and self._is_pressed(host):
                self._start.set()
            return
        host.wanting = True
        self._wants[host.slot] = (host, host.appetite)
        self._touch()
        if self._is_pressed(host):
            self._start.set()

    def _is_pressed(self, host: Host) -> bool:
        """Has it nothing to do, and could it do something before the next commit is over?"""
        if host.hand:
            return False
        if len(self._turns) <= FEW_HOSTS:
            return True
        now_s = self._clock.monotonic()
        ready_s = host.pace.ready_s(now_s, self._clock.wall)
        if ready_s is None:  # being contacted: it will rest
            ready_s = now_s + host.pace.rest.delay_s
        return ready_s < now_s + COMMITTED_S

    def _wants_revisits(self) -> bool:
        return self._revisits is not None and self._revisits()

    def release(self, host: Host, *, put_off_s: float = NEVER) -> None:
        """Give the host back in the next commit; the caller has dropped it from `Turns`.
        `put_off_s`: until then there is nothing to do there."""
        self._releases[host.slot] = (host, put_off_s)
        self._recorded += 1
        self._start.set()

    def give_back(self, update: HostUpdate) -> None:
        """Release a host that is leased but no longer held."""
        self._given_back.append(structs.replace(update, release=True))
        self._recorded += 1
        self._start.set()

    def urgent(self, host: Host) -> None:
        """Commit at once: a Retry-After or a back-off must survive (law 5)."""
        self._dirty[host.slot] = host
        self._recorded += 1
        self._start.set()

    def _touch(self) -> None:
        self._recorded += 1
        if self._timer is None and not self._start.is_set():
            self._timer = self._clock.call_at(
                self._clock.monotonic() + COMMIT_AFTER_S, self._start.set
            )

    # ------------------------------------------------------------ what is taken out

    @property
    def uncommitted(self) -> int:
        """Outcomes recorded since the last commit began."""
        return len(self._outcomes)

    @property
    def empty(self) -> bool:
        return self._recorded == self._durable

    async def flush(self) -> None:
        """Return when everything recorded before this call is committed."""
        upto = self._recorded
        if self._durable >= upto:
            return
        self._dirty |= self._contacted  # no clock waits any longer
        self._start.set()
        async with self._progress:
            await self._progress.wait_for(lambda: self._durable >= upto)

    async def room(self) -> None:
        """Backpressure: wait while far more is recorded than the store has taken."""
        if self.full:
            await self.flush()

    @property
    def full(self) -> bool:
        """Is far more recorded than the store has taken?"""
        return (
            self._links > LINKS_MAX
            or len(self._outcomes) > OUTCOMES_MAX
            or (self._sinks is not None and self._sinks.full)
        )

    async def run(self) -> None:
        """Commit for ever; ends by cancellation, or loudly by StoreError."""
        while True:
            await self._start.wait()
            await self.commit()

    async def commit(self) -> None:
        """One commit of everything gathered, once sinks have its pages on disk. Cancelled while
        they write, it is finished by the next."""
        if self._taken is not None:
            await self._complete(self._taken)
        self._taken = self._take()
        if self._taken is not None:
            await self._complete(self._taken)

    async def _complete(self, taken: _Taken) -> None:
        if self._sinks is not None:
            await self._sinks.flush()
            self._faults |= self._sinks.take_faults()
            if self._faults:
                self._fail_those(taken.outcomes)
        self._taken = None  # what the store is given happens whole, also when this is cancelled
        began_s = self._clock.monotonic()
        completed = await self._store.complete(self._session, taken.batch)
        self._committed(taken.outcomes, completed)
        if self._observer is not None:
            links = sum(len(one.links) for one in taken.outcomes if isinstance(one, Visited))
            elapsed_s = self._clock.monotonic() - began_s
            self._observer.committed(elapsed_s, len(taken.outcomes), links)
        self._durable = taken.upto
        self._leaving = ()
        self._turns.crowd(self, crowded=self.full)
        async with self._progress:
            self._progress.notify_all()

    def _fail_those(self, outcomes: list[Outcome]) -> None:
        """Pages that a sink could not take have failed. Those visited before stay as they were."""
        for place, outcome in enumerate(outcomes):
            if not isinstance(outcome, Visited):
                continue
            if (fault := self._faults.pop(outcome.id, None)) is not None:
                outcomes[place] = unkept(outcome, fault)

    def _take(self) -> _Taken | None:
        """All that is gathered, but for clocks that wait; None if that is nothing."""
        self._start.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        upto = self._recorded
        if upto == self._durable:
            return None
        outcomes, self._outcomes = self._outcomes, []
        skipped, self._skipped = self._skipped, Counter()
        dirty, self._dirty = self._dirty, {}
        contacted, self._contacted = self._contacted, {}
        wants, self._wants = self._wants, {}
        given_back, self._given_back = self._given_back, []
        releases, self._releases = self._releases, {}
        self._leaving = releases.keys()
        self._links = 0
        settled = {outcome.id for outcome in outcomes}  # a retry may be handed out again
        dirty |= {slot: host for slot, (host, _) in wants.items() if not host.gone}
        for slot, host in contacted.items():
            waits = host.unread and slot not in dirty and slot not in releases
            (self._dirty if waits else dirty)[slot] = host
        if self._dirty:
            self._touch()
            if not (outcomes or dirty or skipped or given_back or releases):
                return None  # `flush` waits for none of those
        batch = Batch(
            outcomes=outcomes,
            hosts=[*self._updates(dirty, releases), *given_back],
            skipped=skipped,
            prefetch=[
                Prefetch(
                    slot=slot,
                    count=count,
                    held=tuple(host.held - settled),
                    closed=(*host.closed, *host.parked),
                    queued=not host.full,
                    revisits=self._wants_revisits(),
                )
                for slot, (host, count) in wants.items()
                if not host.gone
            ],
        )
        return _Taken(outcomes=outcomes, batch=batch, upto=upto)

    def releasing(self, slot: str) -> bool:
        """Is its release still to be committed?"""
        return slot in self._releases or slot in self._leaving

    def _updates(
        self, dirty: dict[str, Host], releases: dict[str, tuple[Host, float]]
    ) -> list[HostUpdate]:
        now_s = self._clock.monotonic()
        updates = [host.update(now_s) for slot, host in dirty.items() if slot not in releases]
        updates += [
            host.update(now_s, release=True, put_off_s=put_off_s)
            for host, put_off_s in releases.values()
        ]
        return updates

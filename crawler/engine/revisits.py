"""Pages that fall due again: their hosts are taken up when nothing else is to be done there."""

from __future__ import annotations

from crawler.clock import Clock, Timer
from crawler.config.model import CurrentConfig
from crawler.engine.course import Course
from crawler.engine.holdings import Holdings
from crawler.politeness.pace import NEVER
from crawler.visiting.ledger import Ledger
from crawler.visiting.plans import Planner
from storage.store import Store

HOSTS_AT_ONCE = 64  # taken up in one look
EVERY_S = 5.0  # how often, at most, they are looked for
VAIN_S = 600.0  # a host that was asked and is due still: it is closed, or out of reach
VAIN_MAX = 10_000  # of them remembered; beyond it they are asked once more
PLANNED_AT_ONCE = 10_000  # rows looked at for pages without a plan: some 10 ms of the store


class Revisits:
    """Looks for hosts with pages that are due. What a host held gets is the ledger's doing."""

    def __init__(
        self,
        effective: CurrentConfig,
        *,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        holdings: Holdings,
        ledger: Ledger,
        planner: Planner,
    ) -> None:
        self._effective = effective
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._holdings = holdings
        self._ledger = ledger
        self._planner = planner
        self._vain: dict[str, float] = {}
        self._look_s = NEVER
        self._timer: Timer | None = None

    @property
    def on(self) -> bool:
        """Does the config want any page visited again?"""
        return self._effective.config.revisits

    async def look(self, in_s: float | None) -> None:
        """Take up what is due; be awake when the next page is, so many seconds from now."""
        if not self.on or in_s is None:
            return
        now_s = self._clock.monotonic()
        if in_s <= 0 and now_s >= self._look_s:
            self._look_s = now_s + EVERY_S
            await self.ask()
        if self._timer:
            self._timer.cancel()
        self._timer = self._clock.call_at(max(now_s + in_s, self._look_s), self._course.stir.set)

    async def ask(self) -> bool:
        """Take up hosts with pages that are due; False: there are none that may move."""
        if not self.on:
            return False
        room = min(HOSTS_AT_ONCE, self._holdings.room)
        if room <= 0:
            return self._holdings.make_room()
        now_s = self._clock.monotonic()
        self._vain = {slot: until_s for slot, until_s in self._vain.items() if until_s > now_s}
        if len(self._vain) > VAIN_MAX:
            self._vain.clear()
        asked = False
        for slot in await self._store.revisits_due(self._session, limit=room + len(self._vain)):
            if slot in self._vain or self._course.stopping:
                continue
            self._vain[slot] = now_s + VAIN_S
            if (host := await self._holdings.hold(slot)) is not None:
                self._ledger.want(host)
                asked = True
        return asked

    async def plan(self) -> None:
        """Plan for the pages visited by runs before that did not mean to come back."""
        after: int | None = 0
        while self.on and after is not None and not self._course.stopping:
            pages, after = await self._store.unplanned(
                self._session, after=after, limit=PLANNED_AT_ONCE
            )
            plans = {page.id: plan for page in pages if (plan := self._planner.late(page))}
            if plans:
                await self._store.plan(self._session, plans)
        self._course.stir.set()

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

"""Judges again the origins that are marked for it in the store, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from crawler.engine.course import Course
from crawler.engine.holdings import Holdings
from crawler.engine.rejudge import Rejudge
from crawler.politeness.gate import Gate
from crawler.visiting.ledger import Ledger
from storage.store import Store

JUDGED_AT_ONCE = 256  # origins, looked up at once


class Marked:
    """`start` when the crawl runs, for what a run before had begun; `again` whenever there may be
    more, because a new config reads them anew (law 4). The first claim does not wait (law 5)."""

    def __init__(
        self,
        *,
        store: Store,
        session: int,
        course: Course,
        gate: Gate,
        ledger: Ledger,
        holdings: Holdings,
        rejudge: Rejudge,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    ) -> None:
        self._store = store
        self._session = session
        self._course = course
        self._gate = gate
        self._ledger = ledger
        self._holdings = holdings
        self._rejudge = rejudge
        self._spawn = spawn
        self._task: asyncio.Task[None] | None = None
        self._running = False
        self._begun = 0  # how often it was said that there may be some

    def start(self) -> None:
        self._running = True
        self.again()

    def again(self) -> None:
        self._begun += 1
        if not self._running or self._course.stopping:
            return  # the marks stay, and are found when it starts
        if self._task is None or self._task.done():
            self._task = self._spawn(self._judge())

    async def _judge(self) -> None:
        judged: set[str] = set()  # of the last ones looked up: those whose mark cannot be cleared
        begun = 0
        while True:
            if begun != self._begun:
                begun = self._begun
                judged.clear()
            due = await self._store.rejudge_due(self._session, limit=JUDGED_AT_ONCE)
            if begun == self._begun and all(one.origin in judged for one in due):
                return
            for one in due:
                if self._course.stopping:
                    return
                if self._holdings.room <= 0 and self._holdings.make_room():
                    await self._ledger.flush()
                if (host := await self._holdings.hold(one.slot)) is not None:
                    await self._gate.load(one.origin, host)
                    await self._rejudge.all(one.origin)
            judged = {one.origin for one in due}

"""robots.txt that fall due where no URL waits for them: blocked hosts keep their clock."""

from __future__ import annotations

from crawler.clock import Clock
from crawler.engine.course import Course
from crawler.engine.holdings import Holdings
from crawler.politeness.ending import Ending
from crawler.politeness.gate import Gate
from crawler.politeness.origin import Origin
from crawler.politeness.turns import Turns
from policies.robots_state import is_due
from storage.store import Store

DUE_ORIGINS_MAX = 256  # taken up at once
VAIN_S = 6 * 3600.0  # one that could not be reached is left alone: the retry clock's longest wait
VAIN_MAX = 10_000  # of them remembered; beyond it they are asked once more


class Due:
    """Has them asked for, once each; knows which were asked in vain."""

    def __init__(
        self,
        *,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        turns: Turns,
        gate: Gate,
        holdings: Holdings,
        ending: Ending,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._turns = turns
        self._gate = gate
        self._holdings = holdings
        self._ending = ending
        self._vain: dict[str, float] = {}  # those that could not be reached, until when

    def settled(self, origin: Origin) -> None:
        """A robots fetch has ended."""
        if origin.name in self._course.asked:
            self._course.asked.discard(origin.name)
            if origin.name in origin.host.out_of_reach:
                self._vain[origin.name] = self._clock.monotonic() + VAIN_S

    def let_go(self) -> None:
        """Give back hosts with nothing to do of which a robots.txt has fallen due, or may have: the
        store knows, also whether it still governs anything, and if so has it asked for."""
        wall_s = self._clock.wall()
        for host in list(self._turns):
            if (
                not (host.hand or host.busy or host.waiters or host.wanting or host.held)
                and (
                    not host.all_known
                    or any(is_due(one.access, wall_s) for one in self._gate.origins_of(host))
                )
                and not self._holdings.is_judged(host)
                and self._ending.next_move(host, asked=self._course.asked) is None
            ):
                self._holdings.release(host)

    async def ask(self) -> bool:
        """Ask, once, for each robots.txt that is due though no URL waits for it."""
        room = min(DUE_ORIGINS_MAX, self._holdings.room)
        if room <= 0:
            return self._holdings.make_room()
        asked = False
        now_s = self._clock.monotonic()
        self._vain = {name: until_s for name, until_s in self._vain.items() if until_s > now_s}
        if len(self._vain) > VAIN_MAX:
            self._vain.clear()
        for one in await self._store.robots_due(self._session, limit=room + len(self._vain)):
            if one.origin in self._vain or one.origin in self._course.asked:
                continue
            host = await self._holdings.hold(one.slot)
            if host is not None and not self._course.stopping:
                self._course.asked.add(one.origin)
                self._gate.ask_by_name(one.origin, host)
                asked = True
        return asked

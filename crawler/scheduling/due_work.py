"""Work that falls due where no queued URL waits for it: robots.txt to fetch, pages to revisit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from crawler.frontier.origin import Origin
from crawler.frontier.pace import NEVER
from crawler.processing.context import CrawlContext
from crawler.scheduling.host_leases import HostLeases
from policies.robots_state import is_due

if TYPE_CHECKING:
    from crawler.processing.recrawl_planner import RecrawlPlanner

VAIN_MAX: Final = 10_000  # asked for without success and remembered; beyond it they are asked again
DUE_ORIGINS_MAX: Final = 256  # taken up together
ROBOTS_VAIN_S: Final = 6 * 3600.0  # one that could not be reached: the longest wait between retries
REVISIT_HOSTS: Final = 64  # taken up in one look
REVISIT_EVERY_S: Final = 5.0  # how often, at most, they are looked for
REVISIT_VAIN_S: Final = 600.0  # a host that was asked and is due still: closed, or out of reach
# The same where workers share the crawl: they release hosts that have nothing to do, so a host that
# was asked may be due again.
REVISIT_VAIN_SHARED_S: Final = 15.0
PLANNED_AT_ONCE: Final = 10_000  # rows looked at for pages without a plan: some 10 ms of the store


class DueRobots:
    """Fetches due robots.txt files once each, and remembers which could not be reached."""

    def __init__(self, crawl: CrawlContext, leases: HostLeases) -> None:
        self._crawl = crawl
        self._frontier = crawl.frontier
        self._leases = leases
        self._vain: dict[str, float] = {}  # those that could not be reached, until when

    def settled(self, origins: Iterable[Origin]) -> None:
        """The robots.txt of these origins have been fetched, or could not be."""
        for origin in origins:
            if origin.wanted:
                origin.wanted = False
                if origin.name in origin.host.out_of_reach:
                    self._vain[origin.name] = self._crawl.clock.monotonic() + ROBOTS_VAIN_S

    def release_idle(self) -> None:
        """Release hosts with nothing to do of which a robots.txt has fallen due, or may have: the
        store knows, also whether it still governs anything."""
        wall_s = self._crawl.clock.wall()
        for host in list(self._frontier.permits):
            if (
                not (host.prefetched or host.busy or host.tickets or host.wanting or host.in_memory)
                and not host.callers
                and (
                    not host.all_known
                    or any(
                        is_due(origin.access, wall_s) for origin in self._frontier.robots.of(host)
                    )
                )
                and not self._leases.is_judged(host)
                and self._frontier.waiting.next_move(host) is None
            ):
                self._leases.release(host)

    async def fetch(self) -> bool:
        """Request a fetch of each due robots.txt. False: none may be fetched."""
        room = min(DUE_ORIGINS_MAX, self._leases.room)
        if room <= 0:
            return self._leases.make_room()
        fetched = False
        self._vain = _still_vain(self._vain, self._crawl.clock.monotonic())
        due = await self._crawl.store.robots_due(self._crawl.session, limit=room + len(self._vain))
        robots = self._frontier.robots
        for one in due:
            known = robots.get(one.origin)
            if one.origin in self._vain or (known is not None and known.wanted):
                continue
            host = await self._leases.lease(one.slot)
            if host is not None and not self._frontier.stopping:
                origin = robots.get(one.origin) or robots.add(one.origin, host)
                origin.wanted = True
                robots.fetch(origin)
                fetched = True
        return fetched


class DuePages:
    """Leases hosts with pages to revisit when nothing else is to be done there. The commits of a
    leased host bring the pages."""

    def __init__(self, crawl: CrawlContext, leases: HostLeases, schedule: RecrawlPlanner) -> None:
        self._crawl = crawl
        self._frontier = crawl.frontier
        self._leases = leases
        self._schedule = schedule
        self._vain: dict[str, float] = {}  # hosts asked, and until when they are skipped
        self._look_s = NEVER  # not looked for before
        self.wake_s: float | None = None
        """When `look` should be called again (monotonic)."""

    @property
    def on(self) -> bool:
        return self._crawl.config.config.revisits

    async def look(self, in_s: float | None) -> None:
        """Lease hosts with due pages; `in_s`: when the next page of a host not leased falls due."""
        self.wake_s = None
        if in_s is None or not self.on:
            return
        now_s = self._crawl.clock.monotonic()
        if in_s <= 0 and now_s >= self._look_s:
            self._look_s = now_s + REVISIT_EVERY_S
            await self.take_up()
        self.wake_s = max(now_s + in_s, self._look_s)

    async def take_up(self) -> bool:
        """Lease hosts with pages that are due. False: none may be requested."""
        if not self.on:
            return False
        room = min(REVISIT_HOSTS, self._leases.room)
        if room <= 0:
            return self._leases.make_room()
        now_s = self._crawl.clock.monotonic()
        self._vain = _still_vain(self._vain, now_s)
        shared = self._crawl.store.shared
        vain_until_s = now_s + (REVISIT_VAIN_SHARED_S if shared else REVISIT_VAIN_S)
        found = False
        due = await self._crawl.store.revisits_due(
            self._crawl.session, limit=room + len(self._vain)
        )
        for slot in due:
            if slot in self._vain or self._frontier.stopping:
                continue
            self._vain[slot] = vain_until_s
            if await self._leases.lease(slot) is not None:
                found = True
        return found

    async def plan(self) -> None:
        """Plan revisits of the pages visited by earlier runs without a plan."""
        after: int | None = 0
        while self.on and after is not None and not self._frontier.stopping:
            pages, after = await self._crawl.store.unplanned(
                self._crawl.session, after=after, limit=PLANNED_AT_ONCE
            )
            plans = {page.id: plan for page in pages if (plan := self._schedule.late(page))}
            if plans:
                await self._crawl.store.plan(self._crawl.session, plans)
        self._frontier.look_for_work()


def _still_vain(vain: dict[str, float], now_s: float) -> dict[str, float]:
    kept = {name: until_s for name, until_s in vain.items() if until_s > now_s}
    return kept if len(kept) <= VAIN_MAX else {}

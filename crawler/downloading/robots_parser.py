"""robots.txt in memory: loaded from the store, and large files parsed one at a time in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from crawler.downloading.robots_exchange import NO_ROOM, NoRoom
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.origin import Origin
from crawler.threads import in_thread
from policies.robots import RuleSet
from policies.robots.file import parsing_cost_s
from policies.robots.syntax import BYTES_MAX
from storage.store import Store

RELOAD_S: Final = 0.003  # what it costs to load and parse a small file that had to leave memory


class RobotsParser:
    """Brings origins into memory and their large files into force. What it waits for is given out
    by `RobotsBudget`; its methods raise FrontierClosedError when the crawl ends meanwhile."""

    def __init__(self, frontier: Frontier, store: Store) -> None:
        self._frontier = frontier
        self._budget = frontier.budget
        self._store = store

    async def load(self, name: str, host: HostQueue) -> Origin:
        """An origin of the host, as the store knows it."""
        origin = self._frontier.robots.get_or_add(name, host)
        await self.prepare(origin)
        return origin

    async def prepare(self, origin: Origin) -> None:
        """Load the origin, and parse the file that governs it, as far as that has not been done."""
        if origin.loaded and origin.unread is None:
            return
        async with origin.parsing:
            place = False
            try:
                if not origin.loaded:
                    # Of hosts with very many origins not even the size of some files is known.
                    place = origin.large or not origin.size_bytes
                    if place:
                        await self.find_room(origin)
                        size_bytes = origin.size_bytes or BYTES_MAX
                        self._budget.take_place(origin, size_bytes, beyond=True)
                    else:  # it had to leave memory, and costs time again
                        async with self._parse_place(origin):
                            pass
                    known = await self._store.robots_get(origin.name)
                    self._frontier.robots.load(origin, known)
                await self._parse(origin)
            finally:
                if place:
                    self._budget.leave_place(origin)

    async def recall(self, origin: Origin) -> None:
        """Load what is to be fetched again: only its successor is parsed."""
        if not origin.loaded:
            known = await self._store.robots_get(origin.name)
            if not origin.loaded:
                origin.recall(known)

    async def prepare_host(self, host: HostQueue) -> None:
        """Load and parse what has not been parsed of a host's robots.txt: each may ask for another
        pace."""
        while host.pace.unread and not host.gone:
            name = next(iter(host.pace.unread))
            origin = self._frontier.robots.get(name)
            if origin is not None and origin.host is host:
                await self.prepare(origin)
            host.pace.unread.discard(name)

    async def find_room(self, origin: Origin, why: NoRoom = NO_ROOM) -> None:
        """Wait until there is room to fetch or load the origin's file."""
        origin.waits_for_room = True
        try:
            if why is NO_ROOM:
                await self._budget.find_place(origin)
            else:
                await self._budget.find_fetch(origin)
        finally:
            origin.waits_for_room = False

    async def parse(self, origin: Origin) -> None:
        """Parse the file that governs the origin, if that has not been done."""
        if origin.unread is not None:
            async with origin.parsing:
                await self._parse(origin)

    async def _parse(self, origin: Origin) -> None:
        while (work := origin.unread) is not None:
            result: RuleSet | Exception
            async with self._parse_place(origin):
                if origin.unread is not work:
                    continue  # there is another file by now
                try:
                    with self._frontier.in_flight.noted(origin.host.slot, origin.name):
                        result = await in_thread(work)
                except Exception as error:  # noqa: BLE001 - what cannot be parsed opens nothing
                    result = error
            if origin.unread is not work:
                continue
            origin.put_off(None)
            if isinstance(result, Exception):
                origin.close_unparsed(result)
            else:
                origin.obey(result)
            self._frontier.robots.measure(origin)

    @contextlib.asynccontextmanager
    async def _parse_place(self, origin: Origin) -> AsyncIterator[None]:
        body = origin.judged_by.body
        cost_s = RELOAD_S if body is None else parsing_cost_s(body) * len(origin.rules.dialect)
        origin.waits_for_room = True
        try:
            await self._budget.wait_for_parse_place(origin, cost_s)
        finally:
            origin.waits_for_room = False
        try:
            yield
        finally:
            self._budget.end_parse(origin, cost_s)

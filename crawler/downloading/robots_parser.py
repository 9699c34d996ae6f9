"""robots.txt in memory: loaded from the store, and large files parsed in a thread."""

from __future__ import annotations

from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.origin import Origin
from crawler.threads import in_thread
from policies.robots import RuleSet
from storage.store import Store


class RobotsParser:
    """Brings origins into memory and their large files into force."""

    def __init__(self, frontier: Frontier, store: Store) -> None:
        self._frontier = frontier
        self._store = store

    async def load(self, name: str, host: HostQueue) -> Origin:
        """An origin of the host, as the store knows it."""
        origin = self._frontier.robots.get_or_add(name, host)
        if not origin.loaded:
            self._frontier.robots.load(origin, await self._store.robots_get(name))
            await self.parse(origin)
        return origin

    async def parse_host(self, host: HostQueue) -> None:
        """Parse what has not been parsed of a host's robots.txt: each may ask for another pace."""
        while host.pace.unread and not host.gone:
            name = next(iter(host.pace.unread))
            origin = self._frontier.robots.get(name)
            if origin is not None and origin.host is host:
                await self.parse(origin)
            host.pace.unread.discard(name)

    async def parse(self, origin: Origin) -> None:
        """Parse the file that governs the origin, if that has not been done."""
        if origin.unread is None:
            return
        async with origin.parsing:
            while (work := origin.unread) is not None:
                result: RuleSet | Exception
                try:
                    with self._frontier.in_flight.noted(origin.host.slot, origin.name):
                        result = await in_thread(work)
                except Exception as error:  # noqa: BLE001 - what cannot be parsed opens nothing
                    result = error
                if origin.unread is not work:
                    continue  # there is another file by now
                origin.put_off(None)
                if isinstance(result, Exception):
                    origin.close_unparsed(result)
                else:
                    origin.obey(result)

"""Origins marked in the store to be judged again: by an earlier run, or after a new config."""

from __future__ import annotations

from typing import Final

from crawler.downloading.robots_parser import RobotsParser
from crawler.frontier.tickets import FrontierClosedError
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.scheduling.host_leases import HostLeases
from crawler.scheduling.rejudging import Rejudging

JUDGED_AT_ONCE: Final = 256  # origins, looked up together


class MarkedOrigins:
    """Leases the hosts of marked origins, a bounded number at a time, and judges their pages. The
    first claim of hosts does not wait for it."""

    def __init__(
        self,
        crawl: CrawlContext,
        committer: Committer,
        leases: HostLeases,
        rejudging: Rejudging,
        parser: RobotsParser,
    ) -> None:
        self._crawl = crawl
        self._committer = committer
        self._leases = leases
        self._rejudging = rejudging
        self._parser = parser
        self._requests = 0  # how often `judge` was called
        self._running = False

    async def judge(self) -> None:
        """Judge all that are marked. Called while it runs, what is marked since counts too."""
        self._requests += 1
        if self._running:
            return
        self._running = True
        try:
            await self._judge()
        finally:
            self._running = False

    async def _judge(self) -> None:
        frontier = self._crawl.frontier
        judged: set[str] = set()  # of the last ones looked up: those whose mark cannot be cleared
        request = 0
        while True:
            if request != self._requests:
                request = self._requests
                judged.clear()
            due = await self._crawl.store.rejudge_due(self._crawl.session, limit=JUDGED_AT_ONCE)
            if request == self._requests and all(one.origin in judged for one in due):
                return
            for one in due:
                if frontier.stopping:
                    return
                if self._leases.room <= 0 and self._leases.make_room():
                    await self._committer.flush()
                if (host := await self._leases.lease(one.slot)) is not None:
                    try:
                        await self._parser.load(one.origin, host)
                    except FrontierClosedError:
                        return
                    await self._rejudging.all(one.origin)
            judged = {one.origin for one in due}

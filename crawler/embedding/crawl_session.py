"""The session of a crawl: fetches on the crawl's own clocks, robots.txt copies and connections."""

from __future__ import annotations

from typing import Self

from crawler.clock import Clock
from crawler.config import Config
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.owned_resource import OwnedResource
from crawler.embedding.remote_requests import RemoteRequests
from crawler.embedding.running import Running
from crawler.embedding.session import PoliteSession


class CrawlSession(PoliteSession):
    """A PoliteSession that fetches through an open `Crawler`; see `Crawler.session`.

    It is open as long as the crawler is. Using it as a context manager is possible, and changes
    nothing.
    """

    def __init__(
        self, config: Config, clock: Clock | None, running: OwnedResource[Running]
    ) -> None:
        super().__init__(config=config, clock=clock)
        self._client = _GateOfCrawl(running)

    async def __aenter__(self) -> Self:
        self._client.get()
        return self


class _GateOfCrawl(OwnedResource[CallerGate | RemoteRequests]):
    """The gate of the crawl that runs now. Closing it changes nothing."""

    def __init__(self, running: OwnedResource[Running]) -> None:
        super().__init__("crawl")
        self._running = running

    def get(self) -> CallerGate:
        """Raises SessionClosed."""
        return self._running.get().gate()

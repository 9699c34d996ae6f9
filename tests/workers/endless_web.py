"""Hosts without an end, for crawls that a test ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, text

POLL_S = 0.02


class Endless:
    """A host: each page links to the next three. The page `/broken` fails at first."""

    def __init__(self) -> None:
        self.broken = True

    def __call__(self, request: ReceivedRequest) -> Reply:
        if request.path == "/robots.txt":
            return text("User-agent: *\nDisallow: /private/\n")
        if request.path == "/broken":
            broken, self.broken = self.broken, False
            return text("no", status=500) if broken else html("Mended")
        n = int(request.path.removeprefix("/") or "0")
        return html(f"Page {n}", f"/{n + 1}", f"/{n + 2}", f"/{n + 3}")


def endless_web(*hosts: str) -> LocalWeb:
    return LocalWeb({host: Endless() for host in hosts})


def requests_since(web: LocalWeb, host: str, from_s: float) -> list[float]:
    """When a host was contacted after a moment."""
    return [one.start_s for one in web.log.requests(host) if one.start_s > from_s]


async def until(happens: Callable[[], object], within_s: float) -> None:
    """Wait until a look at the log of a web finds something."""
    async with asyncio.timeout(within_s):
        while not happens():  # noqa: ASYNC110 - the log wakes nobody
            await asyncio.sleep(POLL_S)

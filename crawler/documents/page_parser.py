"""Parsing of pages without blocking the event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from crawler.clock import Clock
from crawler.documents import page, page_reader
from crawler.fetching.request import LARGE_BYTES, Headers
from crawler.leased_domains import LeasedDomains
from crawler.threads import in_daemon_thread
from policies.url import host_of, registrable_domain

T = TypeVar("T")

# A second thread would wait for the interpreter's lock, and each tree may take 100 MB.
LARGE_AT_ONCE: Final = 1
# Of the time, that large pages of one domain may take: a page may be such that its parser holds the
# interpreter's lock for a third of a second, and the event loop waits.
SHARE_OF_DOMAIN: Final = 0.1


class ParsingBrokenOffError(Exception):
    """The run ends without waiting for this page to be parsed."""


class PageParser:
    """Parses small pages immediately, and large pages in a thread, one at a time.

    A thread helps although it holds the interpreter's lock: `scan` releases it between links, and
    Lexbor builds its tree without the lock.

    Pages of a registrable domain whose large pages took more than SHARE_OF_DOMAIN wait. domains:
    those of the crawl; a single one waits for nobody. Raises ConfigError: the environment names a
    reader that cannot be used.
    """

    def __init__(self, clock: Clock, domains: LeasedDomains) -> None:
        page_reader.name()
        self._clock = clock
        self._domains = domains
        self._free_s: dict[str, float] = {}  # until when domains wait, if that is not over
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._ends: set[asyncio.Timeout] = set()  # of the large pages that wait or are parsed

    def break_off(self) -> None:
        """Wait for none of the large pages that wait or are parsed now: `parse` raises
        ParsingBrokenOffError. A thread cannot be ended; the end of the process does not wait for
        it."""
        for end in self._ends:
            if not end.expired():
                end.reschedule(-math.inf)

    async def parse(
        self,
        url: str,
        headers: Headers,
        body: bytes,
        *,
        tokens: Sequence[str],
        markup_bytes_max: int = page.MARKUP_BYTES_MAX,
        fragments: bool = False,
    ) -> page.ParsedPage:
        """Parse a response as `page.parse_page` does."""

        def parse() -> page.ParsedPage:
            return page.parse_page(
                url,
                headers,
                body,
                tokens=tokens,
                markup_bytes_max=markup_bytes_max,
                fragments=fragments,
            )

        def parse_with_anchors() -> page.ParsedPage:
            parsed = parse()
            parsed.page_links.read_anchors()
            return parsed

        if len(body) <= LARGE_BYTES:
            return parse()
        return await self.beside(url, parse_with_anchors)

    async def beside(self, url: str, work: Callable[[], T]) -> T:
        """Run `work()` on a large page beside the event loop, after that on those before it."""
        domain = registrable_domain(host_of(url))
        lock = self._locks.setdefault(domain, asyncio.Lock())
        end = asyncio.timeout(None)
        try:
            async with end:
                self._ends.add(end)
                async with lock:
                    await self._wait(domain)
                    async with self._large:
                        return await self._timed(domain, work)
        except TimeoutError as error:
            if not end.expired():
                raise
            raise ParsingBrokenOffError from error
        finally:
            self._ends.discard(end)

    async def _wait(self, domain: str) -> None:
        """Until the large pages of the domain have taken no more than their share."""
        until_s = self._free_s.get(domain)
        if until_s is not None and self._domains.several:
            await self._clock.sleep_until(until_s)

    async def _timed(self, domain: str, work: Callable[[], T]) -> T:
        began_s = self._clock.monotonic()
        try:
            return await in_daemon_thread(work)
        finally:
            now_s = self._clock.monotonic()
            self._free_s = {name: at_s for name, at_s in self._free_s.items() if at_s > now_s}
            self._free_s[domain] = now_s + (now_s - began_s) * (1 / SHARE_OF_DOMAIN - 1)

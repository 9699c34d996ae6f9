"""Parsing of pages without blocking the event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from crawler.documents import page
from crawler.fetching.request import Headers
from crawler.threads import in_daemon_thread

T = TypeVar("T")

# Pages up to this size are parsed on the event loop, in a few milliseconds.
LARGE_BYTES: Final = 262_144
# A second thread would wait for the interpreter's lock, and each tree may take 100 MB.
LARGE_AT_ONCE: Final = 1


class ParsingBrokenOffError(Exception):
    """The run ends without waiting for this page to be parsed."""


class PageParser:
    """Parses small pages immediately, and large pages in a thread, one at a time.

    A thread helps although it holds the interpreter's lock: `scan` releases it between links, and
    Lexbor builds its tree without the lock.
    """

    def __init__(self) -> None:
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
        return await self.beside(parse_with_anchors)

    async def beside(self, work: Callable[[], T]) -> T:
        """`work()` on a large page, beside the event loop, after that on those before it."""
        end = asyncio.timeout(None)
        try:
            async with end:
                self._ends.add(end)
                async with self._large:
                    return await in_daemon_thread(work)
        except TimeoutError as error:
            if not end.expired():
                raise
            raise ParsingBrokenOffError from error
        finally:
            self._ends.discard(end)

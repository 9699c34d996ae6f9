"""Parsing of pages without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from crawler.documents import page
from crawler.fetching.request import Headers
from crawler.threads import in_thread

# Pages up to this size are parsed on the event loop, in a few milliseconds.
LARGE_BYTES: Final = 262_144
# A second thread would wait for the interpreter's lock, and each tree may take 100 MB.
LARGE_AT_ONCE: Final = 1


class PageParser:
    """Parses small pages immediately, and large pages in a thread, one at a time.

    A thread helps although it holds the interpreter's lock: `scan` releases it between links, and
    Lexbor builds its tree without the lock.
    """

    def __init__(self) -> None:
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

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
        async with self._large:
            return await in_thread(parse_with_anchors)

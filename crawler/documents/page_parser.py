"""Pages are read where they arrive, at once; large ones beside the event loop, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from crawler.documents import page
from crawler.fetching.request import Headers
from crawler.threads import in_thread

# Reading so much takes about 1 ms, 6 ms if it needs a tree; a thread costs 0.1 ms and a copy of
# nothing. Of pages on the web one in a hundred is larger.
LARGE_BYTES: Final = 262_144
# A second one would wait for the interpreter's lock; and the tree of each may take 100 MB.
LARGE_AT_ONCE: Final = 1


class PageParser:
    """What `page.read` does, so that everybody else goes on meanwhile.

    A thread helps because no step of the reading holds the interpreter's lock for long: `scan` goes
    from link to link, and Lexbor builds its tree without the lock. While 5 MB with 11,000 links are
    read, which takes 60 ms, the loop is late by 5 to 10 ms instead.
    """

    def __init__(self) -> None:
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    async def read(
        self,
        url: str,
        headers: Headers,
        body: bytes,
        *,
        tokens: Sequence[str],
        markup_bytes_max: int = page.MARKUP_BYTES_MAX,
        fragments: bool = False,
    ) -> page.ParsedPage:
        look = partial(
            page.parse_page,
            url,
            headers,
            body,
            tokens=tokens,
            markup_bytes_max=markup_bytes_max,
            fragments=fragments,
        )
        if len(body) <= LARGE_BYTES:
            return look()
        async with self._large:
            return await in_thread(_read_whole, look)


def _read_whole(look: Callable[[], page.ParsedPage]) -> page.ParsedPage:
    """With the anchor texts, which would else be read when they are asked for."""
    read = look()
    read.gathered.read_anchors()
    return read

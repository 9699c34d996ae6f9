"""Streams the body of a sitemap, or of a seed that may turn out to be one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import structs

from crawler.documents.sniff import SNIFF_BYTES, DocumentKind, sniff
from crawler.faults import contained
from crawler.fetching.request import Answer, BodyReader, Head, OversizeError
from policies.scope import Skip
from storage.store import Link, Queued

if TYPE_CHECKING:
    from crawler.documents.sitemap import SitemapParser
    from crawler.documents.sitemap_xml import Entry

LINKS_PER_ADD: Final = 1_000  # in one transaction
# A large sitemap takes longer than a page: up to this (50 MB at 175 KB/s), but beyond the time of
# any request only as long as it comes at this rate. One that drips, or never begins, holds its host
# and the end of the crawl no longer than a page does.
TIMEOUT_S: Final = 300.0
BYTES_PER_S_MIN: Final = 2_000

_XML: Final = ("application/xml", "text/xml", "application/gzip", "application/x-gzip")
_PERHAPS: Final = ("text/plain", "application/octet-stream", "")  # where text may list URLs


class SitemapListing(Protocol):
    """Receives the entries of a sitemap."""

    def child(self, entry: Entry, queued: Queued) -> Link | None:
        """The link to a sitemap that an index lists; None: it is left out, and counted."""
        ...

    def page(self, entry: Entry, queued: Queued) -> Link | None:
        """The link to a page; None: it is left out, and counted."""
        ...

    def skip(self, reason: str, count: int = 1) -> None:
        """Count excluded entries."""
        ...

    async def add(self, links: Sequence[Link], referrer: int) -> None:
        """Queue links; they are committed when this returns."""
        ...


class SitemapReading:
    """One sitemap as its body comes: a `BodyReader` and `BodySink` that passes on what it lists."""

    def __init__(self, lists: SitemapListing, queued: Queued) -> None:
        self._lists = lists
        self._queued = queued
        self._links: list[Link] = []
        self._parser: SitemapParser | None = None
        self._faults = 0  # entries that could not be read, by a fault of our own
        self.urls = 0

    def wants_body(self, head: Head) -> bool:
        return 200 <= head.status < 300

    def sink(self, head: Head) -> SitemapReading:
        return self

    @property
    def timeout_s(self) -> float:
        return min(self.read_bytes / BYTES_PER_S_MIN, TIMEOUT_S)

    kept_bytes: Final = 0

    def _parsed(self) -> SitemapParser:
        if self._parser is None:
            from crawler.documents.sitemap import SitemapParser

            self._parser = SitemapParser()
        return self._parser

    @property
    def kind(self) -> DocumentKind | None:
        return self._parser.kind if self._parser else None

    @property
    def problem(self) -> str | None:
        if self._parser is None:
            return "its body was not read"
        if self._faults:
            return f"{self._faults} of its entries could not be processed (internal error)"
        return self._parser.problem

    @property
    def read_bytes(self) -> int:
        return self._parser.read_bytes if self._parser else 0

    async def take(self, piece: bytes) -> bool:
        parser = self._parsed()
        for entries in parser.feed(piece):
            await self._list(entries)
        return parser.wants_more

    async def end(self) -> None:
        await self._end(self._parsed(), broken_off=False)

    async def break_off(self) -> None:
        """The transfer has failed: read what has arrived, and count its complete URLs."""
        if self._parser is not None:
            await self._end(self._parser, broken_off=True)

    async def _end(self, parser: SitemapParser, *, broken_off: bool) -> None:
        for entries in parser.close(broken_off=broken_off):
            await self._list(entries)
        if parser.overlong:
            self._lists.skip(Skip.MAX_URL_BYTES, parser.overlong)
        await self._pass_on()

    async def _list(self, entries: list[Entry]) -> None:
        for entry in entries:
            one = self._lists.child if entry.sitemap else self._lists.page
            try:
                if (link := one(entry, self._queued)) is not None:
                    self._links.append(link)
            except Exception as error:  # noqa: BLE001 - the others are listed all the same
                if not self._faults:  # a file lists up to 50,000
                    contained(f"reading an entry of {self._queued.url}", error)
                self._faults += 1
        if len(self._links) >= LINKS_PER_ADD:
            await self._pass_on()
        else:
            await asyncio.sleep(0)  # others have waited some milliseconds

    async def _pass_on(self) -> None:
        links, self._links = self._links, []
        self.urls += len(links)
        if links:
            await self._lists.add(links, self._queued.id)


class SeedReading:
    """The body of a seed, which may turn out to be a sitemap or a feed: a `BodyReader` and
    `BodySink` that keeps a page's body, up to its bound, and reads a sitemap's."""

    def __init__(
        self,
        lists: SitemapListing,
        queued: Queued,
        *,
        reader: BodyReader,
        bytes_max: int,
    ) -> None:
        self._lists = lists
        self._queued = queued
        self._reader = reader  # of a page
        self._bytes_max = bytes_max
        self._known = False
        self._is_page = True
        self._text = False
        self._pieces: list[bytes] = []
        self._size = 0
        self.reading: SitemapReading | None = None

    def wants_body(self, head: Head) -> bool:
        """Return whether the body is wanted: also of types that only a sitemap may have."""
        self._is_page = self._reader.wants_body(head)
        kind = (head.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        self._text = kind in _PERHAPS
        return self._is_page or (
            200 <= head.status < 300 and (self._text or kind in _XML or kind.endswith("+xml"))
        )

    def sink(self, head: Head) -> SeedReading | None:
        return self if 200 <= head.status < 300 else None

    @property
    def timeout_s(self) -> float | None:
        return None if self.reading is None else self.reading.timeout_s

    @property
    def kept_bytes(self) -> int:
        return self._size if self.reading is None and self._is_page else 0

    def as_page(self, answer: Answer) -> Answer:
        """The answer with the body that was kept for it, if it was wanted as a page's."""
        if not answer.body_read or not self._known:
            return answer  # of a status or type that never came here
        body = b"".join(self._pieces) if self._is_page else b""
        return structs.replace(answer, body=body, body_read=self._is_page)

    async def take(self, piece: bytes) -> bool:
        if self.reading is not None:
            return await self.reading.take(piece)
        self._pieces.append(piece)
        self._size += len(piece)
        if not self._known and self._size >= SNIFF_BYTES:
            return await self._tell()
        if self._size > self._bytes_max:
            raise OversizeError
        return self._is_page or not self._known

    async def end(self) -> None:
        if not self._known:
            await self._tell()
        if self.reading is not None:
            await self.reading.end()

    async def break_off(self) -> None:
        """End a broken transfer as `SitemapReading` does, if it is a sitemap or feed."""
        if not self._known:
            await self._tell()
        if self.reading is not None:
            await self.reading.break_off()

    async def _tell(self) -> bool:
        self._known = True
        data = b"".join(self._pieces)
        kind = sniff(data[:SNIFF_BYTES])
        if kind is None or (kind is DocumentKind.TEXT and not self._text):
            return self._is_page
        self._pieces = []
        self.reading = SitemapReading(self._lists, self._queued)
        return await self.reading.take(data)

"""Sitemaps and feeds in a crawl: which are read, and what becomes of what they list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from crawler.clock import Clock
from crawler.config.effective import Effective
from crawler.documents.sniff import SNIFF_BYTES, Kind, sniff
from crawler.fetching.request import REDIRECT_STATUSES, Answer, Head, OversizeError
from policies import robots
from policies.listing import frontier_priority
from policies.scope import Scope, Skip
from policies.url import canonical, host_of, robots_url
from storage.base import Completed, Link, Plan, Queued, SitemapRead

if TYPE_CHECKING:
    from crawler.documents.sitemap import SitemapParser
    from crawler.documents.sitemap_xml import Entry

# Large sites name some hundreds in their robots.txt; the file itself has room for 20,000.
NAMED_MAX: Final = 1_000
# Below the one that robots.txt names: an index of indexes, and a redirect on the way to each. The
# protocol knows one level (sitemaps.org: an index may not list indexes).
NESTING_MAX: Final = 4
# Queued by indexes of one host in a while: as many as one index may list (sitemaps.org). The while
# is shorter than what lies between two readings of an index, however long a crawl lives.
CHILDREN_MAX: Final = 50_000
CHILDREN_WHILE_S: Final = 43_200.0
HOSTS_COUNTED: Final = 10_000  # for that; beyond it the count begins anew
LINKS_PER_ADD: Final = 1_000  # in one transaction
# A sitemap is read again when it is named anew after so long; a robots.txt is asked for as often.
READ_AGAIN_S: Final = 86_400.0
# 50 MB at 175 KB/s, and the time that the store takes for what they list.
TIMEOUT_S: Final = 300.0

_XML: Final = ("application/xml", "text/xml", "application/gzip", "application/x-gzip")
_PERHAPS: Final = ("text/plain", "application/octet-stream", "")  # where text may list URLs


class Sitemaps:
    """Decides what is read, and hands on what is listed, in bounded pieces. `add(links, referrer)`
    queues and commits; `skip(reason, count)` counts what is left out."""

    def __init__(
        self,
        effective: Effective,
        *,
        clock: Clock,
        scope: Scope,
        skip: Callable[[str, int], None],
        add: Callable[[Sequence[Link], int], Awaitable[Completed]],
    ) -> None:
        self._effective = effective
        self._clock = clock
        self._scope = scope
        self._children: dict[str, int] = {}  # by host, in this while
        self._while_ends_s = 0.0
        self.skip = skip
        self.add = add

    def wanted(self, host: str) -> bool:
        """Are sitemaps read there? What they list is one link away from a seed."""
        config = self._effective.config
        return config.crawl.max_depth >= 1 and config.site(host).scope.sitemaps

    def named(self, origin: str, body: bytes) -> Sequence[Link]:
        """The sitemaps that an origin's robots.txt names, wherever they are; none if the origin is
        not ours: a sitemap on another host does not bring that host's own."""
        if b"sitemap" not in body.lower():
            return ()
        host = host_of(origin + "/")
        if not self.wanted(host) or self._is_outside(origin + "/", host):
            return ()
        links = []
        found = robots.parse(body).sitemaps
        for text in found[:NAMED_MAX]:
            url = canonical(text, robots_url(origin))
            if url is None:
                self.skip(Skip.UNPARSABLE, 1)
            elif (link := self.link(url, depth=0, anywhere=True)) is not None:
                links.append(link)
        if len(found) > NAMED_MAX:
            self.skip(Skip.MANY_SITEMAPS, len(found) - NAMED_MAX)
        return links

    def link(
        self, url: str, *, depth: int, anywhere: bool, lastmod_at: float | None = None
    ) -> Link | None:
        """A link to a sitemap, so many levels below the one that was named; None: it is not read.

        `anywhere`: also on a host that is not ours. `lastmod_at`: when it changed, as is said."""
        host = host_of(url)
        skip = self._scope.judge(url, host=host, depth=0, seed=True)
        if skip is not None and not (anywhere and skip is Skip.OUTSIDE):
            self.skip(skip, 1)
            return None
        if depth > NESTING_MAX:
            self.skip(Skip.MANY_SITEMAPS, 1)
            return None
        if not self.wanted(host):
            self.skip(Skip.SITEMAPS, 1)
            return None
        now_s = self._clock.wall()
        again = now_s - READ_AGAIN_S if lastmod_at is None else min(lastmod_at, now_s)
        if self._effective.config.site(host).revisit.on:
            again = min(again, now_s - 2 * READ_AGAIN_S)  # its plan has it read before that
        slot = self._effective.config.slot_of(host)
        return Link(url=url, slot=slot, host=host, depth=depth, sitemap=True, again_before=again)

    def _is_outside(self, url: str, host: str) -> bool:
        return self._scope.judge(url, host=host, depth=0) is Skip.OUTSIDE

    def child(self, entry: Entry, queued: Queued) -> Link | None:
        """A sitemap that an index lists: of the index's own host, or of ours."""
        url = canonical(entry.loc, queued.url)
        if url is None:
            self.skip(Skip.UNPARSABLE, 1)
            return None
        host = host_of(queued.url)
        link = self.link(
            url,
            depth=queued.depth + 1 if queued.sitemap else 1,
            anywhere=host_of(url) == host,
            lastmod_at=entry.listing.lastmod_at,
        )
        if link is None:
            return None
        now_s = self._clock.monotonic()
        if len(self._children) > HOSTS_COUNTED or now_s >= self._while_ends_s:
            self._children.clear()
            self._while_ends_s = now_s + CHILDREN_WHILE_S
        self._children[host] = count = self._children.get(host, 0) + 1
        if count > CHILDREN_MAX:
            self.skip(Skip.MANY_SITEMAPS, 1)
            return None
        return link

    def page(self, entry: Entry, queued: Queued) -> Link | None:
        """A page that a sitemap or a feed lists: one link away from a seed, if it is ours."""
        url = canonical(entry.loc, queued.url)
        if url is None:
            self.skip(Skip.UNPARSABLE, 1)
            return None
        host = host_of(url)
        url = self._scope.admit(url, host=host)
        if (skip := self._scope.judge(url, host=host, depth=1)) is not None:
            self.skip(skip, 1)
            return None
        listing = entry.listing
        return Link(
            url=url,
            slot=self._effective.config.slot_of(host),
            host=host,
            depth=1,
            priority=frontier_priority(listing.priority),
            listing=listing if listing.is_said else None,
        )

    def reading(self, queued: Queued) -> Reading:
        return Reading(self, queued)

    def sniffing(
        self, queued: Queued, *, wants: Callable[[Head], bool], bytes_max: int
    ) -> Sniffing:
        return Sniffing(self, queued, wants=wants, bytes_max=bytes_max)

    def outcome(
        self,
        queued: Queued,
        slot: str,
        answer: Answer,
        reading: Reading | None,
        plan: Plan | None = None,
    ) -> SitemapRead:
        """What is recorded of one that was answered."""
        links: list[Link] = []
        error = None if reading is None else reading.problem
        if answer.status in REDIRECT_STATUSES:
            url = canonical(answer.headers.get("Location", ""), queued.url)
            target = None
            if url and answer.headers.get("Location"):
                target = self.link(url, depth=queued.depth + 1, anywhere=True)
            if target is None:
                error = "it redirects to where it is not read"
            else:
                links.append(target)
        elif not 200 <= answer.status < 300:
            error = f"the server answered {answer.status}"
        return SitemapRead(
            id=queued.id,
            slot=slot,
            status=answer.status,
            fetched_at=self._clock.wall(),
            kind=reading.kind if reading is not None else None,
            body_bytes=reading.read_bytes if reading is not None else 0,
            urls=reading.urls if reading is not None else 0,
            error=error,
            links=links,
            plan=plan,
            again=queued.before is not None,
        )


class Reading:
    """One sitemap as its body comes: a `BodySink` that hands on what it lists."""

    timeout_s: float | None = TIMEOUT_S

    def __init__(self, sitemaps: Sitemaps, queued: Queued) -> None:
        self._sitemaps = sitemaps
        self._queued = queued
        self._links: list[Link] = []
        self._parser: SitemapParser | None = None
        self.urls = 0

    def _parsed(self) -> SitemapParser:
        if self._parser is None:
            from crawler.documents.sitemap import SitemapParser  # brings lxml

            self._parser = SitemapParser()
        return self._parser

    @property
    def kind(self) -> Kind | None:
        return self._parser.kind if self._parser else None

    @property
    def problem(self) -> str | None:
        return self._parser.problem if self._parser else "its body was not read"

    @property
    def read_bytes(self) -> int:
        return self._parser.read_bytes if self._parser else 0

    async def take(self, piece: bytes) -> bool:
        parser = self._parsed()
        for entries in parser.feed(piece):
            await self._list(entries)
        return parser.wants_more

    async def end(self) -> None:
        for entries in self._parsed().close():
            await self._list(entries)
        await self._hand_on()

    async def _list(self, entries: list[Entry]) -> None:
        for entry in entries:
            one = self._sitemaps.child if entry.sitemap else self._sitemaps.page
            if (link := one(entry, self._queued)) is not None:
                self._links.append(link)
        if len(self._links) >= LINKS_PER_ADD:
            await self._hand_on()
        else:
            await asyncio.sleep(0)  # others have waited some milliseconds

    async def _hand_on(self) -> None:
        links, self._links = self._links, []
        self.urls += len(links)
        if links:
            await self._sitemaps.add(links, self._queued.id)


class Sniffing:
    """The body of a seed, which may turn out to be a sitemap or a feed: a `BodySink` that keeps a
    page's body, up to its bound, and reads a sitemap's."""

    def __init__(
        self, sitemaps: Sitemaps, queued: Queued, *, wants: Callable[[Head], bool], bytes_max: int
    ) -> None:
        self._sitemaps = sitemaps
        self._queued = queued
        self._wants = wants  # is there anyone to read it as a page?
        self._bytes_max = bytes_max
        self._known = False
        self._is_page = True
        self._text = False
        self._pieces: list[bytes] = []
        self._size = 0
        self.reading: Reading | None = None

    def wants_body(self, head: Head) -> bool:
        """Also of types that only a sitemap may have."""
        self._is_page = self._wants(head)
        kind = (head.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        self._text = kind in _PERHAPS
        return self._is_page or (
            200 <= head.status < 300 and (self._text or kind in _XML or kind.endswith("+xml"))
        )

    def into(self, head: Head) -> Sniffing | None:
        return self if 200 <= head.status < 300 else None

    @property
    def timeout_s(self) -> float | None:
        return None if self.reading is None else self.reading.timeout_s

    def as_page(self, answer: Answer) -> Answer:
        """The answer with the body that was kept for it, if it was wanted as a page's."""
        if not answer.body_read or not self._known:
            return answer  # of a status or type that never came here
        body = b"".join(self._pieces) if self._is_page else b""
        return replace(answer, body=body, body_read=self._is_page)

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

    async def _tell(self) -> bool:
        self._known = True
        data = b"".join(self._pieces)
        kind = sniff(data[:SNIFF_BYTES])
        if kind is None or (kind is Kind.TEXT and not self._text):
            return self._is_page
        self._pieces = []
        self.reading = self._sitemaps.reading(self._queued)
        return await self.reading.take(data)

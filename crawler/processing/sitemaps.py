"""Sitemaps and feeds in a crawl: which are read, and how their entries are queued."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from crawler.fetching.request import REDIRECT_STATUSES, Answer, BodyReader
from crawler.frontier.origin import LARGE_BYTES, Origin
from crawler.processing.context import CrawlContext
from crawler.processing.sitemap_body import SeedReading, SitemapReading
from crawler.threads import in_thread
from policies import robots
from policies.listing import frontier_priority
from policies.scope import Skip
from policies.url import canonical, host_of, path_of, robots_url, same_host
from storage.store import Link, Plan, Queued, SitemapRead

if TYPE_CHECKING:
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
# A sitemap is read again if it is named again after this time, the usual lifetime of a robots.txt.
READ_AGAIN_S: Final = 86_400.0
# Many sites redirect what they do not have to their home page, a login or an error page. Read as a
# sitemap, such a page would be lost as a page.
_LIKE_SITEMAP: Final = re.compile(r"sitemap|\.(?:xml|txt|gz)\Z", re.IGNORECASE)


class Sitemaps:
    """Decides which sitemaps are read, and queues what they list, in bounded pieces."""

    def __init__(self, crawl: CrawlContext) -> None:
        self._config = crawl.config
        self._clock = crawl.clock
        self._scope = crawl.scope
        self._store = crawl.store
        self._frontier = crawl.frontier
        self._children: dict[str, int] = {}  # by host, in this while
        self._while_ends_s = 0.0

    def skip(self, reason: str, count: int = 1) -> None:
        """Count excluded entries."""
        self._frontier.buffer.skip(reason, count)

    async def add(self, links: Sequence[Link], referrer: int) -> None:
        """Queue what a sitemap lists; it is committed when this returns."""
        self._frontier.links_added(await self._store.add(links, referrer=referrer))

    def wanted(self, host: str) -> bool:
        """Return whether sitemaps of this host are read. Entries are one link away from a seed."""
        config = self._config.config
        return config.crawl.max_depth >= 1 and config.site(host).scope.sitemaps

    async def of_origin(self, origin: Origin) -> Sequence[Link]:
        """The sitemaps to read for an origin: those that its robots.txt names, on any host. If one
        was fetched, or does not exist, and names none: the paths of `scope.sitemap_paths` that it
        allows. An origin out of scope brings none, so that a sitemap on another host does not bring
        that host's own."""
        name, body = origin.name, origin.judged_by.body or b""
        host = host_of(name + "/")
        if not self.wanted(host) or self._is_outside(name + "/", host):
            return ()
        found: Sequence[str] = ()
        if b"sitemap" in body.lower():
            if len(body) > LARGE_BYTES:
                found = await in_thread(_named_in, body)
            else:
                found = _named_in(body)
        if not found and origin.answered:
            policy = origin.policy
            paths = self._config.config.site(host).scope.sitemap_paths
            found = [path for path in paths if policy is None or policy.allowed(path)]
        links = []
        for text in found[:NAMED_MAX]:
            url = canonical(text, robots_url(name))
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
        if self._config.config.site(host).revisit.on:
            again = min(again, now_s - 2 * READ_AGAIN_S)  # its plan has it read before that
        slot = self._config.config.slot_of(host)
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
            anywhere=same_host(host_of(url), host),
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
            slot=self._config.config.slot_of(host),
            host=host,
            depth=1,
            priority=frontier_priority(listing.priority),
            listing=listing,
        )

    def reading(self, queued: Queued) -> SitemapReading:
        return SitemapReading(self, queued)

    def sniffing(self, queued: Queued, *, reader: BodyReader, bytes_max: int) -> SeedReading:
        return SeedReading(self, queued, reader=reader, bytes_max=bytes_max)

    def outcome(
        self,
        queued: Queued,
        slot: str,
        answer: Answer,
        reading: SitemapReading | None,
        plan: Plan | None = None,
    ) -> SitemapRead:
        """The outcome of a sitemap that was answered."""
        links: list[Link] = []
        error = None if reading is None else reading.problem
        if answer.status in REDIRECT_STATUSES:
            url = canonical(answer.headers.get("Location", ""), queued.url)
            target = None
            error = "it redirects to a URL that is not read as a sitemap"
            if url and not self._may_lead_to(url, queued):
                error = "it redirects to something that does not look like a sitemap"
            elif url and answer.headers.get("Location"):
                target = self.link(url, depth=queued.depth + 1, anywhere=True)
            if target is not None:
                error = None
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

    def _may_lead_to(self, target: str, queued: Queued) -> bool:
        """Whether a redirect may lead from a sitemap to this one; strictly for a usual path that no
        site has named."""
        usual = self._config.config.site(host_of(queued.url)).scope.sitemap_paths
        if queued.depth == 0 and path_of(queued.url) in usual:
            return _LIKE_SITEMAP.search(path_of(target).partition("?")[0]) is not None
        return path_of(target) != "/"


def _named_in(body: bytes) -> Sequence[str]:
    return robots.parse(body).sitemaps

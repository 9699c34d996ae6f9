"""Turns a complete answer into the recorded outcome: its metadata, and its links."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import structs

from crawler.documents.crawled_page import CrawledPage, crawled_page
from crawler.documents.links import PageLink
from crawler.documents.page import ParsedPage
from crawler.documents.page_parser import PageParser
from crawler.fetching.request import REDIRECT_STATUSES, Answer
from crawler.operator_commands import encode, scope_of_seeds
from crawler.processing import admission, page_requisites, stored_links
from crawler.processing.context import CrawlContext, PageRequest
from crawler.processing.link_filter import LinkFilter
from crawler.processing.recrawl_planner import RecrawlPlanner
from crawler.processing.seen_links import SeenLinks
from crawler.processing.sitemaps import Sitemaps
from policies.declarations import NONE, Usage
from policies.indexing import UNRESTRICTED, Directives, from_header, from_meta
from policies.scope import CUTS, HOPS_MAX, Skip
from policies.url import canonical, host_of, origin_of
from storage.store import Link, Looked, Queued, Visited

# Judging new links takes 3 µs each if their hosts are known, and 50 if each is of another: after so
# many it is checked whether JUDGING_S are over, and others have their turn.
LINKS_AT_ONCE: Final = 50
JUDGING_S: Final = 0.002


class PageOutcomes:
    """Makes a `Visited` of each complete answer. Counts the links that scope leaves out."""

    def __init__(
        self,
        crawl: CrawlContext,
        seen: SeenLinks,
        schedule: RecrawlPlanner,
        sitemaps: Sitemaps,
    ) -> None:
        self._crawl = crawl
        self._config = crawl.config
        self._clock = crawl.clock
        self._robots = crawl.frontier.robots
        self._buffer = crawl.frontier.buffer
        self._scope = crawl.scope
        self._sinks = crawl.sinks
        self._links = crawl.link_filter
        self._seen = seen
        self._schedule = schedule
        self._sitemaps = sitemaps
        self._pages = PageParser(crawl.clock, crawl.frontier.permits.limits.domains)

    def break_off(self) -> None:
        """Wait for no large page: `read` raises ParsingBrokenOffError."""
        self._pages.break_off()

    async def read(
        self, asked: PageRequest, answer: Answer, redirect_url: str | None
    ) -> tuple[Visited, ParsedPage | None, Usage]:
        """A complete answer, which redirects to `redirect_url`, if anywhere: what it says of
        itself, where it leads."""
        queued, name, tokens = asked.queued, asked.name, asked.site.tokens
        title: str | None = None
        read: ParsedPage | None = None
        found: list[Link] = []
        needed: page_requisites.Needed | None = None
        cut: list[str] = []
        content_type = answer.headers.get("Content-Type")
        body = UNRESTRICTED
        if "X-Robots-Tag" in answer.headers:
            directives = from_header(answer.headers.getall("X-Robots-Tag"), tokens)
        else:
            directives = UNRESTRICTED
        if redirect_url is not None:
            found = self._redirect(queued, redirect_url)
        elif (queued.seed and queued.hops) or self._scope.is_lead(queued.url):
            found = await self._arrive(queued)
        if 200 <= answer.status < 300:
            if not self._scope.wants_type(content_type, host=name):
                self._buffer.skip(Skip.CONTENT_TYPE)
            read = await self._pages.parse(
                queued.url,
                answer.headers,
                answer.body,
                tokens=tokens,
                markup_bytes_max=asked.site.fetch.max_markup_bytes,
                fragments=self._config.config.storage.fragments,
            )
            title = read.title
            directives = read.directives  # of its header, too
            if directives.unavailable_at is not None:
                body = from_meta(read.metas, tokens)
            if self._links is None and self._follows(asked):
                found += await self._follow(queued, read, directives)
            for reason, count in read.skipped.items():
                self._buffer.skip(reason, count)
                if reason in CUTS:
                    cut.append(reason)
            if page_requisites.wanted(self._config, self._sinks):
                needed = await page_requisites.needed(
                    queued, name, answer, directives, self._config, self._sinks, self._pages
                )
            if needed is not None:
                found += self._requisites(queued, needed, cut)
        elif redirect_url is None and answer.status in REDIRECT_STATUSES:
            for reason, count in stored_links.bad_redirect(answer).skipped.items():
                self._buffer.skip(reason, count)
        usage = stored_links.usage_of(answer, read, self._robots.get(origin_of(queued.url)))
        now_s = round(self._clock.wall(), 3)  # as the store keeps it: sinks say the same
        if directives is not UNRESTRICTED:
            directives = directives.at(now_s)
        links = self._stored_links(asked, answer, read, redirect_url, needed)
        outcome = Visited(
            id=queued.id,
            slot=asked.host.slot,
            status=answer.status,
            fetched_at=now_s,
            content_type=content_type,
            body_bytes=len(answer.body) if answer.body_read else 0,
            elapsed_s=answer.ended_s - answer.started_s,
            redirect_url=redirect_url,
            title=title or None,
            indexable=directives.index,
            followable=directives.follow,
            archivable=directives.archive,
            ungoverned=asked.passed.ungoverned,
            links=found,
            plan=self._schedule.plan(queued, answer, body, fetched_at=now_s),
            again=queued.before is not None,
            canonical_url=stored_links.canonical_url(read),
            body_hash=stored_links.body_hash(answer),
            usage=None if usage is NONE else str(usage) or None,
            cut=" ".join(sorted(cut)) or None if cut else None,
            outlinks=links.outlinks,
            malformed=links.malformed,
            pointers=links.pointers,
            elements=links.elements,
            looked=links.looked,
        )
        if self._links is not None and read is not None and self._follows(asked):
            page = crawled_page(queued, answer, outcome, read, usage, links=True)
            found += await self._choose(self._links, queued, read, page)
            outcome = structs.replace(outcome, links=found)
        return outcome, read, usage

    def _stored_links(
        self,
        asked: PageRequest,
        answer: Answer,
        read: ParsedPage | None,
        redirect_url: str | None,
        needed: page_requisites.Needed | None,
    ) -> stored_links.Kept:
        """Return the links of the page to store besides those to be followed, as configured."""
        if asked.external:
            return stored_links.Kept(looked=admission.looked(self._config.config))
        wanted = stored_links.wanted(self._config.config, asked.name)
        if needed is not None:
            wanted |= Looked.REQUISITES
        if not wanted:
            return stored_links.NOTHING
        return stored_links.links_of(
            answer,
            read,
            redirect_url,
            {} if needed is None else needed.rels,
            looked=wanted,
            admit=self._scope.admit,
            fits=self._fits,
        )

    def redirect_url(self, answer: Answer) -> str | None:
        """Return where an answer with the status of a redirect leads, as it is stored: without what
        the config drops of a query."""
        if not (location := answer.headers.get("Location")):
            return None
        target = canonical(location, answer.url)
        return None if target is None else self._scope.admit(target, host=host_of(target))

    def _fits(self, url: str) -> bool:
        """Whether it is short enough to be visited."""
        return len(url) <= stored_links.URL_CHARS_MAX or (
            len(url) <= self._config.config.site(host_of(url)).scope.max_url_bytes
        )

    def _requisites(
        self, queued: Queued, needed: page_requisites.Needed, cut: list[str]
    ) -> list[Link]:
        """Links to what the page needs to be shown, of the same depth. What is left out is counted,
        and noted in `cut`."""
        too_deep = queued.requisite and queued.requisite_depth >= page_requisites.DEPTH_MAX
        beyond = (len(needed.rels) if too_deep else 0) + (not needed.whole)
        if beyond:
            self._buffer.skip(Skip.MANY_REQUISITES, beyond)
            cut.append(Skip.MANY_REQUISITES)
        if too_deep:
            return []
        found: list[Link] = []
        depth = queued.requisite_depth + 1 if queued.requisite else 0
        for url in needed.rels:
            # Remembered apart: what scope leaves out as a link may be needed all the same.
            if self._seen.new(f"requisite {url}", queued.depth):
                link = self._link(
                    url, depth=queued.depth, queued=queued, requisite=True, requisite_depth=depth
                )
                if link is not None:
                    found.append(link)
        return found

    def _redirect(self, queued: Queued, target: str) -> list[Link]:
        """A redirect is a link of the same depth; that of a seed may lead to any host when the seed
        is first visited. Later redirects stay within the scope: a site that redirects each revisit
        to a new host would widen it without end."""
        if queued.before is not None and queued.hops >= HOPS_MAX:
            return []
        seed = queued.before is None and (queued.seed or self._scope.is_lead(queued.url))
        if seed:
            self._scope.add_lead(target)
        link = self._link(
            target,
            depth=queued.depth,
            queued=queued,
            seed=seed,
            hops=queued.hops + 1,
            requisite=queued.requisite and page_requisites.wanted(self._config, self._sinks),
            requisite_depth=queued.requisite_depth,
            data=queued.data,
        )
        return [link] if link else []

    async def _arrive(self, queued: Queued) -> list[Link]:
        """End the redirects of a seed here: scope widens to this host, and its sitemaps count. One
        that a redirect led to before is read again: what it lists was out of scope."""
        if not self._scope.add_root(queued.url):
            return []
        self._seen.clear()
        if self._crawl.store.shared:  # known to the others before they can claim its URLs
            order = encode(scope_of_seeds([queued.url]))
            await self._crawl.store.publish(self._crawl.session, order)
        origin = self._robots.get(origin_of(queued.url))
        if origin is None:
            return []
        named = await self._sitemaps.of_origin(origin)
        return [structs.replace(link, again_before=self._clock.wall()) for link in named]

    def _follows(self, asked: PageRequest) -> bool:
        """Links of what was fetched only to show another page, or to check a link, lead nowhere."""
        queued = asked.queued
        if asked.external:
            return False
        if not queued.requisite:
            return True
        skip = self._scope.judge(queued.url, host=asked.name, depth=queued.depth, seed=queued.seed)
        return skip is None

    async def _follow(self, queued: Queued, read: ParsedPage, directives: Directives) -> list[Link]:
        depth = queued.depth + 1
        fresh = read.page_links.fresh(self._seen, depth) if directives.follow else ()
        self._count_nofollow(read, directives)
        if not fresh:
            return []
        anchors = read.page_links.anchors(fresh)
        found: list[Link] = []
        until_s = 0.0
        for place, url in enumerate(fresh, 1):
            link = self._link(url, depth=depth, queued=queued, anchor=anchors[url])
            if link is not None:
                found.append(link)
            if not place % LINKS_AT_ONCE:
                until_s = await self._let_others(until_s)
        return found

    def _count_nofollow(self, read: ParsedPage, directives: Directives) -> None:
        """Count the links of a page that it does not allow to be followed."""
        links = read.page_links
        if left_out := links.number_of_nofollow if directives.follow else len(links):
            self._buffer.skip(Skip.NOFOLLOW, left_out)

    async def _choose(
        self, filter_: LinkFilter, queued: Queued, read: ParsedPage, page: CrawledPage
    ) -> list[Link]:
        """The links that the program chooses. It is asked again about one that it left out, on
        every page: only those that it chose are remembered."""
        depth = queued.depth + 1
        followed = read.page_links.followed() if page.directives.follow else ()
        self._count_nofollow(read, page.directives)
        fresh = [url for url in followed if not self._seen.knows(url, depth)]
        if not fresh:
            return []
        anchors = read.page_links.anchors(fresh)
        given = [PageLink(url, anchors[url], nofollow=False) for url in fresh]
        found: list[Link] = []
        chosen = await filter_.choose(page, given)
        until_s = 0.0
        for place, (link, choice) in enumerate(zip(given, chosen, strict=True), 1):
            if choice is None:
                self._buffer.skip(Skip.LINKS)
            elif self._seen.new(choice.url, depth):
                new = self._link(
                    choice.url,
                    depth=depth,
                    queued=queued,
                    anchor=link.anchor,
                    priority=choice.priority,
                    data=choice.data,
                )
                if new is not None:
                    found.append(new)
            if not place % LINKS_AT_ONCE:
                until_s = await self._let_others(until_s)
        return found

    async def _let_others(self, until_s: float) -> float:
        """Give others their turn if it is that time. Return the next one; 0: there was none yet."""
        now_s = self._clock.monotonic()
        if now_s < (until_s or now_s + JUDGING_S):
            return until_s or now_s + JUDGING_S
        await asyncio.sleep(0)
        return self._clock.monotonic() + JUDGING_S

    def _link(
        self,
        url: str,
        *,
        depth: int,
        queued: Queued,
        anchor: str | None = None,
        priority: float = 0.0,
        seed: bool = False,
        hops: int = 0,
        requisite: bool = False,
        requisite_depth: int = 0,
        data: str | None = None,
    ) -> Link | None:
        host = host_of(url)
        if not requisite and (admitted := self._scope.admit(url, host=host)) != url:
            url = admitted
            if not self._seen.new(url, depth):
                return None
        skip = self._scope.judge(
            url,
            host=host,
            depth=depth,
            seed=seed,
            requisite=requisite,
            lead=seed and hops > 0,
            link=True,
        )
        if skip is not None:
            self._buffer.skip(skip)
            return None
        return Link(
            url=url,
            slot=self._config.config.slot_of(host),
            host=host,
            depth=depth,
            priority=queued.priority if seed else priority,
            seed=seed,
            hops=hops,
            anchor=anchor,
            requisite=requisite,
            requisite_depth=requisite_depth,
            data=data,
        )

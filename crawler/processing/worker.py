"""One permit, one URL: checked, requested, parsed and recorded."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from typing import Any

from crawler.config.sections import FetchConfig
from crawler.documents.crawled_page import crawled_page
from crawler.documents.page_parser import ParsingBrokenOffError
from crawler.downloading.downloader import Downloader
from crawler.faults import contained
from crawler.fetching.request import (
    DEFAULT_LIMITS,
    LARGE_BYTES,
    REDIRECT_STATUSES,
    Answer,
    BodyReader,
    Failure,
    Request,
    limits_of,
)
from crawler.frontier.frontier import PAGE, REFUSALS, SITEMAP
from crawler.frontier.host_queue import LOW_WATER, PREFETCH, PREFETCH_MAX, HostQueue, Permit
from crawler.frontier.large_bodies import LargeBodyPlace
from crawler.processing.admission import FULL_SOON, SCOPE_OUTDATED, Admission, NoBody, PageBody
from crawler.processing.attempts import after_try, given_up, redirected_too_often
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext, PageRequest
from crawler.processing.page_outcomes import LINKS_AT_ONCE, PageOutcomes
from crawler.processing.parse_queue import ParseQueue
from crawler.processing.recrawl_planner import RecrawlPlanner
from crawler.processing.run_limits import RunLimits
from crawler.processing.seen_links import SeenLinks
from crawler.processing.sitemap_body import SeedReading
from crawler.processing.sitemaps import Sitemaps
from policies.url import origin_of
from storage.store import Failed, Outcome, Queued, Revisited

LONG_BYTES = 8_192  # a header that takes time to read, whatever its body
JUDGING_MAX_S = 0.01  # of the loop's time, for URLs that are all blocked, until others are judged


class Worker:
    """Uses each permit for one URL of its host, and records the outcome. Shared by all the tasks
    that work at the same time.

    A task is cancelled only at the end of a run. The contact then ends, without an outcome, and the
    page stays queued.
    """

    def __init__(
        self,
        crawl: CrawlContext,
        downloader: Downloader,
        committer: Committer,
        limits: RunLimits,
        schedule: RecrawlPlanner,
        sitemaps: Sitemaps,
        seen: SeenLinks,
    ) -> None:
        self._crawl = crawl
        self._frontier = crawl.frontier
        self._buffer = crawl.frontier.buffer
        self._downloader = downloader
        self._committer = committer
        self._limits = limits
        self._schedule = schedule
        self._sitemaps = sitemaps
        self._seen = seen
        self._admission = Admission(crawl, limits, schedule, sitemaps)
        self._page_body = PageBody(crawl, requisite=False)
        self._requisite_body = PageBody(crawl, requisite=True)
        self._no_body = NoBody()
        self._outcomes = PageOutcomes(crawl, seen, schedule, sitemaps)
        self._parse_queue = ParseQueue(crawl.clock, crawl.frontier.permits.limits.domains)
        self.unread = 0  # pages fetched whose outcome is not recorded yet
        # Tasks besides those that the permits need: as many pages may wait before more are added.
        self.spare_tasks: float = math.inf

    def break_off(self) -> None:
        """Parse no page that waits for it now, or is large and not parsed yet: the run ends. They
        stay queued."""
        self._parse_queue.break_off()
        self._outcomes.break_off()

    # ------------------------------------------------------------ one permit

    async def use(self, permit: Permit) -> None:
        """Judge prefetched URLs of the host until one was worth a request, or none is left."""
        host, clock, permits = permit.host, self._crawl.clock, self._frontier.permits
        by_address = host.prefetched and self._frontier.needs_address(permit)
        if by_address and not await self._locate(permit):
            return
        if permits.is_void(permit):
            permits.give_back(permit)
            return
        if (queue := self._crawl.page_queue) is not None and queue.behind:
            permits.give_back(permit)
            await queue.room()
            return
        host.prefetch = min(2 * host.prefetch, PREFETCH_MAX)
        judge_until_s = clock.monotonic() + JUDGING_MAX_S
        try:
            while host.prefetched:
                queued = host.prefetched.popleft()
                if queued.seed and self._crawl.store.shared:
                    self._note_seed(queued)
                try:
                    admitted = self._admission.admit(host, queued)
                    if admitted is FULL_SOON or admitted is SCOPE_OUTDATED:
                        return
                    if isinstance(admitted, PageRequest):
                        if queued.suspect:
                            await self._request_suspect(permit, admitted)
                        else:
                            await self._request(permit, admitted)
                    if (
                        admitted is not None
                        or self._buffer.full
                        or clock.monotonic() >= judge_until_s
                    ):
                        break  # others first, or the store
                except Exception as error:  # noqa: BLE001 - it costs this URL, and no other
                    self._contain(host, queued, error)
                    if permit.over:
                        break
        finally:
            if not permit.over:  # no request was made
                permits.give_back(permit)
        self._refill(host)
        await self._committer.room()

    async def _locate(self, permit: Permit) -> bool:
        """Find out the address of the permit's host. False: the permit was given back."""
        host = permit.host
        located = False
        try:
            origin = origin_of(host.prefetched[0].url)
            located = await self._downloader.locate(permit, origin) is True
        except Exception as error:
            if not host.prefetched:
                raise
            self._contain(host, host.prefetched.popleft(), error)
        finally:
            if not located:
                self._frontier.permits.give_back(permit)
        if not located:
            self._refill(host)
        return located

    def _note_seed(self, queued: Queued) -> None:
        """Admit a seed that another worker may have added a moment ago."""
        if not queued.hops:
            self._downloader.restrict_headers(queued.url)
            if self._crawl.scope.add_root(queued.url):
                self._seen.clear()

    def _contain(self, host: HostQueue, queued: Queued, error: Exception) -> None:
        """An internal error costs the URL: it fails, or if it was visited before, stays as it was.
        Raises errors that end the run."""
        fault = contained(f"processing {queued.url}", error)
        self._seen.clear()  # other pages may have the links that are lost with it
        outcome = given_up(queued, host.slot, fault, now_s=self._crawl.clock.wall())
        self._record(outcome, host, queued)

    def _record(self, outcome: Outcome, host: HostQueue, queued: Queued) -> None:
        """Record an outcome without a page."""
        self._buffer.record(outcome, host, queued.url, about=queued)
        self._limits.count_errors(isinstance(outcome, Failed))

    def _refill(self, host: HostQueue) -> None:
        """Ask for more URLs, unless the pages in flight may be the last ones that the host's limit
        allows: whichever of them ends last asks again."""
        left = len(host.prefetched)
        if left > LOW_WATER or (left and host.wanting):
            return  # it has enough, or has asked for more and is in no hurry
        if not self._admission.may_be_full(host):
            self._frontier.want(host)

    # ------------------------------------------------------------ the request

    async def _request_suspect(self, permit: Permit, request: PageRequest) -> None:
        """While a suspect is in flight no other is, until its outcome is committed: if the process
        dies again, one of them is to blame at most."""
        self._frontier.in_flight.begin(request.queued)
        try:
            await self._request(permit, request)
            await self._committer.flush()
        finally:
            self._frontier.in_flight.end(request.queued)

    def _request(self, permit: Permit, request: PageRequest) -> Coroutine[Any, Any, None]:
        if request.queued.sitemap:
            return self._request_sitemap(permit, request)
        return self._request_page(permit, request)

    async def _request_page(self, permit: Permit, asked: PageRequest) -> None:
        """Fetch, parse and record a page, which counts towards the run's limit of pages."""
        host, queued, fetch = asked.host, asked.queued, asked.site.fetch
        new = queued.before is None
        reader: BodyReader = self._requisite_body if queued.requisite else self._page_body
        if asked.external:
            reader = self._no_body
        seed: SeedReading | None = None
        if queued.seed and new and self._sitemaps.wanted(asked.name):
            seed = self._sitemaps.sniffing(queued, reader=reader, bytes_max=fetch.max_body_bytes)
            reader = seed
        place = LargeBodyPlace(self._frontier.permits.large_bodies, host.domain)
        visited = False
        try:
            request = Request(
                url=queued.url,
                headers=self._schedule.conditions(queued),
                limits=limits_of(fetch.timeout_s, fetch.max_body_bytes),
                reader=reader,
                place=place,
            )
            self._about_to_request(host, queued, pages=new)
            try:
                result = await self._downloader.fetch(permit, request, kind=PAGE)
            finally:
                host.pages_in_flight -= new
            if isinstance(result, Failure) and seed is not None:
                await seed.break_off()
            answer = self._answered(host, queued, result, fetch)
            if answer is None:
                return
            target: str | None = None
            if answer.status in REDIRECT_STATUSES:
                target = self._outcomes.redirect_url(answer)
            if target is not None and queued.hops >= fetch.max_redirects and new:
                now_s = self._crawl.clock.wall()
                failed = redirected_too_often(queued, host.slot, target, now_s=now_s)
                self._record(failed, host, queued)
            elif seed is not None and seed.reading is not None:
                plan = self._schedule.sitemap(queued, answer)
                read = self._sitemaps.outcome(queued, host.slot, answer, seed.reading, plan)
                self._buffer.record(read, host, queued.url)
            elif not new and (same := self._schedule.unchanged(queued, host.slot, answer, target)):
                self._buffer.record(same, host, queued.url)
                visited = True
            else:
                page = answer if seed is None else seed.as_page(answer)
                visited = await self._parse(asked, page, target, place)
        finally:
            if place.has_room:
                place.leave()
            if not visited:
                self._limits.return_page()
            self._ended(host, queued)

    async def _request_sitemap(self, permit: Permit, asked: PageRequest) -> None:
        """A sitemap is no page: it counts towards no limit, and what it lists is queued."""
        host, queued, fetch = asked.host, asked.queued, asked.site.fetch
        reading = self._sitemaps.reading(queued)
        request = Request(
            url=queued.url,
            headers=self._schedule.conditions(queued),
            limits=limits_of(fetch.timeout_s, fetch.max_body_bytes),
            reader=reading,
        )
        try:
            self._about_to_request(host, queued, pages=False)
            result = await self._downloader.fetch(permit, request, kind=SITEMAP)
            if isinstance(result, Failure):
                await reading.break_off()
            if (answer := self._answered(host, queued, result, fetch)) is not None:
                plan = self._schedule.sitemap(queued, answer)
                outcome: Outcome = self._sitemaps.outcome(queued, host.slot, answer, reading, plan)
                if answer.status == 304 and queued.before is not None:
                    outcome = Revisited(id=queued.id, slot=host.slot, plan=plan)
                self._buffer.record(outcome, host, queued.url)
        finally:
            self._ended(host, queued)

    def _ended(self, host: HostQueue, queued: Queued) -> None:
        """The request of a URL has ended, and its outcome is recorded, if it has one."""
        if host.lease_lost:  # it is another worker's
            self._crawl.store.not_in_flight(queued.id)

    def _about_to_request(self, host: HostQueue, queued: Queued, *, pages: bool) -> None:
        """Note it in the store in case the process dies, and prefetch more meanwhile."""
        host.prefetch = PREFETCH
        self._crawl.store.in_flight(queued.id)
        host.pages_in_flight += pages
        self._refill(host)

    def _not_requested(self, host: HostQueue, queued: Queued) -> None:
        """Return a URL without an outcome: it stays queued."""
        host.in_memory.discard(queued.id)
        self._crawl.store.not_in_flight(queued.id)

    def _answered(
        self, host: HostQueue, queued: Queued, result: Answer | Failure, fetch: FetchConfig
    ) -> Answer | None:
        """The answer, if it is one; else what becomes of the URL without it is recorded."""
        if isinstance(result, Answer) and result.status < 500 and result.status not in REFUSALS:
            return result
        if (
            isinstance(result, Failure)
            and self._frontier.holds.excuses(result)
            and host.excuse(queued, result)
        ):
            self._frontier.permits.consider(host)  # requested again when the fault has passed
            return None
        if isinstance(result, Failure) and not result.connected:
            # Its origin is out of reach, which is the frontier's matter; the URL stays queued.
            self._not_requested(host, queued)
            return None
        outcome: Outcome
        if queued.before is not None:
            outcome = self._schedule.failed(queued, host.slot)
        else:
            outcome = after_try(
                queued,
                host.slot,
                result,
                max_attempts=fetch.max_attempts,
                now_s=self._crawl.clock.wall(),
            )
        self._record(outcome, host, queued)
        return None

    # ------------------------------------------------------------ the page

    async def _parse(
        self, asked: PageRequest, answer: Answer, target: str | None, place: LargeBodyPlace
    ) -> bool:
        """Parse and record a page; where a caller iterates over pages, once it has read this one.
        False: it was not read."""
        host, queued = asked.host, asked.queued
        new = queued.before is None  # others have been counted
        size = len(answer.body)
        self._limits.count_bytes(size)
        body_bytes = size if new and answer.body_read else 0
        host.visited += new  # already now: its next permit may come while this page waits
        host.body_bytes += body_bytes
        host.unread += 1
        self.unread += 1
        recorded = False
        try:
            # The header waits as well, and may be as long.
            waiting = size
            if answer.wire_bytes > max(size, LONG_BYTES):
                waiting = min(answer.wire_bytes, size + DEFAULT_LIMITS.head_bytes_max)
            if large := size > LARGE_BYTES:
                place.settle(size)
            elif waiting:
                self._frontier.permits.count_unparsed(host, waiting)
            try:
                if waiting:
                    if self.unread > self.spare_tasks:
                        self._frontier.page_waits()
                    await self._parse_queue.wait(host.domain)
                began_s = self._parse_queue.passed_s
                outcome, read, usage = await self._outcomes.read(asked, answer, target)
                if not large and len(outcome.links) > LINKS_AT_ONCE:
                    self._parse_queue.charge(host.domain, began_s)
            except ParsingBrokenOffError:
                self._not_requested(host, queued)
                return False
            finally:
                if large:
                    place.leave()
                elif waiting:
                    self._frontier.permits.count_unparsed(host, -waiting)
            nobody_reads = self._crawl.page_queue is None and self._crawl.sinks is None
            if nobody_reads or asked.external:
                self._buffer.record(outcome, host, queued.url)
            else:
                links = self._admission.wants_links
                page = crawled_page(queued, answer, outcome, read, usage, links=links)
                for_sinks = self._crawl.sinks is not None
                if self._crawl.page_queue is None:
                    self._buffer.record(outcome, host, page.url, page)
                elif not await self._crawl.page_queue.offer(
                    page, outcome, host, for_sinks=for_sinks
                ):
                    self._not_requested(host, queued)
                    return False
            recorded = True
        finally:
            self.unread -= 1
            host.unread -= 1
            if not recorded:
                host.visited -= new
                host.body_bytes -= body_bytes
        if asked.passed.ungoverned:
            self._frontier.page_came_late(origin_of(queued.url))
        return True

"""One turn, from a hand of URLs to an outcome: scope, gate, fetch, page, ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from crawler import kept, page
from crawler.clock import Clock
from crawler.config.model import FetchConfig
from crawler.contact import PAGE, REFUSALS, SITEMAP, Contacts
from crawler.effective import Effective
from crawler.gate import ASKING, Gate, Pass, Shut
from crawler.handover import CrawledPage, Handover, Timings
from crawler.host import APPETITE_MAX, LOW_WATER, PREFETCH, Host, Turn
from crawler.known import Known
from crawler.ledger import Ledger
from crawler.network_first import NetworkFirst
from crawler.page_reader import LARGE_BYTES, PageReader
from crawler.plans import Planner
from crawler.request import REDIRECT_STATUSES, Answer, Failure, Head, Request, limits_of
from crawler.sitemaps import TIMEOUT_S, Sitemaps, Sniffing
from crawler.turns import Turns
from policies.indexing import Directives, from_header
from policies.retry import Again, FailureCode, GiveUp, RetryRules, after_failure, after_refusal
from policies.robots import Verdict
from policies.scope import Scope, Skip
from policies.url import canonical, host_of, origin_of
from policies.usage import NONE, Usage
from storage.base import (
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    Link,
    Moved,
    Outcome,
    Queued,
    Retry,
    Revisited,
    Visited,
)

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

# New links judged before others have their turn: 3 ms of them.
LINKS_AT_ONCE: Final = 1_000


@dataclass(slots=True)
class Budget:
    """Pages this run may still visit; a page is reserved before it is asked for."""

    limit: float
    taken: int = 0

    @property
    def left(self) -> float:
        return self.limit - self.taken

    def take(self) -> bool:
        if self.left < 1:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        self.taken -= 1


class Visitor:
    """Turns turns into outcomes."""

    def __init__(
        self,
        *,
        effective: Effective,
        clock: Clock,
        turns: Turns,
        contacts: Contacts,
        gate: Gate,
        ledger: Ledger,
        scope: Scope,
        budget: Budget,
        known: Known,
        sitemaps: Sitemaps,
        planner: Planner,
        late: Callable[[str], None],
        waits: Callable[[], None],
        handover: Handover | None = None,
        sinks: Sinks | None = None,
    ) -> None:
        self._effective = effective
        self._clock = clock
        self._turns = turns
        self._contacts = contacts
        self._gate = gate
        self._ledger = ledger
        self._scope = scope
        self._budget = budget
        self._known = known
        self._sitemaps = sitemaps
        self._planner = planner
        self._handover = handover  # to who reads the pages
        self._sinks = sinks
        self._network_first = NetworkFirst(lambda much: turns.crowd(self, crowded=much))
        self._reader = PageReader()
        self.unread = 0  # pages fetched whose outcome is not recorded yet
        self._waits = waits  # a worker is about to wait with its page
        self._late = late  # a page outlived the verdict it was asked for on: judge it again

    # ------------------------------------------------------------ the turn

    async def spend(self, turn: Turn) -> None:
        """Judge URLs of the host's hand until one was worth the contact, or none is left."""
        host = turn.host
        if host.hand and self._contacts.must_locate(turn):
            located = await self._contacts.located(turn, origin_of(host.hand[0].url))
            if located is not None:
                self._turns.give_back(turn)
                self._refill(host)
                return
        if self._turns.stayed(turn):
            self._turns.give_back(turn)
            return
        host.appetite = min(2 * host.appetite, APPETITE_MAX)
        while host.hand:
            queued = host.hand.popleft()
            if (outcome := self._out_of_scope(host, queued)) is not None:
                self._ledger.record(outcome, host, queued.url)
                continue
            if queued.before is None and self._is_full(host):
                host.full = True
                host.hand.appendleft(queued)
                host.empty_hand()
                break
            if queued.before is None and self._may_be_full(host):
                host.hand.appendleft(queued)
                host.empty_hand()
                self._turns.give_back(turn)
                return
            passed = self._gate.check(host, queued.url)
            if passed is ASKING:
                host.parked.setdefault(origin_of(queued.url), []).append(queued)
            elif isinstance(passed, Shut):
                host.closed.add(origin_of(queued.url))
                host.held.discard(queued.id)
            elif isinstance(passed, Verdict) and queued.sitemap and queued.before is not None:
                # What was read stays so; named anew, it is blocked.
                outcome = Revisited(id=queued.id, slot=host.slot, plan=None)
                self._ledger.record(outcome, host, queued.url)
            elif isinstance(passed, Verdict):
                blocked = self._blocked(host, queued, passed)
                if queued.before is not None and self._sinks is not None:
                    self._sinks.forbidden(queued.url, blocked)
                self._ledger.record(blocked, host, queued.url)
            elif isinstance(passed, Pass) and queued.sitemap:
                await self._read_sitemap(turn, queued)
                break
            elif isinstance(passed, Pass):
                if not self._budget.take():
                    host.hand.appendleft(queued)
                    break
                if self._budget.left < 1:
                    self._turns.open_pages(open_=False)  # until one of those in flight fails
                await self._visit(turn, queued, passed)
                break
        self._turns.give_back(turn)  # if it is not over, no contact was worth making
        self._refill(host)
        await self._ledger.room()

    def _refill(self, host: Host) -> None:
        if len(host.hand) <= LOW_WATER:
            self._ledger.want(host)

    def _out_of_scope(self, host: Host, queued: Queued) -> Outcome | None:
        """Scope is judged again: the config may have changed since the URL was queued."""
        name = host_of(queued.url)
        slot = self._effective.config.slot_of(name)
        if slot != host.slot:
            return Moved(id=queued.id, slot=host.slot, to_slot=slot)
        if queued.sitemap:
            if self._sitemaps.wanted(name) and (
                queued.before is None or self._planner.rules(queued.url).on
            ):
                return None  # it may be of any host; what it lists is judged
            if queued.before is not None:
                return Revisited(id=queued.id, slot=host.slot, plan=None)
            return Dropped(id=queued.id, slot=host.slot, reason=Skip.SITEMAPS)
        skip = self._scope.judge(
            queued.url,
            host=name,
            depth=queued.depth,
            seed=queued.seed,
            requisite=queued.requisite and self._sinks is not None,
        )
        if queued.before is not None:
            # It stays visited, but nobody wants to come back any more.
            wanted = skip is None and self._planner.rules(queued.url).on
            return None if wanted else Revisited(id=queued.id, slot=host.slot, plan=None)
        if skip is not None:
            return Dropped(id=queued.id, slot=host.slot, reason=skip)
        return None

    def _is_full(self, host: Host) -> bool:
        return host.visited >= self._effective.config.site(host.slot).scope.max_pages_per_host

    def _may_be_full(self, host: Host) -> bool:
        """With several lanes: what the others fetch may fill it; they ask for more when done."""
        others = host.busy - 1
        return (
            others > 0
            and host.visited + others
            >= self._effective.config.site(host.slot).scope.max_pages_per_host
        )

    def _blocked(self, host: Host, queued: Queued, verdict: Verdict) -> Blocked:
        return blocked_by(verdict, queued.id, host.slot, queued.url, now_s=self._clock.wall())

    # ------------------------------------------------------------ the request

    async def _visit(self, turn: Turn, queued: Queued, passed: Pass) -> None:
        host = turn.host
        name = host_of(queued.url)
        fetch = self._effective.config.site(name).fetch
        wants_body = self._wants_requisite if queued.requisite else self._wants_body
        sniffing: Sniffing | None = None
        if queued.seed and queued.before is None and self._sitemaps.wanted(name):
            sniffing = self._sitemaps.sniffing(
                queued, wants=wants_body, bytes_max=fetch.max_body_bytes
            )
            wants_body = sniffing.wants_body
        request = Request(
            url=queued.url,
            headers=self._planner.conditions(queued),
            limits=limits_of(fetch.timeout_s, fetch.max_body_bytes),
            wants_body=wants_body,
            into=sniffing.into if sniffing else None,
        )
        visited = False
        host.appetite = PREFETCH
        self._refill(host)  # while this one is fetched
        try:
            result = await self._contacts.fetch(turn, request, kind=PAGE)
            answer = self._answered(host, queued, result, fetch)
            if answer is not None and sniffing is not None and sniffing.reading is not None:
                plan = self._planner.sitemap(queued, answer)
                outcome = self._sitemaps.outcome(queued, host.slot, answer, sniffing.reading, plan)
                self._ledger.record(outcome, host, queued.url)
            elif answer is not None and (
                same := self._planner.unchanged(queued, host.slot, answer)
            ):
                self._ledger.record(same, host, queued.url)
                visited = True
            elif answer is not None:
                if sniffing is not None:
                    answer = sniffing.as_page(answer)
                visited = await self._take_in(host, queued, answer, passed)
        finally:
            if not visited:
                self._budget.give_back()
                self._turns.open_pages(open_=self._budget.left >= 1)

    async def _read_sitemap(self, turn: Turn, queued: Queued) -> None:
        """A sitemap is no page: it takes nothing from the budget, and what it lists is queued."""
        host = turn.host
        fetch = self._effective.config.site(host_of(queued.url)).fetch
        reading = self._sitemaps.reading(queued)
        request = Request(
            url=queued.url,
            headers=self._planner.conditions(queued),
            limits=limits_of(max(fetch.timeout_s, TIMEOUT_S), fetch.max_body_bytes),
            wants_body=lambda head: 200 <= head.status < 300,
            into=lambda _: reading,
        )
        host.appetite = PREFETCH
        self._refill(host)
        result = await self._contacts.fetch(turn, request, kind=SITEMAP)
        if (answer := self._answered(host, queued, result, fetch)) is not None:
            plan = self._planner.sitemap(queued, answer)
            outcome: Outcome = self._sitemaps.outcome(queued, host.slot, answer, reading, plan)
            if answer.status == 304 and queued.before is not None:
                outcome = Revisited(id=queued.id, slot=host.slot, plan=plan)
            self._ledger.record(outcome, host, queued.url)

    def _answered(
        self, host: Host, queued: Queued, result: Answer | Failure, fetch: FetchConfig
    ) -> Answer | None:
        """The answer, if it is one; else what becomes of the URL without it is recorded."""
        if isinstance(result, Answer) and result.status < 500 and result.status not in REFUSALS:
            return result
        rules = RetryRules(max_attempts=fetch.max_attempts)
        if isinstance(result, Failure):
            self._failed(host, queued, result, rules)
        elif result.status in REFUSALS:
            self._refused(host, queued, result)
        else:
            self._server_error(host, queued, result, rules)
        return None

    async def _take_in(self, host: Host, queued: Queued, answer: Answer, passed: Pass) -> bool:
        """Record a page; where somebody reads them, once it is read. False: it was not."""
        new = queued.before is None  # others have been counted
        host.visited += new  # already now: its next turn may begin while this page waits to be read
        host.unread += 1
        self.unread += 1
        recorded = False
        try:
            if answer.body:
                self._waits()
                async with self._network_first.reading(len(answer.body)):
                    outcome, read, usage = await self._read(host, queued, answer, passed)
            else:
                outcome, read, usage = await self._read(host, queued, answer, passed)
            if self._handover is None and self._sinks is None:
                self._ledger.record(outcome, host, queued.url)
            elif not await self._show(
                host,
                outcome,
                _crawled(queued, answer, outcome, read, usage, links=self._links_are_read()),
            ):
                host.held.discard(queued.id)  # it stays queued
                return False
            recorded = True
        finally:
            self.unread -= 1
            host.unread -= 1
            if not recorded:
                host.visited -= new
        if passed.ungoverned:
            self._late(origin_of(queued.url))
        return True

    def _links_are_read(self) -> bool:
        return self._handover is not None or (self._sinks is not None and self._sinks.wants_links)

    async def _show(self, host: Host, outcome: Visited, crawled: CrawledPage) -> bool:
        """To who reads the pages, and to sinks: when it is recorded, before it is committed."""
        page = crawled if self._sinks is not None else None
        if self._handover is None:
            self._ledger.record(outcome, host, crawled.url, page)
            return True
        record = partial(self._ledger.record, outcome, host, crawled.url, page)
        return await self._handover.offer(crawled, host.slot, record)

    def _wants_body(self, head: Head) -> bool:
        """Is there anyone to read it? Links are read from 2xx answers of types that hold them."""
        content_type = head.headers.get("Content-Type")
        return (
            200 <= head.status < 300
            and (
                self._handover is not None
                or page.wants_body(content_type)
                or self._a_sink_wants(head)
            )
            and self._scope.wants_type(content_type, host=host_of(head.url))
        )

    def _wants_requisite(self, head: Head) -> bool:
        """As `_wants_body`, of what a page needs to be shown: whatever types scope wants."""
        return self._a_sink_wants(head, requisite=True) or self._wants_body(head)

    def _a_sink_wants(self, head: Head, *, requisite: bool = False) -> bool:
        content_type = head.headers.get("Content-Type")
        return self._sinks is not None and self._sinks.wants_body(
            head.url, head.status, content_type, requisite=requisite
        )

    # ------------------------------------------------------------ outcomes

    def _failed(self, host: Host, queued: Queued, failure: Failure, rules: RetryRules) -> None:
        if not failure.connected:
            # Its origin is out of reach, which is the engine's matter; the URL stays queued.
            host.held.discard(queued.id)
            return
        fate = after_failure(
            failure.code,
            queued.attempts,
            rules,
            refusals=queued.refusals,
            permanent=failure.permanent,
        )
        self._decide(host, queued, fate, failure.error)

    def _server_error(self, host: Host, queued: Queued, answer: Answer, rules: RetryRules) -> None:
        fate = after_failure(FailureCode.HTTP, queued.attempts, rules, refusals=queued.refusals)
        self._decide(host, queued, fate, f"http: the server answered {answer.status}")

    def _refused(self, host: Host, queued: Queued, answer: Answer) -> None:
        fate = after_refusal(queued.refusals, attempts=queued.attempts)
        error = f"refused: the server answered {answer.status} (too busy for us)"
        self._decide(host, queued, fate, error)

    def _decide(self, host: Host, queued: Queued, fate: Again | GiveUp, error: str) -> None:
        outcome: Outcome
        if queued.before is not None:
            outcome = self._planner.failed(queued, host.slot)
        elif isinstance(fate, GiveUp):
            outcome = Failed(
                id=queued.id,
                slot=host.slot,
                error=error,
                attempts=fate.attempts,
                last_at=self._clock.wall(),
            )
        else:
            outcome = Retry(
                id=queued.id,
                slot=host.slot,
                due_in_s=fate.in_s,
                attempts=fate.attempts,
                refusals=fate.refusals,
                error=error,
            )
        self._ledger.record(outcome, host, queued.url)

    async def _read(
        self, host: Host, queued: Queued, answer: Answer, passed: Pass
    ) -> tuple[Visited, page.Page | None, Usage]:
        """A complete answer: what it says of itself, and where it leads."""
        name = host_of(queued.url)
        tokens = self._effective.config.token(name)
        title: str | None = None
        read: page.Page | None = None
        redirect_url: str | None = None
        found: list[Link] = []
        needed: Sequence[str] = ()
        directives = from_header(answer.headers.getall("X-Robots-Tag", ()), tokens)
        content_type = answer.headers.get("Content-Type")
        if answer.status in REDIRECT_STATUSES:
            redirect_url = canonical(answer.headers.get("Location", ""), queued.url)
            if redirect_url and answer.headers.get("Location"):
                redirect_url = self._scope.admit(redirect_url, host=host_of(redirect_url))
                found = self._redirect(queued, redirect_url)
            else:
                redirect_url = None
        elif 200 <= answer.status < 300:
            if not self._scope.wants_type(content_type, host=name):
                self._ledger.skip(Skip.CONTENT_TYPE)
            read = await self._reader.read(queued.url, answer.headers, answer.body, tokens=tokens)
            title = read.title
            directives = directives.merge(read.directives)
            if self._follows(queued, name):
                found = await self._follow(queued, read, directives)
            for reason, count in read.skipped.items():
                self._ledger.skip(reason, count)
            if self._sinks is not None and answer.body and directives.index and directives.archive:
                needed = await self._needed(queued, answer, self._sinks)
                found += self._requisites(queued, needed)
        usage = NONE
        if read is not None:
            usage = kept.usage_of(answer, read, self._gate.origin(origin_of(queued.url)))
        outcome = Visited(
            id=queued.id,
            slot=host.slot,
            status=answer.status,
            fetched_at=round(self._clock.wall(), 3),  # as the store keeps it: sinks say the same
            content_type=content_type,
            body_bytes=len(answer.body) if answer.body_read else 0,
            elapsed_s=answer.ended_s - answer.started_s,
            redirect_url=redirect_url,
            title=title or None,
            indexable=directives.index,
            followable=directives.follow,
            archivable=directives.archive,
            ungoverned=passed.ungoverned,
            links=found,
            plan=self._planner.plan(queued, answer),
            again=queued.before is not None,
            canonical_url=kept.canonical_url(read),
            body_hash=kept.body_hash(answer),
            usage=str(usage) or None,
            outlinks=(
                kept.all_links(read, redirect_url, needed, self._scope.admit)
                if self._effective.config.storage.links
                else ()
            ),
        )
        return outcome, read, usage

    async def _needed(self, queued: Queued, answer: Answer, sinks: Sinks) -> Sequence[str]:
        """The URLs that a mirror needs besides; of a large page, looked for beside the loop."""
        look = partial(
            sinks.requisites,
            queued.url,
            answer.status,
            answer.headers.get("Content-Type"),
            answer.body,
            requisite=queued.requisite,
        )
        return look() if len(answer.body) <= LARGE_BYTES else await asyncio.to_thread(look)

    def _requisites(self, queued: Queued, needed: Sequence[str]) -> list[Link]:
        """What a mirror needs besides, to show this page: of the same depth."""
        found: list[Link] = []
        for url in needed:
            # Remembered apart: what scope leaves out as a link may be needed all the same.
            if self._known.new(f"requisite {url}", queued.depth):
                link = self._link(url, depth=queued.depth, queued=queued, requisite=True)
                if link is not None:
                    found.append(link)
        return found

    def _redirect(self, queued: Queued, target: str) -> list[Link]:
        """A redirect is a link of the same depth; where a seed leads, scope follows."""
        if queued.seed:
            self._scope.add_root(target)
            self._known.clear()
        link = self._link(
            target,
            depth=queued.depth,
            queued=queued,
            seed=queued.seed,
            requisite=queued.requisite and self._sinks is not None,
        )
        return [link] if link else []

    def _follows(self, queued: Queued, host: str) -> bool:
        """Links of what was fetched only to show another page lead nowhere."""
        if not queued.requisite:
            return True
        skip = self._scope.judge(queued.url, host=host, depth=queued.depth, seed=queued.seed)
        return skip is None

    async def _follow(self, queued: Queued, read: page.Page, directives: Directives) -> list[Link]:
        links = read.gathered
        if not directives.follow:
            if links:
                self._ledger.skip(Skip.NOFOLLOW, len(links))
            return []
        followed = links.followed()
        if len(followed) < len(links):
            self._ledger.skip(Skip.NOFOLLOW, len(links) - len(followed))
        depth = queued.depth + 1
        fresh = self._known.fresh(followed, depth)
        anchors = links.anchors(fresh)
        found: list[Link] = []
        for place, url in enumerate(fresh, 1):
            link = self._link(url, depth=depth, queued=queued, anchor=anchors[url])
            if link is not None:
                found.append(link)
            if not place % LINKS_AT_ONCE:
                await asyncio.sleep(0)
        return found

    def _link(
        self,
        url: str,
        *,
        depth: int,
        queued: Queued,
        anchor: str | None = None,
        seed: bool = False,
        requisite: bool = False,
    ) -> Link | None:
        host = host_of(url)
        if not requisite and (admitted := self._scope.admit(url, host=host)) != url:
            url = admitted
            if not self._known.new(url, depth):
                return None
        skip = self._scope.judge(url, host=host, depth=depth, seed=seed, requisite=requisite)
        if skip is not None:
            self._ledger.skip(skip)
            return None
        return Link(
            url=url,
            slot=self._effective.config.slot_of(host),
            host=host,
            depth=depth,
            priority=queued.priority if seed else 0.0,
            seed=seed,
            anchor=anchor,
            requisite=requisite,
        )


def _crawled(
    queued: Queued,
    answer: Answer,
    outcome: Visited,
    read: page.Page | None,
    usage: Usage,
    *,
    links: bool,
) -> CrawledPage:
    """As sinks and readers get it; `links`: whether anybody looks at its links."""
    return CrawledPage(
        url=queued.url,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        title=outcome.title,
        links=read.links if read and links else (),
        directives=Directives(
            index=outcome.indexable, follow=outcome.followable, archive=outcome.archivable
        ),
        redirect_url=outcome.redirect_url,
        depth=queued.depth,
        canonical_url=outcome.canonical_url,
        fetched_at=outcome.fetched_at,
        address=answer.address,
        body_read=answer.body_read,
        requisite=queued.requisite,
        again=queued.before is not None,
        usage=usage,
        timings=Timings(
            started_at=outcome.fetched_at - outcome.elapsed_s,
            latency_s=answer.latency_s,
            elapsed_s=outcome.elapsed_s,
        ),
    )


def blocked_by(verdict: Verdict, id_: int, slot: str, url: str, *, now_s: float) -> Blocked:
    """A verdict as the store keeps it."""
    return Blocked(
        id=id_,
        slot=slot,
        reason=BlockReason.NOINDEX_LINE if verdict.noindex else BlockReason.ROBOTS,
        dialect=verdict.dialect,
        rule=verdict.rule,
        line=verdict.line,
        robots_url=origin_of(url) + "/robots.txt",
        blocked_at=now_s,
    )

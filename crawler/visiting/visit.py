"""One turn, from a hand of URLs to an outcome: wanted, allowed, fetched, read, recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from crawler.clock import Clock
from crawler.config.effective import Effective
from crawler.config.sections import FetchConfig
from crawler.documents.crawled import CrawledPage, crawled
from crawler.fetching.request import Answer, Failure, Request, limits_of
from crawler.politeness.contact import PAGE, REFUSALS, SITEMAP, Contacts
from crawler.politeness.gate import ASKING, Gate, Pass, Shut
from crawler.politeness.host import APPETITE_MAX, LOW_WATER, PREFETCH, Host, Turn
from crawler.politeness.turns import Turns
from crawler.visiting.answer_reader import AnswerReader
from crawler.visiting.handover import Handover
from crawler.visiting.known import Known
from crawler.visiting.ledger import Ledger
from crawler.visiting.network_first import NetworkFirst
from crawler.visiting.outcomes import after_try, blocked_by
from crawler.visiting.plans import Planner
from crawler.visiting.sitemap_body import TIMEOUT_S, Sniffing
from crawler.visiting.sitemaps import Sitemaps
from crawler.visiting.wanted import Wanted
from policies.robots import Verdict
from policies.scope import Scope
from policies.url import origin_of
from storage.base import Outcome, Queued, Revisited, Visited

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks


class Budget(Struct):
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
        self._budget = budget
        self._sitemaps = sitemaps
        self._planner = planner
        self._handover = handover  # to who reads the pages
        self._sinks = sinks
        self._wanted = Wanted(
            effective=effective,
            scope=scope,
            sitemaps=sitemaps,
            planner=planner,
            hands_over=handover is not None,
            sinks=sinks,
        )
        self._answers = AnswerReader(
            effective=effective,
            clock=clock,
            gate=gate,
            ledger=ledger,
            scope=scope,
            known=known,
            planner=planner,
            sinks=sinks,
        )
        self._network_first = NetworkFirst(lambda much: turns.crowd(self, crowded=much))
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
            name = host.name_of(queued.url)
            if (outcome := self._wanted.out_of_scope(host, name, queued)) is not None:
                self._ledger.record(outcome, host, queued.url)
                continue
            if queued.before is None and self._wanted.is_full(host):
                host.full = True
                host.hand.appendleft(queued)
                host.empty_hand()
                break
            if queued.before is None and self._wanted.may_be_full(host):
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
                now_s = self._clock.wall()
                blocked = blocked_by(passed, queued.id, host.slot, queued.url, now_s=now_s)
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
                await self._visit(turn, name, queued, passed)
                break
        self._turns.give_back(turn)  # if it is not over, no contact was worth making
        self._refill(host)
        await self._ledger.room()

    def _refill(self, host: Host) -> None:
        if len(host.hand) <= LOW_WATER:
            self._ledger.want(host)

    # ------------------------------------------------------------ the request

    async def _visit(self, turn: Turn, name: str, queued: Queued, passed: Pass) -> None:
        host = turn.host
        fetch = self._effective.config.site(name).fetch
        wants_body = self._wanted.requisite_body if queued.requisite else self._wanted.body
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
                visited = await self._take_in(host, name, queued, answer, passed)
        finally:
            if not visited:
                self._budget.give_back()
                self._turns.open_pages(open_=self._budget.left >= 1)

    async def _read_sitemap(self, turn: Turn, queued: Queued) -> None:
        """A sitemap is no page: it takes nothing from the budget, and what it lists is queued."""
        host = turn.host
        fetch = self._effective.config.site(host.name_of(queued.url)).fetch
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
        if isinstance(result, Failure) and not result.connected:
            # Its origin is out of reach, which is the engine's matter; the URL stays queued.
            host.held.discard(queued.id)
            return None
        outcome: Outcome
        if queued.before is not None:
            outcome = self._planner.failed(queued, host.slot)
        else:
            outcome = after_try(
                queued,
                host.slot,
                result,
                max_attempts=fetch.max_attempts,
                now_s=self._clock.wall(),
            )
        self._ledger.record(outcome, host, queued.url)
        return None

    async def _take_in(
        self, host: Host, name: str, queued: Queued, answer: Answer, passed: Pass
    ) -> bool:
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
                    outcome, read, usage = await self._answers.read(
                        host, name, queued, answer, passed
                    )
            else:
                outcome, read, usage = await self._answers.read(host, name, queued, answer, passed)
            if self._handover is None and self._sinks is None:
                self._ledger.record(outcome, host, queued.url)
            elif not await self._show(
                host,
                outcome,
                crawled(queued, answer, outcome, read, usage, links=self._wanted.links()),
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

    async def _show(self, host: Host, outcome: Visited, page: CrawledPage) -> bool:
        """To who reads the pages, and to sinks: when it is recorded, before it is committed."""
        kept = page if self._sinks is not None else None
        if self._handover is None:
            self._ledger.record(outcome, host, page.url, kept)
            return True
        record = partial(self._ledger.record, outcome, host, page.url, kept)
        return await self._handover.offer(page, host.slot, record)

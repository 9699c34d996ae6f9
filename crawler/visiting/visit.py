"""One turn, from a hand of URLs to an outcome: wanted, allowed, fetched, read, recorded."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.config.sections import FetchConfig
from crawler.documents.crawled_page import CrawledPage, crawled_page
from crawler.faults import contained, is_memory
from crawler.fetching.request import Answer, Failure, Request, limits_of
from crawler.politeness.contact import PAGE, REFUSALS, SITEMAP, Contacts
from crawler.politeness.gate import ASKING, Gate, Pass, Shut
from crawler.politeness.host import APPETITE_MAX, LOW_WATER, PREFETCH, Host, Turn
from crawler.politeness.turns import Turns
from crawler.visiting.answer_reader import AnswerReader, target_of
from crawler.visiting.handover import Handover
from crawler.visiting.known import Known
from crawler.visiting.ledger import Ledger
from crawler.visiting.network_first import NetworkFirst
from crawler.visiting.outcomes import after_try, blocked_by, deferred, given_up, led_on
from crawler.visiting.plans import Planner
from crawler.visiting.sitemap_body import Sniffing
from crawler.visiting.sitemaps import Sitemaps
from crawler.visiting.wanted import Wanted
from policies.robots import Verdict
from policies.scope import Scope
from policies.url import origin_of
from storage.store import Outcome, Queued, Revisited, Visited

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

JUDGING_MAX_S = 0.01  # of the loop's time, for URLs that are all blocked, until others have a turn


class _Stop(enum.Enum):
    """Why the turn is given back with URLs in hand."""

    ENOUGH = enum.auto()
    SATED = enum.auto()  # and those whose pages are fetched now ask for more when they are done


_ENOUGH, _SATED = _Stop


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
        effective: CurrentConfig,
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
        self._known = known
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
            sitemaps=sitemaps,
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
        try:
            if host.hand and self._contacts.must_locate(turn):
                located = await self._contacts.located(turn, origin_of(host.hand[0].url))
                if located is not None:
                    self._turns.give_back(turn)
                    self._refill(host)
                    return
        except BaseException as error:
            self._turns.give_back(turn)
            if not isinstance(error, Exception) or not host.hand:
                raise
            self._contain(host, host.hand.popleft(), error)
            return
        if self._turns.stayed(turn):
            self._turns.give_back(turn)
            return
        host.appetite = min(2 * host.appetite, APPETITE_MAX)
        judged_until_s = self._clock.monotonic() + JUDGING_MAX_S
        while host.hand:
            queued = host.hand.popleft()
            try:
                passed = self._judge(host, queued)
                if passed is _SATED:
                    self._turns.give_back(turn)
                    return
                if isinstance(passed, Pass) and queued.suspect:
                    await self._ask_alone(turn, queued, passed)
                elif isinstance(passed, Pass):
                    await self._ask(turn, queued, passed)
                if (
                    passed is not None
                    or self._ledger.full
                    or self._clock.monotonic() >= judged_until_s
                ):
                    break  # others have their turn first, or the store
            except Exception as error:  # noqa: BLE001 - it costs this URL, and no other
                self._contain(host, queued, error)
                if turn.over:
                    break
        self._turns.give_back(turn)  # if it is not over, no contact was worth making
        self._refill(host)
        await self._ledger.room()

    def _judge(self, host: Host, queued: Queued) -> Pass | _Stop | None:
        """May it be asked for now? None: no, what becomes of it is recorded, and the next one is to
        be judged."""
        name = host.name_of(queued.url)
        if (outcome := self._wanted.out_of_scope(host, name, queued)) is not None:
            self._ledger.record(outcome, host, queued.url)
            return None
        if queued.before is None and (limit := self._wanted.limit_reached(host)) is not None:
            host.full = limit
            host.hand.appendleft(queued)
            host.empty_hand()
            return _ENOUGH
        if queued.before is None and self._wanted.may_be_full(host):
            host.hand.appendleft(queued)
            host.empty_hand()
            return _SATED
        passed = self._gate.check(host, queued.url)
        if isinstance(passed, Pass):
            if queued.suspect and self._gate.flights.taken:
                self._ledger.record(deferred(queued, host.slot), host, queued.url)
                return None
            if queued.sitemap:
                return passed
            if not self._budget.take():
                host.hand.appendleft(queued)
                return _ENOUGH
            if self._budget.left < 1:
                self._turns.open_pages(open_=False)  # until one of those in flight fails
            return passed
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
                self._sinks.withdraw_blocked(queued.url, blocked)
            self._ledger.record(blocked, host, queued.url)
        return None

    def _contain(self, host: Host, queued: Queued, error: Exception) -> None:
        """A fault of our own costs the URL: it fails, or if it was visited before, stays as it was.
        Raises errors that end the run."""
        fault = contained(f"processing {queued.url}", error)
        if is_memory(error):
            self._known.clear()
        outcome = given_up(queued, host.slot, fault, now_s=self._clock.wall())
        self._ledger.record(outcome, host, queued.url)

    def _refill(self, host: Host) -> None:
        """Ask for more URLs, unless the pages in flight may be the last ones that the host's limit
        allows: whichever of them ends last asks again."""
        if len(host.hand) <= LOW_WATER and not self._wanted.may_be_full(host):
            self._ledger.want(host)

    # ------------------------------------------------------------ the request

    async def _ask(self, turn: Turn, queued: Queued, passed: Pass) -> None:
        if queued.sitemap:
            await self._read_sitemap(turn, queued)
        else:
            await self._visit(turn, queued, passed)

    async def _ask_alone(self, turn: Turn, queued: Queued, passed: Pass) -> None:
        """Ask for a suspect. No other is in flight until its outcome is committed: if the process
        dies again, one of them is to blame at most."""
        self._gate.flights.begin(queued)
        try:
            await self._ask(turn, queued, passed)
            await self._ledger.flush()
        finally:
            self._gate.flights.end(queued)

    async def _visit(self, turn: Turn, queued: Queued, passed: Pass) -> None:
        """Ask for a page. It has been taken from the budget."""
        visited = False
        try:
            visited = await self._fetch(turn, queued, passed)
        finally:
            if not visited:
                self._budget.give_back()
                self._turns.open_pages(open_=self._budget.left >= 1)

    async def _fetch(self, turn: Turn, queued: Queued, passed: Pass) -> bool:
        """Was a page visited?"""
        host = turn.host
        name = host.name_of(queued.url)
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
        host.appetite = PREFETCH
        self._ledger.asking(queued)
        new = queued.before is None
        host.pages_in_flight += new
        self._refill(host)  # while this one is fetched
        try:
            result = await self._contacts.fetch(turn, request, kind=PAGE)
        finally:
            host.pages_in_flight -= new
        if isinstance(result, Failure) and sniffing is not None:
            await sniffing.break_off()
        answer = self._answered(host, queued, result, fetch)
        if answer is None:
            return False
        if queued.hops >= fetch.max_redirects and queued.before is None:
            target = target_of(answer)
            if target is not None:
                failed = led_on(queued, host.slot, target, now_s=self._clock.wall())
                self._ledger.record(failed, host, queued.url)
                return False
        if sniffing is not None and sniffing.reading is not None:
            plan = self._planner.sitemap(queued, answer)
            outcome = self._sitemaps.outcome(queued, host.slot, answer, sniffing.reading, plan)
            self._ledger.record(outcome, host, queued.url)
            return False
        target = self._answers.redirect_url(answer)
        if same := self._planner.unchanged(queued, host.slot, answer, target):
            self._ledger.record(same, host, queued.url)
            return True
        if sniffing is not None:
            answer = sniffing.as_page(answer)
        return await self._take_in(host, name, queued, answer, passed)

    async def _read_sitemap(self, turn: Turn, queued: Queued) -> None:
        """A sitemap is no page: it takes nothing from the budget, and what it lists is queued."""
        host = turn.host
        fetch = self._effective.config.site(host.name_of(queued.url)).fetch
        reading = self._sitemaps.reading(queued)
        request = Request(
            url=queued.url,
            headers=self._planner.conditions(queued),
            limits=limits_of(fetch.timeout_s, fetch.max_body_bytes),
            wants_body=lambda head: 200 <= head.status < 300,
            into=lambda _: reading,
        )
        host.appetite = PREFETCH
        self._refill(host)
        self._ledger.asking(queued)
        result = await self._contacts.fetch(turn, request, kind=SITEMAP)
        if isinstance(result, Failure):
            await reading.break_off()
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
        if (
            isinstance(result, Failure)
            and self._contacts.excuses(result)
            and host.excuse(queued, result)
        ):
            self._turns.consider(host)  # it is asked for again when our own trouble is over
            return None
        if isinstance(result, Failure) and not result.connected:
            # Its origin is out of reach, which is the engine's matter; the URL stays queued.
            self._ledger.not_asked(host, queued)
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
        body_bytes = len(answer.body) if new and answer.body_read else 0
        host.visited += new  # already now: its next turn may begin while this page waits to be read
        host.body_bytes += body_bytes
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
                crawled_page(queued, answer, outcome, read, usage, links=self._wanted.links()),
            ):
                self._ledger.not_asked(host, queued)
                return False
            recorded = True
        finally:
            self.unread -= 1
            host.unread -= 1
            if not recorded:
                host.visited -= new
                host.body_bytes -= body_bytes
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

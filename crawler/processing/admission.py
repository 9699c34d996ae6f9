"""The checks before a request: scope, the limits of the host and of the run, robots.txt."""

from __future__ import annotations

import enum
from typing import Final

from crawler.config.model import Config
from crawler.documents import page
from crawler.fetching.request import BodySink, Head
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.robots_cache import ASKING, Pass, Shut
from crawler.processing import page_requisites
from crawler.processing.attempts import blocked_by, deferred
from crawler.processing.context import CrawlContext, PageRequest
from crawler.processing.recrawl_planner import RecrawlPlanner
from crawler.processing.run_limits import RunLimits
from crawler.processing.sitemaps import Sitemaps
from policies.robots import Verdict
from policies.scope import Skip
from policies.url import host_of, origin_of
from storage.store import Dropped, Looked, Moved, Outcome, Queued, Revisited


class Stop(enum.Enum):
    """The reason why no further URL of a host is judged under this permit."""

    ENOUGH = enum.auto()
    FULL_SOON = enum.auto()  # pages in flight may fill the host; they ask for more when they end
    SCOPE_OUTDATED = enum.auto()  # another worker may have widened the scope a moment ago


ENOUGH, FULL_SOON, SCOPE_OUTDATED = Stop

SCOPE_CURRENT_WITHIN_S: Final = 1.0  # of an order that another worker gave


class Admission:
    """Judges URLs by the config in force, and records the outcomes of those not requested."""

    def __init__(
        self,
        crawl: CrawlContext,
        limits: RunLimits,
        schedule: RecrawlPlanner,
        sitemaps: Sitemaps,
    ) -> None:
        self._config = crawl.config
        self._clock = crawl.clock
        self._frontier = crawl.frontier
        self._buffer = crawl.frontier.buffer
        self._scope = crawl.scope
        self._sinks = crawl.sinks
        self._pages_are_read: Final = crawl.page_queue is not None
        self._limits = limits
        self._schedule = schedule
        self._sitemaps = sitemaps

    # ------------------------------------------------------------ before the request

    def admit(self, host: HostQueue, queued: Queued) -> PageRequest | Stop | None:
        """Decide whether it may be requested now. None: no; its outcome is recorded, and the next
        URL is judged."""
        name = host.name_of(queued.url)
        if (outcome := self._out_of_scope(host, name, queued)) is not None:
            if isinstance(outcome, Stop):
                host.prefetched.appendleft(queued)
                self._frontier.ask_later(host, SCOPE_CURRENT_WITHIN_S)
                return outcome
            self._buffer.record(outcome, host, queued.url)
            return None
        if queued.before is None:
            rules = self._config.config.site(host.slot).scope
            host.full = rules.host_limit(host.visited, host.body_bytes)
            if host.full is not None or (host.pages_in_flight and self.may_be_full(host)):
                host.prefetched.appendleft(queued)
                host.drop_prefetched()
                return FULL_SOON if host.full is None else ENOUGH
        verdict = self._frontier.robots.check(host, queued.url)
        if not isinstance(verdict, Pass):
            self._refuse(host, queued, verdict)
            return None
        if queued.suspect and self._frontier.in_flight.suspect_in_flight:
            self._buffer.record(deferred(queued, host.slot), host, queued.url)
            return None
        if not queued.sitemap and not self._limits.take_page():
            host.prefetched.appendleft(queued)
            return ENOUGH
        site, external = self._config.config.site(name), self._is_external(queued, name)
        return PageRequest(host, queued, name, site, verdict, external)

    def _is_external(self, queued: Queued, name: str) -> bool:
        """Return whether a URL of the host `name` was queued only to find out its status."""
        wanted_whole = queued.seed or queued.requisite
        return not wanted_whole and self._scope.is_external(queued.url, name)

    def _refuse(self, host: HostQueue, queued: Queued, verdict: object) -> None:
        """robots.txt does not let it be requested now, or at all."""
        if verdict is ASKING:
            host.parked.setdefault(origin_of(queued.url), []).append(queued)
        elif isinstance(verdict, Shut):
            host.closed.add(origin_of(queued.url))
            host.in_memory.discard(queued.id)
        elif isinstance(verdict, Verdict) and queued.sitemap and queued.before is not None:
            # What was read stays so; named again, it is blocked.
            outcome = Revisited(id=queued.id, slot=host.slot, plan=None)
            self._buffer.record(outcome, host, queued.url)
        elif isinstance(verdict, Verdict):
            now_s = self._clock.wall()
            blocked = blocked_by(verdict, queued.id, host.slot, queued.url, now_s=now_s)
            if queued.before is not None and self._sinks is not None:
                self._sinks.withdraw_blocked(queued.url, blocked)
            self._buffer.record(blocked, host, queued.url, about=queued, verdict=verdict)

    def _out_of_scope(self, host: HostQueue, name: str, queued: Queued) -> Outcome | Stop | None:
        """Scope is judged again: the config may have changed since the URL was queued."""
        slot = self._config.config.slot_of(name)
        if slot != host.slot:
            return Moved(id=queued.id, slot=host.slot, to_slot=slot)
        if queued.sitemap:
            if self._sitemaps.wanted(name) and (
                queued.before is None or self._schedule.rules(queued.url).on
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
            requisite=queued.requisite and page_requisites.wanted(self._config, self._sinks),
            lead=queued.seed and queued.hops > 0,
            link=True,
        )
        if queued.before is not None:
            # It stays visited, but is not revisited any more.
            wanted = skip is None and self._schedule.rules(queued.url).on
            return None if wanted else Revisited(id=queued.id, slot=host.slot, plan=None)
        if host.leased_s >= self._frontier.informed_s and (
            skip is Skip.OUTSIDE or (skip is None and self._is_external(queued, name))
        ):
            return SCOPE_OUTDATED
        if skip is not None:
            return Dropped(id=queued.id, slot=host.slot, reason=skip)
        return None

    def may_be_full(self, host: HostQueue) -> bool:
        """Return whether the pages in flight may bring a host to its page limit."""
        in_flight = host.pages_in_flight
        return (
            in_flight > 0
            and host.visited + in_flight
            >= self._config.config.site(host.slot).scope.max_pages_per_host
        )

    @property
    def wants_links(self) -> bool:
        """Whether anything besides the crawl uses the links of pages."""
        return self._pages_are_read or (self._sinks is not None and self._sinks.wants_links)


class PageBody:
    """A `BodyReader`: reads the bodies of pages, into the Answer, where anyone is interested.

    requisite: of what a page needs to be shown, whatever types scope wants.
    """

    def __init__(self, crawl: CrawlContext, *, requisite: bool) -> None:
        self._config = crawl.config
        self._scope = crawl.scope
        self._sinks = crawl.sinks
        self._pages_are_read: Final = crawl.page_queue is not None
        self._requisite = requisite

    def wants_body(self, head: Head) -> bool:
        """Links are read from 2xx answers of types that hold them."""
        content_type = head.headers.get("Content-Type")
        if self._requisite and (
            self._is_style_sheet(head, content_type)
            or self._a_sink_wants(head, content_type, requisite=True)
        ):
            return True
        return (
            200 <= head.status < 300
            and (
                self._pages_are_read
                or page.may_be_html(content_type)
                or self._a_sink_wants(head, content_type)
            )
            and self._scope.wants_type(content_type, host=host_of(head.url))
        )

    def sink(self, _head: Head) -> BodySink | None:
        return None

    def _is_style_sheet(self, head: Head, content_type: str | None) -> bool:
        """Which has requisites of its own, to be found."""
        style = (content_type or "").lower().startswith("text/css")
        return style and 200 <= head.status < 300 and self._config.config.requisites

    def _a_sink_wants(
        self, head: Head, content_type: str | None, *, requisite: bool = False
    ) -> bool:
        return self._sinks is not None and self._sinks.wants_body(
            head.url, head.status, content_type, requisite=requisite
        )


def looked(config: Config) -> Looked:
    """Return what a report could miss of a page if it had been parsed: an external page has nothing
    to store, but its fragments are unknown."""
    found = Looked(0)
    if config.storage.links:
        found |= Looked.LINKS
    if config.storage.fragments:
        found |= Looked.POINTERS
    if config.requisites:
        found |= Looked.REQUISITES
    return found


class NoBody:
    """A `BodyReader`: the status is all that counts."""

    def wants_body(self, _head: Head) -> bool:
        return False

    def sink(self, _head: Head) -> BodySink | None:
        return None

"""What is wanted now: a URL, when its turn has come; a body, when its header is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.config.model import CurrentConfig
from crawler.documents import page
from crawler.fetching.request import Head
from crawler.politeness.host import Host
from crawler.visiting import requisites
from crawler.visiting.plans import Planner
from crawler.visiting.sitemaps import Sitemaps
from policies.scope import Scope, Skip
from policies.url import host_of
from storage.store import Dropped, Moved, Outcome, Queued, Revisited

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks


class Wanted:
    """Judges by the config that counts now. `hands_over`: somebody reads the pages."""

    def __init__(
        self,
        *,
        effective: CurrentConfig,
        scope: Scope,
        sitemaps: Sitemaps,
        planner: Planner,
        hands_over: bool,
        sinks: Sinks | None,
    ) -> None:
        self._effective = effective
        self._scope = scope
        self._sitemaps = sitemaps
        self._planner = planner
        self._hands_over = hands_over
        self._sinks = sinks

    def out_of_scope(self, host: Host, name: str, queued: Queued) -> Outcome | None:
        """Scope is judged again: the config may have changed since the URL of the host of this name
        was queued."""
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
            requisite=queued.requisite and self.shows,
            lead=queued.seed and queued.hops > 0,
        )
        if queued.before is not None:
            # It stays visited, but nobody wants to come back any more.
            wanted = skip is None and self._planner.rules(queued.url).on
            return None if wanted else Revisited(id=queued.id, slot=host.slot, plan=None)
        if skip is not None:
            return Dropped(id=queued.id, slot=host.slot, reason=skip)
        return None

    def limit_reached(self, host: Host) -> Skip | None:
        """The limit on a host's pages, or on their bytes, that leaves its other URLs queued."""
        rules = self._effective.config.site(host.slot).scope
        return rules.host_limit(host.visited, host.body_bytes)

    def may_be_full(self, host: Host) -> bool:
        """Whether the pages in flight may bring a host to its page limit."""
        in_flight = host.pages_in_flight
        return (
            in_flight > 0
            and host.visited + in_flight
            >= self._effective.config.site(host.slot).scope.max_pages_per_host
        )

    def body(self, head: Head) -> bool:
        """Is there anyone to read it? Links are read from 2xx answers of types that hold them."""
        content_type = head.headers.get("Content-Type")
        return (
            200 <= head.status < 300
            and (self._hands_over or page.may_be_html(content_type) or self._a_sink_wants(head))
            and self._scope.wants_type(content_type, host=host_of(head.url))
        )

    def requisite_body(self, head: Head) -> bool:
        """As `body`, of what a page needs to be shown: whatever types scope wants. A style sheet
        has requisites of its own."""
        style = (head.headers.get("Content-Type") or "").lower().startswith("text/css")
        return (
            (style and 200 <= head.status < 300 and self._effective.config.requisites)
            or self._a_sink_wants(head, requisite=True)
            or self.body(head)
        )

    @property
    def shows(self) -> bool:
        """Does anybody want what pages need to be shown?"""
        return requisites.wanted(self._effective, self._sinks)

    def links(self) -> bool:
        """Does anyone look at the links of pages, besides the crawl?"""
        return self._hands_over or (self._sinks is not None and self._sinks.wants_links)

    def _a_sink_wants(self, head: Head, *, requisite: bool = False) -> bool:
        content_type = head.headers.get("Content-Type")
        return self._sinks is not None and self._sinks.wants_body(
            head.url, head.status, content_type, requisite=requisite
        )

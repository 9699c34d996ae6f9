"""The recrawl schedule of a page, computed at each visit, and the conditional requests of
revisits."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.documents import page
from crawler.fetching.request import Answer
from crawler.frontier.robots_cache import RobotsCache
from crawler.processing import stored_links
from crawler.processing.attempts import must_read
from crawler.processing.stored_links import body_hash
from policies import declarations, recrawl
from policies.declarations import NOTHING, Declared
from policies.indexing import Directives
from policies.recrawl import ContentChange, RecrawlRules
from policies.url import host_of, origin_of
from storage.store import Plan, Queued, Revisited, Unplanned

_NO_HEADERS: Mapping[str, str] = {}
_VALIDATOR_CHARS_MAX = 1_024  # a longer ETag is not kept: it is a page's, and there are millions


class RecrawlPlanner:
    """Decides by the rules of a URL's host, as the config has them now."""

    def __init__(self, effective: CurrentConfig, clock: Clock, robots: RobotsCache) -> None:
        self._effective = effective
        self._clock = clock
        self._robots = robots

    def rules(self, url: str) -> RecrawlRules:
        return self._effective.config.site(host_of(url)).revisit

    def conditions(self, queued: Queued) -> Mapping[str, str]:
        """Headers that let the server say that nothing has changed (RFC 9110, 13.1)."""
        if queued.before is None or self._must_read(queued):
            return _NO_HEADERS
        plan = queued.before.plan
        if not plan.visits % recrawl.WHOLE_EVERY:
            return _NO_HEADERS
        headers = {}
        if plan.etag is not None:
            headers["If-None-Match"] = plan.etag
        if plan.last_modified is not None:
            headers["If-Modified-Since"] = plan.last_modified
        return headers

    def unchanged(
        self, queued: Queued, slot: str, answer: Answer, target: str | None
    ) -> Revisited | None:
        """Return what is recorded of a visit again that saw nothing new; None: it did.

        `target`: where it redirects to, as it would be stored."""
        before = queued.before
        if before is None:
            return None
        said = declarations.parse(before.plan.declared)
        says = self._declared(queued, answer)
        at = self._times(before.plan)
        same_use = said is not None and not says.changed(said, at=at)
        plan = self._plan(queued, answer, before.status, ContentChange.UNCHANGED, says)
        if answer.status == 304:
            if not same_use and plan is not None:
                due_in_s = plan.due_in_s if said is None else 0.0
                plan = must_read(structs.replace(plan, due_in_s=due_in_s))
            ban = None if same_use else says.ban(at[1])
            return Revisited(id=queued.id, slot=slot, plan=plan, ban=ban)
        if self._must_read(queued) and answer.status < 300:
            return None
        etag, last_modified = _validators(answer)
        if not same_use or recrawl.is_changed(
            status=(before.status, answer.status),
            body_hash=(before.body_hash, body_hash(answer)),
            etag=(before.plan.etag, etag),
            last_modified=(before.plan.last_modified, last_modified),
            target=(before.redirect_url, target),
            content_type=(before.content_type, answer.headers.get("Content-Type")),
        ):
            return None
        return Revisited(id=queued.id, slot=slot, plan=plan)

    def _times(self, before: Plan) -> tuple[float, float]:
        """The times of the last answer and of this one. What was no longer available does not
        return because the clock was set back."""
        return before.checked_at, max(before.checked_at, self._clock.wall())

    def _declared(self, queued: Queued, answer: Answer, body: Directives | None = None) -> Declared:
        """What is declared of the use of a page from this answer on. `body`: by its meta elements;
        None: they were not read."""
        headers = answer.headers
        before = None if queued.before is None else declarations.parse(queued.before.plan.declared)
        origin = self._robots.get(origin_of(queued.url))
        known = origin is not None and (origin.answered or not origin.rules.obey)
        return declarations.declared(
            lambda name: headers.getall(name, ()),
            tokens=self._effective.config.token(host_of(queued.url)),
            links=page.header_links(answer.url, headers),
            robots=stored_links.robots_usage(queued.url, origin) if known else None,
            body=body,
            before=before,
            whole=answer.status != 304,
        )

    def _must_read(self, queued: Queued) -> bool:
        """Whether the page must be read even if unchanged: it was visited before the config asked
        for records that it now keeps, or it is not known what it declared of its use."""
        before = queued.before
        if before is None or queued.sitemap:
            return False
        if declarations.parse(before.plan.declared) is None:
            return True
        if not 200 <= before.status < 300:
            return False
        return bool(
            stored_links.wanted(self._effective.config, host_of(queued.url)) & ~before.looked
        )

    def plan(
        self, queued: Queued, answer: Answer, body: Directives, *, fetched_at: float
    ) -> Plan | None:
        """The plan for a new or changed page; None: it is not visited again. `body`: what its meta
        elements declare."""
        if not self._effective.config.revisits:
            return None
        seen = ContentChange.FIRST if queued.before is None else ContentChange.CHANGED
        says = self._declared(queued, answer, body)
        return self._plan(queued, answer, answer.status, seen, says, now_s=fetched_at)

    def sitemap(self, queued: Queued, answer: Answer) -> Plan | None:
        """A sitemap is read again daily, or as often as pages where that is more."""
        rules = self.rules(queued.url)
        if not rules.on or not (200 <= answer.status < 300 or answer.status == 304):
            return None
        every_s = min(rules.interval_s, recrawl.DAY_S)
        plan = self._plan(queued, answer, 200, ContentChange.CHANGED, NOTHING)
        return None if plan is None else structs.replace(plan, due_in_s=every_s, interval_s=every_s)

    def failed(self, queued: Queued, slot: str) -> Revisited:
        """A visit again that had no answer: the page stays as it was, unless it is no longer
        available by what was declared before, and is tried again."""
        plan, ban = None, None
        rules = self.rules(queued.url)
        if queued.before is not None and rules.on:
            before = queued.before.plan
            failures = before.failures + 1
            in_s = recrawl.retry_in_s(rules, failures)
            plan = structs.replace(before, due_in_s=in_s, failures=failures)
            said = declarations.parse(before.declared)
            at = self._times(before)
            if said is not None and said.changed(said, at=at):
                plan, ban = must_read(plan), said.ban(at[1])
        return Revisited(id=queued.id, slot=slot, plan=plan, ban=ban)

    def late(self, page: Unplanned) -> Plan | None:
        """The plan for a page visited before revisits were configured."""
        rules = self.rules(page.url)
        if not rules.on:
            return None
        every_s = recrawl.interval_s(
            rules, status=page.status, seen=ContentChange.FIRST, listing=page.listing
        )
        now_s = self._clock.wall()
        news = recrawl.is_modified_since_visit(
            page.listing, visited_at=page.fetched_at, now_s=now_s
        )
        return Plan(
            due_in_s=0.0 if news else max(0.0, page.fetched_at + every_s - now_s),
            interval_s=every_s,
            checked_at=page.fetched_at,
            changed_at=page.fetched_at,
        )

    def _plan(
        self,
        queued: Queued,
        answer: Answer,
        status: int,
        seen: ContentChange,
        says: Declared,
        *,
        now_s: float | None = None,
    ) -> Plan | None:
        if not self._effective.config.revisits:
            return None
        rules = self.rules(queued.url)
        if not rules.on:
            return None
        now_s = round(self._clock.wall(), 3) if now_s is None else now_s
        before = None if queued.before is None else queued.before.plan
        every_s = recrawl.interval_s(
            rules,
            status=status,
            seen=seen,
            before_s=None if before is None else before.interval_s,
            listing=queued.listing,
        )
        etag, last_modified = _validators(answer)
        if before is not None and answer.status == 304:
            etag, last_modified = etag or before.etag, last_modified or before.last_modified
        ends_at = says.unavailable_at(now_s)
        return Plan(
            due_in_s=every_s if ends_at is None else recrawl.due_in_s(every_s, ends_at - now_s),
            interval_s=every_s,
            checked_at=now_s,
            changed_at=before.changed_at if before and seen is ContentChange.UNCHANGED else now_s,
            visits=1 if before is None else before.visits + 1,
            etag=etag,
            last_modified=last_modified,
            declared=str(says),
        )


def _validators(answer: Answer) -> tuple[str | None, str | None]:
    def kept(name: str) -> str | None:
        value = answer.headers.get(name, "").strip()
        sendable = value.isascii() and value.isprintable()
        return value if value and sendable and len(value) <= _VALIDATOR_CHARS_MAX else None

    return kept("ETag"), kept("Last-Modified")

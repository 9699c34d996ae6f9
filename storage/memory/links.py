"""Inserting links, and what they say besides of URLs that are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from policies.scope import Skip
from policies.url import host_of, origin_of
from storage.memory.leases import Leases
from storage.memory.rows import Url
from storage.memory.tables import Tables
from storage.store import Link, UrlState
from storage.timekeeper import Timekeeper


class Links:
    """Puts URLs into the queue, and counts what is left out."""

    def __init__(
        self, tables: Tables, time: Timekeeper, leases: Leases, *, queries_per_path_max: float
    ) -> None:
        self._tables = tables
        self._time = time
        self._leases = leases
        self._queries_per_path_max = queries_per_path_max

    def insert(self, groups: Iterable[tuple[int | None, Sequence[Link]]]) -> Counter[str]:
        """Queue what is new among the links of each page."""
        tables, now_s = self._tables, self._time.now_s()
        added: Counter[str] = Counter()
        pairs = [(referrer, link) for referrer, links in groups for link in links]
        seeds = {link.url for _, link in pairs if link.seed}
        refused: set[str] = set()  # counted once a commit
        for referrer, link in pairs:
            url = tables.by_url.get(link.url)
            if url is not None and _is_in_view(url):
                if link.seed:
                    url.seed = True
                    url.root = url.root or not link.hops
                if link.seed or url.state is UrlState.QUEUED:
                    tables.lower(url, link.depth)
                continue
            origin = tables.origin(origin_of(link.url), host_of(link.url), link.slot, now_s)
            path, question, _ = link.url.partition("?")
            if question and link.url not in seeds:
                if origin.queries.get(path, 0) >= self._queries_per_path_max:
                    refused.add(link.url)
                    continue
                origin.queries[path] = origin.queries.get(path, 0) + 1
            if url is None:
                url = tables.new_url(link, origin, referrer)
            else:
                url.depth, url.priority, url.seed = link.depth, link.priority, link.seed
                url.anchor, url.referrer, url.sitemap = link.anchor, referrer, link.sitemap
                url.requisite, url.hops = link.requisite, link.hops
                url.requisite_depth = link.requisite_depth
                url.root = url.root or (link.seed and not link.hops)
            self.requeue(url, added)
        named = {
            link.url: link for _, link in pairs if link.sitemap or link.again_before is not None
        }
        for name, link in named.items():
            url = tables.by_url.get(name)
            if url is not None and _is_in_view(url):
                self._note_sitemap(url, link, added)
        for _, link in pairs:
            listed = tables.by_url.get(link.url) if link.listing is not None else None
            if listed is not None and _is_in_view(listed):
                listed.listing = link.listing
                self._hasten(listed)
        if refused:
            self.skip({Skip.MAX_QUERIES_PER_PATH: len(refused)})
        return added

    def _hasten(self, url: Url) -> None:
        """What a sitemap says has changed since it was visited is due now."""
        if url.plan is None or url.listing is None or url.listing.lastmod_at is None:
            return
        now_s = self._time.now_s()
        news = url.plan.checked_at < round(url.listing.lastmod_at) <= self._time.wall_s()
        if news and url.plan_at > now_s:
            self._tables.replan(url, url.plan, now_s)

    def _note_sitemap(self, url: Url, link: Link, added: Counter[str]) -> None:
        """What is named as a sitemap is one; see `Store.add`."""
        if link.sitemap and not url.sitemap:
            self._tables.lower(url, link.depth)
            url.sitemap = True
        if url.state is UrlState.VISITED and link.sitemap:
            url.fetched = True
            self.requeue(url, added)
        elif (
            url.is_read
            and url.read is not None
            and link.again_before is not None
            and max(url.read.fetched_at, url.plan.checked_at if url.plan else 0.0)
            < link.again_before
        ):
            self.requeue(url, added)

    def requeue(self, url: Url, added: Counter[str]) -> None:
        """Queue a URL as if it were new."""
        self._tables.queue(url)
        added[url.origin.host.name] += 1
        self._leases.offer(url.origin.host)

    def skip(self, skipped: Mapping[str, int]) -> None:
        for reason, count in skipped.items():
            self._tables.skipped[reason] = self._tables.skipped.get(reason, 0) + count


def _is_in_view(url: Url) -> bool:
    """Whether a link to it changes no state."""
    return url.state is not None or url.is_read

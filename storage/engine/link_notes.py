"""Facts that links add to known URLs: that they are sitemaps, entries of sitemaps, and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from policies.listing import Listing
from storage.engine.counters import CounterChanges
from storage.engine.link_table import OUT, SITEMAP, LinkTable
from storage.engine.name_ids import NameIds
from storage.engine.recrawl_plans import RecrawlPlans
from storage.engine.statements import Statements, Values
from storage.engine.url_changes import UrlChanges, url_rows
from storage.timekeeper import Moment
from storage.url_records import Link, UrlState

AHEAD_S: Final = 86_400.0
"""A reading further ahead of the wall clock was noted before that was set back: it may be old."""


@dataclass(slots=True)
class LinkNotes:
    """Applies what links add to URLs, after the links were inserted. For the store's thread
    only."""

    sql: Statements
    names: NameIds
    links: LinkTable
    plans: RecrawlPlans

    def note(self, links: Sequence[Link], tally: CounterChanges, at: Moment) -> None:
        """Apply it to the URLs of these links."""
        self._sitemaps(links, tally, at)
        self._listings(links, at)
        self._data(links)

    def _sitemaps(self, links: Sequence[Link], tally: CounterChanges, at: Moment) -> None:
        """Turn known pages into sitemaps, and queue sitemaps again that were read too long ago."""
        named = {link.url: link for link in links if link.sitemap or link.again_before is not None}
        if not named:
            return
        ids = self.links.known(list(named))
        rows = url_rows(self.sql, ids.values())
        keys = [(key,) for key in rows]
        read_at = dict(self.sql.read_many(list[tuple[int, float]], "read_at", keys))
        changes = UrlChanges(self.sql, self.names, tally)
        new = []
        for url, key in ids.items():
            row, again_before = rows[key], named[url].again_before
            if row.state == OUT and again_before is not None:
                read_s = read_at.get(key, again_before)
                again = read_s < again_before or read_s > at.wall_s + AHEAD_S
            else:
                again = row.state == UrlState.VISITED and named[url].sitemap
            if again:
                changes.requeued(row)
            if named[url].sitemap and not row.flags & SITEMAP:
                new.append((key, named[url].depth))
        changes.write()
        self.sql.many("make_sitemaps", new)

    def _data(self, links: Sequence[Link]) -> None:
        """Store the data of seeds, in place of what was there: seeds were given on purpose."""
        data = {link.url: link.data for link in links if link.seed and link.data is not None}
        if not data:
            return
        ids = self.links.known(list(data))
        self.sql.many("put_data", [(key, data[url]) for url, key in ids.items()])
        self.sql.many("mark_data", [(key,) for key in ids.values()])

    def _listings(self, links: Sequence[Link], at: Moment) -> None:
        listed: dict[str, Listing] = {}
        for link in links:
            if link.listing is not None and (link.listing.is_said or link.url not in listed):
                listed[link.url] = link.listing
        if not listed:
            return
        rows: list[Values] = []
        for url, key in self.links.known(list(listed)).items():
            one = listed[url]
            lastmod = None if one.lastmod_at is None else round(one.lastmod_at)
            rows.append((key, lastmod, one.changefreq, one.priority))
        self.sql.many("put_hints", rows)
        keys: list[Values] = [(row[0],) for row in rows]
        self.sql.many("make_listed", keys)
        self.plans.hasten(
            [int(row[0] or 0) for row in rows if row[1] is not None], at.now_s, at.wall_s
        )

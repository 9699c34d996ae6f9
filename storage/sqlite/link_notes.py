"""What links say besides of URLs that are known: that they are sitemaps, what a sitemap lists."""

from __future__ import annotations

from collections.abc import Sequence

from storage.sqlite.counters import Tally
from storage.sqlite.link_table import OUT, SITEMAP, Links
from storage.sqlite.name_ids import Names
from storage.sqlite.recrawl_schedule import Plans
from storage.sqlite.statements import Statements, Values
from storage.sqlite.url_changes import Changes, url_rows
from storage.store import Link, UrlState
from storage.timekeeper import Moment


class Notes:
    """Notes it, once the links are in."""

    def __init__(self, sql: Statements, names: Names, links: Links, plans: Plans) -> None:
        self._sql = sql
        self._names = names
        self._links = links
        self._plans = plans

    def note(self, links: Sequence[Link], tally: Tally, at: Moment) -> None:
        """What links say besides, of URLs that are known by now."""
        self._sitemaps(links, tally)
        self._listings(links, at)

    def _sitemaps(self, links: Sequence[Link], tally: Tally) -> None:
        """What is named as a sitemap is one: a page that is known becomes one, one that was read
        too long ago is read again."""
        named = {link.url: link for link in links if link.sitemap or link.again_before is not None}
        if not named:
            return
        ids = self._links.known(list(named))
        rows = url_rows(self._sql, ids.values())
        keys = [(key,) for key in rows]
        read_at = dict(self._sql.read_many(list[tuple[int, float]], "read_at", keys))
        changes = Changes(self._sql, self._names, tally)
        new = []
        for url, key in ids.items():
            row, again_before = rows[key], named[url].again_before
            if row.state == OUT and again_before is not None:
                again = read_at.get(key, again_before) < again_before
            else:
                again = row.state == UrlState.VISITED and named[url].sitemap
            if again:
                changes.requeued(row)
            if named[url].sitemap and not row.flags & SITEMAP:
                new.append((key, named[url].depth))
        changes.write()
        self._sql.many("make_sitemaps", new)

    def _listings(self, links: Sequence[Link], at: Moment) -> None:
        listed = {link.url: link.listing for link in links if link.listing is not None}
        if not listed:
            return
        rows: list[Values] = []
        for url, key in self._links.known(list(listed)).items():
            one = listed[url]
            lastmod = None if one.lastmod_at is None else round(one.lastmod_at)
            rows.append((key, lastmod, one.changefreq, one.priority))
        self._sql.many("put_hints", rows)
        keys: list[Values] = [(row[0],) for row in rows]
        self._sql.many("make_listed", keys)
        self._plans.hasten(
            [int(row[0] or 0) for row in rows if row[1] is not None], at.now_s, at.wall_s
        )

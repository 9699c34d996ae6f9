"""Looking into a store without a file."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from policies.robots_state import RobotsState
from storage import paging
from storage.columns import STATE_VIEWS, check_view, robots_state
from storage.memory import reports
from storage.memory.rows import Origin
from storage.memory.tables import Tables
from storage.store import SEEDS_AT_ONCE, Row, RowPage, Stats, UrlState, Visited
from storage.timekeeper import Timekeeper


class MemoryReader:
    """`Reader`, and what `Store` has of it."""

    def __init__(self, tables: Tables, time: Timekeeper) -> None:
        self._tables = tables
        self._time = time
        self._names: list[str] = []  # of the latest sessions

    async def close(self, session: int | None = None) -> None:
        """There is nothing to let go of."""

    async def sessions(self) -> Sequence[str]:
        return self._names

    async def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        seeds = [url.url for url in self._tables.urls.values() if url.root]
        for start in range(0, len(seeds), SEEDS_AT_ONCE):
            yield seeds[start : start + SEEDS_AT_ONCE]

    async def stats(self) -> Stats:
        origins = self._tables.origins.values()
        return Stats(
            visited=sum(origin.counts[UrlState.VISITED] for origin in origins),
            blocked=sum(origin.counts[UrlState.BLOCKED] for origin in origins),
            failed=sum(origin.counts[UrlState.FAILED] for origin in origins),
            queued=sum(origin.counts[UrlState.QUEUED] for origin in origins),
            hosts=len(self._tables.hosts),
            body_bytes=sum(origin.body_bytes for origin in origins),
        )

    async def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        check_view(view, host)
        for row in islice(self._rows(view, host), limit):
            yield row

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        for row in reports.rows(self._tables, kind):
            yield row

    def _rows(self, view: str, host: str | None) -> Iterator[Row]:
        tables, shift_s = self._tables, self._time.shift_s()
        if view == "skipped":
            for reason in sorted(tables.skipped):
                yield {"reason": reason, "count": tables.skipped[reason]}
        elif view == "hosts":
            for name in sorted(tables.hosts):
                if host is None or name == host:
                    yield tables.hosts[name].row(shift_s)
        elif view == "links":
            for url in list(tables.urls.values()):
                if url.state is UrlState.VISITED and url.page and is_of(url.origin, host):
                    yield from _links_of(url.url, url.page)
        elif view == "malformed":
            for url in list(tables.urls.values()):
                if url.state is UrlState.VISITED and url.page and is_of(url.origin, host):
                    for href, reason in url.page.malformed:
                        yield {"source": url.url, "href": href, "reason": reason}
        elif view == "fragments":
            for url in list(tables.urls.values()):
                if url.state is UrlState.VISITED and is_of(url.origin, host):
                    yield from reports.fragment_rows(tables, url)
        elif view == "robots":
            for name in sorted(tables.origins):
                origin = tables.origins[name]
                if origin.robots is not None and is_of(origin, host):
                    yield origin.row()
        elif view in ("sitemaps", "listings"):
            for url in list(tables.urls.values()):
                row = url.sitemap_row(tables.urls) if view == "sitemaps" else url.listing_row()
                if row is not None and is_of(url.origin, host):
                    yield row
        else:
            for url in list(tables.urls.values()):
                if url.state is not None and STATE_VIEWS[url.state] == view:
                    row = url.row(shift_s, tables.urls) if is_of(url.origin, host) else None
                    if row is not None:
                        yield row

    async def hosts_page(
        self,
        *,
        search: str = "",
        state: str = "all",
        sort: str = "host",
        limit: int = 100,
        after: str = "",
        now_s: float = 0.0,
    ) -> RowPage:
        column, descends = paging.sort_of(sort)
        paging.check_limit(limit)
        which = paging.HostFilter(state)
        place = paging.host_place(after, sort) if after else None
        rows = [
            (paging.value_of(row, column), str(row["host"]), row)
            for row in self._rows("hosts", None)
            if search.lower() in str(row["host"]) and paging.is_in(row, which, now_s)
        ]
        rows.sort(key=itemgetter(0, 1), reverse=descends)
        if place is not None:
            beyond = operator.lt if descends else operator.gt
            rows = [each for each in rows if beyond(each[:2], place)]
        chosen = rows[:limit]
        more = paging.mark(sort, chosen[-1][:2]) if len(rows) > limit else None
        return RowPage(rows=[row for _, _, row in chosen], after=more)

    async def blocked_page(
        self, *, host: str | None = None, rule: str = "", limit: int = 100, after: str = ""
    ) -> RowPage:
        paging.check_limit(limit)
        begin = paging.id_place(after)[1] if after else 0
        wanted, found = paging.ascii_lower(rule), list[tuple[int, Row]]()
        for url in self._tables.urls.values():
            if url.state is not UrlState.BLOCKED or url.id <= begin or not is_of(url.origin, host):
                continue
            row = url.row(self._time.shift_s(), self._tables.urls)
            if row and wanted in paging.ascii_lower(str(row["rule"] or "")):
                found.append((url.id, row))
        found.sort(key=itemgetter(0))
        more = paging.mark("id", (0, found[limit - 1][0])) if len(found) > limit else None
        return RowPage(rows=[row for _, row in found[:limit]], after=more)

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in hosts:
            host = self._tables.hosts.get(name)
            for origin in host.origins if host else ():
                if origin.robots is not None and found.get(name, "rules") == "rules":
                    found[name] = robots_state(origin.robots)
        return found

    async def blocked_lines(self, origin: str, *, limit: int = 100_000) -> dict[int, int]:
        counts: Counter[int] = Counter()
        known = self._tables.origins.get(origin)
        body = None if known is None or known.robots is None else known.robots.body
        if known is None or body is None:
            return {}
        for key in known.judged[:limit]:
            url = self._tables.urls[key]
            if url.block is not None and url.block.line is not None and url.judged_by == body:
                counts[url.block.line] += 1
        return dict(counts)

    async def url(self, url: str) -> Row | None:
        found = self._tables.by_url.get(url)
        if found is None:
            return None
        row = dict(found.row(self._time.shift_s(), self._tables.urls) or {"url": url})
        if found.is_read:
            row |= {"state": "sitemaps"} | dict(found.sitemap_row(self._tables.urls) or {})
        elif found.state is None:
            row |= {"state": "skipped", "reason": found.left_out}
        else:
            row["state"] = STATE_VIEWS[found.state]
        row |= {
            "host": found.origin.host.name or None,
            "origin": found.origin.name,
            "referrer": None if found.referrer is None else self._tables.urls[found.referrer].url,
            "anchor": found.anchor,
            "sitemap": found.sitemap,
            "requisite": found.requisite,
            "seed": found.seed,
            "hops": found.hops,
            "listing": found.listing_row(),
        }
        if found.state is UrlState.QUEUED:
            row["error"] = found.error
        return row

    async def host(self, host: str) -> Row | None:
        found = self._tables.hosts.get(host)
        if found is None:
            return None
        return {
            **found.row(self._time.shift_s()),
            "contacts": [
                {"start_at": c.start_at, "end_at": c.end_at, "kind": c.kind, "status": c.status}
                for c in found.ring
            ],
            "robots": [o.row() for o in found.origins if o.robots is not None],
        }

    async def robots_get(self, origin: str) -> RobotsState | None:
        found = self._tables.origins.get(origin)
        return None if found is None else found.robots

    async def robots_copy(self, origin: str) -> RobotsState | None:
        return await self.robots_get(origin)

    async def robots_body(self, url: str) -> bytes | None:
        found = self._tables.by_url.get(url)
        return found.judged_by if found is not None and found.state is UrlState.BLOCKED else None


def is_of(origin: Origin, host: str | None) -> bool:
    return host is None or host in (origin.host.name, origin.hostname)


def _links_of(source: str, page: Visited) -> Iterator[Row]:
    first = {link.url: link for link in reversed(page.outlinks)}
    for link in page.outlinks:
        if first.pop(link.url, None) is not None:
            yield {
                "source": source,
                "target": link.url,
                "anchor": link.anchor,
                "rel": None if link.rel is None else link.rel.role,
                "kind": None if link.rel is None else link.rel.kind,
            }

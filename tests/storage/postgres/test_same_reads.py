"""The same crawl in both engines is read alike: rows, their order, and the types of the values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from policies.listing import Changefreq, Listing
from policies.robots_state import RobotsState
from storage.columns import REPORTS, VIEWS
from storage.paging import HOST_SORTS, HostFilter
from storage.reader import Reader
from storage.store import (
    BlockReason,
    Contact,
    HostClock,
    Looked,
    Malformed,
    Outlink,
    Pointer,
    Queued,
    Rel,
)
from tests.storage.conftest import Rig, server_location

HOSTS = ["a.test", "a-b.test", "ab.test", "b.test", "xn--caf-dma.test", "z.test", "10.0.0.1"]
# Strings whose order depends on a locale, and those that need care in JSON and SQL.
TITLES = [
    "Zebra", "apple", "Äpfel", 'a "b" \\ c', "line\nbreak\ttab", "'; --", "\U0001f600", "", "é",
]  # fmt: skip
PATHS = ["/", "/B", "/a", "/a/b?x=1&y=%20", "/Z", "/_", "/~", "/é", "/%C3%A9", "/:name", "/$1"]
EVERYTHING = Looked.LINKS | Looked.POINTERS | Looked.FRAGMENTS | Looked.REQUISITES
BODY = b"User-agent: *\nDisallow: /a\nDisallow: /Z\n"


async def crawl(rig: Rig) -> None:
    """Fill a database with what there can be."""
    await rig.add("http://a.test/", seed=True, anchor="Start")
    for host in HOSTS:
        await rig.add(*(f"http://{host}{path}" for path in PATHS), depth=2, priority=0.5)
    await rig.add("http://a.test:8080/", "https://a.test/", slot="a.test")
    await rig.add("http://b.test/sitemap.xml", "http://b.test/feed", sitemap=True)
    await rig.add("http://b.test/i.png", requisite=True, requisite_depth=1)
    listing = Listing(lastmod_at=1_700_000_000.0, changefreq=Changefreq.DAILY, priority=0.25)
    await rig.add("http://b.test/listed", listing=listing)
    leases = {lease.slot: lease for lease in await rig.claim(20, 50)}
    urls = {url.url: url for lease in leases.values() for url in lease.prefetched.urls}
    await visit_pages(rig, leases["a.test"], urls)
    await visit_others(rig, leases, urls)
    await rig.store.set_controls(["z.test"], paused=True)
    await rig.store.set_controls(["ab.test"], slow_s=9.5)
    await rig.store.name_session(rig.session, "a crawl é")


async def visit_pages(rig: Rig, lease: Any, urls: dict[str, Queued]) -> None:
    """Pages of every kind, as one host may have them."""
    pages = []
    for number, path in enumerate(PATHS[:9]):
        url = f"http://a.test{path}"
        pages.append(
            rig.visited(
                urls[url], status=200 if number % 3 else 404, title=TITLES[number],
                elapsed_s=0.1 * number, fetched_at=rig.wall_s + number / 3, indexable=number != 1,
                followable=number != 2, archivable=number != 3, looked=EVERYTHING,
                body_hash=f"{(number % 2) * 2**63 + 5:016x}", usage="ai=no" if number else None,
                canonical_url="http://far.test/c" if number == 4 else None,
                links=["http://a.test/new", f"http://new{number}.test/"],
                outlinks=[
                    Outlink("http://a.test/new", "New", None),
                    Outlink(f"http://far.test/{number}", None, Rel.NOFOLLOW),
                    Outlink("http://a.test/B", "broken", None),
                    Outlink("http://b.test/i.png", None, Rel.IMAGE),
                ],
                malformed=[Malformed("hhttp:x", "scheme"), Malformed("é", "syntax")],
                pointers=[
                    Pointer("http://a.test/a", "top", None),
                    Pointer("http://a.test/a", "%C3%A9", "é"),
                    Pointer("http://b.test/", "x", None),
                ],
                elements=["top", "Top", "é" * 600],
                cut="links depth" if number == 5 else None,
                plan=rig.plan(50.0 + number) if number % 2 else None,
            )
        )  # fmt: skip
    clock = HostClock(
        next_in_s=7.5, delay_s=2.5, delay_source="robots", contacts=3, latency_s=0.125,
        smallest_rest_s=2.5, peak_concurrency=1,
    )  # fmt: skip
    contacts = [
        Contact(start_at=rig.wall_s + n, end_at=rig.wall_s + n + 0.5, kind="page", status=200)
        for n in range(60)
    ]
    await rig.commit(lease, *pages, clock=clock, contacts=contacts)


async def visit_others(rig: Rig, leases: Any, urls: dict[str, Queued]) -> None:
    """Redirects, blocked and failed URLs, retries and sitemaps."""
    found = RobotsState(
        status=200, body=BODY, copy_at=1.5, fetched_at=2.5, expires_at=9e9, etag='"x"'
    )
    before = RobotsState(status=200, body=b"User-agent: *\n", copy_at=0.5, fetched_at=0.5)
    for copy in (before, found):
        await rig.store.robots_put(rig.session, "b.test", "http://b.test", copy)
    gone = RobotsState(failures=2, unreachable_since=1.0, error="timeout: no answer", retry_at=5.5)
    await rig.store.robots_put(rig.session, "a.test", "http://a.test:8080", gone)
    absent = RobotsState(status=404, fetched_at=2.5, expires_at=9e9)
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", absent)

    def of(path: str) -> Queued:
        return urls[f"http://b.test{path}"]

    await rig.commit(
        leases["b.test"],
        rig.redirect(of("/"), "http://a.test/", "b.test", links=[]),
        rig.redirect(of("/B"), "http://b.test/", "b.test", links=[]),
        rig.blocked(of("/a"), "b.test", rule="Disallow: /a", line=2),
        rig.blocked(of("/Z"), "b.test", rule="Disallow: /Z", line=3),
        rig.blocked(of("/_"), "b.test", reason=BlockReason.ROBOTS, rule=None, line=None),
        rig.failed(of("/~"), "b.test"),
        rig.failed(of("/é"), "b.test", error="http: 500 é"),
        rig.retry(of("/%C3%A9"), 30.0, "b.test"),
        rig.read(of("/sitemap.xml"), "b.test"),
        rig.read(of("/feed"), "b.test", kind=None, error="not a feed"),
        clock=HostClock(
            backoff_in_s=60.0, next_in_s=60.0, connect_failures=2, breaches=1, unproven=2
        ),
    )
    await rig.store.complete(rig.session, rig_batch(scope=3, depth=2))
    await rig.commit(
        leases["ab.test"],
        rig.visited(urls["http://ab.test/"], "ab.test", body_bytes=2**40, content_type=None),
        rig.blocked(urls["http://ab.test/a"], "ab.test"),
        release=True,
    )


def rig_batch(**skipped: int) -> Any:
    from storage.store import Batch

    return Batch(skipped=skipped)


# ---------------------------------------------------------------- reading


async def listed(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


async def views(reader: Reader, now_s: float) -> Any:
    found: dict[str, Any] = {}
    for view in VIEWS:
        found[view] = await listed(reader.iterate(view))
        assert found[view], view
        found[f"{view} limited"] = await listed(reader.iterate(view, limit=3))
        for host in [*HOSTS, "nobody.test", "\0", "\ud800"]:
            if view != "skipped":
                found[f"{view} {host!r}"] = await listed(reader.iterate(view, host=host))
    return found


async def reports(reader: Reader, now_s: float) -> Any:
    found = {kind: await listed(reader.report(kind)) for kind in REPORTS}
    assert all(found.values())
    return found


async def pages_of_hosts(reader: Reader, now_s: float) -> Any:
    found: dict[str, Any] = {}
    sorts = [*HOST_SORTS, *(f"-{sort}" for sort in HOST_SORTS)]
    for sort, state in [(sort, "all") for sort in sorts] + [("host", one) for one in HostFilter]:
        after: str | None = ""
        while after is not None:
            page = await reader.hosts_page(
                sort=sort, state=state, limit=3, after=after, now_s=now_s
            )
            found[f"{sort} {state} {after}"] = page
            after = page.after
    for search in ("B.T", "%", "_", "\0", "\ud800", "'", "é"):
        found[f"search {search!r}"] = await reader.hosts_page(search=search, now_s=now_s)
    return found


async def pages_of_blocked(reader: Reader, now_s: float) -> Any:
    found: list[Any] = []
    filters: list[dict[str, Any]] = [
        {}, {"host": "b.test"}, {"rule": "DISALLOW: /z"}, {"rule": "\0"}, {"host": "\0"},
        {"rule": "Disallow: /z", "exact": True}, {"exact": True}, {"reason": "redirect"},
    ]  # fmt: skip
    for asked in filters:
        after: str | None = ""
        while after is not None:
            page = await reader.blocked_page(limit=1, after=after, **asked)
            found.append((asked, page.rows))  # the place of the next page is made of ids
            after = page.after
        found.append(await reader.blocked_groups(**asked))
    return found


async def single(reader: Reader, now_s: float) -> Any:
    urls = [f"http://{host}{path}" for host in HOSTS for path in PATHS]
    urls += ["http://far.test/c", "http://b.test/sitemap.xml", "http://b.test/i.png", "nonsense"]
    urls += ["http://b.test/listed", "http://nobody.test/", "http://a\0.test/", "http://\ud800/"]
    hosts = [*HOSTS, "nobody.test", "\0", "\ud800", "'"]
    origins = ["http://b.test", "http://a.test", "http://a.test:8080", "http://x.test", "\0"]
    return {
        "url": {url: await reader.url(url) for url in urls},
        "host": {host: await reader.host(host) for host in hosts},
        "robots_copy": {origin: await reader.robots_copy(origin) for origin in origins},
        "next_urls": {
            host: [{**row, "id": 0} for row in await reader.next_urls(host, now_s=now_s)]
            for host in hosts
        },
        "sampled_urls": {origin: sorted(await reader.sampled_urls(origin)) for origin in origins},
        "robots_before": {origin: await reader.robots_before(origin) for origin in origins},
        "robots_body": {url: await reader.robots_body(url) for url in urls},
        "robots_states": await reader.robots_states(hosts),
        "blocked_lines": {origin: await reader.blocked_lines(origin) for origin in origins},
        "stats": await reader.stats(),
        "seeds": await listed(reader.seeds()),
        "sessions": await reader.sessions(),
    }


Read = Callable[[Reader, float], Awaitable[Any]]


@pytest.fixture
async def rigs(tmp_path: Path, postgres_url: str) -> AsyncIterator[list[Rig]]:
    found = [
        Rig("sqlite", tmp_path / "crawl.db"),
        Rig("postgres", tmp_path, server_location(postgres_url)),
    ]
    for rig in found:
        await rig.open()
        await crawl(rig)
    yield found
    for rig in found:
        await rig.close()


async def test_both_engines_are_read_alike(rigs: list[Rig]) -> None:
    reads: list[Read] = [views, reports, pages_of_hosts, pages_of_blocked, single]
    for read in reads:
        expected, found = [await read(rig.reader, rig.wall_s) for rig in rigs]
        for name in expected if isinstance(expected, dict) else ():
            assert found[name] == expected[name], name
            assert repr(found[name]) == repr(expected[name]), name  # 1 is neither 1.0 nor True
        assert repr(found) == repr(expected)

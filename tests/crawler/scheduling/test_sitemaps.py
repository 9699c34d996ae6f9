"""Sitemaps in a crawl: named in robots.txt or given as seeds, read politely and within scope."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from crawler.fetching.request import Request
from crawler.testing import Reply, html, not_found, redirect, text
from policies.retries import FailureCode
from tests.conftest import World

DAY_S = 86_400.0


def xml(*urls: str, index: bool = False, extra: str = "", **values: Any) -> Reply:
    outer, inner = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    body = "".join(f"<{inner}><loc>{url}</loc>{extra}</{inner}>" for url in urls)
    values.setdefault("content_type", "application/xml")
    return Reply(body=f"<{outer}>{body}</{outer}>", **values)


def named(*sitemaps: str, rules: str = "") -> Reply:
    lines = "".join(f"Sitemap: {url}\n" for url in sitemaps)
    return text(f"User-agent: *\nDisallow: /x\n{rules}\n{lines}")


async def test_what_a_sitemap_of_robots_txt_lists_is_visited(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://a.test/map.xml", "http://cdn.test/more.txt"),
            "http://a.test/": html("Home"),
            "http://a.test/map.xml": xml("http://a.test/1", "http://a.test/x/2", "http://b.test/"),
            "http://cdn.test/robots.txt": named("http://cdn.test/own.xml"),
            "http://cdn.test/more.txt": text("http://a.test/3?a=1&b=2\nhttp://cdn.test/no\n"),
            "http://a.test/1": html("1"),
        },
        "http://a.test/",
    )
    assert crawled.urls("visited") == [
        "http://a.test/", "http://a.test/1", "http://a.test/3?a=1&b=2",
    ]  # fmt: skip
    assert crawled.urls("blocked") == ["http://a.test/x/2"]
    assert crawled.urls("sitemaps") == ["http://a.test/map.xml", "http://cdn.test/more.txt"]
    assert {row["reason"]: row["count"] for row in crawled.rows["skipped"]} == {"outside-scope": 2}
    assert [row["depth"] for row in crawled.rows["visited"]] == [0, 1, 1]
    (host,) = [row for row in crawled.rows["hosts"] if row["host"] == "cdn.test"]
    assert (host["contacts"], host["visited"]) == (2, 0)
    assert crawled.entries(path="/own.xml") == []
    kinds = [c["kind"] for c in (await world.store.reader.host("a.test"))["contacts"]]
    assert sorted(kinds) == ["page", "page", "page", "robots", "sitemap"]


USUAL = {"sitemap_paths": ["/sitemap.xml"]}


@pytest.mark.parametrize("robots", [text("User-agent: *\nDisallow: /x\n"), not_found()])
async def test_without_a_named_sitemap_the_usual_places_are_tried(
    world: Any, robots: Reply
) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": robots,
            "http://a.test/": html("Home", "http://b.test/"),
            "http://a.test/sitemap.xml": xml("http://a.test/1"),
            "http://a.test/1": html("1"),
        },
        "http://a.test/",
        scope=USUAL,
        politeness={"delay": 5.0},
    )
    assert crawled.urls("visited") == ["http://a.test/", "http://a.test/1"]
    assert crawled.urls("sitemaps") == ["http://a.test/sitemap.xml"]
    at = crawled.at("a.test")
    assert len(at) == 4
    assert all(b - a >= 5.0 for a, b in itertools.pairwise(at))


async def test_the_usual_places_are_tried_only_where_nothing_is_named_or_forbids_it(
    world: Any,
) -> None:
    crawled = await world.crawl(
        {
            "http://named.test/robots.txt": named("http://named.test/map.xml"),
            "http://closed.test/robots.txt": text("User-agent: *\nDisallow: /*.xml\n"),
            "http://down.test/robots.txt": Reply(status=500),
            "http://off.test/robots.txt": not_found(),
            "http://two.test/robots.txt": not_found(),
        },
        *(f"http://{name}.test/" for name in ("named", "closed", "down", "off", "two")),
        scope=USUAL,
        crawl={"patience": 60},
        site={
            "off.test": {"sitemap_paths": []},
            "two.test": {"sitemap_paths": ["/sitemap.xml", "/maps/all.txt?x=1"]},
        },
    )
    assert crawled.urls("sitemaps") == [
        "http://named.test/map.xml", "http://two.test/maps/all.txt?x=1",
        "http://two.test/sitemap.xml",
    ]  # fmt: skip
    assert crawled.urls("blocked") == []


@pytest.mark.parametrize("target", ["/", "/login?next=/sitemap.xml", "http://b.test/404.html"])
async def test_a_usual_place_that_redirects_to_a_page_leaves_it_a_page(
    world: Any, target: str
) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": not_found(),
            "http://a.test/start": html("Start", "/", "/login?next=/sitemap.xml"),
            "http://a.test/": html("Home"),
            "http://a.test/login?next=/sitemap.xml": html("Login"),
            "http://a.test/sitemap.xml": redirect(target),
        },
        "http://a.test/start",
        scope=USUAL,
    )
    assert crawled.urls("visited") == [
        "http://a.test/", "http://a.test/login?next=/sitemap.xml", "http://a.test/start",
    ]  # fmt: skip
    ((url, error),) = [(row["url"], row["error"]) for row in crawled.rows["sitemaps"]]
    assert (url, error) == (
        "http://a.test/sitemap.xml", "it redirects to something that does not look like a sitemap",
    )  # fmt: skip
    assert len(crawled.log.requests("a.test")) == 5


@pytest.mark.parametrize(
    "target", ["/sitemap_index.xml", "/wp-sitemap.xml?page=1", "/map.txt.gz", "/sitemaps/all"]
)
async def test_a_usual_place_may_redirect_to_a_sitemap(world: Any, target: str) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": not_found(),
            "http://a.test/": html("Home"),
            "http://a.test/sitemap.xml": redirect(target),
            f"http://a.test{target}": xml("http://a.test/1"),
        },
        "http://a.test/",
        scope=USUAL,
    )
    assert crawled.urls("queued") == []
    assert [(row["status"], row["urls"], row["error"]) for row in crawled.rows["sitemaps"]] == [
        (302, 0, None), (200, 1, None),
    ]  # fmt: skip


async def test_a_named_sitemap_that_redirects_to_the_home_page_leaves_it_a_page(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://a.test/map.xml"),
            "http://a.test/": html("Home", "/1"),
            "http://a.test/map.xml": redirect("/"),
        },
        "http://a.test/",
    )
    assert "http://a.test/" in crawled.urls("visited")
    assert crawled.urls("sitemaps") == ["http://a.test/map.xml"]
    assert len(crawled.entries(path="/")) == 1


async def test_each_sitemap_is_a_turn_of_its_host(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named(*(f"http://a.test/{n}.xml" for n in range(3))),
            "http://a.test/": html("Home"),
        },
        "http://a.test/",
        politeness={"delay": 5.0},
    )
    at = crawled.at("a.test")
    assert len(at) == 5
    assert all(b - a >= 5.0 for a, b in itertools.pairwise(at))
    assert [row["status"] for row in crawled.rows["sitemaps"]] == [404] * 3
    assert {row["error"] for row in crawled.rows["sitemaps"]} == {"the server answered 404"}


async def test_a_disallowed_sitemap_is_listed_as_blocked(world: Any) -> None:
    crawled = await world.crawl(
        {"http://a.test/robots.txt": named("http://a.test/x/map.xml"), "http://a.test/": html("")},
        "http://a.test/",
    )
    (row,) = crawled.rows["blocked"]
    assert (row["url"], row["rule"]) == ("http://a.test/x/map.xml", "Disallow: /x")
    assert crawled.entries(path="/x/map.xml") == []


async def test_indexes_are_followed_so_deep_and_no_deeper(world: Any) -> None:
    def answers(request: Request) -> Reply:
        path = request.url.removeprefix("http://a.test")
        if path == "/robots.txt":
            return named("http://a.test/0.xml")
        if path.endswith(".xml"):
            level = int(path[1:-4])
            return xml(f"http://a.test/{level + 1}.xml", index=True)
        return html("Home")

    crawled = await world.crawl(answers, "http://a.test/")
    assert len(crawled.rows["sitemaps"]) == 5
    assert {"reason": "too-many-sitemaps", "count": 1} in crawled.rows["skipped"]


async def test_an_index_leads_to_no_foreign_host(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://cdn.test/index.xml"),
            "http://a.test/": html("Home"),
            "http://cdn.test/index.xml": xml(
                "http://cdn.test/1.xml",
                "http://a.test/2.xml",
                "http://victim.test/3.xml",
                index=True,
            ),
            "http://cdn.test/1.xml": xml("http://a.test/1"),
            "http://a.test/2.xml": xml("http://a.test/2"),
        },
        "http://a.test/",
    )
    assert crawled.entries("victim.test") == []
    assert crawled.urls("visited")[1:] == ["http://a.test/1", "http://a.test/2"]


@pytest.mark.parametrize(
    ("reply", "kind", "expected"),
    [
        (xml("http://a.test/1"), "urlset", ["/1"]),
        (xml("http://a.test/1", content_type="text/html"), "urlset", ["/1"]),
        (xml("/sub.xml", index=True), "index", ["/2"]),
        (text("http://a.test/1\nhttp://a.test/2\n"), "text", ["/1", "/2"]),
        (
            Reply(
                body=gzip.compress(b"<rss><channel><item><link>/1</link></item></channel></rss>"),
                content_type="application/gzip",
            ),
            "rss",
            ["/1"],
        ),
        (
            Reply(
                body="<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='1'/></entry>"
                 "<entry><title>" + "x" * 9000 + "</title><link href='2'/></entry></feed>",
                content_type="application/atom+xml",
            ),
            "atom",
            ["/1", "/2"],
        ),
    ],
)  # fmt: skip
async def test_a_seed_that_is_a_sitemap_or_a_feed_is_read_as_one(
    world: Any, reply: Reply, kind: str, expected: list[str]
) -> None:
    crawled = await world.crawl(
        {"http://a.test/seed": reply, "http://a.test/sub.xml": xml("http://a.test/2")},
        "http://a.test/seed",
    )
    assert crawled.urls("visited") == [f"http://a.test{path}" for path in expected]
    assert crawled.rows["sitemaps"][0]["kind"] == kind
    again = await world.crawl({}, "http://a.test/seed")
    assert again.entries(path="/seed") == []


@pytest.mark.parametrize(
    ("reply", "size"),
    [
        (html("Home", "/1"), None),
        (html("x" * 9000, "/1"), None),
        (text("no list of URLs " + "x" * 5000), 0),
        (Reply(body="<note><to>x</to></note>", content_type="application/xml"), 0),
        (Reply(body="http://a.test/1\n", content_type="text/html"), 16),
    ],
)
async def test_a_seed_that_is_a_page_is_a_page(world: Any, reply: Reply, size: int | None) -> None:
    crawled = await world.crawl({"http://a.test/": reply}, "http://a.test/")
    assert crawled.rows["sitemaps"] == []
    row = crawled.rows["visited"][0]
    assert row["body_bytes"] == (len(reply.body) if size is None else size)
    if size is None:
        assert crawled.urls("visited") == ["http://a.test/", "http://a.test/1"]


async def test_a_seed_beyond_max_body_is_too_large_and_a_sitemap_is_not(world: Any) -> None:
    urls = [f"http://a.test/{n}" for n in range(3)]
    crawled = await world.crawl(
        {"http://a.test/page": html("x" * 9000), "http://a.test/map": xml(*urls, extra=" " * 9000)},
        "http://a.test/page",
        "http://a.test/map",
        fetch={"max_body": 6000},
    )
    assert crawled.urls("visited") == urls
    assert [row["error"].partition(":")[0] for row in crawled.rows["failed"]] == ["too-large"]


async def test_sitemaps_may_be_off_for_all_or_for_a_site(world: Any) -> None:
    answers = {
        "http://a.test/robots.txt": named("http://a.test/map.xml"),
        "http://a.test/": html("Home"),
        "http://a.test/map.xml": xml("http://a.test/1"),
    }
    crawled = await world.crawl(answers, "http://a.test/", scope={"sitemaps": False})
    assert crawled.urls("visited") == ["http://a.test/"]
    assert crawled.entries(path="/map.xml") == []
    crawled = await world.crawl(
        answers, "http://a.test/", site={"a.test": {"sitemaps": False}}, at={}
    )
    assert crawled.entries(path="/map.xml") == []


async def test_one_queued_before_they_were_switched_off_leaves_the_queue(world: Any) -> None:
    answers = {
        "http://a.test/robots.txt": named("http://a.test/map.xml"),
        "http://a.test/": html("Home"),
    }
    await world.crawl(answers, "http://a.test/", crawl={"max_pages": 0})
    await world.crawl(answers, "http://a.test/", crawl={"max_pages": 1})
    crawled = await world.crawl(answers, "http://a.test/", scope={"sitemaps": False})
    assert crawled.urls("queued") == []


async def test_max_depth_counts_what_a_sitemap_lists_as_one_link_away(world: Any) -> None:
    answers = {
        "http://a.test/robots.txt": named("http://a.test/map.xml"),
        "http://a.test/": html("Home"),
        "http://a.test/map.xml": xml("http://a.test/1"),
        "http://a.test/1": html("1", "/2"),
    }
    crawled = await world.crawl(answers, "http://a.test/", crawl={"max_depth": 0})
    assert crawled.entries(path="/map.xml") == []
    again = World(world.clock)
    crawled = await again.crawl(answers, "http://a.test/", crawl={"max_depth": 1})
    assert crawled.urls("visited") == ["http://a.test/", "http://a.test/1"]


async def test_a_redirect_is_followed_as_a_sitemap(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://a.test/map.xml"),
            "http://a.test/": html("Home"),
            "http://a.test/map.xml": redirect("https://www.a.test/map.xml"),
            "https://www.a.test/map.xml": xml("http://a.test/1"),
        },
        "http://a.test/",
    )
    assert crawled.urls("visited") == ["http://a.test/", "http://a.test/1"]
    assert [(row["status"], row["error"]) for row in crawled.rows["sitemaps"]] == [
        (302, None), (200, None),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/robots.txt", "/sitemap.xml"])
async def test_a_sitemap_read_before_its_host_was_in_scope_is_read_again(
    world: Any, path: str
) -> None:
    """A redirect leads to it sooner than the seed's redirects end at its host."""
    crawled = await world.crawl(
        {
            f"http://a.test{path}": redirect(f"http://www.a.test{path}"),
            "http://a.test/": redirect("http://www.a.test/"),
            "http://www.a.test/": redirect("/en"),
            "http://www.a.test/en": redirect("/en/"),
            "http://www.a.test/en/": html("Home"),
            "http://www.a.test/sitemap.xml": xml("http://www.a.test/1", "http://www.a.test/2"),
        },
        "http://a.test/",
        scope=USUAL,
    )
    pages = ["", "en", "en/", "1", "2"]
    expected = sorted(["http://a.test/", *(f"http://www.a.test/{page}" for page in pages)])
    assert crawled.urls("visited") == expected
    assert len(crawled.entries(path="/sitemap.xml")) <= 4


async def test_failures_and_refusals_are_those_of_a_page(world: Any) -> None:
    asked: list[str] = []

    def answers(request: Request) -> Reply | FailureCode:
        asked.append(request.url)
        if request.url.endswith("robots.txt"):
            return named("http://a.test/map.xml", "http://a.test/dead.xml")
        if request.url.endswith("dead.xml"):
            return FailureCode.TIMEOUT
        if request.url.endswith("map.xml"):
            if asked.count(request.url) < 3:
                return Reply(status=503)
            return xml("http://a.test/1")
        return html("Home")

    crawled = await world.crawl(answers, "http://a.test/")
    assert crawled.urls("visited") == ["http://a.test/", "http://a.test/1"]
    assert crawled.urls("failed") == ["http://a.test/dead.xml"]
    assert asked.count("http://a.test/map.xml") == 3


async def test_a_page_budget_does_not_count_sitemaps(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://a.test/map.xml"),
            "http://a.test/": html("Home"),
            "http://a.test/map.xml": xml(*(f"http://a.test/{n}" for n in range(9))),
        },
        "http://a.test/",
        crawl={"max_pages": 3},
    )
    assert len(crawled.rows["visited"]) == 3
    assert len(crawled.rows["queued"]) == 7


async def test_priorities_order_the_pages_of_a_host(world: Any) -> None:
    entries = "".join(
        f"<url><loc>http://a.test/{n}</loc><priority>{p}</priority></url>"
        for n, p in enumerate((0.1, 0.5, 1.0))
    )
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://a.test/map.xml"),
            "http://a.test/": html("Home"),
            "http://a.test/map.xml": Reply(body=f"<urlset>{entries}</urlset>"),
        },
        "http://a.test/",
    )
    paths = [entry.path for entry in crawled.log.requests("a.test")]
    assert [path for path in paths if path in ("/0", "/1", "/2")] == ["/2", "/1", "/0"]
    assert [row["priority"] for row in crawled.rows["listings"]] == [0.1, 0.5, 1.0]


async def test_entries_without_dates_are_listed(world: Any) -> None:
    crawled = await world.crawl(
        {
            "http://a.test/robots.txt": named("http://a.test/map.txt"),
            "http://a.test/": html("Home"),
            "http://a.test/map.txt": Reply(body="http://a.test/0\nhttp://a.test/1\n"),
        },
        "http://a.test/",
    )
    rows = crawled.rows["listings"]
    assert [row["url"] for row in rows] == ["http://a.test/0", "http://a.test/1"]
    assert {(row["lastmod_at"], row["priority"]) for row in rows} == {(None, None)}


async def test_a_crawl_killed_while_it_reads_one_reads_it_again(world: Any) -> None:
    urls = [f"http://a.test/{n}" for n in range(2500)]
    answers = {
        "http://a.test/robots.txt": named("http://a.test/map.xml"),
        "http://a.test/": html("Home"),
        "http://a.test/map.xml": xml(*urls),
    }

    async def die(links: Any, **_: Any) -> None:
        if links[0].url != urls[0]:
            world.kill()

    world.medium.before["add"] = die
    crawled = await world.crawl(answers, "http://a.test/")
    assert "http://a.test/map.xml" in crawled.urls("queued")
    crawled = await world.crawl(answers, "http://a.test/", politeness={"delay": 0.01})
    assert len(crawled.rows["visited"]) == 2501
    assert crawled.entries(path="/map.xml")
    crawled = await world.crawl(answers, "http://a.test/")
    assert crawled.entries() == []


async def test_it_is_read_again_with_a_new_robots_txt_a_day_later(world: Any) -> None:
    reads: list[int] = []

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return named("http://a.test/map.xml")
        if request.url.endswith("map.xml"):
            reads.append(1)
            return xml(*(f"http://a.test/{n}" for n in range(len(reads))))
        return html("Home")

    await world.crawl(answers, "http://a.test/")
    assert len(reads) == 1
    await world.wait(3600)
    await world.crawl(answers, "http://a.test/")
    assert len(reads) == 1
    await world.wait(25 * 3600)
    await world.store.add([])
    crawled = await world.crawl(answers, "http://a.test/", "http://a.test/new")
    assert len(reads) == 2
    assert "http://a.test/1" in crawled.urls("visited")


async def test_memory_of_the_frontier_alone_grows_with_a_long_sitemap(
    world: Any, monkeypatch: Callable[..., Any]
) -> None:
    """PageLinks are committed in pieces while it is being read, and never pile up."""
    sizes: list[int] = []

    async def measure(links: Any, **_: Any) -> None:
        sizes.append(len(links))

    world.medium.before["add"] = measure
    urls = [f"http://a.test/{n}" for n in range(12_000)]
    crawled = await world.crawl(
        {"http://a.test/map": xml(*urls)}, "http://a.test/map", crawl={"max_pages": 1}
    )
    assert sum(sizes) == 12_000
    assert max(sizes) < 2_500
    assert crawled.rows["sitemaps"][0]["urls"] == 12_000


async def test_sitemaps_beyond_their_number_are_counted(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a robots.txt, and those of an index."""
    monkeypatch.setattr("crawler.processing.sitemaps.NAMED_MAX", 1)
    monkeypatch.setattr("crawler.processing.sitemaps.CHILDREN_MAX", 2)

    def answers(request: Request) -> Reply:
        path = request.url.removeprefix("http://a.test")
        if path == "/robots.txt":
            return named("http://a.test/index.xml", "http://a.test/a.xml", "http://a.test/b.xml")
        if path == "/index.xml":
            return xml(*(f"http://a.test/{n}.xml" for n in range(5)), index=True)
        return xml("http://a.test/") if path.endswith(".xml") else html("Home")

    crawled = await world.crawl(answers, "http://a.test/")
    assert len(crawled.rows["sitemaps"]) == 3
    assert {"reason": "too-many-sitemaps", "count": 2 + 3} in crawled.rows["skipped"]

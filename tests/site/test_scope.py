"""Which pages a crawl visits: limits, budgets, directives, and how it reports the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crawler.cli.crawl_summary import excluded
from crawler.testing import LocalWeb, Pages, Reply, Site, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

CHAIN: Pages = {f"/{n}": html(f"{n}", f"/{n + 1}") for n in range(9)}


async def test_max_depth_counts_links_from_a_seed_and_no_redirects(courtly: Courtly) -> None:
    site = {**CHAIN, "/": redirect("/0"), "/1": redirect("/1b"), "/1b": html("1b", "/2")}
    async with LocalWeb({"a.test": site}) as web:
        summary = await courtly.crawl(web, "a.test", crawl={"max_depth": 2})
        depths = courtly.rows("visited", "depth, url")
        assert depths == [
            *((0, web.url("a.test", path)) for path in ("/", "/0")),
            *((1, web.url("a.test", path)) for path in ("/1", "/1b")),
            (2, web.url("a.test", "/2")),
        ]
        assert summary.skipped == {"max_depth": 1}
        assert courtly.rows("skipped", "reason, count") == [("max_depth", 1)]


async def test_max_pages_per_host_leaves_the_rest_queued(
    courtly: Courtly,
) -> None:
    site = {"/": html("Home", *(f"/{n}" for n in range(9))), **CHAIN}
    async with LocalWeb({"a.test": site, "b.test": site}) as web:
        summary = await courtly.crawl(web, "a.test", "b.test", scope={"max_pages_per_host": 4})
        assert courtly.rows("hosts", "host, visited, queued") == [
            ("a.test", 4, 6),
            ("b.test", 4, 6),
        ]
        assert summary.elapsed_s < 3
        assert summary.held_back == {"max_pages_per_host": 12}
        assert (
            "12  its host has reached the maximum number of pages (scope.max_pages_per_host)"
            in "\n".join(excluded(summary))
        )
        spent = await courtly.crawl(web, crawl={"max_pages": 3})
        assert spent.held_back == {"max_pages": 9}
        await courtly.crawl(web)
        assert courtly.rows("hosts", "host, visited, queued") == [
            ("a.test", 11, 0),
            ("b.test", 11, 0),
        ]


async def test_max_bytes_per_host_leaves_the_rest_queued(courtly: Courtly) -> None:
    site = {"/": html("Home", *(f"/{n}" for n in range(9))), **CHAIN}
    async with LocalWeb({"a.test": site}) as web:
        summary = await courtly.crawl(web, "a.test", scope={"max_bytes_per_host": 1})
        assert summary.held_back == {"max_bytes_per_host": summary.queued}
        assert [each.reason for each in summary.waiting] == [
            "scope.max_bytes_per_host has been reached"
        ]
        assert "its host has reached the maximum number of bytes (scope.max_bytes_per_host)" in (
            "\n".join(excluded(summary))
        )
        await courtly.crawl(web)
        assert courtly.rows("hosts", "host, visited, queued") == [("a.test", 11, 0)]


@pytest.mark.parametrize(
    ("follow", "hosts"),
    [
        ("host", {"www.example.test"}),
        ("domain", {"www.example.test", "example.test", "a.b.example.test"}),
        ("any", {"www.example.test", "example.test", "a.b.example.test", "other.test"}),
    ],
)
async def test_follow_decides_how_far_from_the_seeds(
    courtly: Courtly, follow: str, hosts: set[str]
) -> None:
    every = ["example.test", "www.example.test", "a.b.example.test", "other.test"]
    async with LocalWeb() as web:
        links = [web.url(host) for host in every]
        web.sites.update({host: {"/": html(host, *links)} for host in every})
        await courtly.crawl(web, "www.example.test", scope={"follow": follow})
        assert {entry.host for entry in web.log} == hosts
        assert courtly.urls("visited") == sorted(web.url(host) for host in hosts)


async def test_scope_is_relative_to_where_a_seed_redirects(courtly: Courtly) -> None:
    async with LocalWeb() as web:
        web.sites["example.test"] = {"/": redirect(web.url("www.example.test"), status=301)}
        web.sites["www.example.test"] = {"/": html("Home", "/1"), "/1": html("1")}
        await courtly.crawl(web, "example.test")
        assert web.log.paths("www.example.test") == ["/robots.txt", "/", "/1"]
        ((target,),) = courtly.rows("visited", "redirect_url", "status = 301")
        assert target == web.url("www.example.test")


async def test_a_redirect_out_of_scope_is_not_followed(courtly: Courtly) -> None:
    async with LocalWeb({"other.test": {"/": html("Other")}}) as web:
        web.sites["a.test"] = {"/": html("Home", "/out"), "/out": redirect(web.url("other.test"))}
        await courtly.crawl(web, "a.test")
        assert web.log.paths("other.test") == []
        assert courtly.rows("visited", "status") == [(200,), (302,)]


async def test_include_and_exclude_and_drop_params(courtly: Courtly) -> None:
    links = ["/a/1?utm_source=x", "/a/1", "/a/2.pdf", "/b/1", "/a/3?id=1&utm_medium=y"]
    site = {"/a/": html("A", *links), "/a/1": html("1"), "/a/3": html("3")}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(
            web,
            web.url("a.test", "/a/"),
            scope={"include": ["*/a/*"], "exclude": ["*.pdf"], "drop_params": ["utm_*"]},
        )
        assert web.log.paths("a.test") == ["/robots.txt", "/a/", "/a/1", "/a/3?id=1"]
        assert len(courtly.rows("skipped", "reason")) == 2


async def test_a_stricter_config_is_obeyed_by_what_was_queued_earlier(courtly: Courtly) -> None:
    site = {"/": html("Home", *(f"/{n}" for n in range(9))), **CHAIN}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", crawl={"max_pages": 1})
        await courtly.crawl(web, "a.test", scope={"exclude": ["*/3", "*/4"]})
        assert not {"/3", "/4"} & set(web.log.paths("a.test"))
        assert courtly.urls("queued") == []
        assert len(courtly.urls("visited")) == 9


async def test_directives_of_pages(courtly: Courtly) -> None:
    """noindex keeps the page and its links; nofollow keeps the page and drops its links."""
    nofollow = '<meta name="robots" content="NOFOLLOW">'
    ours = '<meta name="courtly" content="noindex,noarchive">'
    others = '<meta name="otherbot" content="none">'
    header = {"X-Robots-Tag": "noindex, nofollow"}
    site: Site = {
        "/": html(
            "Home",
            "/nofollow",
            "/ours",
            "/others",
            "/header",
            body='<a rel="nofollow" href="/rel">',
        ),
        "/nofollow": html("N", "/from-nofollow", head=nofollow),
        "/ours": html("O", "/from-ours", head=ours),
        "/others": html("X", "/from-others", head=others),
        "/header": Reply(body='<a href="/from-header">', headers=header),
        "/from-ours": text("1"),
        "/from-others": text("2"),
    }
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test")
        assert set(web.log.paths("a.test")) == {
            *("/robots.txt", "/", "/nofollow", "/ours", "/others", "/header"),
            *("/from-ours", "/from-others"),
        }
        columns = "url, indexable, followable, archivable"
        found = {url: rest for url, *rest in courtly.rows("visited", columns)}
        assert found[web.url("a.test", "/nofollow")] == [1, 0, 1]
        assert found[web.url("a.test", "/ours")] == [0, 1, 0]
        assert found[web.url("a.test", "/others")] == [1, 1, 1]
        assert found[web.url("a.test", "/header")] == [0, 0, 1]
        assert courtly.rows("visited", "title", "url LIKE '%/ours'") == [("O",)]


async def test_links_are_taken_from_every_place_and_only_from_2xx(courtly: Courtly) -> None:
    body = """<area href="/area"><iframe src="/iframe"></iframe>
        <!-- <a href="/comment">x</a> --><script>'<a href="/script">'</script>"""
    head = """<link rel="canonical" href="/canonical"><link rel="next" href="/next">
        <link rel="stylesheet" href="/style.css">
        <meta http-equiv="refresh" content="5; url=/meta">"""
    home = html("Home", "/missing", head=head, body=body)
    wanted = {"/area", "/iframe", "/canonical", "/next", "/meta", "/header", "/refresh"}
    wanted.add("/missing")
    site: dict[str, Reply] = dict.fromkeys(wanted, html("x"))
    site["/"] = Reply(
        body=home.body, headers=[("Link", "</header>; rel=next"), ("Refresh", "3; url=/refresh")]
    )
    site["/missing"] = Reply(status=404, body='<a href="/from-404">')
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test")
        assert set(web.log.paths("a.test")) == wanted | {"/robots.txt", "/"}


async def test_a_body_that_nobody_reads_is_not_downloaded(courtly: Courtly) -> None:
    site = {
        "/": html("Home", "/film"),
        "/film": Reply(body=b"x" * 50_000_000, content_type="video/mp4"),
    }
    async with LocalWeb({"a.test": site}) as web:
        summary = await courtly.crawl(web, "a.test", fetch={"max_body": 1_000_000})
        assert summary.visited == 2
        assert summary.bytes < 1_000_000
        assert courtly.rows("visited", "content_type", "url LIKE '%film'") == [("video/mp4",)]


async def test_a_robots_txt_is_no_page(courtly: Courtly) -> None:
    """`visited` never contains one, neither by a link nor by a redirect nor as a seed."""
    site: Site = {
        "/": html("Home", "/robots.txt", "/away", "/a/robots.txt"),
        "/away": redirect("/robots.txt"),
        "/robots.txt": text("User-agent: *\nDisallow: /x\n"),
        "/a/robots.txt": html("a page like any other"),
    }
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", web.url("a.test", "/robots.txt"))
        assert web.log.paths("a.test").count("/robots.txt") == 1
        assert courtly.urls("visited") == [
            web.url("a.test", path) for path in ("/", "/a/robots.txt", "/away")
        ]
        assert courtly.rows("skipped", "reason, count") == [("robots.txt", 3)]

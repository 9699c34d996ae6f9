"""Redirects in a row: how many are followed, and how far they widen the scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crawler.config import from_dict
from crawler.explain.explanation import ExplainContext, explain_url
from crawler.fetching.request import Request
from crawler.testing import Reply, html, not_found, redirect, text

if TYPE_CHECKING:
    from tests.conftest import World


def number_of(url: str) -> int:
    return int(url.rsplit("/", 1)[1])


def endless(request: Request) -> Reply:
    """Every URL of a host redirects to the next one."""
    if request.url.endswith("robots.txt"):
        return not_found()
    return redirect(f"/{number_of(request.url) + 1}")


def endless_hosts(request: Request) -> Reply:
    """Every host redirects to the next one."""
    if request.url.endswith("robots.txt"):
        return not_found()
    at = int(request.url.removeprefix("http://h").partition(".")[0])
    return redirect(f"http://h{at + 1}.test/")


@pytest.mark.parametrize("most", [0, 1, 20])
async def test_a_chain_ends_after_max_redirects(world: World, most: int) -> None:
    crawled = await world.crawl(endless, "http://a.test/0", fetch={"max_redirects": most})
    assert len(crawled.urls("visited")) == most
    [failed] = crawled.rows["failed"]
    assert failed["url"] == f"http://a.test/{most}"
    assert failed["error"] == (
        f"redirects: {most} consecutive redirects led here, and this URL redirects again, "
        f"to http://a.test/{most + 1}"
    )
    assert len([one for one in crawled.entries() if one.path != "/robots.txt"]) == most + 1


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (0, None),
        (3, "a.test/0 → http://a.test/1 → http://a.test/2 → http://a.test/3"),
        (40, "/11 → (17 more) → http://a.test/29"),
    ],
)
async def test_why_shows_the_chain(world: World, most: int, shown: str | None) -> None:
    await world.crawl(endless, "http://a.test/0", fetch={"max_redirects": most})
    explained = await explain_url(
        world.store.reader, ExplainContext(config=from_dict({})), f"http://a.test/{most}", now_s=0.0
    )
    chains = [one for one in explained.sentences if one.startswith("reached by redirects: ")]
    assert len(chains) == (shown is not None)
    if shown is not None:
        assert shown in chains[0]


async def test_links_lead_into_a_chain_of_their_own(world: World) -> None:
    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/":
            return html("Home", "/0", "/100")
        return endless(request)

    crawled = await world.crawl(answers, "http://a.test/", fetch={"max_redirects": 5})
    assert crawled.urls("failed") == ["http://a.test/105", "http://a.test/5"]
    assert len(crawled.urls("visited")) == 11


async def test_a_seed_s_chain_over_hosts_is_bounded_and_widens_no_scope(world: World) -> None:
    crawled = await world.crawl(endless_hosts, "http://h0.test/", crawl={"max_depth": 0})
    hosts = {entry.host for entry in crawled.log.requests()}
    assert hosts == {f"h{n}.test" for n in range(21)}
    assert crawled.urls("failed") == ["http://h20.test/"]
    roots = [url async for urls in world.store.seeds() for url in urls]
    assert roots == ["http://h0.test/"]


async def test_scope_widens_where_a_seed_s_chain_ends(world: World) -> None:
    """By way of others, which stay outside; and the sitemaps of where it ends count."""
    web = {
        "http://short.test/x": redirect("http://tracker.test/y"),
        "http://tracker.test/y": redirect("http://site.test/"),
        "http://tracker.test/robots.txt": text("Sitemap: http://tracker.test/map.xml\n"),
        "http://site.test/robots.txt": text("Sitemap: http://site.test/map.xml\n"),
        "http://site.test/map.xml": text("http://site.test/listed\nhttp://tracker.test/listed\n"),
        "http://site.test/": html("Home", "/a", "http://tracker.test/z", "http://short.test/z"),
        "http://site.test/a": html("A"),
        "http://site.test/listed": html("Listed"),
    }
    crawled = await world.crawl(web, "http://short.test/x")
    visited = set(crawled.urls("visited"))
    assert {"http://site.test/", "http://site.test/a", "http://site.test/listed"} <= visited
    assert "http://tracker.test/z" not in visited | set(crawled.urls("queued"))
    assert "http://tracker.test/listed" not in visited
    assert "http://short.test/z" in visited  # of the seed's own host
    roots = [url async for urls in world.store.seeds() for url in urls]
    assert roots == ["http://short.test/x", "http://site.test/"]


async def test_a_chain_goes_on_in_the_next_run(world: World) -> None:
    crawled = await world.crawl(
        endless_hosts, "http://h0.test/", at={3.0: world.kill}, fetch={"max_redirects": 6}
    )
    assert crawled.urls("queued")
    crawled = await world.crawl(endless_hosts, fetch={"max_redirects": 6})
    assert crawled.urls("failed") == ["http://h6.test/"]


async def test_a_circle_ends_by_itself(world: World) -> None:
    web = {"http://a.test/1": redirect("/2"), "http://a.test/2": redirect("/1")}
    crawled = await world.crawl(web, "http://a.test/1")
    assert crawled.urls("visited") == ["http://a.test/1", "http://a.test/2"]
    assert crawled.urls("failed") == []


async def test_a_seed_that_redirects_on_its_own_host_is_read_as_before(world: World) -> None:
    web = {
        "http://a.test/": redirect("http://www.a.test/"),
        "http://www.a.test/": html("Home", "/a"),
        "http://www.a.test/a": html("A"),
    }
    crawled = await world.crawl(web, "http://a.test/")
    assert crawled.urls("visited") == [
        "http://a.test/", "http://www.a.test/", "http://www.a.test/a",
    ]  # fmt: skip

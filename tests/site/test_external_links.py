"""`scope.check_external`: links out of scope are requested once, politely, and not followed."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from crawler import Crawler
from crawler.cli import main
from crawler.testing import LocalWeb, Reply, hang_up, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

CHECK = {"check_external": True, "sitemap_paths": ["/sitemap.xml"]}
OTHER = {
    "/robots.txt": text("User-agent: *\nDisallow: /shut\n"),
    "/ok": html("OK", "/beyond", "http://third.test/"),
    "/gone": Reply(status=410),
    "/moved": redirect("/gone"),
    "/shut": html("Shut"),
    "/sitemap.xml": text("http://b.test/listed\n"),
    "/listed": html("Listed"),
}


async def report(courtly: Courtly) -> dict[str, Any]:
    command = ["report", "broken", "--format", "json", "--db", str(courtly.db)]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


async def test_external_links_are_requested_once_and_not_followed(courtly: Courtly) -> None:
    site: dict[str, Reply] = {}
    async with LocalWeb({"a.test": site, "b.test": OTHER}) as web:
        links = [web.url("b.test", path) for path in ("/ok", "/gone", "/moved", "/shut")]
        site["/"] = html("Home", "/deep", *links)
        site["/deep"] = html("Deep", *links)
        summary = await courtly.crawl(web, "a.test", scope=CHECK, storage={"links": True})

        asked = web.log.paths("b.test")
        assert asked[0] == "/robots.txt"
        assert sorted(asked[1:]) == ["/gone", "/moved", "/ok"]
        assert min(web.log.gaps("b.test")) >= 0.05, "the politeness delay applies"
        assert summary.blocked == 1
        found = await report(courtly)
        gone, moved = links[1], links[2]
        (broken,) = found["findings"]
        assert (broken["url"], broken["status"]) == (gone, 410)
        pages = {(one["page"], one["through"]) for one in broken["links"]}
        home, deep = web.url("a.test"), web.url("a.test", "/deep")
        assert pages == {(home, None), (deep, None), (home, moved), (deep, moved)}
        assert "1 URL was not checked, as robots.txt disallows" in found["conclusion"]
        assert "Not all links were stored" not in found["conclusion"]
        (size,) = courtly.rows("visited", "body_bytes", "url LIKE '%b.test%ok'")
        assert size == (0,)


async def test_bodies_are_not_read(courtly: Courtly) -> None:
    site: dict[str, Reply] = {}
    large = Reply(body=b"x" * 2_000_000, body_s=30)
    async with LocalWeb({"a.test": site, "b.test": {"/large": large}}) as web:
        site["/"] = html("Home", web.url("b.test", "/large"))
        pages = courtly.sink("jsonl", "pages.jsonl")
        async with asyncio.timeout(20):
            await courtly.crawl(web, "a.test", scope=CHECK)
        assert courtly.urls("visited") == [web.url("a.test"), web.url("b.test", "/large")]
        written = [json.loads(line)["url"] for line in pages.read_text().splitlines()]
        assert written == [web.url("a.test")], "external pages do not go to sinks"


async def test_neither_include_nor_depth_applies_but_exclude_does(courtly: Courtly) -> None:
    site: dict[str, Reply] = {}
    async with LocalWeb({"a.test": site, "b.test": {}, "c.test": {}, "d.test": {}}) as web:
        one, two, three = (web.url(f"{name}.test", "/x") for name in "bcd")
        site["/"] = html("Home", one, two, three, "/inside")
        await courtly.crawl(
            web,
            "a.test",
            crawl={"max_depth": 0, "patience": 5},
            scope={**CHECK, "include": ["*/docs/*"], "exclude": [two]},
            site={"d.test": {"check_external": False}},
        )
        assert courtly.rows("visited", "url, depth") == [(web.url("a.test"), 0), (one, 1)]


async def test_a_dead_server_is_a_broken_link(courtly: Courtly) -> None:
    site: dict[str, Reply] = {}
    async with LocalWeb({"a.test": site, "b.test": lambda _: hang_up()}) as web:
        site["/"] = html("Home", web.url("b.test"), "http://127.0.0.1:9/dead")
        await courtly.crawl(
            web, "a.test", scope=CHECK, fetch={"unreachable_for": 1, "max_attempts": 1}
        )
        broken = {one["url"]: one["error"] for one in (await report(courtly))["findings"]}
        assert set(broken) == {web.url("b.test"), "http://127.0.0.1:9/dead"}
        assert str(broken["http://127.0.0.1:9/dead"]).startswith("connect:")


async def test_several_dead_servers_on_the_last_page_are_broken_links(courtly: Courtly) -> None:
    """Nobody answers after them, as in an outage."""
    dead = [f"http://127.0.1.{n}:9/dead" for n in range(1, 6)]
    async with LocalWeb({"a.test": {"/": html("Home", *dead)}}) as web:
        scope = {**CHECK, "sitemap_paths": []}
        summary = await courtly.crawl(web, "a.test", scope=scope, fetch={"unreachable_for": 2})
        assert (summary.failed, summary.queued, summary.held) == (5, 0, ())


async def test_the_target_of_a_seed_is_in_scope_although_a_page_linked_to_it(
    courtly: Courtly,
) -> None:
    """The redirect of a seed leads to a URL that is queued as an external link."""
    site: dict[str, Reply] = {}
    new: dict[str, Reply] = {"/": html("New", "/inside"), "/inside": html("Inside")}
    old: dict[str, Reply] = {}
    async with LocalWeb({"a.test": site, "new.test": new, "old.test": old}) as web:
        site["/"] = html("Home", web.url("new.test"))
        old["/robots.txt"] = Reply(status=404, delay_s=0.3)
        old["/"] = redirect(web.url("new.test"))
        new["/robots.txt"] = Reply(status=404, delay_s=1.0)
        await courtly.crawl(web, "a.test", "old.test", scope=CHECK)
        assert web.url("new.test", "/inside") in courtly.urls("visited")


@pytest.mark.parametrize("option", [True, False])
async def test_the_option_of_the_command(courtly: Courtly, option: bool) -> None:
    site: dict[str, Reply] = {}
    async with LocalWeb({"a.test": site, "b.test": {"/": html("B")}}) as web:
        site["/"] = html("Home", web.url("b.test"), head='<link rel="icon" href="/i.png">')
        arguments = ["--check-external", "--requisites"] if option else []
        async with courtly.process(web, web.url("a.test"), *arguments) as process:
            _, err = await process.communicate()
        assert process.returncode == 0, err
        assert (web.url("b.test") in courtly.urls("visited")) is option
        assert (web.url("a.test", "/i.png") in courtly.urls("visited")) is option
        assert bool(courtly.rows("links", "source")) is option, "the report names every page"


async def test_a_program_gets_the_pages_in_scope(courtly: Courtly) -> None:
    site: dict[str, Reply] = {}
    async with LocalWeb({"a.test": site, "b.test": {"/": html("B")}}) as web:
        site["/"] = html("Home", web.url("b.test"), web.url("b.test", "/gone"))
        config = courtly.config(web, scope=CHECK)
        async with Crawler([web.url("a.test")], config=config) as crawl:
            assert [page.url async for page in crawl] == [web.url("a.test")]
            assert (await crawl.summary()).visited == 3
        assert len((await report(courtly))["findings"]) == 1

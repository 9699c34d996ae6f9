"""The view `links` contains what docs/database.md promises, whatever the site and the crawl do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from crawler.cli import main
from crawler.testing import Handler, LocalWeb, ReceivedRequest, Reply, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POLITE = {"delay": 0.01, "latency_factor": 0}
LINKS: dict[str, Any] = {"storage": {"links": True}, "politeness": POLITE}


async def view(courtly: Courtly, name: str) -> list[dict[str, Any]]:
    command = ["show", name, "--format", "jsonl", "--db", str(courtly.db)]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


async def links(courtly: Courtly, web: LocalWeb, path: str) -> dict[str, str | None]:
    """The targets of a page with their `rel`."""
    home = web.url("a.test", "")
    return {
        row["target"].removeprefix(home.rstrip("/")): row["rel"]
        for row in await view(courtly, "links")
        if row["source"] == web.url("a.test", path)
    }


async def test_every_link_whatever_becomes_of_it(courtly: Courtly) -> None:
    """Out of scope, excluded, too deep, blocked, nofollow, to the page itself, in frames, relative
    to a base."""
    site = {
        "/robots.txt": text("User-agent: *\nDisallow: /private\nSitemap: /map.xml\n"),
        "/map.xml": Reply(
            body="<urlset><url><loc>/only-in-map</loc></url></urlset>",
            content_type="application/xml",
        ),
        "/": html(
            "Home", "/a", "/private", "/excluded", "http://b.test/", "#self", "", "/old",
            head='<link rel=canonical href="/canon"><meta http-equiv=refresh content="9;/later">',
            body='<iframe src="/frame"></iframe><area href="/area"><a rel=nofollow href="/nf">n</a>'
            '<a rel=nofollow href="/mixed">n</a><a href="/mixed">y</a>',
        ),
        "/a": html("A", "deep", head='<base href="/base/"><meta name=robots content=nofollow>'),
        "/old": redirect("http://b.test/moved"),
        "/only-in-map": html("Map", "/from-map"),
    }  # fmt: skip
    async with LocalWeb({"a.test": site, "b.test": {}}) as web:
        crawl = {"max_depth": 1}
        await courtly.crawl(web, "a.test", crawl=crawl, scope={"exclude": ["*/excluded"]}, **LINKS)
        assert await links(courtly, web, "/") == {
            "/a": None, "/private": None, "/excluded": None, "http://b.test/": None, "/": None,
            "/old": None, "/canon": "canonical", "/later": None, "/frame": None, "/area": None,
            "/nf": "nofollow", "/mixed": None,
        }  # fmt: skip
        assert await links(courtly, web, "/a") == {"/base/deep": None}
        assert list((await links(courtly, web, "/old")).values()) == ["redirect"]
        assert await links(courtly, web, "/only-in-map") == {"/from-map": None}
        assert await links(courtly, web, "/map.xml") == {}


async def test_long_urls_and_dropped_parameters(courtly: Courtly) -> None:
    """A link that scope accepts is kept whatever its length. Links that become equal when
    parameters are dropped are nofollow only if all of them are."""
    long, longer = "/" + "x" * 3_000, "/" + "y" * 9_000
    site = {
        "/": html(
            "Home", long, longer,
            body='<a rel=nofollow href="/p?utm_a=1"></a><a href="/p?utm_a=2">text</a>'
            '<a rel=nofollow href="/q?utm_a=1">x</a><a rel=nofollow href="/q?utm_a=2">y</a>',
        ),
        long: html("Long"),
    }  # fmt: skip
    async with LocalWeb({"a.test": site}) as web:
        scope = {"max_url_bytes": 5_000, "drop_params": ["utm_*"]}
        await courtly.crawl(web, "a.test", scope=scope, **LINKS)
        assert await links(courtly, web, "/") == {long: None, "/p": None, "/q": "nofollow"}
        rows = {row["target"]: row for row in await view(courtly, "links")}
        assert rows[web.url("a.test", "/p")]["anchor"] == "text"
        (bad,) = await view(courtly, "malformed")
        assert (bad["href"], bad["reason"]) == (longer[:499] + "…", "max_url_bytes")


async def test_more_links_than_are_taken_leave_a_trace(courtly: Courtly) -> None:
    paths = "".join(f"<a href=/{n}>{n}</a>" for n in range(50_010))
    async with LocalWeb({"a.test": {"/": html("Many", body=paths)}}) as web:
        await courtly.crawl(web, "a.test", crawl={"max_pages": 1}, **LINKS)
        assert len(await links(courtly, web, "/")) == 50_000
        assert {"reason": "max_links", "count": 10} in await view(courtly, "skipped")
        assert (await view(courtly, "visited"))[0]["cut"] == "max_links"


async def test_a_page_visited_again_has_its_new_links_alone(courtly: Courtly) -> None:
    revisit = {"mode": "fixed", "interval": "1h"}
    told = {"ETag": '"1"'}

    def home(asked: ReceivedRequest) -> Reply:
        if asked.headers.get("if-none-match") == '"1"':
            return Reply(status=304, headers=told)
        return Reply(body=html("1", "/a", "/b").body, headers=told)

    site: dict[str, Reply | Handler] = {"/": home, "/a": html("A", "/c")}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", revisit=revisit, politeness=POLITE)
        assert await view(courtly, "links") == []

        async def again(**config: Any) -> None:
            """Crawl again with all pages due."""
            with contextlib.closing(sqlite3.connect(courtly.db)) as db, db:
                db.execute("UPDATE plans SET due_at = 1")
                db.execute("UPDATE slots SET revisit_at = 1 WHERE revisit_at IS NOT NULL")
            await courtly.crawl(web, "a.test", revisit=revisit, **config)

        # Nothing changes but the config: what is wanted now is kept at the next visit.
        await again(**LINKS)
        assert await links(courtly, web, "/") == {"/a": None, "/b": None}
        assert await links(courtly, web, "/a") == {"/c": None}
        await again(**LINKS)  # not modified
        assert [one.status for one in web.log.requests("a.test") if one.path == "/"][-1] == 304
        assert await links(courtly, web, "/") == {"/a": None, "/b": None}
        site["/"] = html("2", "/b", "/d")
        await again(**LINKS)
        assert await links(courtly, web, "/") == {"/b": None, "/d": None}
        site["/"] = Reply(status=410)
        await again(**LINKS)
        assert await links(courtly, web, "/") == {}


async def test_a_process_that_is_killed_leaves_no_page_with_some_of_its_links(
    courtly: Courtly,
) -> None:
    """After each kill, and at the end, a visited page has all of its stored data."""
    targets = [f"/{n}" for n in range(40)]
    page = html("Page", *targets, "hhttp://x/", "#gone", body="<p id=a><p id=b>")
    config: dict[str, Any] = {
        "storage": {"links": True, "fragments": True},
        "politeness": POLITE,
    }
    counts = (
        "SELECT url, (SELECT count(*) FROM links WHERE id = v.id),"
        " (SELECT count(*) FROM malformed WHERE id = v.id),"
        " (SELECT count(*) FROM fragments WHERE id = v.id) FROM visited AS v"
    )

    def expected(url: str) -> list[int]:
        return [41 if url.endswith("/") else 40, 1, 1]  # the home page links itself besides

    async with LocalWeb({"a.test": dict.fromkeys(["/", *targets], page)}) as web:
        for _ in range(3):
            begun = len(web.log.requests("a.test"))
            async with courtly.process(web, web.url("a.test"), **config) as process:
                for _ in range(1_000):
                    if len(web.log.requests("a.test")) > begun + 9:
                        break
                    await asyncio.sleep(0.01)
                process.kill()
                await process.wait()
            with contextlib.closing(sqlite3.connect(courtly.db)) as db:
                for url, *kept in db.execute(counts).fetchall():
                    assert kept == expected(url)
        async with courtly.process(web, web.url("a.test"), **config) as process:
            assert await process.wait() == 0
    with contextlib.closing(sqlite3.connect(courtly.db)) as db:
        rows = db.execute(counts).fetchall()
    assert len(rows) == 41
    assert all(kept == expected(url) for url, *kept in rows)

"""How the command reacts to invalid input."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from crawler.testing import LocalWeb, ReceivedRequest, Reply, html, redirect

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

AGENT = ("--user-agent", "examplebot/1.0 (+https://example.com/bot)")


async def test_a_private_seed_is_refused_by_its_address(courtly: Courtly) -> None:
    seed = "http://10.0.0.1/"
    async with LocalWeb() as web, courtly.process(web, seed, *AGENT, "--json") as process:
        out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        ((url, error),) = courtly.rows("failed", "url, error")
        assert url == seed
        assert error.startswith("address: ")
        last = json.loads(out.splitlines()[-1])
        assert (last["visited"], last["failed"], last["queued"]) == (0, 1, 0)
        assert last["waiting"] == []


async def test_a_link_to_a_private_address_fails_and_the_crawl_goes_on(courtly: Courtly) -> None:
    links = ["http://10.0.0.1/", "http://[::1]:1/", "http://192.168.1.1/x", "/next"]
    async with LocalWeb({"a.test": {"/": html("Home", *links), "/next": html("Next")}}) as web:
        await courtly.crawl(web, "a.test", scope={"follow": "any"})
        failed = courtly.rows("failed", "url, substr(error, 1, 9)")
        assert failed == [(url, "address: ") for url in sorted(links[:3])]
        assert len(courtly.urls("visited")) == 2


@pytest.mark.parametrize("seed", ["example.com", "ftp://example.com/", "http://", "http://a b/"])
async def test_a_seed_that_is_no_url_is_named(courtly: Courtly, seed: str) -> None:
    async with LocalWeb() as web, courtly.process(web, seed, *AGENT) as process:
        _, errors = await process.communicate()
        assert process.returncode == 2
        assert seed in errors.decode()
        assert b"Traceback" not in errors
        if seed == "example.com":
            assert b"https://example.com" in errors
        assert not courtly.db.exists()


async def test_without_a_contact_only_loopback_may_be_crawled(courtly: Courtly) -> None:
    """Law 10 (docs/laws.md)."""
    async with LocalWeb() as web:
        async with courtly.process(web, "https://example.com/") as process:
            _, errors = await process.communicate()
        assert process.returncode == 2
        assert b"crawl.user_agent" in errors
        assert b"--user-agent" in errors


async def test_law_10_links_and_redirects_beyond_loopback_are_refused_by_address(
    courtly: Courtly,
) -> None:
    """Without a contact, only loopback is connected to, whatever leads elsewhere and whatever
    `[network] allow` and `resolve` contain."""
    site = {
        "/": html("Home", "http://198.51.100.7/", "http://far.test/", "/out", "/next"),
        "/out": redirect("http://198.51.100.8/"),
        "/next": html("Next"),
    }
    elsewhere = {
        "/robots.txt": redirect("http://198.51.100.9/robots.txt"),
        "/": html("Never asked for"),
    }
    async with LocalWeb({"a.test": site, "b.test": elsewhere}) as web:
        network = {
            "allow": ["127.0.0.0/8", "198.51.100.0/24"],
            "resolve": {"far.test": "198.51.100.10", "*.test": "127.0.0.1"},
        }
        await courtly.crawl(
            web,
            *("a.test", "b.test"),
            crawl={"user_agent": ""},
            network=network,
            scope={"follow": "any"},
        )
        failed = courtly.rows("failed", "url, error, attempts")
        assert [url for url, _, _ in failed] == sorted(
            ["http://198.51.100.7/", "http://198.51.100.8/", "http://far.test/", web.url("b.test")]
        )
        for _, error, attempts in failed:
            assert error.startswith("address: ")
            assert "crawl.user_agent" in error
            assert attempts == 1  # law 9: never retried
        visited = courtly.urls("visited")
        assert visited == sorted(web.url("a.test", path) for path in ("/", "/next", "/out"))
        assert web.log.paths("b.test") == ["/robots.txt"]
        agents = {entry.headers["user-agent"] for entry in web.log}
        assert {agent.partition("/")[0] for agent in agents} == {"courtly"}


async def test_a_database_in_use_is_refused(courtly: Courtly) -> None:
    started, done = asyncio.Event(), asyncio.Event()

    async def page(_: ReceivedRequest) -> Reply:
        started.set()
        await done.wait()
        return html("Home")

    async with LocalWeb({"a.test": {"/": page}}) as web, asyncio.TaskGroup() as group:
        first = group.create_task(courtly.crawl(web, "a.test"))
        await started.wait()
        async with courtly.process(web, web.url("a.test", "/other")) as process:
            _, errors = await process.communicate()
        assert process.returncode == 2
        assert len(errors.decode().strip().splitlines()) == 1
        assert str(courtly.db) in errors.decode()
        done.set()
        assert (await first).visited == 1
        assert courtly.urls("queued") == []


@pytest.mark.parametrize("kind", ["text", "foreign", "newer"])
async def test_a_database_that_is_not_ours_is_left_untouched(courtly: Courtly, kind: str) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        match kind:
            case "text":
                courtly.db.write_text("Dear diary, " * 1000)
            case "foreign":
                with closing(sqlite3.connect(courtly.db)) as db, db:
                    db.execute("CREATE TABLE recipes (name TEXT)")
                db.close()
            case "newer":
                await courtly.crawl(web, "a.test")
                with closing(sqlite3.connect(courtly.db)) as db, db:
                    db.execute("PRAGMA user_version = 999")
                db.close()
        before = courtly.db.read_bytes()
        async with courtly.process(web, web.url("a.test", "/x")) as process:
            _, errors = await process.communicate()
        assert process.returncode == 2
        assert len(errors.decode().strip().splitlines()) == 1
        assert courtly.db.read_bytes() == before
        assert "/x" not in web.log.paths("a.test")


async def test_hostile_pages_do_not_stop_the_crawl(courtly: Courtly) -> None:
    site = {
        "/": html("Home", "/nested", "/nul", "/lies", "/utf-16", "/loop", "/last"),
        "/nested": Reply(body="<div>" * 200_000 + '<a href="/found">x'),
        "/nul": Reply(body=b"\x00<a href='/nul\x00'>\xff\xfe</a>"),
        "/lies": Reply(body=b"\x1f\x8bnot gzip", headers={"Content-Encoding": "gzip"}),
        "/utf-16": Reply(body="<title>Ü</title>".encode("utf-16"), content_type="text/html"),
        "/loop": Reply(status=302, headers={"Location": "/loop"}),
        "/last": html("Last"),
    }
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", fetch={"max_attempts": 1})
        assert {web.url("a.test", path) for path in ("/", "/nested", "/loop", "/last")} <= set(
            courtly.urls("visited")
        )
        assert [error.partition(":")[0] for (error,) in courtly.rows("failed", "error")] == ["body"]

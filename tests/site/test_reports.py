"""`courtly report` of whole crawls, as the command gives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from crawler.testing import LocalWeb, Reply, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POLITE = {"delay": 0.01, "latency_factor": 0}
MISSING = Reply(body="<title>Page not found</title>", content_type="text/html")


async def report(courtly: Courtly, *args: str) -> Result:
    command = ["report", *args, "--db", str(courtly.db)]
    return await asyncio.to_thread(CliRunner().invoke, main, command)


async def findings(courtly: Courtly, name: str) -> list[dict[str, Any]]:
    result = await report(courtly, name, "--format", "json")
    document = json.loads(result.stdout)
    assert document["report"] == name
    found: list[dict[str, Any]] = document["findings"]
    return found


SITE = {
    "/robots.txt": text("User-agent: *\nDisallow: /private/\nDisallow: /search\n"),
    "/": html("Home <&>", "/gone", "/old", "/private/<x>", "/search?q", "/m1", "/m2", "/a", "/b"),
    "/old": redirect("/gone"),
    "/a": html("A", "/gone", "/private/<x>"),
    "/b": html("A", "/gone", "/private/<x>"),
    "/m1": MISSING,
    "/m2": MISSING,
}


@pytest.mark.parametrize("links", [True, False])
async def test_broken_links_and_what_robots_forbade(courtly: Courtly, links: bool) -> None:
    async with LocalWeb({"a.test": SITE}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE, storage={"links": links})

        def url(path: str) -> str:
            return web.url("a.test", path)

        (broken,) = await findings(courtly, "broken")
        assert (broken["url"], broken["status"]) == (url("/gone"), 404)
        pages = {(one["page"], one["through"]) for one in broken["links"]}
        assert pages == {(url("/"), None), (url("/"), url("/old"))} | (
            {(url("/a"), None), (url("/b"), None)} if links else set()
        )
        assert broken["links_total"] == len(pages)

        private, search = await findings(courtly, "robots")
        assert (private["rule"], private["line"]) == ("Disallow: /private/", 2)
        (thin,) = private["urls"]
        assert thin["url"] == url("/private/%3Cx%3E")
        assert [one["anchor"] for one in thin["links"]] == ["/private/<x>"] * (3 if links else 1)
        assert search["urls"][0]["url"] == url("/search?q")

        groups = await findings(courtly, "duplicates")
        same, missing = sorted(groups, key=lambda group: bool(group["soft_404"]))
        assert {page["url"] for page in same["pages"]} == {url("/a"), url("/b")}
        assert (same["soft_404"], missing["soft_404"]) == (False, True)
        assert missing["pages_total"] == 2


async def test_as_text_and_as_a_file(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": SITE}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE, storage={"links": True})
        shown = (await report(courtly, "broken")).stdout
        assert f"{web.url('a.test', '/gone')}\n  status 404\n  page" in shown
        assert shown.endswith("1 URL is broken, linked 4 times.\n")
        file = courtly.folder / "robots.html"
        result = await report(courtly, "robots", "--format", "html", "--output", str(file))
        assert result.exit_code == 0
        page = file.read_text()
        assert "<td>/private/&lt;x&gt;</td>" in page, "what pages say is escaped"
        assert "<script" not in page
        assert page.rstrip().endswith("</html>")
        assert [one.name for one in courtly.folder.glob("*.part")] == []


async def test_politeness_is_for_ci_to_ask(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": SITE, "b.test": {"/": html("B")}}) as web:
        await courtly.crawl(web, "a.test", "b.test", politeness=POLITE)
        config = courtly.folder / "config.toml"
        config.write_text("[politeness]\ndelay = 0.01\n")
        good = await report(courtly, "politeness", "--config", str(config))
        assert good.exit_code == 0, good.output
        assert good.stdout.endswith("with 2 hosts: nobody was hurried.\n")
        assert "a.test" in good.stdout

        config.write_text("[politeness]\ndelay = 3\n")
        strict = await report(courtly, "politeness", "--config", str(config), "--format", "json")
        assert strict.exit_code == 1
        document = json.loads(strict.stdout)
        assert document["broken_law"] is True
        hosts = {one["host"]: one for one in document["findings"][0]["hosts"]}
        assert hosts["a.test"]["broken"] == ["a rest shorter than its floor"]
        assert hosts["a.test"]["peak_concurrency"] == 1

        with contextlib.closing(sqlite3.connect(courtly.db)) as db, db:
            db.execute("UPDATE slots SET breaches = 2 WHERE name = 'a.test'")
        bad = await report(courtly, "politeness")
        assert bad.exit_code == 1
        assert "2 contacts before its time" in bad.stdout
        assert bad.stdout.endswith("1 host was hurried.\n")


async def test_nothing_to_report(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE)
        for name, sentence in (
            ("broken", "No broken links."),
            ("robots", "robots.txt forbade nothing that was met."),
            ("duplicates", "No two pages have the same body."),
        ):
            assert (await report(courtly, name)).stdout == f"{sentence}\n"
            assert await findings(courtly, name) == []
    assert (await report(courtly, "brokn")).exit_code == 2

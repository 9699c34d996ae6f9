"""`courtly report` after complete crawls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from crawler.cli import main
from crawler.documents.fragments import ELEMENTS_MAX
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


LINKED = {
    "/": html(
        "Home",
        "/page#there", "/page#ü", "/page#gone", "/moved#gone", "/own#x", "#top", "#",
        "hhttps://example.com/x", "http://[bad]/", "mailto:a@b.c", "tel:1", "/" + "x" * 3_000,
        body='<img src="/ok.png"><img src="/gone.png"><link rel=stylesheet href="/s.css">'
        '<script src="/gone.js"></script><a href="/bad">x</a>',
    ),
    "/page": html("Page", body='<h2 id="there">x</h2><a name="ü">y</a><p id="own">'),
    "/moved": redirect("/page"),
    "/own": redirect("/page#own"),
    "/bad": redirect("htp://example.com/"),
    "/ok.png": Reply(body=b"x", content_type="image/png"),
    "/s.css": Reply(body="@import 'gone.css'; p { src: url(gone.woff2) }", content_type="text/css"),
}  # fmt: skip
CHECKS: dict[str, Any] = {
    "storage": {"links": True, "fragments": True},
    "scope": {"requisites": True},
}


async def test_hrefs_that_turn_text_around_and_a_page_of_too_many_ids(courtly: Courtly) -> None:
    ids = "".join(f"<p id=i{n}>" for n in range(ELEMENTS_MAX + 1))
    site = {"/": html("Home", "/ids#none", "http://[\u202e\x1b]/"), "/ids": html("", body=ids)}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE, **CHECKS)
        for how in ("html", "text"):
            shown = (await report(courtly, "broken", "--format", how)).stdout
            assert "http://[\ufffd\ufffd]/" in shown
            assert "\u202e" not in shown
            assert "\x1b" not in shown
            assert (
                "1 page was not read to the end, so links to fragments in it were not checked"
                in shown
            )


async def test_what_a_link_checker_checks(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": LINKED}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE, **CHECKS)
        as_html = (await report(courtly, "broken", "--format", "html")).stdout
        assert "<h2>http://[bad]/</h2>" in as_html  # no link
        assert "<h2>hhttps://example.com/x</h2>" in as_html
        assert '<th scope="col">kind</th>' in as_html
        assert "anchor</th>" not in as_html  # none of these links has a text
        found = await findings(courtly, "broken")

        def url(path: str) -> str:
            return web.url("a.test", path)

        broken = {
            one["url"]: {(link["page"], link["kind"]) for link in one["links"]}
            for one in found
            if one["problem"] == "url"
        }
        assert broken == {
            url("/gone.png"): {(url("/"), "image")},
            url("/gone.js"): {(url("/"), "script")},
            url("/gone.css"): {(url("/s.css"), "style")},
            url("/gone.woff2"): {(url("/s.css"), "font")},
        }
        malformed = [one for one in found if one["problem"] == "malformed"]
        assert {(one["links"][0]["page"], one["href"], one["reason"]) for one in malformed} == {
            (url("/"), "hhttps://example.com/x", "scheme"),
            (url("/"), "http://[bad]/", "unparsable"),
            (url("/"), "/" + "x" * 498 + "…", "max_url_bytes"),
            (url("/bad"), "htp://example.com/", "scheme"),
        }
        fragments = [one for one in found if one["problem"] == "fragment"]
        assert [(one["url"], one["fragment"]) for one in fragments] == [(url("/page"), "gone")]
        assert fragments[0]["links"] == [
            {"page": url("/"), "through": None},
            {"page": url("/"), "through": url("/moved")},
        ]
        said = (await report(courtly, "broken")).stdout.splitlines()[-1]
        assert said == (
            "4 broken URLs, linked to 4 times. 4 links are malformed. "
            "1 fragment does not exist on the target page."
        )


async def test_what_was_not_looked_at_is_said(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": LINKED}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE)
        assert not [one for one in web.log if "gone.js" in one.path]
        said = (await report(courtly, "broken")).stdout.splitlines()[-3:]
        keys = ("[storage] links", "[storage] fragments", "[scope] requisites")
        for line, key in zip(said, keys, strict=True):
            assert f"2 pages: set {key} = true." in line
        for view in ("links", "malformed", "fragments"):
            assert await views(courtly, view) == []


async def views(courtly: Courtly, view: str) -> list[dict[str, Any]]:
    command = ["show", view, "--format", "jsonl", "--db", str(courtly.db)]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    return [json.loads(line) for line in result.stdout.splitlines()]


async def test_as_text_and_as_a_file(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": SITE}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE, storage={"links": True})
        shown = (await report(courtly, "broken")).stdout
        assert f"{web.url('a.test', '/gone')}\n  status 404\n  page" in shown
        assert "\n1 broken URL, linked to 4 times.\n" in shown
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
        assert good.stdout.endswith("with 2 hosts: no violations.\n")
        assert "a.test" in good.stdout

        config.write_text("[politeness]\ndelay = 3\n")
        strict = await report(courtly, "politeness", "--config", str(config), "--format", "json")
        assert strict.exit_code == 1
        document = json.loads(strict.stdout)
        assert document["politeness_violated"] is True
        hosts = {one["host"]: one for one in document["findings"][0]["hosts"]}
        assert hosts["a.test"]["violations"] == ["a delay shorter than configured"]
        assert hosts["a.test"]["peak_concurrency"] == 1

        with contextlib.closing(sqlite3.connect(courtly.db)) as db, db:
            db.execute("UPDATE slots SET breaches = 2 WHERE name = 'a.test'")
        bad = await report(courtly, "politeness")
        assert bad.exit_code == 1
        assert "2 contacts were too early" in bad.stdout
        assert bad.stdout.endswith("violations at 1 host.\n")


async def test_nothing_to_report(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE)
        for name, sentence in (
            ("broken", "No broken links."),
            ("robots", "robots.txt disallowed no known URL."),
            ("duplicates", "No two pages have the same body."),
        ):
            said = (await report(courtly, name)).stdout.splitlines()
            assert said[0] == sentence
            assert len(said) == (4 if name == "broken" else 1)
            assert await findings(courtly, name) == []
    assert (await report(courtly, "brokn")).exit_code == 2

"""The robots.txt of each site is read in the dialect and for the token in its table, and verdicts
are kept with the copy that they were made from."""

from __future__ import annotations

import contextlib
import io
import sqlite3
from typing import TYPE_CHECKING

from crawler.cli.why import _why
from crawler.config import from_dict
from crawler.databases import open_reader
from crawler.explain.explanation import ExplainContext
from crawler.testing import LocalWeb, Pages, html, text
from storage.location import FileLocation

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

PATHS = ["/backup/a.html", "/backup/b", "/other"]


def site(robots: str, *paths: str) -> Pages:
    pages = paths or PATHS
    return {
        "/robots.txt": text(robots),
        "/": html("Home", *pages),
        **{path: html(path) for path in pages},
    }


async def why(courtly: Courtly, web: LocalWeb, url: str, **sections: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        config = from_dict(courtly.config(web, **sections))
        await _why(FileLocation(courtly.db), ExplainContext(config=config), url)
    return out.getvalue()


async def test_every_site_has_its_own_dialect(courtly: Courtly) -> None:
    """`Allow: /*.html$` beside `Disallow: /backup/`, answered differently by two dialects."""
    robots = "User-agent: *\nDisallow: /backup/\nAllow: /*.html$\n"
    async with LocalWeb({name: site(robots) for name in ("a.test", "b.test", "c.test")}) as web:
        await courtly.crawl(
            web,
            *("a.test", "b.test", "c.test"),
            robots={"dialect": "rfc9309"},
            site={
                "b.test": {"dialect": "res1996"},
                "c.test": {"dialect": ["google", "res1994"]},
            },
        )
        rows = courtly.rows("blocked", "url, reason, dialect, rule, line, robots_url")

        def row(host: str, path: str, dialect: str) -> tuple[object, ...]:
            rule = ("Disallow: /backup/", 2)
            return web.url(host, path), "robots", dialect, *rule, web.url(host, "/robots.txt")

        assert rows == [
            row("a.test", "/backup/b", "rfc9309"),
            row("b.test", "/backup/a.html", "res1996"),
            row("b.test", "/backup/b", "res1996"),
            row("c.test", "/backup/a.html", "res1994"),
            row("c.test", "/backup/b", "google"),
        ]
        assert "/backup/a.html" in web.log.paths("a.test")
        assert not any(path.startswith("/backup/") for path in web.log.paths("b.test"))
        assert not any(path.startswith("/backup/") for path in web.log.paths("c.test"))


async def test_every_site_has_its_own_tokens(courtly: Courtly) -> None:
    robots = (
        "User-agent: courtly\nDisallow: /other\n\n"
        "User-agent: googlebot\nDisallow: /backup/\n\n"
        "User-agent: googlebot-news\nDisallow: /backup/b\n"
    )
    async with LocalWeb({name: site(robots) for name in ("a.test", "b.test")}) as web:
        await courtly.crawl(
            web,
            *("a.test", "b.test"),
            site={"b.test": {"dialect": "google", "token": ["googlebot", "googlebot-news"]}},
        )
        assert courtly.rows("blocked", "url, line") == [
            (web.url("a.test", "/other"), 2),
            (web.url("b.test", "/backup/b"), 8),
        ]


async def test_every_site_has_its_own_rule_for_a_file_that_cannot_be_had(courtly: Courtly) -> None:
    down: Pages = {"/robots.txt": text("down", status=503), "/": html("Home")}
    async with LocalWeb({"a.test": down, "b.test": down, "c.test": down}) as web:
        await courtly.crawl(
            web,
            *("a.test", "b.test", "c.test"),
            crawl={"patience": 1},
            site={"b.test": {"unreachable": "closed"}, "c.test": {"dialect": "rfc9309"}},
        )
        assert courtly.urls("visited") == [web.url("a.test")]
        assert courtly.urls("queued") == [web.url("b.test"), web.url("c.test")]
        assert set(web.log.paths("b.test")) == {"/robots.txt"}
        assert set(web.log.paths("c.test")) == {"/robots.txt"}


async def test_a_noindex_line_is_a_reason_of_its_own(courtly: Courtly) -> None:
    """Guide of 2010: Noindex competes by length like a Disallow, and removes the URL from the
    index."""
    robots = (
        "User-agent: *\nDisallow: /a\nNoindex: /a/b\nNoindex: /c\nAllow: /c/d\nNoindex: /a/b/c #x\n"
    )
    paths = ["/a", "/a/b", "/a/b/c", "/c", "/c/d", "/e"]
    async with LocalWeb({name: site(robots, *paths) for name in ("a.test", "b.test")}) as web:
        await courtly.crawl(web, "a.test", "b.test", site={"b.test": {"dialect": "google2010"}})

        def rows(host: str) -> list[tuple[object, ...]]:
            found = courtly.rows("blocked", "url, reason, rule, line", f"url LIKE '%{host}%'")
            return [(str(url).partition(str(web.port))[2], *rest) for url, *rest in found]

        assert rows("a.test") == [
            ("/a", "robots", "Disallow: /a", 2),
            ("/a/b", "robots", "Disallow: /a", 2),
            ("/a/b/c", "robots", "Disallow: /a", 2),
        ]
        assert rows("b.test") == [
            ("/a", "robots", "Disallow: /a", 2),
            ("/a/b", "noindex-line", "Noindex: /a/b", 3),
            ("/a/b/c", "noindex-line", "Noindex: /a/b/c", 6),
            ("/c", "noindex-line", "Noindex: /c", 4),
        ]
        said = await why(courtly, web, web.url("b.test", "/c"))
        assert "blocked by a Noindex line: line 4, `Noindex: /c`, of" in said
        assert "(dialect google2010)" in said


async def test_why_shows_the_verdict_from_the_copy_it_was_made_on(courtly: Courtly) -> None:
    files = [
        "User-agent: *\nDisallow: /backup/\n",
        "# moved\n\nUser-agent: *\nAllow: /other\nDisallow: /backup\n",
    ]
    a_site = dict(site(""))
    a_site["/robots.txt"] = lambda _: text(files[0])
    async with LocalWeb({"a.test": a_site}) as web:
        await courtly.crawl(web, "a.test")
        url = web.url("a.test", "/backup/b")
        before = await why(courtly, web, url)
        assert "for the token courtly: Disallowed by line 2, `Disallow: /backup/`" in before
        assert "changed since" not in before

        del files[0]
        _expire(courtly)
        await courtly.crawl(web, "a.test")
        assert web.log.paths("a.test").count("/robots.txt") == 2
        assert courtly.rows("blocked", "rule, line") == [("Disallow: /backup/", 2)] * 2

        reader = open_reader(FileLocation(courtly.db))
        try:
            assert await reader.robots_body(url) == b"User-agent: *\nDisallow: /backup/\n"
        finally:
            await reader.close()
        said = await why(courtly, web, url)
        assert "blocked by line 2, `Disallow: /backup/`" in said
        assert "robots.txt has changed since; verdict of the copy that blocked it:" in said
        assert "for the token courtly: Disallowed by line 2, `Disallow: /backup/`" in said
        assert "by the current copy: Disallowed by line 5, `Disallow: /backup`" in said

        stranger = await why(courtly, web, url, robots={"token": "otherbot"})
        assert "for the token otherbot: Disallowed by line 2" in stranger


async def test_why_says_when_the_token_is_not_the_one_it_was_blocked_for(courtly: Courtly) -> None:
    robots = "User-agent: examplebot\nDisallow: /other\n"
    async with LocalWeb({"a.test": site(robots)}) as web:
        await courtly.crawl(web, "a.test", robots={"token": "examplebot"})
        said = await why(courtly, web, web.url("a.test", "/other"))
        assert "blocked by line 2, `Disallow: /other`" in said
        assert "line 2 of the copy that blocked it: `Disallow: /other`" in said
        assert "for the token courtly (not the one it was blocked for): Allowed" in said


def _expire(courtly: Courtly) -> None:
    """Make all copies of robots.txt a day old."""
    with contextlib.closing(sqlite3.connect(courtly.db)) as db, db:
        db.execute("UPDATE copies SET expires_at = 1")
        db.execute("UPDATE origins SET robots_at = 1 WHERE robots_at IS NOT NULL")


async def test_why_without_a_config_reads_as_the_crawl_did(courtly: Courtly) -> None:
    """The database records the token and the dialect of the crawl."""
    robots = "User-agent: examplebot\nDisallow: /other\n\nUser-agent: *\nDisallow: /backup/\n"
    async with LocalWeb({"a.test": site(robots)}) as web:
        await courtly.crawl(web, "a.test", robots={"token": "examplebot", "dialect": "rfc9309"})
        for path, verdict in (("/other", "Disallow: /other"), ("/backup/b", "Allowed")):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                asked = ExplainContext(config=from_dict({}), default=True)
                await _why(FileLocation(courtly.db), asked, web.url("a.test", path))
            assert verdict in out.getvalue()
            assert "for the token examplebot" in " ".join(out.getvalue().split())

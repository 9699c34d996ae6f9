"""Page data kept beside the outcome: links, canonical URLs, hashes, usage declarations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crawler import Crawler
from crawler.testing import LocalWeb, Reply, html, redirect, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POLITE = {"delay": 0, "latency_factor": 0}
ROBOTS = (
    "User-agent: *\nContent-Signal: search=yes, ai-train=no\nContent-Usage: /news/ train-ai=n\n"
)


async def test_every_link_is_kept_where_it_is_asked_for(courtly: Courtly) -> None:
    site = {
        "/": html(
            "Home", "/a?sid=1", "http://far.test/", "/gone",
            head='<link rel="canonical" href="/home">',
            body='<a href="/a" >First</a><a rel="nofollow" href="/shy">Shy</a>',
        ),
        "/a": html("A", "/", "/gone"),
        "/old": redirect("/a"),
    }  # fmt: skip
    async with LocalWeb({"a.test": site}) as web:
        seeds = (web.url("a.test"), web.url("a.test", "/old"))
        scope = {"drop_params": ["sid"]}
        await courtly.crawl(web, *seeds, politeness=POLITE, storage={"links": True}, scope=scope)

        def url(path: str) -> str:
            return web.url("a.test", path)

        rows = set(courtly.rows("links", "source, target, anchor, rel"))
        assert rows == {
            (url("/"), url("/a"), "First", None),
            (url("/"), url("/shy"), "Shy", "nofollow"),
            (url("/"), "http://far.test/", "http://far.test/", None),
            (url("/"), url("/gone"), "/gone", None),
            (url("/"), url("/home"), None, "canonical"),
            (url("/a"), url("/"), "/", None),
            (url("/a"), url("/gone"), "/gone", None),
            (url("/old"), url("/a"), None, "redirect"),
        }
        kept = dict(courtly.rows("visited", "url, canonical_url"))
        assert kept[url("/")] == url("/home")
        assert kept[url("/a")] is None


async def test_signals_of_use_are_kept_and_handed_on(courtly: Courtly) -> None:
    pages = courtly.sink("jsonl", "p.jsonl")
    meta = (
        '<meta name="tdm-reservation" content="1"><meta name=tdm-policy content="https://p.test/">'
    )
    page = html("One", "/news/x", "/same", "/again", head=meta)
    same = Reply(body="<p>same", headers={"Content-Usage": "train-ai=y"})
    news = html("News")
    site = {
        "/robots.txt": text(ROBOTS), "/": page, "/news/x": news, "/same": same, "/again": same
    }  # fmt: skip
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness=POLITE)
        signal = "content-signal: search=yes, ai-train=no (robots.txt)"
        usage = dict(courtly.rows("visited", "url, usage"))
        assert usage == {
            web.url("a.test"): (
                f"tdm-reservation: 1 (meta); tdm-policy: https://p.test/ (meta); {signal}"
            ),
            web.url("a.test", "/news/x"): f"content-usage: train-ai=n (robots.txt); {signal}",
            web.url("a.test", "/same"): f"content-usage: train-ai=y (header); {signal}",
            web.url("a.test", "/again"): f"content-usage: train-ai=y (header); {signal}",
        }
        hashes = dict(courtly.rows("visited", "url, body_hash"))
        assert hashes[web.url("a.test", "/same")] == hashes[web.url("a.test", "/again")]
        assert len(set(hashes.values())) == 3
        assert all(len(value) == 16 for value in hashes.values())
        first = json.loads(pages.read_text().splitlines()[0])
        assert first["usage"][0] == {"where": "meta", "name": "tdm-reservation", "value": "1"}
        async with Crawler([web.url("a.test")], config=web.config(politeness=POLITE)) as crawl:
            async for one in crawl:
                if one.url == web.url("a.test"):
                    assert one.usage.tdm_reserved is True

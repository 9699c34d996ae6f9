"""Sitemaps of a real web in complete crawls."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from typing import Any

import pytest

from crawler.testing import LocalWeb, Reply, html, text

PAGES = 20_000


def packed(web: LocalWeb, pages: int = PAGES) -> Reply:
    entries = "".join(
        f"<url><loc>{web.url('a.test', f'/{n}?a={n}&b')}</loc><lastmod>2024-01-01</lastmod></url>\n"
        for n in range(pages)
    )
    document = f'<?xml version="1.0"?>\n<urlset>{entries}</urlset>'
    return Reply(body=gzip.compress(document.encode()), content_type="application/x-gzip")


async def test_a_packed_sitemap_of_many_urls_on_another_host(courtly: Any) -> None:
    async with LocalWeb() as web:
        web.sites["a.test"] = {
            "/robots.txt": text(
                f"Sitemap: {web.url('cdn.test', '/map.xml.gz')}\nUser-agent: *\nDisallow: /1\n"
            ),
            "/": html("Home"),
        }
        web.sites["cdn.test"] = {"/map.xml.gz": packed(web)}
        summary = await courtly.crawl(
            web, "a.test", crawl={"max_pages": 5}, scope={"max_queries_per_path": 5}
        )
    assert summary.visited == 5
    assert summary.queued == PAGES + 1 - 5 - summary.blocked
    ((kind, urls, error),) = courtly.rows("sitemaps", "kind, urls, error")
    assert (kind, urls, error) == ("urlset", PAGES, None)
    assert len(courtly.rows("listings")) == PAGES
    (contacts,) = courtly.rows("hosts", "contacts, breaches", "host = 'cdn.test'")
    assert contacts == (2, 0)
    assert [entry.path for entry in web.log.requests("cdn.test")] == ["/robots.txt", "/map.xml.gz"]


@pytest.mark.parametrize("form", ["xml", "text"])
@pytest.mark.parametrize("count", [9, 400])
@pytest.mark.parametrize("as_seed", [False, True])
async def test_a_sitemap_whose_transfer_fails_gives_the_urls_that_are_whole(
    courtly: Any, as_seed: bool, count: int, form: str
) -> None:
    async with LocalWeb() as web:
        urls = [web.url("a.test", f"/{n}") for n in range(1_000, 1_000 + count)]
        document = "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        document = document if form == "xml" else "\n".join(urls)
        web.sites["a.test"] = {
            "/robots.txt": text("" if as_seed else f"Sitemap: {web.url('a.test', '/map.xml')}\n"),
            "/": html("Home"),
            "/map.xml": Reply(
                body=document,
                content_type="application/xml" if form == "xml" else "text/plain",
                broken=True,
            ),
        }
        await courtly.crawl(
            web,
            web.url("a.test", "/map.xml" if as_seed else "/"),
            crawl={"max_pages": 2},
            fetch={"max_attempts": 1},
        )
    ((failed,),) = courtly.rows("failed", "url")
    assert failed.endswith("/map.xml")
    known = {url for view in ("visited", "queued") for (url,) in courtly.rows(view, "url")}
    known.discard(web.url("a.test"))
    assert known == set(urls[: len(known)])
    assert 0.4 * count < len(known) + 1 < 0.6 * count + 1  # half of the document


async def test_kill_9_while_a_sitemap_is_read(courtly: Any) -> None:
    async with LocalWeb() as web:
        web.sites["a.test"] = {
            "/robots.txt": text(f"Sitemap: {web.url('a.test', '/map.xml.gz')}\n"),
            "/": html("Home"),
            "/map.xml.gz": packed(web),
        }
        seed = web.url("a.test")
        async with courtly.process(web, seed, "--max-pages", "3") as process:
            for _ in range(500):
                with contextlib.suppress(Exception):
                    if len(courtly.rows("queued")) > 1_500:
                        break
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
        assert courtly.rows("sitemaps") == []
        assert courtly.urls("queued", "url LIKE '%/map.xml.gz'")
        async with courtly.process(web, seed, "--max-pages", "3") as process:
            await asyncio.wait_for(process.wait(), 30)
        assert courtly.rows("sitemaps", "urls, status") == [(PAGES, 200)]
        assert len(courtly.rows("queued")) + len(courtly.rows("visited")) == PAGES + 1
    asked = [entry.path for entry in web.log.requests("a.test")]
    assert asked.count("/map.xml.gz") == 2
    assert asked.count("/robots.txt") == 1


async def test_a_sitemap_has_more_time_than_a_page_as_long_as_it_comes(courtly: Any) -> None:
    """A sitemap that arrives slowly delays the end of a crawl no longer than a page would."""
    async with LocalWeb() as web:
        listed = "".join(web.url("a.test", f"/no/{n}?{'x' * 1_000}\n") for n in range(200))
        web.sites["a.test"] = {
            "/robots.txt": text(
                "User-agent: *\nDisallow: /no/\n"
                "Sitemap: /fast.txt\nSitemap: /slow.txt\nSitemap: /silent.txt\n"
            ),
            "/": html("Home"),
            "/fast.txt": Reply(body=listed, content_type="text/plain", body_s=3.0),
            "/slow.txt": Reply(body=listed[:2_000], content_type="text/plain", body_s=60.0),
            "/silent.txt": Reply(body=listed, content_type="text/plain", delay_s=60.0),
        }
        async with asyncio.timeout(40):
            await courtly.crawl(web, "a.test", fetch={"timeout": 2, "max_attempts": 1})
    assert courtly.rows("sitemaps", "url, urls") == [(web.url("a.test", "/fast.txt"), 200)]
    errors = dict(courtly.rows("failed", "url, error"))
    assert errors == {
        web.url("a.test", path): "timeout: the response was not complete within 2 s"
        for path in ("/slow.txt", "/silent.txt")
    }

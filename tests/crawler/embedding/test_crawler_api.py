"""Crawler: pages one at a time, each committed when the next is asked for, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from crawler.config import ConfigError
from crawler.embedding.crawler import Crawler
from crawler.errors import SessionClosed
from crawler.testing import FakeFetcher, JumpClock, LocalWeb, Reply, html, redirect, text
from storage.store import StoreError, StoreRefused

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
FAST: Mapping[str, object] = {"delay": 0.01, "latency_factor": 0}


def small_web() -> dict[str, dict[str, Reply]]:
    return {
        "a.test": {
            "/robots.txt": text("User-agent: *\nDisallow: /no\n"),
            "/": html("Home", "/1", "/2", "/no", "/old"),
            "/1": html("One", "/3"),
            "/2": Reply(body="plain", content_type="text/plain"),
            "/3": html("Three", head='<meta name="robots" content="noindex">'),
            "/old": redirect("/1", status=301),
        }
    }


def urls(db: Path, view: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as rows:
        return [url for (url,) in rows.execute(f"SELECT url FROM {view} ORDER BY 1")]


def long_site(clock: JumpClock, pages: int = 30) -> FakeFetcher:
    """One host; each page leads to the next two."""
    return FakeFetcher(
        clock,
        {f"{A}/robots.txt": text("")}
        | {f"{A}/{n}": html(str(n), f"/{n + 1}", f"/{n + 2}") for n in range(pages)},
    )


# ---------------------------------------------------------------- pages


async def test_every_page_visited_is_given_once_with_all_that_is_known_of_it() -> None:
    async with LocalWeb(small_web()) as web:
        seed = web.url("a.test")
        async with Crawler([seed], user_agent=UA, config=web.config(politeness=FAST)) as crawl:
            pages = {page.url.removeprefix(seed[:-1]): page async for page in crawl}
            summary = await crawl.summary()
    assert sorted(pages) == ["/", "/1", "/2", "/3", "/old"]
    assert (summary.visited, summary.blocked, summary.queued) == (5, 1, 0)
    home = pages["/"]
    assert (home.status, home.title, home.depth) == (200, "Home", 0)
    assert [link.url.removeprefix(seed) for link in home.links] == ["1", "2", "no", "old"]
    assert "<h1>Home</h1>" in home.text
    assert home.headers["content-type"].startswith("text/html")
    assert home.timings.elapsed_s >= home.timings.latency_s > 0
    assert not pages["/3"].directives.index
    assert pages["/old"].redirect_url == web.url("a.test", "/1")
    assert pages["/2"].body == b"plain", "a body without links is read too: somebody wants it"
    assert "/no" not in web.log.paths()


async def test_bodies_of_types_that_scope_leaves_out_are_not_read() -> None:
    async with LocalWeb(small_web()) as web:
        config = web.config(politeness=FAST, scope={"content_types": ["text/html"]})
        async with Crawler([web.url("a.test")], user_agent=UA, config=config) as crawl:
            bodies = {page.url[-2:]: page.body async for page in crawl}
    assert bodies["/2"] == b""
    assert bodies["/1"] != b""


async def test_a_slow_reader_holds_the_crawl_back(clock: JumpClock) -> None:
    fetcher = FakeFetcher(
        clock,
        {f"http://h{n}.test/": html(str(n), "/1", "/2", "/3") for n in range(20)},
    )
    seeds = [f"http://h{n}.test/" for n in range(20)]
    config = {"crawl": {"concurrency": 4}, "scope": {"sitemap_paths": []}}
    async with Crawler(
        seeds, user_agent=UA, config=config, clock=clock, fetcher=fetcher, delay=0.5
    ) as crawl:
        read = 0
        async for _ in crawl:
            read += 1
            await clock.sleep_until(clock.monotonic() + 30)
            fetched = sum(path != "/robots.txt" for path in fetcher.log.paths())
            assert fetched <= read + 4
    assert read == 80


async def test_asking_for_the_next_page_commits_the_one_before(tmp_path: Path) -> None:
    db = tmp_path / "crawl.db"
    async with LocalWeb(small_web()) as web:
        before: list[str] = []
        async with Crawler(
            [web.url("a.test")], user_agent=UA, config=web.config(politeness=FAST), db=db
        ) as crawl:
            async for page in crawl:
                assert urls(db, "visited") == sorted(before)
                before.append(page.url)
        assert urls(db, "visited") == sorted(before)
        assert urls(db, "queued") == []


# ---------------------------------------------------------------- ends


async def test_breaking_out_ends_clean_and_the_next_crawl_goes_on(tmp_path: Path) -> None:
    db = tmp_path / "crawl.db"
    async with LocalWeb(small_web()) as web:

        def crawler() -> Crawler:
            return Crawler(
                [web.url("a.test")], user_agent=UA, config=web.config(politeness=FAST), db=db
            )

        async with crawler() as crawl:
            async for page in crawl:
                first = page.url
                break
        assert urls(db, "visited") == []
        assert first in urls(db, "queued"), "the page in hand was not asked beyond: it repeats"
        async with crawler() as crawl:
            seen = [page.url async for page in crawl]
        assert seen[0] == first
        assert sorted(seen) == urls(db, "visited")
        assert len(seen) == len(set(seen)) == 5
    assert min(web.log.gaps()) >= 0.01


async def test_an_exception_of_the_reader_loses_nothing(tmp_path: Path) -> None:
    db = tmp_path / "crawl.db"
    async with LocalWeb(small_web()) as web:
        seed, config = web.url("a.test"), web.config(politeness=FAST)
        seen: list[str] = []

        async def read() -> None:
            async with Crawler([seed], user_agent=UA, config=config, db=db) as crawl:
                async for page in crawl:
                    seen.append(page.url)
                    if len(seen) == 3:
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await read()
        assert urls(db, "visited") == sorted(seen[:2])
        async with Crawler(user_agent=UA, config=config, db=db) as crawl:
            seen = seen[:2] + [page.url async for page in crawl]
        assert sorted(seen) == urls(db, "visited")


async def test_cancelled_it_leaves_and_what_was_committed_stays(tmp_path: Path) -> None:
    db = tmp_path / "crawl.db"
    async with LocalWeb(small_web()) as web:
        config = web.config(politeness=FAST)
        seen: list[str] = []

        async def read() -> None:
            async with Crawler([web.url("a.test")], user_agent=UA, config=config, db=db) as crawl:
                async for page in crawl:
                    seen.append(page.url)
                    if len(seen) == 3:
                        limit.reschedule(0)
                        await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                await read()
        assert urls(db, "visited") == sorted(seen[:2])
        async with Crawler(user_agent=UA, config=config, db=db) as crawl:
            rest = [page.url async for page in crawl]
        assert sorted(seen[:2] + rest) == urls(db, "visited")


async def test_a_timeout_on_the_next_page_loses_none(clock: JumpClock) -> None:
    fetcher = long_site(clock)
    seen: list[str] = []
    async with Crawler(
        [f"{A}/0"], user_agent=UA, clock=clock, fetcher=fetcher, delay=1.0, max_pages=10
    ) as crawl:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                try:
                    async with asyncio.timeout(0.0005):
                        seen.append((await crawl.__anext__()).url)
                except TimeoutError:
                    continue
    assert len(seen) == len(set(seen)) == 10


async def test_max_pages_and_max_depth_bound_it(clock: JumpClock) -> None:
    async with Crawler(
        [f"{A}/0"], user_agent=UA, clock=clock, fetcher=long_site(clock), max_depth=3
    ) as crawl:
        depths = [page.depth async for page in crawl]
        assert max(depths) == 3
        assert (await crawl.summary()).skipped["max_depth"] > 0
    async with Crawler(
        [f"{A}/0"], user_agent=UA, clock=clock, fetcher=long_site(clock), max_pages=4
    ) as crawl:
        assert len([page async for page in crawl]) == 4
        assert (await crawl.summary()).queued > 0


# ---------------------------------------------------------------- seeds


async def test_seeds_may_be_added_while_it_runs_and_after_it(clock: JumpClock) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/": html("A"), "http://b.test/": html("B", "/x", A + "/y")})
    async with Crawler([f"{A}/"], user_agent=UA, clock=clock, fetcher=fetcher) as crawl:
        seen = []
        async for page in crawl:
            seen.append(page.url)
            if page.url == f"{A}/":
                assert await crawl.add(["http://b.test/", "http://b.test/"]) == 1
                assert await crawl.add("http://b.test/") == 0
        assert seen == [f"{A}/", "http://b.test/", "http://b.test/x", f"{A}/y"] or sorted(
            seen
        ) == sorted([f"{A}/", "http://b.test/", "http://b.test/x", f"{A}/y"])
        assert [page.url async for page in crawl] == []
        assert await crawl.add("http://c.test/late") == 1
        assert [page.url async for page in crawl] == ["http://c.test/late"]


async def test_what_cannot_begin_says_why(clock: JumpClock, tmp_path: Path) -> None:
    fetcher = FakeFetcher(clock, {})
    with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
        async with Crawler(["https://example.com/"], clock=clock, fetcher=fetcher):
            pass
    with pytest.raises(ConfigError, match=r"did you mean https://example\.com"):
        async with Crawler(["example.com"], user_agent=UA, clock=clock, fetcher=fetcher):
            pass
    async with Crawler(user_agent=UA, clock=clock, fetcher=fetcher) as crawl:
        with pytest.raises(ConfigError, match="nothing to crawl"):
            await crawl.__anext__()
        with pytest.raises(ConfigError, match="not an http"):
            await crawl.add("ftp://a.test/")
    with pytest.raises(SessionClosed):
        await crawl.add(f"{A}/")
    async with Crawler(user_agent=UA, db=tmp_path / "a.db", fetcher=fetcher):
        with pytest.raises(StoreRefused):
            async with Crawler(user_agent=UA, db=tmp_path / "a.db", fetcher=fetcher):
                pass


# ---------------------------------------------------------------- beside others


async def test_several_in_one_loop_keep_to_themselves(clock: JumpClock) -> None:
    async def crawl(name: str) -> list[str]:
        fetcher = FakeFetcher(clock, {f"http://{name}.test/": html(name, "/1")})
        async with Crawler(
            [f"http://{name}.test/"], user_agent=UA, clock=clock, fetcher=fetcher
        ) as crawler:
            return [page.url async for page in crawler]

    found = await asyncio.gather(*map(crawl, "xyz"))
    assert found == [[f"http://{n}.test/", f"http://{n}.test/1"] for n in "xyz"]


async def test_a_broken_store_ends_the_iteration_loudly(
    clock: JumpClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    async def read() -> None:
        fetcher = long_site(clock)
        async with Crawler([f"{A}/0"], user_agent=UA, clock=clock, fetcher=fetcher) as crawl:
            seen = 0
            async for _ in crawl:
                seen += 1
                if seen == 3:
                    monkeypatch.setattr(crawl._running.get().store, "complete", full)

    with pytest.raises(StoreError, match="the disk is full"):
        await read()


async def test_a_host_whose_page_is_being_read_does_not_make_room(
    clock: JumpClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Released with a page in the reader's hands, the page would be given again."""
    monkeypatch.setattr("crawler.scheduling.host_leases.HOSTS_LEASED_MAX", 4)
    hosts = [f"http://h{n}.test" for n in range(12)]
    fetcher = FakeFetcher(clock, {f"{host}/": html(host, "/1", "/2") for host in hosts})
    seeds = [f"{host}/" for host in hosts]
    async with Crawler(seeds, user_agent=UA, clock=clock, fetcher=fetcher, delay=60) as crawl:
        seen = []
        async for page in crawl:
            seen.append(page.url)
            await clock.sleep_until(clock.monotonic() + 7)
    assert sorted(seen) == sorted(f"{host}/{path}" for host in hosts for path in ("", 1, 2))

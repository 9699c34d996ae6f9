"""Data of URLs: added, kept, and given with the page, its failure or its block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from crawler import CrawledPage, Crawler
from crawler.embedding.link_choice import DATA_BYTES_MAX
from crawler.errors import InvalidRequest
from crawler.testing import FakeFetcher, JumpClock, html, redirect, text
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
VALUE = {"id": 1, "tags": ["ä", "\ud800", "\0"], "more": {"x": None, "y": 1.5, "z": 10**30}}


def site(clock: JumpClock) -> FakeFetcher:
    return FakeFetcher(
        clock,
        {
            f"{A}/robots.txt": text("User-agent: *\nDisallow: /no\n"),
            f"{A}/": html("Home", "/1", "/no", "/bad"),
            f"{A}/1": html("One", "/2"),
            f"{A}/2": html("Two"),
            f"{A}/moved": redirect("/2", status=301),
            f"{A}/bad": FailureCode.PROTOCOL,
        },
    )


async def test_every_outcome_has_its_data_and_referrer(clock: JumpClock) -> None:
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock)) as crawl:
        assert await crawl.add(f"{A}/no", data="no") == 1
        assert await crawl.add([URL(f"{A}/bad"), f"{A}/1"], data=VALUE) == 2
        outcomes = {one.url: one async for one in crawl.outcomes()}
    data = {url.removeprefix(A): one.data for url, one in outcomes.items()}
    assert data == {"/": None, "/no": "no", "/bad": VALUE, "/1": VALUE, "/2": None}
    assert outcomes[f"{A}/2"].referrer == f"{A}/1"
    assert outcomes[f"{A}/1"].referrer is None, "it was added before a page linked to it"


async def test_it_survives_the_end_of_a_run(clock: JumpClock, tmp_path: Path) -> None:
    options: Any = {"user_agent": UA, "clock": clock, "db": tmp_path / "crawl.db"}
    async with Crawler([f"{A}/2"], fetcher=site(clock), **options) as crawl:
        await crawl.add(f"{A}/1", data=VALUE)
    async with Crawler([], fetcher=site(clock), **options) as crawl:
        pages = {page.url: page.data async for page in crawl}
    assert pages == {f"{A}/1": VALUE, f"{A}/2": None}


async def test_the_latest_data_that_is_added_wins(clock: JumpClock) -> None:
    async with Crawler([f"{A}/1"], user_agent=UA, clock=clock, fetcher=site(clock)) as crawl:
        for data in (1, 2, None):
            await crawl.add(f"{A}/1", data=data)
        assert [page.data async for page in crawl] == [2, None]


async def test_the_target_of_a_redirect_inherits_it(clock: JumpClock) -> None:
    async with Crawler([f"{A}/moved"], user_agent=UA, clock=clock, fetcher=site(clock)) as crawl:
        await crawl.add(f"{A}/moved", data=[1])
        pages = [(page.url, page.status, page.data) async for page in crawl]
    assert pages == [(f"{A}/moved", 301, [1]), (f"{A}/2", 200, [1])]


async def test_sinks_receive_it(clock: JumpClock) -> None:
    seen: list[tuple[object, str | None]] = []

    def sink(page: CrawledPage) -> None:
        seen.append((page.data, page.referrer))

    crawl = Crawler([f"{A}/2"], user_agent=UA, clock=clock, fetcher=site(clock), sinks=[sink])
    async with crawl:
        await crawl.add(f"{A}/1", data={"a": 1})
        async for _ in crawl:
            pass
    assert sorted(seen, key=repr) == [(None, None), ({"a": 1}, None)]


async def test_urls_of_a_larger_priority_come_first(clock: JumpClock) -> None:
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock)) as crawl:
        await crawl.add(f"{A}/2", priority=-1)
        await crawl.add(f"{A}/1", priority=5, depth=7)
        pages = [(page.url, page.depth) async for page in crawl]
    assert pages == [(f"{A}/1", 7), (f"{A}/", 0), (f"{A}/2", 0)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"data": object()}, r"data: must be a JSON value .*object"),
        ({"data": {1, 2}}, r"data: must be a JSON value .*set"),
        ({"data": float("nan")}, r"data: must be a JSON value"),
        ({"data": "x" * DATA_BYTES_MAX}, r"data: must be at most 16,384 bytes .* not 16,386"),
        ({"priority": "high"}, r"priority: must be a number, not 'high'"),
        ({"priority": float("inf")}, r"priority: must be between"),
        ({"depth": -1}, r"depth: must be a whole number from 0"),
        ({"depth": 1.5}, r"depth: must be a whole number"),
    ],
)
async def test_what_cannot_be_added_says_why(
    clock: JumpClock, arguments: dict[str, Any], sentence: str
) -> None:
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock)) as crawl:
        with pytest.raises(InvalidRequest, match=sentence):
            await crawl.add(f"{A}/1", **arguments)
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(InvalidRequest, match="data: "):
            await crawl.add(f"{A}/1", data=deep)
        assert [page.url async for page in crawl if page.url == f"{A}/1"] == [f"{A}/1"]

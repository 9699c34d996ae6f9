"""links=: a function or patterns choose among the links of pages, and annotate them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from crawler import ConfigError, CrawledPage, Crawler, FailedPage, FollowLink, PageLink
from crawler.testing import FakeFetcher, JumpClock, Reply, html, redirect, text
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"


def site(clock: JumpClock, **more: Reply) -> FakeFetcher:
    return FakeFetcher(
        clock,
        {
            f"{A}/robots.txt": text(""),
            f"{A}/": html("Home", "/docs/1", "/docs/2", "/login", "http://b.test/"),
            f"{A}/docs/1": html("One", "/login", "/docs/3"),
            f"{A}/docs/2": html("Two"),
            f"{A}/docs/3": html("Three"),
            f"{A}/login": html("Login"),
        }
        | {f"{A}/{name}": reply for name, reply in more.items()},
    )


class Returning:
    """A callable that is not async, and returns an awaitable."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, page: CrawledPage, link: PageLink) -> Any:
        return self._call(page, link)


def paths(pages: list[CrawledPage]) -> list[str]:
    return [page.url.removeprefix(A) for page in pages]


async def crawled(clock: JumpClock, links: Any, **more: Any) -> list[CrawledPage]:
    options: Any = {"user_agent": UA, "clock": clock, "fetcher": site(clock)}
    async with Crawler([A], links=links, **(options | more)) as crawl:
        pages = [page async for page in crawl]
        skipped = (await crawl.summary()).skipped
    assert skipped.get("links", 0) > 0
    return pages


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ({"include": ["*/docs/*"]}, ["/", "/docs/1", "/docs/2", "/docs/3"]),
        ({"exclude": "*/docs/*"}, ["/", "/login"]),
        ({"include": ("*/docs/*",), "exclude": ["*/3"]}, ["/", "/docs/1", "/docs/2"]),
    ],
)
async def test_patterns_choose_among_links(
    clock: JumpClock, patterns: dict[str, Any], found: list[str]
) -> None:
    assert sorted(paths(await crawled(clock, patterns))) == found


@pytest.mark.parametrize("way", ["function", "async", "awaitable"])
async def test_a_function_filters_and_annotates(clock: JumpClock, way: str) -> None:
    threads: set[int] = set()
    asked: list[tuple[str, str]] = []

    def choose(page: CrawledPage, link: PageLink) -> FollowLink | bool | None:
        threads.add(threading.get_ident())
        asked.append((page.url.removeprefix(A), link.url.removeprefix(A)))
        assert page.title
        assert not link.nofollow
        if "login" in link.url:
            return False
        if link.url.endswith("/2"):
            return FollowLink(priority=5, data={"from": page.title, "anchor": link.anchor})
        return None if link.url.endswith("/1") else True

    async def choose_async(page: CrawledPage, link: PageLink) -> FollowLink | bool | None:
        await asyncio.sleep(0)
        return choose(page, link)

    links: Any = {
        "function": choose,
        "async": choose_async,
        "awaitable": Returning(choose_async),
    }[way]
    pages = await crawled(clock, links)
    assert paths(pages) == ["/", "/docs/2", "/docs/1", "/docs/3"]
    assert [page.data for page in pages] == [
        None,
        {"from": "Home", "anchor": "/docs/2"},
        None,
        None,
    ]
    assert pages[1].referrer == f"{A}/"
    assert asked.count(("/", "/login")) == 1
    assert asked.count(("/docs/1", "/login")) == 1, "it was left out, and is asked about again"
    assert ("/docs/1", "/docs/2") not in asked
    assert (threading.get_ident() in threads) == (way != "function")


async def test_a_link_may_lead_elsewhere_within_the_scope(clock: JumpClock) -> None:
    def choose(page: CrawledPage, link: PageLink) -> FollowLink | bool:
        if link.url.endswith("/1"):
            return FollowLink(url="/docs/3")
        if link.url.endswith("/2"):
            return FollowLink(url=URL("http://b.test/x"))
        return False

    assert paths(await crawled(clock, choose)) == ["/", "/docs/3"]


async def test_an_exception_costs_its_page_alone(clock: JumpClock) -> None:
    def choose(page: CrawledPage, link: PageLink) -> bool:
        if page.url.endswith("/1"):
            raise ValueError("no luck")
        return "login" not in link.url

    crawl = Crawler([A], links=choose, user_agent=UA, clock=clock, fetcher=site(clock))
    async with crawl:
        outcomes = {one.url.removeprefix(A): one async for one in crawl.outcomes()}
    assert list(outcomes) == ["/", "/docs/1", "/docs/2"]
    failed = outcomes["/docs/1"]
    assert isinstance(failed, FailedPage)
    assert failed.code is FailureCode.INTERNAL
    assert failed.sentence.startswith("ValueError in test_link_choice.py, line ")


@pytest.mark.parametrize(
    "answer", ["yes", FollowLink(url="mailto:a@b"), FollowLink(data={1}), FollowLink(priority=9e99)]
)
async def test_an_answer_that_makes_no_sense_costs_the_page(
    clock: JumpClock, answer: object
) -> None:
    links: Any = lambda page, link: answer  # noqa: E731
    crawl = Crawler([A], links=links, user_agent=UA, clock=clock, fetcher=site(clock))
    async with crawl:
        assert [type(one) async for one in crawl.outcomes()] == [FailedPage]


async def test_annotations_survive_the_end_of_a_run(clock: JumpClock, tmp_path: Path) -> None:
    def choose(page: CrawledPage, link: PageLink) -> FollowLink:
        return FollowLink(data=[page.url])

    options: Any = {"user_agent": UA, "clock": clock, "db": tmp_path / "crawl.db"}
    async with Crawler([A], links=choose, max_pages=1, fetcher=site(clock), **options) as crawl:
        assert len([page async for page in crawl]) == 1
    async with Crawler([], fetcher=site(clock), **options) as crawl:
        pages = [(page.url, page.data, page.referrer) async for page in crawl]
    assert (f"{A}/docs/1", [f"{A}/"], f"{A}/") in pages


async def test_redirects_are_no_links(clock: JumpClock) -> None:
    fetcher = site(clock, old=redirect("/docs/2", status=301))
    crawl = Crawler(
        [f"{A}/old"], links={"exclude": ["*"]}, user_agent=UA, clock=clock, fetcher=fetcher
    )
    async with crawl:
        assert paths([page async for page in crawl]) == ["/old", "/docs/2"]


@pytest.mark.parametrize("links", ["*/docs/*", {"includes": []}, {"include": [1]}, 7])
def test_what_cannot_choose_is_refused(links: Any) -> None:
    with pytest.raises(ConfigError):
        Crawler([A], links=links, user_agent=UA)

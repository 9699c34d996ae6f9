"""Crawler.retry_failed: failed URLs are crawled again, as if never tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler import CrawledPage, Crawler, FailedPage, FollowLink, InvalidRequest, SessionClosed
from crawler.testing import FakeFetcher, JumpClock, Reply, html, text
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
CONFIG = {"fetch": {"max_attempts": 1}, "scope": {"sitemap_paths": []}}


def broken(clock: JumpClock) -> FakeFetcher:
    """A site with one URL that answers 500 and one whose answer breaks off."""
    return FakeFetcher(
        clock,
        {
            f"{A}/robots.txt": text(""),
            f"{A}/": html("Home", "/error", "/cut"),
            f"{A}/error": Reply(status=500),
            f"{A}/cut": FailureCode.BODY,
        },
    )


def whole(clock: JumpClock) -> FakeFetcher:
    """The same site, mended."""
    return FakeFetcher(
        clock,
        {
            f"{A}/robots.txt": text(""),
            f"{A}/": html("Home", "/error", "/cut"),
            f"{A}/error": html("Error"),
            f"{A}/cut": html("Cut"),
        },
    )


async def test_a_later_run_retries_what_failed_with_its_data(
    clock: JumpClock, tmp_path: Path
) -> None:
    db = tmp_path / "crawl.db"
    async with Crawler(
        [A],
        user_agent=UA,
        clock=clock,
        fetcher=broken(clock),
        db=db,
        config=CONFIG,
        links=lambda page, link: FollowLink(data={"from": page.title}),
    ) as crawl:
        assert len([one async for one in crawl.outcomes() if isinstance(one, FailedPage)]) == 2
    async with Crawler(
        [A], user_agent=UA, clock=clock, fetcher=whole(clock), db=db, config=CONFIG
    ) as crawl:
        assert await crawl.retry_failed() == 2
        assert await crawl.retry_failed() == 0
        outcomes = [one async for one in crawl.outcomes()]
        summary = await crawl.summary()
    assert {one.url for one in outcomes} == {f"{A}/error", f"{A}/cut"}
    for one in outcomes:
        assert isinstance(one, CrawledPage)
        assert one.data == {"from": "Home"}
    assert (summary.visited, summary.failed) == (3, 0)


@pytest.mark.parametrize("code", [FailureCode.BODY, "body"])
async def test_one_code_is_retried(clock: JumpClock, tmp_path: Path, code: str) -> None:
    db = tmp_path / "crawl.db"
    async with Crawler(
        [A], user_agent=UA, clock=clock, fetcher=broken(clock), db=db, config=CONFIG
    ) as crawl:
        async for _ in crawl:
            pass
    async with Crawler(
        [A], user_agent=UA, clock=clock, fetcher=whole(clock), db=db, config=CONFIG
    ) as crawl:
        assert await crawl.retry_failed(code) == 1
        assert [page.url async for page in crawl] == [f"{A}/cut"]
        assert await crawl.retry_failed("quarantined") == 0


async def test_a_crawl_retries_at_its_end_and_crawls_on(clock: JumpClock) -> None:
    async with Crawler(
        [A], user_agent=UA, clock=clock, fetcher=broken(clock), config=CONFIG
    ) as crawl:
        first = [type(one) async for one in crawl.outcomes()]
        assert first == [CrawledPage, FailedPage, FailedPage]
        assert await crawl.retry_failed() == 2
        again = [one async for one in crawl.outcomes()]
    assert [type(one) for one in again] == [FailedPage, FailedPage]
    assert {one.attempts for one in again if isinstance(one, FailedPage)} == {1}


async def test_a_crawl_retries_in_its_loop(clock: JumpClock) -> None:
    retried = failed = 0
    async with Crawler(
        [A], user_agent=UA, clock=clock, fetcher=broken(clock), config=CONFIG
    ) as crawl:
        async for one in crawl.outcomes():
            if isinstance(one, FailedPage):
                failed += 1
                if not retried:
                    retried = await crawl.retry_failed(one.code)
    assert (retried, failed) == (1, 3)


async def test_bad_arguments_and_a_closed_crawl_are_refused(clock: JumpClock) -> None:
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=whole(clock)) as crawl:
        for code in ("404", 500, ""):
            with pytest.raises(InvalidRequest, match=r"code: must be one of dns, .*, not "):
                await crawl.retry_failed(code)  # type: ignore[arg-type]
    with pytest.raises(SessionClosed):
        await crawl.retry_failed()

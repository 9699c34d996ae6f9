"""Crawler: who may iterate, the outcomes of all URLs, and the summary."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawler import (
    BlockedPage,
    CrawledPage,
    Crawler,
    FailedPage,
    PageLink,
    SecondReader,
    SessionClosed,
)
from crawler.testing import FakeFetcher, JumpClock, Reply, html, not_found, text
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
ROBOTS = text("User-agent: *\nDisallow: /no\n")


def site(clock: JumpClock, *paths: str, **more: Reply | FailureCode) -> FakeFetcher:
    """A home page that links to these paths, which answer 200 unless `more` says otherwise."""
    return FakeFetcher(
        clock,
        {f"{A}/robots.txt": ROBOTS, f"{A}/": html("Home", *paths)}
        | {f"{A}{path}": html(path) for path in paths}
        | {f"{A}/{name}": reply for name, reply in more.items()},
    )


# ---------------------------------------------------------------- one reader


@pytest.mark.parametrize("outcomes", [False, True])
async def test_a_second_reader_is_refused_and_the_first_reads_on(
    clock: JumpClock, outcomes: bool
) -> None:
    fetcher = site(clock, "/1", "/2", "/3")
    read: list[str] = []
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher) as crawl:

        async def second() -> None:
            async for _ in crawl.outcomes() if outcomes else crawl:
                pytest.fail("it got a page of the other")

        async for page in crawl:
            read.append(page.url)
            with pytest.raises(SecondReader, match="another task iterates over this crawl"):
                await asyncio.create_task(second())
    assert len(read) == 4


async def test_a_second_reader_is_refused_while_the_first_waits(clock: JumpClock) -> None:
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock, "/1")) as crawl:
        first = asyncio.create_task(anext(crawl))
        await asyncio.sleep(0)
        with pytest.raises(SecondReader):
            await anext(crawl)
        assert (await first).url == f"{A}/"
        assert (await anext(crawl)).url == f"{A}/1", "the first task is over: this one takes over"


async def test_when_one_iteration_is_over_another_task_may_begin_one(clock: JumpClock) -> None:
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock)) as crawl:
        assert [page.url async for page in crawl] == [f"{A}/"]
        await crawl.add(f"{A}/1")

        async def rest() -> list[str]:
            return [page.url async for page in crawl]

        assert await asyncio.create_task(rest()) == [f"{A}/1"]


# ---------------------------------------------------------------- outcomes


async def test_every_url_has_an_outcome(clock: JumpClock) -> None:
    fetcher = site(
        clock, "/1", "/no", "/bad", "/gone", bad=FailureCode.PROTOCOL, gone=Reply(status=500)
    )
    config = {"fetch": {"max_attempts": 2}, "scope": {"sitemap_paths": []}}
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher, config=config) as crawl:
        outcomes = {one.url: one async for one in crawl.outcomes()}
        summary = await crawl.summary()
    assert set(outcomes) == {f"{A}/{path}" for path in ("", "1", "no", "bad", "gone")}
    assert (summary.visited, summary.blocked, summary.failed) == (2, 1, 2)
    assert isinstance(outcomes[f"{A}/1"], CrawledPage)
    blocked = outcomes[f"{A}/no"]
    assert isinstance(blocked, BlockedPage)
    assert (blocked.verdict.rule, blocked.verdict.line) == ("Disallow: /no", 2)
    bad, gone = outcomes[f"{A}/bad"], outcomes[f"{A}/gone"]
    assert isinstance(bad, FailedPage)
    assert isinstance(gone, FailedPage)
    assert (bad.code, bad.attempts) == (FailureCode.PROTOCOL, 2)
    assert (gone.code, gone.sentence) == (FailureCode.HTTP, "the server answered 500")


async def test_the_urls_of_a_lost_origin_all_have_an_outcome(clock: JumpClock) -> None:
    def answer(request: object) -> Reply | FailureCode:
        url = getattr(request, "url", "")
        if url.endswith("/robots.txt"):
            return not_found()
        if url.startswith("http://lost.test"):
            return FailureCode.CONNECT
        return html("Home", *(f"http://lost.test/{n}" for n in range(1_200)))

    config = {
        "fetch": {"max_attempts": 1, "unreachable_for": 60},
        "scope": {"follow": "any", "sitemap_paths": []},
    }
    async with Crawler(
        [A], user_agent=UA, clock=clock, fetcher=FakeFetcher(clock, answer), config=config
    ) as crawl:
        outcomes = [one async for one in crawl.outcomes()]
        summary = await crawl.summary()
    lost = [one for one in outcomes if isinstance(one, FailedPage)]
    assert summary.failed == len({one.url for one in lost}) == len(lost) == 1_200
    assert {one.code for one in lost} == {FailureCode.CONNECT}


async def test_a_page_that_a_sink_refuses_fails_after_it_was_given(clock: JumpClock) -> None:
    def refuse(page: CrawledPage) -> None:
        raise ValueError("no room")

    crawl = Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock), sinks=[refuse])
    async with crawl:
        outcomes = [one async for one in crawl.outcomes()]
    assert [type(one) for one in outcomes] == [CrawledPage, FailedPage]
    failed = outcomes[1]
    assert isinstance(failed, FailedPage)
    assert failed.code is FailureCode.INTERNAL
    assert failed.sentence.startswith("ValueError in test_outcomes.py, line ")


async def test_a_page_withdrawn_by_a_late_robots_txt_is_blocked_after_it_was_given(
    clock: JumpClock,
) -> None:
    began_s = clock.monotonic()

    def answer(request: object) -> Reply:
        url = getattr(request, "url", "")
        if not url.endswith("/robots.txt"):
            return html("Page", *(f"/{n}" for n in range(300)))
        if clock.monotonic() < began_s + 100:
            return Reply(status=500)
        return text("User-agent: *\nDisallow: /2$\n")

    config = {
        "robots": {"dialect": "slurp", "unreachable": "open"},
        "scope": {"sitemap_paths": []},
    }
    async with Crawler(
        [f"{A}/"], user_agent=UA, clock=clock, fetcher=FakeFetcher(clock, answer), config=config
    ) as crawl:
        outcomes = [one async for one in crawl.outcomes()]
        summary = await crawl.summary()
    assert (summary.visited, summary.blocked) == (300, 1)
    assert [(type(one), one.url) for one in outcomes if one.url.endswith("/2")] == [
        (CrawledPage, f"{A}/2"),
        (BlockedPage, f"{A}/2"),
    ]


async def test_a_slow_reader_of_outcomes_holds_the_crawl_back(clock: JumpClock) -> None:
    paths = [f"/no/{n}" for n in range(6_000)]
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=site(clock, *paths)) as crawl:
        outcomes = crawl.outcomes()
        first = [await anext(outcomes) for _ in range(2)]
        assert isinstance(first[0], CrawledPage)
        for _ in range(2_000):
            await asyncio.sleep(0)
        assert (await crawl.summary()).blocked < 4_000
        assert sum([isinstance(one, BlockedPage) async for one in outcomes]) == 5_999


async def test_asking_for_the_next_outcome_commits_the_page_before(
    clock: JumpClock, tmp_path: Path
) -> None:
    db = tmp_path / "crawl.db"
    fetcher = site(clock, "/1", "/no")

    async with Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher, db=db) as crawl:
        async for one in crawl.outcomes():
            if one.url == f"{A}/1":
                break
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher, db=db) as crawl:
        again = [one.url async for one in crawl.outcomes()]
    assert f"{A}/1" in again
    assert f"{A}/" not in again


async def test_outcomes_before_the_first_was_asked_for_are_given(clock: JumpClock) -> None:
    seeds = [f"{A}/no", f"{A}/1"]
    async with Crawler(seeds, user_agent=UA, clock=clock, fetcher=site(clock, "/1")) as crawl:
        await crawl.session().get(f"{A}/")  # the crawl has begun
        await clock.sleep_until(clock.monotonic() + 10)
        assert (await crawl.summary()).blocked == 1
        outcomes = [(type(one), one.url) async for one in crawl.outcomes()]
    assert outcomes == [(BlockedPage, f"{A}/no"), (CrawledPage, f"{A}/1")]


async def test_pages_alone_are_given_without_the_others(clock: JumpClock) -> None:
    fetcher = site(clock, "/no", "/bad", bad=FailureCode.PROTOCOL)
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher) as crawl:
        assert [type(page) async for page in crawl] == [CrawledPage]


# ---------------------------------------------------------------- the summary


@pytest.mark.parametrize("stored", [False, True])
async def test_the_summary_is_available_after_the_block(
    clock: JumpClock, tmp_path: Path, stored: bool
) -> None:
    crawl = Crawler(
        [A],
        user_agent=UA,
        clock=clock,
        fetcher=site(clock, "/1", "/no"),
        db=tmp_path / "crawl.db" if stored else None,
    )
    with pytest.raises(SessionClosed):
        await crawl.summary()
    async with crawl:
        assert len([page async for page in crawl]) == 2
        inside = await crawl.summary()
    after = await crawl.summary()
    assert (
        (after.visited, after.blocked, after.queued)
        == (2, 1, 0)
        == (
            inside.visited,
            inside.blocked,
            inside.queued,
        )
    )
    assert not after.interrupted
    assert after.elapsed_s > 0
    assert await crawl.summary() == after, "time does not pass for it any more"


async def test_the_summary_of_a_crawl_that_was_left_says_so(clock: JumpClock) -> None:
    fetcher = site(clock, "/1", "/2")
    async with Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher) as crawl:
        await anext(crawl)
        await anext(crawl)
    summary = await crawl.summary()
    assert summary.interrupted
    assert (summary.visited, summary.queued) == (1, 2)


async def test_links_of_a_page_that_fails_are_followed_from_another(clock: JumpClock) -> None:
    fetcher = site(clock, "/1", "/2", **{name: html(name, "/x") for name in ("1", "2")})

    def refuse(page: CrawledPage) -> None:
        if page.url == f"{A}/1":
            raise ValueError

    def leave_out(page: CrawledPage, link: PageLink) -> bool:
        refuse(page)
        return True

    for options in ({"sinks": [refuse]}, {"links": leave_out}):
        crawl = Crawler([A], user_agent=UA, clock=clock, fetcher=fetcher, **options)
        async with crawl:
            pages = [page.url async for page in crawl]
        assert (await crawl.summary()).failed == 1
        assert f"{A}/x" in pages

"""The limits of one run end it cleanly, say so in the summary, and leave URLs queued."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler import ConfigError, Crawler
from crawler.config import from_dict
from crawler.testing import FakeFetcher, JumpClock, Reply, html
from policies.retries import FailureCode

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"


def endless(clock: JumpClock, **more: Reply | FailureCode) -> FakeFetcher:
    """A page leads to the next two, without end; each has at least 1,000 bytes."""

    def answer(request: object) -> Reply | FailureCode:
        path = getattr(request, "url", "").removeprefix(f"{A}/")
        if path in more:
            return more[path]
        if not path.isdigit():
            return Reply(status=404)
        number = int(path)
        return html("x" * 1_000, f"/{number + 1}", f"/{number + 2}")

    return FakeFetcher(clock, answer)


async def test_max_time_s_ends_it_and_a_later_run_continues(tmp_path: Path) -> None:
    db = tmp_path / "crawl.db"
    seen: list[str] = []
    for _ in range(2):
        async with JumpClock() as clock:
            crawl = Crawler(
                [f"{A}/1"],
                user_agent=UA,
                clock=clock,
                fetcher=endless(clock),
                db=db,
                delay=10,
                max_time_s=60,
            )
            async with crawl:
                seen += [page.url async for page in crawl]
            assert 55 < clock.elapsed_s < 75
            summary = await crawl.summary()
        assert summary.ended_by == "crawl.max_time"
        assert not summary.interrupted
        assert summary.queued > 0
        assert summary.held_back == {"max_time": summary.queued}
        assert {host.reason for host in summary.waiting} == {"crawl.max_time has been reached"}
    assert len(seen) == len(set(seen)) > 5


async def test_max_time_s_ends_a_crawl_that_waits_for_a_host(clock: JumpClock) -> None:
    fetcher = endless(clock)
    began_s = clock.monotonic()
    async with Crawler(
        [f"{A}/1"], user_agent=UA, clock=clock, fetcher=fetcher, delay=400, max_time_s="10m"
    ) as crawl:
        assert len([page async for page in crawl]) == 1, "robots.txt was the first contact"
    assert clock.monotonic() - began_s == pytest.approx(600, abs=5)


async def test_max_bytes_counts_the_bodies_of_this_run(clock: JumpClock) -> None:
    async with Crawler(
        [f"{A}/1"], user_agent=UA, clock=clock, fetcher=endless(clock), max_bytes="5KB"
    ) as crawl:
        pages = [page async for page in crawl]
        summary = await crawl.summary()
    sizes = [len(page.body) for page in pages]
    assert sum(sizes[:-1]) < 5_000 <= sum(sizes)
    assert summary.ended_by == "crawl.max_bytes"


async def test_max_errors_counts_urls_that_failed(clock: JumpClock) -> None:
    failures = {str(number): FailureCode.PROTOCOL for number in range(5, 30, 2)}
    config = {"fetch": {"max_attempts": 1}}
    async with Crawler(
        [f"{A}/1"],
        user_agent=UA,
        clock=clock,
        fetcher=endless(clock, **failures),
        config=config,
        max_errors=3,
    ) as crawl:
        pages = [page async for page in crawl]
        summary = await crawl.summary()
    assert (summary.ended_by, summary.failed) == ("crawl.max_errors", 3)
    assert len(pages) < 20


async def test_max_pages_is_named_as_well_and_a_complete_crawl_names_none(
    clock: JumpClock,
) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/": html("Home", "/1"), f"{A}/1": html("One")})
    for pages, limit in ((1, "crawl.max_pages"), (2, None), (3, None)):
        async with Crawler(
            [A], user_agent=UA, clock=clock, fetcher=fetcher, max_pages=pages
        ) as crawl:
            assert len([page async for page in crawl]) == min(pages, 2)
        assert (await crawl.summary()).ended_by == limit


@pytest.mark.parametrize("option", [{"max_time_s": 0}, {"max_bytes": 0}, {"max_errors": 0}])
def test_limits_that_would_end_it_before_it_begins_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option)).removesuffix("_s")):
        Crawler([A], user_agent=UA, **option)  # type: ignore[arg-type]


def test_workers_share_the_limits() -> None:
    config = from_dict({"crawl": {"max_pages": 3, "max_bytes": 10, "max_errors": 1}})
    shares = [config.of_worker(number, 2).crawl for number in (1, 2)]
    assert [(one.max_pages, one.max_bytes, one.max_errors) for one in shares] == [
        (2, 5, 1),
        (1, 5, 1),
    ]


async def test_max_errors_counts_pages_that_a_sink_refuses(clock: JumpClock) -> None:
    def refuse(page: object) -> None:
        raise ValueError

    async with Crawler(
        [f"{A}/{number}" for number in range(9)],
        user_agent=UA,
        clock=clock,
        fetcher=endless(clock),
        sinks=[refuse],
        max_errors=2,
    ) as crawl:
        assert len([page async for page in crawl]) <= 4
        assert (await crawl.summary()).ended_by == "crawl.max_errors"

"""Crawls of hours and days on a clock that jumps: everything but the network and the database file
is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from crawler.fetching.request import Request
from crawler.testing import Answers, Reply, html, not_found, text

if TYPE_CHECKING:
    from tests.conftest import Crawled, World

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
FLOAT_S = 1e-6  # the clock counts in floats


class Simulate(Protocol):
    async def __call__(self, answers: Answers, *seeds: str, **sections: Any) -> Crawled: ...


@pytest.fixture
def simulate(world: World) -> Simulate:
    """A crawl with enough patience for all of these tests."""

    async def run(answers: Answers, *seeds: str, **sections: Any) -> Crawled:
        crawl = {"patience": "30d", **sections.pop("crawl", {})}
        return await world.crawl(answers, *seeds, crawl=crawl, cap_s=90 * DAY_S, **sections)

    return run


async def test_robots_txt_is_asked_again_after_a_day_with_its_validators(
    simulate: Simulate,
) -> None:
    robots = Reply(
        body="User-agent: *\nCrawl-delay: 3600\n",
        content_type="text/plain",
        headers={"ETag": '"v1"', "Last-Modified": "Tue, 14 Nov 2023 00:00:00 GMT"},
    )

    def answers(request: Request) -> Reply:
        if not request.url.endswith("/robots.txt"):
            return html("Page", *(f"/{n}" for n in range(40)))
        if request.headers.get("If-None-Match") == '"v1"':
            return Reply(status=304)
        return robots

    crawled = await simulate(answers, "http://a.test/")
    asked = [entry for entry in crawled.log if entry.path == "/robots.txt"]
    assert [entry.status for entry in asked] == [200, 304]
    assert DAY_S <= asked[1].start_s - asked[0].start_s < DAY_S + 2 * HOUR_S
    assert min(crawled.log.gaps("a.test")[1:]) >= HOUR_S - FLOAT_S
    assert len(crawled.urls("visited")) == 41


async def test_an_open_origin_is_judged_again_hours_later(simulate: Simulate) -> None:
    """Law 4 (docs/laws.md) over hours."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            failed.append(request.url)
            return text("", status=503) if len(failed) < 8 else text("User-agent: *\nDisallow: /b")
        return html("Page", *(f"/{kind}/{n}" for n in range(30) for kind in "ab"))

    failed: list[str] = []
    crawled = await simulate(answers, "http://a.test/", politeness={"delay": 60})
    asked = [n for n, entry in enumerate(crawled.log) if entry.path == "/robots.txt"]
    assert len(asked) == 8
    late = [entry.path for entry in crawled.log[asked[-1] :] if entry.path.startswith("/b")]
    assert late == []
    early = {entry.path for entry in crawled.log[: asked[-1]] if entry.path.startswith("/b")}
    assert early
    withdrawn = [row for row in crawled.rows["blocked"] if row["withdrawn"]]
    assert len(withdrawn) == len(early)
    assert len(crawled.urls("blocked")) == 30
    assert len(crawled.urls("visited")) == 31


async def test_what_waits_beyond_patience_stays_queued(simulate: Simulate) -> None:
    """Patience counts from the last progress; another 429 does not extend it."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        return Reply(status=429, headers={"Retry-After": "500"})

    crawled = await simulate(answers, "http://a.test/", crawl={"patience": "10m"})
    assert [round(gap, -2) for gap in crawled.log.gaps("a.test")] == [0, 500]
    assert crawled.urls("queued") == ["http://a.test/"]
    until, reason = crawled.waiting["a.test"]
    assert until is not None
    assert until >= crawled.wall_from_s + crawled.log[-1].end_s + 500
    assert reason == "backing off after a 429 response (too many requests)"

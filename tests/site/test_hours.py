"""Crawls of hours and days on a clock that jumps: everything but the network and the database file
is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from crawler.fetching.request import Request
from crawler.testing import Answers, Reply, html, not_found, text
from policies.retries import FailureCode

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


async def test_an_hour_of_politeness(simulate: Simulate) -> None:
    hosts, pages, delay_s = 20, 120, 30
    answers: dict[str, Reply | FailureCode] = {}
    for host in (f"http://h{n}.test" for n in range(hosts)):
        answers[f"{host}/"] = html("Home", *(f"/{n}" for n in range(1, pages)))
        answers |= {f"{host}/{n}": html(f"{n}", "/") for n in range(1, pages)}
    seeds = [f"http://h{n}.test/" for n in range(hosts)]
    crawled = await simulate(answers, *seeds, politeness={"delay": delay_s})
    assert crawled.urls("visited") == sorted(answers)
    assert crawled.elapsed_s >= pages * delay_s
    assert crawled.elapsed_s < pages * (delay_s + 0.1) + 5
    for n in range(hosts):
        assert min(crawled.log.gaps(f"h{n}.test")) >= delay_s - FLOAT_S
        assert max(crawled.log.gaps(f"h{n}.test")) < delay_s + 1
        assert crawled.log.peak_concurrency(f"h{n}.test") == 1
    assert crawled.log.peak_concurrency() == hosts


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


async def test_the_retry_clock_of_a_robots_txt_that_cannot_be_had(simulate: Simulate) -> None:
    """2 s, 10 s, 30 s, then 1 min doubling up to 6 h; no page is requested meanwhile."""
    tries = 13

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            failed.append(request.url)
            return text("", status=503) if len(failed) <= tries else text("")
        return html("Page")

    failed: list[str] = []
    crawled = await simulate(
        answers, "http://a.test/", robots={"unreachable": "closed"}, politeness={"delay": 0.5}
    )
    *asked, page = crawled.log
    assert page.path == "/"
    assert {entry.path for entry in asked} == {"/robots.txt"}
    waits = [round(gap) for gap in crawled.log.gaps("a.test")]
    clock = [2, 10, 30, *(min(60 * 2**n, 6 * 3600) for n in range(tries - 3))]
    assert waits == [*clock, 1] or waits == [*clock, 0]  # and at last the page, after the delay


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


async def test_refusals_rest_a_host_longer_and_longer_and_give_up_at_the_fifth(
    simulate: Simulate,
) -> None:
    """60 s, doubling. A 429 or 503 does not count as an attempt."""
    answers: dict[str, Reply | FailureCode] = {"http://a.test/": Reply(status=503)}
    crawled = await simulate(answers, "http://a.test/", politeness={"delay": 1})
    assert crawled.log.paths("a.test") == ["/robots.txt", *["/"] * 5]
    assert [round(gap) for gap in crawled.log.gaps("a.test")] == [1, 60, 120, 240, 480]
    ((failed),) = crawled.rows["failed"]
    assert str(failed["error"]).startswith("refused: ")


async def test_retry_after_is_obeyed_up_to_its_limit(simulate: Simulate) -> None:
    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        asked.append(request.url)
        if len(asked) == 1:
            return Reply(status=429, headers={"Retry-After": "9999999"})
        return html("Home")

    asked: list[str] = []
    crawled = await simulate(answers, "http://a.test/", crawl={"patience": "40d"})
    assert crawled.urls("visited") == ["http://a.test/"]
    rests = [crawled.log[n + 1].start_s - crawled.log[n].end_s for n in range(len(crawled.log) - 1)]
    assert max(rests) <= 30 * DAY_S + 2
    page = [entry for entry in crawled.log if entry.path == "/"]
    assert 30 * DAY_S - FLOAT_S <= page[1].start_s - page[0].end_s < 30 * DAY_S + 3


async def test_a_visit_window_keeps_contacts_inside_it(simulate: Simulate) -> None:
    """The clock starts at 22:13:20 UTC; six hours a day, one page an hour."""
    answers: dict[str, Reply | FailureCode] = {
        "http://a.test/": html("Home", *(f"/{n}" for n in range(14)))
    }
    crawled = await simulate(
        answers, "http://a.test/", politeness={"delay": HOUR_S, "visit_window": "02:00-08:00"}
    )
    assert len(crawled.urls("visited")) == 15
    hours = {(crawled.wall_from_s + entry.start_s) % DAY_S / HOUR_S for entry in crawled.log}
    assert min(hours) >= 2
    assert max(hours) < 8
    assert crawled.elapsed_s > 2 * DAY_S


async def test_a_dead_host_is_tried_on_the_retry_clock_then_fails_in_bulk(
    simulate: Simulate,
) -> None:
    answers: dict[str, Reply | FailureCode] = {
        "http://a.test/": html("Home", *(f"http://dead.test/{n}" for n in range(50))),
        **{f"http://dead.test/{n}": FailureCode.CONNECT for n in range(50)},
        "http://dead.test/robots.txt": FailureCode.CONNECT,
    }
    crawled = await simulate(
        answers, "http://a.test/", scope={"follow": "any"}, fetch={"unreachable_for": "12s"}
    )
    starts = [entry.start_s for entry in crawled.log.requests("dead.test")]
    assert len(starts) == 3
    assert 2 <= starts[1] - starts[0] < 3.5
    assert 10 <= starts[2] - starts[1] < 11.5
    assert len(crawled.rows["failed"]) == 50
    assert crawled.urls("queued") == []


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

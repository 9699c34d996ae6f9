"""Hosts with nothing but blocked URLs: listed without a turn each, and asked again every day, also
while other hosts keep the crawl busy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from crawler.fetching.request import Request
from crawler.frontier.commit_buffer import OUTCOMES_MAX
from crawler.testing import Reply, html, not_found, text
from storage.store import Batch

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0
HOURLY = {"delay": 3600.0, "latency_factor": 0}


def busy(days: float, closed_for_s: float, world: World) -> Callable[[Request], Reply]:
    """b.test has a page an hour for so many days; a.test disallows everything at first."""
    begin_s = world.clock.monotonic()

    def answers(request: Request) -> Reply:
        if "//b.test" in request.url:
            if request.url.endswith("/robots.txt"):
                return not_found()
            return html("B", *(f"/{n}" for n in range(int(days * 24))))
        if request.url.endswith("/robots.txt"):
            shut = world.clock.monotonic() - begin_s < closed_for_s
            return text("User-agent: *\nDisallow: /" if shut else "User-agent: *\nDisallow: /x")
        return html("A")

    return answers


async def test_a_blocked_host_is_asked_again_daily_while_others_are_crawled(world: World) -> None:
    pages = [f"http://a.test/{n}" for n in range(50)]
    answers = busy(days=4, closed_for_s=1.5 * DAY_S, world=world)
    site = {"a.test": {"delay": 1}}
    crawled = await world.crawl(
        answers, *pages, "http://b.test/", politeness=HOURLY, crawl={"patience": "2h"}, site=site
    )
    asked_s = crawled.at("a.test", "/robots.txt")
    assert len(asked_s) == 3, "daily, until it governs nothing"
    for n, at_s in enumerate(asked_s):
        assert n * DAY_S <= at_s < n * DAY_S + 60
    first_page_s = min(s for n in range(50) for s in crawled.at("a.test", f"/{n}"))
    assert asked_s[2] < first_page_s < asked_s[2] + 3600, "and freed at once"
    assert crawled.urls("blocked") == []
    assert len([url for url in crawled.urls("visited") if "//a.test" in url]) == 50


async def test_thousands_of_blocked_urls_take_a_few_turns(world: World) -> None:
    pages = [f"http://a.test/{n}" for n in range(5_000)]
    crawled = await world.crawl(
        lambda request: text("User-agent: *\nDisallow: /"), *pages, politeness={"delay": 10}
    )
    assert len(crawled.urls("blocked")) == 5_000
    assert crawled.log.paths("a.test") == ["/robots.txt"]
    assert crawled.elapsed_s < 30, "no rest where there is no contact"
    assert crawled.medium.calls["complete"] < 60


async def test_a_due_robots_txt_that_cannot_be_had_is_not_asked_all_the_time(world: World) -> None:
    from policies.retries import FailureCode

    begin_s = world.clock.monotonic()
    shut = busy(days=3, closed_for_s=99 * DAY_S, world=world)

    def answers(request: Request) -> Reply | FailureCode:
        if "//a.test" in request.url and world.clock.monotonic() - begin_s > DAY_S / 2:
            return FailureCode.CONNECT
        return shut(request)

    crawled = await world.crawl(
        answers,
        "http://a.test/1",
        "http://b.test/",
        politeness=HOURLY,
        crawl={"patience": "2h"},
        site={"a.test": {"delay": 1}},
    )
    assert len(crawled.urls("blocked")) == 1
    assert 3 <= len(crawled.at("a.test")) <= 20


async def test_others_are_contacted_while_a_hundred_hosts_are_found_to_be_blocked(
    world: World,
) -> None:
    """Law 5. What costs no contact is judged as fast as the store takes it, and no faster; a host
    that has something to ask for has its turn meanwhile, however many of the others there are."""
    sizes: list[int] = []

    async def slow(_: int, batch: Batch) -> None:
        sizes.append(len(batch.outcomes))
        await world.wait(0.0004 * len(batch.outcomes))

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /no/\n")
        return html("ParsedPage", *(f"{request.url}{n}/" for n in range(2)))

    hosts = [f"h{n}.test" for n in range(100)]
    blocked = [f"http://{host}/no/{n}" for n in range(130) for host in hosts]
    world.medium.before["complete"] = slow
    crawled = await world.crawl(
        answers,
        "http://a.test/",
        *blocked,
        politeness={"delay": 0.2, "latency_factor": 0},
        at={30.0: world.stop},
    )
    assert len(crawled.urls("blocked")) == len(blocked)
    assert max(sizes) <= 2 * OUTCOMES_MAX
    times = [at_s for at_s in crawled.at("a.test") if at_s < 25]
    longest_s = max(b - a for a, b in itertools.pairwise(times))
    assert longest_s < 2, "all of them at once take the store 5 s"

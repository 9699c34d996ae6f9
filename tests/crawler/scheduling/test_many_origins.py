"""A domain of many hosts, with `per = "domain"`: few of their robots.txt are in memory, none
is asked for twice for that, and what they say still counts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from crawler.fetching.request import Request
from crawler.frontier.robots_cache import ORIGINS_PER_HOST_MAX
from crawler.testing import Reply, html, text

if TYPE_CHECKING:
    from tests.conftest import World

HOSTS = 2 * ORIGINS_PER_HOST_MAX + 10
PACE = {"per": "domain", "delay": 1, "latency_factor": 0}
DAY_S = 86_400.0


def site(request: Request) -> Reply:
    """Every host forbids /x; every tenth asks for a Crawl-delay of its own."""
    if request.url.endswith("/robots.txt"):
        number = int(request.url.split("//h")[1].split(".")[0])
        slow = "Crawl-delay: 3\n" if number % 10 == 0 else ""
        return text(f"User-agent: *\n{slow}Disallow: /x")
    return html("ParsedPage", "/x", "/a", "/b")


def seeds(path: str = "/") -> list[str]:
    return [f"http://h{n}.example.test{path}" for n in range(HOSTS)]


async def test_few_origins_are_in_memory_and_none_is_asked_again(world: World) -> None:
    most = 0

    def look() -> None:
        nonlocal most
        assert world.scheduler
        for host in world.scheduler.frontier.permits:
            most = max(most, len(world.scheduler.frontier.robots.of(host)), len(host.pace.asks))

    moments = {float(s): look for s in range(1, 1500, 7)}
    crawled = await world.crawl(site, *seeds(), politeness=PACE, at=moments)
    assert len(crawled.urls("visited")) == 3 * HOSTS
    assert len(crawled.urls("blocked")) == HOSTS
    assert len(crawled.entries(path="/robots.txt")) == HOSTS
    assert most <= ORIGINS_PER_HOST_MAX + 2
    entries = sorted(crawled.log, key=lambda entry: entry.start_s)
    rests = [b.start_s - a.end_s for a, b in itertools.pairwise(entries)]
    assert min(rests) >= 1.0
    for n, entry in enumerate(entries[1:], 1):
        if entry.host.split(".")[0].endswith("0") and entry.path != "/robots.txt":
            assert rests[n - 1] >= 3.0, "its own Crawl-delay"

    again = await world.crawl(site, *seeds("/c"), politeness=PACE)
    assert len(again.urls("visited")) == 4 * HOSTS
    assert again.entries(path="/robots.txt") == [], "copies are loaded, not asked for"


async def test_an_origin_that_left_memory_is_judged_again_when_its_file_changes(
    world: World,
) -> None:
    first = await world.crawl(site, *seeds(), politeness=PACE)
    assert len(first.urls("blocked")) == HOSTS
    await world.wait(DAY_S)

    def opened(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /y")
        return html("ParsedPage")

    later = await world.crawl(opened, politeness=PACE)
    assert later.urls("blocked") == []
    assert len(later.urls("visited")) == 4 * HOSTS
    assert len(later.entries(path="/robots.txt")) == HOSTS

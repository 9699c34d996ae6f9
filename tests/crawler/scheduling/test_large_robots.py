"""Hosts with a large robots.txt take turns in memory, and none is asked for it twice for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.frontier import robots_budget
from crawler.testing import Reply, html, text
from policies import robots

if TYPE_CHECKING:
    from tests.conftest import World

HOSTS = 20
RULES = "User-agent: *\nDisallow: /x\n" + "Disallow: /not-here\n" * 500
SLURP = robots.parse(RULES.encode()).rule_set("bot")
SLURP.read_whole()
FILE_BYTES = SLURP.memory_bytes
BYTES_MAX = 5 * FILE_BYTES


def site(request: Request) -> Reply:
    return (
        text(RULES) if request.url.endswith("/robots.txt") else html("ParsedPage", "/x", "/a", "/b")
    )


@pytest.mark.parametrize("per", ["host", "domain"])
async def test_all_are_crawled_within_the_memory(
    world: World, monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    monkeypatch.setattr(robots_budget, "LARGE_BYTES_MAX", BYTES_MAX)
    most = 0

    def look() -> None:
        nonlocal most
        assert world.scheduler
        most = max(most, world.scheduler.frontier.budget.large_bytes)

    seeds = [f"http://h{n}.of{n % 5}.test/" for n in range(HOSTS)]
    crawled = await world.crawl(
        site,
        *seeds,
        politeness={"per": per, "delay": 1, "latency_factor": 0},
        at={s / 10: look for s in range(1, 2_000)},
    )
    assert len(crawled.urls("visited")) == 3 * HOSTS
    assert len(crawled.urls("blocked")) == HOSTS
    assert len(crawled.entries(path="/robots.txt")) == HOSTS
    assert 0 < most <= BYTES_MAX

    again = await world.crawl(site, *(f"{seed}c" for seed in seeds))
    assert len(again.urls("visited")) == 4 * HOSTS
    assert again.entries(path="/robots.txt") == []


@pytest.mark.parametrize("patience", ["0s", "2s", "10m"])
async def test_waiting_for_memory_is_within_any_patience(
    world: World, monkeypatch: pytest.MonkeyPatch, patience: str
) -> None:
    monkeypatch.setattr(robots_budget, "LARGE_BYTES_MAX", BYTES_MAX)
    crawled = await world.crawl(
        site,
        *(f"http://h{n}.test/" for n in range(HOSTS)),
        politeness={"delay": 0 if patience == "0s" else 1, "latency_factor": 0},
        crawl={"patience": patience},
    )
    assert len(crawled.urls("visited")) == 3 * HOSTS
    assert crawled.urls("queued") == []


async def test_a_file_counts_for_each_dialect(world: World) -> None:
    """Each is compiled apart."""
    most: dict[int, int] = {}
    for dialects in (["slurp"], ["slurp", "google", "bing"]):

        def look(count: int = len(dialects)) -> None:
            assert world.scheduler
            most[count] = max(most.get(count, 0), world.scheduler.frontier.budget.large_bytes)

        seed = f"http://of{len(dialects)}.test/"
        at = {s / 10: look for s in range(1, 100)}
        await world.crawl(site, seed, robots={"dialect": dialects}, at=at)
    assert most[1] == FILE_BYTES
    assert most[3] > 1.2 * FILE_BYTES

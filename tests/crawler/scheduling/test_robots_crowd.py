"""Large robots.txt files on every host of a domain cost the hosts of others neither memory nor
time, and the end of the crawl does not wait for them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.frontier import robots_budget
from crawler.frontier.crowd_pace import LoopLoad
from crawler.leased_domains import LeasedDomains
from crawler.testing import Reply, html, text
from policies.url import host_of

if TYPE_CHECKING:
    from tests.conftest import World

HOSTS = 60
KB = 100
INTERVAL_S = 0.2
TRAPS = [f"http://h{n}.trap.test/" for n in range(HOSTS)]
PACE = {"delay": 1, "latency_factor": 0}


def large(host: str) -> str:
    """Of few lines, to be parsed fast; another one on each host."""
    lines = "".join(f"Disallow: /{n}{host}{'x' * 2_000}\n" for n in range(KB // 2))
    return f"User-agent: *\nDisallow: /x\n{lines}"


def site(request: Request) -> Reply:
    if request.url.endswith("/robots.txt"):
        return text(large(host_of(request.url)))
    return html("Page", "/a", "/x")


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """For ten files that wait to be parsed and ten that are parsed, half of them of one domain."""
    monkeypatch.setattr(robots_budget, "BYTES_MAX", KB * 1_100)
    monkeypatch.setattr(robots_budget, "UNPARSED_BYTES_MAX", 10 * KB * 1_100)
    monkeypatch.setattr(robots_budget, "UNPARSED_BYTES_OF_DOMAIN_MAX", 5 * KB * 1_100)
    monkeypatch.setattr(robots_budget, "LARGE_BYTES_MAX", 30 * KB * 1_000)
    monkeypatch.setattr(robots_budget, "LARGE_BYTES_OF_DOMAIN_MAX", 15 * KB * 1_000)


@pytest.mark.usefixtures("little_room")
async def test_a_wildcard_domain_waits_for_itself(world: World) -> None:
    most: Counter[str] = Counter()

    def look() -> None:
        assert world.scheduler
        budget = world.scheduler.frontier.budget
        most["unparsed"] = max(most["unparsed"], budget.unparsed_bytes)
        most["parsed"] = max(most["parsed"], budget.large_bytes)
        bodies = {
            id(origin.access.body): len(origin.access.body or b"")
            for host in world.scheduler.frontier.permits
            for origin in world.scheduler.frontier.robots.of(host)
        }
        most["bodies"] = max(most["bodies"], sum(bodies.values()))

    seed = "http://large.victim.test/"
    crawled = await world.crawl(
        site, *TRAPS, seed, politeness=PACE, at={s / 5: look for s in range(1, 1_000)}
    )
    assert len(crawled.urls("visited")) == 2 * (HOSTS + 1)
    assert len(crawled.urls("blocked")) == HOSTS + 1
    assert 0 < most["unparsed"] <= 5 * KB * 1_100 + KB * 1_100
    assert 0 < most["parsed"] <= 15 * KB * 1_000 + 5 * KB * 1_000
    assert most["bodies"] < most["unparsed"] + most["parsed"]
    begun_s = {entry.host: entry.start_s for entry in reversed(crawled.entries(path="/"))}
    start_s = min(entry.start_s for entry in crawled.entries())
    assert begun_s["large.victim.test"] - start_s < 4
    assert max(begun_s.values()) - start_s > 10  # it was tight
    asked = Counter(entry.host for entry in crawled.entries(path="/robots.txt"))
    assert max(asked.values()) <= 2


@pytest.mark.usefixtures("little_room")
async def test_the_end_does_not_wait_for_them(world: World) -> None:
    def stop() -> None:
        assert world.scheduler
        stopped.append(world.clock.monotonic())
        world.scheduler.stop()

    stopped: list[float] = []
    crawled = await world.crawl(site, *TRAPS, politeness=PACE, at={3.0: stop})
    assert world.clock.monotonic() - stopped[0] < 2
    assert len(crawled.urls("queued")) > HOSTS // 2
    again = await world.crawl(site, *TRAPS, politeness=PACE)
    assert len(again.urls("visited")) == 2 * HOSTS
    assert again.urls("queued") == []


async def test_a_host_that_waits_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_budget, "SHARE_OF_DOMAIN", 1e-4)
    reasons: set[str] = set()

    def look() -> None:
        assert world.scheduler
        frontier = world.scheduler.frontier
        for host in frontier.permits:
            move = frontier.waiting.next_move(host)
            if move is not None:
                reasons.add(move.reason.sentence)

    at = {s / 5: look for s in range(1, 100)}
    await world.crawl(site, *TRAPS[:3], politeness=PACE, at=at)
    assert "its robots.txt waits for those of other hosts" in reasons


async def test_while_the_loop_is_late_a_domain_begins_requests_at_intervals(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages, and its robots.txt; hosts of other domains do not wait for them."""

    def late(load: LoopLoad, domains: LeasedDomains) -> None:
        load.domains, load.interval_s = domains, INTERVAL_S

    monkeypatch.setattr(LoopLoad, "__init__", late)
    monkeypatch.setattr(LoopLoad, "passed", lambda *_: None)
    monkeypatch.setattr(LoopLoad, "committed", lambda *_: None)
    victims = [f"http://victim{n}.test/" for n in range(5)]

    def small(request: Request) -> Reply:
        return text("") if request.url.endswith("/robots.txt") else html("Page", "/a", "/b")

    crawled = await world.crawl(small, *TRAPS, *victims, politeness=PACE)
    assert len(crawled.urls("visited")) == 3 * (HOSTS + len(victims))
    kinds = Counter[bool]()
    for robots in (True, False):
        begun_s = sorted(
            entry.start_s
            for entry in crawled.entries()
            if entry.host.endswith("trap.test") and (entry.path == "/robots.txt") is robots
        )
        kinds[robots] = len(begun_s)
        gaps_s = [after - before for before, after in itertools.pairwise(begun_s)]
        assert min(gaps_s) > INTERVAL_S / 2
    assert kinds == {True: HOSTS, False: 3 * HOSTS}
    ends_s = [entry.end_s for entry in crawled.entries() if "victim" in entry.host]
    start_s = min(entry.start_s for entry in crawled.entries())
    assert max(ends_s) - start_s < 5

"""What a large robots.txt asks of the pace counts before the first contact of a resumed crawl,
whatever that contact is for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.testing import Reply, html, redirect, text

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0
DELAY_S = 30.0
FILLING = "Disallow: /not-here\n" * 1_000
DOMAIN = {"per": "domain", "delay": 1, "latency_factor": 0}


@pytest.mark.parametrize("filling", ["", FILLING], ids=["small", "large"])
async def test_the_delay_of_another_origin_of_the_host(world: World, filling: str) -> None:
    def site(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            slow = f"Crawl-delay: {DELAY_S:g}\n" if "slow" in request.url else ""
            return text(f"User-agent: *\n{slow}Disallow: /x\n" + filling)
        return html("ParsedPage")

    await world.crawl(site, "http://slow.of.test/", "http://quick.of.test/", politeness=DOMAIN)
    await world.wait(60)
    seeds = [f"http://quick.of.test/{n}" for n in range(4)]
    again = await world.crawl(site, *seeds, politeness=DOMAIN)
    starts_s = again.at()
    assert len(starts_s) == len(seeds)
    assert all(b - a >= DELAY_S for a, b in itertools.pairwise(starts_s))


@pytest.mark.parametrize("wait_s", [60.0, 3 * DAY_S], ids=["fresh", "expired"])
@pytest.mark.parametrize("filling", ["", FILLING], ids=["small", "large"])
@pytest.mark.parametrize("other", [False, True], ids=["own", "another"])
async def test_the_visit_window(world: World, filling: str, wait_s: float, other: bool) -> None:
    """Also for the robots.txt itself, when it has expired."""
    offset_s = (world.clock.wall() + wait_s) % DAY_S
    start_m, end_m = (int((offset_s + s) % DAY_S // 60) for s in (2 * 3_600, 3 * 3_600))
    window = f"{start_m // 60:02d}{start_m % 60:02d}-{end_m // 60:02d}{end_m % 60:02d}"
    windowed = False

    def site(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            asks = f"Visit-time: {window}\n" if "slow" in request.url and windowed else ""
            return text(f"User-agent: *\nDisallow: /x\n{asks}" + filling)
        return html("ParsedPage")

    windowed = True
    crawl = {"patience": "1d"}
    seeds = ["http://quick.of.test/", "http://slow.of.test/"]
    await world.crawl(site, *seeds, politeness=DOMAIN, crawl=crawl, cap_s=2 * DAY_S)
    left_s = offset_s + 0.0 - world.clock.wall() % DAY_S
    await world.wait(left_s % DAY_S + (wait_s // DAY_S) * DAY_S)
    seed = "http://quick.of.test/a" if other else "http://slow.of.test/a"
    again = await world.crawl(site, seed, politeness=DOMAIN, crawl=crawl, cap_s=2 * DAY_S)
    assert again.at()
    for start_s in again.at():
        minute = (start_s + again.start_s + again.wall_from_s) % DAY_S // 60
        assert (minute - start_m) % 1_440 < (end_m - start_m) % 1_440


async def test_a_delay_counts_where_hosts_take_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given back and held again all the time, among others that lead to their robots.txt."""
    monkeypatch.setattr("crawler.frontier.robots_budget.LARGE_BYTES_MAX", 10 * len(FILLING))

    def site(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            name, _, domain = request.url.split("/")[2].partition(".")
            if name == "lead":
                return redirect(f"http://slow.{domain}/robots.txt")
            slow = f"Crawl-delay: {DELAY_S:g}\n" if name == "slow" else ""
            return text(f"User-agent: *\n{slow}Disallow: /x\n" + FILLING)
        return html("ParsedPage", "/a", "/b", "/x")

    names = ("slow", "quick", "lead")
    seeds = [f"http://{name}.of{n}.test/" for n in range(8) for name in names]
    for path in ("", "c", "d"):
        crawled = await world.crawl(site, *(seed + path for seed in seeds), politeness=DOMAIN)
        for n in range(8):
            slow_from_s: float | None = None if not path else 0.0
            last_s = None
            for entry in crawled.entries():
                if not entry.host.endswith(f".of{n}.test"):
                    continue
                if slow_from_s is not None and last_s is not None:
                    assert entry.start_s - last_s >= DELAY_S - 1e-6
                if entry.host == f"slow.of{n}.test":
                    slow_from_s = entry.end_s
                last_s = entry.end_s
        assert len(crawled.urls("queued")) == 0
        await world.wait(60)

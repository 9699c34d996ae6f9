"""Judging many URLs by one robots.txt lets the rest of the program run in between, however long a
verdict takes."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.testing import Reply, html, text
from policies.robots.agent_rules import AgentRules

if TYPE_CHECKING:
    from crawler.testing import JumpClock
    from tests.conftest import World

VERDICT_S = 0.004  # what the slowest may take
STREAK_MAX = 4  # of them without a pass of the event loop: 10 ms, and the one that goes beyond
URLS = 600
QUICK = {"delay": 0.01, "latency_factor": 0}


class Judge:
    """Makes each verdict take its time, and counts those between two passes of the event loop."""

    def __init__(self, clock: JumpClock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = self.streak = self.longest = 0
        allowed = AgentRules.allowed

        def judged(reading: AgentRules, path: str) -> bool:
            self.total += 1
            self.streak += 1
            self.longest = max(self.longest, self.streak)
            asyncio.get_running_loop().call_soon(self.pass_by)
            clock._now_s += VERDICT_S
            return allowed(reading, path)

        monkeypatch.setattr(AgentRules, "allowed", judged)

    def pass_by(self) -> None:
        self.streak = 0


async def test_blocked_urls_of_one_permit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cost no contact, so one permit goes through up to 256 of them."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /p")
        return html("Home", *(f"/p{n}" for n in range(URLS)))

    judge = Judge(world.clock, monkeypatch)
    crawled = await world.crawl(answers, "http://a.test/", politeness=QUICK)
    assert len(crawled.urls("blocked")) == URLS
    assert judge.total > URLS
    assert judge.longest <= STREAK_MAX


@pytest.mark.parametrize("at_first", ["unreachable", "forbids"])
async def test_urls_judged_again_by_another_file(
    world: World, monkeypatch: pytest.MonkeyPatch, at_first: str
) -> None:
    """Pages that were visited while there was no file are withdrawn; what was blocked is freed."""
    tries = itertools.count()

    def answers(request: Request) -> Reply:
        if "//b.test" in request.url:  # keeps it crawling
            return text("", status=404) if "robots" in request.url else html("B", "/1", "/2", "/3")
        if not request.url.endswith("/robots.txt"):
            home = request.url == "http://a.test/"
            return html("Home", *(f"/p{n}" for n in range(URLS if home else 0)))
        if next(tries):
            return text(f"User-agent: *\nDisallow: /{'p' if at_first == 'unreachable' else 'q'}")
        return (
            text("", status=503)
            if at_first == "unreachable"
            else text("User-agent: *\nDisallow: /p")
        )

    if at_first == "unreachable":
        judge = Judge(world.clock, monkeypatch)
        crawled = await world.crawl(answers, "http://a.test/", "http://b.test/", politeness=QUICK)
        assert len(crawled.urls("blocked")) == URLS
    else:
        await world.crawl(answers, "http://a.test/", politeness=QUICK)
        await world.wait(25 * 3600)
        judge = Judge(world.clock, monkeypatch)
        crawled = await world.crawl(answers, "http://a.test/", politeness=QUICK)
        assert not crawled.urls("blocked")
    assert judge.total >= URLS
    assert judge.longest <= STREAK_MAX

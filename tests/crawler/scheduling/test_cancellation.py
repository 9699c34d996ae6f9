"""Crawls that are cancelled, stopped and killed at any instant, again and again, and then finished:
law 5 (nothing is lost, little is repeated), and laws 1 and 6 over all of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from crawler.fetching.request import Request
from crawler.frontier.commit_buffer import COMMIT_AFTER_S
from crawler.testing import LoggedRequest, Reply, html, not_found, redirect, text
from policies.retries import FailureCode

if TYPE_CHECKING:
    from tests.conftest import Crawled, World

DELAY_S = 0.5
FLOAT_S = 1e-6  # the clock counts in floats
HOSTS = [f"http://h{n}.test" for n in range(6)]
PAGES = 12
ENDS = ("leave", "kill", "stop")


class Web:
    """Six hosts with all that can happen: slow pages, pages that fail before they come, refusals, a
    robots.txt that is elsewhere, or late, or forbids, and a host that nobody can connect to."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Reply | FailureCode:
        url = request.url
        self.asked[url] += 1
        host, _, path = url.removeprefix("http://").partition("/")
        if host == "dead.test":
            return FailureCode.CONNECT
        if path == "robots.txt":
            return self.robots(host, self.asked[url])
        if path == "shared":
            return text("User-agent: *\nDisallow: /no\n")
        if path == "3" and self.asked[url] == 1:
            return Reply(status=500)
        if path == "4" and self.asked[url] == 1:
            return FailureCode.BODY
        if path == "5" and self.asked[url] == 1 and host == "h3.test":
            return Reply(status=429, headers={"Retry-After": "3"})
        if path == "6":
            return redirect("/moved")
        reply = html(path, *(f"/{n}" for n in range(1, PAGES)), "/no", "http://dead.test/")
        return Reply(body=reply.body, delay_s=0.7 if path == "7" else 0.0)

    def robots(self, host: str, time: int) -> Reply:
        match host:
            case "h0.test":
                return redirect("http://h1.test/shared")
            case "h1.test" if time < 3:
                return text("", status=503)
            case "h1.test" | "h2.test":
                return text("User-agent: *\nDisallow: /no\n")
        return not_found()


VISITED = {f"{host}/{path}" for host in HOSTS for path in ("", *range(1, PAGES), "moved")}
FORBIDDEN = {f"{host}/no" for host in HOSTS[:3]}
OPEN = {f"{host}/no" for host in HOSTS[3:]}


@dataclass
class Life:
    """One run and what there was to show for it when it ended."""

    end: str
    log: list[LoggedRequest]
    ended_s: float
    visited_before: set[str]
    visited: set[str] = field(default_factory=set)


def check(lives: list[Life], finished: Crawled) -> None:
    assert set(finished.urls("visited")) == VISITED | OPEN
    assert set(finished.urls("blocked")) == FORBIDDEN
    assert finished.urls("failed") == ["http://dead.test/"]
    assert finished.urls("queued") == []

    for life in lives:
        asked = [entry for entry in life.log if entry.path not in ("/robots.txt", "/shared")]
        served = [entry for entry in asked if entry.status is not None and entry.status < 429]
        # nothing is asked for again that was answered
        assert max(Counter((entry.host, entry.path) for entry in served).values(), default=1) == 1
        # what is committed as visited is not asked for again
        again = {f"http://{entry.host}{entry.path}" for entry in asked} & life.visited_before
        assert not again
        # and what was answered is committed, but for the last moments before a kill
        grace_s = COMMIT_AFTER_S if life.end == "kill" else 0.0
        for entry in served:
            if entry.end_s < life.ended_s - grace_s - FLOAT_S:
                url = f"http://{entry.host}{entry.path}"
                assert url in life.visited or url in FORBIDDEN, (life.end, url)

    contacts: dict[str, list[LoggedRequest]] = {}
    for life in lives:
        for entry in life.log:
            contacts.setdefault(entry.host, []).append(entry)
    for name, entries in contacts.items():
        for before, after in pairwise(entries):  # laws 1 and 6
            assert after.start_s - before.end_s >= DELAY_S - FLOAT_S, name


@pytest.mark.parametrize("seed", range(16))
async def test_law_5_whenever_it_is_cut_short_nothing_is_lost_and_little_repeated(
    world: World, seed: int
) -> None:
    """Every page is visited in the end; none is asked for again that was committed; and whoever
    leaves in haste, rather than dying, commits all that was answered. No host is contacted early,
    in one life or from one to the next."""
    dice = random.Random(seed)
    web = Web()
    settings: dict[str, Any] = {
        "politeness": {
            "delay": DELAY_S,
            "latency_factor": 0,
            "concurrency_per_host": 1,
        },
        "scope": {"follow": "any"},
        "fetch": {"unreachable_for": "12s"},
        "crawl": {"concurrency": dice.choice([1, 3, 50])},
    }
    lives: list[Life] = []
    seeds = [f"{host}/" for host in HOSTS]
    before: set[str] = set()

    def stop() -> None:
        assert world.scheduler
        world.scheduler.stop()

    acts = {"leave": world.leave, "kill": world.kill, "stop": stop}
    for _ in range(dice.randrange(3, 9)):
        end = dice.choice(ENDS)
        world.medium.slow_s = dice.choice([0.0, 0.0, 0.004])
        crawled = await world.crawl(web, *seeds, at={dice.uniform(0, 4): acts[end]}, **settings)
        slow_s = 4 * crawled.medium.slow_s
        ended_s = crawled.start_s + crawled.elapsed_s - slow_s
        visited = set(crawled.urls("visited"))
        lives.append(Life(end, list(crawled.log), ended_s, before, visited))
        before = visited
        await world.wait(dice.choice([0, 0.1, 1]))
    finished = await world.crawl(web, **settings)
    visited = set(finished.urls("visited"))
    ended_s = finished.start_s + finished.elapsed_s
    lives.append(Life("end", list(finished.log), ended_s, before, visited))
    check(lives, finished)

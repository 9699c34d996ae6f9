"""A crawl that lives on (the daemon): idle when nothing can move, awake when something can."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.frontier.host_queue import HostQueue
from crawler.operator_commands import AddSeeds, CrawlState, RetryFailed
from crawler.testing import Answers, Reply, html, not_found, text
from policies.retries import FailureCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import World

DAY_S = 86_400.0
BOT = "testbot/1.0 (+https://a.test/bot)"


def stop(world: World) -> Callable[[], None]:
    return lambda: world.control.stop()  # noqa: PLW0108 - there is none yet


@pytest.mark.usefixtures("looks_hourly")
async def test_it_waits_for_seeds_and_takes_them_at_once(world: World) -> None:
    """Issue 7: when the frontier is empty it stays up and waits for seeds."""
    states: list[CrawlState] = []

    def look() -> None:
        states.append(world.control.state)

    crawled = await world.crawl(
        {"http://a.test/": html("A"), "http://b.test/": html("B")},
        forever=True,
        at={
            1.0: look,
            2 * DAY_S: lambda: world.do(world.control.execute(AddSeeds(urls=("http://a.test/",)))),
            2 * DAY_S + 0.5: look,
            3 * DAY_S: look,
            4 * DAY_S: lambda: world.do(world.control.execute(AddSeeds(urls=("http://b.test/",)))),
            5 * DAY_S: stop(world),
        },
        crawl={"user_agent": BOT},
    )
    assert states == [CrawlState.IDLE, CrawlState.RUNNING, CrawlState.IDLE]
    assert crawled.at("a.test", "/")[0] == pytest.approx(2 * DAY_S + 1.05, abs=0.01)
    assert crawled.at("b.test", "/")[0] == pytest.approx(4 * DAY_S + 1.05, abs=0.01)
    assert crawled.elapsed_s == pytest.approx(5 * DAY_S, abs=1)


async def test_waiting_costs_nothing(world: World) -> None:
    """Law 7: a crawl that has nothing to do looks about once a minute, not more."""
    crawled = await world.crawl(
        {"http://a.test/": html("A")}, "http://a.test/", forever=True, at={DAY_S / 2: stop(world)}
    )
    assert crawled.medium.calls.total() < 3 * DAY_S / 2 / 60


@pytest.mark.usefixtures("looks_hourly")
async def test_no_patience_ends_it_and_a_closed_origin_is_tried_on(world: World) -> None:
    """A robots.txt that cannot be had is asked for on its clock, for days, until it comes."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            late = world.clock.elapsed_s > 2 * DAY_S
            return text("User-agent: *\n") if late else text("", status=503)
        return html("ParsedPage")

    crawled = await world.crawl(
        answers,
        "http://a.test/",
        forever=True,
        at={4 * DAY_S: stop(world)},
        robots={"dialect": "rfc9309"},
        crawl={"patience": "1s"},
    )
    assert crawled.urls("visited") == ["http://a.test/"]
    assert len(crawled.at("a.test", "/robots.txt")) > 8
    assert crawled.at("a.test", "/")[0] > 2 * DAY_S


@pytest.mark.usefixtures("looks_hourly")
async def test_a_host_with_nothing_but_blocked_urls_keeps_its_robots_clock(world: World) -> None:
    """Its robots.txt is asked for every 24 h, every 6 h while it cannot be reached, and what it
    lets go is visited."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("robots.txt"):
            if 0.9 * DAY_S < world.clock.elapsed_s < 1.6 * DAY_S:
                return FailureCode.CONNECT
            open_ = world.clock.elapsed_s > 2.5 * DAY_S
            return text("User-agent: *\n" if open_ else "User-agent: *\nDisallow: /\n")
        return html("ParsedPage")

    crawled = await world.crawl(
        answers, "http://a.test/", forever=True, at={5 * DAY_S: stop(world)}
    )
    asked = crawled.at("a.test", "/robots.txt")
    due = [days * DAY_S for days in (0, 1, 1.25, 1.5, 1.75, 2.75)]
    assert asked[:6] == pytest.approx(due, abs=300)
    assert crawled.urls("visited") == ["http://a.test/"]
    assert crawled.at("a.test", "/")[0] == pytest.approx(2.75 * DAY_S, abs=300)


@pytest.mark.usefixtures("looks_hourly")
async def test_what_was_given_up_is_tried_again_when_failures_are_revived(world: World) -> None:
    """`courtly retry failed` on a crawl that lives: the dead host's URLs move again at once."""
    queued: list[int] = []

    async def retry() -> None:
        queued.append((await world.control.execute(RetryFailed())).retried)

    def answers(request: Request) -> Reply | FailureCode:
        if world.clock.elapsed_s < DAY_S:
            return FailureCode.DNS
        return not_found() if request.url.endswith("robots.txt") else html("ParsedPage")

    crawled = await world.crawl(
        answers,
        *("http://a.test/1", "http://a.test/2"),
        forever=True,
        fetch={"unreachable_for": 0},
        at={DAY_S: lambda: world.do(retry()), 2 * DAY_S: stop(world)},
    )
    assert queued == [2]
    assert crawled.urls("visited") == ["http://a.test/1", "http://a.test/2"]
    assert max(crawled.at("a.test")) < DAY_S + 60


async def test_max_pages_ends_the_pages_and_not_the_crawl(world: World) -> None:
    states: list[CrawlState] = []
    answers: Answers = {f"http://a.test/{n}": html(str(n)) for n in range(5)}
    crawled = await world.crawl(
        answers,
        *(f"http://a.test/{n}" for n in range(5)),
        forever=True,
        crawl={"max_pages": 2},
        at={1000.0: lambda: states.append(world.control.state), 2000.0: stop(world)},
    )
    assert states == [CrawlState.IDLE]
    assert len(crawled.urls("visited")) == 2
    assert len(crawled.urls("queued")) == 3
    assert crawled.elapsed_s == pytest.approx(2000, abs=1)


async def test_it_stops_at_once_when_idle_and_gives_its_hosts_back(world: World) -> None:
    crawled = await world.crawl(
        {"http://a.test/": html("A")}, "http://a.test/", forever=True, at={100.0: stop(world)}
    )
    assert crawled.elapsed_s == pytest.approx(100, abs=0.01)
    await world.store.open_session("next")
    lease = (await world.store.acquire(world.session + 1, ["a.test"]))["a.test"]
    assert lease.clean


@pytest.mark.usefixtures("looks_hourly")
async def test_a_retry_falls_due_while_it_is_idle(world: World) -> None:
    replies = {"n": 0}

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return not_found()
        replies["n"] += 1
        return Reply(status=500) if replies["n"] < 3 else html("ParsedPage")

    crawled = await world.crawl(
        answers, "http://a.test/", forever=True, at={DAY_S: stop(world)}, fetch={"max_attempts": 5}
    )
    assert crawled.urls("visited") == ["http://a.test/"]


async def test_months_of_hosts_that_come_and_go_leave_nothing_in_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 7: dead hosts, retries and hosts given back do not gather, nor do their timers."""
    monkeypatch.setattr("crawler.scheduling.host_leases.HOSTS_LEASED_MAX", 8)
    monkeypatch.setattr("crawler.scheduling.host_leases.CLAIM_HOSTS", 8)
    alive: list[int] = []
    timers: list[int] = []

    def answers(request: Request) -> Reply | FailureCode:
        number = int(request.url.partition("//h")[2].partition(".")[0])
        if number % 3 == 0:
            return FailureCode.CONNECT
        if request.url.endswith("robots.txt"):
            return not_found()
        return Reply(status=500) if number % 3 == 1 else html("ParsedPage")

    def look() -> None:
        gc.collect()
        alive.append(sum(isinstance(one, HostQueue) for one in gc.get_objects()))
        timers.append(sum(1 for _, _, timer in world.clock._timers if timer.callback))

    def more(day: int) -> Callable[[], None]:
        seeds = [f"http://h{day * 20 + n}.test/" for n in range(20)]
        return lambda: world.do(world.control.execute(AddSeeds(urls=tuple(seeds))))

    days = 4
    before = sum(isinstance(one, HostQueue) for one in gc.get_objects())
    await world.crawl(
        answers,
        forever=True,
        crawl={"user_agent": BOT, "concurrency": 4},
        fetch={"unreachable_for": "12s"},
        at={
            **{day * DAY_S + 10: more(day) for day in range(days)},
            **{day * DAY_S + DAY_S - 1: look for day in range(days)},
            days * DAY_S: stop(world),
        },
    )
    assert max(alive) - before <= 8 + 8  # those held, and the last of each worker
    assert timers == sorted(timers, reverse=True)  # those of this test, which grow fewer

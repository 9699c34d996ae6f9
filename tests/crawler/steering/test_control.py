"""Commands to a running crawl take effect immediately, and no contact is early (law 1)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.reasons import PAUSED
from crawler.operator_commands import (
    SLOW_S_MAX,
    AddSeeds,
    CrawlState,
    PauseCrawl,
    PauseHosts,
    ResumeCrawl,
    ResumeHosts,
    SlowHosts,
    UnknownHost,
)
from crawler.steering.live_state import HostState
from crawler.testing import Answers, FakeFetcher, Reply, html, not_found, redirect, text
from policies.retries import FailureCode
from storage.store import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import World

ANSWERS: Answers = {f"http://a.test/{n}": html(str(n)) for n in range(1, 9)} | {
    f"http://b.test/{n}": html(str(n)) for n in range(1, 9)
}
A = [f"http://a.test/{n}" for n in range(1, 9)]
B = [f"http://b.test/{n}" for n in range(1, 9)]


BOT = "testbot/1.0 (+https://a.test/bot)"


def stop(world: World) -> Callable[[], None]:
    """Stop the crawl that is running then."""
    return lambda: world.control.stop()  # noqa: PLW0108 - there is none yet


def rests(times: list[float], latency_s: float = 0.05) -> list[float]:
    """From the end of each contact to the beginning of the next."""
    return [later - earlier - latency_s for earlier, later in itertools.pairwise(times)]


# ---------------------------------------------------------------- the whole crawl


async def test_a_paused_crawl_begins_no_contact_robots_txt_included(world: World) -> None:
    """Requests in flight end; none begins until the crawl is resumed, however long that is,
    and `crawl.patience` does not end it."""
    seen: list[CrawlState] = []
    crawled = await world.crawl(
        {**ANSWERS, "http://a.test/1": html("A", "http://late.test/")},
        *A,
        *B,
        at={
            1.1: lambda: world.do(world.control.execute(PauseCrawl())),
            2.0: lambda: seen.append(world.control.state),
            2.1: lambda: world.do(world.control.execute(AddSeeds(urls=("http://new.test/",)))),
            5000.0: lambda: world.do(world.control.execute(ResumeCrawl())),
            5000.2: lambda: seen.append(world.control.state),
        },
        scope={"follow": "any"},
        crawl={"user_agent": BOT},
    )
    times = crawled.at()
    assert [t for t in times if 1.1 < t < 5000.0] == []
    assert seen == [CrawlState.PAUSED, CrawlState.RUNNING]
    assert "http://new.test/robots.txt" in [f"http://{e.host}{e.path}" for e in crawled.entries()]
    assert not crawled.rows["queued"]


async def test_a_paused_crawl_can_be_stopped(world: World) -> None:
    crawled = await world.crawl(
        ANSWERS,
        *A,
        at={
            1.5: lambda: world.do(world.control.execute(PauseCrawl())),
            100.0: stop(world),
        },
    )
    assert crawled.elapsed_s == pytest.approx(100, abs=1)
    assert crawled.rows["queued"]


async def test_the_robots_txt_of_a_paused_crawl_waits_on_every_hop(world: World) -> None:
    """A redirect of robots.txt is a contact as well."""

    def answers(request: Request) -> Reply:
        match request.url:
            case "http://a.test/robots.txt":
                return redirect("http://b.test/shared.txt")
            case "http://b.test/shared.txt":
                return text("User-agent: *\nDisallow: /no\n")
        return html("Page")

    crawled = await world.crawl(
        answers,
        "http://a.test/",
        at={
            0.02: lambda: world.do(world.control.execute(PauseCrawl())),
            900.0: lambda: world.do(world.control.execute(ResumeCrawl())),
        },
    )
    assert crawled.at("a.test") == pytest.approx([0.0, 900.05 + 1e-9], abs=2)
    assert crawled.at("b.test")[0] >= 900.0


# ---------------------------------------------------------------- one host


async def test_a_paused_host_is_not_contacted_while_others_are(world: World) -> None:
    crawled = await world.crawl(
        ANSWERS,
        *A,
        *B,
        at={
            2.0: lambda: world.do(world.control.execute(PauseHosts(host="a.test"))),
            300.0: lambda: world.do(world.control.execute(ResumeHosts(host="a.test"))),
        },
    )
    paused = [t for t in crawled.at("a.test") if 2.0 <= t < 300.0]
    assert paused == []
    assert max(crawled.at("b.test")) < 12
    assert len(crawled.urls("visited")) == 16
    assert min(rests(crawled.at("a.test"))) >= 1.0 - 1e-9


async def test_a_pause_is_durable_before_it_is_said_to_be_so(world: World) -> None:
    """After kill -9, the restarted crawl still does not contact the host, and says why."""

    async def pause_and_die() -> None:
        await world.control.execute(PauseHosts(host="a.test"))
        world.kill()

    await world.crawl(ANSWERS, *A, *B, at={2.0: lambda: world.do(pause_and_die())})
    again = await world.crawl(ANSWERS, crawl={"patience": "1m"})
    assert again.at("a.test") == []
    assert len(again.urls("visited")) >= 8
    (row,) = [row for row in again.rows["hosts"] if row["host"] == "a.test"]
    assert row["paused"] == 1


async def test_a_robots_redirect_to_a_paused_host_waits(world: World) -> None:
    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/robots.txt":
            return redirect("http://b.test/shared.txt")
        if request.url.endswith(".txt"):
            return not_found()
        return html("Page")

    crawled = await world.crawl(
        answers,
        "http://a.test/",
        "http://b.test/",
        at={
            0.06: lambda: world.do(world.control.execute(PauseHosts(host="b.test"))),
            200.0: lambda: world.do(world.control.execute(ResumeHosts(host="b.test"))),
        },
    )
    assert [t for t in crawled.at("b.test") if 0.06 <= t < 200.0] == []
    assert crawled.urls("visited") == ["http://a.test/", "http://b.test/"]


class Away(FakeFetcher):
    """Connections to a.test are refused until that time of the clock."""

    until_s = 0.0

    async def fetch(self, request: Request) -> Answer | Failure:
        now_s = self._clock.monotonic()
        if now_s >= self.until_s or not request.url.startswith("http://a.test/"):
            return await super().fetch(request)
        return Failure(
            url=request.url,
            code=FailureCode.CONNECT,
            sentence="refused",
            connected=False,
            permanent=False,
            started_s=now_s,
            ended_s=now_s,
        )


@pytest.mark.parametrize("named", [True, False])
async def test_a_host_that_is_resumed_is_connected_to_without_waiting(
    world: World, named: bool
) -> None:
    """Otherwise, its next attempt would be minutes away."""
    away = Away(world.clock, ANSWERS)
    began_s = world.clock.monotonic()
    away.until_s = began_s + 600.0
    host = "a.test" if named else "b.test"
    crawled = await world.crawl(
        {},
        *A,
        *B,
        fetcher=away,
        crawl={"patience": "1h"},
        at={600.5: lambda: world.do(world.control.execute(ResumeHosts(host=host)))},
    )
    (row,) = [row for row in crawled.rows["hosts"] if row["host"] == "a.test"]
    assert row["visited"] == 8
    assert row["breaches"] == 0
    assert (min(crawled.at("a.test")) < 603) is named


async def test_slowing_counts_from_the_end_of_the_contact_before(world: World) -> None:
    """The current delay is lengthened or shortened, not restarted."""
    crawled = await world.crawl(
        ANSWERS,
        *A,
        at={
            # contacts at 0 (robots.txt), 1.05, 2.10, ...
            2.5: lambda: world.do(world.control.execute(SlowHosts(host="a.test", delay_s=30.0))),
            50.0: lambda: world.do(world.control.execute(ResumeHosts(host="a.test"))),
        },
    )
    times = crawled.at("a.test")
    assert times[:5] == pytest.approx([0, 1.05, 2.1, 32.15, 50.0], abs=0.01)
    assert rests(times[4:]) == pytest.approx([1.0] * 4)
    (row,) = crawled.rows["hosts"]
    assert row["slow_s"] is None
    assert row["breaches"] == 0


async def test_a_slowed_host_is_reported_and_a_longer_delay_stands(world: World) -> None:
    said: list[tuple[float, str]] = []

    def look() -> None:
        now = world.control.host_now("a.test")
        assert now
        said.append((now.delay_s, now.delay_source))

    async def slow(delay_s: float) -> None:
        await world.control.execute(SlowHosts(host="a.test", delay_s=delay_s))
        look()

    crawled = await world.crawl(
        ANSWERS,
        *A,
        at={2.0: lambda: world.do(slow(0.1)), 3.0: lambda: world.do(slow(7.0))},
    )
    assert said == [(1.0, "politeness.delay"), (7.0, "slowed manually")]
    (row,) = crawled.rows["hosts"]
    assert (row["delay_s"], row["delay_source"], row["slow_s"]) == (7.0, "slowed manually", 7.0)


async def test_a_host_on_disk_can_be_paused_and_slowed(world: World) -> None:
    """The next lease has the new settings, and a resumed host is claimed again."""
    await world.store.open_session("hand")
    await world.store.add([Link(url=B[0], slot="b.test", host="b.test", depth=0, seed=True)])
    assert await world.store.set_controls(["b.test"], paused=True)
    crawled = await world.crawl(
        ANSWERS,
        *A,
        forever=True,
        at={
            500.0: lambda: world.do(world.control.execute(ResumeHosts(host="b.test"))),
            600.0: stop(world),
        },
    )
    assert crawled.at("b.test")[0] == pytest.approx(500.0)
    assert B[0] in crawled.urls("visited")


async def test_an_unknown_host_is_refused(world: World) -> None:
    refused: list[str] = []

    async def steer() -> None:
        for deed in (
            world.control.execute(PauseHosts(host="nobody.test")),
            world.control.execute(ResumeHosts(host="nobody.test")),
            world.control.execute(SlowHosts(host="nobody.test", delay_s=3.0)),
        ):
            with pytest.raises(UnknownHost) as caught:
                await deed
            refused.append(caught.value.host)

    await world.crawl(ANSWERS, *A[:2], at={1.5: lambda: world.do(steer())})
    assert refused == ["nobody.test"] * 3


@pytest.mark.parametrize("delay_s", [-1.0, math.nan, math.inf, SLOW_S_MAX + 1])
async def test_an_invalid_delay_is_refused(world: World, delay_s: float) -> None:
    async def slow() -> None:
        with pytest.raises(ValueError, match="delay_s: must be 0 to"):
            await world.control.execute(SlowHosts(host="a.test", delay_s=delay_s))

    crawled = await world.crawl(ANSWERS, *A[:2], at={1.5: lambda: world.do(slow())})
    assert [row["slow_s"] for row in crawled.rows["hosts"]] == [None]


async def test_commands_on_one_host_run_in_their_order(world: World) -> None:
    def many() -> None:
        world.do(world.control.execute(PauseHosts(host="a.test")))
        world.do(world.control.execute(SlowHosts(host="a.test", delay_s=9.0)))
        world.do(world.control.execute(ResumeHosts(host="a.test")))
        world.do(world.control.execute(SlowHosts(host="a.test", delay_s=3.0)))

    world.medium.slow_s = 0.02
    crawled = await world.crawl(ANSWERS, *A, at={2.0: many})
    assert len(crawled.urls("visited")) == 8
    (row,) = crawled.rows["hosts"]
    assert (row["paused"], row["slow_s"]) == (0, 3.0)


async def test_a_command_whose_asker_is_gone_is_done_to_its_end(world: World) -> None:
    """The store and the host in memory must not diverge."""

    async def give_up() -> None:
        tasks = [
            asyncio.create_task(world.control.execute(PauseHosts(host="a.test"))),
            asyncio.create_task(world.control.execute(SlowHosts(host="a.test", delay_s=4.0))),
            asyncio.create_task(world.control.execute(ResumeHosts(host="a.test"))),
            asyncio.create_task(world.control.execute(SlowHosts(host="b.test", delay_s=6.0))),
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError)
            for one in await asyncio.gather(*tasks, return_exceptions=True)
        )

    world.medium.slow_s = 0.02
    crawled = await world.crawl(ANSWERS, *A, *B, at={2.0: lambda: world.do(give_up())})
    assert len(crawled.urls("visited")) == 16
    rows = {str(row["host"]): row for row in crawled.rows["hosts"]}
    assert (rows["a.test"]["paused"], rows["a.test"]["slow_s"]) == (0, None)
    assert rows["b.test"]["slow_s"] == 6.0
    assert rests(crawled.at("b.test"))[-3:] == pytest.approx([6.0] * 3, abs=0.01)


async def test_a_cancelled_crawl_leaves_no_command_open(world: World) -> None:
    async def pause() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await world.control.execute(PauseHosts(host="a.test"))

    world.medium.slow_s = 0.5
    await world.crawl(ANSWERS, *A, at={2.0: lambda: world.do(pause()), 2.1: world.leave})
    again = await world.crawl(ANSWERS, crawl={"patience": "1m"})
    assert again.at("a.test") == []


# ---------------------------------------------------------------- what it says


async def test_held_hosts_say_what_they_do_and_why_they_wait(world: World) -> None:
    said: dict[str, tuple[HostState, str]] = {}

    def look() -> None:
        for host in ("a.test", "b.test", "c.test"):
            now = world.control.host_now(host)
            assert now
            said[host] = (now.state, now.reason)
        assert world.control.wait_reason("a.test") == said["a.test"][1]

    def answers(request: Request) -> Reply:
        if request.url == "http://c.test/robots.txt":
            return text("", status=503)
        return not_found() if request.url.endswith("robots.txt") else html("Page")

    await world.crawl(
        answers,
        *("http://a.test/1", "http://a.test/2", "http://b.test/1", "http://b.test/2"),
        "http://c.test/",
        at={
            1.0: lambda: world.do(world.control.execute(PauseHosts(host="b.test"))),
            1.5: look,
            2.0: world.leave,
        },
        robots={"dialect": "rfc9309"},
    )
    assert said["a.test"] == (HostState.WAITING, "politeness delay of 1 s (politeness.delay)")
    assert said["b.test"] == (HostState.PAUSED, PAUSED.sentence)
    assert said["c.test"][0] is HostState.CLOSED


async def test_a_host_on_disk_is_explained_from_its_row(world: World) -> None:
    said: list[str] = []

    async def look() -> None:
        rows = {str(row["host"]): row async for row in world.store.reader.iterate("hosts")}
        said.append(world.control.wait_reason("a.test", rows["a.test"]))
        said.append(world.control.wait_reason("b.test", rows["b.test"]))
        said.append(world.control.wait_reason("nobody.test"))

    await world.store.open_session("hand")
    await world.crawl(
        ANSWERS,
        *("http://a.test/1", "http://a.test/2", "http://b.test/1"),
        scope={"max_pages_per_host": 1},
        at={
            0.0: lambda: world.do(world.control.execute(PauseHosts(host="b.test"))),
            10.0: lambda: world.do(look()),
        },
        crawl={"patience": "1m"},
    )
    assert said == ["scope.max_pages_per_host has been reached", PAUSED.sentence, ""]


async def test_the_status_counts_requests_in_flight(world: World) -> None:
    seen = []
    crawled = await world.crawl(
        ANSWERS, *A, *B, at={1.07: lambda: seen.append(world.control.status())}
    )
    (status,) = seen
    assert status.state is CrawlState.RUNNING
    assert status.in_flight == 2
    assert sorted(one.url for one in status.fetching) == ["http://a.test/1", "http://b.test/1"]
    assert all(0 < one.since_s < 0.05 for one in status.fetching)
    assert status.hosts_by_state == {HostState.IN_FLIGHT: 2}
    assert status.hosts_held == 2
    assert status.uptime_s == pytest.approx(1.07)
    assert status.memory_bytes is None or status.memory_bytes > 10_000_000
    after = world.control.status()
    assert after.state is CrawlState.STOPPING
    assert world.scheduler.committer.rates.pages == 16 == len(crawled.urls("visited"))


# ---------------------------------------------------------------- seeds


async def test_seeds_widen_the_scope_of_a_running_crawl(world: World) -> None:
    added = []

    async def add() -> None:
        added.append(
            await world.control.execute(
                AddSeeds(
                    urls=(
                        "http://B.test/1#x",
                        "http://a.test/1",
                        "ftp://c.test/",
                        "b.test",
                        "http://b.test/1",
                    ),
                    priority=5.0,
                )
            )
        )

    answers = {
        "http://a.test/1": html("A", "http://b.test/2"),
        "http://a.test/2": html("A2"),
        "http://b.test/1": html("B", "http://b.test/2"),
        "http://b.test/2": html("B2"),
    }
    crawled = await world.crawl(
        answers,
        *("http://a.test/1", "http://a.test/2"),
        at={1.5: lambda: world.do(add())},
        crawl={"user_agent": BOT},
    )
    (result,) = added
    assert (result.added, result.known) == (1, 2)  # one of them was given twice
    assert [one.url for one in result.refused] == ["ftp://c.test/", "b.test"]
    assert all(one.reason for one in result.refused)
    assert crawled.urls("visited") == sorted(answers)
    assert crawled.rows["skipped"] == [{"reason": "outside-scope", "count": 1}]


async def test_a_seed_claimed_before_it_is_announced_is_in_scope(
    world: World,
) -> None:
    async def slowly(*_: object, **__: object) -> None:
        await world.wait(5.0)

    def seed() -> None:
        world.medium.after["add"] = slowly
        world.do(world.control.execute(AddSeeds(urls=("http://b.test/1",))))

    seeds = [f"http://a.test/{n}" for n in range(20)]
    answers = {url: html("Page") for url in (*seeds, "http://b.test/1")}
    crawled = await world.crawl(answers, *seeds, at={2.0: seed}, crawl={"user_agent": BOT})
    assert "http://b.test/1" in crawled.urls("visited")
    assert not crawled.rows["skipped"]


async def test_a_seed_beyond_loopback_is_refused_without_a_contact(world: World) -> None:
    """Law 10: the other seeds are queued."""
    added = []

    async def add() -> None:
        added.append(
            await world.control.execute(
                AddSeeds(
                    urls=(
                        "http://example.com/",
                        "http://localhost:1/",
                    )
                )
            )
        )

    await world.crawl(
        {},
        "http://a.test/",
        network={"resolve": {"*.test": "127.0.0.1"}},
        at={0.5: lambda: world.do(add())},
    )
    (result,) = added
    assert result.added == 1
    assert "crawl.user_agent" in result.refused[0].reason


async def test_an_invalid_priority_is_refused(world: World) -> None:
    async def add() -> None:
        with pytest.raises(ValueError, match="finite"):
            await world.control.execute(AddSeeds(urls=("http://a.test/9",), priority=math.nan))

    crawled = await world.crawl({}, "http://a.test/", at={0.5: lambda: world.do(add())})
    assert crawled.log.paths() == ["/robots.txt", "/"]

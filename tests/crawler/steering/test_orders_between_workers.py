"""What is done to one worker of a shared crawl, all obey; each reads its own config."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from crawler.config import Config, ConfigError, from_dict
from crawler.fetching.request import Request
from crawler.operator_commands import (
    AddSeeds,
    PauseCrawl,
    PauseHosts,
    Reload,
    ResumeCrawl,
    ResumeHosts,
    RetryFailed,
    SlowHosts,
)
from crawler.testing import JumpClock, Reply, html, not_found
from policies.retries import FailureCode
from policies.url import path_of
from storage.store import Order
from tests.crawler.scheduling.shared_rig import AGENT, SharedWorld

PAGES = 60


@pytest.fixture
async def shared() -> AsyncIterator[SharedWorld]:
    async with JumpClock() as clock:
        yield SharedWorld(clock)


def sites(request: Request) -> Reply:
    if path_of(request.url) == "/robots.txt":
        return not_found()
    return html("Page", *(f"/{n}" for n in range(PAGES)))


SEEDS = [f"http://h{n}.test/0" for n in range(6)]


async def test_a_pause_stops_all_within_a_second_and_so_does_its_end(shared: SharedWorld) -> None:
    first, second = await shared.begin(sites, *SEEDS)
    await shared.wait(5)
    await first.control.execute(PauseCrawl())
    await shared.wait(1.1)
    assert second.control.state == "paused"
    count = len(shared.requests)
    await shared.wait(60)
    assert len(shared.requests) == count
    await second.control.execute(ResumeCrawl())
    await shared.wait(1.1)
    assert first.control.state == "running"
    await shared.wait(10)
    assert len(shared.requests) > count
    await shared.end()


async def test_a_pause_is_not_undone_by_a_pulse_that_was_on_its_way(shared: SharedWorld) -> None:
    first, _ = await shared.begin(sites, *SEEDS)
    for worker in shared.workers:
        worker.store.slow_s = 0.4
    await shared.wait(5)
    for n in range(8):
        await first.control.execute(PauseCrawl())
        await shared.wait(0.1 * n)
        assert first.control.state == "paused"
        await first.control.execute(ResumeCrawl())
        await shared.wait(0.1 * n)
        assert first.control.state != "paused"
    await shared.end()


async def test_a_worker_that_joins_a_paused_crawl_is_paused(shared: SharedWorld) -> None:
    (first,) = await shared.begin(sites, *SEEDS, workers=1)
    await shared.wait(5)
    await first.control.execute(PauseCrawl())
    (second,) = await shared.begin(sites, workers=1)
    await shared.wait(30)
    assert second.requests == []
    await first.control.execute(ResumeCrawl())
    await shared.end()


async def test_a_host_of_another_worker_is_paused_and_slowed(shared: SharedWorld) -> None:
    first, second = await shared.begin(sites, *SEEDS)
    await shared.wait(5)
    paused, slowed, *_ = second.hosts
    await first.control.execute(PauseHosts(host=paused))
    await first.control.execute(SlowHosts(host=slowed, delay_s=7.0))
    await shared.wait(1.1)
    from_s = shared.clock.monotonic()
    await shared.wait(40)
    later = [entry for entry in shared.requests if entry.start_s > from_s]
    assert not [entry for entry in later if entry.host == paused]
    starts = [entry.start_s for entry in later if entry.host == slowed]
    assert len(starts) >= 5
    assert all(b - a >= 7.0 for a, b in pairwise(starts))
    await first.control.execute(ResumeHosts(host=paused))
    await first.control.execute(ResumeHosts(host=slowed))
    await shared.end()
    assert len(shared.fetched()) == 6 * PAGES


async def test_seeds_widen_the_scope_of_all(shared: SharedWorld) -> None:
    """New hosts count as in scope for each worker that meets them."""

    def answers(request: Request) -> Reply:
        if path_of(request.url) == "/robots.txt":
            return not_found()
        links = [f"/{n}" for n in range(PAGES)]
        if request.url.startswith("http://new"):
            return html("Page", "/x")
        return html("Page", *links, *(f"http://new{n}.test/y" for n in range(8)))

    first, second = await shared.begin(answers, *SEEDS, forever=True)
    await shared.wait(5)
    added = await first.control.execute(
        AddSeeds(urls=tuple(f"http://new{n}.test/" for n in range(8)))
    )
    assert added.added == 8
    await shared.wait(1.1)
    for worker in (first, second):
        assert worker.control.scope.judge("http://new3.test/z", host="new3.test", depth=1) is None
    await shared.wait(300)
    assert {f"http://new{n}.test/{path}" for n in range(8) for path in ("", "x", "y")} <= {
        *shared.fetched()
    }
    for worker in shared.workers:
        worker.scheduler.stop()
    await shared.end()


async def test_the_end_of_a_seeds_redirects_is_known_to_all_in_time(shared: SharedWorld) -> None:
    """One worker learns where a seed leads. Another one that claims what was found there, a
    moment later, must not take it for out of scope."""

    def answers(request: Request) -> Reply:
        host, path = request.url.split("/")[2], path_of(request.url)
        if path == "/robots.txt":
            return not_found()
        if host == "old.test":
            return Reply(status=301, headers={"Location": "http://www.new.test/"})
        others = [f"http://s{n}.new.test/" for n in range(12)]
        return html("Page", *others, "/1", "/2")

    await shared.begin(answers, "http://old.test/", workers=4, scope={"follow": "domain"})
    await shared.end()
    fetched = shared.fetched()
    assert {f"http://s{n}.new.test/{path}" for n in range(12) for path in ("", "1", "2")} <= {
        *fetched
    }
    assert await shared.memory.rows("skipped") == []


async def test_failures_are_retried_by_whoever_holds_the_host(shared: SharedWorld) -> None:
    down = True

    def answers(request: Request) -> Reply | FailureCode:
        if request.url == "http://h1.test/0" and down:
            return FailureCode.TIMEOUT
        return sites(request)

    first, _ = await shared.begin(
        answers, *SEEDS, forever=True, fetch={"max_attempts": 2}, crawl={"patience": "1h"}
    )
    await shared.wait(1200)
    assert len(await shared.memory.rows("failed")) == 1
    down = False
    assert (await first.control.execute(RetryFailed())).retried == 1
    await shared.wait(200)
    assert await shared.memory.rows("failed") == []
    assert len(shared.fetched()) == 6 * PAGES
    for worker in shared.workers:
        worker.scheduler.stop()
    await shared.end()


class Files:
    """The config files of two machines; one may be broken."""

    def __init__(self, *deliveries: Config | ConfigError) -> None:
        self.deliveries = list(deliveries)
        self.read = 0

    def reload(self) -> Config:
        self.read += 1
        given = self.deliveries[0]
        if isinstance(given, ConfigError):
            raise given
        return given


def config(**sections: Any) -> Config:
    own = {"crawl": {"patience": "10m", "user_agent": AGENT}, "scope": {"sitemap_paths": []}}
    return from_dict({**own, **sections})


async def test_a_reload_has_all_read_their_files_and_a_trial_none(shared: SharedWorld) -> None:
    slow = Files(config(politeness={"delay": 5}))
    first, second = await shared.begin(sites, *SEEDS, source=slow)
    await shared.wait(5)
    await first.control.execute(Reload(dry_run=True))
    await shared.wait(2)
    assert slow.read == 1
    await first.control.execute(Reload())
    await shared.wait(1.1)
    assert slow.read == 3
    assert second.control.config.politeness.delay == 5
    await shared.end()


async def test_a_worker_whose_file_is_refused_keeps_its_config(
    shared: SharedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    (first,) = await shared.begin(
        sites, *SEEDS, workers=1, source=Files(config(politeness={"delay": 5}))
    )
    (second,) = await shared.begin(
        sites, workers=1, source=Files(ConfigError("delay: must be a number"))
    )
    await shared.wait(5)
    await first.control.execute(Reload())
    await shared.wait(2)
    assert second.control.config.politeness.delay == 1
    assert "delay: must be a number" in caplog.text
    await shared.end()
    assert len(shared.fetched()) == 6 * PAGES


async def test_orders_that_make_no_sense_are_left_out(
    shared: SharedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await shared.begin(sites, *SEEDS[:2])
    await shared.wait(2)
    for verb, body in (("dance", {}), ("host", {"slot": 3}), ("host", {"slot": "unknown.test"})):
        await first.store.publish(first.store.number, Order(verb=verb, body=body))
    await shared.wait(2)
    assert "dance" in caplog.text
    assert not second.task.done()
    await shared.end()
    assert len(shared.fetched()) == 2 * PAGES

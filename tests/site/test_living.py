"""A running crawl on a real server: paused, slowed and reloaded, judged by the server's log; and
which of that survives `kill -9`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from crawler.app import OpenCrawl, open_crawl
from crawler.config import ConfigError, from_dict
from crawler.operator_commands import (
    AddSeeds,
    CrawlState,
    PauseCrawl,
    PauseHosts,
    Reload,
    ResumeCrawl,
    ResumeHosts,
    SlowHosts,
    UnknownHost,
)
from crawler.testing import Handler, LocalWeb, Pages, Reply, html
from storage.store import StoreRefused
from tests.conftest import ConfigFrom
from tests.site.commands import executed

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

DELAY_S = 0.1
HOSTS = [f"h{n}.test" for n in range(4)]


def site(pages: int = 400) -> Pages:
    """A long chain of pages: there is always a next one."""
    found: dict[str, Reply | Handler] = {}
    for n in range(pages):
        links = [f"/{m}" for m in (n + 1, n + 2) if m < pages]
        found["/" if n == 0 else f"/{n}"] = html(f"{n}", *links)
    return found


@contextlib.asynccontextmanager
async def running(opened: OpenCrawl) -> AsyncIterator[asyncio.Task[None]]:
    """Run the crawl in a task and stop it at the end of the block."""
    task = asyncio.create_task(opened.run())
    try:
        yield task
    finally:
        opened.control.stop()
        async with asyncio.timeout(20):
            await task


async def contacts(web: LocalWeb, host: str, more: int) -> None:
    """Return after that number of further requests to the host."""
    goal = len(web.log.requests(host)) + more
    async with asyncio.timeout(20):
        while len(web.log.requests(host)) < goal:  # noqa: ASYNC110 - the log has no event
            await asyncio.sleep(0.02)


def gaps(web: LocalWeb, host: str, since_s: float) -> list[float]:
    """Seconds from the end of each contact to the start of the next, as the server saw them."""
    entries = [one for one in web.log.requests(host) if one.start_s >= since_s]
    return [
        later.start_s - (earlier.end_s or earlier.start_s)
        for earlier, later in itertools.pairwise(entries)
    ]


async def test_a_host_is_paused_slowed_and_resumed_while_others_go_on(courtly: Courtly) -> None:
    async with LocalWeb({host: site() for host in HOSTS}) as web:
        config = from_dict(courtly.config(web, politeness={"delay": DELAY_S, "latency_factor": 0}))
        async with (
            open_crawl(
                config, seeds=[web.url(host) for host in HOSTS], runs_forever=True
            ) as opened,
            running(opened),
        ):
            await contacts(web, "h0.test", 4)
            await opened.control.execute(PauseHosts(host="h0.test"))
            before = len(web.log.requests("h0.test"))
            await contacts(web, "h1.test", 10)
            assert len(web.log.requests("h0.test")) <= before + 1  # one was in flight
            assert opened.control.wait_reason("h0.test") == "paused by an operator"
            assert courtly.rows("hosts", "paused", "host = 'h0.test'") == [(1,)]

            await opened.control.execute(SlowHosts(host="h1.test", delay_s=0.5))
            at_s = web.log.requests("h1.test")[-1].start_s
            await contacts(web, "h2.test", 12)
            assert min(gaps(web, "h1.test", at_s)) >= 0.5

            await opened.control.execute(ResumeHosts(host="h0.test"))
            await opened.control.execute(ResumeHosts(host="h1.test"))
            await contacts(web, "h0.test", 3)
            await contacts(web, "h1.test", 3)
        assert [row[0] for row in courtly.rows("hosts", "breaches")] == [0] * 4


async def test_the_whole_crawl_pauses_and_goes_on(courtly: Courtly) -> None:
    async with LocalWeb({host: site() for host in HOSTS}) as web:
        config = from_dict(courtly.config(web))
        async with (
            open_crawl(
                config, seeds=[web.url(host) for host in HOSTS], runs_forever=True
            ) as opened,
            running(opened),
        ):
            await contacts(web, "h0.test", 3)
            await opened.control.execute(PauseCrawl())
            await asyncio.sleep(0.3)  # what was in flight ends
            before = len(web.log.requests())
            assert opened.control.state is CrawlState.PAUSED
            assert opened.control.status().in_flight == 0
            await asyncio.sleep(0.5)
            assert len(web.log.requests()) == before
            await opened.control.execute(ResumeCrawl())
            await contacts(web, "h3.test", 3)


async def test_a_config_is_reloaded_again_and_again_under_load(courtly: Courtly) -> None:
    """Law 1 (docs/laws.md) by the server's log: with frequent reloads, the delay of a host is never
    below the shortest configured delay nor above the longest."""
    delays = [0.05, 0.3, 0.1]
    async with LocalWeb({host: site() for host in HOSTS}) as web:
        said: list[str] = []
        sections = courtly.config(web, politeness={"delay": delays[0], "latency_factor": 0})
        config = from_dict(sections)
        async with (
            open_crawl(
                config,
                seeds=[web.url(host) for host in HOSTS],
                runs_forever=True,
                source=ConfigFrom(lambda: from_dict(sections)),
            ) as opened,
            running(opened),
        ):
            await contacts(web, "h0.test", 3)
            for delay_s in (delays * 2)[1:]:
                sections["politeness"]["delay"] = delay_s
                said += (await opened.control.execute(Reload())).changes
                at_s = max(one.start_s for one in web.log.requests())
                await asyncio.sleep(0.7)
                for host in HOSTS:
                    late = gaps(web, host, at_s)[1:]
                    assert min(late, default=delay_s) >= delay_s - 0.001
            sections["politeness"]["delay"] = -4
            with pytest.raises(ConfigError, match="delay"):
                await opened.control.execute(Reload())
            assert opened.control.config.politeness.delay == delays[-1]
            await contacts(web, "h0.test", 2)
        assert said[0] == "4 hosts: delay 0.05 s to 0.3 s"
        assert [row[0] for row in courtly.rows("hosts", "breaches")] == [0] * 4


async def test_another_user_agent_is_sent_from_then_on(courtly: Courtly) -> None:
    async with LocalWeb({"h0.test": site()}) as web:
        sections = courtly.config(web, crawl={"user_agent": "onebot/1.0 (+https://a.test/)"})
        async with (
            open_crawl(
                from_dict(sections),
                seeds=[web.url("h0.test")],
                runs_forever=True,
                source=ConfigFrom(lambda: from_dict(sections)),
            ) as opened,
            running(opened),
        ):
            await contacts(web, "h0.test", 3)
            sections["crawl"]["user_agent"] = "otherbot/2.0 (+https://a.test/)"
            await opened.control.execute(Reload())
            await contacts(web, "h0.test", 3)
        agents = [one.headers["user-agent"] for one in web.log.requests("h0.test")]
        assert agents[0].startswith("onebot")
        assert agents[-1].startswith("otherbot")


# ---------------------------------------------------------------- what outlives the process

CHILD = """
import asyncio, json, sys
from crawler.app import open_crawl
from crawler.config import from_dict
from crawler.operator_commands import PauseCrawl, PauseHosts, SlowHosts

async def main():
    told = json.loads(sys.argv[1])
    config = from_dict(told["config"])
    async with open_crawl(config, seeds=told["seeds"], runs_forever=True) as opened:
        task = asyncio.create_task(opened.run())
        await opened.control.execute(PauseHosts(host="h0.test"))
        await opened.control.execute(SlowHosts(host="h1.test", delay_s=0.6))
        if told["pause"]:
            await opened.control.execute(PauseCrawl())
        print("steered", flush=True)
        await task

asyncio.run(main())
"""


async def killed(courtly: Courtly, web: LocalWeb, *, pause: bool) -> None:
    """Run a process that pauses and slows, and kill it with `kill -9` as soon as it has confirmed
    that."""
    told = {
        "config": courtly.config(web),
        "seeds": [web.url(host) for host in HOSTS],
        "pause": pause,
    }
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, json.dumps(told)), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout
    async with asyncio.timeout(20):
        assert await child.stdout.readline() == b"steered\n"
    child.kill()
    await child.wait()


async def test_kill_9_keeps_pauses_and_paces(courtly: Courtly) -> None:
    """The restarted crawl shows the same pauses, and respects them."""
    async with LocalWeb({host: site() for host in HOSTS}) as web:
        await killed(courtly, web, pause=False)
        before = len(web.log.requests("h0.test"))
        at_s = max((one.start_s for one in web.log.requests()), default=0.0)
        async with (
            open_crawl(from_dict(courtly.config(web)), runs_forever=True) as opened,
            running(opened),
        ):
            await contacts(web, "h1.test", 3)
            await contacts(web, "h2.test", 5)
            assert len(web.log.requests("h0.test")) == before
            assert opened.control.state is CrawlState.RUNNING
        assert min(gaps(web, "h1.test", at_s + 0.001)) >= 0.6
        assert courtly.rows("hosts", "host, paused, slow_s", "paused OR slow_s") == [
            ("h0.test", 1, None),
            ("h1.test", 0, 0.6),
        ]


async def test_a_paused_crawl_is_paused_after_kill_9_until_it_is_wanted(courtly: Courtly) -> None:
    async with LocalWeb({host: site(5) for host in HOSTS}) as web:
        await killed(courtly, web, pause=True)
        before = len(web.log.requests())
        config = from_dict(courtly.config(web))
        async with open_crawl(config, runs_forever=True) as opened, running(opened):
            await asyncio.sleep(0.5)
            assert opened.control.state is CrawlState.PAUSED
            assert len(web.log.requests()) == before
        # who starts a plain crawl by hand wants it to run; hosts paused one by one stay so
        summary = await courtly.crawl(web, crawl={"patience": 2})
        assert summary.visited == 15
        async with open_crawl(config, runs_forever=True) as opened:
            assert opened.control.state is not CrawlState.PAUSED


# ---------------------------------------------------------------- without a crawl


async def test_hosts_are_steered_in_a_database_that_nobody_holds(courtly: Courtly) -> None:
    async with LocalWeb({host: site(3) for host in HOSTS}) as web:
        config = from_dict(courtly.config(web))
        async with open_crawl(config, seeds=[web.url(host) for host in HOSTS], runs_forever=True):
            with pytest.raises(StoreRefused):
                await executed(courtly.db, PauseHosts(host="h0.test"))
        await executed(courtly.db, PauseHosts(host="h0.test"))
        await executed(courtly.db, SlowHosts(host="h1.test", delay_s=0.25))
        with pytest.raises(UnknownHost):
            await executed(courtly.db, PauseHosts(host="nobody.test"))
        summary = await courtly.crawl(web, crawl={"patience": 0.5})
        assert web.log.requests("h0.test") == []
        assert [(one.host, one.reason) for one in summary.waiting] == [
            ("h0.test", "paused by an operator")
        ]
        assert min(gaps(web, "h1.test", 0.0)) >= 0.25
        await executed(courtly.db, ResumeHosts(host="h0.test"))
        await courtly.crawl(web)
        assert len(courtly.urls("visited")) == 12


async def test_a_crawl_that_lives_on_needs_no_seed_to_begin(courtly: Courtly) -> None:
    async with LocalWeb({"h0.test": site(3)}) as web:
        config = from_dict(courtly.config(web))
        with pytest.raises(ConfigError, match="nothing to crawl"):
            async with open_crawl(config):
                pass
        async with open_crawl(config, runs_forever=True) as opened, running(opened):
            await asyncio.sleep(0.2)
            assert opened.control.state is CrawlState.IDLE
            added = await opened.control.execute(AddSeeds(urls=(web.url("h0.test"),)))
            assert (added.added, added.known) == (1, 0)
            async with asyncio.timeout(20):
                while (await opened.control.stats()).visited < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

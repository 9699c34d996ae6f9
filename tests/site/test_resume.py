"""Laws 5 and 6 (docs/laws.md): runs that end early by a budget, a signal or a kill, and are
resumed."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from crawler.testing import Handler, LocalWeb, Pages, ReceivedRequest, Reply, html, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

HOSTS = [f"host-{n}.test" for n in range(4)]
PATHS = ["/", *(f"/{n}" for n in range(12))]


def site() -> dict[str, Reply | Handler]:
    pages: dict[str, Reply | Handler] = {path: html(path, *PATHS) for path in PATHS}
    return pages | {"/robots.txt": text("User-agent: *\nDisallow: /private/\n")}


def everything(web: LocalWeb) -> list[str]:
    return sorted(web.url(host, path) for host in HOSTS for path in PATHS)


def asked_twice(web: LocalWeb) -> list[str]:
    urls = [f"{e.host}{e.path}" for e in web.log if e.path != "/robots.txt"]
    return sorted({url for url in urls if urls.count(url) > 1})


async def goes_on(courtly: Courtly, web: LocalWeb, *hosts: str) -> None:
    """Check that the next run visits everything and requests nothing again that was committed."""
    committed, asked = set(courtly.urls("visited")), len(web.log)
    web.sites.update({host: site() for host in hosts})
    await courtly.crawl(web)
    assert courtly.urls("visited") == sorted(
        web.url(host, path) for host in hosts for path in PATHS
    )
    assert not committed & {web.url(entry.host, entry.path) for entry in web.log[asked:]}


async def test_a_run_that_met_its_budget_goes_on_where_it_stopped(courtly: Courtly) -> None:
    async with LocalWeb({host: site() for host in HOSTS}) as web:
        first = await courtly.crawl(web, *HOSTS, crawl={"max_pages": 10, "patience": 5})
        assert first.visited == len(courtly.urls("visited")) == 10
        assert first.queued == len(courtly.urls("queued")) > 0

        second = await courtly.crawl(web, crawl={"max_pages": 10, "patience": 5})
        assert second.visited == 20, "max_pages counts this run's"

        await courtly.crawl(web)
        assert courtly.urls("visited") == everything(web)
        assert asked_twice(web) == []
        assert sum(e.path == "/robots.txt" for e in web.log) == len(HOSTS), "copies are kept"

        asked = len(web.log)
        again = await courtly.crawl(web, *HOSTS)
        assert len(web.log) == asked, "a finished crawl asks for nothing"
        assert again.visited == len(everything(web))
        assert again.elapsed_s < 2


async def test_a_new_seed_is_added_to_a_finished_crawl(courtly: Courtly) -> None:
    async with LocalWeb({host: site() for host in HOSTS}) as web:
        await courtly.crawl(web, *HOSTS[:3])
        asked = len(web.log)
        await courtly.crawl(web, HOSTS[3])
        assert {e.host for e in web.log[asked:]} == {HOSTS[3]}
        assert courtly.urls("visited") == everything(web)


async def test_stop_finishes_what_is_in_flight(courtly: Courtly) -> None:
    stop = asyncio.Event()

    async def slow(_: ReceivedRequest) -> Reply:
        stop.set()
        return Reply(body="slow", delay_s=0.3)

    async with LocalWeb({"a.test": site() | {"/3": slow}}) as web:
        summary = await courtly.crawl(web, "a.test", stop=stop)
        assert summary.interrupted
        assert web.log.paths("a.test")[-1] == "/3"
        assert web.url("a.test", "/3") in courtly.urls("visited")
        assert len(courtly.urls("visited")) == len(web.log.paths("a.test")) - 1
        await courtly.crawl(web)
        assert len(courtly.urls("visited")) == len(PATHS)
        assert asked_twice(web) == []


async def test_leave_does_not_wait_for_what_is_in_flight(courtly: Courtly) -> None:
    stop, exit_now = asyncio.Event(), asyncio.Event()

    async def stuck(_: ReceivedRequest) -> Reply:
        stop.set()
        exit_now.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with LocalWeb({"a.test": site() | {"/3": stuck}}) as web:
        began_s = time.monotonic()
        summary = await courtly.crawl(web, "a.test", stop=stop, exit_now=exit_now)
        assert time.monotonic() - began_s < 5
        assert summary.interrupted
        assert web.url("a.test", "/3") in courtly.urls("queued")
        await goes_on(courtly, web, "a.test")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_command_cleanly(courtly: Courtly, number: signal.Signals) -> None:
    midway = asyncio.Event()

    async def slow(_: ReceivedRequest) -> Reply:
        midway.set()
        return Reply(body="slow", delay_s=0.3)

    async with LocalWeb({host: site() for host in HOSTS}) as web:
        web.sites[HOSTS[0]] = site() | {"/3": slow}
        seeds = [web.url(host) for host in HOSTS]
        async with courtly.process(web, *seeds) as process:
            await midway.wait()
            process.send_signal(number)
            _, errors = await process.communicate()
        assert process.returncode == 130, errors.decode()
        assert b"Traceback" not in errors
        assert web.url(HOSTS[0], "/3") in courtly.urls("visited")
        assert courtly.urls("queued")

        async with courtly.process(web, "--json") as process:
            await process.communicate()
        assert process.returncode == 0
        assert courtly.urls("visited") == everything(web)
        assert asked_twice(web) == []


async def test_a_second_sigint_leaves_at_once(courtly: Courtly) -> None:
    midway = asyncio.Event()

    async def stuck(_: ReceivedRequest) -> Reply:
        midway.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with LocalWeb({host: site() for host in HOSTS}) as web:
        web.sites[HOSTS[0]] = site() | {"/3": stuck}
        async with courtly.process(web, *(web.url(host) for host in HOSTS)) as process:
            await midway.wait()
            process.send_signal(signal.SIGINT)
            with pytest.raises(TimeoutError):  # it waits for the answer, up to the fetch timeout
                await asyncio.wait_for(process.wait(), 0.7)
            process.send_signal(signal.SIGINT)
            _, errors = await asyncio.wait_for(process.communicate(), 15)
        assert process.returncode == 130
        assert b"Traceback" not in errors
        await goes_on(courtly, web, *HOSTS)


@pytest.mark.usefixtures("fresh_interpreter")
async def test_kill_9_loses_nothing_and_the_hosts_rest_first(courtly: Courtly) -> None:
    """What was in flight or not committed is repeated; everything else is fetched once."""
    delay_s = 0.3
    politeness = {"delay": delay_s, "latency_factor": 0}
    midway = asyncio.Event()

    def page(asked: ReceivedRequest) -> Reply:
        if asked.path == "/3":
            midway.set()
        return html(asked.path, *PATHS[:6])

    pages: Pages = {**dict.fromkeys(PATHS[:6], page), "/robots.txt": text("")}
    async with LocalWeb(dict.fromkeys(HOSTS, pages)) as web:
        async with courtly.process(
            web, *(web.url(host) for host in HOSTS), politeness=politeness
        ) as process:
            await midway.wait()
            process.kill()
            await process.communicate()
        killed_s, asked = time.monotonic(), len(web.log)
        committed = set(courtly.urls("visited"))

        await courtly.crawl(web, politeness=politeness)

        assert courtly.urls("visited") == sorted(web.url(h, p) for h in HOSTS for p in PATHS[:6])
        later = web.log[asked:]
        assert not committed & {web.url(e.host, e.path) for e in later}
        assert len(asked_twice(web)) <= len(HOSTS), "at most what each host had in flight"
        for host in HOSTS:
            if first := [entry for entry in later if entry.host == host]:
                assert first[0].start_s >= killed_s + delay_s - 1e-6

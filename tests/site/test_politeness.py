"""Laws 1 to 3 (docs/laws.md) by the server's log: never early, never two requests at a time,
nothing without a verdict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from crawler.testing import (
    Handler,
    LocalWeb,
    ReceivedRequest,
    Reply,
    RequestLog,
    Site,
    hang_up,
    html,
    not_found,
    redirect,
    text,
)

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

DELAY_S = 0.05
TIMER_S = 1e-6  # asyncio's timers may fire one tick of the clock early

HOSTS = [f"host-{n}.test" for n in range(20)]
ALLOWED = {"/", "/r1", "/r2", "/404", "/deep/deeper/", *(f"/page/{n}" for n in range(6))}
LEADING_TO_BLOCKED = {"/to-blocked", "/to-to-blocked"}
BLOCKED = {"/private/", "/private/x?y=1"}


def ordinary_host(web: LocalWeb, number: int) -> Site:
    """Pages that link to each other and to the next host, redirects, and forbidden pages."""
    pages = {
        "/robots.txt": text("User-agent: *\nDisallow: /private/\nAllow: /private-but-not-really\n"),
        "/": html(
            "Home",
            *("page/0", "/page/1?", "/./page/2", "/404", "/r1", "/private/", "/to-to-blocked"),
            *("http://outside.test/", "mailto:a@b.test", "javascript:void(0)", "#top"),
        ),
        "/r1": redirect("/r2", status=301),
        "/r2": redirect("/page/5", status=308),
        "/404": not_found(),
        "/to-to-blocked": redirect("/to-blocked"),
        "/to-blocked": redirect("/private/x?y=1"),
        "/deep/deeper/": html("Deep", "../../page/4", "/page/4#here"),
    }
    for n in range(6):
        pages[f"/page/{n}"] = html(f"Page {n}", *(f"/page/{m}" for m in range(n)), "/", "/page/3")
    neighbour = web.url(HOSTS[(number + 1) % len(HOSTS)], "/page/0")
    pages["/page/3"] = html("Page 3", "/deep/deeper/", neighbour)
    return pages


async def test_twenty_hosts_are_crawled_whole_and_politely(courtly: Courtly) -> None:
    async with LocalWeb() as web:
        web.sites.update({host: ordinary_host(web, n) for n, host in enumerate(HOSTS)})

        summary = await courtly.crawl(web, *HOSTS)

        for host in HOSTS:
            paths = web.log.paths(host)
            assert paths[0] == "/robots.txt"
            assert sorted(paths) == sorted({"/robots.txt"} | ALLOWED | LEADING_TO_BLOCKED)
            assert min(web.log.gaps(host)) >= DELAY_S - TIMER_S
            assert web.log.peak_concurrency(host) == 1
        assert {entry.host for entry in web.log.requests()} == set(HOSTS), (
            "a host out of scope was asked"
        )
        assert web.log.peak_concurrency() > 5, "hosts are to be crawled side by side"

        visited = sorted(web.url(host, path) for host in HOSTS for path in ALLOWED)
        assert courtly.urls("visited") == visited
        robots = sorted(web.url(host, path) for host in HOSTS for path in BLOCKED)
        assert courtly.urls("blocked", "reason = 'robots'") == robots
        chains = sorted(web.url(host, path) for host in HOSTS for path in LEADING_TO_BLOCKED)
        assert courtly.urls("blocked", "reason = 'redirect'") == chains
        assert courtly.rows("blocked", "DISTINCT dialect, rule, line, withdrawn") == [
            ("slurp", "Disallow: /private/", 2, 0)
        ]
        assert courtly.rows("queued") == []
        assert courtly.rows("failed") == []

        assert summary.visited == len(visited)
        assert summary.blocked == len(robots) + len(chains)
        assert (summary.failed, summary.queued, summary.hosts) == (0, 0, 20)
        assert not summary.waiting
        assert not summary.interrupted
        assert courtly.rows("hosts", "max(peak_concurrency), sum(breaches)") == [(1, 0)]
        ((smallest_s,),) = courtly.rows("hosts", "min(smallest_rest_s)")
        assert smallest_s >= DELAY_S - TIMER_S


async def test_the_rest_is_counted_from_the_end_of_a_slow_answer(courtly: Courtly) -> None:
    site = {"/": html("Home", "/1", "/2"), "/1": Reply(body="1", delay_s=0.2), "/2": html("2")}
    site["/1"] = Reply(body="x" * 5000, body_s=0.2)
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness={"delay": 0.1, "latency_factor": 0})
        assert sorted(web.log.paths("a.test")) == ["/", "/1", "/2", "/robots.txt"]
        assert min(web.log.gaps("a.test")) >= 0.1 - TIMER_S


async def test_two_ports_of_a_host_share_its_clock(courtly: Courtly) -> None:
    site = {"/": html("Home", "/1"), "/1": html("1")}
    async with LocalWeb({"a.test": site}) as web, LocalWeb({"a.test": site}) as other:
        await courtly.crawl(web, "a.test", other.url("a.test"))
        both = RequestLog(sorted(web.log + other.log, key=lambda entry: entry.start_s))
        assert web.log.paths("a.test")[0] == other.log.paths("a.test")[0] == "/robots.txt"
        assert len(both) == 6
        assert both.peak_concurrency("a.test") == 1
        assert min(both.gaps("a.test")) >= DELAY_S - TIMER_S


async def test_a_slow_site_rests_as_long_as_it_took(courtly: Courtly) -> None:
    """`latency_factor` 1: the delay grows to the smoothed response time."""
    site: dict[str, Reply] = {"/": html("Home", *(f"/{n}" for n in range(4)))}
    site |= {f"/{n}": Reply(body="slow", delay_s=0.25) for n in range(4)}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness={"delay": 0.01, "latency_factor": 1})
        gaps = web.log.gaps("a.test")
        assert max(gaps) > 0.1
        ((source,),) = courtly.rows("hosts", "delay_source")
        assert source


@pytest.mark.parametrize(("robots", "lanes"), [("", 3), ("User-agent: *\nCrawl-delay: 0.05\n", 1)])
async def test_concurrency_per_host_is_so_many_lanes(
    courtly: Courtly, robots: str, lanes: int
) -> None:
    """Each lane waits for the delay; there is only one while a Crawl-delay applies."""
    pages = [f"/{n}" for n in range(12)]
    site: dict[str, Reply] = {page: Reply(body="x", delay_s=0.1) for page in pages}
    site |= {"/": html("Home", *pages), "/robots.txt": text(robots)}
    async with LocalWeb({"a.test": site}) as web:
        politeness = {"delay": DELAY_S, "latency_factor": 0, "concurrency_per_host": 3}
        await courtly.crawl(web, "a.test", politeness=politeness)
        assert web.log.peak_concurrency("a.test") == lanes
        assert len(courtly.urls("visited")) == 13
        ends: list[float] = []  # of contacts whose lane no later contact has taken
        for entry in web.log.requests("a.test"):
            rested = [end_s for end_s in ends if entry.start_s >= end_s + DELAY_S - TIMER_S]
            if len(ends) == lanes:
                assert rested, "every lane is busy or at rest"
                ends.remove(max(rested))
            ends.append(entry.end_s)


async def test_a_host_that_refuses_connections_fails_in_bulk(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        dead = f"http://dead.test:{web.dead_port}"
        web.sites["a.test"] = {"/": html("Home", f"{dead}/1", f"{dead}/2")}
        began_s = asyncio.get_running_loop().time()
        await courtly.crawl(web, "a.test", scope={"follow": "any"}, fetch={"unreachable_for": "2s"})
        assert asyncio.get_running_loop().time() - began_s >= 2, "the second try waits 2 s"
        rows = courtly.rows("failed", "url, error")
        assert [url for url, _ in rows] == [f"{dead}/1", f"{dead}/2"]
        assert all(error.startswith("connect: ") for _, error in rows)
        assert courtly.urls("visited") == [web.url("a.test")]


@pytest.mark.parametrize("status", [429, 500])
async def test_the_last_url_of_a_host_is_tried_again(courtly: Courtly, status: int) -> None:
    """Whenever the response arrives: only the retry itself can wake the host."""
    asked: set[str] = set()

    def fails_once(delay_s: float) -> Handler:
        def page(asked_now: ReceivedRequest) -> Reply:
            if asked_now.host in asked:
                return html("Home")
            asked.add(asked_now.host)
            return Reply(status=status, headers={"Retry-After": "1"}, delay_s=delay_s)

        return page

    sites: dict[str, Site] = {host: {"/": fails_once(0.001 * n)} for n, host in enumerate(HOSTS)}
    async with LocalWeb(sites) as web:
        summary = await courtly.crawl(web, *HOSTS)
        assert courtly.urls("queued") == []
        assert summary.visited == len(HOSTS)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(body="x" * 2000, broken=True), "body"),
        (hang_up(), "protocol"),
        (Reply(status=500), "http"),
        (Reply(body="x" * 3000), "too-large"),
        (Reply(body="late", delay_s=30), "timeout"),
    ],
)
async def test_a_page_that_breaks_fails_under_its_code(
    courtly: Courtly, reply: Reply, code: str
) -> None:
    site = {"/": html("Home", "/bad", "/good"), "/good": html("Good"), "/bad": reply}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(
            web, "a.test", fetch={"max_attempts": 1, "timeout": 0.5, "max_body": 2500}
        )
        ((url, error),) = courtly.rows("failed", "url, error")
        assert url == web.url("a.test", "/bad")
        assert error.startswith(f"{code}: ")
        assert courtly.urls("visited") == [web.url("a.test"), web.url("a.test", "/good")]
        # The server's clock of a request that was given up runs until it sees the connection close.
        seen_s = 0.02 if code == "timeout" else TIMER_S
        assert min(web.log.gaps("a.test")) >= DELAY_S - seen_s
        # What is lost on a kept connection is asked for once more, at its host's next turn and on a
        # fresh one: the kept one may have been gone already.
        requests = 2 if code in ("protocol", "timeout") else 1
        assert web.log.paths("a.test").count("/bad") == requests, "no hidden request"

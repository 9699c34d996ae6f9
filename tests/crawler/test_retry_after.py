"""Any Retry-After is honoured: on every status, kind of request and form of the header, up to
`politeness.max_retry_after`, which cuts it with a trace."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate

import aiohttp
import pytest
from multidict import CIMultiDict

from crawler.embedding.crawler import Crawler
from crawler.embedding.middleware import Politeness
from crawler.embedding.session import PoliteSession
from crawler.errors import CourtlyError
from crawler.testing import FakeFetcher, JumpClock, LocalWeb, Reply, html, not_found, text
from crawler.testing.jump_clock import WALL_S
from policies.retries import RETRY_AFTER_S_MAX

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
DAY_S = 86_400.0
DELAY_S = 1.0
CONFIG: dict[str, dict[str, object]] = {
    "politeness": {"delay": DELAY_S, "latency_factor": 0},
    "crawl": {"patience": "90d"},
    "fetch": {"max_attempts": 1},
}
STATUSES = (200, 204, 301, 302, 304, 308, 400, 401, 403, 404, 410, 413, 418, 429, 500, 502, 503)


def asking(status: int, retry_after: str, **more: object) -> Reply:
    headers = {"Retry-After": retry_after}
    if 300 <= status < 400:
        headers["Location"] = "/elsewhere"
    return Reply(status=status, headers=headers, body="x", **more)  # type: ignore[arg-type]


async def crawled(
    clock: JumpClock, asking: Mapping[str, Reply], *seeds: str, **sections: object
) -> FakeFetcher:
    """A crawl in which the first request for each URL of `asking` is answered so."""
    left = dict(asking)

    def answers(request) -> Reply:
        if (reply := left.pop(request.url, None)) is not None:
            return reply
        host, _, path = request.url.removeprefix("http://").partition("/")
        if path == "robots.txt":
            return text(f"User-agent: *\nSitemap: http://{host}/sitemap.xml")
        if path == "sitemap.xml":
            return Reply(
                body=f"<urlset><url><loc>http://{host}/listed</loc></url></urlset>",
                content_type="application/xml",
            )
        if path == "":
            others = (
                [f"http://{b}/{n}" for b in B_HOSTS for n in ("", 1)] if host == "a.test" else []
            )
            return html("Home", "/1", "/2", *others)
        return not_found()

    fetcher = FakeFetcher(clock, answers, latency_s=0.0)
    config = {**CONFIG, **sections}
    async with Crawler(
        list(seeds), config=config, user_agent=UA, clock=clock, fetcher=fetcher
    ) as crawl:
        async for _ in crawl:
            pass
    assert not left
    return fetcher


def rest_after(fetcher: FakeFetcher, url: str) -> float:
    """Seconds from the contact for the URL to the next one with its host."""
    host = url.split("/")[2]
    log = fetcher.log.requests(host)
    at = next(n for n, one in enumerate(log) if f"http://{host}{one.path}" == url)
    return log[at + 1].start_s - log[at].end_s


PATHS = {"page": "/", "robots": "/robots.txt", "sitemap": "/sitemap.xml"}
B_HOSTS = [f"b{status}.test" for status in STATUSES]


@pytest.mark.parametrize("kind", [*PATHS, "external"])
async def test_every_status_and_kind_of_a_crawl(clock: JumpClock, kind: str) -> None:
    urls = {status: f"http://b{status}.test{PATHS.get(kind, '/')}" for status in STATUSES}
    sections: dict[str, object] = {}
    seeds = [f"http://{host}/{path}" for host in B_HOSTS for path in ("", "more", "2")]
    if kind == "external":
        sections["scope"] = {"check_external": True}
        seeds = [f"{A}/"]
    replies = {url: asking(status, "300") for status, url in urls.items()}
    fetcher = await crawled(clock, replies, *seeds, **sections)
    for status, url in urls.items():
        assert rest_after(fetcher, url) == pytest.approx(300, abs=1), status


async def test_a_redirect_hop_of_a_crawl(clock: JumpClock) -> None:
    fetcher = await crawled(clock, {f"{A}/more": asking(301, "300")}, f"{A}/more")
    assert "/elsewhere" in fetcher.log.paths("a.test")
    assert rest_after(fetcher, f"{A}/more") == pytest.approx(300, abs=1)


@pytest.mark.parametrize("kind", PATHS)
async def test_an_answer_whose_body_breaks_off(clock: JumpClock, kind: str) -> None:
    """Only its header was read."""
    urls = {status: f"http://b{status}.test{PATHS[kind]}" for status in (200, 404, 429, 500, 503)}
    seeds = [f"http://b{status}.test/{path}" for status in urls for path in ("", "more", "2")]
    replies = {url: asking(status, "300", broken=True) for status, url in urls.items()}
    fetcher = await crawled(clock, replies, *seeds)
    for status, url in urls.items():
        assert rest_after(fetcher, url) == pytest.approx(300, abs=1), status


def date(in_s: float) -> str:
    return formatdate(WALL_S + in_s, usegmt=True)


FORMS = [
    ("300", 300),
    (" 300 ", 300),
    ("+300", 300),
    ("300.5", 300.5),
    (date(300), 300),
    ("Tue Nov 14 22:18:20 2023", 300),
    ("Tuesday, 14-Nov-23 22:18:20 GMT", 300),
    (str(3 * 86_400), 3 * DAY_S),
    (date(3 * DAY_S), 3 * DAY_S),
    ("0", None),
    ("-5", None),
    (date(-DAY_S), None),
    ("soon", None),
    ("", None),
    ("1e9", None),
    ("\u0663\u0660\u0660", None),
    ("NaN", None),
    ("9" * 400, RETRY_AFTER_S_MAX),
    ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_S_MAX),
    (str(365 * 86_400), RETRY_AFTER_S_MAX),
]


async def get(session: PoliteSession, url: str, status: int, value: str) -> None:
    with contextlib.suppress(CourtlyError):
        await session.get(url, follow=False, retry=False)


async def record(session: PoliteSession, url: str, status: int, value: str) -> None:
    async with session.permit(url) as permit:
        permit.record(status, {"retry-AFTER": value})


@pytest.mark.parametrize("ask", [get, record])
async def test_every_form(clock: JumpClock, ask: Callable[..., Awaitable[None]]) -> None:
    """Each of a host of its own, all at the same time."""
    cases = {
        f"http://h{n}.test/a": case
        for n, case in enumerate(itertools.product(FORMS, (200, 301, 404, 429, 503)))
    }
    replies = {url: asking(status, value) for url, ((value, _), status) in cases.items()}
    fetcher = FakeFetcher(clock, replies, latency_s=0.0)

    async def rest_s(url: str, status: int, value: str) -> float:
        await ask(session, url, status, value)
        ended_s = clock.monotonic()
        return (await session.next_turn(url)).in_s + clock.monotonic() - ended_s

    async with PoliteSession(user_agent=UA, config=CONFIG, clock=clock, fetcher=fetcher) as session:
        rests_s = await asyncio.gather(
            *(rest_s(url, status, value) for url, ((value, _), status) in cases.items())
        )
    for ((value, expected_s), status), found_s in zip(cases.values(), rests_s, strict=True):
        if expected_s is not None:
            assert found_s == pytest.approx(expected_s, abs=5), (value, status)
        elif status in (429, 503) and value not in ("0", "-5", date(-DAY_S)):
            assert found_s == pytest.approx(60), (value, status)  # unreadable: as without one
        else:
            assert found_s == pytest.approx(DELAY_S), (value, status)


async def test_three_days_are_three_days_and_a_longer_pause_is_cut_with_a_trace(
    clock: JumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**CONFIG, "politeness": {**CONFIG["politeness"], "max_retry_after": "2d"}}
    for asked_s, given, rest_s, lines in (
        (3 * DAY_S, CONFIG, 3 * DAY_S, 0),
        (31 * DAY_S, CONFIG, 30 * DAY_S, 1),
        (3 * DAY_S, config, 2 * DAY_S, 1),
    ):
        caplog.clear()
        fetcher = FakeFetcher(clock, {f"{A}/a": asking(404, f"{asked_s:.0f}")})
        with caplog.at_level(logging.WARNING, "courtly.fetch"):
            async with PoliteSession(
                user_agent=UA, config=given, clock=clock, fetcher=fetcher
            ) as session:
                await session.get(f"{A}/a")
                assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(rest_s, abs=2)
        found = [record.getMessage() for record in caplog.records]
        assert len(found) == lines
        assert all("politeness.max_retry_after" in line for line in found)


async def test_the_longest_of_several_counts(clock: JumpClock) -> None:
    async with PoliteSession(
        user_agent=UA, config=CONFIG, clock=clock, fetcher=FakeFetcher(clock, {})
    ) as session:
        async with session.permit(f"{A}/a") as permit:
            fields = CIMultiDict([("Retry-After", "5"), ("Retry-After", "500")])
            permit.record(200, fields)
        assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(500, abs=1)


async def test_a_date_counts_from_the_site_s_own_clock_if_ours_is_ahead() -> None:
    """Our clock is two days ahead: the date has passed by it, but not by the server's."""
    async with JumpClock(wall_s=WALL_S + 2 * DAY_S) as clock:
        reply = asking(404, date(600))
        reply.headers["Date"] = date(0)  # type: ignore[index]
        fetcher = FakeFetcher(clock, {f"{A}/a": reply}, latency_s=0.0)
        async with PoliteSession(
            user_agent=UA, config=CONFIG, clock=clock, fetcher=fetcher
        ) as session:
            await session.get(f"{A}/a")
            assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(600, abs=1)


@pytest.mark.parametrize("status", [200, 301, 404, 429])
async def test_the_middleware(status: int) -> None:
    async with LocalWeb({"a.test": {"/a": asking(status, "300")}}) as web:
        config = web.config(politeness={"delay": 0.01, "latency_factor": 0})
        async with (
            Politeness(user_agent=UA, config=config) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
        ):
            async with session.get(web.url("a.test", "/a"), allow_redirects=False) as response:
                await response.read()
            await asyncio.sleep(0.01)
            turn = await polite.next_turn(web.url("a.test", "/a"))
            assert turn.in_s == pytest.approx(300, abs=5)


async def test_it_survives_a_restart(clock: JumpClock, tmp_path) -> None:
    fetcher = FakeFetcher(clock, {f"{A}/a": asking(200, "5000")})
    for _ in range(2):
        async with PoliteSession(
            user_agent=UA, config=CONFIG, clock=clock, fetcher=fetcher, db=tmp_path / "s.db"
        ) as session:
            if not fetcher.log:
                await session.get(f"{A}/a")
            assert (await session.next_turn(f"{A}/a")).in_s == pytest.approx(5000, abs=5)

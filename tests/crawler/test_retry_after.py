"""Any Retry-After is honoured: on every status, kind of request and form of the header, up to
`politeness.max_retry_after`, which cuts it with a trace."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
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


@pytest.fixture
async def clock() -> AsyncIterator[JumpClock]:
    async with JumpClock() as clock:
        yield clock


def asking(status: int, retry_after: str, **more: object) -> Reply:
    headers = {"Retry-After": retry_after}
    if 300 <= status < 400:
        headers["Location"] = "/elsewhere"
    return Reply(status=status, headers=headers, body="x", **more)  # type: ignore[arg-type]


async def crawled(
    clock: JumpClock, asks: Callable[[str], Reply | None], *seeds: str, **sections: object
) -> FakeFetcher:
    """A crawl in which the first request that `asks` answers is answered so, once."""
    done: list[str] = []

    def answers(request) -> Reply:
        reply = None if done else asks(request.url)
        if reply is not None:
            done.append(request.url)
            return reply
        if request.url.endswith("/robots.txt"):
            return text(f"User-agent: *\nSitemap: {A}/sitemap.xml")
        if request.url.endswith("/sitemap.xml"):
            return Reply(
                body=f"<urlset><url><loc>{A}/listed</loc></url></urlset>",
                content_type="application/xml",
            )
        if request.url == f"{A}/":
            return html("Home", "/1", "/2", "http://b.test/", "http://b.test/1")
        return not_found()

    fetcher = FakeFetcher(clock, answers, latency_s=0.0)
    config = {**CONFIG, **sections}
    async with Crawler(
        list(seeds), config=config, user_agent=UA, clock=clock, fetcher=fetcher
    ) as crawl:
        async for _ in crawl:
            pass
    assert done
    fetcher.asked = done[0]  # type: ignore[attr-defined]
    return fetcher


def rest_after(fetcher: FakeFetcher, url: str) -> float:
    """Seconds from the contact for the URL to the next one with its host."""
    host = url.split("/")[2]
    log = fetcher.log.requests(host)
    at = next(n for n, one in enumerate(log) if f"http://{host}{one.path}" == url)
    return log[at + 1].start_s - log[at].end_s


PAGES = {
    "page": f"{A}/",
    "robots": f"{A}/robots.txt",
    "sitemap": f"{A}/sitemap.xml",
    "external": "http://b.test/",
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("kind", [*PAGES])
async def test_every_status_and_kind_of_a_crawl(clock: JumpClock, kind: str, status: int) -> None:
    url = PAGES[kind]
    sections: dict[str, object] = {}
    seeds = [f"{A}/", f"{A}/more", f"{A}/2"]
    if kind == "external":
        sections["scope"] = {"check_external": True}
        seeds = [f"{A}/"]

    def asks(requested: str) -> Reply | None:
        return asking(status, "300") if requested == url else None

    fetcher = await crawled(clock, asks, *seeds, **sections)
    assert rest_after(fetcher, url) == pytest.approx(300, abs=1)


async def test_a_redirect_hop_of_a_crawl(clock: JumpClock) -> None:
    def asks(requested: str) -> Reply | None:
        return asking(301, "300") if requested == f"{A}/more" else None

    fetcher = await crawled(clock, asks, f"{A}/more")
    assert "/elsewhere" in fetcher.log.paths("a.test")
    assert rest_after(fetcher, f"{A}/more") == pytest.approx(300, abs=1)


@pytest.mark.parametrize("status", [200, 404, 429, 500, 503])
@pytest.mark.parametrize("kind", ["page", "robots", "sitemap"])
async def test_an_answer_whose_body_breaks_off(clock: JumpClock, kind: str, status: int) -> None:
    """Only its header was read."""

    def asks(requested: str) -> Reply | None:
        return asking(status, "300", broken=True) if requested == PAGES[kind] else None

    fetcher = await crawled(clock, asks, f"{A}/", f"{A}/more", f"{A}/2")
    assert rest_after(fetcher, PAGES[kind]) == pytest.approx(300, abs=1)


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


async def asked_of_session(clock: JumpClock, status: int, value: str) -> float:
    replies = {f"{A}/a": asking(status, value)}
    fetcher = FakeFetcher(clock, replies, latency_s=0.0)
    async with PoliteSession(user_agent=UA, config=CONFIG, clock=clock, fetcher=fetcher) as session:
        with contextlib.suppress(CourtlyError):
            await session.get(f"{A}/a", follow=False, retry=False)
        ended_s = fetcher.log[-1].end_s
        return (await session.next_turn(f"{A}/a")).in_s + clock.monotonic() - ended_s


async def asked_of_permit(clock: JumpClock, status: int, value: str) -> float:
    fetcher = FakeFetcher(clock, {}, latency_s=0.0)
    async with PoliteSession(user_agent=UA, config=CONFIG, clock=clock, fetcher=fetcher) as session:
        async with session.permit(f"{A}/a") as permit:
            permit.record(status, {"retry-AFTER": value})
        return (await session.next_turn(f"{A}/a")).in_s


@pytest.mark.parametrize(("value", "rest_s"), FORMS)
@pytest.mark.parametrize("status", [200, 301, 404, 429, 503])
@pytest.mark.parametrize("ask", [asked_of_session, asked_of_permit])
async def test_every_form(
    clock: JumpClock, ask: Callable[..., object], status: int, value: str, rest_s: float | None
) -> None:
    found = await ask(clock, status, value)  # type: ignore[misc]
    if rest_s is not None:
        assert found == pytest.approx(rest_s, abs=5)
    elif status in (429, 503) and value not in ("0", "-5", date(-DAY_S)):
        assert found == pytest.approx(60)  # unreadable: as without one
    else:
        assert found == pytest.approx(DELAY_S)


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

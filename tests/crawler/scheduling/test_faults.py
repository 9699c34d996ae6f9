"""Faults of our own at every step of a URL's processing: each costs the URL that met it, once, and
neither the crawl, nor another URL, nor a host's rest."""

from __future__ import annotations

import inspect
import itertools
import json
import random
import sys
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import settings
from selectolax.lexbor import SelectolaxError

import crawler
from crawler.downloading.downloader import Downloader
from crawler.downloading.robots_fetcher import RobotsFetcher
from crawler.faults import contained
from crawler.fetching.request import Request
from crawler.observer import Contacted
from crawler.processing.recrawl_planner import RecrawlPlanner
from crawler.processing.worker import Worker
from crawler.testing import Reply, html, not_found, redirect, text
from storage.store import Outcome, StoreError

if TYPE_CHECKING:
    from tests.conftest import Crawled, World

DELAY_S = 0.5
FLOAT_S = 1e-6
SITE = "http://a.test"
PATHS = ("/", "/a", "/b", "/deep/c", "/feed.xml")
VIEWS = ("visited", "blocked", "failed", "queued", "sitemaps")
FAULTS: tuple[type[Exception], ...] = (
    RecursionError, MemoryError, OverflowError, ValueError, TypeError, KeyError, AssertionError,
    RuntimeError, SelectolaxError, OSError, LookupError,
)  # fmt: skip


def _sitemap(*urls: str) -> str:
    entries = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'


def site(request: Request) -> Reply:
    path = request.url.removeprefix(SITE)
    if path == "/robots.txt":
        return text(f"User-agent: *\nDisallow: /no\nSitemap: {SITE}/map.xml\n")
    if path == "/map.xml":
        return Reply(body=_sitemap(f"{SITE}/listed", f"{SITE}/a"), content_type="application/xml")
    if path == "/feed.xml":
        feed = f"<rss><channel><item><link>{SITE}/from-feed</link></item></channel></rss>"
        return Reply(body=feed, content_type="application/rss+xml")
    if path == "/to":
        return redirect("/a")
    if path in PATHS or path in ("/listed", "/from-feed"):
        return html(f"the page {path}", *PATHS, "/no", "/to", "mailto:x", "//b.test/", "?q=1#f")
    return not_found()


OUR_FILES = str(Path(crawler.__file__).parents[1])
# What keeps the books of the crawl. It must be right: a fault there ends a run.
CORE = tuple(
    f"{OUR_FILES}/{name}"
    for name in (
        "crawler/frontier/", "crawler/processing/committer.py", "crawler/processing/committer.py",
        "crawler/processing/page_queue.py", "crawler/scheduling/", "crawler/faults.py",
        "crawler/clock.py", "crawler/clock.py",
        "crawler/testing/", "storage/", "tests/",
    )
)  # fmt: skip
OURS = (f"{OUR_FILES}/crawler/", f"{OUR_FILES}/policies/")
PROCESSING: frozenset[CodeType] = frozenset(
    {Worker.use.__code__, RobotsFetcher._learned.__code__}  # robots.txt, too
)
# What is left to do when a fault has been contained, or a permit must be ended.
ENDING = frozenset(
    {Worker._contain.__code__, Worker.use.__code__, Worker._refill.__code__}
    | {Downloader._begin.__code__, Downloader._end.__code__}
    | {RobotsFetcher._learned.__code__}
)


def is_step(frame: FrameType) -> bool:
    """Is a function of ours called by the processing of a URL, and not by the books it keeps?"""
    code = frame.f_code
    if not code.co_filename.startswith(OURS) or code in ENDING:
        return False
    if code.co_flags & inspect.CO_GENERATOR:
        return (
            False  # to be closed looks the same as to be resumed, and Python drops what it raises
        )
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_filename.startswith(CORE) or above.f_code is Worker._contain.__code__:
            return False
        if above.f_code in PROCESSING:
            return True
        above = above.f_back
    return False


class Injection:
    """Raises at the n-th step; a coroutine that is resumed counts as called again."""

    def __init__(self, at: int, fault: type[Exception]) -> None:
        self.at = at
        self.fault = fault
        self.steps = 0
        self.met: str | None = None

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_step(frame):
            self.steps += 1
            if self.steps == self.at:
                self.met = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
                raise self.fault("injected")


async def crawled(world: World, injection: Injection) -> Crawled:
    seeds = [SITE + path for path in (*PATHS, "/no", "/to")]
    with injection:
        return await world.crawl(site, *seeds, politeness={"delay": DELAY_S})


def check(world_after: Crawled, met: str | None) -> None:
    found = {view: world_after.urls(view) for view in VIEWS}
    assert found["queued"] == [], met
    assert len(found["failed"]) <= 1, met
    assert all(str(row["error"]).startswith("internal: ") for row in world_after.rows["failed"]), (
        met
    )
    known = {url for urls in found.values() for url in urls}
    expected = {SITE + path for path in (*PATHS, "/no", "/to", "/listed", "/from-feed")}
    lost = expected - known
    # What only the URL that failed leads to is not met.
    reached = {f"{SITE}/map.xml": "/listed", f"{SITE}/feed.xml": "/from-feed"}
    assert lost <= {f"{SITE}{path}" for path in reached.values()}, met
    assert f"{SITE}/no" not in found["visited"], met
    assert all(entry.path != "/no" for entry in world_after.entries()), met
    starts = [(entry.start_s, entry.end_s or 0.0) for entry in world_after.log.requests()]
    starts.sort()
    for (_, ended_s), (start_s, _) in pairwise(starts):
        assert start_s >= ended_s + DELAY_S - FLOAT_S, met


async def test_a_crawl_without_a_fault(world: World) -> None:
    crawled_ = await crawled(world, Injection(0, ValueError))
    assert crawled_.urls("failed") == []
    check(crawled_, None)


async def test_a_fault_at_any_step_costs_one_url(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    total = Injection(0, ValueError)
    await crawled(world, Injection(0, ValueError))  # what is done once a process counts no longer
    await crawled(type(world)(world.clock), total)
    assert total.steps > 500
    faults = itertools.cycle(FAULTS)
    rng = random.Random(0 if settings().derandomize else None)
    for at in sorted(rng.sample(range(1, total.steps), 22)):
        other = type(world)(world.clock)
        caplog.clear()
        injection = Injection(at, next(faults))
        after = await crawled(other, injection)
        assert injection.met is not None
        check(after, f"step {at}: {injection.fault.__name__} in {injection.met}")
        logged = [one for one in caplog.records if one.name == "courtly.faults"]
        assert len(logged) <= 1, injection.met


class Raises:
    """An observer all of whose methods raise."""

    def contacted(self, seen: Contacted) -> None:
        raise ValueError(seen.url)

    def settled(self, url: str, outcome: Outcome) -> None:
        raise TypeError(url)

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        raise KeyError(slot)

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        raise RuntimeError(outcomes)


async def test_an_observer_that_raises_costs_nothing(world: World) -> None:
    after = await world.crawl(site, f"{SITE}/", observer=Raises())
    assert after.urls("failed") == []
    assert len(after.urls("visited")) > 5


async def test_a_fault_of_the_fetcher_costs_one_url(world: World) -> None:
    def answers(request: Request) -> Reply:
        if request.url.endswith(("/a", "/map.xml")):
            raise UnicodeEncodeError("ascii", "x", 0, 1, "injected, with a secret")
        return site(request)

    after = await world.crawl(answers, f"{SITE}/")
    assert after.urls("failed") == [f"{SITE}/a", f"{SITE}/map.xml"]
    errors = {str(row["error"]) for row in after.rows["failed"]}
    assert all(error.startswith("internal: UnicodeEncodeError in ") for error in errors)
    assert not any("secret" in error for error in errors)
    assert len(after.at(path="/a")) == 1


async def test_a_fault_in_robots_txt_closes_the_origin_until_it_can_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from policies import robots

    parse, left = robots.parse, [3]

    def broken(body: bytes) -> robots.RobotsFile:
        left[0] -= 1
        if left[0] >= 0:
            raise RecursionError
        return parse(body)

    monkeypatch.setattr(robots, "parse", broken)
    after = await world.crawl(site, f"{SITE}/", f"{SITE}/no")
    assert f"{SITE}/no" in after.urls("blocked")
    assert after.urls("failed") == []
    assert len(after.at(path="/robots.txt")) == 4
    assert after.at(path="/")[0] > after.at(path="/robots.txt")[-1]


async def test_a_robots_txt_that_cannot_be_fetched_by_our_own_fault_opens_nothing(
    world: World,
) -> None:
    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            raise TypeError
        return site(request)

    after = await world.crawl(answers, f"{SITE}/", crawl={"patience": "100s"})
    assert after.urls("queued") == [f"{SITE}/"]
    assert 3 <= len(after.at(path="/robots.txt")) <= 6
    assert "could not be read" in str(after.waiting)


async def test_an_entry_of_a_sitemap_that_cannot_be_read_costs_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crawler.processing.sitemaps import Sitemaps

    page = Sitemaps.page

    def broken(self: Sitemaps, entry: Any, queued: Any) -> Any:
        if entry.loc.endswith("/a"):
            raise OverflowError
        return page(self, entry, queued)

    monkeypatch.setattr(Sitemaps, "page", broken)
    after = await world.crawl(site, f"{SITE}/feed.xml")
    assert f"{SITE}/listed" in after.urls("visited")
    [problem] = [row["error"] for row in after.rows["sitemaps"] if "map" in str(row["url"])]
    assert "1 of its entries" in str(problem)


async def test_errors_of_the_store_end_the_run(world: World) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone")

    world.medium.before["complete"] = broken
    with pytest.raises(BaseExceptionGroup) as told:
        await world.crawl(site, f"{SITE}/")
    assert told.group_contains(StoreError)
    with pytest.raises(StoreError):
        contained("anything", StoreError("the disk is gone"))


def test_a_fault_names_the_line_of_the_program_rather_than_of_a_library() -> None:
    def parse() -> None:
        json.loads("no JSON")

    with pytest.raises(ValueError, match="Expecting value") as raised:
        parse()
    line = parse.__code__.co_firstlineno + 1
    told = contained("anything", raised.value)
    assert told == f"JSONDecodeError in test_faults.py, line {line}"


@pytest.mark.usefixtures("looks_hourly")
async def test_a_visit_again_that_meets_a_fault_leaves_the_page_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:

    def broken(_: RecrawlPlanner, queued: Any, *__: object) -> None:
        if queued.before is not None:
            raise AttributeError

    monkeypatch.setattr(RecrawlPlanner, "unchanged", broken)
    day_s = 86_400.0
    after = await world.crawl(
        {f"{SITE}/": html("Home")},
        f"{SITE}/",
        forever=True,
        at={3.5 * day_s: lambda: world.control.stop()},  # noqa: PLW0108 - made by the crawl
        revisit={"mode": "fixed", "interval": "1d"},
    )
    assert after.urls("visited") == [f"{SITE}/"]
    assert after.urls("failed") == []
    assert 1 < len(after.at(path="/")) <= 4

"""Large pages are read beside the event loop, and say the same as read on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import RealClock
from crawler.documents import page, page_parser
from crawler.documents.page_parser import (
    SHARE_OF_DOMAIN,
    PageParser,
    ParsingBrokenOffError,
)
from crawler.fetching.request import LARGE_BYTES, Headers
from crawler.leased_domains import LeasedDomains
from crawler.processing import page_outcomes
from crawler.testing import JumpClock, html, not_found

if TYPE_CHECKING:
    from tests.conftest import World

URL = "http://a.test/"
TOKENS = ("examplebot",)
HEADERS = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8")]))
ITEM = "<li class='item'><a href='/page-{n}.html' title='t'>item <b>{n}</b></a> some text</li>\n"


def page_of(size: int, *, head: str = "<ul>") -> bytes:
    items = (ITEM.format(n=n) for n in range(size // len(ITEM)))
    return (head + "".join(items)).encode()


class Spy:
    """Where pages are read, and how many at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[int] = []
        self.at_once = 0
        self.at_once_max = 0
        self._read = page.parse_page
        monkeypatch.setattr(page_parser.page, "parse_page", self.read)

    def read(self, url: str, headers: Headers, body: bytes, **how: Any) -> page.ParsedPage:
        self.threads.append(threading.get_ident())
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            return self._read(url, headers, body, **how)
        finally:
            self.at_once -= 1


def held(domains: Sequence[str]) -> LeasedDomains:
    found = LeasedDomains()
    for domain in domains:
        found.add(domain)
    return found


def page_parser_of() -> PageParser:
    return PageParser(RealClock(), held(["a.test"]))


@pytest.mark.parametrize("head", ["<ul>", "<TABLE><TR>"], ids=["rows", "tree"])
async def test_a_large_page_says_the_same(head: str) -> None:
    body = page_of(LARGE_BYTES + 20_000, head=head)
    read = await page_parser_of().parse(URL, HEADERS, body, tokens=TOKENS)
    assert len(read.links) > 3_000
    assert read.links == page.parse_page(URL, HEADERS, body, tokens=TOKENS).links


async def test_only_large_pages_leave_the_loop_and_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spy = Spy(monkeypatch)
    reader = page_parser_of()
    await reader.parse(URL, HEADERS, page_of(LARGE_BYTES // 2), tokens=TOKENS)
    assert spy.threads == [threading.get_ident()]
    large = page_of(LARGE_BYTES * 2)
    await asyncio.gather(*(reader.parse(URL, HEADERS, large, tokens=TOKENS) for _ in range(4)))
    assert threading.get_ident() not in spy.threads[1:]
    assert spy.at_once_max == 1


async def test_a_cancelled_reader_lets_the_next_one_in() -> None:
    reader = page_parser_of()
    large = page_of(LARGE_BYTES * 2)
    first = asyncio.ensure_future(reader.parse(URL, HEADERS, large, tokens=TOKENS))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await reader.parse(URL, HEADERS, large, tokens=TOKENS)).links


async def test_nobody_waits_for_large_pages_that_are_broken_off() -> None:
    reader, go_on = page_parser_of(), threading.Event()
    loop, began = asyncio.get_running_loop(), asyncio.Event()
    ran: list[threading.Thread] = []

    def work() -> None:
        ran.append(threading.current_thread())
        loop.call_soon_threadsafe(began.set)
        go_on.wait(60)

    waiting = [asyncio.ensure_future(reader.beside(URL, work)) for _ in range(3)]
    await began.wait()
    try:
        reader.break_off()
        reader.break_off()  # once more
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [ParsingBrokenOffError] * 3
        assert len(ran) == 1
        assert ran[0].is_alive()
        assert ran[0].daemon  # nor does the end of the process
    finally:
        go_on.set()
    assert await reader.beside(URL, lambda: 1) == 1


async def _latest_s(reader: PageParser, body: bytes) -> float:
    """The longest that the loop made somebody wait who wanted to run all the time."""
    reading = asyncio.ensure_future(reader.parse(URL, HEADERS, body, tokens=TOKENS))
    latest_s, before_s = 0.0, time.perf_counter()
    while not reading.done():
        await asyncio.sleep(0)
        now_s = time.perf_counter()
        latest_s, before_s = max(latest_s, now_s - before_s), now_s
    await reading
    return latest_s


@pytest.mark.bench
@pytest.mark.parametrize("head", ["<ul>", "<UL>"], ids=["rows", "tree"])
async def test_the_loop_is_not_late_for_a_large_page(
    head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the same page read on the loop, the best of a few: the machine may be busy."""
    body = page_of(2_500_000, head=head)
    beside_s = [await _latest_s(page_parser_of(), body) for _ in range(4)]
    monkeypatch.setattr(page_parser, "LARGE_BYTES", len(body))
    on_loop_s = [await _latest_s(page_parser_of(), body) for _ in range(2)]
    assert min(beside_s) < min(on_loop_s) / 2, (beside_s, on_loop_s)


async def test_a_crawl_follows_what_a_large_page_links(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_parser, "LARGE_BYTES", 1_000)
    monkeypatch.setattr(page_outcomes, "LINKS_AT_ONCE", 7)
    spy = Spy(monkeypatch)
    paths = [f"/{n}" for n in range(40)]
    crawled = await world.crawl(
        lambda request: not_found() if request.url != URL else html("A" * 1_000, *paths),
        URL,
        politeness={"delay": 0.1},
    )
    assert crawled.urls("visited") == sorted([URL, *(f"{URL[:-1]}{path}" for path in paths)])
    assert any(thread != threading.get_ident() for thread in spy.threads)


@pytest.mark.parametrize(("one_domain", "pauses"), [(False, 4), (True, 0)])
async def test_large_pages_of_a_domain_have_a_share(
    monkeypatch: pytest.MonkeyPatch, one_domain: bool, pauses: int
) -> None:
    """Of the time; those of another domain are parsed meanwhile."""
    work_s = 0.3
    async with JumpClock() as clock:
        reader = PageParser(
            clock, held(["trap.test"] if one_domain else ["trap.test", "victim.test"])
        )

        async def run(work: Callable[[], float]) -> float:
            await clock.sleep_until(clock.monotonic() + work_s)
            return work()

        monkeypatch.setattr("crawler.documents.page_parser.in_daemon_thread", run)
        began_s = clock.monotonic()
        trap = [reader.beside(f"http://h{n}.trap.test/", clock.monotonic) for n in range(5)]
        other = [reader.beside("http://v.victim.test/", clock.monotonic)]
        *trap_s, other_s = await asyncio.gather(*trap, *other)
        assert other_s - began_s <= 6 * work_s + 0.01
        share_s = work_s * (1 / SHARE_OF_DOMAIN - 1)
        assert trap_s[-1] - began_s == pytest.approx(
            5 * work_s + pauses * share_s, abs=work_s + 0.01
        )

"""From the crawl to its sinks: who gets what, and what `flush` promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from crawler.clock import RealClock
from crawler.documents.crawled_page import CrawledPage, EarlierVisit
from crawler.sinks.dispatch import PAGES_MAX, PageCallback, SinkFilter, SinkRoute, Sinks
from crawler.sinks.sink import SinkError, Withdrawn
from storage.store import Blocked, BlockReason

MakePage = Callable[..., CrawledPage]


class Memory:
    """A sink that notes its calls; it can be held up, and be full."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.full = False
        self.finishes, self.finishes_s = False, 5.0  # closing takes long

    def open(self) -> None:
        self.calls.append("open")

    def put(self, page: CrawledPage) -> None:
        self.begun.set()
        assert self.go.wait(5)
        if self.full:
            raise SinkError("the sink is full")
        self.calls.append(page.url)

    def withdraw(self, page: Withdrawn) -> None:
        self.calls.append(f"withdraw {page.url}")

    def flush(self) -> None:
        self.calls.append("flush")

    def undo(self) -> None:
        self.calls.append("undo")

    def close(self, hurried: threading.Event) -> None:
        self.calls.append("close")
        if self.finishes and not hurried.wait(self.finishes_s):
            self.calls.append("finished")


@pytest.mark.parametrize(
    ("wants", "taken"),
    [
        (SinkFilter(), ["/", "/a.png", "/gone"]),
        (SinkFilter(include=("*.png",)), ["/a.png"]),
        (SinkFilter(exclude=("*.png",)), ["/", "/gone"]),
        (SinkFilter(statuses=frozenset({404})), ["/gone"]),
        (SinkFilter(statuses=frozenset({2})), ["/", "/a.png"]),
        (SinkFilter(content_types=("image/*",)), ["/a.png"]),
        (SinkFilter(noindex=True), ["/", "/a.png", "/gone", "/hidden"]),
    ],
)
async def test_each_sink_gets_what_it_wants(
    make_page: MakePage, wants: SinkFilter, taken: list[str]
) -> None:
    sink = Memory()
    called: list[str] = []
    got: list[str] = []
    sinks = Sinks(
        [SinkRoute(sink=sink, filter=wants)],
        [PageCallback(call=lambda page: called.append(page.url), filter=wants)],
    )
    async with sinks:
        for page in (
            make_page("http://a.test/"),
            make_page("http://a.test/a.png", content_type="image/png"),
            make_page("http://a.test/gone", status=404),
            make_page("http://a.test/hidden", index=False),
        ):
            sinks.put(page)
        assert called == [], "nothing happens before it is asked for"
        await sinks.flush()
        got = [call for call in sink.calls if call.startswith("http")]
    assert got == called == [f"http://a.test{path}" for path in taken]
    assert sink.calls[0] == "open"
    assert sink.calls[-2:] == ["flush", "close"]


def test_a_body_is_wanted_if_any_sink_wants_it() -> None:
    none = SinkRoute(sink=Memory(), filter=SinkFilter(body=False))
    png = SinkRoute(sink=Memory(), filter=SinkFilter(content_types=("image/*",)))
    sinks = Sinks([none, png])
    assert sinks.wants_body("http://a.test/x", 200, "image/png")
    assert not sinks.wants_body("http://a.test/x", 200, "text/html")


async def test_cancelled_while_it_writes_it_loses_nothing(make_page: MakePage) -> None:
    sink = Memory()
    async with Sinks([SinkRoute(sink=sink, filter=SinkFilter())]) as sinks:
        sink.go.clear()
        sinks.put(make_page("http://a.test/1"))
        first = asyncio.create_task(sinks.flush())
        await asyncio.to_thread(sink.begun.wait, 5)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        sinks.put(make_page("http://a.test/2"))
        sink.go.set()
        await sinks.flush()
        assert sink.calls == ["open", "http://a.test/1", "flush", "http://a.test/2", "flush"]


async def test_a_full_sink_fails_every_flush_after_it(make_page: MakePage) -> None:
    sink = Memory()
    async with Sinks([SinkRoute(sink=sink, filter=SinkFilter())]) as sinks:
        sink.full = True
        sinks.put(make_page())
        with pytest.raises(SinkError):
            await sinks.flush()
        sink.full = False
        sinks.put(make_page("http://a.test/2"))
        with pytest.raises(SinkError):
            await sinks.flush()
    assert sink.calls == ["open", "close"]


async def test_functions_are_called_in_order_and_again_for_what_they_did_not_finish(
    make_page: MakePage,
) -> None:
    finished: list[str] = []
    begun = asyncio.Event()
    go = asyncio.Event()

    async def slow(page: CrawledPage) -> None:
        begun.set()
        await go.wait()
        finished.append(page.url)

    sinks = Sinks()
    sinks.add(PageCallback(call=slow, filter=SinkFilter()))
    async with sinks:
        sinks.put(make_page("http://a.test/1"))
        sinks.put(make_page("http://a.test/2"))
        task = asyncio.create_task(sinks.flush())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await sinks.flush()
    assert finished == ["http://a.test/1", "http://a.test/2"]


async def test_pages_wait_when_far_more_is_noted_than_written(make_page: MakePage) -> None:
    sinks = Sinks([SinkRoute(sink=Memory(), filter=SinkFilter())])
    async with sinks:
        sinks.put(make_page(body=b"x" * 63_000_000))
        assert sinks.due
        assert not sinks.full
        sinks.put(make_page(body=b"x" * 2_000_000))
        assert sinks.full
        await sinks.flush()
        assert not sinks.full
        for _ in range(PAGES_MAX):
            sinks.put(make_page())
        assert sinks.full


async def test_a_forbidden_page_is_told_to_sinks_that_want_its_url() -> None:
    sink, other = Memory(), Memory()
    block = Blocked(
        id=1, slot="a.test", reason=BlockReason.ROBOTS, dialect="slurp", rule="Disallow: /x",
        line=2, robots_url="http://a.test/robots.txt", blocked_at=1.0,
    )  # fmt: skip
    routes = [
        SinkRoute(sink=sink, filter=SinkFilter()),
        SinkRoute(sink=other, filter=SinkFilter(exclude=("*/x",))),
    ]
    async with Sinks(routes) as sinks:
        sinks.withdraw_blocked("http://a.test/x", block)
        await sinks.flush()
    assert "withdraw http://a.test/x" in sink.calls
    assert other.calls == ["open", "close"]


async def test_a_page_that_asks_not_to_be_indexed_when_it_is_visited_again_is_withdrawn(
    make_page: MakePage,
) -> None:
    sink, curious = Memory(), Memory()
    routes = [
        SinkRoute(sink=sink, filter=SinkFilter()),
        SinkRoute(sink=curious, filter=SinkFilter(noindex=True)),
    ]
    async with Sinks(routes) as sinks:
        sinks.put(make_page(index=False, again=True))
        await sinks.flush()
    assert sink.calls == ["open", "withdraw http://a.test/", "flush", "close"]
    assert curious.calls == ["open", "http://a.test/", "flush", "close"]


async def test_who_is_told_to_leave_finishes_nothing() -> None:
    sink = Memory()
    sink.finishes = True
    sinks = Sinks([SinkRoute(sink=sink, filter=SinkFilter())])
    sinks.exit_requested = asyncio.Event()
    await sinks.open()
    closing = asyncio.create_task(sinks.close())
    await asyncio.sleep(0)
    sinks.exit_requested.set()
    await closing
    assert sink.calls == ["open", "close"]


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_stop_bounds_what_closing_a_sink_completes(
    monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """A crawl that is through completes it, whatever time that takes."""
    monkeypatch.setattr("crawler.sinks.sink_writer.FINISH_S_MAX", 0.1)
    sink = Memory()
    sink.finishes, sink.finishes_s = True, 30.0 if stopped else 0.3
    sinks = Sinks([SinkRoute(sink=sink, filter=SinkFilter())], clock=RealClock())
    await sinks.open()
    if stopped:
        sinks.stop()
    await sinks.close()
    assert sink.calls == ["open", "close", *([] if stopped else ["finished"])]


async def test_what_a_crash_kept_from_being_recorded_may_be_there(make_page: MakePage) -> None:
    """A page that was in flight when the process died: asked for again, it forbids to be kept."""
    sink, images = Memory(), Memory()
    gone: list[Withdrawn] = []
    routes = [
        SinkRoute(sink=sink, filter=SinkFilter()),
        SinkRoute(sink=images, filter=SinkFilter(include=("*.png",))),
    ]
    function = PageCallback(call=lambda _: None, withdrawn=gone.append, filter=SinkFilter())
    async with Sinks(routes, [function]) as sinks:
        sinks.put(make_page(index=False, earlier=EarlierVisit(None, None)))
        sinks.put(make_page("http://a.test/2", index=False))
        await sinks.flush()
    assert sink.calls == ["open", "withdraw http://a.test/", "flush", "close"]
    assert images.calls == ["open", "close"]
    assert [(page.url, page.reason) for page in gone] == [("http://a.test/", "noindex")]


@pytest.mark.parametrize(
    ("before", "now", "call"),
    [
        ((200, "text/html"), (404, "text/html"), "withdraw http://a.test/"),
        ((200, "text/html"), (200, "image/png"), "withdraw http://a.test/"),
        ((404, "text/html"), (410, "text/html"), None),
        ((200, "image/png"), (404, "text/html"), None),
        ((200, "image/png"), (200, "text/html"), "http://a.test/"),
    ],
)
async def test_who_had_a_page_and_does_not_want_it_any_more_is_told(
    make_page: MakePage, before: tuple[int, str], now: tuple[int, str], call: str | None
) -> None:
    sink = Memory()
    wanted = SinkFilter(statuses=frozenset({2}), content_types=("text/*",))
    async with Sinks([SinkRoute(sink=sink, filter=wanted)]) as sinks:
        status, kind = now
        earlier = EarlierVisit(*before)
        sinks.put(make_page(status=status, content_type=kind, again=True, earlier=earlier))
        await sinks.flush()
    assert [one for one in sink.calls if "http" in one] == ([] if call is None else [call])

"""The native reader takes linear time, releases the interpreter's lock, and counts its pages."""

from __future__ import annotations

import threading
import time

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import native_page, page, page_reader
from tests.crawler.documents import both_readers, test_scan
from tests.growth import assert_linear, repeated
from tests.tables import each

pytestmark = pytest.mark.skipif(
    not both_readers.is_installed(), reason="courtly-native is not installed"
)

URL = "http://a.test/dir/page.html"
TOKENS = ("examplebot",)


def read(html: bytes) -> object:
    with both_readers.native():
        native = native_page.reader_for(TOKENS)
        assert native is not None
        return native.read(html, "http://a.test", "http://a.test/dir/", URL)


@each(
    "unit",
    [
        *test_scan._UNITS,
        "<a href=../../x>",
        '<a href="&a=&amp;">',
        "<a href=a%20/../b>",
        "<base href=x>",
        "<script><!--",
        "<svg><foreignObject>",
        "<svg><g></svg>",
        "<svg></p>",
        "<table><tr><td><a href=x>",
        "<template></template>",
        "<![CDATA[",
        "--!",
    ],
)
def test_it_is_linear(unit: str) -> None:
    """For whatever it may stumble over. Sizes are greater than for the reader in Python."""

    def work(html: bytes) -> None:
        read(html)
        read(b"<table><tr>" + html + b">")
        read(b'<a href="' + html + b'">')
        for before in (b"<P>", b"<SVG>", b"<SVG><desc>", b"<SCRIPT><!--", b"<P><template>"):
            read(before + html)

    assert_linear(work, repeated(b"", unit.encode()), 1_600_000)


def test_the_lock_is_released() -> None:
    html = b"<p>text</p><a href='x'>y</a>" * 100_000
    assert read(b"") is not None
    times_s: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            times_s.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for _ in range(50):  # a busy machine may have no core for the thread
            began_s = time.perf_counter()
            read(html)
            ended_s = time.perf_counter()
            third_s = (ended_s - began_s) / 3
            between = [at_s for at_s in times_s if began_s + third_s < at_s < ended_s - third_s]
            if between:
                break
            times_s.clear()
    finally:
        stop.set()
        thread.join()
    assert between


def test_pages_are_counted() -> None:
    headers = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html")]))
    before = page_reader.pages_read.native, page_reader.pages_read.declined
    with both_readers.native():
        page.parse_page(URL, headers, b"<a href=x>", tokens=TOKENS)
        page.parse_page(URL, headers, b"<p><frameset>", tokens=TOKENS)
        page.parse_page(URL, headers, b"", tokens=TOKENS)
    after = page_reader.pages_read.native, page_reader.pages_read.declined
    assert after == (before[0] + 1, before[1] + 1)

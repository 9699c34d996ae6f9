"""The native reader takes linear time, releases the interpreter's lock, and counts its pages."""

from __future__ import annotations

import random
import re
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import native_page, page, page_reader
from crawler.documents.nesting import is_tangled
from tests.benchmarks.test_reading_speed import make_page
from tests.crawler.documents import both_readers, test_scan
from tests.crawler.documents.native import structures
from tests.growth import assert_linear, repeated
from tests.tables import each

if TYPE_CHECKING:
    from courtly_native import Page

pytestmark = pytest.mark.skipif(
    not both_readers.is_installed(), reason="courtly-native is not installed"
)

URL = "http://a.test/dir/page.html"
TOKENS = ("examplebot",)


def read(html: bytes) -> Page | None:
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


def may_be_tangled(html: str) -> bool:
    """Return whether Python is asked if it would build a tree, or reads the page."""
    found = read(html.encode())
    return found is None or found.may_be_tangled


@given(st.randoms(use_true_random=False), st.integers(1, 2_000))
@settings(max_examples=150, deadline=None)
def test_no_tangled_page_is_taken_for_another(rng: random.Random, times: int) -> None:
    unit = "".join(structures.document(rng) for _ in range(rng.randrange(1, 4)))
    unit = re.sub("<plaintext", "<p", unit, flags=re.IGNORECASE)
    before = rng.choice(["", "", "<table>", "<b class=abcdef>", "<svg>", "<table><td>"])
    html = f"<P></P>{before}" + unit * min(times, 200_000 // len(unit) + 1)
    assert may_be_tangled(html) or not is_tangled(html.encode())


@each(
    "html",
    [
        "<b>" * 50 + "<p>x</p>" * 20_000, "<div>" * 520 + "x" * 70_000, "</x a=b>x" * 20_000,
        "<html>x" * 12_000, "<table>" + "x<br>" * 30_000, "<p " + "a " * 101 + ">" + "x" * 70_000,
        "<table>" + "x<style></style>" * 20_000, "<svg>" + "<desc>" * 20_000, "<i></i>" * 150_001,
        "<b x=1><p></b>" * 6_000, "<div>" * 490 + "<li></li>" * 20_000, "<font><p>" * 9_000,
        "<table>" + "<</td>" * 20_000,
        "x<td a=b>" * 20_000, "<p a='" + "b" * 70_000,
    ],
)  # fmt: skip
def test_tangled_pages_are_found(html: str) -> None:
    assert may_be_tangled(f"<P></P>{html}")


@each(
    "html",
    [
        make_page("a.test", 1)[1].decode() * 5,
        "<table>" + "<tr><td class=a><b>x</b> <a href=y>z</a></td></tr>\n" * 3_000 + "</table>",
        "<ul>" + "<li><a href=x><svg><desc>a</desc><path/></svg>b</a>" * 3_000 + "</ul>",
        "<p><b>a</b><br><i>c</i><p><img src=x>d<script>a < b</script>" * 3_000,
        "<svg>x</svg>" * 9_000,
    ],
)  # fmt: skip
def test_large_ordinary_pages_are_not_tangled(html: str) -> None:
    assert len(html) > 65_536
    assert not may_be_tangled(f"<P></P>{html}")


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

"""What a page needs to be shown."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from crawler.sinks.references import REFERENCES_MAX
from crawler.sinks.requisites import REQUISITES_MAX, requisites
from crawler.sinks.styles import in_srcset, in_style
from tests.crawler.sinks.doubles import Replacing
from tests.growth import assert_linear, repeated
from tests.tables import each

URL = "http://a.test/x/"


def of(html: str, *, scripts: bool = False) -> list[str]:
    found = requisites(URL, "text/html; charset=utf-8", html.encode(), scripts=scripts)
    return [url.removeprefix("http://a.test") for url in found.roles]


@each(
    ("html", "found"),
    [
        ('<img src="a.png"><img src="a.png#x">', ["/x/a.png"]),
        ('<img srcset="a.png 1x, /b.png 2x">', ["/x/a.png", "/b.png"]),
        ('<picture><source srcset="a.webp"><img src="a"></picture>', ["/x/a.webp", "/x/a"]),
        ('<link rel="stylesheet" href="s.css"><link rel=icon href="i">', ["/x/s.css", "/x/i"]),
        ('<link rel="canonical" href="/c"><link rel="preload" href="p.js">', []),
        ("<style>p{background:url( 'b.png' )} @import \"o\";</style>", ["/x/b.png", "/x/o"]),
        ('<p style="background:url(c.png)">', ["/x/c.png"]),
        ('<base href="/base/"><img src="d.png">', ["/base/d.png"]),
        ('<video src="v.mp4" poster="v.jpg"></video>', ["/x/v.mp4", "/x/v.jpg"]),
        ('<input type="image" src="go.gif"><table background="b.gif">', ["/x/go.gif", "/x/b.gif"]),
        ('<svg><image href="s.png"/></svg><object data="o"></object>', ["/x/s.png", "/x/o"]),
        ('<a href="page.html">x</a><iframe src="f.html"></iframe>', []),
        ('<img src="data:image/png;base64,AA"><img src="javascript:x"><img src>', []),
        ('<noscript><img src="n.png"></noscript><!-- <img src="no.png"> -->', ["/x/n.png"]),
    ],
)  # fmt: skip
def test_what_is_found(html: str, found: list[str]) -> None:
    assert of(html) == found


def test_scripts_only_when_asked_for() -> None:
    html = '<script src="a.js"></script><script>no("b.js")</script>'
    assert of(html) == []
    assert of(html, scripts=True) == ["/x/a.js"]


def test_of_a_style_sheet() -> None:
    css = (
        b'@charset "utf-8"; @import url(a.css); @import "b.css" print; /* url(no.png) */'
        b'p { content: "url(no2.png)"; background: url("c\\29 .png"), URL(d.png) }'
        b"@font-face { src: url(f.woff2) format('woff2') }"
    )
    found = requisites("http://a.test/s/s.css", "text/css", css, scripts=False)
    names = [url.removeprefix("http://a.test/s/") for url in found.roles]
    assert names == ["a.css", "b.css", "c).png", "d.png", "f.woff2"]


def test_srcset_as_the_standard_reads_it() -> None:
    seen: list[str] = []

    def change(url: str) -> str:
        seen.append(url.removeprefix(URL))
        return seen[-1].upper()

    text = "a,b.png 2x, c.png, ,d.png 100w (x, y),e.png"
    assert in_srcset(text, URL, Replacing(change)) == "A,B.PNG 2x, C.PNG, D.PNG 100w (x, y), E.PNG"


def test_nothing_else_of_a_style_is_changed() -> None:
    css = "p{content:'url(x)'}/* url(y) */a{background:url(z.png)}"
    changed = in_style(css, URL, Replacing(lambda _: 'q"<\\.png'))
    assert changed == "p{content:'url(x)'}/* url(y) */a{background:url(\"q\\22 \\3c \\5c .png\")}"
    assert in_style("p{color:red}", URL, Replacing(lambda _: "no")) is None


def test_it_is_bounded() -> None:
    html = "".join(f'<img src="{n}.png">' for n in range(2 * REQUISITES_MAX))
    assert len(of(html)) == REQUISITES_MAX


@given(st.text(alphabet="url()'\"\\/*@import ,;\n{}a.png:1<>x=", max_size=200))
def test_it_never_raises(text: str) -> None:
    requisites(URL, "text/css", text.encode(), scripts=True)
    of(f'<style>{text}</style><img srcset="{text}"><meta http-equiv=refresh content="{text}">')


@each("piece", ["url(", "/*", '"', "url('", "@import ", "\\", "url(\\", '\\"', "\\'"])
def test_no_style_takes_long(piece: str) -> None:
    for first in ("", "'", '"', 'url("'):
        assert_linear(
            lambda css: requisites("http://a.test/s.css", "text/css", css, scripts=False),
            repeated(first.encode(), piece.encode()),
            60_000,
        )


def test_the_addresses_of_an_image_set() -> None:
    css = (
        b'p{background:image-set("a.png" 1x, url(b.png) 2x, \'c.png\' type("image/png"));'
        b'content:"d.png"} q{background:-webkit-image-set("e.png" 1x)}'
    )
    found = requisites("http://a.test/s.css", "text/css", css, scripts=False)
    assert sorted(url.rpartition("/")[2] for url in found.roles) == [
        "a.png", "b.png", "c.png", "e.png",
    ]  # fmt: skip


@each(
    ("before", "unit"),
    [
        ("image-set(", "a"), ("image-set(", "()"), ("image-set((", 'a""'), ("", "image-set('\""),
        ("", "image-set()("), ('a{b:"', "x"), ('url("', "x"), ("", "url(<>) "),
        ("", 'image-set("<>") '),
    ],
)  # fmt: skip
def test_time_and_memory_of_a_style_sheet_are_bounded(before: str, unit: str) -> None:
    style = repeated(before, unit)
    assert_linear(lambda text: in_style(text, URL, Replacing(lambda url: url)), style, 100_000)
    text = style(100_000)
    tracemalloc.start()
    in_style(text, URL, Replacing(lambda url: url))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5_000_000


def test_only_so_many_references_of_a_style_sheet_are_looked_at() -> None:
    seen: list[str] = []

    references = Replacing(seen.append)
    in_style("".join(f"url({n}) " for n in range(REFERENCES_MAX + 10)), URL, references)
    assert len(seen) == REFERENCES_MAX
    assert references.skipped == 10

"""A page as it stands in a mirror: nothing of it asks the network."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.sinks.names import file_of
from crawler.sinks.offline import Links, offline_page, offline_style, relinked, stub
from crawler.sinks.references import Role
from policies.url import canonical

URL = "https://a.test/x/page"
PATH = file_of(URL, Role.PAGE)
THERE = {file_of(f"https://{name}", Role.PAGE) for name in ("a.test/x/known", "b.test/known")}


def offline(
    html: str | bytes,
    content_type: str = "text/html; charset=utf-8",
    *,
    scripts: bool = False,
    there: Callable[[str], bool] = THERE.__contains__,
) -> str:
    links = Links(URL, PATH, is_there=there, scripts=scripts)
    raw = html.encode() if isinstance(html, str) else html
    page = offline_page(raw, content_type, links)
    assert page.startswith(b"\xef\xbb\xbf")
    return page.decode("utf-8-sig")


@pytest.mark.parametrize(
    ("html", "part"),
    [
        ('<a href="known#top">', 'href="known~.html#top"'),
        ('<a href="/x/unknown">', 'href="unknown~.html"'),
        ('<a href="https://b.test/known">', 'href="../../b.test/known~.html"'),
        ('<a href="https://b.test/unknown#x">', 'href="https://b.test/unknown#x"'),
        ('<a href="#part">', '<a href="#part">'),
        ('<a href="mailto:a@b.test">', 'href="mailto:a@b.test"'),
        ('<img src="i.png" srcset="/j.png 2x">', 'src="i.png" srcset="../j.png 2x"'),
        ('<img src="https://b.test/i?x">', 'src="../../b.test/i~'),
        ('<link rel="stylesheet" href="s" integrity="x" crossorigin>', 'href="s~.css">'),
        ('<iframe src="https://b.test/unknown">', 'src="about:blank"'),
        ('<iframe src="known">', 'src="known~.html"'),
        ("<style>p{background:url(/b.png)}</style>", 'url("../b.png")'),
        ('<form action="/go">', 'action="https://a.test/go"'),
        ('<meta http-equiv="refresh" content="5; URL=known">', 'content="5; URL=known~.html"'),
        ('<base href="/other/"><a href="known">', 'href="../other/known~.html"'),
    ],
)  # fmt: skip
def test_references_lead_to_files(html: str, part: str) -> None:
    page = offline(html)
    assert part in page
    for word in ("<base", "integrity", "crossorigin"):
        assert word not in page


def test_scripts_are_there_only_when_they_are_wanted() -> None:
    html = '<script src="https://b.test/s.js"></script><script>inline()</script>'
    assert 'src="data:,"' in offline(html)
    assert "inline()" in offline(html)
    assert 'src="../../b.test/s.js"' in offline(html, scripts=True)


def test_it_is_utf_8_whatever_it_was() -> None:
    page = offline(b'<meta charset="iso-8859-1"><p>caf\xe9 &lt;b&gt;', "text/html")
    assert "café &lt;b&gt;" in page


def test_links_are_seen_to_again_at_the_end() -> None:
    html = '<a href="known">1</a><a href="unknown#y">2</a><a href="https://b.test/unknown">3</a>'
    first = offline(html, there=lambda _: False)
    came = THERE | {file_of("https://b.test/unknown", Role.PAGE)}
    second = relinked(first.encode(), PATH, came.__contains__)
    assert second is not None
    for part in ("known~.html", "https://a.test/x/unknown#y", "../../b.test/unknown~.html"):
        assert f'href="{part}"' in second.decode()
    assert relinked(second, PATH, came.__contains__) is None, "all are right"
    frame = offline('<iframe src="unknown"></iframe>')
    blank = relinked(frame.encode(), PATH, lambda _: False)
    assert blank is not None
    assert 'src="about:blank"' in blank.decode()
    filled = relinked(blank, PATH, lambda _: True)
    assert filled is not None
    assert 'src="unknown~.html"' in filled.decode()
    back = relinked(second, PATH, lambda _: False)
    assert back is not None
    assert 'href="https://b.test/unknown"' in back.decode()


def test_a_stub_leads_on() -> None:
    page = stub('a"b.html', "https://a.test/?a&b")
    assert b'content="0; url=a&quot;b.html"' in page
    again = relinked(page, "a.test/old~.html", lambda _: False)
    assert again is not None
    assert b'href="https://a.test/?a&amp;b"' in again
    assert b'content=""' in again, "nobody is led to the network without a click"
    back = relinked(again, "a.test/old~.html", lambda _: True)
    assert back is not None
    assert b'content="0; url=' in back


def test_a_style_keeps_what_it_says() -> None:
    links = Links(
        "https://a.test/s/s.css", "a.test/s/s.css", is_there=lambda _: True, scripts=False
    )
    css = offline_style(b"@import '../t';p{color:red;background:url(i.png)}", "text/css", links)
    assert (
        css.decode("utf-8-sig") == '@import url("../t~.css");p{color:red;background:url("i.png")}'
    )


TAGS = st.sampled_from(
    ["<a href='", "<img src='", "<img srcset='", "<link rel=stylesheet href='", "<style>", "'>",
     "</style>", "<base href='", "<script src='", "<iframe src='", "<form action='", "</",
     "<svg><image href='", "http://b.test/", "//b.test", "url(", ")", "#", "?", "&amp;", "é", "\0",
     " 1x, ", "<!--", "<template>"]
)  # fmt: skip


# Of a style (CSS Syntax, "consume a url token"): an address, which the end closes as well; what is
# none, for there are quotes or spaces in it; and text, whose content is no address.
ADDRESS_OR_TEXT = re.compile(
    r"""url\(\s*(?:"([^"\n]*)(?:"|\Z)|'([^'\n]*)(?:'|\Z)|([^\s"'()]*))\s*(?:\)|\Z)"""
    r"""|url\([^)]*\)?|"[^"\n]*"?|'[^'\n]*'?"""
)


# What a browser loads, by element; another attribute of that name, such as the href of a frame,
# loads nothing.
LOADED = {
    "img": ("src", "srcset"), "source": ("src", "srcset"), "link": ("href",),
    "script": ("src",), "svg script": ("href", "xlink:href"), "image": ("href", "xlink:href"),
    "iframe": ("src",), "frame": ("src",), "embed": ("src",), "audio": ("src",),
    "video": ("src", "poster"), "track": ("src",), "object": ("data",), "input": ("src",),
}  # fmt: skip


@given(st.lists(TAGS, max_size=30).map("".join))
@example("<iframe src='<a href='<a href='http://b.test/<a href='<style>")
@example("<style>url(http://b.test/")
@example("<style>url(http://b.test/<a href='")
def test_nothing_but_links_leads_out(html: str) -> None:
    tree = LexborHTMLParser(offline(html))
    for selector, names in LOADED.items():
        for node, name in itertools.product(tree.css(selector), names):
            value = (node.attributes.get(name) or "").strip()
            leads_out = value.startswith(("http:", "https:", "//"))
            assert not leads_out or canonical(value, URL) is None, "what is no URL leads nowhere"
    for style in tree.css("style"):
        for found in ADDRESS_OR_TEXT.finditer(style.text()):
            address = found[1] or found[2] or found[3] or ""
            assert not address.startswith(("http:", "//")) or canonical(address, URL) is None


@pytest.mark.parametrize(
    "one",
    [
        "<a href=x>",
        "<a href=x></a>",
        "<area href=x>",
        "<img src=a>",
        "<img src=a&b>",
        "<img srcset=a>",
        "<iframe src=a>",
        "<form action=x></form>",
        "<p style=background:url(a)>",
        "<td background=a>",
    ],
)
@pytest.mark.parametrize("base", ["https://a.test/", "https://b.test/"])
def test_links_make_a_page_grow_no_further_than_its_bound(monkeypatch, one, base):
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 100_000)
    deep = "".join(f"{n}/" for n in range(300))
    head = f"<base href={base}{deep}>"
    body = (head + one * 4_000).encode()
    links = Links(
        f"https://a.test/{deep}",
        f"a.test/{deep}index.html",
        is_there=lambda _: False,
        scripts=False,
    )
    page = offline_page(body, "text/html", links)
    assert len(page) <= 4 * len(body) + 100_000 + 2_000
    assert len("".join(links.marked)) <= 100_000
    assert b"Content-Security-Policy" in page
    again = relinked(page, f"a.test/{deep}index.html", lambda _: True)
    assert again is None or len(again) <= 5 * len(body) + 200_000


def test_a_style_sheet_grows_no_further_than_its_bound(monkeypatch):
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 100_000)
    deep = "".join(f"{n}/" for n in range(300))
    body = b"p{background:url(a)}" * 3_000
    links = Links(
        f"https://a.test/{deep}", f"a.test/{deep}x.css", is_there=lambda _: False, scripts=False
    )
    assert len(offline_style(body, "text/css", links)) <= 4 * len(body) + 100_000


def test_a_page_that_utf_8_makes_longer_is_rewritten(monkeypatch):
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 1_000)
    body = b"<a href=x>1</a>" + b"\xa0" * 50_000
    links = Links("https://a.test/", "a.test/index.html", is_there=lambda _: False, scripts=True)
    page = offline_page(body, "text/html; charset=windows-1252", links)
    assert len(page) <= 4 * len(body) + 1_000
    assert b'<a href="x~.html"' in page
    assert list(links.marked) == ["https://a.test/x"]

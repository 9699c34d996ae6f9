"""What is read from a page: links, anchors, title, directives; and that nothing raises."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import links, page, scan
from crawler.documents.links import PageLinks
from crawler.documents.page import PageLink, ParsedPage, may_be_html, parse_page
from crawler.documents.tree import build_tree
from policies.indexing import Directives
from policies.scope import Skip
from policies.url import canonical
from tests.growth import assert_linear
from tests.tables import each

URL = "http://a.test/dir/page.html"
TOKENS = ("examplebot",)


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8"), *pairs]))


def read_html(html: str | bytes, *pairs: tuple[str, str]) -> ParsedPage:
    body = html.encode() if isinstance(html, str) else html
    return parse_page(URL, headers(*pairs), body, tokens=TOKENS)


def urls(read_page: ParsedPage) -> list[str]:
    return [link.url for link in read_page.links]


# A document of which no tree is built: too many attributes in one tag.
TANGLE = "<p " + " ".join(f"a{number}" for number in range(300)) + "></p>"


@pytest.fixture(params=["rows", "tree", "tokens"])
def tangle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All three ways to read must see the same in these tests."""
    if request.param != "rows":
        monkeypatch.setattr(scan, "rows", lambda html: None)
    return TANGLE if request.param == "tokens" else ""


# ---------------------------------------------------------------- links


@each(
    ("html", "expected"),
    [
        ('<a href="x">', ["http://a.test/dir/x"]),
        ("<a href=x>", ["http://a.test/dir/x"]),
        ("<A HREF='x'>", ["http://a.test/dir/x"]),
        ('<a href=" \n x\t">', ["http://a.test/dir/x"]),
        ('<a href="/x?a=1&amp;b=2&copy=3">', ["http://a.test/x?a=1&b=2&copy=3"]),
        ('<a href="/&#252;">', ["http://a.test/%C3%BC"]),
        ('<map><area href="x" alt="y"></map>', ["http://a.test/dir/x"]),
        ('<iframe src="x"></iframe>', ["http://a.test/dir/x"]),
        ('<iframe src=""></iframe>', []),
        ('<link rel="next" href="x">', ["http://a.test/dir/x"]),
        ('<link rel="PREV" href="x">', ["http://a.test/dir/x"]),
        ('<link rel="alternate" hreflang="de" href="x">', ["http://a.test/dir/x"]),
        ('<link rel="canonical" href="x">', ["http://a.test/dir/x"]),
        ('<link rel="alternate stylesheet" href="x">', []),
        ('<link rel="stylesheet" href="x">', []),
        ('<link rel="icon" href="x"><link href="y">', []),
        ('<meta http-equiv="Refresh" content="5; URL=x">', ["http://a.test/dir/x"]),
        ("<meta http-equiv=refresh content=\"0;url='x'\">", ["http://a.test/dir/x"]),
        ('<meta http-equiv="refresh" content="0,x">', ["http://a.test/dir/x"]),
        ('<meta http-equiv="refresh" content="0 x">', ["http://a.test/dir/x"]),
        ('<meta http-equiv="refresh" content="30">', []),
        ('<meta http-equiv="refresh" content="30; url=">', []),
        ('<meta http-equiv="refresh" content="url=x">', []),
        ('<meta http-equiv="refresh" content="5x">', []),
        ("<a name=x>", []),
        ("<a href>", [URL]),
        ('<a href="#top">', [URL]),
        ('<a href="javascript:void(0)"><a href="mailto:x@b.test"><a href="tel:1">', []),
        ('<a href="http://[bad">', []),
        ('<!-- <a href="x"> -->', []),
        ('<script>document.write("<a href=x>")</script>', []),
        ("<style><a href=x></style>", []),
        ("<textarea><a href=x></textarea>", []),
        ("<title><a href=x></title>", []),
        ("<a href=x></a><plaintext><a href=y>", ["http://a.test/dir/x"]),
        ("<noscript><a href=x></noscript>", ["http://a.test/dir/x"]),
        ("<svg><a href=x></svg>", ["http://a.test/dir/x"]),
        ("<svg><a xlink:href=x><link rel=next xlink:href=y><area xlink:href=z></svg>", []),
        ("<p title='<a href=y>'><a href=x>", ["http://a.test/dir/x"]),
    ],
)
def test_links(tangle: str, html: str, expected: list[str]) -> None:
    assert urls(read_html(tangle + html)) == expected


def test_frames() -> None:
    html = '<frameset><frame src="x"><frame src="/y"></frameset>'
    assert urls(read_html(html)) == ["http://a.test/dir/x", "http://a.test/y"]


def test_template_content_is_not_in_the_document() -> None:
    assert urls(read_html("<template><a href=x></a></template>")) == []


def test_links_come_in_document_order_and_once_each(tangle: str) -> None:
    html = '<a href="b">1</a><a href="/c">2</a><a href="./b">3</a><a href="b#x">4</a><a href="a">'
    assert read_html(tangle + html).links == (
        PageLink("http://a.test/dir/b", "1", False),
        PageLink("http://a.test/c", "2", False),
        PageLink("http://a.test/dir/a", None, False),
    )


@each(
    ("base", "expected"),
    [
        ('<base href="/other/">', "http://a.test/other/x"),
        ('<base href="http://b.test/z">', "http://b.test/x"),
        ('<base target="_top"><base href="/1/"><base href="/2/">', "http://a.test/1/x"),
        ('<base href="data:text/html,">', "http://a.test/dir/x"),
        ('<base href="http://[bad">', "http://a.test/dir/x"),
    ],
)
def test_base(tangle: str, base: str, expected: str) -> None:
    assert urls(read_html(base + tangle + "<a href=x>")) == [expected]


def test_base_counts_wherever_it_stands() -> None:
    assert urls(read_html("<a href=x></a><div><base href=/b/></div>")) == ["http://a.test/b/x"]


@each(
    ("html", "nofollow"),
    [
        ('<a href=x rel="nofollow">', True),
        ('<a href=x rel="external NOFOLLOW">', True),
        ('<a href=x rel="ugc sponsored">', False),
        ("<a href=x rel=nofollow></a><a href=x>", False),
        ("<a href=x></a><a href=x rel=nofollow>", False),
        ("<a href=x rel=nofollow></a><area href=x rel=nofollow>", True),
        ('<link rel="next nofollow" href=x>', True),
    ],
)
def test_a_url_is_nofollow_only_if_every_link_to_it_is(
    tangle: str, html: str, nofollow: bool
) -> None:
    assert [link.nofollow for link in read_html(tangle + html).links] == [nofollow]


# ---------------------------------------------------------------- anchors


@each(
    ("html", "anchor"),
    [
        ("<a href=x> some \n\t text </a>", "some text"),
        ("<a href=x>a <b>bold</b>&nbsp;move &amp; more</a>", "a bold move & more"),
        ("<a href=x><img src=i alt=' the  picture '></a>", "the picture"),
        ("<a href=x> <img src=i alt=picture>words</a>", "words"),
        ("<a href=x></a><a href=x>second</a><a href=x>third</a>", "second"),
        ("<a href=x>" + "word " * 100 + "</a>", ("word " * 39) + "word…"),
        ("<a href=x>" + " " * 10_000 + "far</a>", None),
        ("<a href=x>text<script>var x = 1</script><style>p {}</style></a>", "text"),
        ("<a href=x>f(x) {y}</a><b><a><script></script></a></b>", "f(x) {y}"),
        ("<a href=x>un<!-- no -->closed", "unclosed"),
        ("<area href=x alt='the area'>", "the area"),
        ("<a href=x>  </a>", None),
    ],
)
def test_anchor(tangle: str, html: str, anchor: str | None) -> None:
    assert [link.anchor for link in read_html(tangle + html).links] == [anchor]


# ---------------------------------------------------------------- title, canonical, directives


@each(
    ("html", "title"),
    [
        ("<title> A  page &amp;\n more </title>", "A page & more"), ("<title></title>", None),
        ("<p>none</p>", None), ("<title>first</title><title>second</title>", "first"),
        ("<title>" + "x" * 2000 + "</title>", "x" * 499 + "…"), ("<title>a<b>c</title>", "a<b>c"),
    ],
)  # fmt: skip
def test_title(tangle: str, html: str, title: str | None) -> None:
    assert read_html(html + tangle).title == title


def test_title_of_a_drawing_is_not_the_page_s() -> None:
    assert read_html("<svg><g><title>icon</title></g></svg>").title is None
    html = "<body>" + "<svg><title>icon</title></svg>" * 50 + "<title>page</title>"
    assert read_html(html).title == "page"
    assert read_html("<svg><title>icon</title></svg>" * 101 + "<title>page</title>").title is None


def test_canonical_url_is_the_first() -> None:
    html = '<link rel=canonical href="/c#x"><link rel=canonical href="/d">'
    assert read_html(html).canonical_url == "http://a.test/c"
    assert read_html("<link rel=next href=/c>").canonical_url is None
    assert read_html(f'<link rel=canonical href="{URL}">').canonical_url == URL
    from_header = read_html(html, ("Link", '</h>; rel="canonical"'))
    assert from_header.canonical_url == "http://a.test/h"


def test_directives_of_headers_and_meta_together(tangle: str) -> None:
    html = '<meta name=robots content="noarchive"><meta name=ExampleBot content=nofollow>'
    html += '<meta name=otherbot content=noindex><meta name=description content="noindex">'
    assert read_html(tangle + html).directives == Directives(follow=False, archive=False)
    with_header = read_html(
        tangle + html, ("X-Robots-Tag", "otherbot: noarchive"), ("X-Robots-Tag", "noindex")
    )
    assert with_header.directives == Directives(index=False, follow=False, archive=False)


# ---------------------------------------------------------------- headers, types


@each(
    ("header", "expected"),
    [
        ('<x>; rel="next"', ["http://a.test/dir/x"]),
        ("<x>;rel=next", ["http://a.test/dir/x"]),
        ('<x>; rel="prev next"; title="a, <b>; rel=c"', ["http://a.test/dir/x"]),
        (
            '<x>; rel=next, </y>; title="\\"," ; REL="Prev"',
            ["http://a.test/dir/x", "http://a.test/y"],
        ),
        ("<style.css>; rel=preload; as=style, <x>; rel=next", ["http://a.test/dir/x"]),
        ('<x>; rel=next; rel="stylesheet"', ["http://a.test/dir/x"]),
        ('<x>; rel=next; anchor="#other"', []),
        ("<x>", []),
        ("x; rel=next", []),
        ("<x; rel=next", []),
    ],
)
def test_link_header(header: str, expected: list[str]) -> None:
    """RFC 8288."""
    found = parse_page(URL, headers(("Link", header)), b"", tokens=TOKENS)
    assert urls(found) == expected
    assert urls(read_html("", ("Link", header))) == expected


def test_refresh_header() -> None:
    assert urls(read_html("<p>", ("Refresh", "5; url=/x"))) == ["http://a.test/x"]


def test_base_does_not_count_for_headers() -> None:
    read_page = read_html("<base href=/b/><a href=x>", ("Link", "<x>; rel=next"))
    assert urls(read_page) == ["http://a.test/dir/x", "http://a.test/b/x"]


def test_other_types_give_what_their_headers_say() -> None:
    answer = CIMultiDictProxy(
        CIMultiDict(
            [
                ("Content-Type", "application/pdf"),
                ("Link", "<x>; rel=canonical"),
                ("X-Robots-Tag", "none"),
            ]
        )
    )
    read_page = parse_page(URL, answer, b"<a href=y><title>z</title>", tokens=TOKENS)
    assert urls(read_page) == ["http://a.test/dir/x"]
    assert read_page.canonical_url == "http://a.test/dir/x"
    assert read_page.directives == Directives(index=False, follow=False)
    assert read_page.title is None


@each(
    ("content_type", "wanted"),
    [
        ("text/html", True), ("Text/HTML;charset=x", True), ("text/html, text/html", True),
        ("application/xhtml+xml", True), (None, True), ("text/plain", False),
        ("application/json", False), ("image/svg+xml", False), ("", False),
    ],
)  # fmt: skip
def test_bodies_with_links_are_wanted(content_type: str | None, wanted: bool) -> None:
    assert may_be_html(content_type) is wanted


@each(
    ("body", "count"),
    [
        (b"<html><a href=x>", 1),
        (b"\xef\xbb\xbf \n<!doctype html><a href=x>", 1),
        (b"%PDF <a href=x>", 0),
        (b"<?xml version='1.0'?><rss><a href=x>", 0),
    ],
)
def test_without_a_type_only_markup_is_read(body: bytes, count: int) -> None:
    assert len(parse_page(URL, CIMultiDictProxy(CIMultiDict()), body, tokens=TOKENS).links) == count


def test_xhtml_may_close_empty_elements() -> None:
    """In HTML `<title/>` and `<script/>` would swallow the rest of the page."""
    answer = CIMultiDictProxy(CIMultiDict([("Content-Type", "application/xhtml+xml")]))
    body = b'<html><head><title/><script src="s.js" /></head><body><a href="x"/></body></html>'
    assert urls(parse_page(URL, answer, body, tokens=TOKENS)) == ["http://a.test/dir/x"]


def test_charset_is_reported_and_counts() -> None:
    read_page = read_html(
        "<meta charset=windows-1251><title>Привет</title><a href=x>мир</a>".encode("cp1251"),
    )
    assert read_page.charset == "utf-8"  # the header goes before the meta element
    answer = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html")]))
    body = "<meta charset=windows-1251><title>Привет</title><a href=x>мир</a>".encode("cp1251")
    read_page = parse_page(URL, answer, body, tokens=TOKENS)
    assert (read_page.charset, read_page.title) == ("windows-1251", "Привет")
    assert read_page.links[0].anchor == "мир"


# ---------------------------------------------------------------- bounds


def test_links_are_bounded_and_counted(tangle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "LINKS_MAX", 3)
    read_page = read_html(tangle + "".join(f"<a href={n}>x</a>" for n in range(10)))
    assert len(read_page.links) == 3
    assert Skip.TANGLED not in read_page.skipped or tangle
    assert read_page.skipped[Skip.MAX_LINKS] == 7


def test_what_is_no_url_is_counted() -> None:
    html = "<a href=javascript:x><a href=mailto:x><a href='ftp://x/'><a href='http://['><a href=ok>"
    read_page = read_html(html)
    assert urls(read_page) == ["http://a.test/dir/ok"]
    assert read_page.skipped == {Skip.SCHEME: 3, Skip.UNPARSABLE: 1}


@each(
    ("href", "reason"),
    [
        ("MailTo:x@y.test", Skip.SCHEME), ("\x01 java\nscript:x", Skip.SCHEME),
        ("tel:1", Skip.SCHEME), ("https://", Skip.UNPARSABLE), ("HTTP://a b/", Skip.UNPARSABLE),
        ("//[", Skip.UNPARSABLE), ("http://a.test:99999/", Skip.UNPARSABLE),
        ("ht\ntp\t://[", Skip.UNPARSABLE), (" h\rttps\n://a b/", Skip.UNPARSABLE),
        ("ht\ntpx:", Skip.SCHEME),
    ],
)  # fmt: skip
def test_a_foreign_scheme_is_told_from_what_cannot_be_parsed(href: str, reason: Skip) -> None:
    links = PageLinks("http://a.test/")
    assert links.add(href) is None
    assert links.skipped == {reason: 1}


def test_a_huge_href_is_left_out_and_counted() -> None:
    read_page = read_html(f"<a href=/{'x' * 20_000}><a href=ok>")
    assert urls(read_page) == ["http://a.test/dir/ok"]
    assert read_page.skipped == {Skip.MAX_URL_BYTES: 1}


def test_markup_beyond_the_bound_is_not_read_and_counted() -> None:
    body = b"<a href=x>" + b" " * 100 + b"<a href=y>"
    cut = parse_page(URL, headers(), body, tokens=TOKENS, markup_bytes_max=100)
    assert urls(cut) == ["http://a.test/dir/x"]
    assert cut.skipped == {Skip.MAX_MARKUP: 1}
    whole = parse_page(URL, headers(), body, tokens=TOKENS, markup_bytes_max=len(body))
    assert len(whole.links) == 2
    assert whole.skipped == {}


@each(
    ("before", "unit"),
    [
        ("", "<div>"), ("", "<table><td>"), ("<a ", "x{n} "), ("", "<html x{n}>"),
        ("<p>" + "".join(f"<b id={n}>" for n in range(500)), "</p><p>x"),
        ("<a href=x><object>" * 2_000, "text "), ("", "<a "), ("", "<a x='"), ("", '<a x="'),
        ("", "<!--"), ("", "<script>"), ("", "<title>"), ("", "</script "), ("", "<![CDATA["),
        ("", "<svg><title>"), ("", "&amp"), ("<a href=x>", "&#x26"), ("<a href='", "&amp;"),
        ("", "<base href="), ("", "<meta name=robots content=noindex>"), ("", "<"), ("", "< a"),
        ("", "</"), ("", "<p\x00"),
    ],
)  # fmt: skip
def test_no_document_takes_long(before: str, unit: str) -> None:
    def html(size: int) -> str:
        return before + "".join(unit.format(n=n) for n in range(size // len(unit)))

    assert_linear(lambda text: read_html(text + "</script></title><a href=end>"), html, 75_000)


_PIECES = """
    <a~href=x> <a~href=' " ' > </a> <base~href=/b/> <link~rel=next~href=y> <area~href=q~alt=r>
    <meta~http-equiv=refresh~content='1;url=z'> <meta~name=robots~content=none> <title> </title>
    <script> </script> <!-- --> <svg> </svg> <![CDATA[ ]]> <iframe~src=w> &amp; &#0; &#x110000;
    &#xd800; text ü <p> <table> <td> <img~alt=i> <frameset> <frame~src=v> <template>
    <a~href=http://[>
"""
_HTML = st.lists(
    st.sampled_from([*_PIECES.replace("~", "\t").split(" "), "\n", "\x00", "\ufeff"]), max_size=25
).map("".join)
_TYPES = """
    text/html; text/html;charset=utf-8 text/html;charset=utf-16 text/html;charset=x
    text/html;charset=shift_jis text/html;charset=iso-2022-jp application/xhtml+xml
"""


@given(
    body=st.binary(max_size=300) | _HTML.map(str.encode) | _HTML.map(lambda s: s.encode("utf-16")),
    content_type=st.sampled_from(_TYPES.split())
    | st.text(st.characters(max_codepoint=0x2FF), max_size=60).map("text/html;".__add__),
    values=st.lists(
        st.tuples(
            st.sampled_from(["Link", "Refresh", "X-Robots-Tag", "Content-Type"]),
            st.text(max_size=60) | st.text('<>;,="\\ urlrelnext0', max_size=60),
        ),
        max_size=3,
    ),
)
@settings(max_examples=200, deadline=None)
@example(b"<a href='\xff\xfe'>\x80</a>", "text/html", [])
@example(b"\x1b$B<a href=x>", "text/html; charset=iso-2022-jp", [])
def test_hostile_input_never_raises(
    body: bytes, content_type: str, values: list[tuple[str, str]]
) -> None:
    answer = CIMultiDictProxy(CIMultiDict([("Content-Type", content_type), *values]))
    read_page = parse_page(URL, answer, body, tokens=TOKENS)
    assert len(set(urls(read_page))) == len(read_page.links)
    for link in read_page.links:
        assert canonical(link.url) == link.url
        assert link.anchor is None or 0 < len(link.anchor) <= 200
        (link.anchor or "").encode()
    (read_page.title or "").encode()


@given(_HTML)
@settings(max_examples=120, deadline=None)
@example("<a\thref='<a\thref=x>")
@example("<a\thref=x><base\thref=/b/>")
@example("<a\thref='\x00x'>a\x00b</a><a\thref=x\x00y\thre\x00f=z>")
def test_both_ways_of_reading_find_much_the_same(html: str) -> None:
    """Where there is nothing that only a tree can tell apart."""
    structural = ["<svg", "<frame", "<template", "<![CDATA", "<table", "<iframe", "<td", "<title"]
    if any(piece in html for piece in structural):
        return
    tree, flat = page._Reader(URL, PageLinks(URL)), page._Reader(URL, PageLinks(URL))
    tree.read_tree(build_tree(html.encode()))
    flat.read_tokens(html.encode())
    assert [link.url for link in tree.links.found()] == [link.url for link in flat.links.found()]
    assert tree.metas == flat.metas

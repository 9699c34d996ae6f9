"""The native reader says of a page exactly what the one in Python says, or leaves it the page."""

from __future__ import annotations

import os
import random
import sys
import time
from html.entities import html5
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import native_page, page_reader, scan
from crawler.fetching.request import Headers
from tests.benchmarks.test_reading_speed import make_page
from tests.crawler.documents import both_readers, test_page_fuzz, test_scan
from tests.crawler.documents.native import structures
from tests.tables import each

pytestmark = pytest.mark.skipif(
    not both_readers.is_installed(), reason="courtly-native is not installed"
)

URL = "http://a.test/dir/page.html?q"
TOKENS = ("examplebot", "a.b-c")


def headers(*pairs: tuple[str, str]) -> Headers:
    return CIMultiDictProxy(CIMultiDict(pairs))


HEADERS = headers(("Content-Type", "text/html; charset=utf-8"))


def check(html: str | bytes, given_headers: Headers = HEADERS, url: str = URL) -> bool:
    """Compare the readers. Return whether the native one read the page."""
    body = html if isinstance(html, bytes) else html.encode("utf-8", "surrogateescape")
    before = page_reader.pages_read.native
    expected, found = both_readers.read_by_both(url, given_headers, body, TOKENS)
    for what, value in expected.items():
        assert found[what] == value, f"{what} of {body!r}"
    return page_reader.pages_read.native > before


# ---------------------------------------------------------------- whole pages

REPOSITORY = Path(__file__).parents[4]


def test_ordinary_pages_are_read_alike() -> None:
    for number in range(20):
        url, body = make_page(f"h{number}.test", number)
        assert check(body, url=url)
    for html in test_scan.ORDINARY:
        check(html)


def test_pages_of_this_repository_are_read_alike() -> None:
    pages = sorted(
        path for path in REPOSITORY.rglob("*.html") if not path.is_relative_to(REPOSITORY / ".venv")
    )
    pages = [path for path in pages if path.stat().st_size < 1_000_000][:200]
    assert pages
    for path in pages:
        check(path.read_bytes())


@each(
    "html",
    [
        "<p>" + "<" * 300 + "<a href=x>y</a>", "<b>" * 199 + "<<b><a href=x>",
        "<b>" * 200 + "<a href=x>", "<b>" * 201 + " <a href=x>", "x<!--" + "-" * 6_000 + "-->",
        "<a href=x>" + "<b>" * 5_000 + "</a>", "<a href=x>" + "<b>" * 4_999 + "</a>",
        "<a href=x>" + "<b>x" * 2_500 + "</a>", "<meta name=robots content=none>" * 1_001,
        "<svg></svg>" + "<title>a</title>" * 101, "<a href=x>y</a>" * 66_000,
        "<svg><title>a</title></svg>" + "<title>b</title>" * 10,
        "".join(f"<a href={n}>" for n in range(50_001)), f"<a href={'x' * 20_000}><a href=y>",
        f"<a href='{'ä' * 16_384}'><a href='{'ä' * 16_385}'>", "<p" + " a" * 1_000 + ">",
        "<p" + " a" * 400 + ">", "<a" + " a" * 600 + " href=x>", "\0<a href=x>",
        "<a href=x>\udcff</a>", "\udcff", "<a", "<a href=x", "<a href=x>y</a", "<title>a",
        "</title>", "<title></title><title>b</title>", "<title>\x1c</title><title>\u200b</title>",
        "<title> </title><title>&nbsp;</title><title>b</title><title>c</title>",
        f"<title>{' ' * 5_000}a</title><title>b</title>", "<base href=''><a href=#d>",
        "<base><base href=/b/><base href=/c/><a href=d>", "<base href='mailto:x'><a href=d>",
        "<a href=d><base href='http://b.test'>", f"<base href='{'x' * 20_000}'><a href=d>",
        "<a href=../x><base href=http://b.test/c/d/>", "<base href='\u00e4'><a href=d>",
        "<a rel=nofollow href=x>y</a><a href=x rel=''>z</a><a href=./x>w</a>",
        "<a rel='a NoFollow' href=x>y</a><a href='x#1' rel='nofollow'>z</a>",
        "<link rel=canonical href='mailto:x'><link rel='x canonical' href=b>",
        "<link rel=canonical href=b><link rel=canonical href=c><link rel=next href>",
        "<link rel='stylesheet next' href=a><link rel=next><link rel=NEXT href=''>",
        "<iframe src=''></iframe><iframe src></iframe><iframe src=a&amp;b></iframe>",
    ],
)  # fmt: skip
def test_unusual_pages_are_read_alike(html: str) -> None:
    check(html)


@each(
    "html",
    [
        # In capital letters.
        (
            "<HTML><BODY><P><A HREF=x REL=NoFollow>a <B>b</B></A><BASE HREF=/c/>"
            "<LINK REL=next HREF=d>"
        ),
        "<TITLE>a</title><META NAME=Robots CONTENT=none><IFRAME SRC=x><a href=no></Iframe>",
        "<A HREF=x><IMG ALT=y></A><A HREF=z><FONT>a</Font></A >",
        # Raw text.
        "<script><!--<script></script><a href=no></script>--></SCRIPT><a href=x>",
        "<script><!--<script>--></script><a href=x>", "<style><a href=no></STYLE><a href=x>",
        "<xmp><a href=no></xmp><noembed><a href=no></noembed>", "<textarea><a href=no>",
        "<title>a<a href=no>", "<a href=x><plaintext><a href=no></plaintext>",
        "<title>a&amp;<b></TITLE/><title>c</title>", "<iframe src=x><a href=no>",
        # Foreign content.
        "<svg><style><a href=x></style><title>a</title></svg><title>b</title>",
        "<svg><a href=x>a</a><a xlink:href=no>b</a></svg>", "<svg><link rel=next href=x></svg>",
        "<svg><foreignObject><div><a href=x>a</a><p>b</p></div></foreignObject></svg><a href=y>",
        "<svg><foreignObject><title>a</title></foreignObject></svg><title>b</title>",
        "<svg><g><path></g><p><a href=x></svg><title>a</title>", "<svg></p><title>a</title>",
        "<svg><![CDATA[><a href=no>]]></svg><![CDATA[><a href=x>", "<svg/><title>a</title>",
        "<svg a=b/><title>a</title></svg><title>c</title>",
        "<svg><SCRIPT><a href=x></SCRIPT></SVG>", "<svg><desc><svg></desc></svg><title>a</title>",
        "<svg><iframe src=x><a href=y></iframe></svg>",
        "<math><mi><b>a</b></mi><mo><</mo><mtext><a href=x>b</a></mtext></math><a href=y>c</a>",
        "<math><mi><mglyph><style><a href=x></style></mglyph></mi></math>",
        "<a href=x><svg><style></style></svg>a</a>",
        # Templates.
        "<template><a href=no><template></template><title>no</title></template><title>a</title>",
        "<template><svg><style></template><a href=x>", "<template><a href=no>",
        "</template><A HREF=x>",
        "<template><tr></table></div></body><a href=no></template><a href=x>",
        "<table><template><a href=no></template><tr><td><a href=x>",
        # Tables.
        (
            "<table><form action=a><input type=hidden><tr><td><a href=x>a</a></form>"
            "</table><a href=y>"
        ),
        "<a href=w><table><a href=x>a</a><tr><td><a href=y>b</a></table><a href=z>",
        (
            "<table>a<tr><td><a href=x><table><caption><a href=y></caption></td><tr><td>"
            "<a href=z></table>"
        ),
        "<table><thead><tr><th><a href=x></td></tbody><a href=y></thead></table>",
        "<table><caption></td></tr><a href=x></caption><col><tr><td></caption><a href=y></table>",
        "<table><td><a href=x></th><a href=y></tr></table>", "<table></div><td><a href=x>a",
        # The rest.
        (
            "<title>a</title><frameset><frame src=x><a href=no><frameset><frame src=y>"
            "</frameset></frameset><frame src=no><noframes><a href=no></noframes><title>b</title>"
        ),
        "<select><a href=x>a</a><select><div><a href=y>b</a></select>",
        "<map><area href=x alt=a></map>", "</ ><a href=x></><!-><a href=y><?><a href=z>",
        "<!--a--!><a href=x><!--->b<a href=y>", "\0<p a=\0>b<a href=x>a</a><!--\0-->",
        "<a href='x\r\ny\r' rel=a>b</a><SVG>",
        "<P><META NAME='' CONTENT=a><META NAME CONTENT=a><META NAME=b CONTENT='c\r\nd'>",
        "<frame src=no><a href=x><!-- ", "<P><a href=x title='", "<P><a href=x><b", "<P><",
    ],
)  # fmt: skip
def test_what_needs_a_tree_in_python_is_read_natively(html: str) -> None:
    assert scan.rows(html) is None
    assert check(html)
    assert check(f"<p>{html}") or "<frameset>" in html
    check(f"{html}<a href=last>z</a><title>y</title>")


@each(
    "html",
    [
        "<table><tr><td><a href=x></td></tr><a href=y></table>", "<svg></b></svg>",
        "a<frameset><frame src=x>", "<svg><font color=a><a href=x>", "<math><title>a</title>",
        "<svg><foreignObject><table>", "<svg><foreignObject><div><p></div>", "<template><col><a>",
        "<math><annotation-xml encoding=text/html><a href=x>", "<SVG>" + "<g>" * 300,
        "<template><object><a href=x></template>b", "<TITLE></TITLE>" * 101, "<P><a href='\0'>",
        "<P><a\0>", "<SVG><desc><p><p></desc></SVG>", "<P" + " a" * 600 + ">",
        "<P " + "".join(f"a{number}=b " for number in range(120)) + ">",
        "<P>" + "<b>" * 750 + "<a href=x>",
    ],
)  # fmt: skip
def test_what_is_uncertain_is_left_to_python(html: str) -> None:
    assert not check(html)


@each(
    ("before", "expected"),
    [
        ("", True), ("<p>", False), ("<p></p>", True), ("<p><div>", True), ("<p><form>", False),
        ("<p></div>", False), ("<P><b></P>", True), ("<p><button>", True), ("</p>", True),
        ("<p><button></p></button>", False), ("<p><button><button><p></button>", False),
        ("<p><select><input>", False), ("<p><select><select>", False), ("<p><select>", True),
        ("<p><select><button></select>", False), ("<p><object><button></object>", False),
        ("<p><object><button></marquee>", True), ("<p><table></table>", False),
        ("<table><tr><td><p>", False), ("<table><tr><td><p><td>", True),
        ("<table><tr><td><p></th>", False), ("<table><tr><td><p><button><tr><th>", True),
        ("<table><tr><td><p></td></tr></table>", True), ("<p><table><table></table>", False),
        ("<table><tr><td><object></table>", True), ("<p><svg><desc><p></p></desc></svg>", False),
        ("<p><template></p></template>", False), ("<svg><p>", False), ("<p><svg></p>", True),
        ("<p><script></p></script>", False), ("<p></svg>", False),
        ("<p>" + "<object>" * 101, False),
    ],
)  # fmt: skip
def test_paragraphs_around_an_anchor_are_known(before: str, expected: bool) -> None:
    html = f"{before}<a href=x>d<p>e</p></a>"
    assert check(html)
    with both_readers.native():
        native = native_page.reader_for(TOKENS)
        assert native is not None
        read = native.read(html.encode(), "http://a.test", "http://a.test/dir/", URL)
    assert read is not None
    assert read.may_contain_blocks(html.index("d<p>")) is expected


@each(
    ("content_type", "body"),
    [
        ("text/html; charset=koi8-r", "<a href='?ж=1'>ж</a><a href='/ж'>".encode("koi8-r")),
        (
            "text/html; charset=iso-2022-jp",
            "<a href='?日~'>日</a><a href='?a=\\'>".encode("iso-2022-jp"),
        ),
        ("text/html; charset=utf-16", "<a href='?ж'>".encode("utf-16")),
        ("text/html", "<meta charset=windows-1252><a href='?é'>é</a>".encode("latin-1")),
        ("application/xhtml+xml", b"<p/><a href='x'/><title/><a href='y'>z</a>"),
        ("text/html", b"\xef\xbb\xbf<a href=x>\xc3\xa9</a><a href='?\xc3\xa9'>"),
        ("text/html; charset=replacement", b"<a href=x>"),
    ],
)
def test_encodings_are_read_alike(content_type: str, body: bytes) -> None:
    check(body, headers(("Content-Type", content_type)))


def test_invalid_utf_8_is_read_natively_too() -> None:
    for wrong in (
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
    ):
        assert check(b"<title>a%b</title><a href='?%b'>%b</a><p title=%b>%b" % ((wrong,) * 5))


@each(
    "link",
    ["<x>; rel=next", "</canonical>; rel=canonical", "<mailto:x>; rel=next", "<y>; rel=shortlink"],
)
def test_links_of_headers_are_read_alike(link: str) -> None:
    given_headers = headers(("Content-Type", "text/html"), ("Link", link), ("Refresh", "0;url=z"))
    for html in (
        "<a href=x>y</a><a href=z>",
        "<base href=/b/><link rel=canonical href=c><a href=x>",
    ):
        check(html, given_headers)
        check(html, headers(("Content-Type", "text/html"), ("Link", link)))


# ---------------------------------------------------------------- attributes and words


def test_all_references_are_decoded_alike() -> None:
    names = list(html5)
    for start in range(0, len(names), 100):
        values = [
            f"/&{name}{rest}" for name in names[start : start + 100] for rest in ("", "=", "x", "&")
        ]
        assert check("".join(f'<a href="{value}">t</a>' for value in values))
    numbers = [*range(0x110), 0xD7FF, 0xD800, 0xDFFF, 0xFFFF, 0x10FFFF, 0x110000, 99_999_999]
    references = [
        form.format(n) for n in numbers for form in ("&#{}", "&#{};", "&#x{:x};", "&#X00{:X}")
    ]
    assert check("".join(f'<a href="/{reference}">t</a>' for reference in references))


def test_white_space_is_that_of_python() -> None:
    spaces = [chr(code) for code in range(sys.maxunicode) if chr(code).isspace()]
    for space in [*spaces, "\u200b", "\ufeff", "\u180e"]:
        assert check(
            f'<a href="a" rel="x{space}nofollow">t</a><link rel="x{space}next" href=b>'
            f'<meta http-equiv="{space}refresh" '
            f'content="{space}0{space};{space}url{space}={space}c{space}">'
            f'<meta http-equiv="refresh" content="0{space}d"><base href="{space}">'
        )


@each(
    "content",
    [
        "0;url=x", "0;URL = 'x y' z", "0, x", "0 x", "x", "1.5.;x", ".;x", ";x", "0", "0;", "0;url",
        "0;url=", "0;urlx", "0;url='", '0;"x', "0;url=&quot;x&quot;", "0;url==x", "\u0661;x",
        "-1;x", "0;;x", "0;url=\u00e4", "0;u", "0;ur\u212a=x", "0;\u00e4\u00e4",
    ],
)  # fmt: skip
def test_refreshes_are_read_alike(content: str) -> None:
    for equiv in ("refresh", " REFRESH\t", "refre&#115;h", "refresh2"):
        assert check(
            f'<a href=a><meta name=robots http-equiv="{equiv}" content="{content}"><a href=b>'
        )


@each(
    "meta",
    [
        "name=robots content=noindex", "NAME=Robots CONTENT='none'", "name=examplebot content=x",
        "name=description content='a &amp; b'", "name=d content=a", "name='\u00e4' content=x",
        "name='*' content=x", "name=A.B-C content=nofollow", "name=axb-c content=nofollow",
        "name=robots", "content=robots", "name= content=robots", "property=robots content",
        "name=tdm-policy content=x", "name=TDM-Reservation content=1",
        "name=robots content=a name=d content=b", "http-equiv=robots content=x",
    ],
)  # fmt: skip
def test_meta_elements_are_read_alike(meta: str) -> None:
    assert check(f"<meta {meta}><meta {meta}/>")


# ---------------------------------------------------------------- URLs

_STARTS_TEXT = """
    http:// https:// HTTP:// // / ./ ../ ../../ ? # http: https:/ http:/// .. . mailto: h httpx://
    javascript: x: \u017foo: 1: +a: http://u@ ../../../../ //// ~ ; ws:// http:\\\\ \\
"""
_HOSTS_TEXT = """
    a.test A.test a a.b.c 1.2.3.4 1.2.3.256 01.2.3.4 1.2.3 1.2.3.4.5 a.1 1.a a-b.c a--b.c -a.b a-.b
    xn--a.b a..b .a a. 255.255.255.255 0.0.0.0 [::1] a_b %61.b a.test:8 1.2.3.04
"""
_PORTS_TEXT = ": :80 :443 :8080 :65535 :65536 :10000 :99999 :08 :8x :0 :655350"
_PATHS_TEXT = """
    / /a /a/./b /a/../b /.. /. /.a /... /a/.. /a/. /%2e /%2E/ /%41 /%4a /%4A /%20 /%zz /% /%C3%A9
    /\u00e9 /a:b /a//b /a;b=c,d /[a] /a|b /a'b /a"b /a<b /a`b /a{b /a^b /a\\b /a&amp;b /a@b
    /a!$b*(c)
"""
_QUERIES_TEXT = "? ?a=b ?a=' ?/../b ?%41 ?%20 ?\u00e9 ?a?b ?a:b# ?&amp;x=&lt;"
_STARTS, _HOSTS, _PATHS = _STARTS_TEXT.split(), _HOSTS_TEXT.split(), _PATHS_TEXT.split()
_PORTS, _QUERIES = ["", *_PORTS_TEXT.split()], ["", "?a b", *_QUERIES_TEXT.split()]
_FRAGMENTS = ["", "#", "#a", "# a", "#\n", "#%zz", "#a#b"]
_BASES = [
    URL, "http://a.test/", "https://a.test:8080/a/b/c/d?e/f", "http://1.2.3.4/x/",
    "http://a.test//b//c",
]  # fmt: skip


def anchors(hrefs: list[str]) -> str:
    return "".join(
        f'<a href="{href}">t</a>' if '"' not in href else f"<a href='{href}'>t</a>"
        for href in hrefs
    )


def test_combined_urls_are_resolved_alike() -> None:
    hosts = [
        "".join(parts)
        for parts in product(["http://", "//", "https://"], _HOSTS, _PORTS, ["", "/", "/a?b"])
    ]
    paths = [
        "".join(parts) for parts in product(["", "b", "..", "http://b.test"], _PATHS, _QUERIES)
    ]
    tails = ["".join(parts) for parts in product(["", "b", "/b", "../b"], _QUERIES, _FRAGMENTS)]
    starts = ["".join(parts) for parts in product(_STARTS, ["", "b", "b/c:d", "../b", "./b"])]
    for base in _BASES:
        for hrefs in (hosts, paths, tails, starts):
            assert check(anchors(hrefs), url=base)


_URL_PIECES = st.sampled_from(
    [*_STARTS, *_HOSTS, *_PORTS, *_PATHS, *_QUERIES, *_FRAGMENTS, *"abz09/.:?#%-_ \n\t\u00e9&"]
)
_HREFS = st.lists(_URL_PIECES, max_size=6).map("".join)


@given(
    st.lists(_HREFS | st.text(max_size=12), max_size=12),
    st.sampled_from(_BASES),
    st.none() | _HREFS,
)
@settings(max_examples=150, deadline=None)
def test_any_urls_are_resolved_alike(hrefs: list[str], url: str, base: str | None) -> None:
    html = anchors([href.replace('"', "") for href in hrefs])
    if base is not None:
        html += f'<base href="{base}">'.replace("\ud800", "")
    check(html.encode("utf-8", "replace"), url=url)


# ---------------------------------------------------------------- markup

_WORDS = """
    href HREF rel src content name http-equiv title = = = = " " ' ' > / x nofollow next canonical
    robots refresh "u" 'v' "" '' "&amp;" &copy &copy; "?a&b=c" "../x" http://b.test/ "#f" \u00e9
    \u212a
"""
_BLANKS = [" ", " ", " ", "\n", "\t", "\f", "\r"]
_ATTRIBUTES = st.lists(st.sampled_from([*_WORDS.split(), *_BLANKS]), max_size=12).map("".join)
_TAGS = st.tuples(
    st.sampled_from(
        [
            "<a ",
            "<a ",
            "<link ",
            "<meta ",
            "<base ",
            "<iframe ",
            "<p ",
            "<td ",
            "<a",
            "<svg ",
            "</a ",
        ]
    ),
    _ATTRIBUTES,
    st.sampled_from([">", ">", ">t</a>", "/>", "></iframe>", "></svg>", ""]),
).map("".join)
_PIECES = st.sampled_from([*test_scan._PIECES, *test_scan._TAME, *test_scan._FOREIGN.split()]).map(
    lambda piece: piece.replace("\t", " ").replace("~", " ")
)
_DOCUMENTS = (
    st.lists(_TAGS | _PIECES, max_size=14).map("".join)
    | test_scan._ANY
    | st.lists(st.sampled_from(test_scan._TAME), max_size=25).map("".join)
)


@given(_DOCUMENTS)
@settings(max_examples=500, deadline=None)
@example('<a href="x" href="y" rel="nofollow">t</a>')
@example('<a rel="nofollow" href="x" rel="z" b>t</a>')
@example("<table><!----><!-- - -- --!><tr><td>x")
def test_any_markup_is_read_alike(html: str) -> None:
    check(html)


@given(st.randoms(use_true_random=False))
@settings(max_examples=700, deadline=None)
def test_any_structure_is_read_alike(rng: random.Random) -> None:
    check(structures.document(rng))


@given(
    st.lists(st.sampled_from(test_page_fuzz._MARKUP), max_size=30).map(b"".join)
    | st.binary(max_size=200)
)
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_alike(body: bytes) -> None:
    check(body, headers(("Content-Type", "text/html")))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_random_documents_are_read_alike() -> None:
    """For NATIVE_FUZZ_S seconds, from a new seed each time."""
    seed = random.SystemRandom().getrandbits(64)
    sys.stdout.write(f"\nseed {seed}\n")
    rng = random.Random(seed)
    rich = [
        *test_scan._PIECES,
        *test_scan._FOREIGN.split(),
        *test_scan._UNITS,
        *test_scan._REFERENCES.split(),
    ]
    tame = [*test_scan._TAME, *(f'<a href="{path}">t</a>' for path in _PATHS + _HOSTS), *_QUERIES]
    structured = 0
    until_s = time.monotonic() + float(os.environ.get("NATIVE_FUZZ_S", "60"))
    read = done = 0
    while time.monotonic() < until_s:
        html = "".join(
            rng.choice(rich if rng.random() < 0.15 else tame) for _ in range(rng.randrange(1, 40))
        )
        if rng.random() < 0.3:  # something goes missing or is repeated
            at, length = rng.randrange(len(html) + 1), rng.randrange(4)
            html = (
                html[:at]
                + rng.choice(["", html[at : at + 9], *"<>\"'=/& -!a"])
                + html[at + length :]
            )
        read += check(
            html.replace("\t", rng.choice(" \t")).replace("~", " "), url=rng.choice(_BASES)
        )
        structured += check(structures.document(rng))
        done += 1
    sys.stdout.write(f"{read} and {structured} of twice {done} documents read natively\n")
    assert min(read, structured) > done // 10

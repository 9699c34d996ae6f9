"""Links by one regular expression: what it answers is what a tree says, and it answers for pages as
people write them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from selectolax.lexbor import LexborHTMLParser

from crawler.documents import markup, page, scan
from crawler.documents.links import PageLinks
from crawler.documents.tree import build_tree
from policies.indexing import from_meta
from tests.growth import assert_linear, reference_s, repeated
from tests.tables import each

pytestmark = pytest.mark.skipif(not scan._SOUND, reason="every page gets a tree")

URL = "http://a.test/dir/page.html"
HEADERS = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8")]))
TOKENS = ("examplebot",)


def by_tree(html: bytes) -> page.ParsedPage:
    reader = page._Reader(URL, PageLinks(URL))
    reader.read_tree(build_tree(html))
    return page.ParsedPage(
        title=reader.title, page_links=reader.links, directives=from_meta(reader.metas, TOKENS),
        canonical_url=reader.links.canonical_url, skipped=reader.links.skipped,
    )  # fmt: skip


def seen(read: page.ParsedPage) -> tuple[object, ...]:
    skipped: Mapping[str, int] = dict(read.skipped)
    return read.title, read.links, read.directives, read.canonical_url, skipped


def check(html: str) -> None:
    body = html.encode("utf-8", "surrogateescape")
    if scan.rows(body.decode(errors="replace")) is not None:
        assert seen(page.parse_page(URL, HEADERS, body, tokens=TOKENS)) == seen(by_tree(body)), html


# ---------------------------------------------------------------- it answers

ORDINARY = [
    "",
    "no markup < at all > 1",
    "<!DOCTYPE html><html lang=en><head><title>t &amp; u</title></head><body><a href=x>y</a>",
    "<p>unclosed<p>paragraphs<li><a href=x>a</a><li><a href='y'>b</a>",
    "<a href=x>one<a href=y>two",
    '<table class="t"><tr><td><a href=x>a</a></td><td>b<td>c</tr></table><a href=y>z</a>',
    "<table><caption>c</caption><colgroup><col></colgroup><thead><tr><th>h<tbody><tr><td>x</table>",
    "<table><tr><td><table><tr><td><a href=x>y</a></td></tr></table></td></tr></table>",
    "<script>if (a < b) { x = '<a href=no>' }</script><a href=x>",
    "<script><!-- old --></script><style>a > b { }</style><a href=x>",
    "<svg viewBox='0 0 1 1'><title>i</title><g><path d='M0'/></g></svg><a href=x>y</a>",
    "<a href=x><svg><title>icon</title><path d=''/></svg></a>",
    "<a href=x><img src=i alt='the picture'></a>",
    "<svg><!-- <a href=no> --><path/></svg><a href=x><svg><!-- > --><title>b</title></svg></a>",
    "<a href=x><div><h2>card</h2><p>text</p></div></a><p>a <b>b</b></p>",
    "<p>open<a href=x><div><h2>card</h2><p>text</p></div></a>",
    "<a href=x>one<h1>two</a>",
    "<a href=x>one<div>two<b>three</a>",
    "<a href=x>one<span>two<b>three</a>",
    "<select name=s><optgroup label=l><option value=1 selected>a<option>b</optgroup></select>",
    "<textarea><a href=no></textarea><iframe src=f><a href=no></iframe>",
    "<!-- <a href=no> --><!--[if IE]><a href=no><![endif]--><a href=x>",
    "<noscript><img src=p><a href=x>y</a></noscript>",
    "<form action=a><input name=q value='a > b'><button>go</button></form><a\nhref = x>",
    "<a rel=nofollow href=x><a rel='a b' href=y><a href=z rel=\"nofollow\">",
    "<meta name=robots content=noindex><meta http-equiv=refresh content='0;url=x'>",
    "<link rel=canonical href=c><link rel=stylesheet href=s><base href=/b/><a href=x>",
    "<div onclick=\"a('<b>')\" data-x='{\"a\": \"<i>\"}'><a href=x title='>'>y</a></div>",
    '<a HREF="x">y</a><a href="a" href="b">c</a><a href="">d</a><a href>e</a><a>f</a>',
    "<a href='?a=1&b=2&amp;c=3&copy=4&copy'>&notit; &#65; &#0; &#xd800; &eacute;</a>",
    "<p title=x <a href=y><a href=z>",
    "<template id=t><style></style><div><p><a href=no>no</a><br></div></template><a href=x>",
    "<x-y z><a href=x>custom</a></x-y></x-y>",
]  # fmt: skip


@each("passed", [0, 1, *range(198, 203), *range(398, 403)])
@each("text", ["", " ", "text"])
def test_a_row_may_end_anywhere_in_what_is_passed_over(passed: int, text: str) -> None:
    tags = f"<i>{text}" * passed
    for rest in ("", "<a href=x>y</a>", "<title>t</title><a href=x>", "</i>"):
        html = f"{text}{tags}{rest}"
        assert scan.rows(html) is not None, html
        check(html)
    for doubtful in ("<TABLE><a href=x>", "<math>", "<script>"):
        assert scan.rows(f"{text}{tags}{doubtful}") is None


def test_law_7_the_rows_of_one_page_take_bounded_memory() -> None:
    """A tree, or reading tag by tag, takes less than hundreds of thousands of rows."""
    assert len(scan.rows("<a href=x>" * (scan._ROWS_MAX - 1)) or ()) == scan._ROWS_MAX
    assert scan.rows("<a href=x>" * scan._ROWS_MAX) is None


@each("html", ORDINARY)
def test_ordinary_pages_need_no_tree(html: str) -> None:
    assert scan.rows(html) is not None
    check(html)


@each("html", ORDINARY)
def test_an_anchor_is_read_when_it_is_asked_for(html: str) -> None:
    read = page.parse_page(URL, HEADERS, html.encode(), tokens=TOKENS)
    for url, anchor, _ in by_tree(html.encode()).links:
        assert read.page_links.anchors([url])[url] == anchor


# ---------------------------------------------------------------- it does not


@each(
    "html",
    [
        "<table><a href=x>moves</a><tr><td><a href=y></table>",
        "<table><tr><td>a</td></tr><div><a href=x></div></table>",
        "<table><tr><script></script><a href=x></table>",
        "<table><!-- --><a href=x></table>",
        "<template><template></template><a href=x></template>",
        "<template><a href=x>",
        "<template></body><a href=x></template>",
        "<template><td><a href=x></template>",
        "<template><svg><style></template><a href=x></style></svg></template>",
        "<frameset><frame src=x></frameset>",
        "<svg><foreignObject><a href=x></foreignObject></svg>",
        "<svg><a href=x></svg>",
        "<svg/><title>x</title></svg>",
        "<svg><style><a href=x></style></svg>",
        "<math><title><a href=x></title></math>",
        "<select><title></title><a href=x></select>",
        "<script><!--<script></script><a href=x></script>--></script>",
        "<script><a href=x>",
        "<title><a href=x>",
        "<textarea><a href=x>",
        "<!-- <a href=x>",
        "<a href='x",
        '<p title="><a href=x>',
        "<plaintext><a href=x>",
        "<xmp><a href=x></xmp>",
        "<noframes><a href=x></noframes>",
        "<noembed><a href=x></noembed>",
        "<A HREF=x>y</A>",
        "<SCRIPT><a href=x></SCRIPT>",
        "<script><a href=x></SCRIPT><a href=y></script>",
        "<title>a</TITLE><a href=x></title>",
        "<map><area href=x></map>",
        "<a href=x\x00y>",
        "</ ><a href=x>",
    ],
)  # fmt: skip
def test_what_only_a_tree_can_tell_is_left_to_it(html: str) -> None:
    if scan.rows(html) is not None:
        check(html)
        check(html + "<a href=z>z</a>")
        pytest.fail("it is answered, and rightly; it may move to the ordinary ones")
    read = page.parse_page(URL, HEADERS, html.encode(), tokens=TOKENS)
    assert seen(read) == seen(by_tree(html.encode()))


@each(
    "held",
    [
        "a</b>c", "a<b>c</i>", "<script>x</script>", "a<li>b</li>", "a<b", "<p>a<div>b</div></p>",
        "<h1>a<h2>b</h2></h1>", "<button>a</button>", "a</p>b", "a</div>b", "<ul><li>a<li>b</ul>",
        "<p>a<p>b</p></p>", "a<table></table>", "a<option>b", "a<x", "<ul><p><li>a</li></p></ul>",
    ],
)  # fmt: skip
def test_what_ends_or_moves_in_an_anchor_is_left_to_the_tree(held: str) -> None:
    assert scan.anchor_text(held + "</a>", blocks=True) is None
    check(f"<div><b><p><a href=x>{held}</a>d")
    check(f"<div><b><p></p><a href=x>{held}</a>d")


@each(
    "held",
    [
        "<div>a</div>b", "<h2><b>a</b></h2><p>b</p>", "<ul><li>a</li><li>b</li></ul>", "<p>a</p>b",
        "<section><h1>a</h1><div><p>b</p></div></section>", "<div><h1>a</h1></div><h2>b</h2>",
        "<figure><img src=a alt=b><figcaption>c</figcaption></figure>",
    ],
)  # fmt: skip
def test_blocks_in_an_anchor_need_no_tree_where_no_paragraph_is_open(held: str) -> None:
    anchor = f"<a href=x>{held}</a>c"
    assert scan.anchor_text(held + "</a>", blocks=False) is None
    assert scan.anchor_text(held + "</a>", blocks=True) is not None
    for before in (
        "", "<p>d</p>", "<p>d <b>e</b><br></p>", "</p>", "<div><h1>", "<li>", "<b><p></b></p>",
        "<!-- <p -->",
    ):  # fmt: skip
        assert scan.paragraphs_are_closed(before + anchor)
        check(before + anchor)
    for before in ("<p>", "<p>d<p></p>", "<p><button></p></button>", "<p><b>", "<p><div></p>"):
        assert not scan.paragraphs_are_closed(before + anchor)
        check(before + anchor)


# ---------------------------------------------------------------- properties

_PIECES = """
    <a~href=x> <a~href="/y"> <a~href='z'~class="c"> <a~class="c"~href="../w"~rel="nofollow"> </a>
    <a~name=n> <a> <a/href=v> <a~href=u~href=t> <a~HREF="s"> <A~href=r> </A> <a~href="> <a~href='>
    <a~title="<a~href=no>"~href="q"> <a~href="p"q> <a~href="#f"> <a~href="?g"> <a~href="mailto:x">
    <a~href="//b.test/o"> <a~href="http://c.test/m?a=1&amp;b=2#n"> <a~href="l&copy=1&copy&#120;">
    <base~href=/b/> <base> <link~rel=next~href=k> <link~rel="canonical"~href="j"> <link~rel=icon>
    <area~href=i~alt=h> <meta~http-equiv=refresh~content='1;url=g'> <meta~charset=utf-8>
    <meta~name=robots~content=none> <meta~name="ExampleBot"~content="noindex"> <img~alt=""> <img>
    <title> </title> <title>t</title> <script> </script> <script~src="s"> <style> </style> <!-- -->
    <!--> <!x> <?x> </> </~x> <![CDATA[ ]]> <svg> </svg> <svg/> <path~d=""/> <g> </g> <desc> </desc>
    <svg><title>i</title></svg> <math> </math> <mi> <iframe~src=f> </iframe> <iframe/> <textarea>
    </textarea> <select> </select> <option> <optgroup> <table> </table> <tr> </tr> <td> </td> <th>
    <tbody> </tbody> <thead> <tfoot> <caption> </caption> <col> <colgroup> </colgroup> <p> </p>
    <div> </div> <span> </span> <b> </b> <i~class="i"> </i> <li> <ul> </ul> <h1> </h1> <h2> </h2>
    <form> </form> <button> </button> <object> </object> <br> </br> <img~alt="pic"> <nobr> </nobr>
    <template> </template> <frameset> <frame~src=e> <noscript> </noscript> <xmp> </xmp> <noembed>
    <plaintext> <head> </head> <body> </body> <html~a=b> </html> <noframes> <code> </code> <dd> <dt>
    <p~title=">"> <p~title='"'> <p~x=y"> <p~="> <p~"> <p~a=> <p~a~=~"b"> <p~a="1"b="2"> < > " ' = &
    &amp; &eacute; &notit; &#0; text ü word <marquee> </marquee> <applet> <input> <hr> <label> <x-y>
    <em> </em> <strong> </strong> <ruby> <rt> <pre> </pre> <image~alt="j"> <rb> <details> <summary>
""".replace("~", "\t").split(" ")
_ANY = st.lists(st.sampled_from([*_PIECES, " ", "\n", "\n    ", "\r\n"]), max_size=30).map("".join)
_SPACED = _ANY.map(lambda html: html.replace("\t", " "))
# Mostly of what it answers for, so that long documents are answered as well.
_TAME = [
    '<a href="x">', "<a href='y' class=\"c\">", "</a>", "<b>", "</b>", "<p>", "</p>", "<div>",
    "</div>", "<span>", "</span>", "<li>", "<ul>", "</ul>", "text", " ", "<table><tr><td>",
    "</td></tr></table>", "<td>", "</td><td>", "<i>", "</i>", "<img alt='z'>", "<br>", "<h2>",
    "</h2>", "<button>", "</button>", '<a href="z" rel="nofollow">', "<em>", "</em>", "<object>",
    "</object>", "<svg><path/></svg>", "<select><option>o</select>", "<title>t</title>", "<nobr>",
    "<form>", "</form>", "<noscript>", "</noscript>", "<script>1</script>", "<dd>", "<caption>",
    "</caption><tr>", "<link rel=next href=n>", "<marquee>", "</marquee>", "</table>", "<body>",
    "</body>", "<html>", "</html>", "<ul>", "</ul>", "</li>", "</h2>", "<h3>", "</h3>", "</p>",
    "</p>", "</div>", "</div>", "</a>", "</a>",
    "<head>", "</head>", "<template>", "</template>", "<ruby>", "<rt>", "<option>", "<hr>",
]  # fmt: skip


@given(st.lists(st.sampled_from(_TAME), max_size=25).map("".join))
@settings(max_examples=250, deadline=None)
def test_it_agrees_with_the_tree_on_tame_markup(html: str) -> None:
    check(html)


@given(_ANY | _SPACED)
@settings(max_examples=375, deadline=None)
@example('<a\thref="x"><b></a>y</b><a\thref="x">z</a>')
@example("<table><tr><td><a\thref=x></td><a\thref=y></table>")
@example("<a\thref='x\"y'>\udcff</a>")
def test_it_agrees_with_the_tree_or_leaves_it_the_page(html: str) -> None:
    check(html)


# Rich in foreign content, templates and raw text, with what ends them in the wrong place.
_FOREIGN = """
    <svg> </svg> <svg/> <svg~viewBox="0"> <path~d=""/> <path> </path> <g> </g> <g/> <text> </text>
    <title>t</title> <title> </title> <title/> <desc>d</desc> <desc> </desc> <desc/> <use/> <stop/>
    <linearGradient> </linearGradient> <clipPath/> <feBlend/> <filter> </filter> <foreignObject>
    </foreignObject> <math> </math> <mi> </mi> <annotation-xml> <mglyph/> <font~color=c> </p> <p>
    </br> <style> </style> <style/> <script> </script> <script/> <![CDATA[ ]]> <!-- --> <!--> <!x>
    <template> </template> <template/> <div> </div> <a~href="@"> <a~href="@"> <a~href=@> </a> </a>
    <title><a~href="@"></title> <style><a~href="@"></style> <![CDATA[<a~href="@">]]> <select>
    </select> <option> <textarea> </textarea> <iframe~src="@"> </iframe> <noscript> </noscript> text
    <table><tr><td> </td></tr></table> <frameset> <frame~src="@"> <plaintext> <xmp> </xmp> <b> </b>
    <symbol> </symbol> <defs> </defs> <image/> <a~xlink:href="@"> <tspan> </tspan> <animate/>
"""


@given(
    st.lists(st.sampled_from([piece.replace("~", " ") for piece in _FOREIGN.split()]), max_size=16)
)
@settings(max_examples=500, deadline=None)
def test_it_agrees_with_the_tree_on_foreign_content(pieces: list[str]) -> None:
    check("".join(piece.replace("@", f"l{at}") for at, piece in enumerate(pieces)))


_REFERENCES = """
    & &amp &amp; &lt &copy &copy; &not &notit; &notin; # ; = x 1 &#65 &#65; &#x41 &#x; &#0 &#128;
    &#xD800; &#1114112; &#xfffe; &AMP &CounterClockwiseContourIntegral; &frac12 &sup &sup1 &supe;
    &nbsp ü - &#99999999999; &#1; &ngeqq; &bne;
"""


@given(st.lists(st.sampled_from(_REFERENCES.split()), max_size=8).map("".join))
@settings(max_examples=125, deadline=None)
def test_references_are_decoded_as_the_parser_does(text: str) -> None:
    node = LexborHTMLParser(f'<p title="{text}">{text}</p>').css_first("p")
    assert node is not None
    assert markup.unescaped(text) == node.text()
    assert markup.unescaped_value(text) == node.attributes["title"]


_UNITS = [
    "<", "<a", "<a ", "<a href=", '<a href="', "<a href='x'", "<a href=x>", '<a href="x">t', "</a",
    "<!--", "<!-- --", "<script>", "<script", "<svg>", "<svg><g>", "<svg><title>", "<select>",
    "<select><option>", "<table>", "<tr> ", "<td>", "</td> ", "<table><!-- -->", "<title>",
    "<textarea>", "<iframe>", "<p a=b", "<p a='b'", '<p a="b" ', "<p a=b ", "=", '"', "<p '", "&",
    "&amp", "<style>", "<p/", "<p / ", "<link rel=next ", "<meta name=robots ", "<?", "<!", "</",
    "<template>", "<template><p>", "<a href='x'>t<b>", "<base>", "<x =", "</td><!-- --> ",
    "<col>\n",
]  # fmt: skip


@each("unit", _UNITS)
def test_it_is_linear(unit: str) -> None:
    """Of whatever it may stumble over."""

    def read(html: str) -> None:
        scan.rows(html)
        scan.rows("<table><tr>" + html + ">")
        scan.anchor_text(html + "</a>", blocks=True)
        scan.paragraphs_are_closed(html)
        scan.paragraphs_are_closed("<p>" + html)

    assert_linear(read, repeated("", unit), 200_000)


@pytest.mark.parametrize(
    "html",
    [
        "<p" + " a" * 1_000_000 + ">", "<a href=x>" + "<" * 2_000_000, "<" * 2_000_000,
        "<!--" + "- " * 1_000_000 + "-->", "<script>" + "<" * 2_000_000 + "</script>",
        ("<p" + " a" * 1_200 + ">") * 800, "<a href=x>y</a>" * 100_000,
    ],
    ids=lambda html: f"{html[:30]}…",
)  # fmt: skip
def test_no_step_holds_other_threads_up(html: str) -> None:
    """The interpreter's lock is held while one match is made: it went up to 0.35 s for 5 MB."""
    longest_s, began_s = 0.0, time.thread_time()
    for _ in scan._ROWS.finditer(html):
        longest_s, began_s = max(longest_s, time.thread_time() - began_s), time.thread_time()
    at = 0
    while (some := scan._paragraphs().match(html, at)) is not None and some[1] is None:
        longest_s, began_s = max(longest_s, time.thread_time() - began_s), time.thread_time()
        if some.end() == at:
            break
        at = some.end()
    assert longest_s < 5 * reference_s()

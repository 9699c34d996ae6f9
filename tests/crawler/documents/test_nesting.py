"""The walk that keeps Lexbor's worst cases from it, held against Lexbor itself."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from selectolax.lexbor import LexborHTMLParser

from crawler.documents import nesting, page
from crawler.documents.nesting import is_tangled
from tests.growth import assert_linear
from tests.tables import each

HEADERS = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8")]))
PLAIN = "<div class='item'><p>text <a href='/x'>link</a> <b>bold</b> <br> <img src=i></p></div>\n"


@each(
    "html",
    [
        "",
        PLAIN * 2000,
        "<ul>" + "<li>item" * 3000 + "</ul>",
        "<p>text" * 3000,
        "<table>" + "<tr><td>a<td>b<th>c" * 2000 + "</table>",
        "<dl>" + "<dt>a<dd>b" * 2000 + "</dl>",
        "<select>" + "<option>x" * 3000 + "</select>",
        "<div>" * 300 + "</div>" * 300 + PLAIN * 200,
        "<svg><title>i</title><g><path d='M0'/><circle r=1 /></g></svg>" * 1000,
        "<ul><li>a<li>b</ul><table><tr><td>a<td>b</table>" * 1000,
        "<script>if (a < b) { x = '<div><div><div>' }</script>" * 1000,
        "<script><!-- x = '<div>' --></script>" * 1000,
        "<!-- <div> -->" * 3000,
        "<i class='icon'></i>" * 3000,
        "<A HREF=x><B>y</B></A>" * 2000,
        "<input disabled><hr><meta name=a content=b>" * 2000,
        "<p title='</p><p>'>x</p>" * 2000,
        "<svg><g></svg></g>" * 2000,
        "<svg/><svg><title/><desc/><g><path></g></svg><p>" * 1000,
        "<svg><style><![CDATA[ a > b { } <g> ]]></style></svg>" * 1000,
        "<svg><path></svg><script>x = '<![CDATA[<svg>'</script><style>/*<![CDATA[*/</style>" * 1000,
        "<svg></svg><!-- <![CDATA[ --><script>//<![CDATA[\nx = '<svg>'\n//]]></script>" * 1000,
        "<p><![CDATA[x]]></p>" * 2000,
        "<math><mi>x</mi><mo>&lt;</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></math>" * 900,
        "<h3><a id='x'/>title</h3><div><p>text</p></div>" * 120,
        "<p><a class='a long name' href='x'><b><i>x</i></b><span>y</span></a></p>" * 9000,
        "<a class='a long name' href='x'><div><p>x</p></div></a>" * 9000,
        "<select><title><input></title>" + "<i></i>" * 900,
    ],
)  # fmt: skip
def test_ordinary_pages_are_not_tangled(html: str) -> None:
    assert not is_tangled(html.encode())


@each(
    "unit",
    [
        "<div>", "<p><span>", "<b id=1>", "<div></x>", "<div><!--</div>-->",
        "<div><script></div></script>", "<div><script><!--<script></script></div>--></script>",
        "<div><title></div></title>", "<div title='</div>'>", "<div></div title='</div>'><p><i>",
        "<span><div></span></div>", "<div><table><td></div>", "<svg><div/>", "<svg><path d=x/>",
        "<svg><path d= />", "<select><input><path/>", "<svg><section></section><tr>",
    ],
)  # fmt: skip
def test_nesting_cannot_be_hidden(unit: str) -> None:
    assert is_tangled(unit.encode() * 2000)


@each(
    "html",
    [
        "<p " + " ".join(f"a{n}" for n in range(101)) + ">",
        "<b " + " ".join(f"a{n}=1" for n in range(101)) + ">",
        "<!--'--><p x='>' " + " ".join(f"a{n}=1" for n in range(101)) + ">",
        "<p>" + "".join(f"<font size={n}>" for n in range(400)) + "</p><p>x" * 390,
        "<p>" + f"<b {'x ' * 90}>" * 300 + "</p><p>x" * 390,
        "<p>" + "<b>" * 51 + "</p>" + "<p>x</p>" * 500,
        "<html lang=en>" * 900,
        "<html lang=en>x</html>" * 900,
        "</body><!-- -->x" * 900,
        "<p></html><?x>x</p>" * 900,
        "<svg><title><g></title>" + "<g>" * 900,
        "<svg><![CDATA[><!--]]>" + "<g>" * 900,
        "<svg><foreignObject><![CDATA[><!--]]>" + "<g>" * 900,
        "<frameset><svg><![CDATA[>" + "<frameset>" * 900,
        "<svg><g/></g><desc><![CDATA[>" + "<p><i>" * 900,
        "<p>" + f"<a {'x ' * 90}>" + "</p><div><p><b>x" * 1000,
        "<a x=1>" + "<div>" * 9 + "<a x=2>" + "<p><i>x</p>" * 3000,
        "<svg><plaintext>" + "<g>" * 900,
        "<p>" + "".join(f"<b {'x ' * 20}y={n}>" for n in range(9)) + "<p>x" * 5_000,
        "<span>" * 480 + "<hr>" * 60_000,
        "<span>" * 480 + "<p></p>" * 40_000,
        "<span>" * 300 + "</x>" * 60_000,
        "<math>" * 480 + "</td>" * 60_000,
        "<select>" + "<span>" * 480 + "<option>" * 30_000,
    ],
)  # fmt: skip
def test_other_worst_cases_are_found(html: str) -> None:
    assert is_tangled(html.encode())


def test_flat_but_huge_is_not_built() -> None:
    assert is_tangled(b"<i></i>" * 150_001)


def _depth(html: bytes) -> int:
    root = LexborHTMLParser(html).root
    deepest = 0
    for node in root.traverse() if root is not None else ():
        depth, above = 0, node.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        deepest = max(deepest, depth)
    return deepest


_TAGS = """
    <div> </div> <span> </span> <p> </p> <b> </b> <b~id=1> <i> </i> <a~href=x> </a> <font> </font>
    <table> </table> <tr> <td> </td> </tr> <caption> <li> </li> <ul> </ul> <dl> <dt> <dd> <svg>
    </svg> <g> </g> <g/> <path/> <path~d=x/> <path~d="x"/> <title> </title> <style> </style>
    <script> </script> <!-- --> <!--> <![CDATA[ ]]> x > < " ' <select> </select> <option> <input>
    <frameset> <frame> <template> </template> <form> </form> <button> </button> <object> </object>
    <math> <mi> <mtext> </math> <foreignObject> <desc> <textarea> </textarea> <noscript> </noscript>
    <iframe> </iframe> <xmp> </xmp> <plaintext> <col> <br> </br> <img> <h1> </h1> <h2> </h2> <nobr>
    <ruby> <rt> <html~a=1> <body~b=1> <head> </body> </html> <section> </section> <label> </label>
    <a~x="</div>"> <div~x='> <div/> <!x> <?x> </> </x~y=">"> <tbody> <optgroup> </option> </dd>
    <article> <center> </center> <marquee> <applet> </applet> <embed> <image> <link> <param>
    <svg/> <math/> <desc/> <title/> <mi/> </mi> <mo> <annotation-xml~encoding=text/html> <section/>
    </foreignObject> <a> </a> <a~x=1> <font~color=c> <u~x=1> </u> <th> </th> </caption> <tfoot>
    <frameset/> </frameset> </table~x> <h3> </h3> <rp> <rtc> <menu> <dialog> <pre> <listing> <hr>
"""
_SOUP = st.sampled_from(_TAGS.replace("~", "\t").split(" "))


@given(
    before=st.lists(_SOUP, max_size=4).map("".join),
    unit=st.lists(_SOUP, min_size=1, max_size=8).map("".join),
)
@settings(max_examples=180, deadline=None)
@example(before="<svg>", unit="<section></section><tr>")
@example(before="", unit="<span><div></span></div>")
@example(before="<select><svg>", unit="<input><path/>")
def test_what_passes_the_walk_is_shallow_in_the_tree(before: str, unit: str) -> None:
    """However a unit is repeated: at most three of the parser's elements for each of ours (a table
    implies two), and a few that every document has."""
    html = (before + unit * 60).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "NESTING_MAX", 6)
        patch.setattr(nesting, "TAGS_SAFE", 0)
        if not is_tangled(html):
            assert _depth(html) <= 3 * 6 + 4


_COPIED = frozenset(nesting.FORMATTING) - {b""}


def _formatting_elements(html: bytes) -> int:
    root = LexborHTMLParser(html).root
    nodes = root.traverse() if root is not None else ()
    return sum(node.tag is not None and node.tag.encode() in _COPIED for node in nodes)


@given(
    before=st.lists(_SOUP, max_size=5).map("".join),
    unit=st.lists(_SOUP, min_size=1, max_size=8).map("".join),
)
@settings(max_examples=180, deadline=None)
@example(before="<p><b\tid=1>", unit="<div>x</div>")
@example(before="<a\thref=x><div><i>", unit="<a\thref=x></div>")
@example(before="<svg><desc><b\tid=1>", unit="<section/></section>")
def test_what_passes_the_walk_is_hardly_copied(before: str, unit: str) -> None:
    """However a unit is repeated, the parser makes few formatting elements that were not written:
    a copy for each three bytes ("<b>") that were counted, and for each end tag up to eight."""
    html = (before + unit * 60).encode()
    bytes_max = 600
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "COPIED_BYTES_MAX", bytes_max)
        patch.setattr(nesting, "TAGS_SAFE", 0)
        if not is_tangled(html):
            assert _formatting_elements(html) <= 2 * html.count(b"<") + bytes_max / 3


@each(
    ("before", "unit"),
    [
        ("<select>", "<option>x"), ("<select>", "<option selected>x"), ("", "</body><!-- -->x"),
        ("", "<svg><desc>"), ("", "<svg><foreignObject><p><b>x</foreignObject>"),
        ("", "<svg><![CDATA[<p>]]><title/>"), ("", "<template>"), ("", "<table>"),
        ("", "<table><b>"), ("<table>", "<p>x</p>"), ("", "<math><mi><b>"), ("", "<frameset>"),
        ("", "<p><font a=b>"), ("<b><div>" * 12_000, "</b>"), ("", "<form><div></form>"),
        ("<a x=1><div>" * 9, "<a x=2><p>y"), ("<p ", "a{n} "), ("", "<ruby><rt><rtc>"),
    ],
)  # fmt: skip
def test_anything_is_read_in_linear_time(before: str, unit: str) -> None:
    assert_linear(
        lambda html: page.parse_page("http://a.test/", HEADERS, html, tokens=()),
        lambda size: (
            before + "".join(unit.format(n=n) for n in range(size // len(unit)))
        ).encode(),
        250_000,
    )


TEXT = "text text text"
VALUE = "a=" + "b" * 10


@each(
    ("before", "unit"),
    [
        ("", f"{TEXT}<td {VALUE}>"),
        ("", f"{TEXT}<td {VALUE}>{TEXT}</td>"),
        ("", f"{TEXT}</x {VALUE}>"),
        ("", f"{TEXT}<form {VALUE}>"),
        ("<table><tr>", f"{TEXT}<td {VALUE}></td>"),
        ("<table><tr>", f"{TEXT}<!--xxxxxx-->"),
        ("<table>", f"{TEXT}<style {VALUE}></style>"),
        ("<table>", f"  <input type=hidden {VALUE}>{TEXT}"),
        ("<table><x></table>", f"{TEXT}<td {VALUE}>"),
        ("<table><template></template>", f"{TEXT}<style {VALUE}></style>"),
        ("<frameset>", f"          <p {VALUE}>"),
        ("<template><col>", f"          <div {VALUE}>"),
        ("<svg>", f"{TEXT}<![CDATA[x]]></x {VALUE}>"),
        ("<table><tr><td>" + "<x>" * 500 + "</table>", f"{TEXT}<td {VALUE}>{TEXT}</x>"),
    ],
)
def test_text_that_the_parser_copies_again_and_again(before: str, unit: str) -> None:
    """400 KB of these take Lexbor 0.1 to 0.3 s, and 150 to 500 MB; four times as much, 16 times."""
    assert is_tangled((before + unit * (800_000 // len(unit))).encode())


@each(
    ("before", "unit"),
    [
        ("<table>", f"<tr {VALUE}><td {VALUE}>{TEXT}</td><td {VALUE}>{TEXT}</td></tr>\n"),
        ("<table>", f"<tr {VALUE}><td {VALUE}>{TEXT}<td {VALUE}>{TEXT}\n"),
        ("", f"<table {VALUE}><tr {VALUE}><td {VALUE}><p {VALUE}>{TEXT}</table>\n{TEXT}"),
        (
            "<table><tr><td>",
            f"<table><tr {VALUE}><td {VALUE}>{TEXT}</table>\n<td {VALUE}>{TEXT}",
        ),
        ("", f"{TEXT}<p {VALUE}>{TEXT}</p><!-- {TEXT} --></div>{TEXT}<br {VALUE}>"),
        ("", f"{TEXT}<td>{TEXT}</x>"),
    ],
)
def test_large_tables_are_not_tangled(before: str, unit: str) -> None:
    assert not is_tangled((before + unit * (800_000 // len(unit))).encode())

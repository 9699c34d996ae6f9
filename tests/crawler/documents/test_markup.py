"""Tags without a tree, held against the tree that Lexbor builds: which links a page has, in SVG,
MathML, templates, raw text and whatever is left open."""

from __future__ import annotations

from collections import deque

from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.documents import markup, open_elements, page
from crawler.documents.links import PageLinks
from crawler.documents.tree import build_tree
from tests.growth import assert_linear
from tests.tables import each

URL = "http://a.test/dir/page.html"


def by_tokens(html: bytes) -> page._Reader:
    reader = page._Reader(URL, PageLinks(URL))
    reader.read_tokens(html)
    return reader


def by_tree(html: bytes) -> page._Reader:
    reader = page._Reader(URL, PageLinks(URL))
    reader.read_tree(build_tree(html))
    return reader


def urls(reader: page._Reader) -> list[str]:
    return [link.url.rpartition("/")[2] for link in reader.links.found()]


def check(html: str, *, ordered: bool = True) -> None:
    flat, tree = by_tokens(html.encode()), by_tree(html.encode())
    if ordered:
        assert urls(flat) == urls(tree), html
    else:
        assert sorted(urls(flat)) == sorted(urls(tree)), html
    assert flat.links.skipped == tree.links.skipped
    assert sorted(flat.metas) == sorted(tree.metas)


# ---------------------------------------------------------------- cases


@each(
    "html",
    [
        "<svg><title/><a href=x>y</a></svg><a href=z>",
        "<svg><title/></svg><title>t</title><a href=z>",
        "<svg><title>drawing</title></svg><title>t</title>",
        "<svg><script/><a href=x></svg><style/><a href=no></style><a href=y>",
        "<svg><script><a href=x></script></svg><script><a href=no></script>",
        "<svg><style><a href=x></style><textarea><a href=y></textarea></svg>",
        "<svg><iframe><a href=x></iframe><plaintext><a href=y></svg><a href=z>",
        "<svg><![CDATA[<a href=no>]]></svg><a href=x>",
        "<svg><![CDATA[<a href=no></svg><a href=no>",
        "<p><![CDATA[<a href=no>]]><a href=x>",
        "<![CDATA[><a href=x>]]>",
        "<svg><foreignObject><p><![CDATA[<a href=no>]]><a href=x></foreignObject><![CDATA[><a>]]>",
        "<svg><foreignObject><![CDATA[<a href=no>]]><title><a href=no></title></foreignObject>",
        "<svg><desc><style><a href=no></style></desc><style><a href=x></style>",
        "<svg><desc><p></desc><title><a href=no></title></svg>",
        "<svg><desc></desc><title><a href=x></title></svg>",
        "<svg><p><title><a href=no></title>",
        "<svg><g><b><title><a href=no></title>",
        "<svg><font><title><a href=x></title>",
        "<svg><font color=c><title><a href=no></title>",
        "<svg></p><title><a href=no></title>",
        "<svg></br><title><a href=no></title>",
        "<div><svg></div><title><a href=no></title>",
        "<svg></div><title><a href=x></title>",
        "<a href=x><svg></a><title><a href=no></title>",
        "<svg/><title><a href=no></title>",
        "<svg d=x/><title><a href=x></title>",
        "<svg d= /><title><a href=x></title>",
        "<svg d='x'/><title><a href=no></title>",
        "<SVG><TITLE/><A HREF=x></SVG>",
        "<math><mi><title><a href=no></title></mi><title><a href=x></title>",
        "<math><mi><mglyph><title><a href=x></title>",
        "<math><annotation-xml><title><a href=x></title>",
        "<math><annotation-xml encoding=Text/HTML><title><a href=no></title>",
        "<math><annotation-xml><svg><title><style><a href=no></style>",
        "<math><svg><title><style><a href=x></style>",
        "<template><a href=no><template></template><a href=no></template><a href=x>",
        "<template><a href=no>",
        "<template><div></template></div><a href=x></template><a href=y>",
        "<template><svg><foreignObject></template><a href=x>",
        "<svg><template><a href=x></template><a href=y></svg><a href=z>",
        "<template><base href=/no/><title>no</title><meta name=robots content=none></template>",
        "<table><template><tr><td><a href=no></template><tr><td><a href=x></table>",
        "<noscript><a href=x></noscript><noscript><style><a href=no></style></noscript>",
        "<plaintext><a href=no></plaintext><a href=no>",
        "<select><a href=x><option><a href=y></select><title><a href=no></title>",
        "<link rel=next><meta name=robots><meta http-equiv=refresh><area><iframe><a href=x>",
        "<select><svg></select><title><a href=no></title>",
        "<map><area href=x><area href=y alt=z></map>",
        "<frameset><frame src=x><a href=no><title><frame src=y></title></frameset><frame>",
        "<frameset><frameset></frameset><frame src=x></frameset><noframes><frame></noframes>",
        "<p>text<frameset><frame src=no></frameset><a href=x>",
        "<frame src=no><a href=x>",
        "<xmp><a href=no></xmp><noembed><a href=no></noembed><noframes><a href=no></noframes>",
        "<textarea><a href=no></textarea><iframe src=x><a href=no></iframe>",
        "<table><tr><td><svg></td><title><a href=no></title></table>",
        "<svg><foreignObject><table><tr><td></foreignObject><title><a href=no></title>",
        "<svg><foreignObject><li><li></li></foreignObject><title><a href=x></title>",
        "<svg><foreignObject><form><div></form></div></foreignObject><title><a href=x></title>",
    ],
)  # fmt: skip
def test_links_are_those_of_the_tree(html: str) -> None:
    check(html)
    flat, tree = by_tokens(html.encode()), by_tree(html.encode())
    assert "no" not in " ".join(urls(flat))
    assert flat.title == tree.title


@each(
    "html",
    [
        "<a href=x>a<svg><text><![CDATA[b < c]]></text></svg>d</a>",
        "<a href=x><script>no</script>a<style>no</style></a>",
        "<a href=x>a<template>no</template>b</a>",
        "<a href=x><textarea>a &amp; b</textarea></a>",
        "<a href=x><template><img alt=no></template><img alt=b></a>",
        "<a href=x><svg><script>no</script><text>a</text></svg></a>",
    ],
)
def test_anchors_are_those_of_the_tree(html: str) -> None:
    assert by_tokens(html.encode()).links.found() == by_tree(html.encode()).links.found()


# ---------------------------------------------------------------- properties

_WORDS = """
    <svg> </svg> <svg/> <math> </math> <g> </g> <g/> <foreignObject> </foreignObject> <desc>
    </desc> <desc/> <title> </title> <title/> <script> </script> <script/> <style> </style>
    <style/> <mi> </mi> <mo> </mo> <mi/> <mglyph> <malignmark/> <annotation-xml>
    </annotation-xml> <mtext> </mtext> <annotation-xml~encoding="text/html">
    <annotation-xml~encoding=TEXT/html/> <font~id=@> </font> <font~color=c~id=@>
    <font~id=@~size=3> <template> </template> <template/> <![CDATA[ ]]> <!-- --> <!--> <!x> <?x>
    </> </~x> <textarea> </textarea> <iframe~src=@> </iframe> <iframe/> <xmp> </xmp> <noembed>
    </noembed> <noframes> </noframes> <noscript> </noscript> <plaintext> <p> </p> <div> </div>
    <span> </span> <br> </br> <li> <ul> </ul> </li> <button> </button> <section> </section>
    <a~href=@> <a~href="@"> </a> <a~id=@> <A~HREF='@'> <area~href=@> <link~rel=next~href=@>
    <a~href=@/> <meta~http-equiv=refresh~content="0;url=@"> <meta~name=robots~content=@>
    <base~href=@> <img> <frame~src=@> <path~d=x/> <path~d="x"/> <path~d=~/> <text> </text> text
    > < " ' & &lt; <input> <input~type=hidden> <h1> </h1> <h2> </h2> <dd> <dt> </dd> <dl> </dl>
    <object> </object> <hr> <link~rel=next> <meta~name=robots> <area> <iframe> <frame>
    <svg~href=@> <a~href~id=@> <applet> </applet> <ruby> <rt> <pre> </pre> <form> </form> <head>
    </head> <body> </body> <html> </html> <table> </table> <tr> </tr> <td> </td> <th> <tbody>
    </tbody> <caption> </caption> <col> <colgroup> <select> </select> <option> </option>
    <optgroup> <image> <marquee> </marquee>
"""  # fmt: skip
_TAGS = [word.replace("~", " ") for word in _WORDS.split()]
_FORMATTING = [
    tag for name in ["b", "i", "em", "nobr", "u"] for tag in (f"<{name} id=@>", f"</{name}>")
]
_PROBES = [
    "<title><a href=@></title>", "<style><a href=@></style>", "<![CDATA[<a href=@>]]>", "<svg>",
    "<math>",
]  # fmt: skip
_FRAMES = ["<frameset>", "</frameset>"]


def _numbered(pieces: list[str]) -> str:
    """Each link another, so that a wrong one shows."""
    return "".join(piece.replace("@", f"l{at}") for at, piece in enumerate(pieces))


def _soup(*names: list[str]) -> st.SearchStrategy[str]:
    tags = [tag for some in names for tag in some]
    return st.lists(st.sampled_from(tags), max_size=20).map(_numbered)


def _copies(html: str) -> bool:
    """Whether the parser makes formatting elements that were not written. (Each that was has a
    number of its own.)"""
    written = [
        node.attributes.get("href") or node.attributes.get("id")
        for name in open_elements.FORMATTING
        for node in LexborHTMLParser(html).css(name.decode())
    ]
    return len(set(written)) < len(written)


def _differs_in_template(html: str) -> bool:
    """Whether a template has what makes a difference that `open_elements` states."""
    names = {b"applet", b"caption", b"col", b"marquee", b"object", b"td", b"th"}
    return any(tag.in_template and tag.name in names for tag in markup.tokens(html.encode()))


def agrees(html: str) -> None:
    """What is read of a page is the tree's, unless the parser makes copies of elements."""
    try:
        check(html, ordered="<t" not in html)
    except AssertionError:
        if not _copies(html) and not _differs_in_template(html):
            raise


@given(_soup(_TAGS) | _soup(_TAGS, _FORMATTING))
@settings(max_examples=240, deadline=None)
@example("<i><div><math></i><style><a href=x></style>")
@example("<noscript><math></noscript><style><a href=x></style>")
@example("text<noscript><math></noscript><style><a href=x></style>")
def test_links_agree_with_the_tree_whatever_is_open(html: str) -> None:
    agrees(html)


@given(_soup(_TAGS, _PROBES * 8))
@settings(max_examples=240, deadline=None)
def test_raw_text_agrees_with_the_tree_whatever_is_open(html: str) -> None:
    agrees(html)


@given(
    st.lists(st.sampled_from(["<head>", "<title>t</title>", " ", "<meta>", "<html>"])).map("".join),
    _soup(_TAGS, _FRAMES * 6, ["<frame src=@>", "<noframes>"] * 6),
)
@settings(max_examples=200, deadline=None)
def test_frames_agree_with_the_tree(head: str, html: str) -> None:
    agrees(f"{head}<frameset>{html}")


@given(
    st.lists(st.sampled_from([*"<a='\"/> x", "<a href=", "<svg", "<!--"]), max_size=40).map("".join)
)
@settings(max_examples=160, deadline=None)
@example("<iframe src='<a href='<a href='http://b.test/<a href='<style>")
def test_attributes_agree_with_the_tree(html: str) -> None:
    agrees(html)


_UNITS = [
    "<svg>", "<svg><g>", "<svg><g/>", "</svg>", "<svg><desc>", "<svg><foreignObject><p>", "<math>",
    "<math><mi>", "<template>", "</template>", "<template><svg>", "<![CDATA[", "<svg><![CDATA[",
    "<b><div>", "</b>", "<b><span>", "<a><div>", "<nobr><p>", "<b><i><u><s><div></b>", "<form><p>",
    "</form>", "<form></div>", "<table><tr><td>", "<table>", "</table>", "<td>", "<li>", "<p>", "x",
    "<dd><b>", "<select><option>", "<button>", "<ruby><rt>", "<frameset>", "<noscript>", "<title/>",
    "<x1><x2>", "</x1>", "<h1><b>", "</h2>", "<font color=c>", "<svg><p>", "<svg></p>", "<object>",
    "<", "< a", "</", "<a x='", "<p\x00",
]  # fmt: skip


@each("before", ["", "<b><div>", "<svg>", "<span>"])
def test_it_is_linear(before: str) -> None:
    """Of anything, also behind much that is open, and before its end."""
    for unit in _UNITS:

        def html(size: int, unit: str = unit) -> bytes:
            many = size // 10
            return (before * many + unit * (size // len(unit)) + "</b>" * many).encode()

        assert_linear(lambda some: deque(markup.tokens(some), maxlen=0), html, 8_000, name=unit)

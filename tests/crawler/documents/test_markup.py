"""Tags without a tree, held against the tree that Lexbor builds: which links a page has, in SVG,
MathML, templates, raw text and whatever is left open."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.documents import markup, page
from crawler.documents.links import Links

URL = "http://a.test/dir/page.html"


def by_tokens(html: bytes) -> page._Reader:
    reader = page._Reader(URL, Links(URL))
    reader.read_tokens(html)
    return reader


def by_tree(html: bytes) -> page._Reader:
    reader = page._Reader(URL, Links(URL))
    reader.read_tree(html)
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


@pytest.mark.parametrize(
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
        "<select><svg></select><title><a href=no></title>",
        "<map><area href=x><area href=y alt=z></map>",
        "<frameset><frame src=x><a href=no><title><frame src=y></title></frameset><frame src=no>",
        "<frameset><frameset></frameset><frame src=x></frameset><noframes><frame src=no></noframes>",
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


@pytest.mark.parametrize(
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

_TAGS = """
    <svg> </svg> <svg/> <math> </math> <g> </g> <g/> <foreignObject> </foreignObject> <desc> </desc>
    <desc/> <title> </title> <title/> <script> </script> <script/> <style> </style> <style/> <mi>
    </mi> <mo> </mo> <mi/> <mglyph> <malignmark/> <annotation-xml> </annotation-xml> <mtext> </mtext>
    <annotation-xml~encoding="text/html"> <annotation-xml~encoding=TEXT/html/> <font> </font>
    <font~color=c> <font~x=y~size=3> <template> </template> <template/> <![CDATA[ ]]> <!-- --> <!-->
    <!x> <?x> </> </~x> <textarea> </textarea> <iframe~src=@> </iframe> <iframe/> <xmp> </xmp>
    <noembed> </noembed> <noframes> </noframes> <noscript> </noscript> <plaintext> <p> </p> <div>
    </div> <span> </span> <br> </br> <li> <ul> </ul> </li> <button> </button> <section> </section>
    <a~href=@> <a~href="@"> </a> <a> <A~HREF='@'> <area~href=@> <link~rel=next~href=@> <a~href=@/>
    <meta~http-equiv=refresh~content="0;url=@"> <meta~name=robots~content=@> <base~href=@> <img>
    <frame~src=@> <path~d=x/> <path~d="x"/> <path~d=~/> <text> </text> text > < " ' & &lt; <input>
    <input~type=hidden> <h1> </h1> <h2> </h2> <dd> <dt> </dd> <dl> </dl> <object> </object> <hr>
    <applet> </applet> <ruby> <rt> <pre> </pre> <form> </form> <head> </head> <body> </body> <html>
    </html> <table> </table> <tr> </tr> <td> </td> <th> <tbody> </tbody> <caption> </caption> <col>
    <colgroup> <select> </select> <option> </option> <optgroup> <image> <marquee> </marquee>
""".replace("~", "\t").split()  # fmt: skip
_FORMATTING = "<b> </b> <i> </i> <em> </em> <nobr> </nobr> <u> </u>".split()
_FRAMES = "<frameset> </frameset>".split()


def _numbered(pieces: list[str]) -> str:
    """Each link another, so that a wrong one shows."""
    return "".join(piece.replace("@", f"l{at}") for at, piece in enumerate(pieces)).replace(
        "\t", " "
    )


def _soup(*names: list[str]) -> st.SearchStrategy[str]:
    tags = [tag for some in names for tag in some]
    return st.lists(st.sampled_from(tags), max_size=20).map(_numbered)


@given(_soup(_TAGS))
@settings(max_examples=2_000, deadline=None)
def test_links_agree_with_the_tree_whatever_is_open(html: str) -> None:
    check(html, ordered="<t" not in html)

"""A page as it stands in a mirror: nothing of it asks the network."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.sinks.mirror_paths import file_of
from crawler.sinks.offline import OfflineReferences, offline_page, offline_style, stub
from crawler.sinks.references import ReferenceRole
from crawler.sinks.relinking import relinked
from policies.url import canonical
from tests.crawler.sinks.doubles import Everything
from tests.tables import each

URL = "https://a.test/x/page"
PATH = file_of(URL, ReferenceRole.PAGE)
THERE = {
    file_of(f"https://{name}", ReferenceRole.PAGE) for name in ("a.test/x/known", "b.test/known")
}


def offline(
    html: str | bytes,
    content_type: str = "text/html; charset=utf-8",
    *,
    scripts: bool = False,
    there: Container[str] = THERE,
) -> str:
    links = OfflineReferences(URL, PATH, files=there, scripts=scripts)
    raw = html.encode() if isinstance(html, str) else html
    page = offline_page(raw, content_type, links)
    assert page.startswith(b"\xef\xbb\xbf")
    return page.decode("utf-8-sig")


@each(
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
        ('<base href="/x/known"><a href="#top">', 'href="known~.html#top"'),
        ("<a href=known>", 'href="known~.html" data-courtly-url="https://a.test/x/known"'),
        ("<a title='<b>' HREF = 'known' id=1>", "<a title='<b>' HREF=\"known~.html\""),
        ("<b><i>" * 400 + '<a href="known">', 'href="known~.html"'),
        ('<link rel="next" href="known">', 'href="known~.html"'),
        ('<link rel="shortcut icon" href="i">', 'href="i~.part"'),
        ('<link rel=manifest href="m.json">', 'href="m.json"'),
        ("<svg><style><![CDATA[p{fill:url(/i.png)}]]></style>", 'url("../i.png")}]]>'),
        ("<svg><style>p{}<!-- x --> q{fill:url(/i.png)}", 'q{fill:url("../i.png")}'),
        ("<svg><style>p{fill:url(&quot;/i.png&quot;)}</style>", 'url("../i.png")'),
        ("<svg><style>/*&lt;/style>&amp;*/p{fill:url(/i.png)}", '/*&lt;/style>&amp;*/p{fill:url("'),
        ('<link rel=preload as=image imagesrcset="/i.png 2x">', 'imagesrcset="../i.png 2x"'),
        ('<link rel="stylesheet preconnect" href=s.css>', '<link rel="stylesheet" href="s.css">'),
        ('<svg><image xlink:href="/i.png"/><use href="/s.svg#a"/></svg>', 'href="../s.svg#a"'),
        ('<svg><feImage href="/i.png"/>', '<feImage href="../i.png"/>'),
        ('<svg><rect fill="url(/s.svg#a)"/>', 'fill="url(&quot;../s.svg#a&quot;)"'),
        ("<svg><rect fill='url(#a)'/>", "<rect fill='url(#a)'/>"),
        ("<table background=/b.gif>", 'background="../b.gif"'),
        ("<video poster=/p.png src=/v.mp4>", 'poster="../p.png" src="../v.mp4"'),
        ("<input type=image src=/i.png>", 'src="../i.png"'),
        ("<object data=/o.svg><embed src=e.png>", 'data="../o.svg"><embed src="e.png"'),
        ("<button formaction=go>", 'formaction="https://a.test/x/go"'),
        ("<img src='/i.png?a=1&amp;b'>", 'src="../i~'),
        ('<iframe srcdoc="<img src=/i.png>">', 'srcdoc="<img src=&quot;../i.png&quot;>"'),
        ('<iframe srcdoc="<a href=known>">', "data-courtly-url=&quot;https://a.test/x/known"),
        ("<style>@import/**/'/s';</style>", '@import/**/url("../s~.css");'),
        ("<style>@\\69mport url(/s.css) print;</style>", 'url("../s.css") print;'),
        ("<style>a{b:u\\72 l(/i.png)}</style>", 'url("../i.png")'),
        ("<style>a{b:image-set('/i.png' 1x)}</style>", 'image-set("../i.png" 1x)'),
        ("<style>@namespace url(http://b.test/x);</style>", "@namespace url(http://b.test/x);"),
        ("<!-- x --><?y?><!doctype html><p>", "<!-- x --><?y?><!doctype html><meta http-equiv"),
        ("x<!doctype html>", '\ufeff<meta http-equiv="Content'.removeprefix("\ufeff")),
        ("<base target=_top href=/>", "<base target=_top>"),
        ('<meta http-equiv="content-language" content=de>', '<meta http-equiv="content-language"'),
        ('<p data-courtly-url="https://b.test/" id=a>', "<p id=a>"),
        ("<textarea><link rel=preconnect href=//b.test></textarea>", "<lin&#107; rel=preconnect"),
    ],
)  # fmt: skip
def test_references_lead_to_files(html: str, part: str) -> None:
    page = offline(html)
    assert part in page
    for word in ("<base href", "integrity", "crossorigin", "<link rel=preconnect"):
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
    first = offline(html, there=())
    came = THERE | {file_of("https://b.test/unknown", ReferenceRole.PAGE)}
    second = relinked(first.encode(), PATH, came)
    assert second is not None
    for part in ("known~.html", "https://a.test/x/unknown#y", "../../b.test/unknown~.html"):
        assert f'href="{part}"' in second.decode()
    assert relinked(second, PATH, came) is None, "all are right"
    frame = offline('<iframe src="unknown"></iframe>')
    blank = relinked(frame.encode(), PATH, ())
    assert blank is not None
    assert 'src="about:blank"' in blank.decode()
    filled = relinked(blank, PATH, Everything())
    assert filled is not None
    assert 'src="unknown~.html"' in filled.decode()
    back = relinked(second, PATH, ())
    assert back is not None
    assert 'href="https://b.test/unknown"' in back.decode()


def test_a_stub_leads_on() -> None:
    page = stub('a"b.html', "https://a.test/?a&b")
    assert b'content="0; url=a&quot;b.html"' in page
    again = relinked(page, "a.test/old~.html", ())
    assert again is not None
    assert b'href="https://a.test/?a&amp;b"' in again
    assert b'content=""' in again, "nobody is led to the network without a click"
    back = relinked(again, "a.test/old~.html", Everything())
    assert back is not None
    assert b'content="0; url=' in back


def test_a_style_keeps_what_it_says() -> None:
    links = OfflineReferences(
        "https://a.test/s/s.css", "a.test/s/s.css", files=Everything(), scripts=False
    )
    css = offline_style(b"@import '../t';p{color:red;background:url(i.png)}", "text/css", links)
    assert (
        css.decode("utf-8-sig") == '@import url("../t~.css");p{color:red;background:url("i.png")}'
    )


TAGS = st.sampled_from(
    ["<a href='", "<img src='", "<img srcset='", "<link rel=stylesheet href='", "<style>", "'>",
     "</style>", "<base href='", "<script src='", "<iframe src='", "<form action='", "</",
     "<svg><image href='", "http://b.test/", "//b.test", "url(", ")", "#", "?", "&amp;", "é", "\0",
     " 1x, ", "<!--", "<template>", "<iframe srcdoc='", "<video poster='", "<object data='", "<p>x",
     "<link rel=preload as=image imagesrcset='", "<table background='", "<p style='", "@import '",
     "<svg><use href='", "image-set('", "\\", '"', "<link rel=icon href='", "</svg>", "</iframe>"]
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
    "img": ("src", "srcset"), "source": ("src", "srcset"), "link": ("href", "imagesrcset"),
    "script": ("src",), "svg script": ("href", "xlink:href"), "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"), "[background]": ("background",),
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


@given(st.lists(TAGS, max_size=30).map("".join))
def test_all_else_stays_and_links_are_right_after_one_more_look(html: str) -> None:
    page = offline(html)
    if "<style>" not in html and "\0" not in html and "<template>" not in html:
        # A page cannot write what its policy is written in.
        before, after = (LexborHTMLParser(one).html for one in (html, page))
        assert before is not None
        assert after is not None
        assert texts(after) == texts(before)
    again = relinked(page.encode(), PATH, ())
    if again is not None:
        assert relinked(again, PATH, ()) is None
        there = relinked(again, PATH, Everything())
        assert there is None or relinked(there, PATH, Everything()) is None


def texts(html: str) -> list[str]:
    tree = LexborHTMLParser(html)
    for node in tree.css("script,style,iframe"):
        node.decompose()
    return [] if tree.body is None else tree.body.text().split()


@pytest.mark.parametrize(
    "one",
    [
        "<a href=x>", "<a href=x></a>", "<area href=x>", "<img src=a>", "<img src=a&b>",
        "<img srcset=a>", "<iframe src=a>", "<form action=x></form>", "<p style=background:url(a)>",
        "<td background=a>",
    ],
)  # fmt: skip
@pytest.mark.parametrize("base", ["https://a.test/", "https://b.test/"])
def test_links_make_a_page_grow_no_further_than_its_bound(monkeypatch, one, base):
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 25_000)
    deep = "".join(f"{n}/" for n in range(300))
    head = f"<base href={base}{deep}>"
    body = (head + one * 1_000).encode()
    links = OfflineReferences(
        f"https://a.test/{deep}", f"a.test/{deep}index.html", files=(), scripts=False,
    )  # fmt: skip
    page = offline_page(body, "text/html", links)
    assert len(page) <= 4 * len(body) + 25_000 + 2_000
    assert len("".join(links.marked)) <= 25_000
    assert b"Content-Security-Policy" in page
    again = relinked(page, f"a.test/{deep}index.html", Everything())
    assert again is None or len(again) <= 5 * len(body) + 50_000


def test_an_image_that_turns_out_to_be_a_drawing_has_its_ending() -> None:
    links = OfflineReferences(URL, PATH, files=(), scripts=False)
    html = b"<img src=badge><img srcset='badge, other 2x'><p>a/badge~.part"
    page = offline_page(html, "text/html", links)
    assert sorted(links.marked) == ["~https://a.test/x/badge", "~https://a.test/x/other"]
    place = file_of("https://a.test/x/badge", ReferenceRole.PART)
    drawn = relinked(page, PATH, (), {place})
    assert drawn is not None
    assert drawn.endswith(
        b'<img src="badge~.svg"><img srcset="badge~.svg, other~.part 2x"><p>a/badge~.part'
    )


def test_xhtml_is_shown_as_xhtml() -> None:
    page = offline('<div class="a"/><script src="x"/><p><br/><a id="b"/>c', "application/xhtml+xml")
    assert page.endswith(
        '<div class="a"></div><script src="data:,"></script><p><br/><a id="b"></a>c'
    )


def test_queries_are_in_the_encoding_of_the_page() -> None:
    page = offline(b"<a href='http://b.test/?\xfc'>", "text/html; charset=iso-8859-1")
    assert 'href="http://b.test/?%FC"' in page


def test_a_document_in_a_document_in_a_document_ends() -> None:
    html = "<img src=//b.test/i.png>"
    for _ in range(12):
        html = f'<iframe srcdoc="{html.replace("&", "&amp;").replace(chr(34), "&quot;")}"></iframe>'
    links = OfflineReferences(URL, PATH, files=(), scripts=False)
    page = offline_page(html.encode(), "text/html", links)
    assert b"//b.test" not in page
    assert links.skipped == 1


def test_a_style_sheet_grows_no_further_than_its_bound(monkeypatch):
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 100_000)
    deep = "".join(f"{n}/" for n in range(300))
    body = b"p{background:url(a)}" * 3_000
    links = OfflineReferences(
        f"https://a.test/{deep}", f"a.test/{deep}x.css", files=(), scripts=False
    )
    assert len(offline_style(body, "text/css", links)) <= 4 * len(body) + 100_000


def test_a_page_that_utf_8_makes_longer_is_rewritten(monkeypatch):
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 1_000)
    body = b"<a href=x>1</a>" + b"\xa0" * 50_000
    links = OfflineReferences("https://a.test/", "a.test/index.html", files=(), scripts=True)
    page = offline_page(body, "text/html; charset=windows-1252", links)
    assert len(page) <= 4 * len(body) + 1_000
    assert b'<a href="x~.html"' in page
    assert list(links.marked) == ["https://a.test/x"]

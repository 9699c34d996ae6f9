"""Sitemaps and feeds of every kind, whole and broken, in pieces of every size."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from crawler.documents.sitemap import SitemapParser
from crawler.documents.sitemap_xml import Entry
from crawler.documents.sniff import DocumentKind, sniff
from policies.listing import Changefreq
from tests.tables import each

URLSET = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://g.test/image">
  <url>
    <loc>http://a.test/1?x=1&amp;y=2</loc><lastmod>2024-03-05</lastmod>
    <changefreq>daily</changefreq><priority>0.8</priority>
    <image:image><image:loc>http://a.test/not-this.png</image:loc></image:image>
  </url>
  <!-- <url><loc>http://a.test/not-this-either</loc></url> -->
  <url><loc> http://a.test/2 </loc></url>
</urlset>
"""
INDEX = b"""<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<sitemap><loc>http://a.test/one.xml</loc><lastmod>2024-03-05T10:00:00Z</lastmod></sitemap>
<sitemap><loc>http://a.test/two.xml.gz</loc></sitemap></sitemapindex>"""
RSS = b"""<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title>A &amp; B &nbsp;</title><link>http://a.test/</link>
<atom:link href="http://a.test/feed" rel="self"/>
<item><title>1</title><link>http://a.test/1</link><guid>tag:1</guid>
<pubDate>Tue, 05 Mar 2024 10:30:00 GMT</pubDate></item>
<item><guid>http://a.test/2</guid></item>
<item><guid isPermaLink="false">http://a.test/not-this</guid></item>
<item><link><![CDATA[http://a.test/3?a=1&b=2]]></link></item>
</channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://a.test/blog/">
<link href="http://a.test/"/><link rel="self" href="feed.atom"/>
<entry><link rel="edit" href="not-this"/><link href="one"/><updated>2024-03-05T10:30:00Z</updated>
</entry>
<entry><link rel="alternate" href="http://a.test/two"/></entry></feed>"""
TEXT = b"\xef\xbb\xbfhttp://a.test/1\r\nhttp://a.test/2?a=1&b=2\n\nftp://no\nwords\nhttp://a.test/3"
ONE = b"<url><loc>http://a.test/1</loc></url>"
TWO = b"<url><loc>http://a.test/2</loc></url>"
E_ACUTE = "<urlset><url><loc>http://a.test/é</loc></url>"
LAUGHS = (
    b'<!DOCTYPE urlset [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;"> <!ENTITY x SYSTEM "file:///etc/'
    b'passwd">]><urlset><url><loc>http://a.test/&b;&x;?q&lt=1</loc></url></urlset>'
)


def parse(
    document: bytes, *, step: int = 1 << 16, **values: int
) -> tuple[list[Entry], SitemapParser]:
    parser = SitemapParser(**values)
    entries: list[Entry] = []
    for start in range(0, len(document), step):
        for some in parser.feed(document[start : start + step]):
            entries += some
    for some in parser.close():
        entries += some
    return entries, parser


def locs(document: bytes, **values: int) -> list[str]:
    return [entry.loc for entry in parse(document, **values)[0]]


@each("step", [1, 7, 1 << 16])
@each("pack", [bytes, gzip.compress])
@each(
    ("document", "kind", "expected"),
    [
        (URLSET, DocumentKind.URLSET, ["http://a.test/1?x=1&y=2", "http://a.test/2"]),
        (INDEX, DocumentKind.INDEX, ["http://a.test/one.xml", "http://a.test/two.xml.gz"]),
        (RSS, DocumentKind.RSS, ["http://a.test/1", "http://a.test/2", "http://a.test/3?a=1&b=2"]),
        (ATOM, DocumentKind.ATOM, ["http://a.test/blog/one", "http://a.test/two"]),
        (
            TEXT,
            DocumentKind.TEXT,
            ["http://a.test/1", "http://a.test/2?a=1&b=2", "http://a.test/3"],
        ),
        (LAUGHS, DocumentKind.URLSET, ["http://a.test/&b;&x;?q&lt=1"]),
    ],
)
def test_every_kind_in_pieces_of_every_size(
    document: bytes, kind: DocumentKind, expected: list[str], step: int, pack: type[bytes]
) -> None:
    entries, parser = parse(pack(document), step=step)
    assert [entry.loc for entry in entries] == expected
    assert (parser.kind, parser.problem) == (kind, None)
    assert parser.read_bytes == len(document)
    assert sniff(pack(document)[:4096]) is kind


def test_what_is_said_of_a_url_is_kept() -> None:
    first, second = parse(URLSET)[0]
    assert first.listing.lastmod_at == 1709596800.0
    assert first.listing.changefreq is Changefreq.DAILY
    assert first.listing.priority == 0.8
    assert (second.listing.lastmod_at, second.listing.priority) == (None, None)
    assert [entry.sitemap for entry in parse(INDEX)[0]] == [True, True]
    assert parse(RSS)[0][0].listing.lastmod_at == 1709634600.0
    assert parse(ATOM)[0][0].listing.lastmod_at == 1709634600.0


@each(
    ("document", "expected"),
    [
        (b"<urlset><url><loc>http://a.test/?a=1&b=2&c</loc></url></urlset>", "?a=1&b=2&c"),
        (b"<urlset><url><loc>http://a.test/1</loc></url><url><loc>http://a.test/2", "1"),
        (b"<urlset><url><loc>http://a.test/1</url><url><loc>http://a.test/2</loc></url>", "1 2"),
        (b"<urlset><url><loc>http://a.test/1</loc><url><loc>http://a.test/2</loc></url>", "1 2"),
        (b"<urlset>" + ONE + b"</url>" + TWO + b"</urlset>", "1 2"),
        (b"<urlset>" + ONE + b"</urlset><?xml version='1.0'?><urlset>" + TWO + b"</urlset>", "1 2"),
        (b"<urlset><url><loc>http://a.test/1\x00\x08</loc></url></urlset>", "1"),
        (b"<urlset><url><loc>http://a.test/1&#0;</loc></url></urlset>", "1"),
        (b"<urlset><x:url><y:loc>http://a.test/1</y:loc></x:url></urlset>", "1"),
        (b"\n\n<?xml version='1.0'?><urlset>" + ONE + b"</urlset>", "1"),
        (b"<br/><b>Warning</b>: x\n<?xml version='1.0'?><urlset>" + ONE, "1"),
        (b"<urlset><url><lastmod>2024-01-01</lastmod></url><url><loc/></url></urlset>", ""),
        (b"<urlset></urlset>", ""),
        (b"<sitemapindex><sitemap>\n http://a.test/1 </sitemap></sitemapindex>", "1"),
        (b"<urlset><url>http://a.test/1<lastmod>2024</lastmod></url>" + TWO + b"</urlset>", "1 2"),
        (b"<urlset><url>words<loc>http://a.test/1</loc>http://a.test/2</url></urlset>", "1"),
        (b"<rss><item>http://a.test/1</item></rss>", ""),
        ("<urlset><url><loc>http://a.test/é</loc></url></urlset>".encode("utf-16"), "é"),
        (f"<?xml version='1.0' encoding='iso-8859-1'?>{E_ACUTE}".encode("latin-1"), "é"),
        (b"<urlset><url><loc>http://a.test/\xe9x</loc></url></urlset>", "\ufffdx"),
        (b"<?xml version='1.0' encoding='rot13'?><urlset>" + ONE + b"</urlset>", "1"),
    ],
)
def test_of_a_broken_document_comes_what_can_be_had(document: bytes, expected: str) -> None:
    whole = [loc.removeprefix("http://a.test/") for loc in locs(document)]
    assert whole == expected.split()
    assert locs(document, step=1) == locs(document)


@each(
    "document",
    [b"", b"<", b"<!DOCTYPE html><html><body><a href='http://a.test/'>x</a></body></html>",
     b"\x89PNG\r\n\x1a\n" + b"\0" * 99, b"words only", b"<svg><url><loc>http://a.test/</loc></url>"],
)  # fmt: skip
def test_what_is_no_sitemap_says_so(document: bytes) -> None:
    entries, parser = parse(document)
    assert (entries, parser.kind) == ([], None)
    assert parser.problem == "neither a sitemap nor a feed"
    assert sniff(document) is None


ALTERNATES = b"""<urlset xmlns:xhtml="http://www.w3.org/1999/xhtml"><url>
<loc>http://a.test/en</loc><priority>1</priority>
<xhtml:link rel="alternate" hreflang="de" href="http://a.test/de?a=1&amp;b"/>
<xhtml:link rel="ALTERNATE" media="handheld" href='http://m.a.test/'></xhtml:link>
<xhtml:link rel="canonical" href="http://a.test/not-this"/><xhtml:link rel="alternate"/>
</url></urlset>"""


def test_alternates_of_a_page_are_taken() -> None:
    entries, _ = parse(ALTERNATES)
    said = {entry.loc: entry.listing.priority for entry in entries}
    assert said == {
        "http://a.test/en": 1.0,
        "http://a.test/de?a=1&b": None,
        "http://m.a.test/": None,
    }


def test_enclosures_and_identifiers_are_no_pages() -> None:
    atom = b"""<feed xmlns="http://www.w3.org/2005/Atom"><id>http://a.test/feed</id>
<entry><id>http://a.test/id</id><link rel="enclosure" href="http://a.test/a.mp3"/>
<link rel="alternate" href="http://a.test/1"/><source><id>http://b.test/</id>
<link href="http://b.test/1"/></source></entry>
<entry><id>http://a.test/id2</id><link rel="enclosure" href="http://a.test/b.mp3"/></entry></feed>"""
    rss = b"""<rss xmlns:media="http://search.yahoo.com/mrss/"><channel><item>
<enclosure url="http://a.test/a.mp3" length="1" type="audio/mpeg"/><link>http://a.test/1</link>
<media:content url="http://a.test/a.jpg"/><comments>http://a.test/1/comments</comments></item>
<item><enclosure url="http://a.test/b.mp3"/></item></channel></rss>"""
    assert locs(atom) == locs(rss) == ["http://a.test/1"]


def test_links_of_a_feed_are_relative_to_its_base() -> None:
    items = "<item><link>1</link></item><item xml:base='c/'><link>/2</link></item>"
    rss = f"<rss xml:base='http://a.test/x'><channel xml:base='b/'>{items}</channel></rss>"
    assert locs(rss.encode()) == ["http://a.test/b/1", "http://a.test/2"]


@each("pack", [bytes, gzip.compress])
@each("document", [URLSET, INDEX, RSS, ATOM, TEXT, ALTERNATES])
def test_a_document_cut_anywhere_gives_whole_urls_and_its_error(
    document: bytes, pack: type[bytes]
) -> None:
    document = document.replace(b"<!-- ", b"").replace(b" -->", b"")
    whole = set(locs(document))
    packed = pack(document)
    end = len(document.rstrip())  # what stands behind the root says nothing
    for size in range(len(packed)):
        found, parser = parse(packed[:size])
        if pack is bytes and document is TEXT:
            continue  # nothing tells that a text is cut
        assert {entry.loc for entry in found} <= whole
        assert parser.problem is not None or (pack is bytes and size >= end)
    for size in range(len(document)):
        found, parser = parse(document, bytes_max=size)
        assert {entry.loc for entry in found} <= whole
        assert parser.problem is not None


@each(
    "form",
    [
        "<urlset><url><loc>{}</loc></url></urlset>",
        "<urlset><url><loc>http://a.test/1</loc><link rel='alternate' href='{}'/></url></urlset>",
        "<sitemapindex><sitemap>{}</sitemap></sitemapindex>",
        "<feed><entry><link href='{}'/></entry></feed>",
        "<rss><item><guid>{}</guid></item></rss>",
        "http://a.test/1\n{}\nhttp://a.test/2\n",
    ],
)
@each(
    "url",
    [
        "http://a.test/" + "x" * 9_000,
        "http://a.test/" + "x" * 90_000,
        "http://a.test/" + "&#x00061;" * 9_000,
    ],
)
@each("step", [100, 1 << 16])
def test_no_url_is_shortened(form: str, url: str, step: int) -> None:
    if not form.startswith("<") and "&" in url:
        return  # a text has no references
    entries, parser = parse(form.format(url).encode(), step=step)
    assert all(len(entry.loc) <= 15 for entry in entries)
    if "'{}'" in form and len(url) > 32_000:
        return  # such a tag is none
    assert parser.overlong == 1


def test_a_stream_cut_short_gives_what_came() -> None:
    document = b"<urlset>" + b"<url><loc>http://a.test/1</loc></url>" * 3000
    entries, parser = parse(gzip.compress(document)[:-40])
    assert entries
    assert parser.problem == "the gzip body is incomplete"
    assert parse(b"\x1f\x8bnot gzip at all")[1].problem == "the body is not valid gzip"


def test_beyond_its_bound_nothing_is_read() -> None:
    document = b"<urlset>" + b"<url><loc>http://a.test/1</loc></url>" * 3000
    for packed in (document, gzip.compress(document)):
        entries, parser = parse(packed, bytes_max=20_000)
        assert 500 < len(entries) < 550
        assert parser.cut
        assert not parser.wants_more
        assert parser.problem == "longer than 20,000 bytes: the rest was ignored"
        assert parser.read_bytes == 20_000


def test_an_html_page_is_not_read_to_its_end() -> None:
    parser = SitemapParser()
    for _ in parser.feed(b"<html>" + b"x" * 5000):
        pass
    assert not parser.wants_more


def hostile(name: str) -> Iterator[bytes]:
    """Some 400 KB each."""
    match name:
        case "entries":
            yield b"<urlset>" + b"<url><loc>http://a.test/1</loc></url>" * 10
            piece = b"<url><loc>http://a.test/p/1?a=1&b=2</loc></url>\n" * 1000
        case "junk":
            piece = b"<junk a='1'/>" * 4000
            yield b"<urlset>"
        case "inside":
            piece = b"<junk>x</junk>" * 4000
            yield b"<urlset><url>"
        case "deep":
            piece = b"<url>" * 10_000
            yield b"<urlset>"
        case "comments":
            piece = b"<!-- x -->" * 5000
            yield b"<urlset>"
        case "entities":
            piece = b'<!ENTITY a "' + b"x" * 40_000 + b'">\n'
            yield b"<!DOCTYPE urlset ["
        case "text":
            piece = b"x" * 50_000
            yield b"<urlset><url><loc>http://a.test/"
        case "attributes":
            piece = b"x" * 50_000
            yield b"<urlset a='"
        case "line":
            piece = b"x" * 50_000
            yield b"http://a.test/1\n"
        case "bomb":
            yield gzip.compress(b"<urlset>" + b"<junk/>" * 60_000, compresslevel=9)
            return
        case _:
            raise ValueError(name)
    for _ in range(9):
        yield piece


@each(
    "name",
    ["entries", "junk", "inside", "deep", "comments", "entities", "text", "attributes", "line",
     "bomb"],
)  # fmt: skip
def test_law_7_no_document_takes_much_memory(name: str) -> None:
    parser = SitemapParser()
    pieces = list(hostile(name))
    tracemalloc.start()
    try:
        for piece in pieces:
            for _ in parser.feed(piece):
                pass
            if not parser.wants_more:
                break
        for _ in parser.close():
            pass
        assert tracemalloc.get_traced_memory()[1] < 320_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.sampled_from([
    b"<urlset>", b"</urlset>", b"<url>", b"</url>", b"<loc>", b"</loc>", b"http://a.test/?a&b",
    b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<!DOCTYPE x [", b"]>", b"<?xml", b"?>", b"\xff\xfe",
    b"\x1f\x8b", b"&amp;", b"<feed>", b"<entry>", b"<link href='", b"'/>", b"<", b">", b"\n",
    b"&#x41;", b"&#xFFFFF;",
]), max_size=30), st.integers(1, 40))  # fmt: skip
def test_any_document_in_any_pieces_is_read_alike(parts: list[bytes], step: int) -> None:
    document = b"".join(parts)
    whole, parser = parse(document)
    pieces, other = parse(document, step=step)
    assert pieces == whole
    assert (other.kind, other.problem) == (parser.kind, parser.problem)


PAIR = "<url><loc>http://a.test/&#55357;&#56832;</loc></url>"


@each(
    ("junk", "loc"),
    [
        (PAIR, "http://a.test/\U0001f600"),  # as UTF-16 has it, in two
        ("<url><loc>http://a.test/&#xD83D;</loc></url>", "http://a.test/\ufffd"),
        ("<url><loc>http://a.test/&#x110000;</loc></url>", "http://a.test/\ufffd"),
        ("<url><loc>http://a.test/&#99999999;</loc></url>", "http://a.test/&#99999999;"),
        ("<url><loc>http://a.test/&#0;&#11;</loc></url>", "http://a.test/"),
        ("<url><loc>http://a.test/&nbsp;</loc></url>", "http://a.test/&nbsp;"),
        ("<url><loc><![CDATA[http://a.test/?a&b]]></loc></url>", "http://a.test/?a&b"),
        ("<url><loc>http://a.test/<![CDATA[]]]]><![CDATA[>]]></loc></url>", "http://a.test/]]>"),
        ("<url><loc", None), ("<url x='", None), ('<a b="', None), ("<", None), ("</", None),
        ("<!--", None), ("<![CDATA[", None), ("<?x", None), ("<!DOCTYPE", None), ("<1>", None),
        ("<!DOCTYPE x [", None), ("</w>" * 9, None), ("</urlset></urlset>", None), ("]]>", None),
        ("<b>" * 3_000, None), ("<!ELEMENT x>", None), ("<![IGNORE[ x ]]>", None), ("&#", None),
        ("\ufeff\ufeff\ufffe\x00\x1f", None), ("<" * 9_000, None), ("<a b='" * 9_000, None),
        ("<!--" + "x" * 70_000, None), ("<![CDATA[" + "x" * 300_000, None),
    ],
)  # fmt: skip
def test_what_is_wrong_costs_at_most_its_entry(junk: str, loc: str | None) -> None:
    document = f"<urlset>{ONE.decode()}{junk}{TWO.decode()}</urlset>".encode()
    one, *middle, two = locs(document)
    assert (one, two) == ("http://a.test/1", "http://a.test/2")
    assert middle == ([] if loc is None else [loc])


MARKS = [
    "<", ">", "</", "/>", "&", "&#55357;", "&#x110000;", "&#0;", "&foo;", "'", '"', "<a b='", "=",
    "<url>", "</url>", "<loc>", "</loc>", "<item>", "</item>", "<link>", "</urlset>", "<urlset>",
    "<!--", "<![CDATA[", "]]>", "<?xml encoding='rot13'", "?>", "<!DOCTYPE x [", "<!ENTITY a 'b'>",
    "\x00", "\ufffe", "\ud800", "\ufeff", "<x:y xmlns:x='z'>", "<svg/onload=1>", "x" * 300,
]  # fmt: skip
FORMS = {
    "urlset": (
        "<urlset xmlns='http://s.test/'>",
        "<url><loc>{}</loc><priority>0.5</priority></url>",
    ),
    "rss": ("<rss><channel><title>x</title>", "<item><link>{}</link><guid>x</guid></item>"),
    "cdata": ("<rss><channel>", "<item><link><![CDATA[{}]]></link></item>"),
    "feed": ("<feed>", "<entry><id>x</id><link href='{}'/></entry>"),
}


@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=6).map("".join),
    st.integers(0, 6),
    st.integers(0, 200),
    st.integers(1, 400),
)
@example("cdata", "<!DOCTYPE x [", 0, 38, 1)
def test_junk_at_any_place_costs_at_most_the_entry_it_is_in(
    form: str, junk: str, number: int, at: int, step: int
) -> None:
    root, entry = FORMS[form]
    written = [entry.format(f"http://a.test/{n}") for n in range(7)]
    at = min(at, len(written[number]))
    spoilt = written[number][:at] + junk + written[number][at:]
    text = root + "".join([*written[:number], spoilt, *written[number + 1 :]])
    found = locs(text.encode("utf-8", "surrogatepass"), step=step)
    whole = [f"http://a.test/{n}" for n in range(7) if n != number]
    assert [loc for loc in found if loc in whole] == whole


@each("piece", [b"<!--", b"<![CDATA[", b"<?", b"<!x"])
def test_a_file_of_broken_parts_is_not_read_to_its_end(piece: bytes) -> None:
    parser = SitemapParser()
    wanted = 0
    for part in (b'<?xml version="1.0"?><urlset>', *[piece * 16_384] * 40):
        for _entries in parser.feed(part):
            pass
        wanted += parser.wants_more
    assert wanted < 10

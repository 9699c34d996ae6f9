"""Queries of links in the encoding of their page (WHATWG URL, "percent-encode after encoding")."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import page
from crawler.documents.decoders import decode
from crawler.documents.encoding_index import NAMES
from crawler.documents.query import encoded_query, with_encoded_query
from crawler.documents.sitemap import SitemapParser
from crawler.sinks.offline import OfflineReferences, offline_page, offline_style
from crawler.sinks.requisites import requisites
from policies.url import canonical
from tests.crawler.sinks.doubles import Everything
from tests.growth import assert_linear, repeated
from tests.tables import each

URL = "https://a.test/d/p?old"
AS_UTF8 = {"utf-8", "utf-16le", "utf-16be", "replacement"}
LEGACY = sorted(NAMES - AS_UTF8)
WORD = "поиск"


@each(
    ("encoding", "query", "meant"),
    [
        ("windows-1251", "q=поиск", "q=%EF%EE%E8%F1%EA"),
        ("windows-1251", "q=漢\U0001f600ж", "q=%26%2328450%3B%26%23128512%3B%E6"),
        ("windows-1252", "q=€\x81", "q=%80%81"),
        ("iso-8859-8-i", "שלום", "%F9%EC%E5%ED"),
        ("x-user-defined", "\uf7ff\xff", "%FF%26%23255%3B"),
        # The second byte of a pair may be ASCII; of that, too, what a query cannot have is escaped.
        ("shift_jis", "表ソ\xa5‾−ｱ\x80\ue000", "%95\\%83\\\\~%81|%B1%80%26%2357344%3B"),
        ("gbk", "€丂\ue5e5\U00020087", "%80%81@%26%2358853%3B%26%23131207%3B"),
        ("gb18030", "€丂\ue5e5\U00020087", "%A2%E3%81@%26%2358853%3B%952%901"),
        ("gb18030", "\ue7c7ḿ\ue81e龴", "%815%F47%A8%BC%FEY%FEY"),
        ("big5", "中═㐀", "%A4%A4%F9%F9%26%2313312%3B"),
        ("euc-kr", "한", "%C7%D1"),
        ("euc-jp", "日ｱ丂", "%C6%FC%8E%B1%26%2319970%3B"),
        ("iso-2022-jp", "a日b本", "a%1B$BF|%1B(Bb%1B$BK\\%1B(B"),
        ("iso-2022-jp", "\xa5a\\\xa5日é", "%1B(J\\a%1B(B\\%1B(J\\%1B$BF|%1B(B%26%23233%3B"),
        ("iso-2022-jp", "\x1b$B", "%26%2365533%3B$B"),
        ("iso-2022-jp", "ｱﾞ", "%1B$B%%22!+%1B(B"),
    ],
)  # fmt: skip
def test_characters_become_the_bytes_that_the_encoding_has_for_them(
    encoding: str, query: str, meant: str
) -> None:
    assert encoded_query(query, encoding) == meant


@settings(max_examples=300)
@given(st.sampled_from(LEGACY), st.text(max_size=30))
def test_what_was_encoded_is_read_as_it_was(encoding: str, text: str) -> None:
    """But for numbers in the places of characters that the encoding does not have, and for those
    that it has twice."""
    written = encoded_query(text, encoding)
    assert written.isascii()
    back = decode(unquote_to_bytes(written), encoding)
    again = encoded_query(back, encoding)
    assert decode(unquote_to_bytes(again), encoding) == back


@settings(max_examples=300)
@given(encoding=st.sampled_from(LEGACY), data=st.binary(max_size=40))
def test_text_of_a_page_goes_back_to_its_server_as_text_that_reads_the_same(
    encoding: str, data: bytes
) -> None:
    text = decode(data, encoding).replace("\ufffd", "")
    if encoding == "iso-2022-jp":
        text = "".join(c for c in text if c not in "\x0e\x0f\x1b")
    sent = decode(unquote_to_bytes(encoded_query(text.replace("%", ""), encoding)), encoding)
    meant = text.replace("%", "")
    if encoding in ("shift_jis", "euc-jp", "iso-2022-jp"):
        meant = meant.translate(str.maketrans("\u2212", "\uff0d"))
    unwritten = "&#" in sent and "&#" not in meant  # Big5 of Hong Kong, Shift_JIS of private use
    halves = encoding == "iso-2022-jp" and any("\uff61" <= c <= "\uff9f" for c in meant)
    twice = encoding in ("shift_jis", "euc-jp") and any(c in "\xa5\u203e" for c in meant)
    assert sent == meant or unwritten or halves or twice


@settings(max_examples=300)
@given(
    encoding=st.sampled_from(sorted(NAMES)),
    href=st.text(st.sampled_from("aж日é¥?#/:\t\n %.\\\x0e\x1b&"), max_size=25),
)
def test_only_the_query_changes(encoding: str, href: str) -> None:
    written = with_encoded_query(href, encoding)
    ours, usual = canonical(written, URL), canonical(href, URL)
    if encoding in AS_UTF8:
        assert written == href
    assert (ours is None) == (usual is None)
    if ours is not None and usual is not None:
        assert ours.partition("?")[0] == usual.partition("?")[0]
        assert canonical(ours) == ours


def test_long_queries_take_linear_time() -> None:
    for encoding in LEGACY:
        assert_linear(
            lambda text, name=encoding: encoded_query(text, name),  # type: ignore[misc]
            repeated("", "日é\U0001f600"),
            10_000,
            name=encoding,
        )


BODY = """<!DOCTYPE html><head><base href="/b/?ж"><link rel=next href="?n=ж">
<meta http-equiv=refresh content="0; url=?m=ж"><body><a href="/ж?q=поиск#ж">x</a>
<a href=?q=&#8364;漢>y</a><map><area href="?ar=ж"></map><iframe src="?f=ж"></iframe>
<a href="">self</a>{}"""


@pytest.mark.parametrize("more", ["", "<a href=x><table>", "<b>" * 600])
def test_all_that_a_page_links_is_in_its_encoding(more: str) -> None:
    """Read from the tags, from a tree, and from a page too tangled for one."""
    body = BODY.format(more).encode("windows-1251", "xmlcharrefreplace")
    headers = CIMultiDictProxy(
        CIMultiDict({"Content-Type": "text/html; charset=windows-1251", "Link": "</l?ж>; rel=next"})
    )
    found = {link.url for link in page.parse_page(URL, headers, body, tokens=["x"]).links}
    found.discard("https://a.test/b/x")
    b = "https://a.test/b/"
    assert found == {
        "https://a.test/l?%D0%B6",  # of a header: UTF-8
        "https://a.test/%D0%B6?q=%EF%EE%E8%F1%EA",
        f"{b}?%E6",
        f"{b}?n=%E6",
        f"{b}?m=%E6",
        f"{b}?q=%88%26%2328450%3B",
        f"{b}?ar=%E6",
        f"{b}?f=%E6",
    }


def test_headers_and_page_may_write_the_same_href() -> None:
    headers = CIMultiDictProxy(
        CIMultiDict({"Content-Type": "text/html; charset=koi8-r", "Link": "<?ж>; rel=next"})
    )
    found = page.parse_page(URL, headers, "<a href='?ж'>x</a>".encode("koi8-r"), tokens=["x"]).links
    assert [link.url for link in found] == ["https://a.test/d/p?%D0%B6", "https://a.test/d/p?%D6"]


def test_utf16_and_what_is_replaced_send_utf8() -> None:
    body = '<a href="?ж">x</a>'.encode("utf-16-le")
    utf16 = CIMultiDictProxy(CIMultiDict({"Content-Type": "text/html; charset=utf-16"}))
    read = page.parse_page(URL, utf16, body, tokens=["x"])
    assert [link.url for link in read.links] == ["https://a.test/d/p?%D0%B6"]
    replaced = CIMultiDictProxy(CIMultiDict({"Content-Type": "text/html; charset=iso-2022-kr"}))
    read = page.parse_page(URL, replaced, b"<a href=x>", tokens=["x"])
    assert (read.charset, read.links) == ("replacement", ())


def test_what_a_page_needs_and_where_its_mirror_leads() -> None:
    html = (
        '<img src="?i=ж"><style>p{background:url(?s=ж)}</style><p style="background:url(?a=ж)">'
        '<iframe srcdoc="<img src=?d=ж>"></iframe><form action="?ж"></form><a href="https://b.test/?ж">x</a>'
    )
    body, declared = html.encode("cp1251"), "text/html; charset=windows-1251"
    found = requisites(URL, declared, body, scripts=False).roles
    d = "https://a.test/d/p"
    assert set(found) == {f"{d}?i=%E6", f"{d}?s=%E6", f"{d}?a=%D0%B6", f"{d}?d=%D0%B6"}
    links = OfflineReferences(URL, "a/p.html", files=(), scripts=False)
    mirrored = offline_page(body, declared, links).decode()
    assert f'action="{d}?%E6"' in mirrored
    assert 'href="https://b.test/?%E6"' in mirrored


def test_drawings_have_encodings_of_their_own() -> None:
    drawing = """<?xml version="1.0" encoding="windows-1251"?>
    <svg xmlns="http://www.w3.org/2000/svg"><image href="?ж"/></svg>""".encode("cp1251")
    found = requisites(URL, "image/svg+xml", drawing, scripts=False).roles
    assert set(found) == {"https://a.test/d/p?%E6"}


def test_what_sitemaps_and_feeds_list_is_utf8() -> None:
    """An address there is a URI, or else an IRI, which is mapped by UTF-8 (RFC 3987, 3.1)."""
    parser = SitemapParser()
    feed = """<?xml version="1.0" encoding="windows-1251"?><feed xmlns="http://www.w3.org/2005/Atom">
    <entry><link href="https://a.test/ж?q=ж"/></entry></feed>""".encode("cp1251")
    entries = [one for some in (*parser.feed(feed), *parser.close()) for one in some]
    assert [canonical(one.loc) for one in entries] == ["https://a.test/%D0%B6?q=%D0%B6"]


def test_a_base_in_a_mirror_has_its_query_in_the_page_s_encoding() -> None:
    body = """<base href="https://b.test/x?ж"><a href="#a">x</a>""".encode("koi8-r")
    links = OfflineReferences(URL, "a/p.html", files=(), scripts=False)
    mirrored = offline_page(body, "text/html; charset=koi8-r", links).decode()
    assert 'href="https://b.test/x?%D6#a"' in mirrored


@pytest.mark.parametrize(
    ("content_type", "first", "sent"),
    [
        ("text/css; charset=windows-1251", "", "%E6"),
        ("text/css", '@charset "windows-1251";', "%E6"),
        ("text/css; charset=utf-8", "", "%D0%B6"),
    ],
)
def test_style_sheets_have_encodings_of_their_own(content_type: str, first: str, sent: str) -> None:
    """As Chromium has it: all but imports."""
    text = first + '@import "i.css?ж"; p{background:url("?ж")} q{background:image-set("?s=ж" 1x)}'
    body = text.encode("cp1251" if sent == "%E6" else "utf-8")
    found = requisites(URL, content_type, body, scripts=False).roles
    d = "https://a.test/d/"
    assert set(found) == {f"{d}i.css?%D0%B6", f"{d}p?{sent}", f"{d}p?s={sent}"}
    links = OfflineReferences("https://a.test/s.css", "s.css", files=Everything(), scripts=False)
    assert offline_style(body, content_type, links)

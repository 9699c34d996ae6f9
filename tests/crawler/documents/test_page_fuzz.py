"""Whatever bytes stand in header and body: a page, in bounded time, of which all can be kept."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import page
from crawler.fetching.request import readable
from policies.indexing import Directives, from_header, from_meta
from policies.url import canonical, parse_seed
from tests.growth import assert_linear, repeated
from tests.tables import each

URL = "http://a.test/dir/"
TOKENS = ("examplebot",)
NAMES = ["Content-Type", "Link", "Refresh", "X-Robots-Tag", "Location", "Content-Language"]

_WORDS = [
    b"noindex", b"nofollow", b"none", b"examplebot:",
    b"unavailable_after: 25 Jun 2010 15:00:00 PST", b"<", b">", b";", b",", b"=", b'"', b"\\", b" ",
    b"\t", b"rel=next", b"rel", b"url=", b"0", b"'", b"text/html", b"application/xhtml+xml",
    b"; charset=", b"utf-16", b"utf-7", b"iso-2022-jp", b"http://", b"//", b"/x", b"[", b"%", b"#",
    b"?", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\x00",
]  # fmt: skip
_VALUES = st.lists(st.sampled_from(_WORDS), max_size=12).map(b"".join) | st.binary(max_size=80)
_MARKUP = [
    b"<a href=", b"<a ", b"href", b"=", b"'", b'"', b">", b"</a>", b"<", b"</", b"<!--", b"-->",
    b"<!", b"<![CDATA[", b"]]>", b"<?xml ?>", b"<base href=/b/>", b"<meta name=robots content=",
    b"none", b"<meta http-equiv=refresh content='0;url=x'>", b"<meta charset=utf-16>", b"<title>",
    b"</title>", b"<svg>", b"<math>", b"<table>", b"<select>", b"<template>", b"<script>",
    b"</script>", b"<style>", b"<plaintext>", b"<noscript>", b"<frameset>", b"<iframe src=y>",
    b"<link rel=next href=z>", b"<div>" * 60, b"<b>" * 40, b"<p>", b"&", b"&#0;", b"&#xd800;",
    b"&#x110000;", b"&notin;", b"/", b"x", b" ", b"\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", b"\x1b$B", b"\x80",
]  # fmt: skip
_BODIES = (
    st.lists(st.sampled_from(_MARKUP), max_size=40).map(b"".join)
    | st.binary(max_size=400)
    | st.lists(st.sampled_from(_MARKUP), max_size=10).map(
        lambda pieces: b"".join(pieces).decode("latin-1").encode("utf-16")
    )
)


@given(
    headers=st.lists(st.tuples(st.sampled_from(NAMES), _VALUES), max_size=6),
    body=_BODIES,
    read_first=st.booleans(),
)
@settings(max_examples=210, deadline=None)
@example([("Content-Type", b"text/html; charset=\xff")], b"<title>\xed\xa0\x80", False)
@example([("Link", b"<\xe9>; rel=next"), ("Refresh", b"0;\xff")], b"", False)
def test_any_bytes_make_a_page(
    headers: list[tuple[str, bytes]], body: bytes, read_first: bool
) -> None:
    """Also from headers as aiohttp gives them, with lone surrogates."""
    given_headers = CIMultiDictProxy(
        CIMultiDict((name, value.decode("utf-8", "surrogateescape")) for name, value in headers)
    )
    if read_first:
        given_headers = readable(given_headers)
    made = page.parse_page(URL, given_headers, body, tokens=TOKENS)
    kept = [made.title, made.canonical_url, made.charset]
    for link in made.links:
        assert canonical(link.url) == link.url
        kept += [link.url, link.anchor]
    json.dumps(kept, ensure_ascii=False).encode()
    assert isinstance(made.directives, Directives)
    page.may_be_html(given_headers.get("Content-Type"))


@given(_VALUES | st.binary(max_size=300))
@settings(max_examples=140, deadline=None)
def test_any_bytes_are_a_robots_tag(value: bytes) -> None:
    for text in (value.decode("utf-8", "surrogateescape"), value.decode("latin-1")):
        assert isinstance(from_header([text], TOKENS), Directives)
        assert isinstance(from_meta([(text, text), ("robots", text)], TOKENS), Directives)


@given(_VALUES, _VALUES)
@settings(max_examples=140, deadline=None)
def test_any_bytes_are_a_url_or_none(href: bytes, base: bytes) -> None:
    for decode in ("utf-8", "latin-1"):
        text = href.decode(decode, "surrogateescape")
        under = base.decode(decode, "surrogateescape")
        for url in (
            canonical(text),
            canonical(text, URL),
            canonical(text, "http://a.test/" + under),
        ):
            assert url is None or url.isascii()
            assert url is None or canonical(url) == url
        with_sentence(text)


def with_sentence(text: str) -> None:
    try:
        parse_seed(text)
    except ValueError as error:
        str(error).encode("utf-8", "backslashreplace")


_REPEATED = [
        "a", " ", ",", ":", ";", "noindex,", "a:", "a: b:", "examplebot:noindex,", "<", "<a>",
        "<a>;", '<a>;x="', '<a>;x="\\', "<a>; x =", "0;url=", "0 ;", ".", "'", '"', "\\", "/",
        "../", "./", "%", "%41", "%%", "?", "#", "&a=", "@", "[", "xn--", "a.", "http://",
        "http://a.test/", "\t", "\n", "é", "\udcff", "\x00", "-", "1.", "0x1.",
]  # fmt: skip


@each("piece", _REPEATED)
def test_no_repetition_takes_long(piece: str) -> None:
    """Where it is read as header, as href and as meta element."""

    def read(text: str) -> None:
        pairs = [(name, text) for name in NAMES if name != "Location"]
        headers = CIMultiDictProxy(CIMultiDict(pairs))
        page.parse_page(URL, headers, b"", tokens=TOKENS)
        page.may_be_html(text)
        readable(CIMultiDictProxy(CIMultiDict([("X", text[:262_144])])))  # a header has no more
        from_meta([("robots", text), (text, text)], TOKENS)
        for href in (text, "http://a.test/" + text, "http://" + text, text + "/x"):
            canonical(href, URL)
        with_sentence(text)

    assert_linear(read, repeated("", piece), 200_000)

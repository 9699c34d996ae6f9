"""Attributes of a sitemap's or feed's tags: what is read of them, and at what price."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.documents.sitemap import SitemapParser
from crawler.documents.sitemap_xml import _ATTRIBUTE
from tests.growth import assert_linear
from tests.tables import each

# As it was once written: right, and slow.
PLAIN = re.compile(r"""([^\s<>/"'=]+)\s*=\s*(?:"([^<"]*)"|'([^<']*)'|([^\s<>"'/]+))""")


@settings(max_examples=400)
@given(st.text("ab=\"' /<>\n:", max_size=30))
def test_it_finds_what_the_plain_one_finds(text: str) -> None:
    assert _ATTRIBUTE.findall(text) == PLAIN.findall(text)


@each("piece", ["a", "a ", "=", "a=", '"', "a b", "a='", " "])
def test_a_long_tag_costs_no_square(piece: str) -> None:
    """One of 20 KB took 2.5 s."""

    def feed(size: int) -> bytes:
        entry = f"<entry><link {piece * (size // len(piece))}/></entry>"
        return f'<feed xmlns="http://www.w3.org/2005/Atom">{entry * 4}</feed>'.encode()

    def read(document: bytes) -> None:
        parser = SitemapParser()
        for _ in (*parser.feed(document), *parser.close()):
            pass

    assert_linear(read, feed, 30_000)

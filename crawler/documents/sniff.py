"""What a document is, by how it begins: a sitemap, a feed, or neither. No parser is loaded."""

from __future__ import annotations

import enum
import re
from typing import Final

from crawler.documents.charset import to_utf8
from crawler.fetching.decoding import Decoder, DecodingError, decoder_for

SNIFF_BYTES: Final = 4_096  # by then a document has said what it is, comments and all

GZIP: Final = b"\x1f\x8b"
_FIRST_TAG: Final = re.compile(rb"<(?:[\w.-]+:)?([A-Za-z_][\w.-]*)")
_NOT_TAGS: Final = re.compile(
    rb"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE
)
ROOT: Final = re.compile(
    rb"<(?:[\w.-]+:)?(urlset|sitemapindex|rss|rdf|feed)(?=[\s/>])", re.IGNORECASE
)
URL: Final = re.compile(rb"https?://[^\s<>]+", re.IGNORECASE)


class DocumentKind(enum.StrEnum):
    URLSET = "urlset"
    INDEX = "index"
    RSS = "rss"
    ATOM = "atom"
    TEXT = "text"


ROOTS: Final = {
    b"urlset": DocumentKind.URLSET,
    b"sitemapindex": DocumentKind.INDEX,
    b"rss": DocumentKind.RSS,
    b"rdf": DocumentKind.RSS,  # RSS 0.9 and 1.0
    b"feed": DocumentKind.ATOM,
}


def sniff(head: bytes) -> DocumentKind | None:
    """What a document is that begins so, by its root element or its first line; None: no sitemap
    and no feed. Looks into gzip. Strict: for what was not said to be one."""
    if head.startswith(GZIP):
        try:
            head = gunzip().feed(head, SNIFF_BYTES)
        except DecodingError:
            return None
    text, _ = to_utf8(head, None)
    text = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"<"):
        return DocumentKind.TEXT if URL.fullmatch(text.split(b"\n", 1)[0].strip()) else None
    tag = _FIRST_TAG.search(_NOT_TAGS.sub(b"", text))
    return ROOTS.get(tag[1].lower()) if tag else None


def gunzip() -> Decoder:
    decoder = decoder_for(["gzip"])
    assert decoder is not None
    return decoder

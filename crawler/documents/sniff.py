"""Detection of sitemaps and feeds by their first bytes, without a parser."""

from __future__ import annotations

import enum
import re
from typing import Final

from crawler.documents.charset import to_utf8
from crawler.fetching.content_coding import ContentDecoder, DecodingError, decoder_for

SNIFF_BYTES: Final = 4_096  # includes the root element, even after comments

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
    """Return the kind of a document by its first bytes, which may be compressed with gzip.

    The root element or the first line decides. Return None if it is neither a sitemap nor a feed.
    """
    if head.startswith(GZIP):
        try:
            head = gunzip().feed(head, SNIFF_BYTES)
        except DecodingError:
            return None
    text, _ = to_utf8(head, None)
    text = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"<"):
        first_line = text.split(b"\n", 1)[0].strip()
        return DocumentKind.TEXT if URL.fullmatch(first_line) else None
    tag = _FIRST_TAG.search(_NOT_TAGS.sub(b"", text))
    return ROOTS.get(tag[1].lower()) if tag else None


def gunzip() -> ContentDecoder:
    decoder = decoder_for(["gzip"])
    assert decoder is not None
    return decoder

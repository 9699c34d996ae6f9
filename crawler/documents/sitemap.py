"""Streaming parser for sitemaps and feeds: sitemaps.org 0.9, RSS 0.9 to 2.0, Atom (RFC 4287), text.

Memory is bounded, external resources are never fetched, and entities are never expanded. A broken
document yields its intact entries.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

from crawler.documents.decoders import incremental_decoder
from crawler.documents.prescan import xml_encoding
from crawler.documents.sitemap_xml import CHARS_MAX, NOTHING, WEB, Entry, XmlReader
from crawler.documents.sniff import GZIP, ROOT, SNIFF_BYTES, URL, DocumentKind, gunzip
from crawler.fetching.content_coding import ContentDecoder, DecodingError

SITEMAP_BYTES_MAX: Final = 52_428_800  # uncompressed (sitemaps.org); also applies to feeds
STEP_BYTES: Final = 32_768  # parsed between two yields, in about 3 ms

_WIDE: Final = {
    codecs.BOM_UTF16_LE: "utf-16le",
    codecs.BOM_UTF16_BE: "utf-16be",
    b"<\0": "utf-16le",
    b"\0<": "utf-16be",
}


class SitemapParser:
    """Parses a document in pieces: call `feed` for each piece, then `close`. Never raises.

    Both yield lists of up to a few hundred entries.

    kind: None while unknown, and for documents that are neither a sitemap nor a feed.
    problem: a description of what is wrong with the document, or None.
    cut: whether the document is longer than `bytes_max` and its remainder was ignored.
    read_bytes: uncompressed bytes read so far.
    """

    def __init__(self, *, bytes_max: int = SITEMAP_BYTES_MAX) -> None:
        self.kind: DocumentKind | None = None
        self.problem: str | None = None
        self.cut = False
        self.read_bytes = 0
        self._bytes_max = bytes_max
        self._first: bytes | None = b""  # too short to recognise gzip
        self._gzip: ContentDecoder | None = None
        self._head: bytes | None = b""  # too short to recognise the kind
        self._reader: XmlReader | TextReader | None = None

    @property
    def overlong(self) -> int:
        """The number of URLs omitted because they have more than CHARS_MAX characters."""
        return 0 if self._reader is None else self._reader.overlong

    @property
    def wants_more(self) -> bool:
        """Whether feeding more data can yield more entries."""
        known = self._head is None
        return not self.cut and self.problem is None and not (known and self._reader is None)

    def feed(self, data: bytes) -> Iterator[list[Entry]]:
        """Parse a piece lazily: only while the caller iterates."""
        if self._first is not None:
            data = self._first + data
            if len(data) < len(GZIP):
                self._first = data
                return
            self._first = None
            self._gzip = gunzip() if data.startswith(GZIP) else None
        for plain in self._plain(data):
            yield self._take(plain)
            if not self.wants_more:
                return

    def close(self, *, broken_off: bool = False) -> Iterator[list[Entry]]:
        """Finish. `broken_off`: the document is incomplete because its transfer failed."""
        if self._first:
            yield self._take(self._first)
        if self._gzip is not None and self.wants_more:
            try:
                self._gzip.finish()
            except DecodingError as error:
                self.problem = str(error)
        if self._head is not None:
            yield self._begin(self._head)
        if self._reader is not None:
            yield self._reader.close(cut=broken_off or self.cut or self.problem is not None)
        if self.cut:
            self.problem = f"longer than {self._bytes_max:,} bytes: the rest was ignored"
        elif self.problem is None:
            if self.kind is None:
                self.problem = "neither a sitemap nor a feed"
            elif self._reader is not None:
                self.problem = self._reader.problem

    def _plain(self, data: bytes) -> Iterator[bytes]:
        """Yield uncompressed data in steps."""
        if self._gzip is None:
            for start in range(0, len(data), STEP_BYTES):
                yield data[start : start + STEP_BYTES]
            return
        plain = b"-" * STEP_BYTES
        while len(plain) >= STEP_BYTES:
            try:
                plain = self._gzip.feed(data, STEP_BYTES)
            except DecodingError as error:
                self.problem = str(error)
                return
            data = b""
            yield plain

    def _take(self, plain: bytes) -> list[Entry]:
        if len(plain) > self._bytes_max - self.read_bytes:
            plain, self.cut = plain[: self._bytes_max - self.read_bytes], True
        self.read_bytes += len(plain)
        if self._head is None:
            return self._read(plain)
        self._head += plain
        return self._begin(self._head) if len(self._head) >= SNIFF_BYTES else []

    def _begin(self, head: bytes) -> list[Entry]:
        """Select a reader by the start of the document."""
        self._head = None
        marked = head.startswith(codecs.BOM_UTF8)
        wide = next((name for mark, name in _WIDE.items() if head.startswith(mark)), None)
        narrow = head.lstrip(b"\xef\xbb\xbf \t\r\n") if wide is None else head.replace(b"\0", b"")
        root = ROOT.search(narrow)
        if root is not None or narrow.startswith(b"<"):
            self._reader = XmlReader(wide or (not marked and xml_encoding(narrow)) or "utf-8")
        elif URL.search(narrow):
            self._reader = TextReader(wide or "utf-8")
        else:
            return []
        if root is not None and wide is None:
            head = narrow[root.start() :]  # skip the declaration, or garbage
        return self._read(head)

    def _read(self, data: bytes) -> list[Entry]:
        if self._reader is None:
            return []
        entries = self._reader.feed(data)
        self.kind = self._reader.kind
        if self._reader.over:
            self._reader = None
        return entries


class TextReader:
    """Reads one URL per line and ignores other lines. Has the interface of `XmlReader`."""

    kind = DocumentKind.TEXT
    over = False
    problem = None

    def __init__(self, encoding: str) -> None:
        self.overlong = 0
        self._decoder = incremental_decoder(encoding)
        self._rest = ""

    def feed(self, data: bytes) -> list[Entry]:
        lines = self._lines(self._decoder.decode(data, False))
        # Keep enough of an overlong line to recognise it.
        self._rest = lines.pop()[: CHARS_MAX + 1]
        return self._entries(lines)

    def close(self, *, cut: bool) -> list[Entry]:
        """Finish. `cut`: the last line may be incomplete and is omitted."""
        lines = self._lines(self._decoder.decode(b"", True))
        return self._entries(lines[:-1] if cut else lines)

    def _lines(self, text: str) -> list[str]:
        return (self._rest + text).replace("\r", "\n").split("\n")

    def _entries(self, lines: list[str]) -> list[Entry]:
        entries = []
        for line in lines:
            url = line.strip("\ufeff \t")
            if not WEB.match(url):
                continue
            if len(url) > CHARS_MAX:
                self.overlong += 1
            else:
                entries.append(Entry(url, NOTHING))
        return entries

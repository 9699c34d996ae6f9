"""What a hostile host answers, and how: one entry of ATTACKS for each way to cost a crawler work.

A new attack is one function that yields the pieces of an answer: bytes are sent, a number is a
pause in seconds. `Attack` says for which requests they are sent and by how many hosts.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import brotli  # type: ignore[import-untyped]

from tests.neighbours.robots_files import alike, unlike

Pieces = Iterator[bytes | float]

HTML: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n"
LINKS: Final = 200
PORT: Final = b"PORT0"  # the server replaces it with its own, which has five digits
_counter = itertools.count(1)
WORD: Final = b"<p>normal words of a normal page, with <a href=/page/1>one link</a></p>\n"


class Target(StrEnum):
    """The requests that a hostile host answers with its attack."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """pieces: of the answer to the request for a path.

    hosts: how many of one registrable domain answer so; apart: each has its own. record_bytes: each
    byte string is sent in TLS records of this size. segmented: each byte string in a TCP segment of
    its own. deaf: no TLS handshake is answered. follow: the crawl's scope.
    """

    pieces: Callable[[str], Pieces]
    target: Target = Target.PAGE
    hosts: int = 4
    apart: bool = False
    record_bytes: int = 0
    segmented: bool = False
    deaf: bool = False
    follow: str = "host"

    @property
    def tls(self) -> bool:
        return self.record_bytes > 0


def sized(body: bytes, more: bytes = b"", kind: bytes = HTML) -> bytes:
    """An answer with a Content-Length."""
    return b"%s%sContent-Length: %d\r\n\r\n%s" % (kind, more, len(body), body)


def page(path: str) -> Pieces:
    """A normal page, and links to more."""
    number = int(path.rpartition("/")[2]) if path[-1].isdecimal() else 0
    links = b"".join(b"<a href=/page/%d>x</a>" % (number + n) for n in range(1, LINKS))
    yield sized(b"<!DOCTYPE html><title>Page</title>" + links + WORD * 40)


def chunks(size: int, extension: bytes = b"", zeros: int = 0, end: bytes = b"\r\n") -> Attack:
    """A body of 1 MB in chunks of `size` bytes."""
    line = b"0" * zeros + b"%x" % size + extension + end
    piece = (line + b"x" * size + end) * (8_192 // size)

    def pieces(_: str) -> Pieces:
        yield HTML + CHUNKED
        yield from itertools.repeat(piece, 1_000_000 * size // (8_192 // size * size) // size)
        yield b"0\r\n\r\n"

    return Attack(pieces=pieces)


def endless_chunks(_: str) -> Pieces:
    yield HTML + CHUNKED
    yield from itertools.repeat(b"1\r\nx\r\n" * 10_000)


def many_fields(_: str) -> Pieces:
    fields = b"".join(b"X-%d: %s\r\n" % (n, b"y" * 900) for n in range(240))
    yield sized(b"x", fields)


def endless_fields(_: str) -> Pieces:
    yield HTML
    yield from (b"X-%d: y\r\n" % n for n in itertools.count())


def tiny_fields(_: str) -> Pieces:
    yield HTML
    yield b"a:\r\n" * 1_000_000


def long_fields(_: str) -> Pieces:
    yield sized(b"x", b"".join(b"X-%d: %s\r\n" % (n, b"y" * 60_000) for n in range(4)))


def folded_fields(_: str) -> Pieces:
    yield HTML + b"X: y\r\n"
    yield b" y\r\n" * 500_000


def interims(_: str) -> Pieces:
    yield b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" * 20_000


def continues(_: str) -> Pieces:
    yield from itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 10, 2_000)


def slow_interims(_: str) -> Pieces:
    for _n in range(1_000):
        yield b"HTTP/1.1 100 Continue\r\n\r\n"
        yield 0.5


def huge_cookies(_: str) -> Pieces:
    yield sized(b"x", b"".join(b"Set-Cookie: c%d=%s\r\n" % (n, b"v" * 4_000) for n in range(60)))


def trailers(_: str) -> Pieces:
    yield HTML + CHUNKED + b"1\r\nx\r\n0\r\n"
    yield from (b"X-%d: y\r\n" % n for n in range(500_000))


def long_trailer(_: str) -> Pieces:
    yield HTML + CHUNKED + b"1\r\nx\r\n0\r\n"
    yield from itertools.repeat(b"X: " + b"y" * 60_000 + b"\r\n", 500)


def coded(coding: bytes, make: Callable[[], bytes]) -> Attack:
    made = functools.cache(lambda: sized(make(), b"Content-Encoding: " + coding + b"\r\n"))
    return Attack(pieces=lambda _: iter([made()]))


def flushed(make: Callable[[], object], *flush: int) -> bytes:
    """A stream that is flushed after each byte."""
    stream = make()
    compress = getattr(stream, "compress", None) or getattr(stream, "process")  # noqa: B009
    pieces = [compress(b"x") + stream.flush(*flush) for _ in range(100_000)]  # type: ignore[attr-defined]
    return b"".join(pieces) + (stream.flush() if flush else stream.finish())  # type: ignore[attr-defined]


def slow_body(_: str) -> Pieces:
    yield HTML + b"Content-Length: 1000000\r\n\r\n"
    while True:
        yield b"x"
        yield 1.0


def slow_header(_: str) -> Pieces:
    yield HTML
    while True:
        yield b"X: y\r\n"
        yield 1.0


def silence(_: str) -> Pieces:
    yield 600.0


def events(_: str) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + CHUNKED
    while True:
        yield b"c\r\ndata: tick\n\n\r\n"
        yield 0.01


def event_flood(_: str) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + CHUNKED
    yield from itertools.repeat(b"c\r\ndata: tick\n\n\r\n" * 1_000)


def byte_by_byte(_: str) -> Pieces:
    answer = sized(b"x" * 100_000)
    yield from (answer[n : n + 1] for n in range(len(answer)))


def redirects(path: str) -> Pieces:
    number = int(path.rpartition("/")[2]) if path[-1].isdecimal() else 0
    yield b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /page/%d\r\n\r\n" % (number + 1)


def reset(_: str) -> Pieces:
    yield HTML


def garbage_after(_: str) -> Pieces:
    yield sized(b"x") + b"\0garbage" * 100_000


def costly(piece: bytes, count: int) -> Attack:
    made = functools.cache(lambda: sized(piece * count))
    return Attack(pieces=lambda _: iter([made()]))


@functools.cache
def attributed() -> bytes:
    return sized(b"".join(b"<a h%d=x a%d=y href=/z/%d>" % (n, n, n) for n in range(100_000)))


def attributes(_: str) -> Pieces:
    yield attributed()


def sitemap(entry: bytes, count: int) -> Attack:
    head = b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
    made = functools.cache(lambda: sized(head + entry * count + b"</urlset>", kind=kind))
    return Attack(pieces=lambda _: iter([made()]), target=Target.SITEMAP)


def feed(_: str) -> Pieces:
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\n"
    items = b"".join(b"<item><link>/f/%d</link></item>" % n for n in range(100_000))
    yield sized(b"<rss><channel>" + items + b"</channel></rss>", kind=kind)


def robots(pieces: Callable[[str], Pieces], *, hosts: int = 400, apart: bool = False) -> Attack:
    return Attack(pieces=pieces, target=Target.ROBOTS, hosts=hosts, apart=apart)


def subdomains(_: str) -> Pieces:
    first = 1_000 * next(_counter)
    links = (b"<a href=http://n%d.hostile.test:%s/>x</a>" % (first + n, PORT) for n in range(1_000))
    yield sized(b"".join(links))


def elsewhere(_: str) -> Pieces:
    """A redirect to another new host of the domain."""
    host = b"Location: http://n%d.hostile.test:%s/\r\n" % (next(_counter), PORT)
    yield sized(b"", host, b"HTTP/1.1 302 Found\r\n")


def to_long_locations(_: str) -> Pieces:
    location = b"Location: /%d%s\r\n" % (next(_counter), b"l" * 60_000)
    yield sized(b"", location, b"HTTP/1.1 302 Found\r\n")


def link_fields(_: str) -> Pieces:
    link = b", ".join(b"</l/%d>; rel=next" % n for n in range(2_500))
    yield sized(b"x", (b"Link: " + link + b"\r\n") * 4)


def robots_tags(_: str) -> Pieces:
    rules = b", ".join(b"bot%d: noindex, max-snippet: %d" % (n, n) for n in range(1_500))
    yield sized(b"x", (b"X-Robots-Tag: " + rules + b"\r\n") * 4)


def refresh(_: str) -> Pieces:
    number = next(_counter)
    yield sized(b"<meta http-equiv=refresh content='0; url=/r/%d'>" % number * 20_000)


def zeros(coding: str) -> Attack:
    def make() -> bytes:
        body = b"<p>" + b" " * 2_000_000_000 if coding == "zstd" else b"<p>" + b" " * 200_000_000
        return {"gzip": gzip.compress, "br": brotli.compress, "zstd": _zstd}[coding](body)

    return coded(coding.encode(), make)


def _zstd(body: bytes) -> bytes:
    from backports import zstd

    return zstd.compress(body)


def sitemap_index(_: str) -> Pieces:
    first = 50_000 * next(_counter)
    maps = (
        b"<sitemap><loc>http://h0.hostile.test:%s/sitemap/%d.xml</loc></sitemap>"
        % (PORT, first + n)
        for n in range(50_000)
    )
    yield sized(
        b'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">%s</sitemapindex>'
        % b"".join(maps),
        kind=b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n",
    )


def charset(name: bytes, body: bytes) -> Attack:
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=%s\r\n" % name
    return Attack(pieces=lambda _: iter([sized(body, kind=kind)]))


def noise(_: str) -> Pieces:
    yield sized(random.Random(1).randbytes(5_000_000))


ONE_BYTE: Final = gzip.compress(b"x", mtime=0)
EMPTY: Final = gzip.compress(b"", mtime=0)
ATTACKS: Final[dict[str, Attack]] = {
    "none": Attack(pieces=page),
    "chunks-1": chunks(1),
    "chunks-2": chunks(2),
    "chunks-5": chunks(5),
    "chunks-16": chunks(16),
    "chunks-64": chunks(64),
    "chunks-lf": chunks(1, end=b"\n"),
    "chunks-extensions": chunks(1, b";a=b"),
    "chunks-long-extensions": chunks(1, b";a=" + b"b" * 1_000),
    "chunks-zeros": chunks(1, zeros=14),
    "chunks-endless": Attack(pieces=endless_chunks),
    "chunks-of-one-answer": Attack(pieces=endless_chunks, hosts=1),
    "chunks-of-many-hosts": Attack(pieces=endless_chunks, hosts=64),
    "fields-many": Attack(pieces=many_fields),
    "fields-endless": Attack(pieces=endless_fields),
    "fields-tiny": Attack(pieces=tiny_fields),
    "fields-long": Attack(pieces=long_fields),
    "fields-folded": Attack(pieces=folded_fields),
    "interims": Attack(pieces=interims),
    "continues": Attack(pieces=continues),
    "interims-slow": Attack(pieces=slow_interims),
    "cookies": Attack(pieces=huge_cookies),
    "trailers": Attack(pieces=trailers),
    "trailer-long": Attack(pieces=long_trailer),
    "gzip-members": coded(b"gzip", lambda: ONE_BYTE * 40_000),
    "gzip-empty-members": coded(b"gzip", lambda: EMPTY * 40_000),
    "gzip-flushes": coded(
        b"gzip", lambda: flushed(lambda: zlib.compressobj(wbits=31), zlib.Z_FULL_FLUSH)
    ),
    "deflate-flushes": coded(b"deflate", lambda: flushed(zlib.compressobj, zlib.Z_SYNC_FLUSH)),
    "br-flushes": coded(b"br", lambda: flushed(brotli.Compressor)),
    "slow-bodies": Attack(pieces=slow_body, hosts=64),
    "slow-headers": Attack(pieces=slow_header, hosts=64),
    "silence": Attack(pieces=silence, hosts=64),
    "events": Attack(pieces=events, hosts=16),
    "event-flood": Attack(pieces=event_flood),
    "segments-1": Attack(pieces=byte_by_byte, segmented=True),
    "tls-records-1": Attack(pieces=lambda _: iter([sized(b"x" * 1_000_000)]), record_bytes=1),
    "tls-records-8": Attack(pieces=lambda _: iter([sized(b"x" * 4_000_000)]), record_bytes=8),
    "tls-records-header": Attack(pieces=many_fields, record_bytes=1),
    "redirects": Attack(pieces=redirects),
    "resets": Attack(pieces=reset),
    "garbage-after": Attack(pieces=garbage_after),
    "html-links": costly(b"<a href=/z>", 400_000),
    "html-nested": costly(b"<div>", 900_000),
    "html-tags": costly(b"<", 4_500_000),
    "html-entities": costly(b"<a href='&amp;&lt;&nbsp;'>&notin;", 140_000),
    "html-attributes": Attack(pieces=attributes),
    "html-noise": Attack(pieces=noise),
    "sitemap-tiny": sitemap(b"<url><loc>/</loc></url>", 100_000),
    "sitemap-elements": sitemap(b"<a/>", 5_000_000),
    "feed": Attack(pieces=feed),
    "robots-chunks": Attack(pieces=endless_chunks, target=Target.ROBOTS, hosts=16),
    "sitemap-chunks": Attack(pieces=endless_chunks, target=Target.SITEMAP),
    "robots-slow": Attack(pieces=slow_body, target=Target.ROBOTS, hosts=64),
    "sitemap-slow": Attack(pieces=slow_body, target=Target.SITEMAP, hosts=16),
    "robots-events": Attack(pieces=event_flood, target=Target.ROBOTS, hosts=16),
    "robots-rules": robots(unlike("rules")),
    "robots-wildcards": robots(unlike("wildcards")),
    "robots-wildcards-alike": robots(alike("wildcards")),
    "robots-wildcards-apart": robots(unlike("wildcards"), apart=True),
    "robots-wildcards-1000": robots(unlike("wildcards"), hosts=1_000),
    "robots-tangle": robots(unlike("tangle")),
    "robots-groups": robots(unlike("groups")),
    "robots-agents": robots(unlike("agents")),
    "robots-blank": robots(unlike("blank")),
    "robots-sitemaps": robots(unlike("sitemaps")),
    "robots-noise": robots(unlike("noise")),
    "robots-small": robots(unlike("small"), hosts=1_000),
    "hosts-1000": Attack(pieces=page, hosts=1_000),
    "hosts-silent": Attack(pieces=silence, hosts=1_000),
    "hosts-slow": Attack(pieces=slow_body, hosts=1_000),
    "robots-silent": robots(silence, hosts=1_000),
    "handshakes": Attack(pieces=silence, hosts=64, deaf=True),
    "handshakes-1000": Attack(pieces=silence, hosts=1_000, deaf=True),
    "subdomains": Attack(pieces=subdomains, follow="domain"),
    "elsewhere": Attack(pieces=elsewhere, hosts=64, follow="domain"),
    "locations-long": Attack(pieces=to_long_locations, hosts=64),
    "link-fields": Attack(pieces=link_fields, hosts=16),
    "robots-tags": Attack(pieces=robots_tags, hosts=16),
    "refresh": Attack(pieces=refresh, hosts=16),
    "zeros-gzip": zeros("gzip"),
    "zeros-br": zeros("br"),
    "zeros-zstd": zeros("zstd"),
    "html-comment": costly(b"<!--", 1_100_000),
    "html-small": Attack(pieces=lambda _: iter([sized(b"<a href=/z>" * 20_000)]), hosts=64),
    "html-text": Attack(pieces=lambda _: iter([sized(b"words " * 1_500_000)]), hosts=64),
    "sitemap-index": Attack(pieces=sitemap_index, target=Target.SITEMAP),
    "charset-hz": charset(b"hz-gb-2312", b"~{<:Ky2;" * 600_000),
    "charset-2022": charset(b"iso-2022-kr", b"\x0e0!\x0f" * 1_200_000),
}  # fmt: skip

"""Whatever a server sends as a header, every sink takes it, and others can read what it wrote."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from warcio.archiveiterator import ArchiveIterator

from crawler.config import Config, from_dict
from crawler.documents.crawled_page import CrawledPage, Timings
from crawler.fetching.request import readable
from crawler.sinks.build import build_sinks, page_callback
from policies.indexing import Directives

NAMES = [
    "Content-Type", "Content-Disposition", "Content-Length", "Content-Encoding", "ETag", "Link",
    "Transfer-Encoding", "Set-Cookie", "Location", "X-Robots-Tag", "Server", "Date", "X-\u00fc",
    "X",
]  # fmt: skip
Fields = list[tuple[str, bytes]]


def page_of(
    fields: Fields, *, url: str = "http://a.test/x.css", body: bytes = b"a{}" * 200
) -> CrawledPage:
    """As the fetcher makes it of what it received."""
    raw = CIMultiDictProxy(
        CIMultiDict((name, value.decode("utf-8", "surrogateescape")) for name, value in fields)
    )
    headers = readable(raw)
    return CrawledPage(
        url=url, status=200, headers=headers, raw_headers=None if headers is raw else raw,
        body=body, title="a\ud800b", links=(), directives=Directives(), redirect_url=None, depth=0,
        timings=Timings(started_at=1_700_000_000.0, latency_s=0.1, elapsed_s=0.5),
        fetched_at=1_700_000_000.5, address="127.0.0.1", canonical_url=None,
    )  # fmt: skip


def config_of(folder: Path, **keys: object) -> Config:
    sinks = [
        {"kind": "jsonl", "path": str(folder / "a.jsonl"), **keys},
        {"kind": "jsonl", "path": str(folder / "b.jsonl.gz"), **keys},
        {"kind": "warc", "path": str(folder / "c.warc"), **keys},
        {"kind": "warc", "path": str(folder / "d.warc.gz"), **keys},
    ]
    if not keys:
        sinks.append({"kind": "mirror", "path": str(folder / "mirror")})
    return from_dict({"crawl": {"user_agent": "bot/1 (+https://e.test/)"}, "sink": sinks})


async def take(folder: Path, *pages: CrawledPage, **keys: Any) -> list[CrawledPage]:
    got: list[CrawledPage] = []
    async with build_sinks(config_of(folder, **keys), [page_callback(got.append, **keys)]) as sinks:
        for page in pages:
            sinks.put(page)
        await sinks.flush()
    return got


def responses(path: Path) -> list[tuple[bytes, bytes]]:
    """The header and the payload of each response, by warcio, its digests checked."""
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            record.content_stream().read()
    with path.open("rb") as file:
        found = []
        for record in ArchiveIterator(file, no_record_parse=True):
            data = record.raw_stream.read()
            if record.rec_type == "response":
                head, _, body = data.partition(b"\r\n\r\n")
                found.append((head, body))
        return found


def check(folder: Path, pages: list[CrawledPage]) -> None:
    lines = (folder / "a.jsonl").read_bytes().splitlines()
    assert lines == gzip.decompress((folder / "b.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line)["url"] for line in lines] == [page.url for page in pages]
    for name in ("c.warc", "d.warc.gz"):
        assert [body for _, body in responses(folder / name)] == [page.body for page in pages]


value = st.binary(max_size=80) | st.sampled_from(
    [b"text/css; charset=undefined", b"text/html; charset=idna", b"text/html; charset=punycode",
     "attachment; filename=Zürich; title Übersicht".encode(),
     "attachment; filename=Zürich; title Übersicht".encode("latin-1"), b"a\r\n b", b"\0",
     b"x" * 9_000]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), value), max_size=8), st.binary(max_size=300))
@example([("Content-Type", b"text/css; charset=undefined")], b"\xff" * 300)
@example([("Content-Disposition", "attachment; filename=Zürich; title Übersicht".encode())], b"x")
def test_any_header_goes_through_every_sink(fields: Fields, body: bytes) -> None:
    page = page_of(fields, body=body)
    with TemporaryDirectory() as name:
        got = asyncio.run(take(Path(name), page))
        check(Path(name), [page])
        assert got[0].text is not None


async def test_bytes_of_headers_stand_in_an_archive_as_they_came(tmp_path: Path) -> None:
    every = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
    fields = [("X-Every", every), ("X-Utf8", "Zürich".encode()), ("X-Folded", b"a\r\n b")]
    await take(tmp_path, page_of(fields))
    for name in ("c.warc", "d.warc.gz"):
        ((head, _),) = responses(tmp_path / name)
        assert b"\r\nX-Every: " + every + b"\r\n" in head
        assert b"\r\nX-Utf8: Z\xc3\xbcrich\r\n" in head
        assert b"\r\nX-Folded: a   b\r\n" in head or b"\r\nX-Folded: a  b\r\n" in head


async def test_names_that_would_be_other_fields_are_not(tmp_path: Path) -> None:
    page = page_of([("X: y\r\nWARC-Type", b"z"), ("", b"empty")])
    await take(tmp_path, page)
    ((head, _),) = responses(tmp_path / "c.warc")
    assert b"\r\nWARC-Type" not in head
    check(tmp_path, [page])


SECRET = [
    ("Set-Cookie", b"session=s3cret"), ("set-cookie2", b"s3cret"),
    ("Authentication-Info", b"s3cret"), ("Proxy-Authentication-Info", b"s3cret"),
    ("X-\u00fc", b"\xff"), ("WWW-Authenticate", b"Basic"),
]  # fmt: skip


async def test_sessions_stay_out_of_sinks(tmp_path: Path) -> None:
    page = page_of(SECRET)
    (got,) = await take(tmp_path, page)
    check(tmp_path, [page])
    assert list(got.headers) == ["X-\u00fc", "WWW-Authenticate"]
    assert not [path for path in files_in(tmp_path) if b"s3cret" in plain(path)]


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def plain(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


async def test_sessions_are_kept_where_the_config_says_so(tmp_path: Path) -> None:
    (got,) = await take(tmp_path, page_of(SECRET), session_headers=True)
    assert "Set-Cookie" in got.headers
    assert (tmp_path / "a.jsonl").read_bytes().count(b"s3cret") == 4
    assert (tmp_path / "c.warc").read_bytes().count(b"s3cret") == 4

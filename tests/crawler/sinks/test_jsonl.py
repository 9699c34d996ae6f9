"""JSON lines: what stands in one."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawler.config import SinkConfig
from crawler.documents.crawled_page import CrawledPage
from crawler.documents.page import PageLink
from crawler.sinks.jsonl import JsonLines
from crawler.sinks.sink import Withdrawn

MakePage = Callable[..., CrawledPage]


def written(path: Path, *pages: CrawledPage | Withdrawn, **keys: object) -> list[dict[str, Any]]:
    sink = JsonLines(SinkConfig(kind="jsonl", path=path, fsync=False, **keys))  # type: ignore[arg-type]
    sink.open()
    for page in pages:
        sink.withdraw(page) if isinstance(page, Withdrawn) else sink.put(page)
    sink.flush()
    sink.close(threading.Event())
    raw = path.read_bytes()
    return [
        json.loads(line)
        for line in (gzip.decompress(raw) if sink._config.compresses else raw).splitlines()
    ]


def test_a_page_is_one_object(tmp_path: Path, make_page: MakePage) -> None:
    page = make_page(headers=(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")))
    (row,) = written(tmp_path / "a.jsonl", page)
    assert row["url"] == "http://a.test/"
    assert row["status"] == 200
    assert row["fetched_at"] == 1_700_000_000.125
    assert row["title"] == "Home"
    assert row["headers"][:2] == [["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"]]
    assert row["links"] == [{"url": "http://a.test/b", "anchor": "B", "nofollow": False}]
    assert (row["body"], row["body_encoding"]) == ("<title>Home</title>", "text")


def test_a_page_has_the_data_of_its_url(tmp_path: Path, make_page: MakePage) -> None:
    data = {"id": 10**30, "tags": ["ä", None]}
    with_data, without = written(tmp_path / "a.jsonl", replace(make_page(), data=data), make_page())
    assert with_data["data"] == data
    assert "data" not in without


@pytest.mark.parametrize(
    ("content_type", "body", "encoding"),
    [
        ("text/html; charset=latin1", b"caf\xe9", "text"), ("application/ld+json", b"{}", "text"),
        ("image/png", b"\x89PNG", "base64"), ("application/xhtml+xml", b"<a/>", "text"),
        (None, b"\0\1", "base64"), (None, b"plain", "text"),
    ],
)  # fmt: skip
def test_text_is_text_and_all_else_base64(
    tmp_path: Path, make_page: MakePage, content_type: str | None, body: bytes, encoding: str
) -> None:
    (row,) = written(tmp_path / "a.jsonl", make_page(body=body, content_type=content_type))
    assert row["body_encoding"] == encoding
    if encoding == "base64":
        assert base64.b64decode(row["body"]) == body
    elif body == b"caf\xe9":
        assert row["body"] == "café"


def test_bodies_that_are_not_kept(tmp_path: Path, make_page: MakePage) -> None:
    rows = written(tmp_path / "a.jsonl", make_page(archive=False), make_page(body_read=False))
    assert [row["body"] for row in rows] == [None, None]
    (row,) = written(tmp_path / "b.jsonl", make_page(), body="none", links=False)
    assert row["body"] is None
    assert "links" not in row


def test_a_withdrawn_page_is_announced(tmp_path: Path, make_page: MakePage) -> None:
    gone = Withdrawn(
        url="http://a.test/", withdrawn_at=5.0, robots_url="http://a.test/robots.txt", rule="x"
    )
    assert written(tmp_path / "a.jsonl", make_page(), gone)[1] == {
        "withdrawn": "http://a.test/", "withdrawn_at": 5.0, "reason": "robots",
        "robots_url": "http://a.test/robots.txt", "rule": "x",
    }  # fmt: skip


def test_compressed_by_its_name_and_whole_lines_after_a_crash(
    tmp_path: Path, make_page: MakePage
) -> None:
    path = tmp_path / "a.jsonl.gz"
    assert len(written(path, make_page(), make_page())) == 2
    path.write_bytes(path.read_bytes() + gzip.compress(b'{"torn": 1}\n')[:-3])
    assert len(written(path, make_page())) == 3


def _written(tmp_path: Path, page: CrawledPage) -> tuple[dict[str, Any], int]:
    """The page's object, and how many bytes its line has."""
    path = tmp_path / "bound.jsonl"
    sink = JsonLines(SinkConfig(kind="jsonl", path=path))
    sink.open()
    sink.put(page)
    sink.flush()
    sink.close(threading.Event())
    return json.loads(path.read_bytes()), path.stat().st_size


@pytest.mark.parametrize("byte", [b"\0", b"\x1f", b"\x80", b'"', b"\\", b"\x7f"])
def test_a_body_that_json_would_lengthen_is_written_as_base64(
    byte: bytes, make_page: MakePage, tmp_path: Path
) -> None:
    body = byte * 3_000_000
    row, size = _written(tmp_path, make_page("http://a.test/", body, content_type="text/plain"))
    assert size < 2 * len(body) + 2_100_000
    if row["body_encoding"] == "base64":
        assert base64.b64decode(row["body"]) == body


def test_links_that_are_far_longer_than_their_page_are_left_out_and_counted(
    make_page: MakePage, tmp_path: Path
) -> None:
    url = "http://a.test/" + "x" * 2_000
    links = tuple(PageLink(f"{url}/{n}", None, False) for n in range(50_000))
    page = replace(make_page(body=b"<a href=1>" * 1_000), links=links)
    row, size = _written(tmp_path, page)
    assert size < 2_100_000
    assert len(row["links"]) + row["links_omitted"] == 50_000
    assert row["links"][0]["url"] == f"{url}/0"
    assert row["body_encoding"] == "base64"


def test_an_ordinary_line_is_as_it_was(make_page: MakePage, tmp_path: Path) -> None:
    row, _ = _written(tmp_path, make_page())
    assert "links_omitted" not in row
    assert row["body_encoding"] == "text"

"""WARC files, read back by a reader of the test's own, which knows the standard and not the
library that wrote them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawler.config import SinkConfig
from crawler.documents.crawled_page import CrawledPage
from crawler.sinks.sink import SinkError, Withdrawn
from crawler.sinks.warc import Warc

MakePage = Callable[..., CrawledPage]


@dataclass(frozen=True)
class Record:
    fields: dict[str, str]  # by lower-case name
    block: bytes

    @property
    def kind(self) -> str:
        return self.fields["warc-type"]


def records(raw: bytes) -> Iterator[Record]:
    """ISO 28500, 4: version line, named fields, an empty line, a block, two empty lines."""
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        assert end, "a record without the end of its header"
        version, *lines = head.split(b"\r\n")
        assert version == b"WARC/1.1"
        fields = {
            name.decode().lower(): value.decode().strip()
            for name, _, value in (line.partition(b":") for line in lines)
        }
        size = int(fields["content-length"])
        assert rest[size : size + 4] == b"\r\n\r\n", "a record of another length than it says"
        block = rest[:size]
        if "warc-block-digest" in fields:
            assert fields["warc-block-digest"] == digest(block)
        yield Record(fields, block)
        data = rest[size + 4 :]


def digest(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def sink(path: Path, **keys: object) -> Warc:
    config = SinkConfig(kind="warc", path=path, fsync=False, **keys)  # type: ignore[arg-type]
    about = {"operator": "bot@example.com", "robots": "obeyed (dialect slurp)"}
    return Warc(config, about=about, sent={"User-Agent": "examplebot/1.0"})


def write(one: Warc, *pages: CrawledPage | Withdrawn) -> None:
    one.open()
    for page in pages:
        one.withdraw(page) if isinstance(page, Withdrawn) else one.put(page)
    one.flush()
    one.close(threading.Event())


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_page_is_a_response_its_request_and_its_metadata(
    tmp_path: Path, make_page: MakePage, name: str
) -> None:
    path = tmp_path / name
    body = b"<p>hello</p>" * 30
    coded = make_page(
        "http://a.test:8080/x?y=1",
        body,
        headers=(("Content-Encoding", "gzip"), ("Content-Length", "9"), ("X", "caf\u00e9")),
    )
    write(sink(path), coded)
    info, response, request, metadata = records(path.read_bytes())
    assert info.kind == "warcinfo"
    assert info.fields["warc-filename"] == name
    assert b"operator: bot@example.com\r\n" in info.block
    assert b"robots: obeyed (dialect slurp)\r\n" in info.block
    assert response.fields["warc-target-uri"] == "http://a.test:8080/x?y=1"
    assert response.fields["warc-ip-address"] == "127.0.0.1"
    assert response.fields["warc-date"] == "2023-11-14T22:13:19.625000Z"
    assert response.fields["content-type"] == "application/http; msgtype=response"
    head, _, payload = response.block.partition(b"\r\n\r\n")
    assert payload == body
    assert response.fields["warc-payload-digest"] == digest(body)
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert b"X-Crawler-Content-Encoding: gzip" in lines
    assert b"Content-Length: %d" % len(body) in lines
    assert not [line for line in lines if line.lower().startswith(b"content-encoding")]
    assert request.block.startswith(b"GET /x?y=1 HTTP/1.1\r\nHost: a.test:8080\r\n")
    assert metadata.kind == "metadata"
    assert b"hopsFromSeed: 0\r\n" in metadata.block
    for beside in (request, metadata):
        assert beside.fields["warc-concurrent-to"] == response.fields["warc-record-id"]
    identities = [one.fields["warc-record-id"] for one in (info, response, request, metadata)]
    assert len(set(identities)) == 4


def test_the_same_payload_is_written_once(tmp_path: Path, make_page: MakePage) -> None:
    path = tmp_path / "a.warc.gz"
    body = b"the same " * 100
    write(sink(path), make_page("http://a.test/1", body), make_page("http://a.test/2", body))
    first, second = (
        one for one in records(path.read_bytes()) if one.kind in ("response", "revisit")
    )
    assert (first.kind, second.kind) == ("response", "revisit")
    assert second.fields["warc-profile"].endswith("/warc/1.1/revisit/identical-payload-digest")
    assert second.fields["warc-refers-to-target-uri"] == "http://a.test/1"
    assert second.fields["warc-refers-to-date"] == first.fields["warc-date"]
    assert second.fields["warc-payload-digest"] == first.fields["warc-payload-digest"]
    assert second.block.endswith(b"\r\n\r\n"), "its header is kept, its body is not"


def test_warcio_finds_no_fault(tmp_path: Path, make_page: MakePage) -> None:
    body = b"x" * 1000
    pages = [make_page(f"http://a.test/{n}", body) for n in range(3)]
    pages.append(make_page("http://a.test/no", body, archive=False))
    pages.append(make_page("http://a.test/r", b"", status=301, body_read=False))
    pages.append(make_page("http://a.test/odd", b"\0\r\n\r\nWARC/1.1\r\n", status=299))
    paths = [tmp_path / "a.warc.gz", tmp_path / "b.warc"]
    for path in paths:
        write(sink(path), *pages)
        kinds = [one.kind for one in records(path.read_bytes())]
        assert kinds.count("response") == 4
        assert kinds.count("revisit") == 2
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", *map(str, paths)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_must_not_be_kept_has_no_body(tmp_path: Path, make_page: MakePage) -> None:
    path = tmp_path / "a.warc.gz"
    write(sink(path), make_page(body=b"secret " * 100, archive=False))
    (response,) = (one for one in records(path.read_bytes()) if one.kind == "response")
    assert b"secret" not in response.block
    assert response.fields["warc-truncated"] == "unspecified"


def test_a_withdrawn_page_is_a_metadata_record(tmp_path: Path, make_page: MakePage) -> None:
    path = tmp_path / "a.warc.gz"
    gone = Withdrawn(
        url="http://a.test/", withdrawn_at=5.0, robots_url="http://a.test/robots.txt", rule="D: /"
    )
    body = b"y" * 1000
    write(sink(path), make_page(body=body), gone, make_page("http://a.test/2", body))
    *_, metadata = [one for one in records(path.read_bytes()) if b"withdrawn" in one.block]
    assert metadata.fields["warc-target-uri"] == "http://a.test/"
    assert b"rule: D: /\r\n" in metadata.block
    assert "revisit" not in [one.kind for one in records(path.read_bytes())]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_torn_anywhere_it_is_whole_again_when_it_is_opened(
    tmp_path: Path, make_page: MakePage, name: str
) -> None:
    path = tmp_path / name
    write(sink(path), make_page(), make_page("http://a.test/2"))
    whole = path.read_bytes()
    before = list(records(whole))
    for cut in {*range(8, len(whole), 97), len(whole) - 1}:
        path.write_bytes(whole[:cut])
        write(sink(path), make_page("http://a.test/3"))
        after = list(records(path.read_bytes()))
        kept = after[:-3]
        assert kept == before[: len(kept)] or [one.kind for one in kept] == ["warcinfo"]
        assert after[-3].fields["warc-target-uri"] == "http://a.test/3"
        assert [one.kind for one in after].count("warcinfo") == 1


def test_another_file_is_not_touched(tmp_path: Path, make_page: MakePage) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(b"a novel\r\n\r\n")
    with pytest.raises(SinkError, match="not a WARC file"):
        sink(path).open()
    assert path.read_bytes() == b"a novel\r\n\r\n"


def test_a_large_file_is_followed_by_another_with_its_own_warcinfo(
    tmp_path: Path, make_page: MakePage
) -> None:
    path = tmp_path / "a.warc.gz"
    pages = [make_page(f"http://a.test/{n}", b"%d" % n) for n in range(6)]
    write(sink(path, max_file_bytes=2000), *pages)
    found = sorted(tmp_path.iterdir())
    assert len(found) > 1
    targets = []
    for one in found:
        info, *rest = records(one.read_bytes())
        assert info.fields["warc-filename"] == one.name
        targets += [r.fields["warc-target-uri"] for r in rest if r.kind == "response"]
    assert sorted(targets) == [page.url for page in pages]

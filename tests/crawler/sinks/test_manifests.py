"""Web application manifests: their pictures are fetched, and lead to files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crawler.sinks.references import ReferenceRole
from crawler.sinks.requisites import MANIFEST_BYTES_MAX, in_manifest, requisites
from tests.crawler.sinks.doubles import Replacing
from tests.crawler.sinks.test_mirror import mirror
from tests.growth import assert_linear
from tests.tables import each

if TYPE_CHECKING:
    from tests.crawler.sinks.conftest import MakePage

URL = "https://a.test/app/site.webmanifest"
MANIFEST = {
    "name": "Größe",
    "start_url": "/?app",
    "icons": [{"src": "../i.png", "sizes": "9x9"}, {"src": "data:,x"}, {"src": 5}, "x", {}],
    "screenshots": [{"src": "https://b.test/shot.png"}],
    "shortcuts": [{"name": "x", "url": "/x", "icons": [{"src": "/s.png"}]}, 7],
}
BODY = json.dumps(MANIFEST, ensure_ascii=False).encode()


@each(
    ("url", "content_type"),
    [
        (URL, "application/octet-stream"), (URL, None),
        ("https://a.test/app/site.json", "text/plain"),
        ("https://a.test/app/x", "application/manifest+json"),
        ("https://a.test/app/x.php?y", "application/json; charset=utf-8"),
    ],
)  # fmt: skip
def test_its_pictures_are_requisites(url: str, content_type: str | None) -> None:
    found = requisites(url, content_type, b"\xef\xbb\xbf" + BODY, scripts=False)
    assert found.whole
    assert found.roles == dict.fromkeys(
        ["https://a.test/i.png", "https://b.test/shot.png", "https://a.test/s.png"],
        ReferenceRole.PART,
    )


@pytest.mark.parametrize("name", ["site.webmanifest", "manifest.json", "manifest", "m?x=1"])
def test_it_is_where_the_page_leads_and_leads_to_files(
    tmp_path: Path, make_page: MakePage, name: str
) -> None:
    sink = mirror(tmp_path)
    sink.put(
        make_page("https://a.test/", body=f'<link rel="manifest" href="/app/{name}">'.encode())
    )
    kind = "application/manifest+json"
    sink.put(make_page(f"https://a.test/app/{name}", body=BODY, content_type=kind))
    sink.flush()
    sink.close(threading.Event())
    page = (tmp_path / "a.test/index.html").read_text()
    file = tmp_path / "a.test" / page.rpartition('href="')[2].partition('"')[0]
    meant = json.loads(BODY)
    meant["icons"][0]["src"] = "../i.png"
    meant["screenshots"][0]["src"] = "../../b.test/shot.png"
    meant["shortcuts"][0]["icons"][0]["src"] = "../s.png"
    assert json.loads(file.read_bytes()) == meant


@each(
    "body",
    [
        b"", b"null", b"[]", b'"src"', b'{"icons": "src"}', b'{"src" x', b'{"icons":[{"src":""}]}',
        b'{"src": 1, "icons":' + b"[" * 300_000 + b"]" * 300_000 + b"}",
        b'{"src": ' + b"9" * 9_000 + b"}", b"\xff\xfe{\0", b'{"icons": {"src": "x"}}',
        b'{"icons": [{"src": "/i.png"}], "x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
        b'{"icons": [{"src": "/i.png"}], "x": "' + b"x" * MANIFEST_BYTES_MAX + b'"}',
    ],
)  # fmt: skip
def test_what_is_no_manifest_stays_as_it_is(body: bytes) -> None:
    references = Replacing(lambda _: "file")
    assert in_manifest("application/manifest+json", body, URL, references) is None


def test_a_page_of_that_name_is_none() -> None:
    found = requisites("https://a.test/x.json", "text/html", BODY, scripts=False)
    assert found.roles == {}


def test_many_pictures_cost_little() -> None:
    def body(count: int) -> bytes:
        return json.dumps({"icons": [{"src": f"/{n}"} for n in range(count)]}).encode()

    def read(manifest: bytes) -> bool:
        return requisites(URL, "application/manifest+json", manifest, scripts=False).whole

    assert_linear(read, body, 5_000)
    assert not read(body(40_000))

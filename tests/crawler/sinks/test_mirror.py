"""A mirror's own book-keeping; whole crawls are in tests/site/test_mirror.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawler.config import from_dict
from crawler.sinks.mirror import Mirror
from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole
from crawler.sinks.sink import Withdrawn

if TYPE_CHECKING:
    from tests.crawler.sinks.conftest import MakePage


def mirror(path: Path) -> Mirror:
    sink = Mirror(from_dict({"sink": [{"kind": "mirror", "path": str(path)}]}).sinks[0])
    sink.open()
    return sink


def withdrawn(url: str) -> Withdrawn:
    return Withdrawn(url=url, withdrawn_at=1.0, robots_url="http://a.test/robots.txt", rule="/")


def test_what_redirected_to_a_withdrawn_page_has_its_bytes_no_more(
    tmp_path: Path, make_page: MakePage
) -> None:
    image = make_page("http://a.test/i.png", body=b"png", content_type="image/png")
    moved = replace(
        make_page("http://a.test/old.png", body=b"", content_type=None),
        status=301,
        redirect_url="http://a.test/i.png",
    )
    for run in (0, 1):
        sink = mirror(tmp_path)
        if run:
            sink.withdraw(withdrawn("http://a.test/i.png"))
        else:
            sink.put(image)
            sink.put(moved)
        sink.flush()
        sink.close(threading.Event())
        names = {path.name for path in tmp_path.rglob("*.png")}
        assert names == (set() if run else {"i.png", "old.png"})


def test_many_withdrawn_pages_take_one_pass_over_the_redirects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = mirror(tmp_path)
    for n in range(50):
        sink._aliases.add([f"http://a.test/{n}", f"https://a.test/{n}"])
    passes, entries = [], sink._aliases.entries

    def counted() -> Iterator[Any]:
        passes.append(1)
        return entries()

    monkeypatch.setattr(sink._aliases, "entries", counted)
    for n in range(20):
        sink.withdraw(withdrawn(f"https://a.test/{n}"))
    sink.flush()
    assert len(passes) == 1
    sink.close(threading.Event())


class Hurried(threading.Event):
    """Is set while the mirror is being closed."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def test_links_that_a_hurried_close_leaves_are_seen_to_by_the_next(
    tmp_path: Path, make_page: MakePage
) -> None:
    pages = [f"http://a.test/{n}" for n in range(6)]
    sink = mirror(tmp_path)
    for url in pages:
        sink.put(make_page(url, body=b"<a href=/never>never</a>"))
    sink.flush()
    sink.close(Hurried(3))
    files = [tmp_path / file_of(url, ReferenceRole.PAGE) for url in pages]

    def done() -> int:
        return sum(b'href="http://a.test/never"' in file.read_bytes() for file in files)

    assert 0 < done() < len(files)
    mirror(tmp_path).close(threading.Event())
    assert done() == len(files)


def test_references_that_stay_are_logged(
    tmp_path: Path,
    make_page: MakePage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("crawler.sinks.references.GROWTH_BYTES_MAX", 50)
    sink = mirror(tmp_path)
    sink.put(make_page(body=b"".join(b"<a href=/%d.html>x</a>" % n for n in range(100))))
    sink.close(threading.Event())
    (record,) = caplog.records
    assert "references in http://a.test/ were left unchanged" in record.getMessage()


def test_files_that_are_cut_are_logged(
    tmp_path: Path,
    make_page: MakePage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("crawler.sinks.mirror.XML_BYTES_MAX", 10)
    monkeypatch.setattr("crawler.sinks.mirror.BYTES_READ_MAX", 10)
    sink = mirror(tmp_path)
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg'></svg>"
    sink.put(make_page("http://a.test/a.svg", body=drawing, content_type="image/svg+xml"))
    sink.put(make_page("http://a.test/a.css", body=b"p { color: red }", content_type="text/css"))
    sink.close(threading.Event())
    assert [one.getMessage() for one in caplog.records] == [
        f"the mirror has only the beginning of http://a.test/{name}, which is too long"
        for name in ("a.svg", "a.css")
    ]


def test_what_redirects_over_hops_is_there_and_styles_import_their_target(
    tmp_path: Path, make_page: MakePage
) -> None:
    sink = mirror(tmp_path)
    for start in ("/a/old.png", "/b/hop.png", "/a/old.css", "/b/hop.css"):
        end = start.replace("/a/old", "/b/hop") if "/a/" in start else start.replace("hop", "new")
        moved = make_page(f"https://a.test{start}", body=b"", content_type=None)
        sink.put(replace(moved, status=302, redirect_url=f"https://a.test{end}"))
    sink.put(make_page("https://a.test/b/new.png", body=b"png", content_type="image/png"))
    css = b"p{background:url(i.png)}"
    sink.put(make_page("https://a.test/b/new.css", body=css, content_type="text/css"))
    sink.flush()
    sink.close(threading.Event())
    host = tmp_path / "a.test"
    assert (host / "a/old.png").read_bytes() == b"png"
    assert '@import "../b/hop.css"' in (host / "a/old.css").read_text()
    assert '@import "new.css"' in (host / "b/hop.css").read_text()
    assert 'url("i.png")' in (host / "b/new.css").read_text()


def test_a_drawing_without_an_ending_is_shown_at_the_end(
    tmp_path: Path, make_page: MakePage
) -> None:
    sink = mirror(tmp_path)
    sink.put(make_page("https://a.test/", body=b"<img src=badge><img src=photo>"))
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    sink.put(make_page("https://a.test/badge", body=svg, content_type="image/svg+xml"))
    sink.put(make_page("https://a.test/photo", body=b"png", content_type="image/png"))
    sink.flush()
    sink.close(threading.Event())
    page = (tmp_path / "a.test/index.html").read_text()
    assert page.endswith('<img src="badge~.svg"><img src="photo~.part">')
    assert (tmp_path / "a.test/badge~.svg").is_file()

"""Symbolic links in the places of files that sinks write: nothing they point to is touched."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.config import from_dict
from crawler.documents.crawled_page import CrawledPage
from crawler.sinks.build import build_sinks
from crawler.sinks.folder import Folder
from crawler.sinks.sink import Sink, SinkError, Withdrawn

MakePage = Callable[..., CrawledPage]
KINDS = {"jsonl": "x.jsonl", "warc": "x.warc", "mirror": "mirror"}


def sink_of(kind: str, path: Path, **storage: object) -> Sink:
    table = {"kind": kind, "path": str(path)}
    config = from_dict({"sink": [table], "storage": storage})
    (route,) = build_sinks(config)._routes
    return route.sink


def run(sink: Sink, *pages: CrawledPage | Withdrawn) -> None:
    sink.open()
    try:
        for page in pages:
            sink.withdraw(page) if isinstance(page, Withdrawn) else sink.put(page)
        sink.flush()
    finally:
        sink.close(threading.Event())


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "index.html").write_text("precious")
    (folder / "file").write_text("precious")
    return folder


def untouched(victim: Path) -> bool:
    return sorted(one.name for one in victim.iterdir()) == ["file", "index.html"] and all(
        one.read_text() == "precious" for one in victim.iterdir()
    )


@pytest.mark.parametrize("kind", ["jsonl", "warc"])
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_the_place_of_a_file_is_refused(
    tmp_path: Path, victim: Path, make_page: MakePage, kind: str, dangling: bool
) -> None:
    path = tmp_path / KINDS[kind]
    path.symlink_to(victim / ("new" if dangling else "file"))
    with pytest.raises(SinkError, match="symbolic link"):
        run(sink_of(kind, path), make_page())
    assert untouched(victim)


@pytest.mark.parametrize(
    "name", ["lock", "draft", "links.jsonl", "links.new", "aliases.jsonl", "aliases.new"]
)
def test_links_among_the_files_of_a_mirror_itself_destroy_nothing(
    tmp_path: Path, victim: Path, make_page: MakePage, name: str
) -> None:
    mark = tmp_path / "mirror" / ".courtly"
    mark.mkdir(parents=True)
    (mark / name).symlink_to(victim / "file")
    body = b'<a href="http://b.test/">b</a><a href="/c">c</a>'
    try:
        run(sink_of("mirror", tmp_path / "mirror"), make_page("https://a.test/", body))
    except SinkError as error:
        assert "symbolic link" in str(error)  # noqa: PT017 - refused or replaced, both are well
    assert untouched(victim)


@pytest.mark.parametrize("place", [".courtly", "a.test", "a.test/deep"])
def test_a_mirror_writes_nothing_through_a_folder_that_is_a_link(
    tmp_path: Path, victim: Path, make_page: MakePage, place: str
) -> None:
    root = tmp_path / "mirror"
    run(sink_of("mirror", root))
    link = root / place
    if place == ".courtly":
        for one in link.iterdir():
            one.unlink()
        link.rmdir()
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim)
    url = "https://a.test/deep/index.html" if place.endswith("deep") else "https://a.test/"
    for pages in ([make_page(url, again=True)], [Withdrawn(url=url, withdrawn_at=1.0)]):
        try:
            run(sink_of("mirror", root), *pages)
        except SinkError as error:
            assert str(error).startswith(f"the sink {root} ")  # noqa: PT017
    assert untouched(victim)


def test_a_link_in_the_place_of_a_page_is_replaced(
    tmp_path: Path, victim: Path, make_page: MakePage
) -> None:
    root = tmp_path / "mirror"
    run(sink_of("mirror", root))
    (root / "a.test").mkdir()
    (root / "a.test" / "index.html").symlink_to(victim / "index.html")
    run(sink_of("mirror", root), make_page("https://a.test/", b"<p>new"))
    page = root / "a.test" / "index.html"
    assert not page.is_symlink()
    assert "new" in page.read_text()
    assert untouched(victim)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(("mode", "file", "folder"), [(None, 0o600, 0o700), ("0644", 0o644, 0o755)])
def test_what_is_created_is_for_its_owner(
    tmp_path: Path, make_page: MakePage, kind: str, mode: str | None, file: int, folder: int
) -> None:
    before = os.umask(0)
    try:
        storage = {} if mode is None else {"file_mode": mode}
        run(sink_of(kind, tmp_path / "new" / "deep" / KINDS[kind], **storage), make_page())
    finally:
        os.umask(before)
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
    assert found
    for path, bits in found.items():
        assert bits == (folder if path.is_dir() else file), path


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_folder_that_everybody_may_write_to_is_refused(
    tmp_path: Path, make_page: MakePage, kind: str
) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    path = open_folder if kind == "mirror" else open_folder / KINDS[kind]
    with pytest.raises(SinkError, match="every user may write"):
        run(sink_of(kind, path), make_page())


def test_a_name_never_leads_out_of_a_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "f")
    folder.open()
    for name in ("../x", "a/../../x", "/x", "a//x", "./x"):
        with pytest.raises(ValueError, match="not a name"):
            folder.write(name, b"", draft="draft", fsync=False)
    folder.close()
    assert not (tmp_path / "x").exists()

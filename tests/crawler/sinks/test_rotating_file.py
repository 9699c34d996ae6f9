"""Files that only grow: whole records, rotation, and what a crash leaves."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.clock import RealClock
from crawler.config import SinkConfig
from crawler.sinks.jsonl import JsonLines
from crawler.sinks.rotating_file import WallClock, numbered, whole_members
from crawler.sinks.sink import SinkError


class Clock:
    now = 100.0

    def wall(self) -> float:
        return self.now


def lines(path: Path, *, clock: WallClock = RealClock, **keys: object) -> JsonLines:
    config = SinkConfig(kind="jsonl", path=path, fsync=False, **keys)  # type: ignore[arg-type]
    return JsonLines(config, clock=clock)


def test_a_torn_last_line_is_cut_and_the_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c":')
    files = lines(path)
    files.open()
    files.append(b'{"d":4}\n')
    files.close()  # what was not flushed is not promised
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    files.open()
    files.append(b'{"d":4}\n')
    files.flush()
    files.close()
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n{"d":4}\n'


@pytest.mark.parametrize(
    "content",
    [b'{"name": "a"}', b'{\n  "name": "a"\n}', b'{"a":1}\n{"b":2}', b'{"a":1}\nsome notes', b"{}"],
)
def test_the_last_line_of_another_file_is_not_cut_off(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "package.json"
    path.write_bytes(content)
    with pytest.raises(SinkError, match="not touched"):
        lines(path).open()
    assert path.read_bytes() == content


@pytest.mark.parametrize("torn", [b"{", b'{"url":"http://a.test/', b'{"withdrawn":"x"}', b'{"url'])
def test_a_torn_line_is_cut_wherever_it_is_torn(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "a.jsonl"
    for before in (b"", b'{"url":1}\n'):
        path.write_bytes(before + torn)
        files = lines(path)
        files.open()
        files.close()
        assert path.read_bytes() == before


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(b"dear diary")
    with pytest.raises(SinkError, match="not touched"):
        lines(path).open()
    packed = lines(path, gzip=True)
    with pytest.raises(SinkError, match="not touched"):
        packed.open()
    assert path.read_bytes() == b"dear diary"


def test_a_large_file_is_followed_by_another_also_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for _ in range(2):
        files = lines(path, max_file_bytes=20)
        files.open()
        for n in range(4):
            files.append(b'{"n":%d,"x":12}\n' % n)
        files.flush()
        files.close()
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["a-00001.jsonl", "a-00002.jsonl", "a-00003.jsonl", "a.jsonl"]
    whole = b"".join((tmp_path / name).read_bytes() for name in names)
    assert whole.count(b"\n") == 8


def test_an_old_file_is_followed_by_another(tmp_path: Path) -> None:
    clock = Clock()
    files = lines(tmp_path / "a.jsonl", max_age_s=60, clock=clock)
    files.open()
    files.append(b"{}\n")
    clock.now = 159.0
    files.append(b"{}\n")
    clock.now = 160.0
    files.append(b"{}\n")
    files.flush()
    files.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"{}\n{}\n"
    assert (tmp_path / "a-00001.jsonl").read_bytes() == b"{}\n"


def test_two_crawls_do_not_write_one_file(tmp_path: Path) -> None:
    first, second = lines(tmp_path / "a.jsonl"), lines(tmp_path / "a.jsonl")
    first.open()
    with pytest.raises(SinkError, match="by another crawl"):
        second.open()
    first.close()


def test_every_torn_end_of_a_gzip_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    rng = random.Random(1)
    members = [gzip.compress(rng.randbytes(rng.randrange(1, 300))) for _ in range(4)]
    ends = [sum(map(len, members[:n])) for n in range(5)]
    whole = b"".join(members)
    for cut in range(4, len(whole) + 1):
        path.write_bytes(whole[:cut])
        with path.open("rb") as file:
            found = whole_members(file, path)
        assert found == max(end for end in ends if end <= cut)


def test_a_full_disk_is_a_sentence_and_leaves_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full"
    monkeypatch.setattr(
        "crawler.sinks.rotating_file.open_for_update", lambda *_: os.open("/dev/full", os.O_RDWR)
    )
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("there is no /dev/full")
    files = lines(path)
    files.open()
    files.append(b"{}\n")
    with pytest.raises(SinkError, match="no space left"):
        files.flush()
    files.close()


def test_names_of_files_that_follow() -> None:
    assert numbered(Path("a.jsonl"), 0) == Path("a.jsonl")
    assert numbered(Path("x/a.warc.gz"), 7) == Path("x/a-00007.warc.gz")
    assert numbered(Path("a.b.log"), 12) == Path("a.b-00012.log")
    assert numbered(Path("a"), 1) == Path("a-00001")


def _removed(path: Path) -> bytes:
    path.unlink()
    return b""


def _moved(path: Path) -> bytes:
    path.rename(path.with_suffix(".old"))
    return b""


def _replaced(path: Path) -> bytes:
    other = path.with_suffix(".new")
    other.write_bytes(b'{"other":1}\n')
    other.replace(path)
    return b'{"other":1}\n'


def _emptied(path: Path) -> bytes:
    os.truncate(path, 0)
    return b""


def _cut(path: Path) -> bytes:
    os.truncate(path, len(b'{"head":1}\n{"a'))
    return b'{"head":1}\n'


@pytest.mark.parametrize("act", [_removed, _moved, _replaced, _emptied, _cut])
@pytest.mark.parametrize("failing", [False, True])
def test_what_another_program_does_to_a_file_loses_nothing_written_later(
    tmp_path: Path, act: Callable[[Path], bytes], failing: bool
) -> None:
    """Neither into a file without a name, nor behind a hole that the next run takes for damage."""
    path, head = tmp_path / "a.jsonl", b'{"head":1}\n'
    files = lines(path)
    files.head = lambda _: head  # type: ignore[method-assign]
    files.open()
    files.append(b'{"a":1}\n')
    files.flush()
    kept = act(path)
    if failing:  # a full disk, say, after a part of them
        files.append(b'{"b":2}\n')
        files.undo()
    for record in (b'{"b":2}\n', b'{"c":3}\n'):
        files.append(record)
        files.flush()
    files.close()
    assert path.read_bytes() == (kept or head) + b'{"b":2}\n{"c":3}\n'
    if act is _moved:
        assert path.with_suffix(".old").read_bytes() == head + b'{"a":1}\n'
    files.open()
    files.close()


def test_a_file_replaced_by_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    files = lines(path)
    files.open()
    path.unlink()
    path.write_bytes(b"notes\n")
    files.append(b'{"b":2}\n')
    with pytest.raises(SinkError, match="not touched"):
        files.flush()
    files.close()
    assert path.read_bytes() == b"notes\n"

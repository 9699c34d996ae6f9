"""Where the last whole member of a gzip file ends, whatever is inside of them."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from crawler.sinks.rotating_file import whole_members


@pytest.fixture
def small_window(monkeypatch: pytest.MonkeyPatch) -> int:
    """So that what happens in files of gigabytes does in small ones."""
    window_bytes = 200_000
    monkeypatch.setattr("crawler.sinks.rotating_file._WINDOW_BYTES", window_bytes)
    return window_bytes


def _archive(draw: random.Random) -> bytes:
    """A page that is made of gzip files: zlib keeps their bytes as they are."""
    return draw.randbytes(20_000) + b"".join(
        gzip.compress(draw.randbytes(2_500), mtime=draw.randrange(2**31)) + draw.randbytes(3_000)
        for _ in range(30)
    )


def _whole(path: Path) -> int:
    with path.open("rb") as file:
        return whole_members(file, path)


def test_gzip_files_inside_of_members_are_not_taken_for_members(
    tmp_path: Path, small_window: int
) -> None:
    draw, path = random.Random(1), tmp_path / "pages.warc.gz"
    inside = _archive(draw)
    assert inside[22_000:22_500] in gzip.compress(inside)
    members = [gzip.compress(inside), *(gzip.compress(_archive(draw)) for _ in range(5))]
    whole = b"".join(members)
    path.write_bytes(whole)
    assert len(whole) > small_window
    assert _whole(path) == len(whole)
    for torn in (1, len(members[-1]) // 2, len(members[-1]) - 1):
        path.write_bytes(whole[:-torn])
        assert _whole(path) == len(whole) - len(members[-1])


def test_a_file_without_a_whole_member_is_begun_anew(tmp_path: Path, small_window: int) -> None:
    path = tmp_path / "pages.warc.gz"
    member = gzip.compress(random.Random(2).randbytes(2 * small_window))
    path.write_bytes(member[:-1])
    assert _whole(path) == 0
    path.write_bytes(member)
    assert _whole(path) == len(member)

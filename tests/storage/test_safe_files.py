"""Files are opened for writing without following or destroying what another user put there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.safe_files import (
    check_folder,
    is_stream,
    open_exclusive,
    open_for_append,
    open_for_update,
    open_stream,
)

Opener = Callable[[Path], int]
OPENERS: list[Opener] = [open_exclusive, open_for_update, open_for_append]


@pytest.fixture(params=OPENERS, ids=lambda opener: str(opener.__name__))
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


def _write(descriptor: int, data: bytes) -> None:
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def test_new_files_are_readable_by_their_owner_alone(tmp_path: Path, opener: Opener) -> None:
    before = os.umask(0)
    try:
        _write(opener(tmp_path / "a"), b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@pytest.mark.parametrize("dangling", [False, True])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, opener: Opener, dangling: bool) -> None:
    victim, link = tmp_path / "victim", tmp_path / "a"
    if not dangling:
        victim.write_bytes(b"precious")
    link.symlink_to(victim)
    with pytest.raises(OSError, match=r"symbolic link|exists"):
        opener(link)
    assert link.is_symlink()
    assert victim.exists() is not dangling
    assert dangling or victim.read_bytes() == b"precious"


def test_a_draft_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "a"
    victim.write_bytes(b"precious")
    link.symlink_to(victim)
    _write(open_exclusive(link, replace=True), b"x")
    assert victim.read_bytes() == b"precious"
    assert not link.is_symlink()
    assert link.read_bytes() == b"x"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for opener in (open_for_update, open_for_append):
        for name in ("fifo", "folder"):
            with pytest.raises(OSError, match=r"regular file|directory"):
                opener(tmp_path / name)
        with pytest.raises(OSError, match="regular file"):
            opener(Path("/dev/null"))


def test_content_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    _write(open_for_append(path), b"two")
    assert path.read_bytes() == b"onetwo"
    os.close(open_for_update(path))
    assert path.read_bytes() == b"onetwo"


def test_a_folder_that_everybody_may_write_is_refused(tmp_path: Path, opener: Opener) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="every user may write"):
        check_folder(folder)
    with pytest.raises(PermissionError, match="every user may write"):
        opener(folder / "a")
    assert not (folder / "a").exists()
    folder.chmod(0o1777)
    os.close(opener(folder / "a"))


def test_in_a_shared_folder_hard_links_are_refused(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "shared"
    victim.write_bytes(b"precious")
    folder.mkdir()
    folder.chmod(0o1777)
    os.link(victim, folder / "a")
    with pytest.raises(PermissionError, match="hard link"):
        open_for_append(folder / "a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_in_a_shared_folder_files_of_other_users_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "a").write_bytes(b"")
    os.chown(folder / "a", 65_534, 65_534)
    with pytest.raises(OSError, match=r"another user|Permission denied"):
        open_for_append(folder / "a")


def test_outputs_that_cannot_be_replaced_are_recognised(tmp_path: Path) -> None:
    fifo, plain, link = tmp_path / "fifo", tmp_path / "plain", tmp_path / "link"
    os.mkfifo(fifo)
    plain.write_bytes(b"")
    link.symlink_to("/dev/null")
    streams = ("/dev/stdout", "/dev/../dev/stderr", "/dev/fd/1", "/dev/null", str(fifo), str(link))
    assert all(is_stream(Path(each)) for each in streams)
    assert not any(is_stream(each) for each in (plain, tmp_path, tmp_path / "none"))
    _write(open_stream(link), b"x")

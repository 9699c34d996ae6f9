"""A journal on a disk that fails: no line that was written is lost or merged with a torn one."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.sinks.journal import Journal


class Faulty:
    """A file of which some calls fail: a write after some of its bytes."""

    def __init__(self, inner: BinaryIO) -> None:
        self._inner = inner
        self.writes: list[int | None] = []  # how much gets through until it fails; None: all
        self.broken: set[str] = set()

    def write(self, data: memoryview) -> int:
        through = self.writes.pop(0) if self.writes else None
        if through is None:
            return self._inner.write(data)
        self._inner.write(data[:through])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, size: int) -> int:
        self._check("truncate")
        return self._inner.truncate(size)

    def seek(self, offset: int, whence: int) -> int:
        self._check("seek")
        return self._inner.seek(offset, whence)

    def close(self) -> None:
        self._inner.close()

    def _check(self, name: str) -> None:
        if name in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def opened(path: Path) -> tuple[Journal, Faulty]:
    journal = Journal(path)
    journal.open()
    assert journal._file is not None
    faulty = Faulty(journal._file)
    journal._file = cast("BinaryIO", faulty)
    return journal, faulty


def test_a_torn_line_that_cannot_be_cut_off_is_ended(tmp_path: Path) -> None:
    journal, disk = opened(tmp_path / "journal")
    journal.add(["first"])
    journal.flush()
    disk.broken = {"truncate"}
    disk.writes = [7]
    journal.add(["second"])
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    journal.undo()  # its page is given up
    journal.add(["third"])
    journal.flush()
    disk.broken.clear()
    disk.writes = [3]
    journal.add(["fourth"])
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    journal.flush()
    assert [*journal.entries()] == [["first"], ["third"], ["fourth"]]
    journal.close()


def test_a_torn_line_of_a_crash_is_ended_although_the_next_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'["first"]\n["sec')
    journal, _ = opened(path)
    journal.add(["third"])
    journal.undo()
    journal.add(["fourth"])
    journal.close()
    journal, _ = opened(path)
    assert [*journal.entries()] == [["first"], ["fourth"]]
    journal.close()


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 0)),
    st.tuples(st.sampled_from(["flush", "undo", "reopen"]), st.integers(0, 0)),
    st.tuples(st.just("fail"), st.integers(0, 40)),
    st.tuples(st.sampled_from(["truncate", "seek"]), st.integers(0, 1)),
)


@settings(max_examples=160, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_what_was_flushed_is_there_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal, disk = opened(Path(folder) / "journal")
        written: list[list[str]] = []
        waiting: list[list[str]] = []
        number = 0
        for step, value in steps:
            match step:
                case "add":
                    number += 1
                    waiting.append([f"entry {number}"])
                    journal.add(waiting[-1])
                case "fail":
                    disk.writes = [value]
                case "truncate" | "seek":
                    (disk.broken.add if value else disk.broken.discard)(step)
                case "undo":
                    journal.undo()
                    waiting.clear()
                case _:
                    try:
                        journal.close() if step == "reopen" else journal.flush()
                        written += waiting
                        waiting.clear()
                    except OSError:
                        pass
                    if step == "reopen":
                        waiting.clear()
                        journal, disk = opened(Path(folder) / "journal")
        disk.writes, disk.broken = [], set()
        found = [*journal.entries()]
        written += waiting
        firsts = list(dict.fromkeys(entry[0] for entry in found))
        kept = {entry[0] for entry in written}
        assert [entry for entry in firsts if entry in kept] == [entry[0] for entry in written]
        journal.close()

"""Locks end with the process that took them, though it was forked meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage import process_locks

# Locks a file, forks a child that lives on, and dies.
_HOLDER = """
import os, sys
from storage import process_locks
path = sys.argv[1]
closed = os.open(path + "-other", os.O_RDWR | os.O_CREAT)
process_locks.lock(closed)
os.close(closed)
reused = os.open(path + "-data", os.O_RDWR | os.O_CREAT)
assert reused == closed
fd = os.open(path, os.O_RDWR | os.O_CREAT)
process_locks.lock(fd)
ours, theirs = os.pipe()
child = os.fork()
if not child:
    os.write(reused, b"kept")  # not taken for a lock
    os.write(theirs, b"x")
    os.close(1)
    os.close(2)
    import time
    time.sleep(60)
os.read(ours, 1)
try:
    other = os.open(path, os.O_RDWR)
    process_locks.lock(other)
except BlockingIOError:
    print(child, flush=True)
os._exit(0)
"""


def test_a_forked_child_does_not_keep_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    done = subprocess.run(
        [sys.executable, "-c", _HOLDER, str(path)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    child = int(done.stdout)  # empty if the child had ended the lock of its parent
    try:
        os.kill(child, 0)
        fd = os.open(path, os.O_RDWR)
        process_locks.lock(fd)
        os.close(fd)
        assert (tmp_path / "lock-data").read_bytes() == b"kept"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_lock_is_refused_while_it_is_held(tmp_path: Path) -> None:
    fds = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    process_locks.lock(fds[0])
    with pytest.raises(BlockingIOError):
        process_locks.lock(fds[1])
    os.close(fds[0])
    process_locks.lock(fds[1])
    os.close(fds[1])


def test_all_locks_are_of_this_kind() -> None:
    root = Path(__file__).parents[2]
    found = [
        path.relative_to(root).as_posix()
        for folder in ("crawler", "storage")
        for path in (root / folder).rglob("*.py")
        if re.search(r"\b(flock|lockf)\(", path.read_text())
    ]
    assert found == ["storage/process_locks.py"]

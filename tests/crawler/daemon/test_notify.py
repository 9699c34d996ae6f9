"""Notifications to the service manager never block."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

from crawler.daemon.notify import Notify


def test_a_full_queue_of_the_manager_does_not_block(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        manager.bind(address)
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(100_000):
                other.sendto(b"x", address)
        notify = Notify({"NOTIFY_SOCKET": address})
        began_s = time.monotonic()
        notify.ready()
        notify.alive()
        assert time.monotonic() - began_s < 0.5
        manager.settimeout(5)
        said: set[bytes] = set()
        while said != {b"READY=1", b"WATCHDOG=1"}:  # they come when there is room
            said |= {manager.recv(1_000)} - {b"x"}


def test_a_missing_manager_is_ignored(tmp_path: Path) -> None:
    Notify({"NOTIFY_SOCKET": str(tmp_path / "nowhere")}).ready()
    Notify({}).ready()

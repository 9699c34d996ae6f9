"""Output that nobody may be reading: what is put is written, dropped and counted, or waits."""

from __future__ import annotations

import threading

import pytest

from crawler.output import Outlet


class Kept(Outlet):
    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def _write(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_without_memory_for_its_thread_it_waits_for_some(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    start = threading.Thread.start
    errors: list[Exception] = [error, error]

    def starting(thread: threading.Thread) -> None:
        if errors:
            raise errors.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    outlet = Kept()
    for piece in (b"a", b"b", b"c"):
        outlet.put(piece)
    assert outlet.close(10)
    assert (outlet.data, outlet.lost) == (b"abc", 0)


def test_without_memory_for_its_thread_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", never)
    outlet = Kept()
    assert outlet.close()
    outlet = Kept()
    outlet.put(b"a")
    assert not outlet.close()

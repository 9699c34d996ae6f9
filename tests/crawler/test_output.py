"""The background writer writes, drops and counts, or keeps what it is given."""

from __future__ import annotations

import threading

import pytest

from crawler.output import BackgroundWriter


class Kept(BackgroundWriter):
    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def _write(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_output_is_kept_until_a_thread_can_start(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    start = threading.Thread.start
    errors: list[Exception] = [error, error]

    def starting(thread: threading.Thread) -> None:
        if errors:
            raise errors.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    writer = Kept()
    for piece in (b"a", b"b", b"c"):
        writer.put(piece)
    assert writer.close(10)
    assert (writer.data, writer.lost) == (b"abc", 0)


def test_closing_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", never)
    writer = Kept()
    assert writer.close()
    writer = Kept()
    writer.put(b"a")
    assert not writer.close()

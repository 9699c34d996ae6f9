"""Output through a background thread, so that the event loop never blocks on a full pipe, a stopped
terminal or a slow disk."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import select
import sys
import threading
from collections.abc import Iterator
from typing import Final, TextIO

from crawler.threads import start_daemon

BYTES_MAX: Final = 1_000_000  # buffered; anything beyond is dropped and counted
STREAM_BYTES_MAX: Final = 128_000  # the same for standard output and error: several screens
# Pause between two writes, so that a busy log wakes the thread 50 times a second, not once a line.
GATHER_S: Final = 0.02
CLOSE_S: Final = 1.0  # how long an exit waits for buffered output to be written


class BackgroundWriter:
    """Writes pieces of output to a file in a thread of its own. `put` never blocks.

    Subclasses implement `_write`.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        # What to write, the number of pieces in it, and the number of lost pieces it reports.
        self._queue: queue.SimpleQueue[tuple[bytes, int, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._waiting_bytes = 0
        self._unreported = 0
        self.lost = 0  # pieces dropped so far

    def put(self, piece: bytes) -> None:
        with self._lock:
            if self._closing.is_set() or self._waiting_bytes + len(piece) > self._bytes_max:
                self.lost += 1
                self._unreported += 1
                return
            self._report_lost()
            self._enqueue(piece, pieces=1)
            if self._thread is None:
                self._thread = start_daemon(self._work, name="output")

    def close(self, within_s: float = CLOSE_S) -> bool:
        """Wait up to `within_s` for buffered output. Return whether all of it was written."""
        with self._lock:
            self._closing.set()
            if self._waiting_bytes and self._thread is None:
                self._thread = start_daemon(self._work, name="output")
            thread = self._thread
            if thread is None:
                return not self._waiting_bytes
            self._report_lost()
            self._queue.put(None)
        thread.join(within_s)
        return not thread.is_alive()

    def _write(self, data: bytes) -> None:
        """Write all of `data`, blocking. Called in the thread. Raises OSError and ValueError."""
        raise NotImplementedError

    def _lost_note(self, count: int) -> bytes:
        """A note that is written in place of `count` lost pieces."""
        return b""

    def _report_lost(self) -> None:
        if self._unreported:
            count, self._unreported = self._unreported, 0
            self._enqueue(self._lost_note(count), reported=count)

    def _enqueue(self, data: bytes, *, pieces: int = 0, reported: int = 0) -> None:
        self._waiting_bytes += len(data)
        self._queue.put((data, pieces, reported))

    def _work(self) -> None:
        open_ = True
        while open_:
            parts, pieces, reported = [], 0, 0
            item = self._queue.get()
            while item is not None:
                parts.append(item[0])
                pieces += item[1]
                reported += item[2]
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            open_ = item is not None
            data = b"".join(parts)
            try:
                if data:
                    self._write(data)
            except (OSError, ValueError, AttributeError):  # disk full, reader gone, stream closed
                with self._lock:
                    self.lost += pieces
                    self._unreported += pieces + reported
            with self._lock:
                self._waiting_bytes -= len(data)
            if open_:
                self._closing.wait(GATHER_S)


def write_some(fd: int, data: memoryview) -> memoryview:
    """Write as much as fits, and return the rest. Raises OSError."""
    while True:
        try:
            return data[os.write(fd, data) :]
        except BlockingIOError:  # another process has made the terminal non-blocking
            select.select([], [fd], [], 1.0)


class _StandardStream(BackgroundWriter):
    def __init__(self, fd: int) -> None:
        super().__init__(STREAM_BYTES_MAX)
        self.fd = fd

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = write_some(self.fd, rest)


class _RawFile(io.RawIOBase):
    """The raw file below a text stream that writes through a BackgroundWriter."""

    def __init__(self, writer: _StandardStream) -> None:
        super().__init__()
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        if piece:
            self._writer.put(piece)
        return len(piece)

    def fileno(self) -> int:
        return self._writer.fd

    def isatty(self) -> bool:
        return os.isatty(self._writer.fd)


@contextlib.contextmanager
def nonblocking_output(*names: str) -> Iterator[None]:
    """Replace `sys.stdout` and `sys.stderr`, or those of them in `names`, by streams that never
    block. Streams that are not backed by a file descriptor stay as they are."""
    with contextlib.ExitStack() as cleanup:
        for name in names or ("stdout", "stderr"):
            stream: TextIO | None = getattr(sys, name)
            try:
                if stream is None:
                    continue
                stream.flush()
                writer = _StandardStream(stream.fileno())
            except (OSError, ValueError):
                continue
            text = io.TextIOWrapper(
                _RawFile(writer),  # type: ignore[type-var]
                encoding=stream.encoding,
                errors=stream.errors,
                write_through=True,
            )
            cleanup.callback(_close, text, writer)
            cleanup.callback(setattr, sys, name, stream)
            setattr(sys, name, text)
        yield


def _close(text: TextIO, writer: BackgroundWriter) -> None:
    with contextlib.suppress(ValueError):
        text.flush()
    writer.close()

"""Output that nobody may be reading: written by a thread of its own, so that the event loop never
waits for a full pipe, a stopped terminal or a slow disk."""

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

BYTES_MAX: Final = 1_000_000  # that wait to be written; what is put beyond is dropped and counted
STREAM_BYTES_MAX: Final = 128_000  # of standard output and error: some screens
# Between two writes, so that a busy log wakes the thread 50 times a second and not for every line.
GATHER_S: Final = 0.02
CLOSE_S: Final = 1.0  # that an exit waits for what is still to be written


class Outlet:
    """Pieces of output on their way to a file. `put` never waits."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._queue: queue.SimpleQueue[tuple[bytes, int, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._waiting_bytes = 0
        self._unsaid = 0
        self.lost = 0  # pieces dropped since it was opened

    def put(self, piece: bytes) -> None:
        with self._lock:
            if self._closing.is_set() or self._waiting_bytes + len(piece) > self._bytes_max:
                self.lost += 1
                self._unsaid += 1
                return
            self._say_lost()
            self._enqueue(piece, pieces=1)
            if self._thread is None:
                self._thread = start_daemon(self._work, name="output")

    def close(self, within_s: float = CLOSE_S) -> bool:
        """Wait that long for what is still to be written; whether it was."""
        with self._lock:
            self._closing.set()
            if self._waiting_bytes and self._thread is None:
                self._thread = start_daemon(self._work, name="output")
            thread = self._thread
            if thread is None:
                return not self._waiting_bytes
            self._say_lost()
            self._queue.put(None)
        thread.join(within_s)
        return not thread.is_alive()

    # ------------------------------------------------------------ for what is written to

    def _write(self, data: bytes) -> None:
        """Write all of it, however long that takes. Raises OSError and ValueError. In the
        thread."""
        raise NotImplementedError

    def _lost_note(self, count: int) -> bytes:
        """What is written where pieces are missing."""
        return b""

    # ------------------------------------------------------------ inside

    def _say_lost(self) -> None:
        if self._unsaid:
            count, self._unsaid = self._unsaid, 0
            self._enqueue(self._lost_note(count), said=count)

    def _enqueue(self, data: bytes, *, pieces: int = 0, said: int = 0) -> None:
        """`said`: how many lost pieces it is the note of."""
        self._waiting_bytes += len(data)
        self._queue.put((data, pieces, said))

    def _work(self) -> None:
        open_ = True
        while open_:
            parts, pieces, said = [], 0, 0
            item = self._queue.get()
            while item is not None:
                parts.append(item[0])
                pieces += item[1]
                said += item[2]
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            open_ = item is not None
            data = b"".join(parts)
            try:
                if data:
                    self._write(data)
            except (OSError, ValueError, AttributeError):  # full, gone, or closed
                with self._lock:
                    self.lost += pieces
                    self._unsaid += pieces + said
            with self._lock:
                self._waiting_bytes -= len(data)
            if open_:
                self._closing.wait(GATHER_S)


def write_some(fd: int, data: memoryview) -> memoryview:
    """Write what fits, and give the rest. Raises OSError."""
    while True:
        try:
            return data[os.write(fd, data) :]
        except BlockingIOError:  # somebody else has made the terminal so
            select.select([], [fd], [], 1.0)


class _Stream(Outlet):
    """Standard output or error."""

    def __init__(self, fd: int) -> None:
        super().__init__(STREAM_BYTES_MAX)
        self._fd = fd

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = write_some(self._fd, rest)


class _Raw(io.RawIOBase):
    """The file below a text stream that goes into an outlet."""

    def __init__(self, outlet: Outlet, fd: int) -> None:
        super().__init__()
        self._outlet = outlet
        self._fd = fd

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        if piece:
            self._outlet.put(piece)
        return len(piece)

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)


@contextlib.contextmanager
def never_waiting(*names: str) -> Iterator[None]:
    """Meanwhile whatever writes to these streams of `sys`, `stdout` and `stderr` unless given, does
    not wait for who reads them: messages, progress, and what libraries log."""
    before = {name: getattr(sys, name) for name in names or ("stdout", "stderr")}
    made = {name: _over(stream) for name, stream in before.items()}
    for name, (_, stream) in made.items():
        setattr(sys, name, stream or before[name])
    try:
        yield
    finally:
        for name, stream in before.items():
            setattr(sys, name, stream)
        for outlet, stream in made.values():
            if outlet is not None and stream is not None:
                with contextlib.suppress(ValueError):
                    stream.flush()
                outlet.close()


def _over(stream: TextIO | None) -> tuple[Outlet, TextIO] | tuple[None, None]:
    """None for one that is not over a file of the system: nobody has to read it."""
    if stream is None:
        return None, None
    try:
        fd = stream.fileno()
        stream.flush()
    except (OSError, ValueError):
        return None, None
    outlet = _Stream(fd)
    text = io.TextIOWrapper(
        _Raw(outlet, fd),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors=stream.errors,
        write_through=True,
    )
    return outlet, text

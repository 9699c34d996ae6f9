"""Lists of strings on disk that a mirror processes when it is closed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from storage.safe_files import FILE_MODE, open_exclusive, open_for_append, open_for_update

_Entry = list[str]
_LINES_BYTES_MAX: Final = 1_000_000  # in memory


class Journal:
    """A file of entries, one per line. It is appended to, until `renew` replaces its content.

    A last line torn by a crash is ignored, because its page was not committed.
    """

    def __init__(self, path: Path, mode: int = FILE_MODE) -> None:
        self._path = path
        self._mode = mode
        self._file: BinaryIO | None = None
        self._kept: BinaryIO | None = None
        self._bytes = 0  # in the file, in complete lines
        self._lines = bytearray()  # not written yet
        self._gap = b""  # written first, to end an incomplete line in the file
        self._torn = False  # a write failed, and the file is not repaired yet

    def open(self) -> None:
        self._file = os.fdopen(open_for_append(self._path, self._mode), "ab+", buffering=0)
        self._bytes = self._file.seek(0, os.SEEK_END)
        if self._bytes:
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self._gap = b"\n"

    def add(self, entry: Sequence[str]) -> None:
        if len(self._lines) >= _LINES_BYTES_MAX:
            self.flush()
        self._lines += msgspec.json.encode(entry) + b"\n"

    def flush(self) -> None:
        """Write all lines to the operating system, or none of them. Raises OSError."""
        file = self._file
        if file is None or not (self._lines or self._torn):
            return
        self._repair(file)
        data = self._gap + self._lines
        try:
            with memoryview(data) as view:
                at = 0
                while at < len(view):
                    at += file.write(view[at:])
        except OSError:
            self._torn = True
            with suppress(OSError):  # retried before the next write
                self._repair(file)
            raise
        self._bytes += len(data)
        self._gap = b""
        self._lines = bytearray()

    def _repair(self, file: BinaryIO) -> None:
        """Remove what a failed write left, or end its last line, which is ignored then.

        Raises OSError if neither is possible.
        """
        if not self._torn:
            return
        size = file.seek(0, os.SEEK_END)
        if size > self._bytes:
            try:
                file.truncate(self._bytes)
            except OSError:
                self._bytes, self._gap = size, b"\n"
        self._torn = False

    def undo(self) -> None:
        """Discard the lines that are not written yet."""
        self._lines = bytearray()

    def entries(self) -> Iterator[_Entry]:
        self.flush()
        with os.fdopen(open_for_update(self._path, self._mode), "rb") as lines:
            for line in lines:
                try:
                    entry = msgspec.json.decode(line, type=_Entry)
                except msgspec.DecodeError:
                    continue
                if entry:
                    yield entry

    def keep(self, entry: Sequence[str]) -> None:
        """Add an entry to the content after `renew`."""
        if self._kept is None:
            self._kept = self._draft()
        self._kept.write(msgspec.json.encode(entry) + b"\n")

    def keep_none(self) -> None:
        """Discard the entries that were kept."""
        kept, self._kept = self._kept, None
        if kept is not None:
            with suppress(OSError):
                kept.close()

    def renew(self) -> None:
        """Replace the content by the entries that were kept."""
        self.close()
        kept, self._kept = self._kept or self._draft(), None
        kept.close()
        self._path.with_suffix(".new").replace(self._path)

    def _draft(self) -> BinaryIO:
        draft = self._path.with_suffix(".new")
        return os.fdopen(open_exclusive(draft, self._mode, replace=True), "wb")

    def close(self) -> None:
        try:
            self.flush()
        finally:
            file, self._file = self._file, None
            if file is not None:
                file.close()

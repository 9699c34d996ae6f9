"""What a mirror has to see to when it is closed: lists of texts, a line each, on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

_Entry = list[str]


class Journal:
    """Only appended to until it is renewed with what was kept. A torn last line, after a crash, is
    passed over: its page was not committed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._kept: BinaryIO | None = None

    def open(self) -> None:
        self._file = self._path.open("ab+")
        if self._file.tell():
            self._file.seek(-1, 2)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")

    def add(self, entry: Sequence[str]) -> None:
        assert self._file is not None
        self._file.write(msgspec.json.encode(entry) + b"\n")

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def entries(self) -> Iterator[_Entry]:
        self.flush()
        with self._path.open("rb") as lines:
            for line in lines:
                try:
                    entry = msgspec.json.decode(line, type=_Entry)
                except msgspec.DecodeError:
                    continue
                if entry:
                    yield entry

    def keep(self, entry: Sequence[str]) -> None:
        """For the next run, when it is renewed."""
        if self._kept is None:
            self._kept = self._path.with_suffix(".new").open("wb")
        self._kept.write(msgspec.json.encode(entry) + b"\n")

    def renew(self) -> None:
        """Only what was kept is in it from now on."""
        self.close()
        draft = self._path.with_suffix(".new")
        if self._kept is None:
            draft.write_bytes(b"")
        else:
            self._kept.close()
            self._kept = None
        draft.replace(self._path)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

"""Which URLs are being fetched, in a file beside the database that outlives the process: the next
start reads what was in flight when it died."""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storage.files import FILE_MODE, open_for_update

_log = logging.getLogger("courtly.store")
_MAGIC: Final = b"courtly1"
_WORD: Final = struct.Struct("<q")
_PLACES: Final = 4_096  # 32 KB; what is in flight beyond it is not noted
_BYTES: Final = (2 + _PLACES) * _WORD.size  # magic, session, places


class InFlight:
    """A word for each URL in flight. It is written with every request (1 µs) and never waits for
    the disk: what survives the process is enough, a power cut blames no URL.

    It only helps: where it cannot be kept, that is logged once, and the crawl does without it.
    """

    def __init__(self, database: Path, *, mode: int = FILE_MODE) -> None:
        self._path = database.with_name(database.name + ".inflight")
        self._mode = mode
        self._fd = -1
        self._places: dict[int, int] = {}  # by URL
        self._free: list[int] = []

    def left(self) -> tuple[int, Sequence[int]]:
        """The session that a process died in, and the URLs it had in flight; (0, ()) for none."""
        try:
            fd = open_for_update(self._path, self._mode)
        except OSError as error:
            self._give_up(error)
            return 0, ()
        try:
            data = os.pread(fd, _BYTES, 0)
        except OSError as error:
            os.close(fd)
            self._give_up(error)
            return 0, ()
        if data and not data.startswith(_MAGIC):
            os.close(fd)
            self._give_up(OSError(f"{self._path} is a file of something else"))
            return 0, ()
        self._fd = fd
        words = [word for (word,) in _WORD.iter_unpack(data[: len(data) & -8])]
        return (words[1], [word for word in words[2:] if word > 0]) if len(words) > 2 else (0, ())

    def begin(self, session: int) -> None:
        """Forget what was left; from here on it is this session's."""
        self._places.clear()
        self._free = list(range(_PLACES))
        self._write(0, _MAGIC + _WORD.pack(session) + bytes(_PLACES * _WORD.size))

    def add(self, url: int) -> None:
        if self._fd >= 0 and self._free and url not in self._places:
            place = self._places[url] = self._free.pop()
            self._write(2 + place, _WORD.pack(url))

    def remove(self, url: int) -> None:
        place = self._places.pop(url, None)
        if place is not None:
            self._free.append(place)
            self._write(2 + place, bytes(_WORD.size))

    def close(self) -> None:
        """The process ends, but does not die: nothing is in flight."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(fd)

    def _write(self, word: int, data: bytes) -> None:
        if self._fd < 0:
            return
        try:
            os.pwrite(self._fd, data, word * _WORD.size)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        _log.warning("a page that kills the process twice will not be recognised: %s", error)
        self.close()

"""The URLs and robots.txt in flight, in a file beside the database, for the next start to read if
the process dies."""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from storage.safe_files import FILE_MODE, open_for_update

_log = logging.getLogger("courtly.store")
_MAGIC: Final = b"courtly1"
_WORD: Final = struct.Struct("<q")
_PLACES: Final = 4_096  # 32 KB; more requests in flight are not recorded
_NAMES_AT: Final = (2 + _PLACES) * _WORD.size  # after magic, session, places
_NAME_BYTES: Final = 544  # a host of 253 characters, and an origin of it
_NAMES: Final = 512


class LeftInFlight(NamedTuple):
    """Requests that were in flight when the process of a session died."""

    session: int = 0
    urls: tuple[int, ...] = ()
    robots: tuple[tuple[str, str], ...] = ()  # slot and origin


NOTHING_LEFT: Final = LeftInFlight()


class InFlight:
    """A place for each URL, by its id, and for each robots.txt, by slot and origin. It is written
    with every request (1 µs) and never waits for the disk: what survives the process is enough, a
    power cut blames nobody.

    It only helps: where it cannot be kept, that is logged once, and the crawl does without it.
    """

    def __init__(self, database: Path | None, *, mode: int = FILE_MODE) -> None:
        """database: None if there is no file; nothing is recorded then."""
        self._path: Path | None = None
        if database is not None:
            self.use(database.with_name(database.name + ".inflight"))
        self._mode = mode
        self._fd = -1
        self._places: dict[int | tuple[str, str], int] = {}
        self._free: list[int] = []  # places, as offsets in the file
        self._free_names: list[int] = []

    def use(self, path: Path | None) -> None:
        """Set the file, before `left` is called. None: nothing is recorded."""
        self._path = path

    def left(self) -> LeftInFlight:
        """Return what the last process left; nothing if it ended in an orderly way."""
        if self._path is None:
            return NOTHING_LEFT
        try:
            fd = open_for_update(self._path, self._mode)
        except OSError as error:
            self._give_up(error)
            return NOTHING_LEFT
        try:
            data = os.pread(fd, _NAMES_AT + _NAMES * _NAME_BYTES, 0)
        except OSError as error:
            os.close(fd)
            self._give_up(error)
            return NOTHING_LEFT
        if data and not data.startswith(_MAGIC):
            os.close(fd)
            self._give_up(OSError(f"{self._path} belongs to another program"))
            return NOTHING_LEFT
        self._fd = fd
        numbers = data[: min(len(data), _NAMES_AT) & -8]
        words = [word for (word,) in _WORD.iter_unpack(numbers)]
        if len(words) < 2:
            return NOTHING_LEFT
        names = [
            data[at : at + _NAME_BYTES].rstrip(b"\0").decode("utf-8", "replace").partition(" ")
            for at in range(_NAMES_AT, len(data), _NAME_BYTES)
        ]
        return LeftInFlight(
            words[1],
            tuple(word for word in words[2:] if word > 0),
            tuple((slot, origin) for slot, _, origin in names if origin),
        )

    def begin(self, session: int) -> None:
        """Clear the file for this session."""
        self._places.clear()
        self._free = list(range(2 * _WORD.size, _NAMES_AT, _WORD.size))
        self._free_names = list(range(_NAMES_AT, _NAMES_AT + _NAMES * _NAME_BYTES, _NAME_BYTES))
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, _NAMES_AT)
            except OSError as error:
                self._give_up(error)
        self._write(0, _MAGIC + _WORD.pack(session) + bytes(_PLACES * _WORD.size))

    def add(self, what: int | tuple[str, str]) -> None:
        """Record the id of a URL, or the slot and origin of a robots.txt."""
        free = self._free if isinstance(what, int) else self._free_names
        if self._fd < 0 or not free or what in self._places:
            return
        data = (
            _WORD.pack(what) if isinstance(what, int) else " ".join(what).encode("utf-8", "replace")
        )
        if len(data) <= _NAME_BYTES:
            place = self._places[what] = free.pop()
            self._write(place, data)

    def remove(self, what: int | tuple[str, str]) -> None:
        place = self._places.pop(what, None)
        if place is None:
            return
        is_url = isinstance(what, int)
        (self._free if is_url else self._free_names).append(place)
        self._write(place, bytes(_WORD.size if is_url else _NAME_BYTES))

    def close(self) -> None:
        """Delete the file: the process ends in an orderly way."""
        fd, self._fd = self._fd, -1
        if fd >= 0 and self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(fd)

    def _write(self, at: int, data: bytes) -> None:
        if self._fd < 0:
            return
        try:
            os.pwrite(self._fd, data, at)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        _log.warning("a page that kills the process twice will not be recognised: %s", error)
        self.close()

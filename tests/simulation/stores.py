"""The databases of a simulation: each can be given to the next run, and be left as by a kill."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from crawler.scheduling import disk_space
from crawler.testing import JumpClock
from storage.reader import Reader
from storage.sqlite import file_reader, file_store, memory_store
from storage.store import Row, Store, StoreError
from storage.timekeeper import Uptime
from tests.conftest import VIEWS, Medium


class Disk(Protocol):
    """Where the database of a scenario is. boots: how often its machine was started."""

    boots: int

    def store(self, clock: JumpClock) -> Any:
        """A store on it, as a new process opens it."""
        ...

    def reader(self) -> Reader: ...

    async def killed(self, store: Any) -> None:
        """The process died that had this store."""
        ...

    def connection(self, store: Any) -> Any:
        """The connection that commits."""
        ...

    def database(self) -> sqlite3.Connection: ...


class MemoryDisk:
    """One store in memory, which every process opens again."""

    boots = 0

    def __init__(self) -> None:
        self._store: Store | None = None

    def store(self, clock: JumpClock) -> Store:
        if self._store is None:
            self._store = memory_store(wall=clock.wall, monotonic=clock.monotonic)
            self._store._calls._sleep_until = clock.sleep_until
        return self._store

    def reader(self) -> Reader:
        assert self._store is not None
        return self._store.reader

    async def killed(self, store: Any) -> None:
        """The next process opens it anew: what a fault has broken for this one works for that."""
        await store._calls.close()

    def connection(self, store: Any) -> Any:
        return store._calls.database._connection

    def database(self) -> sqlite3.Connection:
        assert self._store is not None
        db: sqlite3.Connection = self._store.reader._database.db  # type: ignore[attr-defined]
        return db


class FileDisk:
    """A file. A kill leaves it, its log and the note of what is in flight as they are."""

    boots = 0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self.path = folder / "0" / "crawl.db"
        self.path.parent.mkdir()

    def store(self, clock: JumpClock) -> Store:
        return file_store(
            self.path, wall=clock.wall, monotonic=clock.monotonic, sleep_until=clock.sleep_until,
            uptime=lambda: Uptime(f"boot {self.boots}", clock.boottime()),
        )  # fmt: skip

    def reader(self) -> Reader:
        return file_reader(self.path)

    async def killed(self, store: Any) -> None:
        """Continue with a copy: what the dead process still does is lost with the other files."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        for file in self.path.parent.iterdir():
            if not file.name.endswith((".lock", "-shm")):
                shutil.copy(file, folder / file.name)
        self.path = folder / self.path.name
        with suppress(StoreError, ValueError):
            await store._calls.close()

    def connection(self, store: Any) -> Any:
        return store._calls._runner._conn

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)


@contextlib.contextmanager
def simulated_space(free_bytes: Callable[[], int]) -> Iterator[None]:
    """The free space that a crawl finds wherever it looks, for the duration of the block."""

    def space_in(folders: Iterable[Path]) -> dict[Path, disk_space.Free]:
        return {folder: disk_space.Free(free=free_bytes(), total=10**12) for folder in folders}

    async def here(work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    with (
        mock.patch.object(disk_space, "_space_in", space_in),
        mock.patch.object(disk_space, "in_thread", here),
    ):
        yield


class Wire(Medium):
    """What a process sees of its store: it may be killed with the n-th call."""

    def __init__(self, inner: Any, clock: JumpClock) -> None:
        super().__init__(inner, clock)
        self.kill_at = 0  # the number of the call; 0: none
        self.kill_verb = ""  # of calls of this name; "": of all
        self.kill_after = False
        self.kill: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        call = super().__getattr__(name)
        if not self.__dict__.get("kill_at") or name in ("close", "stats", "telemetry"):
            return call
        verb = self.kill_verb
        if verb not in ("", name):
            return call
        count = self.calls[verb] if verb else self.calls.total()
        if count + 1 == self.kill_at:
            if not self.kill_after:
                self.kill()
            else:
                self.after[name] = self._killed
        return call

    async def _killed(self, *_args: Any, **_kwargs: Any) -> None:
        self.after.clear()
        self.kill()

    def telemetry(self) -> Any:
        return self._inner.telemetry()


async def rows_of(reader: Reader) -> dict[str, list[Row]]:
    return {view: [row async for row in reader.iterate(view)] for view in VIEWS}

"""Too little free disk space, or the crawl's own used up: a hold before a write fails."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.config.units import format_bytes
from crawler.frontier.system_holds import SystemHolds
from crawler.periodic import PeriodicSteps
from crawler.threads import in_thread
from policies.holds import HoldReason
from storage.location import FileLocation

CHECK_EVERY_S: Final = 5.0
# The minimum, unless the config has one: room for the log, the WAL of the database and the work of
# others on this machine. The share is for small disks.
MIN_FREE_BYTES: Final = 200_000_000
MIN_FREE_SHARE: Final = 0.02
# With more free space than a crawl can fill in the meantime, the next look may wait.
FILL_BYTES_PER_S: Final = 50_000_000
CHECK_LATEST_S: Final = 60.0
# Times the minimum: free space at which a held crawl resumes, so that it does not flap.
RESUME_FACTOR: Final = 1.05
# Of what a look took: the files of a large mirror are counted less often.
REST_FACTOR: Final = 20.0
_BLOCK_BYTES: Final = 512  # of st_blocks, on every system
_DATABASE_FILES: Final = ("", "-wal", "-shm", "-journal", ".lock")


class Free(Struct, frozen=True):
    """Space on the file system of a folder, in bytes."""

    free: int
    total: int


class DiskSpace:
    """Checks the files of the database and of the sinks, and their file systems, during the crawl;
    only those of the sinks with PostgreSQL. `again` applies a changed config."""

    def __init__(self, effective: CurrentConfig, clock: Clock, holds: SystemHolds) -> None:
        self._effective = effective
        config = effective.config
        location = config.storage.location
        self._files = [location.path] if isinstance(location, FileLocation) else []
        self._sinks = [sink.path for sink in config.sinks]
        self._folders = _folders([*self._files, *self._sinks])
        # A database in memory has no file: a minimum that nobody has set does not concern it.
        exists = [path for path in self._files if path.exists()]
        self._default_folders = _folders([*exists, *self._sinks])
        self._clock = clock
        self._holds = holds
        self._look = asyncio.Event()
        self._over = threading.Event()

    def again(self) -> None:
        """The config has changed."""
        self._look.set()

    async def run(self) -> None:
        """Check until cancelled. Without a limit, nothing is checked until the config changes."""
        looks = PeriodicSteps("the look at the free disk space")
        try:
            while True:
                began_s = self._clock.monotonic()
                next_s = await looks.take(self._check)
                now_s = self._clock.monotonic()
                timer = None
                if looks.failing:
                    next_s = CHECK_EVERY_S
                if next_s is not None:
                    wait_s = max(next_s, REST_FACTOR * (now_s - began_s))
                    timer = self._clock.call_at(now_s + wait_s, self._look.set)
                await self._look.wait()
                self._look.clear()
                if timer is not None:
                    timer.cancel()
        finally:
            self._over.set()  # the thread that counts files

    async def _check(self) -> float | None:
        """Begin or end holds. Return the seconds until the next look; None if there is no limit."""
        storage = self._effective.config.storage
        next_s = None
        # In a thread: a network file system may take its time.
        folders = self._folders if storage.min_free_bytes else self._default_folders
        if storage.min_free_bytes != 0 and folders:
            next_s = self._judge_free(await in_thread(_space_in, folders))
        else:
            self._holds.end(HoldReason.DISK_LOW)
        if storage.max_size_bytes < float("inf"):
            self._judge_used(await in_thread(self._used_bytes))
            next_s = CHECK_EVERY_S
        else:
            self._holds.end(HoldReason.DISK_QUOTA)
        return next_s

    def _judge_free(self, spaces: dict[Path, Free]) -> float:
        """Begin or end the hold. Return the seconds until the next look."""
        given = self._effective.config.storage.min_free_bytes
        held = any(hold.reason is HoldReason.DISK_LOW for hold in self._holds.current)
        short, headroom = "", float("inf")
        for folder, found in spaces.items():
            minimum = _default_minimum(found.total) if given is None else given
            headroom = min(headroom, found.free - minimum)
            if not short and found.free < minimum * (RESUME_FACTOR if held else 1.0):
                # Without the free space itself, which changes while the sentence stays.
                key = "storage.min_free, the default" if given is None else "storage.min_free"
                short = f"less than {format_bytes(minimum)} free in {folder}: {key}"
        if short:
            self._holds.begin(HoldReason.DISK_LOW, short)
            return CHECK_EVERY_S
        self._holds.end(HoldReason.DISK_LOW)
        return min(max(headroom / FILL_BYTES_PER_S, CHECK_EVERY_S), CHECK_LATEST_S)

    def _judge_used(self, used: int) -> None:
        most = self._effective.config.storage.max_size_bytes
        if used >= most:
            detail = f"{format_bytes(used)} used, storage.max_size is {format_bytes(most)}"
            self._holds.begin(HoldReason.DISK_QUOTA, detail)
        else:
            self._holds.end(HoldReason.DISK_QUOTA)

    def _used_bytes(self) -> int:
        """Size of the files of the database and of the sinks."""
        files = {f"{file}{ending}" for file in self._files for ending in _DATABASE_FILES}
        folders: list[str] = []
        for path in self._sinks:
            if path.is_dir():
                folders.append(str(path))
            else:
                from crawler.sinks.rotating_file import (
                    numbered_files,  # only crawls with sinks have it
                )

                files.update(map(str, numbered_files(path)))
        used = sum(map(_file_bytes, files))
        for folder in folders:
            for size in _sizes(folder):
                used += size
                if self._over.is_set():
                    return used
        return used


def _folders(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The folders they are in, or will be."""
    found = dict.fromkeys(
        next((folder for folder in path.absolute().parents if folder.is_dir()), Path("/"))
        for path in paths
    )
    return tuple(found)


def _default_minimum(total_bytes: int) -> int:
    """The minimum on a file system of this size."""
    return min(MIN_FREE_BYTES, int(MIN_FREE_SHARE * total_bytes))


def _space_in(folders: Iterable[Path]) -> dict[Path, Free]:
    """The space in each folder; folders that cannot be read are omitted."""
    spaces: dict[Path, Free] = {}
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue  # removed, for example: the next write there will fail
        block = found.f_frsize
        spaces[folder] = Free(free=found.f_bavail * block, total=found.f_blocks * block)
    return spaces


def _file_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * _BLOCK_BYTES
    except OSError:
        return 0  # missing, or just removed


def _sizes(folder: str) -> Iterator[int]:
    """Sizes of the files in a folder and its subfolders."""
    stack = [folder]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    else:
                        yield _file_bytes(entry.path)
        except OSError:
            continue  # just removed

"""Too little free disk space, or the crawl's own used up: a hold before a write fails."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.config.units import format_bytes
from crawler.frontier.system_holds import SystemHolds
from crawler.threads import in_thread
from policies.holds import HoldReason
from storage.location import FileLocation

CHECK_EVERY_S: Final = 5.0
# Times the minimum: free space at which a held crawl resumes, so that it does not flap.
RESUME_FACTOR: Final = 1.05
# Of what a look took: the files of a large mirror are counted less often.
REST_FACTOR: Final = 20.0
_BLOCK_BYTES: Final = 512  # of st_blocks, on every system
_DATABASE_FILES: Final = ("", "-wal", "-shm", "-journal", ".lock")


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
        self._clock = clock
        self._holds = holds
        self._look = asyncio.Event()
        self._over = threading.Event()

    def again(self) -> None:
        """The config has changed."""
        self._look.set()

    async def run(self) -> None:
        """Check until cancelled. Without a configured limit, nothing is checked."""
        try:
            while True:
                began_s = self._clock.monotonic()
                limited = await self._check()
                now_s = self._clock.monotonic()
                if limited:
                    wait_s = max(CHECK_EVERY_S, REST_FACTOR * (now_s - began_s))
                    timer = self._clock.call_at(now_s + wait_s, self._look.set)
                await self._look.wait()
                self._look.clear()
                if limited:
                    timer.cancel()
        finally:
            self._over.set()  # the thread that counts files

    async def _check(self) -> bool:
        """Begin or end holds. False if there is no limit."""
        storage = self._effective.config.storage
        # In a thread: a network file system may take its time.
        if storage.min_free_bytes:
            self._judge_free(await in_thread(_free_bytes, self._folders))
        else:
            self._holds.end(HoldReason.DISK_LOW)
        if storage.max_size_bytes < float("inf"):
            self._judge_used(await in_thread(self._used_bytes))
        else:
            self._holds.end(HoldReason.DISK_QUOTA)
        return bool(storage.min_free_bytes) or storage.max_size_bytes < float("inf")

    def _judge_free(self, free: dict[Path, int]) -> None:
        minimum = self._effective.config.storage.min_free_bytes
        held = any(hold.reason is HoldReason.DISK_LOW for hold in self._holds.current)
        wanted = minimum * RESUME_FACTOR if held else minimum
        short = [folder for folder, found in free.items() if found < wanted]
        if short:
            left = f"{format_bytes(free[short[0]])} free in {short[0]}"
            detail = f"{left}, storage.min_free is {format_bytes(minimum)}"
            self._holds.begin(HoldReason.DISK_LOW, detail)
        else:
            self._holds.end(HoldReason.DISK_LOW)

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


def _free_bytes(folders: Iterable[Path]) -> dict[Path, int]:
    """Free bytes in each folder; folders that cannot be read are omitted."""
    free: dict[Path, int] = {}
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue  # removed, for example: the next write there will fail
        free[folder] = found.f_bavail * found.f_frsize
    return free


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

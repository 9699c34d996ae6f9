"""Little free disk space, or the crawl's own used up, holds the crawl until there is more again."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawler.config import ConfigError, from_dict
from crawler.config.model import CurrentConfig
from crawler.scheduling.disk_space import CHECK_EVERY_S, CHECK_LATEST_S, DiskSpace
from crawler.testing import JumpClock
from policies.holds import HoldReason
from tests.crawler.frontier.rig import DrivenFrontier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from policies.holds import Hold

MB = 1_000_000


class Disk:
    def __init__(self, free_bytes: float, total_bytes: float = 1e12) -> None:
        self.free_bytes = free_bytes
        self.total_bytes = total_bytes
        self.asked: list[str] = []

    def statvfs(self, path: Any) -> Any:
        self.asked.append(str(path))
        if self.free_bytes < 0:
            raise FileNotFoundError(path)
        free, total = int(self.free_bytes // 1_000), int(self.total_bytes // 1_000)
        return os.statvfs_result((1, 1_000, total, free, free, 0, 0, 0, 0, 255))


async def test_the_crawl_is_held_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(500 * MB)
    monkeypatch.setattr("crawler.scheduling.disk_space.os.statvfs", disk.statvfs)
    sink = {"kind": "mirror", "path": str(tmp_path / "not yet" / "mirror")}
    storage = {"url": f"sqlite:{tmp_path / 'crawl.db'}", "min_free": "100MB"}
    config = from_dict({"storage": storage, "sink": [sink]})
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        holds = driven.holds

        async def look() -> bool:
            await clock.sleep_until(clock.monotonic() + 1.5 * CHECK_EVERY_S)
            return bool(driven.permits.stops.reasons)

        task = asyncio.create_task(DiskSpace(CurrentConfig(config), clock, holds).run())
        assert not await look()
        disk.free_bytes = 99 * MB
        assert await look()
        (hold,) = holds.current
        assert hold.reason is HoldReason.DISK_LOW
        assert f"less than 100 MB free in {tmp_path}: storage.min_free" in hold.sentence
        disk.free_bytes = 101 * MB  # not enough to resume: it would be held again at once
        assert await look()
        disk.free_bytes = 106 * MB
        assert not await look()
        disk.free_bytes = -1  # the folder is gone: who writes there finds out
        assert not await look()
        task.cancel()
    assert set(disk.asked) == {str(tmp_path)}


@contextlib.asynccontextmanager
async def watched(
    config: dict[str, Any],
) -> AsyncIterator[tuple[Callable[..., Awaitable[list[Hold]]], CurrentConfig, DiskSpace]]:
    async with JumpClock() as clock:
        holds = DrivenFrontier(clock).holds
        effective = CurrentConfig(from_dict(config))
        space = DiskSpace(effective, clock, holds)

        async def becomes(*, held: bool) -> list[Hold]:
            # A look in a thread may take any number of seconds of a clock that jumps.
            for _ in range(1_000):
                await clock.sleep_until(clock.monotonic() + CHECK_EVERY_S)
                if bool(holds.current) is held:
                    break
            assert bool(holds.current) is held
            return list(holds.current)

        task = asyncio.create_task(space.run())
        yield becomes, effective, space
        task.cancel()


def filled(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@pytest.mark.parametrize(
    "name",
    [
        "crawl.db", "crawl.db-wal", "pages.jsonl", "pages-00001.jsonl", "all.warc.gz",
        "all-00012.warc.gz", "mirror/a.test/index.html", "mirror/a.test/x/y/z.png",
    ],
)  # fmt: skip
async def test_a_crawl_that_has_used_up_its_space_is_held(tmp_path: Path, name: str) -> None:
    """Whichever file it is; it resumes when the file is gone."""
    sinks = [
        {"kind": "jsonl", "path": str(tmp_path / "pages.jsonl")},
        {"kind": "warc", "path": str(tmp_path / "all.warc.gz")},
        {"kind": "mirror", "path": str(tmp_path / "mirror")},
    ]
    storage = {"url": f"sqlite:{tmp_path / 'crawl.db'}", "max_size": "1MB"}
    (tmp_path / "mirror").mkdir()
    filled(tmp_path / "others.jsonl", 3 * MB)  # not the crawl's
    filled(tmp_path / "pages-2024.jsonl", 3 * MB)
    async with watched({"storage": storage, "sink": sinks}) as (becomes, _, _):
        filled(tmp_path / name, MB // 2)
        await becomes(held=False)
        filled(tmp_path / name, 2 * MB)
        (hold,) = await becomes(held=True)
        assert hold.reason is HoldReason.DISK_QUOTA
        assert "MB used, storage.max_size is 1 MB" in hold.sentence
        (tmp_path / name).unlink()
        await becomes(held=False)


async def test_with_a_server_only_the_sinks_count(tmp_path: Path) -> None:
    storage = {"url": "postgresql:///x", "max_size": "1MB", "min_free": "1"}
    filled(tmp_path / "crawl.db", 2 * MB)  # of another crawl
    async with watched({"storage": storage}) as (becomes, _, _):
        await becomes(held=False)
    sink = {"kind": "jsonl", "path": str(tmp_path / "pages.jsonl")}
    async with watched({"storage": storage, "sink": [sink]}) as (becomes, _, _):
        filled(tmp_path / "pages.jsonl", 2 * MB)
        (hold,) = await becomes(held=True)
        assert hold.reason is HoldReason.DISK_QUOTA


async def test_another_limit_counts_at_once(tmp_path: Path) -> None:
    storage = {"url": f"sqlite:{tmp_path / 'crawl.db'}"}
    filled(tmp_path / "crawl.db", 2 * MB)
    async with watched({"storage": storage}) as (becomes, effective, space):
        await becomes(held=False)
        for most, held in (("1MB", True), ("3MB", False), ("2MB", True), (math.inf, False)):
            effective.config = from_dict({"storage": {**storage, "max_size": most}})
            space.again()
            await becomes(held=held)


@pytest.mark.parametrize(
    ("total_bytes", "minimum"),
    [(1e12, 200 * MB), (10e9, 200 * MB), (1e9, 20 * MB), (100e6, 2 * MB), (0, 0)],
)
async def test_the_minimum_by_default_is_a_small_share_of_a_small_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total_bytes: float, minimum: float
) -> None:
    disk = Disk(minimum, total_bytes)
    monkeypatch.setattr("crawler.scheduling.disk_space.os.statvfs", disk.statvfs)
    filled(tmp_path / "crawl.db", 1)
    async with watched({"storage": {"url": f"sqlite:{tmp_path / 'crawl.db'}"}}) as (becomes, _, _):
        await becomes(held=False)
        if not minimum:
            return  # a file system that does not tell its size
        disk.free_bytes = 0.9 * minimum
        (hold,) = await becomes(held=True)
        assert hold.reason is HoldReason.DISK_LOW
        assert f"less than {minimum // MB:.0f} MB free" in hold.sentence
        assert "storage.min_free, the default" in hold.sentence
        disk.free_bytes = 1.1 * minimum
        await becomes(held=False)


async def test_without_a_file_or_a_limit_nothing_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database in memory has no file; 0 turns the minimum off."""
    disk = Disk(0)
    monkeypatch.setattr("crawler.scheduling.disk_space.os.statvfs", disk.statvfs)
    monkeypatch.setattr("crawler.scheduling.disk_space.os.lstat", disk.statvfs)
    monkeypatch.chdir(tmp_path)
    async with watched({}) as (becomes, _, _):
        await becomes(held=False)
    (tmp_path / "crawl.db").write_bytes(b"")
    async with watched({"storage": {"min_free": 0}}) as (becomes, _, _):
        await becomes(held=False)
    assert disk.asked == []


async def test_a_sink_is_watched_beside_a_database_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(0)
    monkeypatch.setattr("crawler.scheduling.disk_space.os.statvfs", disk.statvfs)
    sink = {"kind": "jsonl", "path": str(tmp_path / "pages.jsonl")}
    async with watched({"sink": [sink]}) as (becomes, _, _):
        await becomes(held=True)


@pytest.mark.parametrize(("free_bytes", "looks"), [(1e9, (225, 241)), (100e9, (60, 64))])
async def test_with_much_free_space_looks_are_rare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: float, looks: tuple[int, int]
) -> None:
    """It is looked at before a crawl could have filled it."""
    disk = Disk(free_bytes)
    monkeypatch.setattr("crawler.scheduling.disk_space.os.statvfs", disk.statvfs)
    filled(tmp_path / "crawl.db", 1)
    async with JumpClock(grace_s=0.002) as clock:
        config = from_dict({"storage": {"url": f"sqlite:{tmp_path / 'crawl.db'}"}})
        space = DiskSpace(CurrentConfig(config), clock, DrivenFrontier(clock).holds)
        task = asyncio.create_task(space.run())
        await clock.sleep_until(clock.monotonic() + 60 * CHECK_LATEST_S)
        task.cancel()
    assert looks[0] <= len(disk.asked) <= looks[1]


@pytest.mark.parametrize("value", [0, -1, "much", True])
def test_what_is_no_limit_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"storage\.max_size"):
        from_dict({"storage": {"max_size": value}})


@pytest.mark.parametrize("value", [-1, "much", "10 percent", True])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"storage\.min_free"):
        from_dict({"storage": {"min_free": value}})

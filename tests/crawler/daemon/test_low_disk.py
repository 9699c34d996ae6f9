"""Little free space holds the crawl of a daemon, which keeps answering and resumes by itself."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.testing import LocalWeb, html, text
from storage.sqlite.maintenance import check
from tests.crawler.daemon.test_processes import Place, Running

DISK_BYTES = 200_000_000  # of which 2 % have to stay free
LEFT_BYTES = 3_800_000
PAGES = 3_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={DISK_BYTES},mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", size, "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    """Sites that take minutes."""
    pages = {f"/{number}": html(str(number)) for number in range(PAGES)}
    site = {"/robots.txt": text(""), "/": html("Home", *pages), **pages}
    async with LocalWeb({"a.test": site, "b.test": site}) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, web: LocalWeb) -> Place:
    return Place(tmp_path, web)


async def held_then_free(place: Place, web: LocalWeb, daemon: Running) -> str:
    """The crawl is held, and everything is told and answered meanwhile. Returns its sentence."""
    status = await daemon.until(lambda one: one["held"])
    (hold,) = status["held"]
    assert (status["state"], hold["reason"]) == ("held", "disk-low")
    (disk,) = [one for one in status["health"]["checks"] if one["check"] == "disk"]
    assert (disk["state"], hold["sentence"] in disk["sentence"]) == ("bad", True)
    await daemon.until(lambda one: one["in_flight"] == 0 and one["held"])
    before = len(web.log.paths())
    for path in ("/", "/hosts", "/config", "/metrics"):
        async with daemon.session.get(daemon.base + path) as answer:
            page = await answer.text()
            assert answer.status == 200, path
        if path == "/":
            assert "free disk space is below its minimum" in page
        if path == "/metrics":
            assert 'courtly_held{reason="disk-low"} 1.0' in page
    async with daemon.session.get(f"{daemon.base}/healthz") as answer:
        assert answer.status == 200
    async with daemon.session.get(f"{daemon.base}/readyz") as answer:
        assert (answer.status, (await answer.json())["failing"]) == (503, ["disk"])
    assert (await daemon.post("/api/hosts/slow", {"host": "b.test", "delay_s": 0.3}))[0] == 200
    assert (await daemon.get("/api/host?host=b.test"))["slow_s"] == 0.3
    await asyncio.sleep(1)  # four delays
    assert len(web.log.paths()) == before  # no request begins
    return str(hold["sentence"])


async def resumed(place: Place, web: LocalWeb, daemon: Running) -> None:
    """The crawl resumes by itself, and nothing is lost."""
    visited = (await daemon.get("/api/status"))["visited"]
    status = await daemon.until(lambda one: one["visited"] > visited + 20)
    assert (status["state"], status["held"], status["failed"]) == ("running", [], 0)
    assert await daemon.end() == 0
    assert [one["reason"] for one in place.named("hold_began")] == ["disk-low"]
    assert [one["reason"] for one in place.named("hold_ended")] == ["disk-low"]


def config_of(web: LocalWeb, **storage: object) -> dict[str, Any]:
    return {
        "crawl": {"seeds": [web.url("a.test"), web.url("b.test")]},
        "politeness": {"delay": 0.25},
        "storage": storage,
    }


async def test_a_disk_that_fills_up_holds_the_crawl_until_there_is_room(
    place: Place, web: LocalWeb, small_disk: Path
) -> None:
    """By default, without any key in the config."""
    database = small_disk / "crawl.db"
    place.write(**config_of(web, url=f"sqlite:{database}"))
    filler = small_disk / "filler"
    async with place.running() as daemon:
        await daemon.until(lambda one: one["visited"] > 20)
        assert (await daemon.get("/api/status"))["held"] == []
        free = shutil.disk_usage(small_disk).free
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free - LEFT_BYTES)
        sentence = await held_then_free(place, web, daemon)
        assert f"less than 4 MB free in {small_disk}: storage.min_free, the default" in sentence
        filler.unlink()
        await resumed(place, web, daemon)
    assert check(database) == []


async def test_a_minimum_that_a_reload_sets_and_takes_back(place: Place, web: LocalWeb) -> None:
    place.write(**config_of(web))
    async with place.running() as daemon:
        await daemon.until(lambda one: one["visited"] > 20)
        place.write(**config_of(web, min_free="900000GB"))
        status, done = await daemon.post("/api/reload")
        assert (status, done["changes"]) == (
            200, ["[storage] min_free: the default to 900,000,000,000,000 bytes"],
        )  # fmt: skip
        assert "less than 900 TB free" in await held_then_free(place, web, daemon)
        place.write(**config_of(web))
        assert (await daemon.post("/api/reload"))[0] == 200
        await resumed(place, web, daemon)
    assert check(place.database) == []

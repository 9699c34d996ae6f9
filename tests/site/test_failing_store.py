"""A full disk or another program's lock holds a crawl. The crawl reports it and resumes by itself;
stopped meanwhile, it ends soon and loses nothing that was committed."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from crawler.testing import LocalWeb, html
from storage.sqlite.maintenance import check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.site.conftest import Courtly

PAGES = 300
FILE_BYTES_MAX = 400_000  # enough for an empty database and some of the pages
FILLER = "x" * 400
PATHS = [f"/{n}-{FILLER}" for n in range(PAGES)]
SITE = {"/": html("Home", *PATHS), **{path: html(path, "/") for path in PATHS}}
QUICK: dict[str, Any] = {"politeness": {"delay": 0}}


@contextlib.contextmanager
def locked(db: Path) -> Iterator[None]:
    """Hold the write lock, as another program would."""
    other = sqlite3.connect(db, isolation_level=None, timeout=10)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def some_pages(courtly: Courtly) -> None:
    """Wait until a page has been visited."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(sqlite3.Error):
                if courtly.db.exists() and courtly.urls("visited"):
                    return
            await asyncio.sleep(0.05)


async def test_a_full_disk_holds_the_crawl_until_there_is_room(courtly: Courtly) -> None:
    async with (
        LocalWeb({"a.test": SITE}) as web,
        courtly.process(web, web.url("a.test"), **QUICK) as process,
    ):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, -1))
        hold = await courtly.held()
        assert hold["reason"] in ("disk-full", "disk-error")
        assert str(courtly.db) in hold["sentence"]
        before = len(web.log.paths("a.test"))
        await asyncio.sleep(0.5)
        assert len(web.log.paths("a.test")) == before  # no request begins
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (-1, -1))
        _, errors = await asyncio.wait_for(process.communicate(), 40)
        assert process.returncode == 0, errors.decode()
    assert len(courtly.urls("visited")) == PAGES + 1
    asked = collections.Counter(web.log.paths("a.test"))
    assert set(asked.values()) == {1}  # nothing twice
    assert check(courtly.db) == []


async def test_a_foreign_lock_holds_the_crawl_until_it_is_gone(courtly: Courtly) -> None:
    pace = {"politeness": {"delay": 0.01}}
    async with (
        LocalWeb({"a.test": SITE}) as web,
        courtly.process(web, web.url("a.test"), **pace) as process,
    ):
        await some_pages(courtly)
        with locked(courtly.db):
            hold = await courtly.held()
            assert hold["reason"] == "database-locked"
        _, errors = await asyncio.wait_for(process.communicate(), 40)
        assert process.returncode == 0, errors.decode()
    assert len(courtly.urls("visited")) == PAGES + 1
    assert set(collections.Counter(web.log.paths("a.test")).values()) == {1}


@pytest.mark.parametrize(
    ("signals", "code", "within_s"),
    [((signal.SIGTERM,), 1, 9.0), ((signal.SIGINT, signal.SIGINT), 130, 10.0)],
)
async def test_told_to_stop_while_held_it_ends_soon(
    courtly: Courtly, signals: tuple[signal.Signals, ...], code: int, within_s: float
) -> None:
    pace = {"politeness": {"delay": 0.01}}
    async with LocalWeb({"a.test": SITE}) as web:
        async with courtly.process(web, web.url("a.test"), **pace) as process:
            await some_pages(courtly)
            with locked(courtly.db):
                await courtly.held()
                kept = set(courtly.urls("visited"))
                began_s = time.monotonic()
                for number in signals:
                    process.send_signal(number)
                    await asyncio.sleep(0.1)
                _, errors = await asyncio.wait_for(process.communicate(), 20)
                assert time.monotonic() - began_s < within_s
            assert process.returncode == code, errors.decode()
            assert b"Traceback" not in errors
            if code == 1:
                assert f"courtly: the database {courtly.db} cannot be used".encode() in errors
        summary = await courtly.crawl(web, **QUICK)
    assert summary.visited == PAGES + 1
    asked = collections.Counter(web.log.paths("a.test"))
    twice = {path for path, times in asked.items() if times > 1}
    assert not {web.url("a.test", path) for path in twice} & kept


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("kind", ["jsonl", "warc", "mirror"])
async def test_a_small_disk_that_is_full_holds_database_and_sinks(
    courtly: Courtly, small_disk: Path, kind: str
) -> None:
    courtly.db = small_disk / "crawl.db"
    path = courtly.sink(kind, f"disk/pages{'' if kind == 'mirror' else '.' + kind}")
    site = {"/": html("Home", *(f"/{n}" for n in range(60)))}
    site |= {f"/{n}": html(f"{n}", body="x" * 4_000) for n in range(60)}
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * 3_000_000)
    async with (
        LocalWeb({"a.test": site}) as web,
        courtly.process(web, web.url("a.test"), politeness={"delay": 0.01}) as process,
    ):
        await some_pages(courtly)
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4_096)
        assert (await courtly.held())["reason"] in ("disk-full", "disk-error")
        assert process.returncode is None
        filler.unlink()
        _, errors = await asyncio.wait_for(process.communicate(), 40)
        assert process.returncode == 0, errors.decode()
    assert len(courtly.urls("visited")) == 61
    assert set(collections.Counter(web.log.paths("a.test")).values()) == {1}
    assert check(courtly.db) == []
    if kind == "jsonl":
        urls = [json.loads(line)["url"] for line in path.read_bytes().splitlines()]
        assert sorted(urls) == sorted(courtly.urls("visited"))

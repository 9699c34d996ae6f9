"""A full disk of the server, which is one of 40 MB. Needs the right to mount it."""

from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.store import Batch, HostClock, HostUpdate, Link
from storage.transient_faults import FaultKind
from tests.postgres_server import PostgresServer
from tests.storage.postgres.stores import assert_sound, one, store_at

URLS = 2_000


class Disk:
    """A small file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(4_096))
            except OSError:
                pass

    def empty(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = Path(tempfile.mkdtemp(prefix="courtly-disk-"))  # not below a folder of root's alone
    folder.chmod(0o711)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], capture_output=True
    )
    try:
        if mounted.returncode:
            pytest.skip("this machine mounts nothing")
        yield Disk(folder)
        subprocess.run(["umount", "--lazy", folder], check=True)
    finally:
        folder.rmdir()


@pytest.fixture
def full_url(postgres: PostgresServer, disk: Disk) -> Iterator[str]:
    """A database on the disk; the server's other files are elsewhere."""
    place = disk.folder / "tables"
    place.mkdir(mode=0o700)
    user = pwd.getpwuid(postgres.data.stat().st_uid)
    os.chown(place, user.pw_uid, user.pw_gid)
    postgres.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
    postgres.execute("CREATE DATABASE full_disk TEMPLATE template0 TABLESPACE small")
    url = postgres.url("full_disk")
    yield url
    postgres.drop_database(url)
    postgres.execute("DROP TABLESPACE small")


def links_of(page: int) -> list[Link]:
    urls = [f"http://a.test/{page}/{n}" + "x" * 200 for n in range(URLS)]
    return [Link(url=url, slot="a.test", host="a.test", depth=0) for url in urls]


async def test_a_full_disk_is_waited_for(full_url: str, disk: Disk) -> None:
    """Nothing is lost, nothing happens twice, and the crawl is told why its calls take long."""
    store = store_at(full_url)
    store.set_patience(float("inf"))
    session = await store.open_session("a")
    await store.add(links_of(0))
    (lease,) = await store.claim(session, hosts=1, urls_per_host=1)
    await asyncio.to_thread(disk.fill)

    async def work() -> None:
        for page in range(1, 6):
            await store.add(links_of(page))
        update = HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=HostClock(), release=True)
        assert not (await store.complete(session, Batch(hosts=[update]))).stale

    working = asyncio.create_task(work())
    async with asyncio.timeout(10):
        while store.faults.now is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert store.faults.now.kind is FaultKind.NO_SPACE
    await asyncio.sleep(0.3)
    assert not working.done()
    await asyncio.to_thread(disk.empty)
    async with asyncio.timeout(10):
        await working
    assert store.faults.now is None
    await store.close(session)
    assert await one(full_url, "SELECT count(*) FROM urls") == 6 * URLS
    await assert_sound(full_url)

"""A directory that cannot be written, a lock of a foreign process, a wall clock that is set."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap

import pytest

from storage.sqlite import file_reader, file_store
from storage.sqlite.maintenance import check, info
from storage.store import Batch, HostClock, HostUpdate, Link, StoreError, StoreRefused
from storage.transient_faults import FaultKind

HOUR_S = 3600.0
START_S = 1_800_000_000.0
LINKS = [Link(url=f"http://a.test/{n}", slot="a.test", host="a.test", depth=0) for n in range(9)]


async def made(path):
    store = file_store(path, wall=lambda: START_S)
    await store.open_session("test")
    await store.add(LINKS)
    await store.close()


@pytest.fixture
def read_only(tmp_path):
    """A directory that this process may not write to, even as root; made writable by the end."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o755)

    def shut():
        folder.chmod(0o555)
        for one in folder.iterdir():
            one.chmod(0o444)
        if os.geteuid() == 0:  # whom modes do not hold; nobody must get there from above, too
            for parent in list(folder.parents)[:-2]:
                if parent.stat().st_uid == 0:
                    parent.chmod(parent.stat().st_mode | 0o011)
            os.seteuid(65534)

    was = os.geteuid()
    try:
        yield folder, shut
    finally:
        os.seteuid(was)
        folder.chmod(0o755)


async def test_a_read_only_directory_refuses_writers_in_a_sentence_and_serves_readers(read_only):
    folder, shut = read_only
    path = folder / "crawl.db"
    await made(path)
    before = path.read_bytes()
    shut()
    store = file_store(path, wall=lambda: START_S)
    with pytest.raises(StoreRefused, match=r"cannot be opened for writing.*ermission denied"):
        await store.open_session("test")
    with pytest.raises(StoreRefused, match="cannot be opened for writing"):
        await file_store(folder / "new.db", wall=lambda: START_S).open_session("test")
    async with file_reader(path) as reader:
        assert (await reader.stats()).queued == 9
    assert info(path).queued == 9
    assert check(path) == []
    assert path.read_bytes() == before
    assert [one.name for one in folder.iterdir()] == ["crawl.db"]


async def test_opening_waits_for_a_foreign_lock_within_a_bound(tmp_path, monkeypatch, caplog):
    """Such as a shell that someone left in the midst of a transaction."""
    monkeypatch.setattr("storage.engine.transactions.START_WAIT_S_MAX", 0.5)
    path = tmp_path / "crawl.db"
    await made(path)
    script = """
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"locked\n"
        store = file_store(path, wall=lambda: START_S)
        with pytest.raises(StoreError, match="another program holds a lock on it"):
            await store.open_session("test")
        await store.close()
        async with file_reader(path) as reader:
            assert (await reader.stats()).queued == 9
        (said,) = (one.getMessage() for one in caplog.records)
        assert said.endswith("another program holds a lock on it; trying again for 0 s")
        monkeypatch.setattr("storage.engine.transactions.START_WAIT_S_MAX", 30.0)
        store = file_store(path, wall=lambda: START_S)
        opening = asyncio.ensure_future(store.open_session("test"))
        trouble = await store.faults.other_than(None)
        assert trouble is not None
        assert trouble.kind is FaultKind.LOCKED
        shell.communicate()
    session = await opening
    assert store.faults.now is None
    assert len(await store.claim(session, hosts=1, urls_per_host=9)) == 1
    await store.close()


@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S])
@pytest.mark.parametrize("crash", [False, True])
async def test_a_wall_clock_set_by_an_hour_moves_no_rest(tmp_path, by_s, crash):
    """In the midst of a session, and between two of them."""
    path = tmp_path / "crawl.db"
    ticks, wall = [0.0], [START_S]

    def opened():
        return file_store(path, wall=lambda: wall[0], monotonic=lambda: ticks[0])

    def passes(for_s):
        ticks[0] += for_s
        wall[0] += for_s

    store = opened()
    session = await store.open_session("test")
    await store.add(LINKS)
    (lease,) = await store.claim(session, hosts=1, urls_per_host=1)
    update = HostUpdate(
        slot="a.test", epoch=lease.epoch, clock=HostClock(next_in_s=60.0), release=True
    )
    await store.complete(session, Batch(hosts=[update]))
    wall[0] += by_s
    assert await store.claim(session, hosts=1, urls_per_host=1) == []
    outlook = await store.outlook(session)
    assert outlook.claimable_in_s == pytest.approx(60.0)
    passes(30.0)
    assert await store.claim(session, hosts=1, urls_per_host=1) == []
    if crash:
        await store.close()
        store = opened()
        session = await store.open_session("again")
    outlook = await store.outlook(session)
    assert outlook.claimable_in_s == pytest.approx(30.0, abs=1.5)
    passes(32.0)
    assert len(await store.claim(session, hosts=1, urls_per_host=1)) == 1
    await store.close()

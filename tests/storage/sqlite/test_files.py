"""Which files are taken, which are refused, and what happens when the medium fails."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from storage.sqlite import file_reader, file_store, schema
from storage.sqlite.maintenance import check
from storage.store import StoreError, StoreRefused

HOLD = """
    import asyncio, sys
    from storage.sqlite import file_store

    async def main():
        store = file_store(sys.argv[1], wall=lambda: 1.0)
        await store.open_session("holder")
        print("held", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


def run(script, path):
    """A process of its own, with the path of a database."""
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def store_at(path):
    return file_store(path, wall=lambda: 1_800_000_000.0)


async def refusal(path):
    """The sentence of the refusal; whatever was there must be untouched."""
    before = path.read_bytes() if path.is_file() else None
    store = store_at(path)
    with pytest.raises(StoreRefused) as caught:
        await store.open_session("test")
    assert before is None or path.read_bytes() == before
    with pytest.raises(StoreError):
        await store.stats()
    await store.close()
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


async def made(path):
    """A database with something in it."""
    store = store_at(path)
    session = await store.open_session("test")
    await store.acquire(session, ["a.test"])
    await store.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "crawl.db"
    path.write_text("my diary, of which there is only one copy, and it is a longish one " * 9)
    assert "not an SQLite database" in await refusal(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["crawl.db"]


async def test_a_name_that_looks_like_a_uri_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "file:a.db?mode=memory"
    store = file_store(name, wall=lambda: 1.0)
    await store.open_session("test")
    await store.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == [name]
    assert check(Path(name)) == []


async def test_a_short_file_is_refused(tmp_path):
    path = tmp_path / "crawl.db"
    path.write_bytes(b"SQLite format 3\0")
    assert "not an SQLite database" in await refusal(path)


async def test_an_empty_file_becomes_a_database(tmp_path):
    path = tmp_path / "crawl.db"
    path.touch()
    await made(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["crawl.db"]


async def test_a_database_with_nothing_in_it_becomes_one(tmp_path):
    """What another program makes of the empty file of a crawl that is about to begin."""
    path = tmp_path / "crawl.db"
    path.touch()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    db.execute("COMMIT")
    db.close()
    assert path.stat().st_size > 0
    with pytest.raises(StoreRefused, match="not one of courtly's"):
        await file_reader(path).stats()
    await made(path)
    await made(path)


async def test_a_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "crawl.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE hosts (name)")
    db.commit()
    db.close()
    assert "not one of courtly's" in await refusal(path)
    with pytest.raises(StoreRefused, match="not one of courtly's"):
        await file_reader(path).stats()


async def test_a_newer_database_is_refused(tmp_path):
    path = tmp_path / "crawl.db"
    await made(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert "newer courtly" in await refusal(path)


async def test_a_truncated_database_is_refused(tmp_path):
    path = tmp_path / "crawl.db"
    await made(path)
    os.truncate(path, path.stat().st_size // 2 + 100)
    assert "shorter than its header says" in await refusal(path)


async def test_a_database_with_damaged_pages_is_an_error(tmp_path):
    path = tmp_path / "crawl.db"
    await made(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    store = store_at(path)
    with pytest.raises(StoreError, match="damaged"):
        await store.open_session("test")
    await store.close()


async def test_a_directory_that_is_not_there_is_refused(tmp_path):
    assert "no directory" in await refusal(tmp_path / "none" / "crawl.db")
    (tmp_path / "dir.db").mkdir()
    assert "not a file" in await refusal(tmp_path / "dir.db")


async def test_an_old_library_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "_LIBRARY_MIN", (99, 0, 0))
    with pytest.raises(StoreRefused, match="too old"):
        await store_at(tmp_path / "crawl.db").open_session("test")
    assert list(tmp_path.iterdir()) == []


async def test_readers_need_a_database(tmp_path):
    with pytest.raises(StoreRefused, match="there is no database"):
        await file_reader(tmp_path / "crawl.db").stats()
    assert list(tmp_path.iterdir()) == []


async def test_a_database_held_by_another_process_is_refused_until_that_dies(tmp_path):
    """A stale lock of a dead process delays nobody; readers do not care."""
    path = tmp_path / "crawl.db"
    holder = run(HOLD, path)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        store = store_at(path)
        with pytest.raises(StoreRefused, match=f"in use by process {holder.pid}"):
            await store.open_session("test")
        async with file_reader(path) as reader:
            assert (await reader.stats()).hosts == 0
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    assert path.with_name("crawl.db.lock").exists()
    assert await store.open_session("test") == 2
    await store.close()
    assert not path.with_name("crawl.db.lock").exists()


@pytest.mark.parametrize("content", [b"precious " * 9, b"42\n", b""])
@pytest.mark.parametrize("linked", [False, True])
async def test_a_file_in_the_place_of_the_lock_is_not_destroyed(tmp_path, content, linked):
    """Of somebody else's content, or with a second name; what may be a lock left behind is one."""
    path, lock, victim = (tmp_path / name for name in ("crawl.db", "crawl.db.lock", "victim"))
    victim.write_bytes(content)
    if linked:
        lock.hardlink_to(victim)
    else:
        lock.write_bytes(content)
    if linked or content.startswith(b"precious"):
        assert "belongs to another program" in await refusal(path)
        assert lock.read_bytes() == victim.read_bytes() == content
        assert not path.exists()
    else:
        await made(path)
        assert not lock.exists()


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
async def test_hard_links_in_the_place_of_sqlite_s_own_files_are_refused(tmp_path, end):
    path, victim = tmp_path / "crawl.db", tmp_path / "victim"
    await made(path)
    victim.write_bytes(b"precious " * 9)
    path.with_name(path.name + end).hardlink_to(victim)
    assert "hard links" in await refusal(path)
    assert victim.read_bytes() == b"precious " * 9


async def test_a_database_held_in_this_process_is_refused(sqlite_rig):
    with pytest.raises(StoreRefused, match="in use"):
        await store_at(sqlite_rig.path).open_session("test")


async def test_readers_see_a_database_after_a_crash_and_after_its_end(tmp_path):
    path = tmp_path / "crawl.db"
    holder = run(HOLD, path)
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert path.with_name("crawl.db-wal").stat().st_size > 0
    async with file_reader(path) as reader:
        assert (await reader.stats()).hosts == 0
    await made(path)
    async with file_reader(path) as reader:
        assert (await reader.stats()).hosts == 1


# ---------------------------------------------------------------- the medium fails


async def test_an_error_inside_a_transaction_undoes_it_and_closes_the_store(sqlite_rig):
    rig = sqlite_rig
    await rig.add("http://a.test/")
    lease = await rig.claim_one()

    (queued,) = lease.prefetched.urls
    await rig.commit(lease, rig.visited(queued))
    with pytest.raises((StoreError, TypeError)):
        await rig.store.claim(rig.session, hosts=object(), urls_per_host=1)
    with pytest.raises(StoreError):
        await rig.store.stats()
    await rig.crash()
    assert await rig.urls("visited") == ["http://a.test/"]

"""A connection that nobody closed keeps nobody waiting, and a thread has nothing to say."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from storage.engine.connection_thread import ConnectionThread
from storage.sqlite import file_reader, file_store
from storage.sqlite.schema import connect_writer
from storage.store import StoreRefused

BEGIN = """
    import asyncio, sys, threading
    from storage.sqlite import file_reader, file_store

    async def opened():
        store = file_store(sys.argv[1], wall=lambda: 1.0)
        await store.acquire(await store.open_session("test"), ["a.test"])
        return store
"""

LEFT_OPEN = """
    async def main():
        store, reader = await opened(), file_reader(sys.argv[1])
        print((await reader.stats()).hosts)
        return store, reader

    kept = asyncio.run(main())
"""

FAILED = """
    async def main():
        store, reader = await opened(), file_reader(sys.argv[1])
        print((await reader.stats()).hosts, flush=True)
        sys.exit(3)

    asyncio.run(main())
"""

# The loop closes while the thread is at work for it; then the thread has an answer.
LATE_ANSWER = """
    gate = threading.Event()

    async def main():
        store = await opened()
        call = asyncio.ensure_future(store._calls._runner.run(lambda _: gate.wait(30)))
        await asyncio.sleep(0)
        return store._calls._runner

    wire = asyncio.run(main())
    gate.set()
    wire.stop()
    wire._thread.join(30)
    print(int(not wire._thread.is_alive()))
"""


@pytest.mark.parametrize(
    ("script", "code"),
    [(LEFT_OPEN, 0), (FAILED, 3), (LATE_ANSWER, 0)],
    ids=["open", "failed", "late"],
)
def test_the_interpreter_ends_quietly(tmp_path, script, code):
    source = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    command = [sys.executable, "-c", source, str(tmp_path / "crawl.db")]
    ended = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, b"1\n", b"")


async def test_a_connection_forgotten_is_told_of_and_its_thread_ends(tmp_path):
    wire = await ConnectionThread.open(lambda: connect_writer(tmp_path / "crawl.db"))
    thread = wire._thread
    assert thread.daemon
    kept = [wire]
    del wire
    with pytest.warns(ResourceWarning, match="before being closed"):
        kept.clear()
    thread.join(30)
    assert not thread.is_alive()


async def test_closing_ends_the_thread(tmp_path):
    store = file_store(tmp_path / "crawl.db", wall=lambda: 1.0)
    await store.open_session("test")
    assert store._calls._runner is not None
    thread = store._calls._runner._thread
    await store.close()
    thread.join(30)
    assert not thread.is_alive()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["crawl.db"]  # and folds the WAL in


async def test_a_refused_file_leaves_no_thread(tmp_path):
    path = tmp_path / "crawl.db"
    path.write_bytes(b"not a database of ours" * 99)
    with pytest.raises(StoreRefused):
        await file_store(path, wall=lambda: 1.0).open_session("test")
    with pytest.raises(StoreRefused):
        await file_reader(path).stats()
    assert not [t for t in threading.enumerate() if t.name == "courtly-store"]

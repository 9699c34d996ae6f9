"""What passes by itself (a foreign lock, a full disk, memory, descriptors) makes a call slow, and
nothing is lost, done twice or done in part."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from crawler.testing import JumpClock
from policies.robots_state import RobotsState
from storage import process_locks
from storage.sqlite import databases, fault_kinds, file_lock, file_reader, file_store, schema
from storage.sqlite.file_lock import is_locked_here
from storage.sqlite.maintenance import check
from storage.store import Batch, HostClock, HostUpdate, Link, Prefetch, StoreError, StoreRefused
from storage.transient_faults import MEMORY_WAIT_S_MAX, START_WAIT_S_MAX, FaultKind
from tests.storage.conftest import on_connection

WALL_S = 1_800_000_000.0
PASSING = (
    "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC",
)  # fmt: skip
LASTING = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_READONLY_DBMOVED", "SQLITE_PERM")


def failure(name):
    if name == "SQLITE_NOMEM":
        return MemoryError()
    error = sqlite3.OperationalError(name)
    error.sqlite_errorname = name
    return error


def limit_to(pages):
    """Have a database grow to this size at most."""
    return lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchall()


class Faulty:
    """A connection whose statement number `at` fails as `name` says, for `times` times."""

    def __init__(self, db, *, at, name, times=1):
        self._db, self._left, self._name, self._times = db, at, name, times
        self.statements = 0

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, sql, *values):
        self.statements += 1
        self._left -= 1
        if self._left < 0 and self._times:
            self._times -= 1
            raise failure(self._name)
        return self._db.execute(sql, *values)


def fail(store, *, at=0, name="SQLITE_FULL", times=1):
    connection = store._calls._runner._connection
    faulty = Faulty(connection._db, at=at, name=name, times=times)
    connection._db = connection.sql.db = faulty
    return faulty


def link(url, **values):
    host = url.split("/")[2]
    return Link(url=url, slot=host, host=host, depth=0, **values)


async def scenario(store, session):
    """A bit of everything that a crawl does."""
    await store.add([link(f"http://{host}.test/{n}") for host in "ab" for n in range(5)])
    leases = await store.claim(session, hosts=2, urls_per_host=2)
    await store.acquire(session, ["c.test"])
    for lease in leases:
        access = RobotsState()
        await store.robots_put(
            session, lease.slot, f"http://{lease.slot}", access,
            links=[link(f"http://{lease.slot}/sitemap.xml", sitemap=True)],
        )  # fmt: skip
    updates = [
        HostUpdate(slot=one.slot, epoch=one.epoch, clock=HostClock(next_in_s=3.0)) for one in leases
    ]
    outcomes = [visited(lease.prefetched.urls[0], lease.slot) for lease in leases]
    wants = [Prefetch(slot=lease.slot, count=3) for lease in leases]
    done = await store.complete(session, Batch(outcomes=outcomes, hosts=updates, prefetch=wants))
    assert not done.stale
    ends = [
        HostUpdate(slot=one.slot, epoch=one.epoch, clock=HostClock(next_in_s=9.0), release=True)
        for one in leases
    ]
    later = [visited(lease.prefetched.urls[1], lease.slot) for lease in leases]
    done = await store.complete(session, Batch(outcomes=later, hosts=ends, skipped={"x": 2}))
    assert not done.stale
    return await store.stats()


def visited(queued, slot):
    from storage.store import Visited

    return Visited(
        id=queued.id, slot=slot, status=200, fetched_at=WALL_S, content_type="text/html",
        body_bytes=10, elapsed_s=0.5, links=[link(f"{queued.url}/new")],
    )  # fmt: skip


def dump(path):
    """Everything in a database but what is drawn, and the order of leases in one microsecond."""
    with closing(sqlite3.connect(path)) as db, db:
        tables = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("sqlite_") and name not in ("secret", "known")
        ]
        found = {}
        for table in tables:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            kept = [column for column in columns if column not in ("served", "boot")]
            rows = db.execute(f"SELECT {', '.join(kept)} FROM {table}").fetchall()
            found[table] = sorted(rows, key=repr)
    return found


async def opened_at(path, clock):
    """A store that waits by the clock, for ever."""
    store = file_store(
        path, wall=lambda: WALL_S, monotonic=clock.monotonic, sleep_until=clock.sleep_until
    )
    await store.open_session("test")
    store.set_patience(float("inf"))
    return store


async def at_once(when_s):
    del when_s


async def run(path, **fault):
    """The scenario, at a time that stands still."""
    store = file_store(path, wall=lambda: WALL_S, sleep_until=at_once)
    session = await store.open_session("test")
    faulty = fail(store, **fault) if fault else fail(store, at=10**9)
    stats = await scenario(store, session)
    assert store.faults.now is None
    statements = faulty.statements
    await store.close(session)
    return stats, statements


async def test_a_failure_at_any_statement_changes_nothing_but_the_time(tmp_path):
    names = [*PASSING, "SQLITE_NOMEM"]
    stats, statements = await run(tmp_path / "sound.db")
    expected = dump(tmp_path / "sound.db")
    for at in range(statements):
        path, name = tmp_path / f"{at}.db", names[at % len(names)]
        assert (await run(path, at=at, name=name, times=1 + at % 3))[0] == stats, (at, name)
        assert dump(path) == expected, (at, name)
        assert check(path) == [], (at, name)


@pytest.mark.parametrize("name", LASTING)
async def test_what_does_not_pass_ends_the_store(tmp_path, name):
    store = file_store(tmp_path / "crawl.db", wall=lambda: WALL_S)
    await store.open_session("test")
    fail(store, name=name, at=1)
    with pytest.raises(StoreError, match=r"crawl\.db cannot be used"):
        await store.add([link("http://a.test/")])
    with pytest.raises(StoreError):
        await store.paused()
    await store.close()


async def test_the_trouble_is_shown_and_others_are_answered_meanwhile(tmp_path):
    """Another program holds the write lock: readers, and what needs no transaction, do not wait."""
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: WALL_S)
    await store.open_session("test")
    await store.add([link("http://a.test/1")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    calls = [asyncio.ensure_future(store.add([link(f"http://a.test/{n}")])) for n in range(9)]
    trouble = await store.faults.other_than(None)
    assert trouble is not None
    assert trouble.kind is FaultKind.LOCKED
    assert trouble.since == WALL_S
    assert trouble.sentence == (
        f"the database {path} cannot be used: another program holds a lock on it"
    )
    began_s = time.monotonic()
    assert (await store.stats()).queued == 1
    async with file_reader(path) as reader:
        assert (await reader.stats()).queued == 1
    assert time.monotonic() - began_s < 2.0
    assert not any(call.done() for call in calls)
    other.execute("ROLLBACK")
    other.close()
    await asyncio.gather(*calls)
    assert store.faults.now is None
    assert (await store.stats()).queued == 9
    await store.close()


async def test_a_full_disk_is_waited_for_and_what_it_interrupted_is_whole(sqlite_rig):
    rig = sqlite_rig
    await rig.add("http://a.test/")
    lease = await rig.claim_one()
    await on_connection(rig.store, lambda db: db.execute("PRAGMA max_page_count = 40").fetchall())
    adding = asyncio.ensure_future(rig.add(*(f"http://a.test/{n}" for n in range(10_000))))
    trouble = await rig.store.faults.other_than(None)
    assert trouble.kind is FaultKind.NO_SPACE
    assert trouble.sentence.endswith("crawl.db cannot be used: the disk is full")
    committing = asyncio.ensure_future(rig.commit(lease, rig.visited(lease.prefetched.urls[0])))
    await asyncio.sleep(0.3)
    assert not adding.done()
    assert not committing.done()
    assert await rig.urls("queued") == ["http://a.test/"]
    await on_connection(
        rig.store, lambda db: db.execute("PRAGMA max_page_count = 9999999").fetchall()
    )
    await adding
    assert not (await committing).stale  # the host is still held
    assert len(await rig.urls("queued")) == 10_000
    assert await rig.urls("visited") == ["http://a.test/"]


async def test_a_call_cancelled_while_it_waits_has_not_happened(sqlite_rig):
    rig = sqlite_rig
    faulty = fail(rig.store, times=10**9)
    calls = [asyncio.ensure_future(rig.add(f"http://a.test/{n}")) for n in range(3)]
    await rig.store.faults.other_than(None)
    for call in (calls[2], calls[0]):  # one in the line, and its first
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert rig.store.faults.now is not None  # the one between them waits still
    faulty._times = 0
    await calls[1]
    assert rig.store.faults.now is None
    assert await rig.urls("queued") == ["http://a.test/1"]


async def test_when_the_crawl_is_to_end_it_is_given_up_with_its_sentence(tmp_path):
    async with JumpClock() as clock:
        store = await opened_at(tmp_path / "crawl.db", clock)
        await store.add([link("http://a.test/")])
        faulty = fail(store, times=10**9)
        call = asyncio.ensure_future(store.add([link("http://a.test/2")]))
        await clock.sleep_until(clock.monotonic() + 300.0)
        assert not call.done()
        began_s = clock.monotonic()
        store.set_patience(5.0)
        with pytest.raises(StoreError, match="the disk is full"):
            await call
        assert clock.monotonic() - began_s <= 5.0 + 2.0
        faulty._times = 0
        await store.close()
    async with file_reader(tmp_path / "crawl.db") as reader:
        assert (await reader.stats()).queued == 1


async def test_closing_does_not_wait_for_trouble_to_pass(tmp_path):
    store = file_store(tmp_path / "crawl.db", wall=lambda: WALL_S)
    session = await store.open_session("test")
    await store.add([link("http://a.test/")])
    fail(store, times=10**9)
    call = asyncio.ensure_future(store.add([link("http://a.test/2")]))
    await store.faults.other_than(None)
    began_s = time.monotonic()
    await store.close(session)
    assert time.monotonic() - began_s < 5.0
    with pytest.raises(StoreError):
        await call
    store = file_store(tmp_path / "crawl.db", wall=lambda: WALL_S)  # the lock is free
    assert await store.open_session("test") == session + 1
    assert (await store.stats()).queued == 1
    await store.close()


async def test_memory_that_does_not_come_back_ends_the_store(tmp_path):
    """A process that holds too much itself is better started anew."""
    async with JumpClock() as clock:
        store = await opened_at(tmp_path / "crawl.db", clock)
        fail(store, name="SQLITE_NOMEM", times=10**9)
        began_s = clock.monotonic()
        with pytest.raises(StoreError, match="out of memory"):
            await store.add([link("http://a.test/2")])
        assert clock.monotonic() - began_s == pytest.approx(MEMORY_WAIT_S_MAX, abs=2.5)
        await store.close()


async def test_only_descriptors_that_are_out_make_a_file_that_does_not_open_pass(monkeypatch):
    assert fault_kinds.kind_of(failure("SQLITE_CANTOPEN")) is None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        kind = fault_kinds.kind_of(failure("SQLITE_CANTOPEN"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert kind is FaultKind.DESCRIPTORS


async def test_a_file_size_limit_is_waited_for(tmp_path):
    """A real limit of the system, lifted after a while, in a process of its own."""
    script = """
        import asyncio, resource, sys
        from storage.store import Link
        from storage.sqlite import file_store

        async def main():
            store = file_store(sys.argv[1], wall=lambda: 1.0)
            await store.open_session("test")
            for done in range(40):
                links = [
                    Link(url=f"http://a.test/{done}/{n}", slot="a.test", host="a.test", depth=0)
                    for n in range(100)
                ]
                adding = asyncio.ensure_future(store.add(links))
                trouble = asyncio.ensure_future(store.faults.other_than(None))
                await asyncio.wait([adding, trouble], return_when=asyncio.FIRST_COMPLETED)
                if trouble.done() and not adding.done():
                    print(done, trouble.result().sentence, flush=True)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
                trouble.cancel()
                await adding
            await store.close()

        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, -1))
        asyncio.run(main())
    """
    path = tmp_path / "crawl.db"
    process = subprocess.run(  # noqa: ASYNC221 - nothing else runs
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        capture_output=True,
        timeout=50,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    assert process.returncode == 0, process.stderr.decode()
    done, _, sentence = process.stdout.decode().strip().partition(" ")
    assert sentence.startswith(f"the database {path} cannot be used: ")
    assert int(done) > 0
    assert check(path) == []
    async with file_reader(path) as reader:
        assert (await reader.stats()).queued == 4_000


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("call", ["open", "pwrite", "ftruncate"])
async def test_opening_waits_for_the_files_beside_the_database(tmp_path, monkeypatch, call, number):
    """Also those made with it: each call fails twice, wherever the opening has come to."""
    real = getattr(os, call)
    for at in range(20):
        path, calls, failed = tmp_path / f"{at}.db", 0, 0

        def failing(*args, at=at, **values):
            nonlocal calls, failed
            calls += 1
            if calls > at and failed < 2:
                failed += 1
                raise OSError(number, os.strerror(number))
            return real(*args, **values)

        store = file_store(path, wall=lambda: WALL_S, sleep_until=at_once)
        monkeypatch.setattr(os, call, failing)
        await store.open_session("x")
        monkeypatch.undo()
        await store.close()
        again = file_store(path, wall=lambda: WALL_S)
        await again.open_session("y")
        await again.close()
        if not failed:
            break
    assert 0 < at < 19


def no_thread(self):
    del self
    raise RuntimeError("can't start new thread")


async def test_opening_waits_for_a_thread(tmp_path, monkeypatch):
    """Whichever thread the opening begins; what was opened before it is closed again."""
    real = threading.Thread.start
    for at in range(5):
        path, calls, failed = tmp_path / f"{at}.db", 0, 0

        def failing(thread, at=at):
            nonlocal calls, failed
            calls += 1
            if calls > at and failed < 3:
                failed += 1
                no_thread(thread)
            real(thread)

        store = file_store(path, wall=lambda: WALL_S, sleep_until=at_once)
        monkeypatch.setattr(threading.Thread, "start", failing)
        await store.open_session("x")
        monkeypatch.undo()
        assert store.faults.now is None
        await store.close()
        assert [entry.name for entry in tmp_path.iterdir() if entry.suffix != ".db"] == []
        if not failed:
            break
    assert 0 < at < 4


async def test_without_a_thread_the_opening_is_given_up_and_holds_nothing(tmp_path, monkeypatch):
    path = tmp_path / "crawl.db"
    async with JumpClock() as clock:
        store = file_store(
            path, wall=lambda: WALL_S, monotonic=clock.monotonic, sleep_until=clock.sleep_until
        )
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(StoreError, match="out of memory") as raised:
            await store.open_session("x")
        assert not isinstance(raised.value, StoreRefused)
        with pytest.raises(StoreError, match="no thread can be started"):
            await file_reader(path).stats()
        monkeypatch.undo()
        assert clock.monotonic() >= START_WAIT_S_MAX
    assert not is_locked_here(path)
    assert list(tmp_path.iterdir()) == []  # nothing that was asked for comes later
    other = file_store(path, wall=lambda: WALL_S)
    await other.open_session("y")
    await other.close()


async def test_an_opening_that_is_cancelled_holds_nothing(tmp_path, monkeypatch):
    """Also where all tasks are cancelled at the end of the event loop."""
    gate, reached = threading.Event(), threading.Event()
    real = databases.connect_writer

    def slow(*args, **values):
        reached.set()
        gate.wait(30)
        return real(*args, **values)

    monkeypatch.setattr(databases, "connect_writer", slow)
    path = tmp_path / "crawl.db"
    before = asyncio.all_tasks()
    opening = asyncio.ensure_future(file_store(path, wall=lambda: WALL_S).open_session("x"))
    assert await asyncio.to_thread(reached.wait, 30)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    asyncio.get_running_loop().call_later(0.05, gate.set)
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not is_locked_here(path)
    assert not [one for one in threading.enumerate() if one.name == "courtly-store"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (databases, "check_owner"), (file_lock, "open_for_update"),
        (file_lock, "_check_single_name"), (file_lock, "_is_lock_file"),
        (process_locks.fcntl, "flock"), (schema, "_check_beside"), (schema, "open_exclusive"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
async def test_opening_waits_for_trouble_at_each_of_its_steps(
    tmp_path, monkeypatch, module, name, number
):
    if (name, number) == ("flock", errno.EIO):
        pytest.skip("a file system without locks is refused")
    real, left = getattr(module, name), 3

    def failing(*args, **values):
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError(number, os.strerror(number))
        return real(*args, **values)

    store = file_store(tmp_path / "crawl.db", wall=lambda: WALL_S, sleep_until=at_once)
    before = open_descriptors()
    with monkeypatch.context() as patches:
        patches.setattr(module, name, failing)
        await store.open_session("x")
    assert left < 0
    await store.close()
    assert open_descriptors() == before


async def test_opening_waits_where_looking_at_the_files_fails(tmp_path, monkeypatch):
    """As `os.open` above: each look at a file fails twice, wherever the opening has come to."""
    for call in ("stat", "lstat"):
        real = getattr(os, call)
        for at in range(60):
            path, calls, failed = tmp_path / f"{call}{at}.db", 0, 0
            number = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)[at % 3]

            def failing(*args, at=at, real=real, number=number, **values):
                nonlocal calls, failed
                if not str(args[0]).startswith(str(tmp_path)):
                    return real(*args, **values)
                calls += 1
                if calls > at and failed < 2:
                    failed += 1
                    raise OSError(number, os.strerror(number))
                return real(*args, **values)

            store = file_store(path, wall=lambda: WALL_S, sleep_until=at_once)
            with monkeypatch.context() as patches:
                patches.setattr(os, call, failing)
                await store.open_session("x")
            await store.close()
            assert not is_locked_here(path)
            if not failed:
                break
        assert at < 59


@pytest.mark.parametrize("failing", ["_is_at_path", "path"])
async def test_a_lock_file_that_cannot_be_removed_is_let_go_of(tmp_path, monkeypatch, failing):
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: WALL_S)
    await store.open_session("x")

    def fails(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patches:
        if failing == "path":
            patches.setattr(type(path), "unlink", fails)
        else:
            patches.setattr(file_lock.FileLock, "_is_at_path", fails)
        await store.close()
    again = file_store(path, wall=lambda: WALL_S)
    await again.open_session("y")
    await again.close()


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_an_opening_given_up_leaves_no_lock(tmp_path, monkeypatch):
    path = tmp_path / "crawl.db"
    now_s = 0.0

    async def sleep_until(when_s):
        nonlocal now_s
        now_s = when_s

    store = file_store(path, wall=lambda: WALL_S, monotonic=lambda: now_s, sleep_until=sleep_until)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StoreError, match="no space left on device"):
        await store.open_session("x")
    monkeypatch.undo()
    await store.open_session("x")
    await store.close()

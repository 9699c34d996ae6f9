"""A database in use: whatever reads it, SQLite's locks on it last, and a kill loses nothing that
was committed; files that vanish end the session in a sentence."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from crawler import PoliteSession
from crawler.clock import RealClock
from crawler.databases import check_database, database_info, looking_into
from crawler.testing import FakeFetcher
from storage.location import FileLocation
from storage.sqlite import file_reader, file_store, maintenance
from storage.sqlite.schema import check_file, connect_reader, connect_writer
from storage.store import Link, Store, StoreError, StoreRefused
from tests.storage.conftest import on_connection

# What a process asks of the kernel: who, if anybody, keeps it from writing the bytes that SQLite
# locks while a database is open (pending byte + 2, 510 bytes).
HOLDER = """
    import fcntl, os, struct, sys
    fd = os.open(sys.argv[1], os.O_RDWR)
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0x40000002, 509, 0)
    kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, lock))
    print(0 if kind == fcntl.F_UNLCK else pid)
"""

# Commits and says how many URLs are in the file; now and then it looks at its own file as the
# daemon and `crawl` do.
WRITER = """
    import asyncio, sys
    from pathlib import Path
    from storage.store import Link
    from storage.sqlite import file_reader, file_store, maintenance

    async def main():
        path = Path(sys.argv[1])
        store = file_store(path, wall=lambda: 1.0)
        await store.open_session("writer")
        reader = file_reader(path)
        await reader.stats()
        async with file_reader(path) as another:
            await another.stats()
        maintenance.info(path)
        done = 0
        while True:
            done += 1
            await store.add(
                [Link(url=f"http://a.test/{done}", slot="a.test", host="a.test", depth=0)]
            )
            print(done, flush=True)
            await asyncio.sleep(0.001)

    asyncio.run(main())
"""


def run(script: str, path: Path) -> str:
    """What a process of its own prints."""
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    return subprocess.run(command, capture_output=True, check=True, timeout=30).stdout.decode()


def other_files(folder: Path) -> list[Path]:
    return list(folder.glob("other*"))


def lock_holder(path: Path) -> int:
    """The process whose SQLite has the database open; 0: none has."""
    return int(run(HOLDER, path))


def store_at(path: Path) -> Store:
    return file_store(path, wall=lambda: 1_800_000_000.0)


def link(n: int) -> Link:
    return Link(url=f"http://a.test/{n}", slot="a.test", host="a.test", depth=0)


# ---------------------------------------------------------------- in the process that writes


async def _read(path: Path) -> None:
    async with file_reader(path) as reader:
        await reader.stats()


async def _read_half(path: Path) -> None:
    async with (
        looking_into(FileLocation(path)) as reader,
        aclosing(reader.iterate("queued")) as rows,
    ):
        async for _ in rows:
            break


async def _report(path: Path) -> None:
    async with looking_into(FileLocation(path)) as reader:
        for kind in ("broken", "forbidden", "duplicates"):
            async with aclosing(reader.report(kind)) as rows:
                async for _ in rows:
                    pass


async def _info(path: Path) -> None:
    database_info(FileLocation(path))


async def _check(path: Path) -> None:
    check_database(FileLocation(path))


async def _judge(path: Path) -> None:
    check_file(path)
    check_file(path, must_exist=True)
    connect_reader(path, older=True).close()


async def _vacuum(path: Path) -> None:
    with pytest.raises(StoreRefused, match="in use"):
        maintenance.vacuum(path)


async def _open_again(path: Path) -> None:
    with pytest.raises(StoreRefused, match="in use"):
        await store_at(path).open_session("second")


async def _open_by_symlink(path: Path) -> None:
    other = path.with_name("link.db")
    other.symlink_to(path)
    with pytest.raises(StoreRefused, match="in use"):
        await store_at(other).open_session("second")
    await _read(other)
    assert sorted(one.name for one in path.parent.glob("link*")) == ["link.db"]


async def _open_by_hard_link(path: Path) -> None:
    other = path.with_name("link.db")
    os.link(path, other)
    try:
        with pytest.raises(StoreRefused, match="hard links"):
            await store_at(other).open_session("second")
    finally:
        other.unlink()


async def _polite_session(path: Path) -> None:
    session = PoliteSession(
        user_agent="bot (+https://example.com/bot)", db=path, fetcher=FakeFetcher(RealClock(), {})
    )
    with pytest.raises(StoreRefused, match="in use"):
        await session.__aenter__()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only POSIX locks")
async def test_what_else_opens_the_files_in_this_process_takes_no_lock_away(tmp_path: Path) -> None:
    """A program that embeds a crawl copies its database, or hashes it."""
    path = tmp_path / "crawl.db"
    store = store_at(path)
    await store.open_session("test")
    for n, ending in enumerate(["", "-wal", "-shm", ".lock", ".inflight"]):
        await store.add([link(n)])
        with path.with_name(path.name + ending).open("rb") as file:
            file.read(1)
        run(SELECT, path)
        assert path.with_name("crawl.db-wal").exists()
        await store.add([link(10 + n)])
        assert run(COUNT, path) == f"{2 * n + 2}\n"
    await store.close()
    assert not path.with_name("crawl.db-wal").exists()  # the last one tidies up
    await store.open_session("again")
    await store.close()
    assert maintenance.check(path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only POSIX locks")
async def test_a_second_writer_by_any_name_is_refused(tmp_path: Path) -> None:
    """Of a bind mount, say, which neither its links nor its lock file give away."""
    path, other = tmp_path / "crawl.db", tmp_path / "other.db"
    store = store_at(path)
    await store.open_session("test")
    os.link(path, other)
    with pytest.raises(StoreRefused, match="another name"):
        connect_writer(other)
    assert [one.name for one in other_files(tmp_path)] == ["other.db"]
    await store.add([link(1)])
    run(SELECT, path)
    assert path.with_name("crawl.db-wal").exists()
    await store.close()
    connect_writer(other).close()


WAYS: list[Callable[[Path], Awaitable[None]]] = [
    _read, _read_half, _report, _info, _check, _judge, _vacuum, _open_again, _open_by_symlink,
    _open_by_hard_link, _polite_session,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.__name__).strip("_"))
async def test_looking_at_our_own_file_keeps_the_locks_of_sqlite(
    tmp_path: Path, way: Callable[[Path], Awaitable[None]]
) -> None:
    path = tmp_path / "crawl.db"
    store = store_at(path)
    await store.open_session("test")
    await store.add([link(n) for n in range(9)])
    assert lock_holder(path) == os.getpid()
    await way(path)
    assert lock_holder(path) == os.getpid()
    # Such a program removes the WAL if it believes to be the last one.
    run(SELECT, path)
    assert path.with_name("crawl.db-wal").exists()
    await store.add([link(9)])
    await store.close()
    assert lock_holder(path) == 0


async def test_an_in_process_reader_in_a_directory_that_cannot_be_written_keeps_the_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that takes part in no locks (`immutable`) is not made beside our own writer."""
    path = tmp_path / "crawl.db"
    store = store_at(path)
    await store.open_session("test")
    await store.add([link(1)])
    assert store._calls._runner is not None
    await on_connection(
        store,
        lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall(),
    )
    real, seen = sqlite3.connect, []

    def connect(name, *args, **options):
        seen.append(str(name))
        if "mode=ro" in str(name) and "immutable" not in str(name):
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorname = "SQLITE_CANTOPEN"
            raise error
        return real(name, *args, **options)

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(StoreError, match="cannot be opened"):
        await file_reader(path).stats()
    assert seen
    assert not any("immutable" in one for one in seen)
    assert lock_holder(path) == os.getpid()
    await store.close()


# ---------------------------------------------------------------- from other processes

SELECT = """
    import sqlite3, sys
    db = sqlite3.connect(sys.argv[1])
    db.execute("SELECT count(*) FROM urls").fetchall()
    db.close()
"""
COUNT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM queued").fetchone()[0])
db.close()
"""
PARTS = ("", "-wal")
CHECKPOINT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA wal_checkpoint({how})").fetchone()
db.close()
"""
LARGE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE large AS SELECT zeroblob(5000000) AS filler")
db.execute("DROP TABLE large")
db.commit()
db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
db.close()
"""
VACUUM = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("VACUUM")
db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
db.close()
"""
BACKUP = """
    import sqlite3, sys
    db, copy = sqlite3.connect(sys.argv[1]), sqlite3.connect(sys.argv[1] + ".copy")
    db.backup(copy)
    copy.close()
    db.close()
"""
READ_BYTES = """
    import sys
    for ending in ("", "-wal", "-shm", ".lock"):
        open(sys.argv[1] + ending, "rb").read()
"""
WRITE = """
    import sqlite3, sys
    db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    db.execute("PRAGMA user_version").fetchall()
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    db.close()
"""


def _python(script: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script), "DB"]


def _courtly(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "crawler.cli", *arguments, "--db", "DB"]


FOREIGN = {
    "sqlite": [
        _python(SELECT), _python(BACKUP), _python(READ_BYTES), _python(WRITE),
        ["sqlite3", "DB", "select count(*) from urls"], ["sqlite3", "DB", ".backup DB.copy"],
    ],
    "readers": [
        _courtly("show", "queued"), _courtly("why", "http://a.test/1"), _courtly("status"),
        _courtly("export", "visited"), _courtly("report", "broken"), _courtly("db", "info"),
    ],
    "check": [_courtly("db", "check")],
    "writers": [_courtly("db", "vacuum"), _courtly("crawl", "http://127.0.0.1/")],
}  # fmt: skip


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    path = tmp_path / "crawl.db"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path)], stdout=subprocess.PIPE
    )
    try:
        yield path, process
    finally:
        process.kill()
        process.communicate()


def _acknowledged(process: subprocess.Popen[bytes], least: int) -> int:
    """The count of the first commit from `least` on."""
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= least:
            return int(line)
    raise AssertionError("the writer ended")


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_kill_loses_nothing_whoever_looked_before(
    writer: tuple[Path, subprocess.Popen[bytes]], kind: str
) -> None:
    """Every commit that was acknowledged, also those after another program closed the file."""
    path, process = writer
    done = _acknowledged(process, 5)
    for way in FOREIGN[kind]:
        if shutil.which(way[0]) is None:
            continue
        command = [one.replace("DB", str(path)) for one in way]
        looked = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert (looked.returncode == 0) is (kind != "writers"), looked.stderr.decode()
        if kind == "writers":
            assert f"in use by process {process.pid}" in looked.stderr.decode()
        assert lock_holder(path) == process.pid, way
        done = _acknowledged(process, done + 5)
    done = _acknowledged(process, done + 30)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    told = [int(line) for line in process.stdout if line.strip().isdigit()]
    done = max([done, *told])
    with closing(sqlite3.connect(path)) as db, db:
        (found,) = db.execute("SELECT count(*) FROM urls").fetchone()
    db.close()
    assert found >= done
    assert maintenance.check(path) == []


# ---------------------------------------------------------------- names of one file


async def test_a_symbolic_link_is_the_file_it_leads_to(tmp_path: Path) -> None:
    """One lock, and one write-ahead log, beside the file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    real, path = tmp_path / "real" / "crawl.db", tmp_path / "links" / "other.db"
    path.symlink_to(real)  # leads nowhere yet
    store = store_at(path)
    await store.open_session("test")
    await store.add([link(1)])
    assert sorted(one.name for one in real.parent.iterdir()) == [
        "crawl.db", "crawl.db-shm", "crawl.db-wal", "crawl.db.inflight", "crawl.db.lock",
    ]  # fmt: skip
    assert [one.name for one in path.parent.iterdir()] == ["other.db"]
    for name in (real, path, tmp_path / "links" / ".." / "real" / "crawl.db"):
        with pytest.raises(StoreRefused, match=f"in use by process {os.getpid()}"):
            await store_at(name).open_session("second")
    assert maintenance.info(path).urls == 1
    await store.close()
    assert path.is_symlink()


async def test_a_database_with_a_second_hard_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db"
    store = store_at(path)
    await store.open_session("test")
    await store.close()
    os.link(path, tmp_path / "other.db")
    for name in (path, tmp_path / "other.db"):
        with pytest.raises(StoreRefused, match="2 names"):
            await store_at(name).open_session("test")
        with pytest.raises(StoreRefused, match="2 names"):
            maintenance.vacuum(name)
    (tmp_path / "other.db").unlink()
    await store.open_session("test")
    await store.close()


# ---------------------------------------------------------------- files that vanish


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", ".lock"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_taken_away_ends_the_session(
    tmp_path: Path, ending: str, replaced: bool
) -> None:
    now = [1_800_000_000.0]
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: now[0])
    await store.open_session("test")
    await store.add([link(1)])
    victim = path.with_name(path.name + ending)
    if replaced:
        other = tmp_path / "other"
        other.write_bytes(b"" if ending == ".lock" else victim.read_bytes())
        other.replace(victim)
    else:
        victim.unlink()
    now[0] += 1.0
    with pytest.raises(StoreError, match=rf"{victim.name} was .*(deleted|replaced)") as caught:
        await store.add([link(2)])
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match=victim.name):
        await store.stats()
    before = victim.stat() if victim.exists() else None
    await store.close()
    if replaced and ending in ("", ".lock") and before is not None:
        assert os.path.samestat(before, victim.stat())  # it is somebody else's


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("kept", [0.0, 0.5])
async def test_a_file_that_was_cut_ends_the_session(
    tmp_path: Path, ending: str, kept: float
) -> None:
    """What is written behind the cut would become a database with a hole in it."""
    path = tmp_path / "crawl.db"
    store = store_at(path)
    await store.open_session("test")
    await store.add([link(n) for n in range(100)])
    run(CHECKPOINT.format(how="PASSIVE"), path)
    await store.add([link(n) for n in range(100, 2_000)])
    victim = path.with_name(path.name + ending)
    os.truncate(victim, int(kept * victim.stat().st_size))
    with pytest.raises(StoreError, match=rf"{victim.name} was truncated"):
        await store.add([link(1)])
    await store.close()
    if ending:
        assert maintenance.check(path) == []
        async with file_reader(path) as reader:
            assert (await reader.stats()).queued >= 100


@pytest.mark.parametrize("how", ["PASSIVE", "RESTART", "TRUNCATE", "VACUUM"])
async def test_what_other_programs_make_smaller_is_no_cut(tmp_path: Path, how: str) -> None:
    path = tmp_path / "crawl.db"
    store = store_at(path)
    await store.open_session("test")
    await store.add([link(n) for n in range(3_000)])
    run(CHECKPOINT.format(how="TRUNCATE"), path)
    if how == "VACUUM":
        run(LARGE, path)
        await store.add([link(3_000)])
    smaller: set[str] = set()
    for n in range(4):
        before = {ending: path.with_name(path.name + ending).stat().st_size for ending in PARTS}
        run(VACUUM if how == "VACUUM" else CHECKPOINT.format(how=how), path)
        smaller |= {
            ending
            for ending, size in before.items()
            if path.with_name(path.name + ending).stat().st_size < size
        }
        await store.add([link(4_000 + n)])
    assert smaller == {"TRUNCATE": {"-wal"}, "VACUUM": {"", "-wal"}}.get(how, set())
    await store.close()
    assert maintenance.check(path) == []


async def test_an_idle_store_notices_as_well(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: now[0])
    await store.open_session("test")
    await store.stats()
    path.with_name("crawl.db.lock").unlink()
    now[0] += 1.0
    with pytest.raises(StoreError, match="lock file"):
        await store.stats()
    await store.close()


async def test_of_two_crawls_the_one_that_lost_its_lock_ends(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    path = tmp_path / "crawl.db"
    first = file_store(path, wall=lambda: now[0])
    await first.open_session("first")
    path.with_name("crawl.db.lock").unlink()
    second = file_store(path, wall=lambda: now[0])
    if sys.platform == "linux":
        with pytest.raises(StoreRefused, match="in use"):
            await second.open_session("second")
    else:
        await second.open_session("second")
    now[0] += 1.0
    with pytest.raises(StoreError, match="lock file"):
        await first.add([link(1)])
    await first.close()
    if sys.platform == "linux":
        await second.open_session("second")
    assert path.with_name("crawl.db.lock").exists()  # that of the second
    now[0] += 1.0
    await second.add([link(2)])
    await second.close()
    assert maintenance.check(path) == []


# ---------------------------------------------------------------- the lock file


async def test_a_symbolic_link_in_the_place_of_the_lock_file_is_left_alone(tmp_path: Path) -> None:
    path, victim = tmp_path / "crawl.db", tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    path.with_name("crawl.db.lock").symlink_to(victim)
    with pytest.raises(StoreRefused, match="symbolic link"):
        await store_at(path).open_session("test")
    assert victim.read_text(encoding="utf-8") == "precious"
    assert path.with_name("crawl.db.lock").is_symlink()
    assert not path.exists()


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("EWOULDBLOCK", "in use by another process"),
        ("ENOLCK", "cannot be locked: .*No locks available"),
        ("EIO", "cannot be locked: .*Input/output error"),
        ("ENOSYS", "cannot be locked: .*not implemented"),
        ("EINTR", "cannot be locked"),
        ("EOPNOTSUPP", "cannot be locked: .*not supported"),
    ],
)
async def test_only_a_lock_held_by_another_reads_as_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, sentence: str
) -> None:
    import errno

    def flock(*_: object) -> None:
        code = getattr(errno, number)
        raise OSError(code, os.strerror(code))

    descriptors = len(os.listdir("/dev/fd"))  # noqa: PTH208
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StoreRefused, match=sentence):
        await store_at(tmp_path / "crawl.db").open_session("test")
    assert len(os.listdir("/dev/fd")) == descriptors  # noqa: PTH208


@pytest.mark.parametrize("mode", [0o600, 0o640])
async def test_a_database_and_what_lies_beside_it_are_private(tmp_path, mode):
    path = tmp_path / "crawl.db"
    before = os.umask(0)
    try:
        store = file_store(path, wall=lambda: 1.0, file_mode=mode)
        await store.open_session("test")
        await store.add([link(1)])
        async with file_reader(path) as reader:
            await reader.stats()
            for one in tmp_path.iterdir():
                assert one.stat().st_mode & 0o777 == mode, one
        await store.close()
    finally:
        os.umask(before)


async def test_a_folder_that_everybody_may_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    try:
        said = r"every user may write to the folder .* \(a new folder in it will do\)"
        with pytest.raises(StoreRefused, match=said):
            await store_at(tmp_path / "crawl.db").open_session("test")
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("link", [False, True])
async def test_a_database_that_another_user_planted_is_refused(tmp_path, link):
    """In a folder such as /tmp: neither a file of theirs, nor a symbolic link to one of ours."""
    folder, victim = tmp_path / "shared", tmp_path / "mine.db"
    folder.mkdir()
    folder.chmod(0o1777)
    store = store_at(victim)
    await store.open_session("test")
    await store.close()
    path = folder / "crawl.db"
    if link:
        path.symlink_to(victim)
        os.lchown(path, 65_534, 65_534)
    else:
        shutil.copy(victim, path)
        os.chown(path, 65_534, 65_534)
    before = victim.read_bytes()
    with pytest.raises(StoreRefused, match="belongs to another user"):
        await store_at(path).open_session("test")
    assert victim.read_bytes() == before
    assert [one.name for one in folder.iterdir()] == ["crawl.db"]

"""Output is complete, or the exit code is 1 and the old file is unchanged."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.cli import atomic_file
from crawler.cli.atomic_file import replacing
from crawler.clock import RealClock
from crawler.databases import open_store
from storage.location import FileLocation
from storage.store import Batch, Failed, HostClock, HostUpdate, Link, Visited

FULL = Path("/dev/full")
PARQUET = [("export", "visited", "--format", "parquet")] * bool(importlib.util.find_spec("pyarrow"))
COMMANDS = [
    ("export", "visited", "--format", "csv"),
    ("export", "visited", "--format", "jsonl"),
    *PARQUET,
    *(("report", "broken", "--format", how) for how in ("text", "html", "json")),
    *(("show", "visited", "--format", how) for how in ("table", "jsonl", "csv")),
    ("db", "info"),
    ("why", "http://a.test/"),
    ("status", "--json"),
    ("config", "schema"),
    ("--help",),
]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with enough rows for several writes."""
    path = tmp_path / "crawl.db"

    async def fill() -> None:
        store = open_store(FileLocation(path), RealClock())
        session = await store.open_session("test")
        urls = [f"http://a.test/{n}/{'x' * 100}" for n in range(300)]
        await store.add([Link(url=url, slot="a.test", host="a.test", depth=0) for url in urls])
        (lease,) = await store.claim(session, hosts=1, urls_per_host=300)
        outcomes: list[Visited | Failed] = []
        for n, queued in enumerate(lease.prefetched.urls):
            if n % 2:
                error = "http: 404 Not Found"
                outcomes.append(
                    Failed(id=queued.id, slot="a.test", error=error, attempts=1, last_at=1.0)
                )
                continue
            outcomes.append(
                Visited(
                    id=queued.id, slot="a.test", status=200, fetched_at=1.0,
                    content_type="text/html", body_bytes=10, elapsed_s=0.1, links=[],
                )
            )  # fmt: skip
        update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(), release=True)
        await store.complete(session, Batch(outcomes=outcomes, hosts=[update]))
        await store.close(session)

    asyncio.run(fill())
    return path


def run(*arguments: str, stdout: int | None = None, limit: int | None = None, unbuffered: bool):
    """Run a command in a new process. limit: the maximum size of files."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if unbuffered:
        environment["PYTHONUNBUFFERED"] = "1"

    def limited() -> None:
        assert limit is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "crawler.cli", *arguments],
        stdout=stdout, stderr=subprocess.PIPE, env=environment, timeout=50,
        preexec_fn=None if limit is None else limited,
    )  # fmt: skip


def database_of(command: tuple[str, ...], database: Path) -> tuple[str, ...]:
    return () if command[0] in ("config", "--help") else ("--db", str(database))


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_full_standard_output_is_a_failure(command: tuple[str, ...], database: Path) -> None:
    with FULL.open("wb") as full:
        done = run(
            *command, *database_of(command, database), stdout=full.fileno(), unbuffered=False
        )
    assert done.returncode == 1, done.stderr.decode()
    assert done.stderr.decode() == "courtly: no space left on device\n"


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("command", [("config", "schema"), ("export", "visited")], ids=" ".join)
def test_partial_writes_to_standard_output_are_a_failure(
    command: tuple[str, ...], unbuffered: bool, database: Path, tmp_path: Path
) -> None:
    """A write is only partially successful, with and without Python's buffer."""
    with (tmp_path / "out").open("wb") as out:
        done = run(
            *command, *database_of(command, database),
            stdout=out.fileno(), limit=100, unbuffered=unbuffered,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr.decode()
    assert done.stderr.decode() == "courtly: File too large\n"


@pytest.mark.parametrize(
    "command", [one for one in COMMANDS if one[0] in ("export", "report")], ids=" ".join
)
def test_partial_files_are_removed(
    command: tuple[str, ...], database: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "out").write_text("as it was")
    arguments = (*command, "--db", str(database), "--output", str(folder / "out"))
    done = run(*arguments, limit=100, unbuffered=False)
    assert done.returncode == 1, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert {one.name: one.read_text() for one in folder.iterdir()} == {"out": "as it was"}
    assert run(*arguments, unbuffered=False).returncode == 0
    assert [one.name for one in folder.iterdir()] == ["out"]
    assert (folder / "out").read_bytes() != b"as it was"


def test_a_closed_pipe_is_no_failure(database: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run("export", "visited", "--db", str(database), stdout=writing, unbuffered=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def write(target: Path, then: Callable[[], None] | None) -> None:
    with replacing(target) as out:
        out.write(b"new")
        if then is not None:
            then()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("call", ["open_exclusive", "fsync", "fchmod", "replace", "write"])
def test_a_failure_leaves_the_old_file_in_place(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    target.write_text("as it was")

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    if call == "open_exclusive":
        monkeypatch.setattr(atomic_file, call, fail)
    elif call == "replace":
        monkeypatch.setattr(Path, call, fail)
    elif call != "write":
        monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        write(target, fail if call == "write" else None)
    monkeypatch.undo()
    assert [one.name for one in tmp_path.iterdir()] == ["target"]
    assert target.read_text() == "as it was"


def test_symbolic_links_are_replaced_and_not_followed(tmp_path: Path) -> None:
    """A link instead of the target, and instead of its draft."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    target = tmp_path / "target"
    target.symlink_to(victim)
    (tmp_path / f"target.{os.getpid()}.part").symlink_to(victim)
    with replacing(target) as out:
        out.write(b"new")
    assert victim.read_text() == "precious"
    assert not target.is_symlink()
    assert target.read_text() == "new"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["target", "victim"]


def test_permissions_of_a_replaced_file_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("")
    target.chmod(0o640)
    with replacing(target) as out:
        out.write(b"new")
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_fifo_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """The same applies to devices: /dev/null must not be replaced by a file."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(fifo) as out:
        out.write(b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert fifo.is_fifo()

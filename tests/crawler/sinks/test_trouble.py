"""Trouble that passes, at any system call of any sink: the same pages are put again, and the files
are as if nothing had happened."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawler.config import from_dict
from crawler.sinks.build import build_sinks
from crawler.sinks.dispatch import Sinks
from crawler.sinks.sink import SinkError
from storage.store import Blocked, BlockReason
from storage.transient_faults import FaultKind
from tests.crawler.sinks.conftest import MakePage

KINDS = ["p.jsonl", "p.jsonl.gz", "p.warc", "p.warc.gz", "mirror"]
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE)
BODIES = [f"<title>{n}</title><a href='/x{n}'>x</a>{'y' * 900}".encode() for n in range(4)]


class Clock:
    """Whose waits are over at once, and counted."""

    def __init__(self) -> None:
        self.waits = 0

    def monotonic(self) -> float:
        return 0.0

    def boottime(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 1.0

    async def sleep_until(self, when_s: float) -> None:
        self.waits += 1
        await asyncio.sleep(0)

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Any:
        raise NotImplementedError


class Faults:
    """Fails system calls of the sinks' thread, from the one numbered `at` on."""

    def __init__(self, *, at: int, number: int, times: int = 1) -> None:
        self.calls = 0
        self._on = False
        self._at, self._number, self._times = at, number, times

    def due(self) -> bool:
        if not self._on or not threading.current_thread().name.startswith("sinks"):
            return False
        self.calls += 1
        if self.calls <= self._at or not self._times:
            return False
        self._times -= 1
        return True

    def error(self) -> OSError:
        return OSError(self._number, os.strerror(self._number))

    @contextmanager
    def injected(self) -> Iterator[None]:
        self._on = True
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "fsync", "replace", "mkdir", "unlink", "scandir", "truncate"):
                patch.setattr(os, name, self._failing(getattr(os, name)))
            yield
        self._on = False

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **kwargs: Any) -> Any:
            if self.due():
                raise self.error()
            return call(*args, **kwargs)

        return failing


class File:
    """A file of which a write may take only half, and fail then."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: Any) -> int:
        if self._faults.due():
            self._file.write(bytes(data)[: len(data) // 2])
            raise self._faults.error()
        written: int = self._file.write(data)
        return written

    def truncate(self, size: int) -> int:
        if self._faults.due():
            raise self._faults.error()
        return int(self._file.truncate(size))


def sinks_at(folder: Path, name: str, clock: Clock) -> Sinks:
    kind = name.split(".")[1] if "." in name else name
    sink = {"kind": kind, "path": str(folder / name)}
    if kind != "mirror":
        sink["max_file"] = "4KB"
    return build_sinks(from_dict({"sink": [sink]}), clock=clock)


async def use(sinks: Sinks, make_page: MakePage) -> None:
    """Three commits: new pages, the same payload again, a withdrawn page, an image."""
    for commit in range(3):
        for n, body in enumerate(BODIES):
            sinks.put(make_page(f"http://a.test/{commit}/{n}", body + b"z" * (n % 2) * commit))
        sinks.put(make_page(f"http://a.test/{commit}.png", b"\x89PNG", content_type="image/png"))
        if commit == 1:
            block = Blocked(
                id=1, slot="a.test", reason=BlockReason.ROBOTS, dialect="slurp", rule="x", line=1,
                robots_url="http://a.test/robots.txt", blocked_at=1.0,
            )  # fmt: skip
            sinks.withdraw_blocked("http://a.test/0/1", block)
        await sinks.flush()
        assert sinks.take_faults() == {}


def content(folder: Path, name: str) -> list[Any]:
    """What is in the files, in order."""
    files = sorted(one for one in folder.rglob("*") if one.is_file() and one.name != "lock")
    if name == "mirror":
        found = {
            str(one.relative_to(folder)): (
                set(one.read_bytes().splitlines()) - {b""}  # one may be empty, or there twice
                if one.suffix == ".jsonl"
                else one.read_bytes()
            )
            for one in files
            if one.name != "draft"
        }
        return sorted(found.items())
    files.sort(key=lambda one: (len(one.name), one.name))
    if "jsonl" in name:
        read = gzip.open if name.endswith("gz") else open
        rows: list[Any] = []
        for one in files:
            with read(one, "rb") as lines:
                rows += [(one.name, json.loads(line)) for line in lines]
        return rows
    records: list[Any] = []
    for one in files:
        with one.open("rb") as file:
            for record in ArchiveIterator(file):
                headers = record.rec_headers
                refers = headers.get_header("WARC-Refers-To-Target-URI")
                url = headers.get_header("WARC-Target-URI")
                payload = record.content_stream().read() if record.rec_type == "response" else b""
                records.append((one.name, record.rec_type, url, refers, payload))
    return records


async def run(
    folder: Path, name: str, make_page: MakePage, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Any], int]:
    folder.mkdir()  # noqa: ASYNC240
    clock = Clock()
    sinks = sinks_at(folder, name, clock)
    fdopen = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *a, **k: File(fdopen(*a, **k), faults))
    async with sinks:
        faults.calls = 0
        with faults.injected():
            await use(sinks, make_page)
        monkeypatch.undo()
        assert sinks.troubles.now is None
        return content(folder, name), clock.waits


@pytest.mark.parametrize("name", KINDS)
async def test_it_is_as_if_nothing_had_happened(
    name: str, make_page: MakePage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = Faults(at=10**9, number=errno.EIO)
    expected, waits = await run(tmp_path / "sound", name, make_page, sound, monkeypatch)
    assert waits == 0
    assert expected
    for at in range(sound.calls):
        faults = Faults(at=at, number=PASSING[at % len(PASSING)], times=1 + at % 3)
        found, waits = await run(tmp_path / f"{at}", name, make_page, faults, monkeypatch)
        assert found == expected, f"call {at}"


@pytest.mark.parametrize("name", KINDS)
async def test_what_does_not_pass_ends_it_with_whole_records(
    name: str, make_page: MakePage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = Faults(at=10**9, number=errno.EACCES)
    expected, _ = await run(tmp_path / "sound", name, make_page, sound, monkeypatch)
    for at in range(0, sound.calls, 3):
        faults = Faults(at=at, number=errno.EACCES)
        sentence = r"the sink .* cannot be written: Permission denied"
        folder = tmp_path / f"{at}"
        with pytest.raises(SinkError, match=sentence):
            await run(folder, name, make_page, faults, monkeypatch)
        monkeypatch.undo()
        async with sinks_at(folder, name, Clock()):  # which mends what is torn
            found = content(folder, name)
        if name != "mirror":
            assert found == expected[: len(found)]


async def test_the_trouble_is_shown_and_others_wait(tmp_path: Path, make_page: MakePage) -> None:
    clock = Clock()
    released = asyncio.Event()

    async def sleep_until(when_s: float) -> None:
        await released.wait()

    clock.sleep_until = sleep_until  # type: ignore[method-assign]
    sinks = sinks_at(tmp_path, "p.jsonl", clock)
    async with sinks:
        faults = Faults(at=0, number=errno.ENOSPC, times=2)
        with faults.injected():
            sinks.put(make_page("http://a.test/1"))
            first = asyncio.ensure_future(sinks.flush())
            trouble = await sinks.troubles.other_than(None)
            assert trouble is not None
            assert trouble.kind is FaultKind.NO_SPACE
            assert trouble.what == f"the sink {tmp_path / 'p.jsonl'}"
            sinks.put(make_page("http://a.test/2"))
            second = asyncio.ensure_future(sinks.flush())
            first.cancel()  # what it had begun is done by the other
            with pytest.raises(asyncio.CancelledError):
                await first
            await asyncio.sleep(0.01)
            assert not second.done()
            released.set()
            await second
        assert [row["url"] for _, row in content(tmp_path, "p.jsonl")] == [
            "http://a.test/1",
            "http://a.test/2",
        ]


async def test_it_is_given_up_when_patience_is_over(tmp_path: Path, make_page: MakePage) -> None:
    sinks = sinks_at(tmp_path, "p.jsonl", Clock())
    async with sinks:
        sinks.set_patience(0.0)
        with Faults(at=0, number=errno.ENOSPC, times=10**9).injected():
            sinks.put(make_page())
            with pytest.raises(SinkError, match="no space left on device"):
                await sinks.flush()


@pytest.mark.parametrize("name", KINDS)
async def test_opening_waits_for_it_at_any_call(
    name: str, tmp_path: Path, make_page: MakePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fdopen = os.fdopen
    for at in range(100):
        folder = tmp_path / str(at)
        folder.mkdir()
        clock, faults = Clock(), Faults(at=at, number=PASSING[at % len(PASSING)], times=2)
        sinks = sinks_at(folder, name, clock)
        monkeypatch.setattr(
            os, "fdopen", lambda *a, faults=faults, **k: File(fdopen(*a, **k), faults)
        )
        with faults.injected():
            await sinks.open()
        monkeypatch.undo()
        try:
            sinks.put(make_page("http://a.test/", BODIES[0]))
            await sinks.flush()
        finally:
            await sinks.close()
        assert content(folder, name)
        if faults.calls <= at:
            break
        assert clock.waits or name == "mirror"  # which does without a scan of its folder
    assert 0 < at < 99


async def test_opening_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Passing(Clock):
        def monotonic(self) -> float:
            return 10.0 * self.waits

    clock, faults = Passing(), Faults(at=0, number=errno.ENOSPC, times=1_000)
    sinks = sinks_at(tmp_path, "p.jsonl", clock)
    with faults.injected(), pytest.raises(SinkError, match="no space left on device"):
        await sinks.open()
    assert clock.waits == 3


async def open_and_close(
    folder: Path, name: str, make_page: MakePage, faults: Faults, *, closing: bool
) -> tuple[list[Any], int]:
    """With faults while it is opened, or while it is closed, again in a folder that has pages."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    clock = Clock()
    fdopen = os.fdopen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdopen", lambda *a, **k: File(fdopen(*a, **k), faults))
        sinks = sinks_at(folder, name, clock)
        if closing:
            await sinks.open()
        else:
            with faults.injected():
                await sinks.open()
        await use(sinks, make_page)
        if closing:
            with faults.injected():
                await sinks.close()
        else:
            await sinks.close()
    return content(folder, name), clock.waits


@pytest.mark.parametrize("closing", [False, True], ids=["opened", "closed"])
@pytest.mark.parametrize("name", KINDS)
async def test_trouble_while_it_is_opened_or_closed(
    name: str, closing: bool, make_page: MakePage, tmp_path: Path
) -> None:
    sound = Faults(at=10**9, number=errno.ENOSPC)
    expected, waits = await open_and_close(
        tmp_path / "sound", name, make_page, sound, closing=closing
    )
    assert waits == 0
    assert expected
    assert sound.calls
    waited = 0
    for at in range(sound.calls):
        number = (errno.ENOSPC, errno.EMFILE, errno.EIO)[at % 3]
        faults = Faults(at=at, number=number, times=1 + at % 3)
        found, waits = await open_and_close(
            tmp_path / f"{at}", name, make_page, faults, closing=closing
        )
        waited += waits
        assert found == expected, f"call {at}"
    assert waited


@pytest.mark.parametrize("name", KINDS)
async def test_a_close_that_is_given_up_lets_go_and_loses_nothing(
    name: str, make_page: MakePage, tmp_path: Path
) -> None:
    sound = Faults(at=10**9, number=errno.ENOSPC)
    expected, _ = await open_and_close(tmp_path / "sound", name, make_page, sound, closing=True)
    for at in range(0, sound.calls, 3):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        sinks = sinks_at(folder, name, Clock())
        await sinks.open()
        await use(sinks, make_page)
        sinks.set_patience(0.0)
        faults = Faults(at=at, number=errno.ENOSPC, times=10**9)
        with faults.injected(), contextlib.suppress(SinkError):
            await sinks.close()
        async with sinks_at(folder, name, Clock()):
            pass  # nobody has it locked, and what was left undone is done
        assert content(folder, name) == expected, f"call {at}"

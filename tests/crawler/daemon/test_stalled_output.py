"""Output without a reader neither stops a crawl or daemon nor delays its exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crawler.testing import LocalWeb, html, text
from tests.command_processes import start
from tests.crawler.daemon.test_processes import LIMIT_S, Place

EXIT_S = 15.0  # a busy machine, and what an exit waits for output


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    pages = {f"/{number}": html(str(number)) for number in range(60)}
    home = html("Home", *pages)
    async with LocalWeb({"a.test": {"/robots.txt": text(""), "/": home, **pages}}) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, web: LocalWeb) -> Place:
    made = Place(tmp_path, web)
    made.write(crawl={"seeds": [web.url("a.test")]}, daemon={"log": "", "log_level": "debug"})
    return made


def fill(fd: int) -> None:
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(fd, b"x" * 4096):
            pass
    with contextlib.suppress(BlockingIOError):
        while os.write(fd, b"x"):
            pass
    os.set_blocking(fd, True)


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The write end of a full pipe without a reader."""
    reader, writer = os.pipe()
    fill(writer)
    yield writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def stopped_terminal() -> Iterator[int]:
    """A terminal stopped with Ctrl-S."""
    leader, follower = pty.openpty()
    fill(follower)
    yield follower
    os.close(leader)
    os.close(follower)


async def spawn(place: Place, *arguments: str, out: int, err: int) -> asyncio.subprocess.Process:
    return await start(*arguments, cwd=place.folder, stdout=out, stderr=err)


async def asked(web: LocalWeb, count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(web.log) < count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def told_to_end(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGTERM)
    return await ended(process)


async def ended(process: asyncio.subprocess.Process) -> int:
    try:
        async with asyncio.timeout(EXIT_S):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("both", [False, True], ids=["stderr", "stdout and stderr"])
async def test_a_daemon_without_a_reader_of_its_log(
    place: Place, web: LocalWeb, full_pipe: int, both: bool
) -> None:
    out = full_pipe if both else asyncio.subprocess.DEVNULL
    process = await spawn(place, "run", "courtly.toml", out=out, err=full_pipe)
    await asked(web, 62)
    assert await told_to_end(process) == 0


async def test_a_daemon_with_a_stopped_terminal(
    place: Place, web: LocalWeb, stopped_terminal: int
) -> None:
    process = await spawn(place, "run", "courtly.toml", out=stopped_terminal, err=stopped_terminal)
    await asked(web, 62)
    assert await told_to_end(process) == 0


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_crawl_without_a_reader_of_its_progress(
    place: Place, web: LocalWeb, full_pipe: int, stopped_terminal: int, terminal: bool
) -> None:
    err = stopped_terminal if terminal else full_pipe
    arguments = ("crawl", "--config", "courtly.toml")
    process = await spawn(place, *arguments, out=asyncio.subprocess.PIPE, err=err)
    async with asyncio.timeout(LIMIT_S):
        out, _ = await process.communicate()
    assert process.returncode == 0
    assert b"61" in out


@pytest.mark.parametrize(
    ("first", "again_s", "end"),
    [
        (signal.SIGTERM, None, ()),
        (signal.SIGINT, None, ("--json",)),
        (signal.SIGINT, 0.0, ()),  # before the first is heard: they are one
        (signal.SIGINT, 0.1, ("--json",)),
        (signal.SIGINT, 1.5, ()),  # on its way out
    ],
)
async def test_a_crawl_without_any_reader_handles_signals(
    place: Place,
    web: LocalWeb,
    full_pipe: int,
    first: signal.Signals,
    again_s: float | None,
    end: tuple[str, ...],
) -> None:
    arguments = ("crawl", "--config", "courtly.toml", "--delay", "0.2", *end)
    process = await spawn(place, *arguments, out=full_pipe, err=full_pipe)
    await asked(web, 3)
    process.send_signal(first)
    if again_s is not None:
        await asyncio.sleep(again_s)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
    assert await ended(process) == 130


async def test_buffered_output_does_not_delay_the_exit(full_pipe: int) -> None:
    script = (
        "import sys; from crawler.cli.exit_codes import reported_errors\n"
        "with reported_errors(): sys.stdout.write('x'); raise KeyboardInterrupt"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script),
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        stdout=full_pipe,
        stderr=full_pipe,
    )
    assert await ended(process) == 130


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "none.toml"), 2),
        (("show", "visited", "--db", "none.db"), 2),
        (("crawl", "--db", "none/none.db", "http://a.test/", "--allow", "127.0.0.0/8"), 2),
        (("fetch", "http://127.0.0.1:1/"), 1),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
async def test_an_unread_error_ends_the_process(
    place: Place, full_pipe: int, arguments: tuple[str, ...], code: int
) -> None:
    process = await spawn(place, *arguments, out=full_pipe, err=full_pipe)
    assert await ended(process) == code


async def test_a_log_to_a_full_pipe(place: Place, web: LocalWeb) -> None:
    log = place.folder / "log.fifo"
    os.mkfifo(log)
    place.write(
        crawl={"seeds": [web.url("a.test")]}, daemon={"log": "log.fifo", "log_level": "debug"}
    )
    code, _, err = await place.courtly("run", "courtly.toml")
    assert (code, "log.fifo cannot be written" in err) == (2, True)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(log, os.O_WRONLY)
    fill(writer)
    async with place.running() as daemon:
        await asked(web, 62)
        async with daemon.session.get(f"{daemon.base}/metrics") as metrics:
            assert "\ncourtly_log_lines_lost_total 0.0\n" in await metrics.text()
        assert await daemon.end() == 0
    os.close(reader)
    os.close(writer)

"""A signal at any moment of a command's start, run and end: no traceback, an exit code that says
what happened, and a database that is whole."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import crawler.cli
from crawler.databases import check_database
from crawler.testing import LocalWeb, html, text
from storage.location import FileLocation
from tests.command_processes import start

STEPS = int(os.environ.get("SIGNAL_STEPS", "5"))  # set a higher number to search
UNTIL_S = 1.2
AT_ONCE = 4
LIMIT_S = 30.0
# While Python starts, before a handler is installed, the signal kills the process.
CODES = {signal.SIGINT: {0, 130, -signal.SIGINT}, signal.SIGTERM: {0, 130, 143, -signal.SIGTERM}}

# Files that are imported before the handler is installed, and the line up to which this applies.
BEGINNINGS = {
    "crawler/__init__.py": 1_000,
    "crawler/cli/signals.py": 1_000,
    "crawler/cli/__init__.py": next(
        number
        for number, line in enumerate(Path(crawler.cli.__file__).read_text().splitlines(), 1)
        if line.startswith("signals.exit_on_interrupt()")
    ),
}


pytestmark = pytest.mark.usefixtures("fresh_interpreter")


@pytest.fixture
async def web() -> AsyncIterator[LocalWeb]:
    pages = {f"/{number}": html(str(number)) for number in range(200)}
    async with LocalWeb(
        {"a.test": {"/robots.txt": text(""), "/": html("Home", *pages), **pages}}
    ) as made:
        yield made


def before_handler(said: str) -> bool:
    """Whether a traceback is from the start of the interpreter, before our handler is installed. An
    ignored KeyboardInterrupt is always from then: later it is sent again silently (see
    `test_a_discarded_interrupt_is_repeated`)."""
    frames = re.findall(r'/((?:crawler|storage)/[^"]+)", line (\d+), in (\S+)', said)
    ignored = re.findall(
        r"^Exception ignored.*\n(?:Traceback.*\n|  .*\n)*(\S*)", said, re.MULTILINE
    )
    return all(name.startswith("KeyboardInterrupt") for name in ignored) and all(
        name == "<module>" and int(line) <= BEGINNINGS.get(file, 0) for file, line, name in frames
    )


IGNORING = """
import signal, sys, weakref
import crawler.cli.signals as signals
signals._is_program = lambda: True
signals.exit_on_interrupt()
class Thing: pass
with signals.interrupts_raised():
    thing = Thing()
    reference = weakref.ref(thing, lambda _: {ignored})
    try:
        del thing
        import time
        time.sleep({wait_s})
    except KeyboardInterrupt:
        sys.exit(3)
sys.exit(4)
"""


@pytest.mark.parametrize(
    ("ignored", "wait_s", "code", "said"),
    [
        ("signal.raise_signal(signal.SIGINT)", 10, 3, ""),
        ("1 / 0", 0, 4, "ZeroDivisionError"),
    ],
)
async def test_a_discarded_interrupt_is_repeated(
    ignored: str, wait_s: int, code: int, said: str
) -> None:
    """A callback of a weak reference discards exceptions: an interrupt is repeated, and any other
    exception is printed as usual."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IGNORING.format(ignored=ignored, wait_s=wait_s)),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        _, err = await process.communicate()
    assert process.returncode == code, err
    assert (said in err.decode()) if said else err == b"", err


async def interrupted(
    arguments: tuple[str, ...], folder: Path, number: signal.Signals, after_s: float
) -> None:
    folder.mkdir()  # noqa: ASYNC240
    if arguments[0] == "run":  # its database is beside its config
        shutil.copy(folder.parent / "courtly.toml", folder)
    process = await start(*arguments, cwd=folder)
    await asyncio.sleep(after_s)
    if process.returncode is None:
        process.send_signal(number)
    try:
        async with asyncio.timeout(LIMIT_S):
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    said = err.decode()
    assert "Traceback" not in said or before_handler(said), (arguments, after_s, said)
    assert process.returncode in CODES[number] or "Traceback" in said, (arguments, after_s, said)
    database = folder / "crawl.db"
    if database.exists() and database.stat().st_size:
        assert check_database(FileLocation(database)) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", ["crawl", "run", "show", "demo", "fetch"])
async def test_no_traceback(command: str, web: LocalWeb, tmp_path: Path) -> None:
    url = web.url("a.test")
    resolve = "resolve = { '*.test' = '127.0.0.1' }"
    config = tmp_path / "courtly.toml"
    config.write_text(
        f"[crawl]\nseeds = ['{url}']\n[politeness]\ndelay = 0.01\n[network]\n"
        f"allow = ['127.0.0.0/8']\n{resolve}\n[storage]\nurl = 'sqlite:crawl.db'\n"
        "[daemon]\nlisten = '127.0.0.1:0'\n"
    )
    database = tmp_path / "shown.db"
    given = ("--config", str(config))
    arguments = {
        "crawl": ("crawl", *given, "--db", "crawl.db"),
        "run": ("run", "courtly.toml"),
        "show": ("show", "visited", "--db", str(database)),
        "demo": ("demo",),
        "fetch": ("fetch", *given, url),
    }[command]
    if command == "show":
        prepare = ("crawl", *given, "--db", str(database), "--max-pages", "5", "--quiet")
        process = await start(*prepare)
        await process.communicate()
        assert process.returncode == 0
    places = asyncio.Semaphore(AT_ONCE)

    async def one(step: int) -> None:
        async with places:
            number = list(CODES)[step % len(CODES)]
            await interrupted(arguments, tmp_path / f"{step}", number, UNTIL_S * step / STEPS)

    await asyncio.gather(*(one(step) for step in range(STEPS)))

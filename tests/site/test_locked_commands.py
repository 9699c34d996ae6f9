"""Commands that write to a database that another program has locked wait for it and report that."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest

from crawler.testing import LocalWeb, html
from storage.sqlite.file_lock import FileLock
from tests.command_processes import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.site.conftest import Courtly

COMMANDS = [
    ("retry", "failed"),
    ("host", "pause", "a.test"),
    ("seeds", "add", "http://a.test/new"),
    ("db", "vacuum"),
]
TRIES = b"trying again for 30 s"


async def crawled(courtly: Courtly) -> None:
    async with LocalWeb({"a.test": {"/": html("Home")}}) as web:
        await courtly.crawl(web, "a.test")


@contextlib.contextmanager
def locked(courtly: Courtly, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(courtly.db, isolation_level=None)) as other:
        other.execute(begin)
        other.execute("SELECT count(*) FROM crawl").fetchall()
        yield other


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_it_waits(courtly: Courtly, command: tuple[str, ...]) -> None:
    await crawled(courtly)
    with locked(courtly) as other:
        async with running(*command, "--db", str(courtly.db)) as process:
            assert process.stderr is not None
            said = await asyncio.wait_for(process.stderr.readline(), 30)
            assert TRIES in said
            assert b"another program" in said
            assert process.returncode is None
            other.execute("ROLLBACK")
            _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0, errors.decode()


async def test_vacuum_waits_for_a_reader(courtly: Courtly) -> None:
    await crawled(courtly)
    with locked(courtly, "BEGIN") as other:
        async with running("db", "vacuum", "--db", str(courtly.db)) as process:
            assert process.stderr is not None
            said = await asyncio.wait_for(process.stderr.readline(), 30)
            assert b"is in use by another program" in said
            assert TRIES in said
            other.execute("ROLLBACK")
            _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0, errors.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
@pytest.mark.parametrize("command", [*COMMANDS, ("crawl",), ("run",)], ids=" ".join)
async def test_a_signal_is_obeyed_while_it_waits(
    courtly: Courtly, command: tuple[str, ...], number: signal.Signals
) -> None:
    await crawled(courtly)
    given: tuple[str, ...]
    if command == ("run",):
        config = courtly.folder / "config.toml"
        config.write_text(f'storage.url = "sqlite:{courtly.db}"\ndaemon.listen = "127.0.0.1:0"\n')
        given = ("run", str(config))
    else:
        given = (*command, "--db", str(courtly.db))
    with locked(courtly):
        async with running(*given) as process:
            assert process.stderr is not None
            said = b""
            while TRIES not in said:
                said = await asyncio.wait_for(process.stderr.readline(), 30)
                assert said
            began_s = time.monotonic()
            process.send_signal(number)
            _, errors = await asyncio.wait_for(process.communicate(), 20)
            took_s = time.monotonic() - began_s
    if command == ("run",):
        assert process.returncode == 0  # a service that was stopped
    elif command == ("crawl",) or number is signal.SIGINT:
        assert process.returncode == 130
    else:
        assert process.returncode == -signal.SIGTERM
    assert b"Traceback" not in errors, errors.decode()
    assert took_s < 4
    with contextlib.closing(sqlite3.connect(courtly.db, timeout=0)) as db:
        db.execute("BEGIN IMMEDIATE")  # no lock is left
    lock = FileLock(courtly.db)
    lock.acquire()
    lock.release()

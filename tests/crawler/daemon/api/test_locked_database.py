"""Commands while another program locks the database: answered in time, and run later."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from crawler.daemon.api import pending_commands
from crawler.daemon.api.host_steering import HostCommand
from crawler.daemon.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from crawler.daemon.api.operations import Operations
    from crawler.testing import LocalWeb
    from tests.crawler.daemon.conftest import Daemon

WAIT_S = 0.5


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


COMMANDS: dict[str, Callable[[Operations, str], Awaitable[Any]]] = {
    "pause": lambda to, _: to.pause(),
    "resume": lambda to, _: to.resume(),
    "host pause": lambda to, _: to.host_steering.steer(HostCommand.PAUSE, hosts=["a.test"]),
    "host resume": lambda to, _: to.host_steering.steer(HostCommand.RESUME, hosts=["a.test"]),
    "host slow": lambda to, _: to.host_steering.steer(
        HostCommand.SLOW, hosts=["a.test"], delay_s=3.0
    ),
    "retry": lambda to, _: to.url_lists.retry(),
    "seeds": lambda to, url: to.seeds([url]),
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_commands_are_answered_while_the_database_is_locked(
    daemon: Daemon, town: LocalWeb, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(pending_commands, "COMMAND_WAIT_S", WAIT_S)
    with locked(daemon.database):
        began_s = time.monotonic()
        with pytest.raises(Problem) as told:
            await COMMANDS[name](daemon.operations, town.url("a.test", "/new"))
        assert time.monotonic() - began_s < 5
        assert told.value.status == 503
        assert "another program holds a lock" in told.value.detail
        assert "runs when the database is available again" in told.value.detail
        assert (await daemon.operations.status()).held
    if name == "seeds":
        added = town.url("a.test", "/new")
        async with asyncio.timeout(20):
            while (await daemon.operations.url(added)).state == "unknown":  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_a_postponed_command_runs_once(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_commands, "COMMAND_WAIT_S", WAIT_S)
    with locked(daemon.database):
        answer = await daemon.client.post("/api/hosts/pause", {"host": "a.test"})
        assert answer.status == 503
        assert "another program holds a lock" in answer.body["detail"]
    async with asyncio.timeout(20):
        while not (await daemon.operations.host("a.test")).paused:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    # In time again, and after the other.
    resumed = await daemon.operations.host_steering.steer(HostCommand.RESUME, hosts=["a.test"])
    assert not resumed.paused
    await asyncio.sleep(0.5)
    assert not (await daemon.operations.host("a.test")).paused

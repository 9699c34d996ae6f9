"""Commands while another program locks the database: answered in time, and run later."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from crawler.daemon.api import command_answers
from crawler.daemon.problem import Problem
from crawler.operator_commands import (
    AddSeeds,
    DropFailed,
    OperatorCommand,
    PauseCrawl,
    PauseHosts,
    ResumeCrawl,
    ResumeHosts,
    RetryFailed,
    SlowHosts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crawler.testing import LocalWeb
    from tests.crawler.daemon.conftest import Daemon

WAIT_S = 0.5


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


COMMANDS: dict[str, Callable[[str], OperatorCommand[Any]]] = {
    "pause": lambda _: PauseCrawl(),
    "resume": lambda _: ResumeCrawl(),
    "host pause": lambda _: PauseHosts(host="a.test"),
    "host resume": lambda _: ResumeHosts(host="a.test"),
    "host slow": lambda _: SlowHosts(host="a.test", delay_s=3.0),
    "retry": lambda _: RetryFailed(),
    "drop": lambda _: DropFailed(),
    "seeds": lambda url: AddSeeds(urls=(url,)),
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_commands_are_answered_while_the_database_is_locked(
    daemon: Daemon, town: LocalWeb, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(command_answers, "COMMAND_WAIT_S", WAIT_S)
    with locked(daemon.database):
        began_s = time.monotonic()
        with pytest.raises(Problem) as told:
            await daemon.operations.execute(COMMANDS[name](town.url("a.test", "/new")))
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
    monkeypatch.setattr(command_answers, "COMMAND_WAIT_S", WAIT_S)
    announced: list[str] = []
    monkeypatch.setattr(
        daemon.operations.stream, "change", lambda what, **_values: announced.append(what)
    )
    with locked(daemon.database):
        answer = await daemon.client.post("/api/hosts/pause", {"host": "a.test"})
        assert answer.status == 503
        assert "another program holds a lock" in answer.body["detail"]
    async with asyncio.timeout(20):
        while announced != ["host_pause"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await daemon.operations.host("a.test")).paused
    # In time again, and after the other.
    resumed = await daemon.operations.execute(ResumeHosts(host="a.test"))
    assert not resumed.paused
    await asyncio.sleep(0.5)
    assert not (await daemon.operations.host("a.test")).paused

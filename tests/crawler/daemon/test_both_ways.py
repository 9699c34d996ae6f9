"""A command does and refuses the same through a running crawl and on a database at rest."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from crawler.config import from_dict
from crawler.daemon.problem import Problem
from crawler.offline_control import execute_in_database
from crawler.operator_commands import (
    AddSeeds,
    CrawlState,
    DropFailed,
    FailedDropped,
    InvalidCommandError,
    OperatorCommand,
    PauseCrawl,
    PauseHosts,
    ResumeCrawl,
    ResumeHosts,
    Retried,
    RetryFailed,
    SlowHosts,
    StateAnswer,
    UnknownHost,
)
from crawler.testing import hang_up, text
from storage.engine.connection_thread import ThreadedReads
from storage.location import url_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from crawler.testing import LocalWeb

REFUSED: tuple[OperatorCommand[Any], ...] = (
    PauseHosts(host="nobody.test"),
    PauseHosts(hosts=("a.test", "a/b")),
    SlowHosts(pattern="http://a.test/", delay_s=3.0),
    ResumeHosts(pattern="*", state="asleep"),
    ResumeHosts(reason="tired"),
    RetryFailed(host="nobody.test"),
    DropFailed(host="nobody.test", dry_run=True),
)
DONE: tuple[OperatorCommand[Any], ...] = (
    PauseHosts(pattern="*", dry_run=True),
    PauseHosts(hosts=("A.test", "a.test")),
    PauseHosts(pattern="b*", state="done"),
    SlowHosts(host="a.test", delay_s=7.0),
    ResumeHosts(pattern="*"),
    AddSeeds(urls=("http://a.test/new", "http://a.test/new", "ftp://a.test/", "no URL")),
    DropFailed(code="timeout"),
    RetryFailed(host="e.test", dry_run=True),
    RetryFailed(host="e.test", code="dns", dry_run=True),
    RetryFailed(host="e.test"),
    DropFailed(dry_run=True),
    DropFailed(),
    DropFailed(),
    AddSeeds(urls=("http://a.test/new", "http://f.test/", "http://g.test/")),
    PauseCrawl(),
    ResumeCrawl(),
    ResumeCrawl(),
)


async def said(execute: Callable[[Any], Awaitable[Any]]) -> list[object]:
    """Why commands are refused, and the results of others."""
    found: list[object] = []
    for command in REFUSED:
        with pytest.raises((Problem, InvalidCommandError, UnknownHost)) as refused:
            await execute(command)
        found.append(str(refused.value))
    for command in DONE:
        would = await execute(structs.replace(command, dry_run=True))
        result = await execute(command)
        now = {"state": result.state} if isinstance(result, StateAnswer) else {}
        assert structs.replace(would, dry_run=command.dry_run, **now) == result, command
        found.append(result.changed if isinstance(result, StateAnswer) else result)
    return found


async def test_a_command_does_the_same_with_and_without_a_crawl(
    town: LocalWeb, start: Any, tmp_path: Path
) -> None:
    for name in ("e.test", "f.test"):
        town.sites[name] = {"/robots.txt": text(""), "/": hang_up()}
    once = {"fetch": {"max_attempts": 1}}
    async with start("a.test", "b.test", "e.test", "f.test", config=once) as daemon:
        await daemon.until(lambda status: status["failed"] == 2 and status["state"] == "idle")
        await daemon.operations.execute(PauseCrawl())
    at_rest = tmp_path / "rest.db"
    shutil.copy(daemon.database, at_rest)
    config = from_dict({"storage": {"url": url_of(str(at_rest))}})

    async def in_database(command: OperatorCommand[Any]) -> Any:
        return (await execute_in_database(config, command))[0]

    async with start() as daemon:
        assert daemon.opened.control.state is CrawlState.PAUSED
        through_crawl = await said(daemon.operations.execute)
    found = await said(in_database)
    assert found == through_crawl
    retried = [one for one in found if isinstance(one, Retried)]
    dropped = [one for one in found if isinstance(one, FailedDropped)]
    assert [(one.retried, one.dry_run) for one in retried] == [(1, True), (0, True), (1, False)]
    assert [one.dropped for one in dropped] == [0, 1, 1, 0]


async def test_a_preview_of_many_seeds_reads_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = from_dict({"storage": {"url": url_of(str(tmp_path / "crawl.db"))}})
    urls = tuple(f"http://h{n % 7}.test/{n}" for n in range(6_000))
    await execute_in_database(config, AddSeeds(urls=urls[:10]))
    reads = 0
    read = ThreadedReads.read

    def counting(self: ThreadedReads, work: Callable[[Any], Any]) -> Any:
        nonlocal reads
        reads += 1
        return read(self, work)

    monkeypatch.setattr(ThreadedReads, "read", counting)
    result, _ = await execute_in_database(config, AddSeeds(urls=urls, dry_run=True))
    assert (result.added, result.known, result.refused) == (len(urls) - 10, 10, ())
    assert reads < 10

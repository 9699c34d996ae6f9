"""Whatever is cancelled while a database is opened or closed, at whichever step: no lock, no thread
and no descriptor is left, and the next opening succeeds."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler import Crawler, Politeness, PoliteSession
from crawler.app import open_crawl
from crawler.clock import RealClock
from crawler.config import Config, from_dict
from crawler.databases import open_store
from crawler.embedding.embed import caller_gate
from crawler.embedding.running import running
from crawler.embedding.settings import setup_of
from crawler.offline_control import execute_in_database
from crawler.operator_commands import AddSeeds, RetryFailed
from crawler.testing import FakeFetcher
from storage.location import FileLocation
from storage.sqlite import file_reader

AGENT = "bot (+https://example.com/bot)"
STEPS_MAX = 500


class CancelledAt:
    """Awaits a coroutine whose task is cancelled where it waits for the n-th time, and where it
    waits for the first time after that as often as `again` says."""

    def __init__(self, work: Coroutine[Any, Any, object], n: int, *, again: int = 0) -> None:
        self._work = work
        self._left = n
        self._again = again
        self.reached = False

    def __await__(self) -> Generator[Any, Any, object]:
        steps, raised = self._work.__await__(), None
        while True:
            try:
                waits_for = steps.send(None) if raised is None else steps.throw(raised)
            except StopIteration as end:
                return end.value
            self._left -= 1
            task = asyncio.current_task()
            assert task is not None
            if self._left <= 0 and self._left >= -self._again:
                self.reached = True
                task.cancel()
            try:
                yield waits_for
                raised = None
            except BaseException as error:  # noqa: BLE001 - it is raised inside
                raised = error


def config_of(path: Path) -> Config:
    return from_dict(
        {"crawl": {"user_agent": AGENT}, "storage": {"url": f"sqlite:{path}"}}, base=path.parent
    )


@asynccontextmanager
async def _store(path: Path) -> Any:
    store = open_store(FileLocation(path), RealClock())
    session = await store.open_session("test")
    try:
        yield
    finally:
        await store.close(session)


@asynccontextmanager
async def _seeds(path: Path) -> Any:
    await execute_in_database(config_of(path), AddSeeds(urls=("https://a.test/",)))
    yield


@asynccontextmanager
async def _retry(path: Path) -> Any:
    await execute_in_database(config_of(path), RetryFailed())
    yield


OPENED: dict[str, Callable[[Path], AbstractAsyncContextManager[object]]] = {
    "store": _store,
    "reader": file_reader,
    "living": lambda path: open_crawl(config_of(path), seeds=["https://a.test/"]),
    "session": lambda path: PoliteSession(
        user_agent=AGENT, db=path, fetcher=FakeFetcher(RealClock(), {})
    ),
    "session with a network": lambda path: PoliteSession(user_agent=AGENT, db=path),
    "middleware": lambda path: Politeness(user_agent=AGENT, db=path),
    "client": lambda path: caller_gate(setup_of(config=config_of(path), db=path)),
    "crawl": lambda path: running(setup_of(config=config_of(path), db=path)),
    "crawler": lambda path: Crawler(
        "https://a.test/", user_agent=AGENT, db=path, fetcher=FakeFetcher(RealClock(), {})
    ),
    "seeds": _seeds,
    "retry": _retry,
}


def _threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "courtly-store"]


def _descriptors(path: Path) -> list[str]:
    """The files of this database that this process has open."""
    found: list[str] = []
    if not Path("/proc/self/fd").is_dir():
        return found
    for one in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            name = os.readlink(f"/proc/self/fd/{one}")  # noqa: PTH115
        except OSError:
            continue
        if name.startswith(str(path)):
            found.append(name)
    return found


async def _all_gone(path: Path) -> None:
    for one in _threads():
        await asyncio.to_thread(one.join, 10)
    assert not _threads()
    assert not path.with_name("crawl.db.lock").exists()
    assert _descriptors(path) == []


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A database with something in it."""
    path = tmp_path / "crawl.db"
    await execute_in_database(config_of(path), AddSeeds(urls=("https://b.test/",)))
    return path


@pytest.mark.parametrize("again", [0, 3])
@pytest.mark.parametrize("name", OPENED)
async def test_cancelled_while_it_opens(path: Path, name: str, again: int) -> None:
    for n in range(1, STEPS_MAX):
        opened = OPENED[name](path)
        entering = CancelledAt(opened.__aenter__(), n, again=again)

        async def enter(entering: CancelledAt = entering) -> None:
            await entering

        task = asyncio.create_task(enter())
        await asyncio.wait([task])
        if not task.cancelled():
            await task  # raises what is none of a cancellation's business
            await opened.__aexit__(None, None, None)
        await _all_gone(path)
        async with _store(path):
            pass
        if not entering.reached:
            assert n > 1
            return
    raise AssertionError("it never opened")


@pytest.mark.parametrize("name", OPENED)
async def test_cancelled_while_it_closes(path: Path, name: str) -> None:
    for n in range(1, STEPS_MAX):
        opened = OPENED[name](path)
        await opened.__aenter__()
        leaving = CancelledAt(opened.__aexit__(None, None, None), n)

        async def leave(leaving: CancelledAt = leaving) -> None:
            await leaving

        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        if not task.cancelled():
            await task
        await _all_gone(path)
        if not leaving.reached:
            return
    raise AssertionError("it never closed")

"""On a machine without free threads, work waits for one, and neither a page nor a host nor a
task fails."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import crawler
from crawler import Crawler, threads
from crawler.clock import RealClock
from crawler.fetching.local_errors import blame
from crawler.fetching.resolver import NameLookupError
from crawler.testing import LocalWeb, Reply, html, text
from crawler.threads import Threads
from policies.holds import HoldReason
from tests.crawler.conftest import GivenDns

PACKAGES = [Path(crawler.__file__).parents[1] / name for name in ("crawler", "storage", "policies")]


class Limit:
    """A machine on which no further thread can be started, except those of the store."""

    def __init__(self) -> None:
        self.free = 0
        self.refused = 0

    def __call__(self, start: Callable[[threading.Thread], None], thread: threading.Thread) -> None:
        if thread.name != "courtly-store":
            if self.free <= 0:
                self.refused += 1
                raise RuntimeError("can't start new thread")
            self.free -= 1
        start(thread)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    found = Limit()
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: found(start, thread))
    threads._forget()  # what was started before does not count here
    yield found
    monkeypatch.undo()
    threads._forget()


async def test_work_makes_do_with_the_threads_there_are(limit: Limit) -> None:
    pool = Threads(max_workers=8)
    limit.free = 2
    done = await asyncio.gather(*(pool.run(_slowly, n) for n in range(10)))
    assert done == list(range(10))
    assert limit.refused
    pool.shutdown()


def _slowly(number: int) -> int:
    time.sleep(0.01)
    return number


async def test_where_there_is_none_it_waits_and_is_done_once(
    limit: Limit, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Threads()
    calls: list[int] = []
    working = [asyncio.ensure_future(pool.run(calls.append, n)) for n in range(3)]
    await asyncio.sleep(0.05)
    assert not calls
    with pytest.raises(MemoryError):
        pool.ready()
    limit.free = 1
    await asyncio.wait_for(asyncio.gather(*working), 20)
    assert sorted(calls) == [0, 1, 2]
    assert "cannot start a thread; retrying" in caplog.text
    pool.shutdown()


async def test_any_other_error_is_raised_as_it_is(limit: Limit) -> None:
    limit.free = 9
    with pytest.raises(RuntimeError, match="of the work"):
        await threads.in_thread(_fails)
    pool = Threads()
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        await pool.run(_fails)


def _fails() -> None:
    raise RuntimeError("of the work")


async def test_a_name_that_no_thread_could_ask_for_is_trouble_of_our_own() -> None:
    class Threadless:
        async def resolve(self, *_: object) -> list[object]:
            raise RuntimeError("can't start new thread")

        async def close(self) -> None:
            pass

    names = GivenDns(Threadless, RealClock())  # type: ignore[arg-type]
    with pytest.raises(NameLookupError) as raised:
        await names.resolve("a.test")
    assert raised.value.error.ours is HoldReason.PORTS
    assert blame(RuntimeError("can't start new thread"))[0] is HoldReason.PORTS
    assert blame(RuntimeError("another"))[0] is None


@pytest.mark.timeout(60)
async def test_a_daemon_thread_is_used_again(limit: Limit) -> None:
    """Each large page needs one, and none may be had by the time of the second."""
    limit.free = 1
    first = await threads.in_daemon_thread(threading.get_ident)
    go_on = threading.Event()
    busy = asyncio.ensure_future(threads.in_daemon_thread(go_on.wait))
    waiting = asyncio.ensure_future(threads.in_daemon_thread(threading.get_ident))
    await asyncio.sleep(0.05)
    assert not busy.done()
    assert not waiting.done()
    go_on.set()
    assert await busy
    assert await waiting == first
    with pytest.raises(ZeroDivisionError):
        await threads.in_daemon_thread(lambda: 1 / 0)
    assert await threads.in_daemon_thread(threading.get_ident) == first


async def test_a_crawl_without_threads_fails_nothing(limit: Limit, tmp_path: Path) -> None:
    """Large pages, a large robots.txt and sitemap, sinks, functions and the free-space check
    need threads."""
    rules = "User-agent: *\nDisallow: /no\n" + "# padding\n" * 2_000
    large = html("Large", *(f"/{n}" for n in range(9)), body="<p>text</p>" * 40_000)
    sites: dict[str, dict[str, Reply]] = {"a.test": {f"/{n}": large for n in range(9)}}
    called: list[str] = []
    asyncio.get_running_loop().call_later(1.0, lambda: setattr(limit, "free", 3))
    async with LocalWeb(sites) as web:
        sites["a.test"] |= {
            "/": large,
            "/robots.txt": text(f"{rules}Sitemap: {web.url('a.test', '/map')}\n"),
            "/map": text(web.url("a.test", "/8")),
        }
        config: dict[str, Any] = web.config(
            politeness={"delay": 0},
            storage={"min_free": "1KB", "max_size": "100GB"},
            crawl={"patience": 5},
        )
        config["sink"] = [{"kind": "jsonl", "path": str(tmp_path / "p.jsonl")}]
        async with Crawler(
            [web.url("a.test")],
            config=config,
            db=tmp_path / "crawl.db",
            sinks=[lambda page: called.append(page.url)],
        ) as crawl:
            visited = [page.url async for page in crawl]
            assert (await crawl.summary()).failed == 0
    assert len(visited) == len(called) == 10
    assert limit.refused


def test_threads_are_started_in_one_place() -> None:
    """Except the store's, which raises MemoryError instead."""
    makes = re.compile(r"to_thread\(|run_in_executor\(None|ThreadPoolExecutor\(|\bThread\(")
    found = {
        path.relative_to(folder.parent).as_posix()
        for folder in PACKAGES
        for path in folder.rglob("*.py")
        if makes.search(path.read_text())
    }
    assert found == {"crawler/threads.py", "storage/engine/connection_thread.py"}

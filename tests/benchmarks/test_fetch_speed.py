"""CPU of one fetch, whole (deadlines, guards, bounds, terms), beside aiohttp's session with none of
it; so that a regression of the fetch path names itself.

    pytest -m bench -s tests/benchmarks/test_fetch_speed.py
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.request import Answer, Request

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Beside

HERE = Path(__file__).parent
HOSTS = 50
REQUESTS = 4_000
IN_FLIGHT = 32
AGENT = "examplebot/1.0 (+https://example.com/bot)"
CONFIG = from_dict(
    {
        "crawl": {"user_agent": AGENT, "concurrency": IN_FLIGHT},
        "network": {"allow": ["127.0.0.0/8"]},
    }
)

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, HERE / "site_process.py", str(HOSTS), "10", "0", tmp_path / "log.json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        yield int(process.stdout.readline())
        process.communicate()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """As the command does: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def urls(port: int) -> list[str]:
    return [f"http://127.0.0.1:{port}/page/{n % 10}" for n in range(REQUESTS)]


async def spread(urls: list[str], fetch: Callable[[str], Awaitable[None]]) -> int:
    left = iter(urls)

    async def work() -> None:
        for url in left:
            await fetch(url)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return len(urls)


@asynccontextmanager
async def opened() -> AsyncIterator[AiohttpFetcher]:
    async with AiohttpFetcher(CONFIG, RealClock()) as fetcher:
        yield fetcher


def test_fetch(port: int, beside: Beside) -> None:
    def ours() -> int:
        async def run() -> int:
            async with opened() as fetcher:

                async def fetch(url: str) -> None:
                    answer = await fetcher.fetch(Request(url=url))
                    assert isinstance(answer, Answer)
                    assert answer.body

                return await spread(urls(port), fetch)

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(run())

    def bare() -> int:
        async def run() -> int:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": AGENT},
            ) as session:

                async def fetch(url: str) -> None:
                    async with session.get(url) as response:
                        assert await response.read()

                return await spread(urls(port), fetch)

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(run())

    assert beside("fetch", ours, "aiohttp's session alone", bare) < 0.8

"""A page that makes the process die, twice, is left out; the crawl comes to its end without it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from crawler.by_hand import retry_failed
from crawler.testing import Asked, LocalWeb, Reply, html
from storage.sqlite.care import check

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

POISON = "/poison"
PATHS = ["/", *(f"/{n}" for n in range(8)), POISON]

# A page read by something that kills the process: a C library that crashes, or memory that ends.
PROGRAM = """
import asyncio, json, os, signal, sys
from crawler import Crawler

config, db, seed, how = json.loads(sys.argv[1])

def deadly(page):
    if page.url.endswith("/poison"):
        os.kill(os.getpid(), getattr(signal, how)) if how.startswith("SIG") else os._exit(3)

async def main():
    async with Crawler([seed], config=config, db=db, sinks=[deadly]) as crawl:
        async for page in crawl:
            pass

asyncio.run(main())
"""


async def run(courtly: Courtly, web: LocalWeb, how: str) -> int | None:
    config = courtly.config(web)
    given = json.dumps([config, str(courtly.db), web.url("a.test"), how])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, given, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(30):
        return await process.wait()


@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", ["SIGSEGV", "exit"])
async def test_a_page_that_kills_the_process_is_quarantined(courtly: Courtly, how: str) -> None:
    page = html("A", *PATHS)
    died = -signal.SIGSEGV if how == "SIGSEGV" else 3
    async with LocalWeb({"a.test": dict.fromkeys(PATHS, page)}) as web:
        assert await run(courtly, web, how) == died
        assert await run(courtly, web, how) == died
        assert await run(courtly, web, how) == 0
        assert courtly.urls("failed") == [web.url("a.test", POISON)]
        ((error,),) = courtly.rows("failed", "error")
        assert error.startswith("quarantined: ")
        assert courtly.urls("queued") == []
        assert len(courtly.urls("visited")) == len(PATHS) - 1
        assert await retry_failed(courtly.db, code="quarantined") == 1
        assert courtly.urls("queued") == [web.url("a.test", POISON)]
        assert check(courtly.db) == []


@pytest.mark.timeout(90)
async def test_a_clean_stop_makes_no_suspect(courtly: Courtly) -> None:
    """SIGTERM while a page hangs, again and again."""
    asked = asyncio.Event()

    def hangs(_: Asked) -> Reply:
        asked.set()
        return Reply(body="late", delay_s=2.0)

    async with LocalWeb({"a.test": {"/": html("A", "/slow"), "/slow": hangs}}) as web:
        for _ in range(2):
            asked.clear()
            async with courtly.process(web, web.url("a.test")) as process:
                await asyncio.wait_for(asked.wait(), 20)
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGINT)
                await asyncio.wait_for(process.wait(), 20)
            if courtly.urls("visited", "url LIKE '%slow'"):
                break
        assert courtly.urls("failed") == []
        assert not courtly.db.with_name("crawl.db.inflight").exists()

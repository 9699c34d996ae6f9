"""A crawl that runs out of memory continues or exits; it does not hang, and it can be resumed."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawler.testing import LocalWeb, html

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

PAGES = 8
PATHS = [f"/{n}" for n in range(PAGES)]
BODY = "".join(f"<p><a href='/{n}'>x</a> text</p>" for n in range(20_000))  # some 600 KB
SITE = {"/": html("Home", *PATHS), **{path: html(path, body=BODY) for path in PATHS}}


def size_bytes(pid: int) -> int:
    """Size of the address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.mark.timeout(180)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("more_bytes", [0, 10_000_000])
async def test_it_continues_or_ends(courtly: Courtly, more_bytes: int) -> None:
    courtly.sink("jsonl", "p.jsonl")
    pace: dict[str, Any] = {"politeness": {"delay": 0}, "crawl": {"max_depth": 1, "patience": 5}}
    async with LocalWeb({"a.test": SITE}) as web:
        async with courtly.process(web, web.url("a.test"), **pace) as process:
            async with asyncio.timeout(40):
                visited: list[str] = []
                while not visited:
                    await asyncio.sleep(0.05)
                    with contextlib.suppress(sqlite3.Error):
                        visited = courtly.urls("visited")
            limit = size_bytes(process.pid) + more_bytes
            resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, -1))
            # As long as memory is waited for (a minute) it may stand still; then it must not.
            _, errors = await asyncio.wait_for(process.communicate(), 120)
            assert process.returncode != 2, errors.decode()
        await courtly.crawl(web, **pace)
    failed = courtly.urls("failed")
    assert len(courtly.urls("visited")) + len(failed) == PAGES + 1

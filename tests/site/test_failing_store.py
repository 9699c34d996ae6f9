"""A full disk stops the crawl with a sentence; nothing committed is lost, and it resumes."""

from __future__ import annotations

import asyncio
import collections
import resource
from typing import TYPE_CHECKING

from crawler.testing import LocalWeb, html

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

PAGES = 300
FILE_BYTES_MAX = 400_000  # enough for an empty database and some of the pages


async def test_a_full_disk_stops_with_a_sentence_and_loses_nothing(courtly: Courtly) -> None:
    filler = "x" * 400
    paths = [f"/{n}-{filler}" for n in range(PAGES)]
    site = {"/": html("Home", *paths), **{path: html(path, "/") for path in paths}}
    async with LocalWeb({"a.test": site}) as web:
        async with courtly.process(web, web.url("a.test"), politeness={"delay": 0}) as process:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
            _, errors = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 1, errors.decode()
        assert b"Traceback" not in errors
        assert str(courtly.db).encode() in errors
        assert b"full" in errors or b"too large" in errors or b"could not" in errors
        kept = set(courtly.urls("visited"))
        assert len(kept) < PAGES

        summary = await courtly.crawl(web, politeness={"delay": 0})
        assert summary.visited == PAGES + 1
        assert kept <= set(courtly.urls("visited"))
        asked = collections.Counter(web.log.paths("a.test"))
        twice = {path for path, times in asked.items() if times > 1}
        assert not {web.url("a.test", path) for path in twice} & kept

"""Waiting is free: 50,000 hosts that are all held back by a long delay, in a running crawl.

    pytest -m bench -s tests/benchmarks/test_waiting.py

Every host has been asked for its robots.txt, and its page is an hour away. COURTLY_BENCH_WAITING
sets how many hosts.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import time
from pathlib import Path

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.fetching.request import Answer, Failure, Request
from crawler.processing.context import crawl_context
from crawler.scheduling.scheduler import Scheduler
from storage.sqlite import file_store
from storage.store import Link

HOSTS = int(os.environ.get("COURTLY_BENCH_WAITING", "50000"))
WATCHED_S = 10.0

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


class NoRobots:
    """Every host answers at once that it has no robots.txt."""

    def __init__(self, clock: RealClock) -> None:
        self._clock = clock
        self._headers = CIMultiDictProxy(CIMultiDict[str]())
        self.asked = 0

    async def address_of(self, host: str) -> str | Failure:
        return "127.0.0.1"

    async def fetch(self, request: Request) -> Answer | Failure:
        assert request.url.endswith("/robots.txt"), "no page may be asked for within the hour"
        self.asked += 1
        now_s = self._clock.monotonic()
        return Answer(
            url=request.url,
            status=404,
            headers=self._headers,
            body=b"",
            body_read=True,
            cut=False,
            wire_bytes=0,
            started_s=now_s,
            ended_s=now_s,
            address="127.0.0.1",
        )


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def test_fifty_thousand_hosts_wait_for_nothing(tmp_path: Path) -> None:
    clock = RealClock()
    config = from_dict(
        {
            "crawl": {"patience": "2h"},
            "politeness": {"delay": 3600},
            "scope": {"follow": "any"},
        }
    )
    store = file_store(tmp_path / "crawl.db", wall=time.time, monotonic=time.monotonic)
    session = await store.open_session("bench")
    for start in range(0, HOSTS, 5_000):
        slots = [f"h{n}.test" for n in range(start, min(start + 5_000, HOSTS))]
        await store.add([Link(url=f"http://{s}/", slot=s, host=s, depth=0) for s in slots])
    fetcher = NoRobots(clock)
    context = crawl_context(config, store=store, session=session, clock=clock)
    scheduler = Scheduler(context, fetcher)
    gc.collect()
    before_mb = resident_mb()
    began_s = time.monotonic()
    run = asyncio.create_task(scheduler.run())
    while fetcher.asked < HOSTS:
        await asyncio.sleep(0.5)
        assert not run.done()
    asked_s = time.monotonic() - began_s
    await asyncio.sleep(3)  # the last commits
    gc.collect()
    cpu_s, at_s = time.process_time(), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    share = (time.process_time() - cpu_s) / (time.monotonic() - at_s)
    each_kb = (resident_mb() - before_mb) * 1000 / HOSTS
    held = len(scheduler.frontier.permits)
    sys.stdout.write(
        f"\n{HOSTS:,} hosts were asked for their robots.txt in {asked_s:.1f} s; then waiting takes "
        f"{100 * share:.2f} % of a core and {each_kb:.2f} KB of memory a host ({held:,} are held)\n"
    )
    assert not run.done()
    scheduler.stop()
    await run
    await store.close(session)
    assert fetcher.asked == HOSTS
    assert share < 0.01
    assert each_kb < 2.0

"""How fast a host that disallows everything is listed as blocked, and who waits meanwhile.

`pytest -m bench -s tests/benchmarks/test_blocking_speed.py`; COURTLY_BENCH_BLOCKED sets the size.
"""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from crawler.clock import RealClock
from crawler.config import from_dict
from crawler.processing.context import crawl_context
from crawler.scheduling.scheduler import Scheduler
from crawler.testing import FakeFetcher, Reply, html, text
from policies.url import host_of, path_of
from storage.sqlite import file_store
from storage.store import Link

BLOCKED = int(os.environ.get("COURTLY_BENCH_BLOCKED", "100000"))
OTHERS = 20  # hosts that are crawled meanwhile
TICK_S = 0.002

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


def say(text: str) -> None:
    """Figures are for whoever runs this with -s."""
    print(text)  # noqa: T201


def link(url: str) -> Link:
    return Link(url=url, slot=host_of(url), host=host_of(url), depth=0)


async def watch(lags: list[float]) -> None:
    """How late the event loop is, measured all the time."""
    while True:
        at_s = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        lags.append(time.perf_counter() - at_s)


@pytest.mark.parametrize("rules", ["Disallow: /", "Disallow: /*?id="])
async def test_a_million_urls_are_blocked_without_holding_the_loop(tmp_path, rules):
    store = file_store(tmp_path / "crawl.db", wall=time.time, monotonic=time.monotonic)
    session = await store.open_session("bench")
    for start in range(0, BLOCKED, 5_000):
        urls = [
            f"http://big.test/a-page-of-some-length/{n}?id={n % 7}"
            for n in range(start, start + 5_000)
        ]
        await store.add([link(url) for url in urls])
    await store.add(
        [link(f"http://other-{n}.test/{m}") for n in range(OTHERS) for m in range(2_000)]
    )

    def answer(request) -> Reply:
        if path_of(request.url) == "/robots.txt":
            return text(f"User-agent: *\n{rules if 'big' in request.url else 'Allow: /'}\n")
        return html("page")

    clock = RealClock()
    config = from_dict(
        {
            "crawl": {"user_agent": "examplebot/1.0 (+https://example.com/bot)", "patience": 1},
            "politeness": {"delay": 0.02, "latency_factor": 0},
            "scope": {"follow": "any", "max_queries_per_path": 10**9},
        }
    )
    fetcher = FakeFetcher(clock, answer, latency_s=0.005)
    context = crawl_context(config, store=store, session=session, clock=clock)
    scheduler = Scheduler(context, fetcher)
    lags: list[float] = []
    watcher = asyncio.create_task(watch(lags))
    run = asyncio.create_task(scheduler.run())
    start_s = time.perf_counter()
    while (stats := await store.stats()).blocked < BLOCKED:  # noqa: ASYNC110 - from without
        await asyncio.sleep(0.02)
    spent_s = time.perf_counter() - start_s
    watcher.cancel()
    scheduler.stop()
    await run
    await store.close()
    turns = [entry for entry in fetcher.log if entry.host == "big.test"]
    lags.sort()
    say(
        f"\n{rules}: {BLOCKED} URLs blocked in {spent_s:.1f} s ({BLOCKED / spent_s:.0f} a second);"
        f" meanwhile {stats.visited / spent_s:.0f} pages/s of {OTHERS} other hosts;"
        f" the loop was late by {lags[len(lags) // 2] * 1e3:.1f} ms (median),"
        f" {lags[int(len(lags) * 0.99)] * 1e3:.0f} ms (99 %), {lags[-1] * 1e3:.0f} ms (worst)"
    )
    assert len(turns) == 1, "its robots.txt and nothing else"

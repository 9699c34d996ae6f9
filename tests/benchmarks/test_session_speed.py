"""What politeness costs a request that need not wait, beside aiohttp alone; and how late turns are
when thousands wait.

    pytest -m bench tests/benchmarks/test_session_speed.py -s
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crawler import PoliteSession
from crawler.clock import RealClock
from crawler.testing import FakeFetcher

HERE = Path(__file__).parent
CPUS = sorted(os.sched_getaffinity(0))[:2]
OVERHEAD_US_MAX = 60.0  # of the turn, the gate and the clocks, over our fetcher alone
HOSTS, WAITERS, DELAY_S = 1_000, 10_000, 0.5

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def test_what_a_request_costs(tmp_path: Path) -> None:
    serve = [HERE / "site_process.py", 20, 50, 0, tmp_path / "log.json", CPUS[-1]]
    with subprocess.Popen(
        [sys.executable, *map(str, serve)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as site:
        assert site.stdout
        port = site.stdout.readline().strip()
        ask = [sys.executable, str(HERE / "session_client.py"), "20", "50", port, "5"]
        done = subprocess.run(
            ["taskset", "-c", str(CPUS[0]), *ask], capture_output=True, text=True, check=True
        )
        site.communicate()
    cost = json.loads(done.stdout)
    for way, us in cost.items():
        more_us = us - cost["aiohttp"]
        sys.stdout.write(f"{way:>12} {us:6.0f} µs CPU a request, {more_us:+5.0f} over aiohttp\n")
    assert cost["session"] - cost["fetcher"] < OVERHEAD_US_MAX


async def test_ten_thousand_wait_at_a_thousand_hosts() -> None:
    clock = RealClock()
    fetcher = FakeFetcher(clock, {}, latency_s=0.0)
    config = {"crawl": {"concurrency": HOSTS}, "politeness": {"latency_factor": 0}}
    async with PoliteSession(
        user_agent="examplebot/1.0 (+https://example.com/bot)",
        config=config,
        delay=DELAY_S,
        clock=clock,
        fetcher=fetcher,
    ) as session:
        cpu_s, began_s = time.process_time(), time.perf_counter()
        await asyncio.gather(
            *(session.get(f"http://h{n % HOSTS}.test/{n // HOSTS}") for n in range(WAITERS))
        )
        cpu_s, took_s = time.process_time() - cpu_s, time.perf_counter() - began_s
    gaps = sorted(gap for n in range(HOSTS) for gap in fetcher.log.gaps(f"h{n}.test"))
    late_ms = [1000 * (gaps[int(share * len(gaps))] - DELAY_S) for share in (0.5, 0.99)]
    sys.stdout.write(
        f"{WAITERS:,} waiters: {1e6 * cpu_s / WAITERS:.0f} µs CPU each, {took_s:.2f} s for "
        f"{WAITERS / HOSTS:.0f} rests of {DELAY_S} s, turns late by {late_ms[0]:.1f} ms (median), "
        f"{late_ms[1]:.1f} ms (p99)\n"
    )
    assert gaps[0] >= DELAY_S
    for n in range(HOSTS):
        assert fetcher.log.paths(f"h{n}.test") == ["/robots.txt", *(f"/{k}" for k in range(10))]

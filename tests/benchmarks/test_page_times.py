"""How long the pages of the daemon take to answer while it crawls 20,000 hosts at full speed.

    pytest -m bench -s tests/benchmarks/test_page_times.py       PAGE_TIMES_S=120: for how long

The web is on the second CPU, the daemon on the first. The pages are requested in turn, so each
waits for whatever the crawl is doing. PAGE_TIMES_HOSTS=2000: fewer hosts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

HERE = Path(__file__).parent
CPUS = sorted(os.sched_getaffinity(0))[:2]
MEASURED_S = float(os.environ.get("PAGE_TIMES_S", "120"))
HOSTS = int(os.environ.get("PAGE_TIMES_HOSTS", "20000"))
PAGES_OF_HOST = 200
DELAY_S = 10.0
FIRST_P99_S_MAX, P99_S_MAX = 0.2, 0.5
FULL_PAGES = 3 * HOSTS  # visited before it is measured: every host is known, and has a queue
PATHS = (
    "/", "/hosts", "/hosts?state=waiting&sort=-visited", "/hosts?search=h19",
    "/hosts?reason=delay", "/host?host=h7.test", "/urls", "/urls?state=visited",
    "/urls?state=visited&text=p/1", "/urls?state=visited&host=h7.test", "/urls?state=failed",
    "/urls/skipped", "/blocked", "/seeds", "/config", "/tester", "/history", "/log",
    "/api/status", "/metrics",
)  # fmt: skip

pytestmark = [pytest.mark.bench, pytest.mark.timeout(MEASURED_S + 600)]


@contextlib.contextmanager
def started(cpu: int, *command: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A process on one CPU, until the block ends."""
    pinned = ("taskset", "-c", str(cpu), sys.executable, *command)
    process = subprocess.Popen(
        pinned, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def test_pages_answer_at_once(tmp_path: Path) -> None:
    site = (str(HERE / "soak_site.py"), str(CPUS[-1]), str(HOSTS), str(PAGES_OF_HOST))
    with started(CPUS[-1], *site, cwd=tmp_path) as web:
        assert web.stdout
        port = int(web.stdout.readline())
        seeds = "".join(f"http://h{number}.test:{port}/p/0\n" for number in range(HOSTS))
        (tmp_path / "seeds.txt").write_text(seeds)
        (tmp_path / "crawl.toml").write_text(
            f'[crawl]\nseeds = ["@seeds.txt"]\n[politeness]\ndelay = {DELAY_S}\n'
            '[network]\nallow = ["127.0.0.0/8"]\nresolve = { "*" = "127.0.0.1" }\n'
            '[storage]\nurl = "sqlite:crawl.db"\n[daemon]\nlisten = "127.0.0.1:0"\n'
            'log = "courtly.log"\nlog_level = "warning"\n'
        )
        run = ("-m", "crawler.cli", "run", "crawl.toml")
        with started(CPUS[0], *run, cwd=tmp_path) as daemon:
            assert daemon.stdout
            line = daemon.stdout.readline()
            base = "http" + line.partition("http")[2].split()[0].rstrip("/")
            crawl_is_full(base)
            took = measured(base)
            status = requests.get(f"{base}/api/status", timeout=10).json()
    crawled = {name: status[name] for name in ("hosts", "visited", "queued", "pages_per_s")}
    lines = [json.dumps(crawled)]
    for path, times in took.items():
        worst = quantile(times, 0.99)
        lines.append(
            f"{path:40} {len(times):4} times: median {quantile(times, 0.5) * 1e3:6.0f} ms,"
            f" p99 {worst * 1e3:6.0f} ms"
        )
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    for path, times in took.items():
        assert quantile(times, 0.99) < (FIRST_P99_S_MAX if path == "/" else P99_S_MAX), path


def crawl_is_full(base: str) -> None:
    """Wait until every host has been visited a few times."""
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        status = requests.get(f"{base}/api/status", timeout=30).json()
        if status["visited"] >= FULL_PAGES and status["hosts"] >= HOSTS:
            return
        time.sleep(1)
    raise AssertionError(f"the crawl is too slow: {status}")


def measured(base: str) -> dict[str, list[float]]:
    """The seconds until each page was there, by path."""
    took: dict[str, list[float]] = defaultdict(list)
    end = time.monotonic() + MEASURED_S
    with requests.Session() as browser:
        while time.monotonic() < end:
            for path in PATHS:
                began = time.perf_counter()
                answer = browser.get(base + path, timeout=30, headers={"Accept": "text/html,*/*"})
                took[path].append(time.perf_counter() - began)
                if answer.status_code == 404:
                    took.pop(path)
                    continue
                assert answer.ok, (path, answer.text[:500])
                time.sleep(0.02)
    return dict(took)

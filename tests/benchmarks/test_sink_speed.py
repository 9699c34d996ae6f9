"""Pages a second and CPU a page with each sink on, beside the same crawl without any, in one run.

pytest -m bench tests/benchmarks/test_sink_speed.py
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOSTS = 100
PAGES = 50
ROUNDS = 3
CPUS = sorted(os.sched_getaffinity(0))[:2]
SINKS = {
    "none": "",
    "jsonl": 'kind = "jsonl"\npath = "out/p.jsonl"',
    "jsonl.gz": 'kind = "jsonl"\npath = "out/p.jsonl.gz"',
    "warc": 'kind = "warc"\npath = "out/a.warc"',
    "warc.gz": 'kind = "warc"\npath = "out/a.warc.gz"',
    "mirror": 'kind = "mirror"\npath = "out/mirror"',
}

pytestmark = [pytest.mark.bench, pytest.mark.timeout(400)]


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[int]:
    command = [HERE / "site_process.py", HOSTS, PAGES, 0.0, folder / "log.json", CPUS[-1]]
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        yield int(process.stdout.readline())
        process.communicate()


def crawl(folder: Path, port: int, sink: str) -> tuple[float, float]:
    """Pages per second of elapsed time, and CPU seconds per 1,000 pages of the whole process."""
    folder.mkdir()
    seeds = "".join(f"http://h{n}.test:{port}/page/0\n" for n in range(HOSTS))
    (folder / "seeds.txt").write_text(seeds)
    (folder / "config.toml").write_text(
        f"""
        [crawl]
        seeds = ["@seeds.txt"]
        [politeness]
        delay = 0
        latency_factor = 0
        [network]
        allow = ["127.0.0.0/8"]
        resolve = {{ "*.test" = "127.0.0.1" }}
        {"[[sink]]" if sink else ""}
        {sink}
        """
    )
    command = ["-m", "crawler.cli", "crawl", "--config", folder / "config.toml"]
    with subprocess.Popen(
        [sys.executable, *map(str, command), "--db", str(folder / "c.db"), "--json", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.sched_setaffinity(process.pid, {CPUS[0]})
        assert process.stdout
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    summary = json.loads(out.splitlines()[-1])
    assert summary["visited"] == HOSTS * PAGES
    pages = HOSTS * PAGES
    return pages / summary["elapsed_s"], 1000 * (usage.ru_utime + usage.ru_stime) / pages


def test_speed_of_sinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best: dict[str, tuple[float, float]] = {}
    with serving(tmp_path) as port:
        for turn in range(ROUNDS):
            for name, sink in SINKS.items():
                rate, cpu_s = crawl(tmp_path / f"{name}-{turn}", port, sink)
                known_rate, known_cpu_s = best.get(name, (0.0, float("inf")))
                best[name] = max(rate, known_rate), min(cpu_s, known_cpu_s)
    with capsys.disabled():
        print(f"\n{HOSTS} hosts of {PAGES} pages of 7 KB, the best of {ROUNDS}")  # noqa: T201
        for name, (rate, cpu_s) in best.items():
            share = rate / best["none"][0]
            figures = f"{rate:7,.0f} pages/s ({share:4.0%})  {cpu_s:5.2f} CPU s per 1,000 pages"
            print(f"  {name:9} {figures}")  # noqa: T201
    assert best["jsonl"][0] > 0.3 * best["none"][0]

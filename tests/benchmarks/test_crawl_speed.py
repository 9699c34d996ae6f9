"""Pages a second and CPU a page, each beside what aiohttp alone does with the same web; and how
late the crawl is when every host rests.

    pytest -m bench tests/benchmarks

The web is a process of its own on the second CPU, the crawl (the command, whole) is on the first.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOSTS = 200
PAGES = 50
CPUS = sorted(os.sched_getaffinity(0))[:2]
FILLED = os.environ.get("COURTLY_BENCH_DB", "")

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@dataclass
class Site:
    port: int
    log: list[tuple[str, float, float, str]]  # filled when the site has closed


@contextlib.contextmanager
def serving(folder: Path, hosts: int, pages: int, latency_s: float) -> Iterator[Site]:
    log = folder / "log.json"
    command = [HERE / "site_process.py", hosts, pages, latency_s, log, CPUS[-1]]
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        site = Site(int(process.stdout.readline()), [])
        yield site
        process.communicate()
    site.log += [tuple(entry) for entry in json.loads(log.read_text())]


@dataclass
class Run:
    pages: int
    elapsed_s: float  # as the program says of itself: without starting Python
    cpu_s: float  # of the whole process
    peak_mb: float

    def __str__(self) -> str:
        return (
            f"{self.pages / self.elapsed_s:7,.0f} pages/s  "
            f"{1000 * self.cpu_s / self.pages:6.2f} CPU s per 1,000 pages  "
            f"{self.elapsed_s:6.2f} s  {self.peak_mb:5.0f} MB"
        )


def run(arguments: Sequence[object]) -> tuple[dict[str, float], float, float]:
    """Run a Python process on the first CPU; return the JSON that it prints last, its CPU
    seconds and its peak MB."""
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        os.sched_setaffinity(process.pid, {CPUS[0]})
        assert process.stdout
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    cpu_s = usage.ru_utime + usage.ru_stime
    return json.loads(out.splitlines()[-1]), cpu_s, usage.ru_maxrss / 1000


def write_config(folder: Path, site: Site, *, hosts: int, delay_s: float) -> Path:
    seeds = folder / "seeds.txt"
    seeds.write_text("".join(f"http://h{n}.test:{site.port}/page/0\n" for n in range(hosts)))
    config = folder / "config.toml"
    config.write_text(
        f"""
        [crawl]
        seeds = ["@seeds.txt"]
        [scope]
        sitemap_paths = []
        [politeness]
        delay = {delay_s}
        latency_factor = 0
        [network]
        allow = ["127.0.0.0/8"]
        resolve = {{ "*.test" = "127.0.0.1" }}
        [storage]
        url = "sqlite:crawl.db"
        """
    )
    return config


def crawl(folder: Path, site: Site, *, hosts: int, delay_s: float) -> Run:
    config = write_config(folder, site, hosts=hosts, delay_s=delay_s)
    summary, cpu_s, peak_mb = run(
        ["-m", "crawler.cli", "crawl", "--config", config, "--json", "--quiet"]
    )
    return Run(int(summary["visited"]), summary["elapsed_s"], cpu_s, peak_mb)


def floor(site: Site, *, hosts: int, pages: int) -> Run:
    result, cpu_s, peak_mb = run([HERE / "raw_client.py", hosts, pages, site.port])
    return Run(int(result["pages"]), result["elapsed_s"], cpu_s, peak_mb)


def by_host(site: Site) -> dict[str, list[tuple[float, float]]]:
    contacts = collections.defaultdict(list)
    for host, start_s, end_s, _ in site.log:
        contacts[host].append((start_s, end_s))
    return {host: sorted(times) for host, times in contacts.items()}


def gaps(site: Site) -> list[float]:
    return [
        later[0] - earlier[1]
        for times in by_host(site).values()
        for earlier, later in itertools.pairwise(times)
    ]


@pytest.mark.parametrize("latency_s", [0.0, 0.1])
def test_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str], latency_s: float) -> None:
    with serving(tmp_path, HOSTS, PAGES, latency_s) as site:
        raw = floor(site, hosts=HOSTS, pages=PAGES)
    with serving(tmp_path, HOSTS, PAGES, latency_s) as site:
        ours = crawl(tmp_path, site, hosts=HOSTS, delay_s=0)
    with capsys.disabled():
        print(f"\n{HOSTS} hosts of {PAGES} pages, server latency {latency_s * 1000:.0f} ms")  # noqa: T201
        print(f"  crawl         {ours}\n  aiohttp alone {raw}")  # noqa: T201

    assert ours.pages == HOSTS * PAGES
    paths = [(host, path) for host, _, _, path in site.log]
    assert len(paths) == len(set(paths)) == HOSTS * (PAGES + 1)
    assert min(gaps(site)) >= 0, "never two at once at a host"
    with contextlib.closing(sqlite3.connect(tmp_path / "crawl.db")) as db:
        assert db.execute("SELECT count(*) FROM visited").fetchone() == (HOSTS * PAGES,)
        assert db.execute("SELECT count(*) FROM queued").fetchone() == (0,)
    assert ours.pages / ours.elapsed_s > 0.1 * raw.pages / raw.elapsed_s


@pytest.mark.skipif(not FILLED, reason="COURTLY_BENCH_DB names no file that test_growth.py filled")
def test_a_crawl_into_a_file_of_millions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same crawl into an empty database and into one with millions of URLs on other hosts,
    alternately."""
    copy = tmp_path / "filled.db"
    shutil.copyfile(FILLED, copy)
    with contextlib.closing(sqlite3.connect(copy)) as db:
        (urls,) = db.execute("SELECT count(*) FROM urls").fetchone()
        db.execute("UPDATE slots SET next_at = next_at + 1e9, ready_at = ready_at + 1e9")
        db.commit()
    runs: dict[str, list[Run]] = {"empty": [], "filled": []}
    for turn in range(2):
        for name, found in runs.items():
            folder = tmp_path / f"{name}{turn}"
            folder.mkdir()
            if name == "filled":
                shutil.copyfile(copy, folder / "crawl.db")
                os.sync()  # else the first checkpoint would wait until the copy is on the disk
            with serving(folder, HOSTS, PAGES, 0.0) as site:
                done = crawl(folder, site, hosts=HOSTS, delay_s=0)
            assert len(site.log) == HOSTS * (PAGES + 1)  # with each robots.txt
            found.append(replace(done, pages=HOSTS * PAGES))  # it counts what was there, too
    best = {name: min(run.cpu_s for run in found) for name, found in runs.items()}
    with capsys.disabled():
        print(f"\n{HOSTS} hosts of {PAGES} pages, into an empty file and into {urls:,} URLs")  # noqa: T201
        for name, found in runs.items():
            print(*(f"  {name:7} {run}" for run in found), sep="\n")  # noqa: T201
        print(f"  {best['filled'] / best['empty']:.2f} of the CPU")  # noqa: T201
    assert best["filled"] / best["empty"] < 1.3


@pytest.mark.parametrize(
    ("hosts", "pages", "delay_s", "p99_ms_max"), [(50, 12, 0.5, 10), (2_000, 4, 2.0, 50)]
)
def test_lateness(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    hosts: int,
    pages: int,
    delay_s: float,
    p99_ms_max: float,
) -> None:
    """Time from the end of a host's delay to its next contact, by the server's clock."""
    bare_ms = run([HERE / "bare_timers.py"])[0]["p99_ms"]
    with serving(tmp_path, hosts, pages, 0.0) as site:
        crawl(tmp_path, site, hosts=hosts, delay_s=delay_s)
    late_ms = sorted(1000 * (gap - delay_s) for gap in gaps(site))
    p50, p99 = statistics.median(late_ms), late_ms[int(len(late_ms) * 0.99)]
    rate = delay_s / statistics.mean(gaps(site))
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{hosts} hosts, delay {delay_s} s: late by {p50:.1f} ms (p50), {p99:.1f} ms (p99),"
            f" {late_ms[-1]:.1f} ms (most) over {len(late_ms)} rests; {rate:.4f} of the ideal rate"
            f" (bare timers: {bare_ms:.1f} ms (p99))"
        )
    assert late_ms[0] >= -0.001
    assert p99 < p99_ms_max + bare_ms
    assert rate > 0.99

"""Whole crawls on PostgreSQL: one worker beside one on SQLite, in pages per CPU second; and two
workers beside one, in pages per second.

    pytest -m bench -s tests/benchmarks/test_workers_speed.py

The web is a process of its own. The server writes to the disk, as in production. Pairs of crawls
are compared, one after the other, so that a noisy machine affects both; COURTLY_BENCH_PAIRS sets
how many (3).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.test_crawl_speed import Run, Site, run, serving
from tests.benchmarks.test_shared_store_speed import cpu_s_of
from tests.postgres_server import PostgresServer, running_server

PAIRS = int(os.environ.get("COURTLY_BENCH_PAIRS", "3"))
HOSTS, PAGES = 200, 50
GROUPS = Path("/sys/fs/cgroup/cpu")
QUOTA = 0.4  # of a CPU
PART = (0.2, 0.8)  # of the pages of a crawl, whose rate is taken: without its start and its end

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1_200)]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server(fsync=True) as running:
        yield running


def write_config(folder: Path, site: Site, url: str) -> Path:
    folder.mkdir()
    (folder / "seeds.txt").write_text(
        "".join(f"http://h{n}.test:{site.port}/page/0\n" for n in range(HOSTS))
    )
    config = folder / "config.toml"
    config.write_text(
        f"""
        [crawl]
        seeds = ["@seeds.txt"]
        [scope]
        sitemap_paths = []
        [politeness]
        delay = 0
        latency_factor = 0
        [network]
        allow = ["127.0.0.0/8"]
        resolve = {{ "*.test" = "127.0.0.1" }}
        [storage]
        url = "{url}"
        """
    )
    return config


def check_log(site: Site) -> None:
    """Each page was requested once, and each robots.txt."""
    paths = [(host, path) for host, _, _, path in site.log]
    assert len(paths) == len(set(paths)) == HOSTS * (PAGES + 1)


# ---------------------------------------------------------------- one worker


def test_one_worker_beside_one_on_sqlite(tmp_path: Path, server: PostgresServer) -> None:
    runs: dict[str, list[Run]] = {"SQLite": [], "PostgreSQL": []}
    server_s = []
    for pair in range(PAIRS):
        for name, found in runs.items():
            folder = tmp_path / f"{name}{pair}"
            url = server.create_database() if name == "PostgreSQL" else "sqlite:crawl.db"
            with serving(tmp_path, HOSTS, PAGES, 0.0) as site:
                config = write_config(folder, site, url)
                before_s = cpu_s_of(server)
                summary, cpu_s, peak_mb = run(
                    ["-m", "crawler.cli", "crawl", "--config", config, "--json", "--quiet"]
                )
                if name == "PostgreSQL":
                    server_s.append(cpu_s_of(server) - before_s)
                    server.drop_database(url)
            check_log(site)
            assert summary["visited"] == HOSTS * PAGES
            found.append(Run(HOSTS * PAGES, summary["elapsed_s"], cpu_s, peak_mb))
    say(f"\n{HOSTS * PAGES:,} pages on {HOSTS} hosts, one worker")
    for name, found in runs.items():
        for one in found:
            say(f"  {name:10} {one}")
    ratios = [
        sqlite.cpu_s / postgres.cpu_s
        for sqlite, postgres in zip(runs["SQLite"], runs["PostgreSQL"], strict=True)
    ]
    ratio = statistics.median(ratios)
    each_s = 1e3 * statistics.median(server_s) / (HOSTS * PAGES)
    say(f"  pages per CPU second of the worker: {ratio:.2f} of those on SQLite (median of pairs)")
    say(f"  the server takes {each_s:.2f} CPU s per 1,000 pages more")
    assert ratio >= 0.6


# ---------------------------------------------------------------- two workers


def pages_per_s(site: Site) -> float:
    """The rate in the middle of a crawl, by the log of the web."""
    times_s = sorted(end_s for _, _, end_s, path in site.log if path != "/robots.txt")
    first, last = (int(part * len(times_s)) for part in PART)
    return (last - first) / (times_s[last] - times_s[first])


def limits(workers: int) -> list[Path]:
    """A control group for each worker, with QUOTA of a CPU; none where they cannot be made."""
    groups = [GROUPS / f"courtly-bench-{os.getpid()}-{number}" for number in range(workers)]
    try:
        for group in groups:
            group.mkdir(exist_ok=True)
            (group / "cpu.cfs_quota_us").write_text(str(int(QUOTA * 1e5)))
            (group / "cpu.cfs_period_us").write_text("100000")
    except OSError:
        return []
    return groups


def crawl_with(
    workers: int, folder: Path, server: PostgresServer, groups: list[Path]
) -> tuple[float, float, float]:
    """Pages per second, and CPU seconds per 1,000 pages of the workers and of the server."""
    url = server.create_database()
    with serving(folder.parent, HOSTS, PAGES, 0.0) as site:
        config = write_config(folder, site, url)
        before_s = cpu_s_of(server)
        usage = os.times()
        entered = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        command = [sys.executable, "-m", "crawler.cli", "crawl", "--config", str(config), "--quiet"]
        running = [
            subprocess.Popen(
                ["sh", "-c", entered, str(groups[number]), *command] if groups else command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number in range(workers)
        ]
        assert [one.wait() for one in running] == [0] * workers
        after = os.times()
        server_s = cpu_s_of(server) - before_s
    server.drop_database(url)
    check_log(site)
    cpu_s = sum(after[2:4]) - sum(usage[2:4])
    thousands = HOSTS * PAGES / 1e3
    return pages_per_s(site), cpu_s / thousands, server_s / thousands


@pytest.mark.parametrize("limited", [True, False])
def test_two_workers_beside_one(tmp_path: Path, server: PostgresServer, *, limited: bool) -> None:
    """limited: to a share of a CPU each, so that the web and the server have the rest. Without a
    limit, one worker, the web and the server keep two CPUs busy, and a second gains nothing."""
    groups = limits(2) if limited else []
    if limited and not groups:
        pytest.skip("no control groups for CPU time here")
    ratios = []
    say(f"\n{HOSTS * PAGES:,} pages on {HOSTS} hosts, {os.cpu_count()} CPUs")
    if limited:
        say(f"  {QUOTA:.0%} of a CPU for each worker")
    for pair in range(PAIRS):
        rates = []
        for workers in (1, 2):
            folder = tmp_path / f"{workers}-{pair}"
            found = crawl_with(workers, folder, server, groups)
            rates.append(found[0])
            say(
                f"  {workers} workers: {found[0]:7,.0f} pages/s; CPU s per 1,000 pages:"
                f" {found[1]:.2f} of the workers, {found[2]:.2f} of the server"
            )
        ratios.append(rates[1] / rates[0])
    for group in groups:
        group.rmdir()
    ratio = statistics.median(ratios)
    say(f"  two workers: {ratio:.2f} times the pages/s of one (median of pairs)")
    assert ratio >= (1.5 if limited else 0.8)

"""How fast workers on one PostgreSQL database store pages: 1, 2 and 4 of them, and bytes per URL.

`pytest -m bench -s tests/benchmarks/test_shared_store_speed.py`; COURTLY_BENCH_PAGES sets the pages
of each run. The server, which writes to the disk as in production, is on the same machine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from storage.sqlite import file_store
from tests.benchmarks.test_store_speed import HOSTS, crawl, say
from tests.postgres_server import PostgresServer, running_server, schema

PAGES = int(os.environ.get("COURTLY_BENCH_PAGES", "20000"))

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server(fsync=True) as running:
        yield running


def cpu_s_of(server: PostgresServer) -> float:
    """CPU seconds of the server's processes, also of those that have ended."""
    ticks = 0
    main = int((server.data / "postmaster.pid").read_text().split()[0])
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(entry.name) == main:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == main:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def run_workers(url: str, count: int, pages: int, size: int) -> tuple[float, float]:
    """Pages per second of all, and the CPU seconds of a worker per 1,000 pages."""
    each = pages // count
    workers = [
        subprocess.Popen(
            [
                sys.executable, "-m", "tests.benchmarks.store_worker",
                url, str(n * HOSTS), str(each), str(size),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(count)
    ]  # fmt: skip
    time.sleep(1.5)  # they have imported everything
    began_s = time.monotonic()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    lines = [worker.communicate()[0].split() for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    done = sum(int(line[0]) for line in lines)
    wall_s = max(float(line[1]) for line in lines)
    assert time.monotonic() - began_s >= wall_s
    return done / wall_s, sum(float(line[2]) for line in lines) / done * 1e3


async def size_of(url: str) -> tuple[int, int]:
    """Bytes of the database's tables and indexes, and its URLs."""
    db = await asyncpg.connect(url)
    try:
        await db.execute("VACUUM")
        size = await db.fetchval(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
        )
        return int(size), int(await db.fetchval("SELECT count(*) FROM urls"))
    finally:
        await db.close()


@pytest.mark.parametrize("size", [20, 100, 500])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_pages_committed_per_second(server: PostgresServer, workers: int, size: int) -> None:
    url = server.create_database()
    server_s = cpu_s_of(server)
    pages_per_s, cpu_s = run_workers(url, workers, PAGES, size)
    server_s = (cpu_s_of(server) - server_s) / PAGES * 1e3
    size_bytes, urls = asyncio.run(size_of(url))
    say(
        f"\n{workers} workers, commits of {size} pages: {pages_per_s:.0f} pages/s; CPU s per 1,000"
        f" pages: {cpu_s:.2f} of the workers, {server_s:.2f} of the server;"
        f" {size_bytes / urls:.0f} bytes a URL"
    )
    assert pages_per_s > 200
    server.drop_database(url)


FILL = """
INSERT INTO slots (id, name, queued, ready_at, next_at)
  SELECT n::bigint * 256 + n % 256, 'www.known-' || n || '.example', {each}, 0.0, 0.0
  FROM generate_series(1, {hosts}) AS n;
INSERT INTO origins (id, slot, name, hostname, queued)
  SELECT id, id, 'https://' || name, name, {each} FROM slots;
INSERT INTO urls (id, origin, fingerprint, depth, priority, turn, flags, state, hidden, path)
  SELECT n::bigint * 256 + o.id % 256, o.id, hashtextextended(n::text, 0), 3, 0.0, 0, 0, 0, false,
    '/articles/' || n % 37 || '/a-title-of-some-' || n || '-words-and-a-few-more.html'
  FROM generate_series(1, {urls}) AS n JOIN origins AS o ON o.id = (n % {hosts} + 1)::bigint * 256
    + (n % {hosts} + 1) % 256;
INSERT INTO totals SELECT 0, {urls}, 0, 0, 0, {hosts}, 0;
UPDATE slots SET paused = 1;
SELECT setval('url_numbers', {urls} + 1), setval('slot_numbers', {hosts} + 1),
  setval('origin_numbers', {hosts} + 1);
ANALYZE;
"""


def test_beside_ten_million_known_urls(server: PostgresServer) -> None:
    """The same work in an empty database, and in one that knows COURTLY_BENCH_KNOWN URLs."""
    known = int(os.environ.get("COURTLY_BENCH_KNOWN", "10000000"))
    hosts = known // 500
    rates = []
    for filled in (False, True):
        url = server.create_database()
        server.execute(schema(), url=url)
        if filled:
            began_s = time.monotonic()
            server.execute(FILL.format(urls=known, hosts=hosts, each=known // hosts), url=url)
            size_bytes, urls = asyncio.run(size_of(url))
            say(
                f"\n{urls:,} URLs filled in {time.monotonic() - began_s:.0f} s:"
                f" {size_bytes / urls:.0f} bytes a URL"
            )
        server.execute("CHECKPOINT", url=url)
        pages_per_s, cpu_s = run_workers(url, 2, PAGES, 100)
        say(f"2 workers: {pages_per_s:.0f} pages/s; CPU s per 1,000 pages: {cpu_s:.2f}")
        rates.append(pages_per_s)
        server.drop_database(url)
    say(f"{rates[1] / rates[0]:.2f} times the pages per second of an empty database")
    assert rates[1] > 0.4 * rates[0]


async def test_beside_sqlite(tmp_path: Path) -> None:
    store = file_store(tmp_path / "crawl.db", wall=time.time)
    began_s, cpu_s = time.monotonic(), time.process_time()
    done, _, _ = await crawl(store, PAGES)
    wall_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    await store.close()
    say(f"\nSQLite: {done / wall_s:.0f} pages/s; {cpu_s / done * 1e3:.2f} CPU s per 1,000 pages")

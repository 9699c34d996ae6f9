"""What a frontier of millions costs: the store's rates, bytes on disk, a crawl's memory and start.

    pytest -m bench -s tests/benchmarks/test_growth.py
    COURTLY_BENCH_URLS=10000000 pytest -m bench -s tests/benchmarks/test_growth.py

COURTLY_BENCH_DB names a file that is filled once and used again. A fifth of the URLs is queued.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pytest

from storage.sqlite import file_store, maintenance
from storage.store import Batch, Contact, HostClock, HostUpdate, Lease, Link, Visited

URLS = int(os.environ.get("COURTLY_BENCH_URLS", "200000"))
FILE = os.environ.get("COURTLY_BENCH_DB")
PER_HOST = 100  # so that 10 million URLs are 100,000 hosts
ROUNDS = 5  # in which a host's URLs are found: the tree of fingerprints grows in the middle
LINKS = 50
NEW = 2  # of them never seen
# The others are among so many URLs of their host, whatever its number of them: a page is the same
# work in every file. (Where among a host's fingerprints they are is chance.)
SHOWN = 20
CYCLES = 4_000  # pages of a measurement
BATCH = 20
PORT = 18_999
RUN_S = 15  # less than its hosts need

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]


def say(text: str) -> None:
    """Print a figure, for `pytest -s`."""
    print(text, flush=True)  # noqa: T201


def name_of(host: int) -> str:
    return f"www.host-{host:06}.test"


def url_of(host: int, n: int) -> str:
    """As long as real URLs: the median in Common Crawl is about 70 characters."""
    return f"http://{name_of(host)}:{PORT}/articles/{n % 37:03}/a-title-of-some-{n:06}-words.html"


def link(host: int, n: int) -> Link:
    return Link(url=url_of(host, n), slot=name_of(host), host=name_of(host), depth=1, seed=False)


async def fill(path: Path, urls: int, per_host: int = PER_HOST) -> float:
    """A database of so many URLs, four fifths of them visited; gives links inserted a second.

    Every host has as many pages as there are rounds, each of which shows some of its URLs."""
    store = file_store(path, wall=time.time)
    session = await store.open_session("fill")
    hosts, spent_s = max(1, urls // per_host), 0.0
    each = per_host // ROUNDS
    await store.add([Link(url=url_of(0, 0), slot=name_of(0), host=name_of(0), depth=0, seed=True)])
    for first in range(0, hosts, 1_000):
        await store.add([link(host, 0) for host in range(first, min(hosts, first + 1_000))])
    for turn in range(ROUNDS):
        if turn and each >= 10:  # of fewer a host might have none left to visit
            await store.close()
            visit(path)
            session = await store.open_session("fill")
        for first in range(0, hosts, 200):
            leases = await store.claim(session, hosts=200, urls_per_host=1)
            assert len(leases) == min(200, hosts - first)
            outcomes = [
                page(lease, [link(host_of(lease), turn * each + n) for n in range(each)])
                for lease in leases
            ]
            batch = Batch(outcomes=outcomes, hosts=[update(lease) for lease in leases])
            start_s = time.perf_counter()
            await store.complete(session, batch)
            spent_s += time.perf_counter() - start_s
    await store.close()
    visit(path)
    return hosts * per_host / spent_s


def host_of(lease: Lease) -> int:
    return int(lease.slot[9:15])


def page(lease: Lease, links: list[Link]) -> Visited:
    return Visited(
        id=lease.prefetched.urls[0].id, slot=lease.slot, status=200, fetched_at=time.time(),
        content_type="text/html; charset=utf-8", body_bytes=7_000, elapsed_s=0.0625,
        title="A title of some words", links=links,
        body_hash=blake2b(lease.slot.encode(), digest_size=8).hexdigest(),
    )  # fmt: skip


def update(lease: Lease) -> HostUpdate:
    """Return the host after one contact."""
    clock = HostClock(delay_s=1.0, delay_source="delay", latency_s=0.0625, contacts=9)
    contact = Contact(start_at=1.0, end_at=1.0625, kind="page", status=200)
    return HostUpdate(
        slot=lease.slot, epoch=lease.epoch, clock=clock, contacts=[contact], release=True
    )


def visit(path: Path) -> None:
    """Mark four fifths of the URLs as visited directly; crawling them would take long."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript("""
        BEGIN;
        INSERT INTO pages (
          id, kind, fetched_ms, body_bytes, elapsed_us, title, body_hash
        ) SELECT
          id, 1, 1800000000123 + id, 7000, 62500 + id % 9999, 'A title of some words', random()
        FROM urls WHERE state = 0 AND id % 5;
        UPDATE urls SET state = 1 WHERE state = 0 AND id % 5;
        UPDATE origins SET
          queued = u.queued, visited = u.visited, body_bytes = 7000 * u.visited
        FROM (
          SELECT origin, sum(state = 0) AS queued, sum(state = 1) AS visited
          FROM urls GROUP BY origin
        ) AS u WHERE u.origin = origins.id;
        UPDATE slots SET queued = o.queued, visited = o.visited, body_bytes = o.body_bytes
        FROM origins AS o WHERE o.slot = slots.id;
        COMMIT;
    """)
    db.close()


@dataclass
class Rates:
    """The best of several runs; rates per CPU second do not include what others do to the disk."""

    pages_per_s: float
    pages_per_cpu_s: float
    links_per_s: float
    links_per_cpu_s: float
    open_s: float

    def best(self, other: Rates) -> Rates:
        return Rates(
            max(self.pages_per_s, other.pages_per_s),
            max(self.pages_per_cpu_s, other.pages_per_cpu_s),
            max(self.links_per_s, other.links_per_s),
            max(self.links_per_cpu_s, other.links_per_cpu_s),
            min(self.open_s, other.open_s),
        )


class Spent:
    """Seconds and CPU seconds of a block."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    def __enter__(self) -> None:
        self._start = (time.perf_counter(), time.process_time())

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._start[0]
        self.cpu_s += time.process_time() - self._start[1]


async def cycle(path: Path, hosts: int, number: int) -> Rates:
    """The claim-take-commit cycle with 50 links a page, and inserting pages of 50 links, half of
    which are new, with numbers from `number` on. Every page is of another host: nothing of it is
    in any cache."""
    cycles, opening, inserts = Spent(), Spent(), Spent()
    store = file_store(path, wall=time.time)
    with opening, cycles:
        session = await store.open_session("bench")
        leases = list(await store.claim(session, hosts=256, urls_per_host=16))
    rng = random.Random(len(leases))
    done = 0
    while done < CYCLES and leases:
        outcomes = []
        for lease in leases[:BATCH]:
            shown = [rng.randrange(SHOWN) for _ in range(LINKS - NEW)]
            number += NEW
            numbers = (*shown, *range(number, number + NEW))
            outcomes.append(page(lease, [link(host_of(lease), n) for n in numbers]))
        updates = [update(lease) for lease in leases[:BATCH]]
        del leases[:BATCH]
        with cycles:
            await store.complete(session, Batch(outcomes=outcomes, hosts=updates))
            if not leases:
                leases = list(await store.claim(session, hosts=256, urls_per_host=16))
        done += len(outcomes)
    groups = [
        [link(host, number + 10**6 + n if n % 2 else n // 2 % SHOWN) for n in range(LINKS)]
        for host in rng.sample(range(hosts), min(hosts, 1_000))
    ]
    with inserts:
        for n in range(0, len(groups), BATCH):
            await store.add([one for group in groups[n : n + BATCH] for one in group])
    await store.close()
    links = len(groups) * LINKS
    return Rates(
        pages_per_s=done / cycles.wall_s,
        pages_per_cpu_s=done / cycles.cpu_s,
        links_per_s=links / inserts.wall_s,
        links_per_cpu_s=links / inserts.cpu_s,
        open_s=opening.wall_s,
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    path = Path(FILE) if FILE else tmp_path_factory.mktemp("growth") / "crawl.db"
    if not path.exists():
        start_s = time.perf_counter()
        rate = asyncio.run(fill(path, URLS))
        spent_s = time.perf_counter() - start_s
        say(f"\nfilled with {URLS:,} URLs: {rate:,.0f} links/s, {spent_s:.0f} s")
    return path


def test_rates_hold_as_the_frontier_grows(filled, tmp_path):
    hosts = URLS // PER_HOST
    small = tmp_path / "small.db"
    asyncio.run(fill(small, 100_000, per_host=SHOWN))
    big = tmp_path / "big.db"
    shutil.copyfile(filled, big)  # measuring adds to it
    os.sync()  # else the first checkpoint would wait until the copy is on the disk
    rates: dict[Path, Rates] = {}
    for number in (10**6, 2 * 10**6, 3 * 10**6):
        for path, count in ((small, 5_000), (big, hosts)):
            found = asyncio.run(cycle(path, count, number))
            rates[path] = found.best(rates.get(path, found))
    for path, rate in rates.items():
        say(
            f"\n{maintenance.info(path).urls:,} URLs:"
            f" {rate.pages_per_s:,.0f} pages/s committed with"
            f" {LINKS} links each ({rate.pages_per_cpu_s:,.0f} a CPU second),"
            f" {rate.links_per_s:,.0f} links/s inserted, half new"
            f" ({rate.links_per_cpu_s:,.0f} a CPU second),"
            f" first claim {rate.open_s * 1e3:.0f} ms after the opening"
        )
    larger, smaller = rates[big], rates[small]
    pages = larger.pages_per_s / smaller.pages_per_s
    cpu = larger.pages_per_cpu_s / smaller.pages_per_cpu_s
    say(
        f"\nlarger to smaller: {pages:.2f} of the pages ({cpu:.2f} a CPU second),"
        f" {larger.links_per_s / smaller.links_per_s:.2f} of the links"
        f" ({larger.links_per_cpu_s / smaller.links_per_cpu_s:.2f} a CPU second)"
    )
    assert cpu > 0.5
    assert rates[big].open_s < 1.0


def test_bytes_per_url(filled, tmp_path):
    found = maintenance.info(filled)
    text = f"\n{found.bytes:,} bytes for {found.urls:,} URLs: {found.bytes_per_url:.0f} each"
    if URLS <= 1_000_000:
        assert maintenance.check(filled) == []
        copy = tmp_path / "copy.db"
        shutil.copyfile(filled, copy)
        _, after = maintenance.vacuum(copy)
        text += f", {after / found.urls:.0f} after vacuum"
    say(text)
    assert found.bytes_per_url is not None
    assert found.bytes_per_url < 165


class Site(asyncio.Protocol):
    """Answers every request with one small page and records when the first one came."""

    first_s: float | None = None
    asked = 0
    BODY = b"<title>A page</title><a href=/articles/>all</a>"
    PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 47\r\n\r\n" + BODY
    ROBOTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\n"
    ROBOTS += b"User-agent: *\nDisallow:\n"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        Site.first_s = Site.first_s or time.monotonic()
        Site.asked += 1
        robots = data.startswith(b"GET /robots.txt ")
        self.transport.write(self.ROBOTS if robots else self.PAGE)


def test_memory_and_start_of_a_crawl(filled, tmp_path):
    """Run the command itself for a while on a copy of the database."""
    path = tmp_path / "crawl.db"
    shutil.copyfile(filled, path)
    config = tmp_path / "crawl.toml"
    config.write_text(
        "[crawl]\npatience = 1\nconcurrency = 64\n"
        '[politeness]\ndelay = 1\n[scope]\nfollow = "any"\n[network]\nallow = ["127.0.0.0/8"]\n'
        'resolve = { "*.test" = "127.0.0.1" }\n'
        f'[storage]\nurl = "sqlite:{path}"\n'
    )

    async def run() -> tuple[int, float, float]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            Site, "127.0.0.1", PORT, backlog=4096, family=socket.AF_INET
        )
        Site.first_s, Site.asked = None, 0
        start_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "crawler.cli", "crawl", "--config", str(config), "--quiet",
            stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            await asyncio.sleep(RUN_S)
            status = Path(f"/proc/{process.pid}/status").read_text()  # noqa: ASYNC240
            peak = int(status.partition("VmHWM:")[2].split()[0])
        finally:
            process.kill()
            _, errors = await process.communicate()
            server.close()
        assert Site.first_s, errors
        return peak, Site.first_s - start_s, Site.asked / RUN_S

    async def empty() -> float:
        start_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import crawler.cli.crawl, crawler.app"
        )
        await process.wait()
        return time.monotonic() - start_s

    peak, first_s, rate = asyncio.run(run())
    import_s = asyncio.run(empty())
    say(
        f"\na crawl over {URLS:,} URLs on {URLS // PER_HOST:,} hosts: peak {peak / 1024:.0f} MiB;"
        f" first request {first_s:.2f} s after the start of the process ({import_s:.2f} s of it"
        f" Python and imports); {rate:.0f} requests/s"
    )
    assert peak < 300 * 1024

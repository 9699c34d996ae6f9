"""How fast the store is: links in, the claim-take-commit cycle, bytes on disk.

`pytest -m bench -s tests/benchmarks/test_store_speed.py`; COURTLY_BENCH_PAGES sets the size.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.sqlite import file_store
from storage.store import (
    Batch,
    Contact,
    HostClock,
    HostUpdate,
    Lease,
    Link,
    Prefetch,
    Store,
    Visited,
)

PAGES = int(os.environ.get("COURTLY_BENCH_PAGES", "20000"))
HOSTS = 200
LINKS = 50
BATCH = 20  # pages a commit, one of each host
ROUNDS = 15  # of which the best counts

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


def say(text: str) -> None:
    """Print a figure, for `pytest -s`."""
    print(text)  # noqa: T201


def urls_of(host: int, pages: int) -> list[str]:
    """URLs as long as real ones: the median in Common Crawl is about 70 characters."""
    return [
        f"https://www.host-{host:05}.example/articles/{n % 37:03}/a-title-of-some-{n:06}-words.html"
        for n in range(pages)
    ]


def link(url: str, host: int) -> Link:
    name = f"www.host-{host:05}.example"
    return Link(url=url, slot=name, host=name, depth=1, anchor="Read more" if host % 2 else None)


class Web:
    """Pages whose links are mostly known; each page has at most a few new ones."""

    def __init__(self, pages: int, *, first: int = 0) -> None:
        """first: the number of its first host."""
        self.random = random.Random(first + 1)
        self.each = pages // HOSTS + 1
        self.first = first
        self.urls = [urls_of(first + host, self.each) for host in range(HOSTS)]
        self.shown = [1] * HOSTS

    def seeds(self) -> list[Link]:
        return [link(urls[0], self.first + host) for host, urls in enumerate(self.urls)]

    def links(self, host: int) -> list[Link]:
        shown = self.shown[host]
        self.shown[host] = min(self.each, shown + 2)
        near = [self.random.randrange(max(1, self.shown[host])) for _ in range(LINKS - 2)]
        numbers = [*range(shown, self.shown[host]), *near]
        urls = self.urls[host]
        return [link(urls[n], self.first + host) for n in numbers]


def page(lease: Lease, key: int, links: list[Link]) -> Visited:
    return Visited(
        id=key, slot=lease.slot, status=200, fetched_at=1_800_000_000.25,
        content_type="text/html; charset=utf-8", body_bytes=7_000, elapsed_s=0.0625,
        title="A title of some words", links=links,
    )  # fmt: skip


def batches(
    web: Web, leases: list[Lease], hands: dict[str, list[int]], size: int = BATCH
) -> Iterator[Batch]:
    """Commits of pages of alternating hosts that request the next URLs of each."""
    clock = HostClock(
        next_in_s=0.0, delay_s=1.0, delay_source="delay", latency_s=0.0625, contacts=9
    )
    contact = Contact(start_at=1.0, end_at=1.0625, kind="page", status=200)
    start = 0
    while any(hands.values()):
        chosen = [leases[(start + n) % len(leases)] for n in range(size)]
        start += size
        outcomes, hosts, wants = [], [], []
        for lease in chosen:
            hand = hands[lease.slot]
            if not hand:
                continue
            host = int(lease.slot.split("-")[1].split(".")[0]) - web.first
            outcomes.append(page(lease, hand.pop(0), web.links(host)))
            hosts.append(
                HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=clock, contacts=[contact])
            )
            if not hand:
                wants.append(Prefetch(slot=lease.slot, count=8))
        if outcomes:
            yield Batch(outcomes=outcomes, hosts=hosts, prefetch=wants)


async def crawl(
    store: Store, pages: int, *, first: int = 0, size: int = BATCH
) -> tuple[int, float, float]:
    """Pages committed, seconds spent in the store, and the share of new links."""
    web = Web(pages, first=first)
    session = await store.open_session("bench")
    seeds = web.seeds()
    await store.add(seeds)
    leases = list((await store.acquire(session, [seed.slot for seed in seeds])).values())
    done = await store.complete(
        session,
        Batch(
            hosts=[HostUpdate(slot=one.slot, epoch=one.epoch, clock=one.clock) for one in leases],
            prefetch=[Prefetch(slot=one.slot, count=8) for one in leases],
        ),
    )
    hands = {slot: [q.id for q in found.urls] for slot, found in done.prefetched.items()}
    return await visit(store, session, batches(web, leases, hands, size), hands, pages)


async def visit(
    store: Store,
    session: int,
    commits: Iterator[Batch],
    hands: dict[str, list[int]],
    pages: int,
) -> tuple[int, float, float]:
    """As `crawl`, of leased hosts."""
    done, spent_s, new = 0, 0.0, 0
    for batch in commits:
        start_s = time.perf_counter()
        result = await store.complete(session, batch)
        spent_s += time.perf_counter() - start_s
        done += len(batch.outcomes)
        new += sum(result.added.values())
        for slot, hand in result.prefetched.items():
            hands[slot] += [q.id for q in hand.urls]
        if done >= pages:
            break
    return done, spent_s, new / (done * LINKS)


async def test_pages_committed_per_second(tmp_path):
    """The claim-take-commit cycle with 50 links a page, most of them known."""
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=time.time)
    cpu_s = time.process_time()
    done, spent_s, new = await crawl(store, PAGES)
    cpu_s = time.process_time() - cpu_s
    stats = await store.stats()
    await store.close()
    known = stats.visited + stats.queued
    say(
        f"\n{done} pages in {spent_s:.2f} s: {done / spent_s:.0f} pages/s"
        f" ({new:.1%} of the links new); {cpu_s / done * 1e3:.2f} CPU s per 1,000 pages all told;"
        f" {path.stat().st_size / known:.0f} bytes a URL ({stats.visited} visited of {known})"
    )
    assert done / spent_s > 1_000


def bare_inserts(path: Path, pages: int) -> float:
    """CPU seconds per page for only the rows of a page with one new link: three `executemany`
    per batch into similar tables, in one transaction."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript("""
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = NORMAL;
        CREATE TABLE urls (id INTEGER PRIMARY KEY, origin, path, state, depth, referrer);
        CREATE TABLE pages (id INTEGER PRIMARY KEY, status, fetched_ms, type, bytes, us, title);
        CREATE TABLE known (origin, fingerprint, id, PRIMARY KEY (origin, fingerprint))
          WITHOUT ROWID;
    """)
    rng = random.Random(1)
    batches = []
    for first in range(0, pages, BATCH):
        keys = range(first, first + BATCH)
        urls = [(key, key % HOSTS, urls_of(0, 1)[0][40:], 0, 1, key) for key in keys]
        seen = [(key, 200, 1_800_000_000_250, 1, 7_000, 62_500, "A title of words") for key in keys]
        known = [(key % HOSTS, rng.getrandbits(63), key) for key in keys]
        batches.append((urls, seen, known))
    cpu_s = time.process_time()
    for urls, seen, known in batches:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO urls VALUES (?, ?, ?, ?, ?, ?)", urls)
        db.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)", seen)
        db.executemany("INSERT INTO known VALUES (?, ?, ?)", known)
        db.execute("COMMIT")
    cpu_s = time.process_time() - cpu_s
    db.close()
    return cpu_s / pages


class Stages:
    """Commits of one kind after the other in one store; CPU seconds per page of each kind."""

    def __init__(self, store: Store, session: int, leases: list[Lease]) -> None:
        self.store, self.session, self.leases = store, session, leases
        self.next = itertools.count(10_000)

    async def cpu_s(
        self, hands: dict[str, list[int]], *, known: int, new: int, want: bool
    ) -> float:
        """Commit a page of every host that has a prefetched one, with this number of known and
        new links."""
        clock = HostClock(next_in_s=0.0, delay_s=1.0, delay_source="delay", latency_s=0.06)
        contact = Contact(start_at=1.0, end_at=1.0625, kind="page", status=200)
        work = []
        for n in range(0, len(self.leases), BATCH):
            outcomes, hosts, wants = [], [], []
            for lease in self.leases[n : n + BATCH]:
                host = int(lease.slot.split("-")[1].split(".")[0])
                urls = urls_of(host, known)
                urls += [f"{urls[0]}-{next(self.next)}" for _ in range(new)] if new else []
                if hands:
                    key = hands[lease.slot].pop()
                    outcomes.append(page(lease, key, [link(url, host) for url in urls]))
                update = HostUpdate(
                    slot=lease.slot, epoch=lease.epoch, clock=clock, contacts=[contact]
                )
                hosts.append(update)
                if want:
                    wants.append(Prefetch(slot=lease.slot, count=8))
            work.append(Batch(outcomes=outcomes, hosts=hosts, prefetch=wants))
        cpu_s = time.process_time()
        for batch in work:
            await self.store.complete(self.session, batch)
        return (time.process_time() - cpu_s) / len(self.leases)


async def test_stages_of_a_commit_against_bare_inserts(tmp_path):
    """CPU time per page of each stage, compared with plain inserts of as many rows in the same
    run."""
    store = file_store(tmp_path / "crawl.db", wall=time.time)
    session = await store.open_session("bench")
    for host in range(HOSTS):
        await store.add([link(url, host) for url in urls_of(host, 100)])
    leases = list(await store.claim(session, hosts=HOSTS, urls_per_host=100))
    hands = {lease.slot: [queued.id for queued in lease.prefetched.urls] for lease in leases}
    stages = Stages(store, session, leases)
    kinds = {
        "clocks of 20 hosts": (False, 0, 0, False),
        "and their pages": (True, 1, 0, False),
        "with 50 known links each": (True, 50, 0, False),
        "and 5 new ones": (True, 50, 5, False),
        "and the next 8 URLs": (True, 50, 5, True),
    }
    best: dict[str, float] = {}
    floor_s = float("inf")
    for n in range(ROUNDS):
        floor_s = min(floor_s, bare_inserts(tmp_path / f"bare-{n}.db", 4_000))
        for title, (pages, known, new, want) in kinds.items():
            spent_s = await stages.cpu_s(hands if pages else {}, known=known, new=new, want=want)
            best[title] = min(best.get(title, spent_s), spent_s)
    await store.close()
    say(
        f"\nbare inserts of three rows: {floor_s * 1e6:.1f} us of CPU a page; a commit of 20 pages:"
    )
    for title, spent_s in best.items():
        say(f"  {title:26} {spent_s * 1e6:6.1f} us a page, {spent_s / floor_s:5.1f} times as much")
    assert best["and their pages"] < 15 * floor_s
    assert best["and 5 new ones"] < 30 * floor_s


async def test_pages_committed_per_second_beside_a_busy_loop(tmp_path):
    """The same while another thread computes, as the event loop of a crawl does."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(500))

    busy = threading.Thread(target=compute)
    busy.start()
    try:
        store = file_store(tmp_path / "crawl.db", wall=time.time)
        done, spent_s, _ = await crawl(store, PAGES // 10)
        await store.close()
    finally:
        stop.set()
        busy.join()
    say(f"\n{done} pages in {spent_s:.2f} s: {done / spent_s:.0f} pages/s beside a busy thread")


async def test_links_inserted_per_second_and_bytes_per_url(tmp_path):
    """New links in pages of 50, on ten hosts at a time; then the same links again, all known."""
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=time.time)
    await store.open_session("bench")
    groups = [
        [link(url, host) for url in urls_of(host, 1_000)[start : start + LINKS]]
        for start in range(0, 1_000, LINKS)
        for host in range(max(1, PAGES // 100))
    ]
    total = sum(map(len, groups))
    for title in ("new", "known, and seen lately in part"):
        start_s = time.perf_counter()
        for n in range(0, len(groups), BATCH):
            await store.add([one for group in groups[n : n + BATCH] for one in group])
        rate = total / (time.perf_counter() - start_s)
        say(f"\n{total} links ({title}): {rate:.0f} links/s, {rate / LINKS:.0f} pages/s")
    await store.close()
    say(f"{path.stat().st_size / total:.0f} bytes a queued URL")
    assert path.stat().st_size / total < 250


def test_opening_does_not_read_the_frontier(tmp_path):
    """Time from opening the database to the first claim."""

    async def run() -> None:
        path = tmp_path / "crawl.db"
        store = file_store(path, wall=time.time)
        await store.open_session("bench")
        hosts = max(10, PAGES // 10)
        for host in range(0, hosts, 10):
            await store.add([link(u, h) for h in range(host, host + 10) for u in urls_of(h, 10)])
        await store.close()
        start_s = time.perf_counter()
        store = file_store(path, wall=time.time)
        session = await store.open_session("bench")
        leases = await store.claim(session, hosts=256, urls_per_host=8)
        say(
            f"\nopening {hosts * 10} URLs on {hosts} hosts and claiming {len(leases)} hosts:"
            f" {(time.perf_counter() - start_s) * 1e3:.0f} ms"
        )
        await store.close()

    asyncio.run(run())

"""What the queued URLs of a database wait for, summed by reason."""

from __future__ import annotations

from typing import Any

import pytest

from storage.read_records import HostsWaiting, StoredReason
from storage.store import HostClock


@pytest.fixture
async def crawl(rig: Any) -> Any:
    """Six hosts, of which one is held by the session."""
    for name, count in (("a", 3), ("b", 1), ("c", 2), ("d", 5), ("e", 4), ("f", 6)):
        await rig.add(*(f"http://{name}.test/{number}" for number in range(count)))
    leases = {lease.slot: lease for lease in await rig.claim(10, 10)}
    clocks = {
        "a.test": HostClock(backoff_in_s=60.0, next_in_s=60.0, delay_s=2.0),
        "b.test": HostClock(next_in_s=5.0, delay_s=2.0),
        "c.test": HostClock(connect_failures=3, next_in_s=9.0),
        "e.test": HostClock(delay_s=1.0),
        "f.test": HostClock(),
    }
    for name, clock in clocks.items():
        await rig.commit(leases[name], clock=clock, release=True)
    await rig.store.set_controls(["f.test"], paused=True)
    return rig


async def test_every_queued_url_is_counted_once_by_its_reason(crawl: Any) -> None:
    rows = await crawl.reader.queue_waits(crawl.wall_s)
    found = {(row["host"], row["reason"]): (row["urls"], row["hosts"]) for row in rows}
    assert found == {
        ("", StoredReason.BACKOFF): (3, 1), ("", StoredReason.DELAY): (1, 1),
        ("", StoredReason.UNREACHABLE): (2, 1), ("d.test", StoredReason.READY): (5, 1),
        ("", StoredReason.READY): (4, 1), ("", StoredReason.PAUSED): (6, 1),
    }  # fmt: skip
    assert sum(row["visited_hosts"] for row in rows) == 0
    assert sum(row["urls"] for row in rows) == (await crawl.reader.stats()).queued


async def test_it_says_when_they_may_move_and_when_they_can_be_done(crawl: Any) -> None:
    now_s = crawl.wall_s
    rows = {row["reason"]: row for row in await crawl.reader.queue_waits(now_s) if not row["host"]}
    backoff = rows[StoredReason.BACKOFF]
    assert backoff["first_at"] == backoff["last_at"] == pytest.approx(now_s + 60, abs=1)
    assert backoff["through_at"] == pytest.approx(now_s + 60 + 3 * 2, abs=1)
    assert rows[StoredReason.READY]["through_at"] == pytest.approx(now_s + 4 * 1, abs=1)
    assert rows[StoredReason.DELAY]["last_at"] == pytest.approx(now_s + 5, abs=1)


@pytest.mark.parametrize("released", [True, False])
async def test_hosts_with_visited_urls_that_are_gone_are_counted(rig: Any, released: bool) -> None:
    """Also those that the session holds: their rows are written with every commit."""
    for name in "abcd":
        await rig.add(f"http://{name}.test/1", f"http://{name}.test/2")
    for lease in await rig.claim(10, 10):
        visited = lease.slot in ("a.test", "b.test")
        done = [rig.visited(lease.prefetched.urls[0], lease.slot)] if visited else []
        clock = HostClock(connect_failures=2 if lease.slot in ("b.test", "c.test") else 0)
        await rig.commit(lease, *done, clock=clock, release=released)
    rows = await rig.reader.queue_waits(rig.wall_s)
    assert sum(row["hosts"] for row in rows) == 4
    assert sum(row["visited_hosts"] for row in rows) == 2
    assert sum(row["gone_hosts"] for row in rows) == 1


async def test_an_empty_database_has_none(rig: Any) -> None:
    assert list(await rig.reader.queue_waits(rig.wall_s)) == []


async def held(crawl: Any, *stored: StoredReason, **more: Any) -> list[str]:
    page = await crawl.reader.hosts_page(
        waiting=HostsWaiting(stored=stored, **more), now_s=crawl.wall_s, limit=10
    )
    return [row["host"] for row in page.rows]


async def test_the_hosts_of_every_reason_are_those_that_were_counted(crawl: Any) -> None:
    assert await held(crawl, StoredReason.BACKOFF) == ["a.test"]
    assert await held(crawl, StoredReason.READY) == ["d.test", "e.test"]
    assert await held(crawl, StoredReason.DELAY, StoredReason.PAUSED) == ["b.test", "f.test"]
    assert await held(crawl, *StoredReason) == [f"{name}.test" for name in "abcdef"]
    assert await held(crawl) == []


async def test_what_is_known_of_hosts_in_memory_wins_over_their_rows(crawl: Any) -> None:
    ready = StoredReason.READY
    assert await held(crawl, ready, others=["d.test", "nobody.test"]) == ["e.test"]
    assert await held(crawl, ready, named=["a.test"]) == ["a.test", "d.test", "e.test"]
    assert await held(crawl, named=["c.test"], others=["c.test"]) == ["c.test"]


async def test_a_host_without_queued_urls_is_held_by_nothing(rig: Any) -> None:
    await rig.add("http://a.test/")
    (lease,) = await rig.claim(1)
    done = rig.visited(lease.prefetched.urls[0], "a.test")
    await rig.commit(lease, done, clock=HostClock(next_in_s=60.0), release=True)
    assert await held(rig, *StoredReason, named=["a.test"]) == []
